// SPDX-License-Identifier: MIT
//
// tests/unit/program_devices.hpp: programs twice: in the form that devices run, as a CPU runs it, and in the
// sequential reference. What is done is done to both, and compared: verdict, bytes, steps, where it is
// redirected, what it puts out, every map.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "gpu/program_code.hpp"
#include "gpu/program_state.hpp"
#include "gpu/reference/program.hpp"
#include "gpu/stages/program_code.h"
#include "tests/kernel/programs/random.hpp"

namespace xdpgpu::gpu::programs {

using reference::ProgramAnswer;
using reference::ProgramFault;
using reference::ProgramPacket;
using test::Bytes;
using test::Code;

inline constexpr u32 kQueues = 3;
inline constexpr std::array<u64, 2> kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

inline Program program_of(Code code, std::vector<Map> maps = {}) {
  return {.name = "test", .instructions = std::move(code), .maps = std::move(maps), .license = "GPL"};
}

inline tl::expected<Image, std::string> image_of(const Program& program) {
  return image_of(std::span(&program, 1), {.queues = kQueues, .key = kKey});
}

// Two to nine instructions of any bytes, most of which are operations, and an end: what no verifier has seen.
inline Code any_code(dataplane::Random& random) {
  static constexpr u8 kOpcodes[]{0x05, 0x06, 0x07, 0x0f, 0x15, 0x18, 0x1d, 0x25, 0x2f, 0x3f, 0x61, 0x62,
                                 0x63, 0x69, 0x6a, 0x6b, 0x71, 0x72, 0x73, 0x79, 0x7a, 0x7b, 0x81, 0x85,
                                 0x85, 0x91, 0x9f, 0xb7, 0xbf, 0xbf, 0xc3, 0xdb, 0xd7, 0xdc, 0x95};
  Code code;
  const u32 count = 2 + random() % 8;
  for (u32 i = 0; i < count; ++i)
    code.push_back(
        {.opcode = random() % 16 == 0 ? static_cast<u8>(random()) : kOpcodes[random() % std::size(kOpcodes)],
         .destination = static_cast<u8>(random() % 10),
         .source = static_cast<u8>(random() % 2 == 0 ? 0 : random() % 11),
         .offset = static_cast<std::int16_t>(random() % 2 == 0 ? 0 : random() % 16 - 8),
         .immediate = static_cast<std::int32_t>(random() % 2 == 0 ? 0 : random() % 70)});
  code.push_back(test::leave());
  return code;
}

// The same under the keys 0 to 2 of each map, on a device and by definition: what value(map) gives.
template <class Value>
void fill(const std::vector<Map>& maps, DeviceState& state, reference::ProgramMaps& expected, Value value) {
  for (u32 map = 0; map < maps.size(); ++map)
    for (u8 key = 0; key < 3; ++key) {
      const Bytes one = value(maps[map]);
      if (state.update(map, {{key, 0, 0, 0}}, one) != 0 ||
          expected[map].update({{key, 0, 0, 0}}, one, 0, 0) != 0)
        throw std::logic_error("there is no place in the map " + maps[map].name);
    }
}

// A machine that is about to run a packet without metadata: its first two groups. The frame is the packet's.
inline void set_machine(xg_program_machine& m, Image& image, const ProgramPacket& packet,
                        std::vector<u32>& frame) {
  frame.assign((packet.bytes.size() + 3) / 4, 0);
  std::memcpy(frame.data(), packet.bytes.data(), packet.bytes.size());
  m.code = {image.code.data()};
  m.tables = {image.tables.data()};
  m.state = {image.state.data()};
  m.frame = {frame.data()};
  m.meta = m.data = XG_PROGRAM_HEADROOM;
  m.end = m.data + static_cast<u32>(packet.bytes.size());
  m.frame_bias = 0u - m.data;
  m.queue = 0;
  m.most_steps = XG_PROGRAM_STEPS;
  m.most_lines = 0;
  m.seeks_key = m.key_bits = m.key_set = 0;
}

class Device {
 public:
  explicit Device(Image code) : code_(std::move(code)), machine_(std::make_unique<xg_program_machine>()) {}

  // `at`: at which byte the packet's first one stands, metadata and all.
  ProgramAnswer run(u32 program, const ProgramPacket& packet, u32 at = 0) {
    xg_program_machine& m = *machine_;
    // What another packet left is nobody's.
    std::memset(static_cast<void*>(&m), 0x5a, sizeof(m));
    const std::size_t bytes = packet.metadata.size() + packet.bytes.size();
    std::vector<u32> frame((at + bytes + 3) / 4);
    auto* first = reinterpret_cast<u8*>(frame.data()) + at;
    std::ranges::copy(packet.metadata, first);
    std::ranges::copy(packet.bytes, first + packet.metadata.size());
    m.code = {code_.code.data()};
    m.tables = {code_.tables.data()};
    m.state = {code_.state.data()};
    m.frame = {frame.data()};
    m.data = XG_PROGRAM_HEADROOM;
    m.meta = m.data - static_cast<u32>(packet.metadata.size());
    m.end = m.data + static_cast<u32>(packet.bytes.size());
    m.frame_bias = at - m.meta;
#ifdef XG_PROGRAM_NEAR
    // Where all of it is near it is read there alone, but for the interpreter's last word.
    const u32 near = std::min<u32>(XG_PROGRAM_NEAR, m.end - m.meta);
    std::vector<u32> copy((near + 3) / 4 + 1);
    std::memcpy(reinterpret_cast<u8*>(copy.data()) + 1, first, near);
    m.near = {copy.data()};
    m.near_bias = 1 - m.meta;
    m.near_end = m.meta + near;
    if (packet.most_lines == 0 && near > 4 && near == m.end - m.meta) std::memset(first, 0xa5, near - 4);
#endif
    const std::vector<u32> before = frame;
    m.time = packet.time_ns;
    m.random = packet.random;
    m.queue = packet.queue;
    m.ingress = packet.ingress_ifindex;
    m.egress = packet.egress_ifindex;
    m.most_steps = static_cast<u32>(packet.most_steps);
    m.most_lines = packet.most_lines;
    m.seeks_key = seeks_key ? 1 : 0;
    m.key_bits = key_bits;
    m.key_set = key_set;
    std::memset(event_.data(), 0xa5, sizeof(event_));
    m.event = {event_.data()};
    if (translated == nullptr) {
      xg_program_run(m, program);
    } else {
      // What says which bytes of the packet came as they are is the interpreter's.
      m.first = m.meta;
      m.last = m.end;
      m.lines_used = 0;
      m.has_event = 0;
#ifndef XG_PROGRAM_FEW_LINES
      std::ranges::fill(m.line_of, 0u);
#endif
      translated(m);
    }
    ProgramAnswer answer;
    answer.fault = static_cast<ProgramFault>(m.fault);
    answer.action = m.fault == 0 ? static_cast<u32>(m.r[0]) : 0;
    for (u32 place = m.meta; place < m.end; ++place)
      (place < m.data ? answer.metadata : answer.packet)
          .push_back(static_cast<u8>(xg_program_frame_byte(m, place)));
    answer.steps = m.steps;
    if (answer.action == XDP_REDIRECT && m.redirect_to != 0)
      answer.redirect = {.map = m.redirect_to >= 2 ? std::optional(m.redirect_map) : std::nullopt,
                         .key = m.redirect_key,
                         .ifindex = m.redirect_ifindex,
                         .flags = m.redirect_flags};
    if (m.has_event != 0) answer.event = event();
    if (frame != before) throw std::logic_error("the packet itself was written to");
    return answer;
  }

  // Others of the same maps: their state goes on.
  void change(Image code) {
    code.state = std::move(code_.state);
    code_ = std::move(code);
  }
  DeviceState state() { return {code_.tables, code_.state}; }
  Image& code() { return code_; }
  xg_program_machine& machine() { return *machine_; }
  // Runs only seek the key that orders their packet.
  bool seeks_key = false;
  // As of the machine.
  u32 key_bits = 0, key_set = 0;
  // Of the only program: runs in the interpreter's place, and does not say how many steps it took.
  void (*translated)(xg_program_machine&) = nullptr;

 private:
  // With zeros from its last byte's sixteen on.
  xg_event event() const {
    xg_event event{};
    std::memcpy(&event, event_.data(), 16);
    const u32 quads = (event.length + 15u) / 16;
    if (event.length > XG_EVENT_BYTES) throw std::logic_error("an event is longer than there is room for");
    std::memcpy(event.bytes, event_.data() + 1, quads * sizeof(xg_quad));
    const auto* const rest = reinterpret_cast<const u8*>(event_.data() + 1 + quads);
    if (std::any_of(rest, reinterpret_cast<const u8*>(&event_ + 1), [](u8 byte) { return byte != 0xa5; }))
      throw std::logic_error("more of an event was written than there is");
    return event;
  }

  std::array<xg_quad, sizeof(xg_event) / sizeof(xg_quad)> event_{};
  Image code_;
  std::unique_ptr<xg_program_machine> machine_;
};

// What a map has: by key, by queue; what is 0 is left out, and so are an array's entries that are.
using Contents = std::map<Bytes, std::map<u32, Bytes>>;
inline void put(Contents& contents, const Map& map, const Bytes& key, u32 queue, const Bytes& value) {
  const bool is_array = map.type == BPF_MAP_TYPE_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_ARRAY;
  const bool is_zero = std::ranges::all_of(value, [](u8 byte) { return byte == 0; });
  if (!is_array || !is_zero) contents[key];
  if (!is_zero) contents[key][queue] = value;
}
inline Contents contents_of(const DeviceState& state, u32 number, const Map& map) {
  Contents contents;
  for (const auto& entry : state.entries(number))
    for (u32 queue = 0; queue < entry.values.size(); ++queue)
      put(contents, map, entry.key, queue, entry.values[queue]);
  return contents;
}
inline Contents contents_of(const reference::ProgramMap& map) {
  Contents contents;
  for (const auto& entry : map.entries()) {
    put(contents, map.settings(), entry.key, 0, {});
    for (const auto& [queue, value] : entry.values) put(contents, map.settings(), entry.key, queue, value);
  }
  return contents;
}
inline std::string text_of(const Contents& contents) {
  std::string text;
  for (const auto& [key, values] : contents) {
    text += fmt::format("\n  {:02x}:", fmt::join(key, ""));
    for (const auto& [queue, value] : values)
      text += fmt::format(" [{}] {:02x}", queue, fmt::join(value, ""));
  }
  return text;
}

class DeviceTwins {
 public:
  // is_sharded: the LRU hashes are. Then programs look into them by one key in a run.
  explicit DeviceTwins(const std::vector<Map>& maps, const std::vector<Map>& inner = {},
                       bool is_sharded = false)
      : settings_{.queues = kQueues, .key = kKey, .inner = inner, .by_key = is_sharded},
        maps_(maps),
        state_(maps, is_sharded ? &kKey : nullptr),
        set_(state_) {
    for (const Map& map : inner) inner_.push_back(reference::ProgramMap::of(map));
  }

  // Its number. Throws what devices do not take.
  u32 add(const Code& code) {
    programs_.push_back(program_of(code, maps_));
    auto made = image_of(programs_, settings_);
    if (!made) throw std::logic_error(made.error());
    if (device_)
      device_->change(std::move(*made));
    else
      device_.emplace(std::move(*made));
    return set_.add(code);
  }

  // As user space does it; true if both answer the same.
  bool update(u32 map, const Bytes& key, const Bytes& value, u64 flags = 0, u32 queue = 0) {
    return device_->state().update(map, key, value, flags, queue) ==
           state_[map].update(key, value, flags, queue);
  }
  bool erase(u32 map, const Bytes& key) { return device_->state().erase(map, key) == state_[map].erase(key); }
  // The inner map of that number into a map of maps.
  void put_map(u32 outer, u32 index, u32 inner) {
    device_->state().put_map(outer, index, static_cast<u32>(maps_.size()) + inner);
    state_[outer].put_inner(index, inner_[inner]);
  }

  // Empty, or what is different.
  std::string run(u32 program, const ProgramPacket& packet, bool maps = true, u32 at = 0) {
    expected_ = set_.run(program, packet);
    answer_ = device_->run(program, packet, at);
    std::string text;
    const auto compare = [&](const char* what, const auto& a, const auto& b) {
      if (a != b) text += fmt::format("{}: {} for {}\n", what, a, b);
    };
    compare("fault", static_cast<u32>(answer_.fault), static_cast<u32>(expected_.fault));
    compare("action", answer_.action, expected_.action);
    if (expected_.fault == ProgramFault::none && device_->translated == nullptr)
      compare("steps", answer_.steps, expected_.steps);
    if (answer_.packet != expected_.packet)
      text += fmt::format("packet: {:02x} for {:02x}\n", fmt::join(answer_.packet, ""),
                          fmt::join(expected_.packet, ""));
    if (answer_.metadata != expected_.metadata)
      text += fmt::format("metadata: {:02x} for {:02x}\n", fmt::join(answer_.metadata, ""),
                          fmt::join(expected_.metadata, ""));
    if (answer_.redirect != expected_.redirect) text += "where it is redirected\n";
    if (answer_.event.has_value() != expected_.event.has_value() ||
        (answer_.event && std::memcmp(&*answer_.event, &*expected_.event, sizeof(xg_event)) != 0))
      text += "what it puts out\n";
    return maps ? text + difference_of_maps() : text;
  }
  std::string difference_of_maps() {
    std::string text;
    const auto compare = [&](u32 number, const reference::ProgramMap& map) {
      const Contents a = contents_of(device_->state(), number, map.settings()), b = contents_of(map);
      if (map.settings().type != BPF_MAP_TYPE_ARRAY_OF_MAPS && a != b)
        text += fmt::format("map {}: device{}\nreference{}\n", map.settings().name, text_of(a), text_of(b));
    };
    for (u32 i = 0; i < maps_.size(); ++i) compare(i, state_[i]);
    for (u32 i = 0; i < inner_.size(); ++i) compare(static_cast<u32>(maps_.size()) + i, *inner_[i]);
    return text;
  }

  const ProgramAnswer& answer() const { return answer_; }
  Device& device() { return *device_; }

 private:
  ImageSettings settings_;
  std::vector<Map> maps_;
  std::vector<Program> programs_;
  std::optional<Device> device_;
  reference::ProgramMaps state_;
  reference::ProgramSet set_;
  std::vector<std::shared_ptr<reference::ProgramMap>> inner_;
  ProgramAnswer answer_, expected_;
};

}  // namespace xdpgpu::gpu::programs
