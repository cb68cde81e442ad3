// SPDX-License-Identifier: MIT
//
// tests/stages/streams_by_hand.hpp: connections, packet by packet, and rules on what they say.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "gpu/stages/signatures/layout.h"
#include "tests/backends/judge.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests::by_hand {

namespace sig = gpu::signatures;
using gpu::PipelineSettings;
using gpu::SignaturesSettings;
using Bytes = std::vector<u8>;

inline constexpr u8 kFin = 1, kSyn = 2, kRst = 4, kAck = 16;
inline constexpr u32 kWindow = 256;

inline void put(Bytes& to, std::initializer_list<u32> bytes) {
  for (const u32 byte : bytes) to.push_back(static_cast<u8>(byte));
}
inline void put16(Bytes& to, u32 value) { put(to, {value >> 8, value}); }
inline void put32(Bytes& to, u32 value) {
  put16(to, value >> 16);
  put16(to, value);
}

inline sig::Addresses any_address() {
  sig::Address v4{}, v6{};
  std::fill_n(v4.begin(), 4, u8{0xff});
  v6.fill(0xff);
  return {{{sig::Address{}, v4}}, {{sig::Address{}, v6}}};
}

inline sig::Content content(std::string bytes) {
  sig::Content made;
  made.bytes = std::move(bytes);
  return made;
}
inline sig::Content absent(std::string bytes) {
  sig::Content made = content(std::move(bytes));
  made.negated = true;
  return made;
}
inline sig::Content behind(std::string bytes, std::int64_t distance, std::int64_t within) {
  sig::Content made = content(std::move(bytes));
  made.distance = {distance, {}};
  made.within = {within, {}};
  return made;
}
inline sig::Content first(std::string bytes, std::int64_t depth) {
  sig::Content made = content(std::move(bytes));
  made.depth = {depth, {}};
  return made;
}

// By its first content.
inline sig::Signature rule(std::vector<sig::Step> steps, sig::Action action = sig::Action::alert,
                           sig::Where where = sig::Where::stream) {
  sig::Signature made;
  made.action = action;
  made.where = where;
  made.header.protocols.set(6);
  made.header.src = made.header.dst = any_address();
  const auto size = std::get<sig::Content>(steps[0]).bytes.size();
  made.payload = std::move(steps);
  made.fast_pattern = sig::FastPattern{0, 0, static_cast<u32>(size)};
  return made;
}
inline sig::Signature rule(std::string bytes, sig::Action action = sig::Action::alert,
                           sig::Where where = sig::Where::stream) {
  return rule({content(std::move(bytes))}, action, where);
}

inline SignaturesSettings with(std::vector<sig::Signature> rules) {
  SignaturesSettings settings;
  settings.work = gpu::kMostSoftwareWork;
  settings.streams = 8;
  settings.inspect.window = kWindow;
  settings.rules.signatures = std::make_shared<const std::vector<sig::Signature>>(std::move(rules));
  return settings;
}

// Packets of connections between 192.0.2.1, port 1000 and up, and 192.0.2.2, port 80. Positions count from
// each side's first byte.
class Wire {
 public:
  enum Side : u32 { client, server };
  explicit Wire(u32 packets) : traffic_{FrameRegion(u64{packets} * XG_CHUNK_SIZE), {}} {}

  // -> its number
  u32 send(Side side, u32 position, std::string_view payload, u8 flags = kAck, u32 acknowledges = 0,
           u16 port = 1000) {
    const std::array<u16, 2> ports{port, 80};
    Bytes frame(12, 2);
    put(frame, {8, 0, 0x45, 0});
    put16(frame, 40 + static_cast<u32>(payload.size()));
    put(frame, {0, 1, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1u + side, 192, 0, 2, 2u - side});
    put16(frame, ports[side]);
    put16(frame, ports[1 - side]);
    put32(frame, kFirst[side] + position);
    put32(frame, kFirst[1 - side] + acknowledges);
    put(frame, {0x50, flags, 1, 0, 0, 0, 0, 0});
    frame.insert(frame.end(), payload.begin(), payload.end());
    const auto number = static_cast<u32>(traffic_.descriptors.size());
    traffic_.descriptors.push_back(
        place(traffic_.region, u64{number} * XG_CHUNK_SIZE + XG_FRAME_DATA, frame, 0, number));
    return number;
  }
  void open(u16 port = 1000) {
    send(client, ~0u, "", kSyn, 0, port);
    send(server, ~0u, "", kSyn | kAck, 0, port);
  }
  const Traffic& traffic() const { return traffic_; }

 private:
  // One side's numbers come round.
  static constexpr std::array<u32, 2> kFirst{0xffffffc0, 7000};
  Traffic traffic_;
};

class StreamsByHand : public testing::TestWithParam<Target> {
 protected:
  // Sends it all through, in batches of different sizes: the answers are the reference's.
  void decide(const Wire& wire, const SignaturesSettings& settings) {
    const std::vector<PipelineSettings> all{{"streams", {settings}}};
    const auto pipelines = gpu::Pipelines::compile(all);
    ASSERT_TRUE(pipelines) << pipelines.error();
    const Traffic& traffic = wire.traffic();
    XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
    auto queue = device->open_queue(GetParam().queue(64, 3));
    ASSERT_TRUE(queue) << queue.error();
    const Answers should = expected(traffic, all);
    for (const u32 batch : {64u, 3u}) {
      ASSERT_TRUE(device->load(kGeneration, *pipelines));
      answers_ = judge(**queue, traffic.descriptors, batch, kGeneration);
      device->unload(kGeneration);
      expect_equal(answers_, should, traffic.descriptors);
      if (HasFailure()) return;
    }
  }
  // Positions of the rules that fire with a packet.
  std::vector<u32> fired(u32 packet) const {
    const Answer& answer = answers_[packet];
    if ((answer.flags & XG_RES_ALERTS) == 0) return {};
    return {answer.alerts.rules, answer.alerts.rules + (answer.alerts.count & ~XG_ALERTS_MORE)};
  }
  bool fires(u32 packet, u32 rule) const {
    const std::vector<u32> all = fired(packet);
    return std::find(all.begin(), all.end(), rule) != all.end();
  }
  bool dropped(u32 packet) const { return XG_VERDICT_ACTION(answers_[packet].verdict) == XG_DROP; }
  u32 number(u32 packet) const { return XG_VERDICT_RULE(answers_[packet].verdict); }

  Answers answers_;
};

using Fired = std::vector<u32>;

}  // namespace xdpgpu::tests::by_hand
