// SPDX-License-Identifier: MIT
//
// tests/netns/lab/wire.hpp: raw frames onto an interface and off it.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <vector>

#include "tests/netns/lab/frame.hpp"

namespace xdpgpu::lab {

using namespace std::chrono_literals;
using Millis = std::chrono::milliseconds;

// Sends raw frames out of an interface (AF_PACKET), in order. Several queues: the kernel picks one by
// the flow's hash.
class Sender {
 public:
  // bypass_qdisc: straight to the driver, into one queue; faster, and what does not fit there is lost.
  explicit Sender(const Interface& interface, bool bypass_qdisc = false);
  // Sends every frame once; waits while the socket's buffer is full. Throws Error when a frame is
  // refused for good.
  void send(const Frame& frame) { send(std::span(&frame, 1)); }
  void send(std::span<const Frame> frames);
  // Likewise, but no faster than `pps` packets a second, evenly in bursts of a millisecond.
  void send_paced(std::span<const Frame> frames, unsigned pps);
  // Cycles through `frames` until `packets` were sent or `duration` has passed; what the driver
  // refuses is not counted. Returns the packets sent. For load, not for exact counts.
  std::uint64_t blast(std::span<const Frame> frames, std::uint64_t packets, Millis duration);

 private:
  Fd fd_;
};

struct Captured {
  Frame frame;               // as on the wire, tags included
  bool tag_in_frame = true;  // false: the kernel delivered the outer tag beside the frame
  bool outgoing = false;
  std::uint64_t time_ns = 0;  // CLOCK_REALTIME
};

// Sees every frame on an interface (AF_PACKET, promiscuous) from construction on. The kernel takes the
// outer tag off incoming frames before it shows them; it is put back into `frame`.
class Sniffer {
 public:
  enum class Direction { incoming, outgoing, both };
  explicit Sniffer(const Interface& interface, Direction direction = Direction::incoming);

  using Filter = std::function<bool(const Captured&)>;
  // Frames that pass `filter`, until there are `count` of them or `timeout` has passed since the call.
  std::vector<Captured> take(std::size_t count, Millis timeout, const Filter& filter = {});
  // All frames until none has come for `quiet`, at most for `limit`.
  std::vector<Captured> drain(Millis quiet = 100ms, Millis limit = 10s, const Filter& filter = {});
  // Frames the socket's buffer could not take since the last call: a test that counts requires 0.
  unsigned lost();

 private:
  bool next(Captured& out, int timeout_ms);
  Fd fd_;
  Direction direction_;
  Frame buffer_;
};

// Filters.
Sniffer::Filter udp_to(std::uint16_t dst_port);
Sniffer::Filter with_payload(std::string_view prefix);

}  // namespace xdpgpu::lab
