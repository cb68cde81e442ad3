// SPDX-License-Identifier: MIT
#include "tests/stages/stream_traffic.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>

#include "maps/parse.h"
#include "tests/stages/http_text.hpp"

namespace xdpgpu::tests {
namespace {

using Bytes = std::vector<u8>;

void put(Bytes& to, std::initializer_list<u32> bytes) {
  for (const u32 byte : bytes) to.push_back(static_cast<u8>(byte));
}
void put16(Bytes& to, u32 value) { put(to, {value >> 8, value}); }
void put32(Bytes& to, u32 value) {
  put16(to, value >> 16);
  put16(to, value);
}

constexpr u8 kFin = 1, kSyn = 2, kRst = 4, kPush = 8, kAck = 16;

// What one side says, and how far it has come.
struct Speaker {
  u32 first = 0;  // number of its SYN
  std::string text;
  u32 said = 0;
};

struct Talk {
  bool v6 = false;
  u8 vlan = 0;
  std::array<u8, 2> hosts{};
  std::array<u16, 2> ports{};
  std::array<Speaker, 2> sides;
  u32 pipeline = 0;
  u32 packets = 0;  // that it has had
};

struct Segment {
  u8 flags = kAck;
  u32 position = 0;  // of its first byte in the side's text; 0xffffffff: its SYN
  Bytes payload;
};

std::string random_text(Random& random) {
  constexpr std::array kLetters{'a', 'b', 'A', 'B', '0', '1', ' ', '\0', '\xff'};
  const u32 bytes = random.one_in(8) ? random.between(4000, 9000) : random.between(0, 1600);
  std::string text;
  while (text.size() < bytes) text.push_back(random.pick(kLetters));
  return text;
}

// ---- ClientHellos ----------------------------------------------------------------------------------------

Bytes sized(u32 bytes, const Bytes& what) {
  Bytes made;
  for (u32 i = bytes; i-- > 0;) made.push_back(static_cast<u8>(what.size() >> 8 * i));
  made.insert(made.end(), what.begin(), what.end());
  return made;
}
void append(Bytes& to, const Bytes& what) { to.insert(to.end(), what.begin(), what.end()); }

// As random_name_is() of signatures looks for them.
Bytes random_host(Random& random) {
  constexpr std::array kLetters{'a', 'b', 'A', 'B', '0', '.'};
  const u32 bytes = random.one_in(16) ? random.between(200, 300) : random.below(12);
  Bytes name;
  while (name.size() < bytes) name.push_back(static_cast<u8>(random.pick(kLetters)));
  if (bytes != 0 && random.one_in(16)) name[random.below(bytes)] = 0;
  return name;
}

Bytes random_extension(Random& random) {
  Bytes extension{0, static_cast<u8>(random.one_in(2) ? 0 : random.below(60))};
  Bytes body(random.below(random.one_in(20) ? 600 : 30), 7);
  if (extension[1] == 0 && !random.one_in(8)) {
    Bytes entry{static_cast<u8>(random.one_in(12) ? 1 : 0)};
    append(entry, sized(2, random_host(random)));
    body = sized(2, entry);
  }
  append(extension, sized(2, body));
  return extension;
}

// Cut into records, with others between them, and a mistake now and then.
std::string random_hello(Random& random) {
  Bytes hello(34, 3);
  append(hello, sized(1, Bytes(random.one_in(2) ? 32 : 0, 5)));
  append(hello, sized(2, Bytes(2 * random.below(20), 6)));
  append(hello, sized(1, {0}));
  Bytes extensions;
  for (u32 i = random.below(4); i != 0; i--) append(extensions, random_extension(random));
  append(hello, sized(2, extensions));
  if (random.one_in(12)) hello[34 + random.below(static_cast<u32>(hello.size()) - 34)] ^= 9;
  Bytes message{static_cast<u8>(random.one_in(20) ? 2 : 1)};
  append(message, sized(3, hello));
  std::string text;
  for (std::size_t at = 0; at < message.size();) {
    const u32 most = random.one_in(3) ? 40 : 2000;
    const std::size_t bytes = std::min<std::size_t>(random.below(most), message.size() - at);
    Bytes record{22, 3, 1};
    if (random.one_in(16)) record[random.below(2)] = static_cast<u8>(random.between(3, 23));
    append(record, sized(2, Bytes(message.begin() + static_cast<std::ptrdiff_t>(at),
                                  message.begin() + static_cast<std::ptrdiff_t>(at + bytes))));
    text.append(record.begin(), record.end());
    at += bytes;
  }
  return text;
}

Talk random_talk(Random& random, u32 pipelines) {
  Talk talk;
  talk.v6 = random.one_in(3);
  talk.vlan = random.one_in(6) ? static_cast<u8>(random.between(1, 2)) : 0;
  talk.hosts = {static_cast<u8>(random.below(8)), static_cast<u8>(random.below(8))};
  talk.ports = {static_cast<u16>(random.between(1, 40)), static_cast<u16>(random.between(1, 40))};
  for (Speaker& side : talk.sides) {
    side.first = random.one_in(3) ? 0xffffffff - random.below(2000) : static_cast<u32>(random.bits());
    side.text = random_text(random);
  }
  if (random.one_in(2))
    talk.sides[0].text = random_hello(random) + talk.sides[0].text;
  else if (!random.one_in(4))
    talk.sides[0].text = random_http(random, random.between(1, 8));
  if (!random.one_in(3)) talk.sides[1].text = random_answers(random, random.between(1, 8));
  talk.pipeline = random.below(pipelines);
  return talk;
}

void put_address(Bytes& to, const Talk& talk, u32 end) {
  if (talk.v6)
    put(to, {0xfd, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, talk.hosts[end]});
  else
    put(to, {192, 0, 2, talk.hosts[end]});
}

Bytes frame_of(Random& random, const Talk& talk, u32 from, const Segment& segment) {
  Bytes tcp;
  put16(tcp, talk.ports[from]);
  put16(tcp, talk.ports[1 - from]);
  put32(tcp, talk.sides[from].first + 1 + segment.position);
  const Speaker& other = talk.sides[1 - from];
  const u32 heard = random.one_in(8) ? random.below(other.said + 1) : other.said;
  put32(tcp, random.one_in(40) ? static_cast<u32>(random.bits()) : other.first + 1 + heard);
  const bool options = random.one_in(5);
  put(tcp, {options ? 0x80u : 0x50u, segment.flags});
  put16(tcp, 1000);
  put(tcp, {0, 0, 0, 0});
  if (options) put(tcp, {1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2});
  tcp.insert(tcp.end(), segment.payload.begin(), segment.payload.end());

  Bytes frame(12, 0x02);
  if (talk.vlan != 0) put(frame, {0x81, 0, 0, talk.vlan});
  put16(frame, talk.v6 ? 0x86dd : 0x0800);
  const auto size = static_cast<u32>(tcp.size());
  if (talk.v6) {
    put(frame, {0x60, 0, 0, 0});
    put16(frame, size);
    put(frame, {6, 64});
  } else {
    put(frame, {0x45, 0});
    put16(frame, 20 + size);
    put(frame, {0, 0, 0, 0, 64, 6, 0, 0});
  }
  put_address(frame, talk, from);
  put_address(frame, talk, 1 - from);
  frame.insert(frame.end(), tcp.begin(), tcp.end());
  // What pads it is none of the stream.
  if (random.one_in(6)) frame.resize(frame.size() + random.below(8), 'a');
  return frame;
}

// longest: bytes of a segment.
Segment data_of(Random& random, Speaker& side, u32 longest) {
  Segment segment;
  const auto all = static_cast<u32>(side.text.size());
  u32 at = side.said;
  if (random.one_in(6)) at -= std::min(at, random.below(random.one_in(4) ? 4000 : 400));
  if (random.one_in(6)) at += random.below(random.one_in(6) ? 3000 : 300);
  at = std::min(at, all);
  const u32 most = random.one_in(8) ? longest : random.one_in(3) ? 20 : 250;
  const u32 size = std::min(all - at, random.between(1, most));
  segment.position = at;
  segment.payload.assign(side.text.begin() + at, side.text.begin() + at + size);
  if (size != 0 && random.one_in(40)) segment.payload[random.below(size)] ^= 1;
  if (random.one_in(4)) segment.flags |= kPush;
  if (at <= side.said) side.said = std::max(side.said, at + size);
  if (at + size == all && random.one_in(3)) segment.flags |= kFin;
  return segment;
}

Segment next_of(Random& random, Talk& talk, u32 from, u32 longest) {
  Speaker& side = talk.sides[from];
  const u32 number = talk.packets++;
  Segment segment;
  if (number < 2 && !random.one_in(20)) {
    segment.flags = static_cast<u8>(kSyn | (number == 1 ? kAck : 0));
    segment.position = 0xffffffff;
    if (!random.one_in(12)) return segment;
    side.said = std::min<u32>(random.below(60), static_cast<u32>(side.text.size()));
    segment.payload.assign(side.text.begin(), side.text.begin() + side.said);
    return segment;
  }
  if (random.one_in(60)) {
    segment.flags = static_cast<u8>(kRst | (random.one_in(2) ? kAck : 0));
    segment.position = random.one_in(3) ? random.below(5000) : side.said;
    if (random.one_in(4)) segment.payload.assign(20, 'a');
    return segment;
  }
  if (random.one_in(6)) {
    segment.position = side.said;
    if (random.one_in(12)) segment.flags = static_cast<u8>(random.below(256));
    return segment;
  }
  segment = data_of(random, side, longest);
  if (random.one_in(60)) segment.position = static_cast<u32>(random.bits());
  return segment;
}

// Whose first packet is the first side's.
u32 speaker(Random& random, const Talk& talk) { return talk.packets < 2 ? talk.packets : random.below(2); }

constexpr u64 kMillisecond = 1'000'000;

Traffic streams_of(Random& random, u32 packets, u32 pipelines, u32 longest) {
  Traffic from = random_traffic(random, packets, pipelines);
  Traffic traffic{std::move(from.region), {}};
  std::vector<Talk> talks;
  // More of each pipeline than a set has ways.
  for (u32 i = 0; i < 10 * pipelines; i++) {
    talks.push_back(random_talk(random, pipelines));
    talks.back().pipeline = i % pipelines;
  }
  u64 now_ns = 3'600'000'000'000;
  for (u32 i = 0; i < packets; i++) {
    const u64 offset = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
    now_ns += random.one_in(256) ? random.below(40'000) * kMillisecond : random.below(kMillisecond);
    if (random.one_in(16)) {
      traffic.descriptors.push_back(from.descriptors[i]);
      continue;
    }
    Talk& talk = talks[random.below(static_cast<u32>(talks.size()))];
    const u32 side = speaker(random, talk);
    const Bytes frame = frame_of(random, talk, side, next_of(random, talk, side, longest));
    const auto length = static_cast<u32>(frame.size());
    xg_descriptor descriptor = place(traffic.region, offset, frame, static_cast<u16>(talk.pipeline), i);
    u8* const at = traffic.region.base() + descriptor.offset;
    xg_metadata metadata;
    std::memcpy(&metadata, at - XG_METADATA_SIZE, sizeof(metadata));
    const u32 first = random.one_in(5) ? random.between(14, length - 1) : length;
    if (first != length) {
      xg_packet packet;
      xg_parse_part(at, at + first, length, 0, &packet);
      xg_metadata_from(&metadata, &packet, metadata.flow_hash);
      traffic.descriptors.push_back({descriptor.offset, first, XG_DESC_MORE});
      descriptor = {descriptor.offset + first, length - first, 0};
    }
    if (random.one_in(30)) metadata.flags |= XG_PKT_EGRESS;
    metadata.rx_time_ns = random.one_in(16) ? now_ns - random.below(500) * kMillisecond : now_ns;
    std::memcpy(at - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    traffic.descriptors.push_back(descriptor);
    if (talk.packets > 12 && random.one_in(30)) {
      // The same ports again, now and then.
      const Talk before = talk;
      talk = random_talk(random, pipelines);
      if (!random.one_in(3)) continue;
      talk.v6 = before.v6;
      talk.vlan = before.vlan;
      talk.hosts = before.hosts;
      talk.ports = before.ports;
      talk.pipeline = before.pipeline;
    }
  }
  return traffic;
}

}  // namespace

Traffic streams(Random& random, u32 packets, u32 pipelines) {
  return streams_of(random, packets, pipelines, 1400);
}
Traffic short_streams(Random& random, u32 packets, u32 pipelines) {
  return streams_of(random, packets, pipelines, 500);
}

}  // namespace xdpgpu::tests
