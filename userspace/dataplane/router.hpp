// SPDX-License-Identifier: MIT
//
// userspace/dataplane/router.hpp: retirement: what a verdict does with its packet. DROP → free list,
// TX → the same port's TX ring, REDIRECT → the target port's TX ring, PASS → the reinjection pair's. What the
// device would have encapsulated and is too long for that is dropped, and answered.
#pragma once

#include <span>
#include <vector>

#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/order.hpp"
#include "userspace/dataplane/port_queue.hpp"
#include "userspace/dataplane/too_long.hpp"

namespace xdpgpu::dataplane {

// Of a batch that was routed.
struct Routed {
  bool passed = false;  // some of its packets went to a reinjection pair
  bool moving = false;  // the kernel may take over some of its flows once their packets have left
};

// Routes whole batches, packet by packet in order. Single-threaded, no allocation after construction,
// system calls only where a TX ring is full.
class Router {
 public:
  // queues[port]: the worker's queue of each port, nullptr where it has none. Their sockets stay the
  // same for the router's life.
  Router(u8* region, std::vector<PortQueue*> queues, FreeList& free, OrderLog& order);

  // Whether the device that decides is the one that writes flow verdicts, too.
  void leave_publishing_to_device(bool publishes) noexcept { device_publishes_ = publishes; }

  // Every frame of the batch is on the free list or in a TX ring afterwards, those of one packet all on the
  // same; TX rings are flushed, not kicked.
  Routed route(const Batch& batch, u64 now_ns) noexcept;
  // Frames whose transmission is over go to the free list; returns how many.
  u32 collect() noexcept;

  // The worker's transmitters: each port's own, then each port's reinjection.
  std::span<Transmitter* const> transmitters() const noexcept { return transmitters_; }

 private:
  void drop_all(const Batch& batch) noexcept;
  // A descriptor of what the host sent.
  void forget_egress(u8 port, const xg_descriptor& descriptor) noexcept;
  // Packet: Buffers, or OneBuffer.
  template <class Packet>
  void decide(Packet packet, const xg_result& result, PortQueue& from, u64 now_ns) noexcept;
  // The transmitter that the verdict names; nullptr: there is none, or it does not take such long frames.
  Transmitter* target_of(u32 verdict, u32 buffers, const PortQueue& from) noexcept;
  template <class Packet>
  void give_up(Packet packet) noexcept;
  u32 collect(Transmitter& from) noexcept;
  // Tells its sender, if that may be.
  template <class Packet>
  void drop_too_long(Packet packet, u32 mtu, PortQueue& from, u64 now_ns) noexcept;
  void cache(Buffers packet, const xg_result& result, PortQueue& from, u64 now_ns) noexcept;
  template <class Packet>
  bool transmit(Transmitter& to, Packet packet) noexcept;
  // Likewise, inside of the outer headers that the rewrite names.
  template <class Packet>
  bool transmit_inside(Transmitter& to, Packet packet, const xg_rewrite& rewrite, u32 flow_hash) noexcept;
  void publish(Buffers packet, const xg_result& result, PortQueue& from, u64 now_ns) noexcept;

  u8* region_;
  std::vector<PortQueue*> queues_;
  std::vector<Transmitter*> transmitters_;
  FreeList& free_;
  OrderLog& order_;
  AnswerLimit answers_;
  bool device_publishes_ = false;
  bool published_ = false;  // the verdicts of the batch under way, by the device
  Routed routed_;
};

// Writes the MAC addresses, TTL and IPv4 header checksum that the result names over the frame's, whose
// metadata stand in front of it.
void apply_rewrite(u8* frame, const xg_result& result) noexcept;

}  // namespace xdpgpu::dataplane
