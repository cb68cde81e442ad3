// SPDX-License-Identifier: MIT
//
// userspace/dataplane/router.hpp: retirement: what a verdict does with its packet. DROP → free list,
// TX → the same port's TX ring, REDIRECT → the target port's TX ring (that of this worker, or by way of the
// worker that has it), PASS → the reinjection pair's. Here, and once, a packet is edited as the device says,
// or becomes what a program has left of it.
// What is dropped may be answered: what the device would have encapsulated and is too long for that, a DNS
// query that is refused, and what a rule rejects.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/hand_over.hpp"
#include "userspace/dataplane/order.hpp"
#include "userspace/dataplane/port_queue.hpp"
#include "userspace/dataplane/reject_answer.hpp"
#include "userspace/dataplane/too_long.hpp"
#include "userspace/dataplane/unparsed_ring.hpp"
#include "userspace/dataplane/ways.hpp"

namespace xdpgpu::dataplane {

// Of a batch that was routed.
struct Routed {
  bool passed = false;  // some of its packets went to a reinjection pair
  bool moving = false;  // the kernel may take over some of its flows once their packets have left
};

// Routes whole batches. Packets that leave by the same ring do so in order. Single-threaded, no allocation
// after construction, system calls only where a TX ring is full.
class Router {
 public:
  // queues[port]: the worker's queue of each port, nullptr where it has none. Their sockets stay the
  // same for the router's life. unparsed: where packets go that were not judged for their metadata; outlives
  // it.
  Router(u8* region, std::vector<PortQueue*> queues, FreeList& free, UnparsedRing& unparsed, OrderLog& order);

  // Before the first batch. What is to leave by a port of which this worker has no queue goes through `to`;
  // what others have for a port of this worker's comes from `from`. Both outlive it.
  void hand_over_to(HandOver& to) { others_.at(to.port()) = &to; }
  void take_from(HandOver& from) { givers_.push_back(&from); }

  // Whether the device that decides is the one that writes flow verdicts, too.
  void leave_publishing_to_device(bool publishes) noexcept { device_publishes_ = publishes; }

  // Every frame of the batch is on the free list or in a TX ring afterwards, those of one packet all on the
  // same, or its packet is to be parsed; TX rings are flushed, not kicked.
  Routed route(const Batch& batch, u64 now_ns) noexcept;
  // Frames whose transmission is over go to the free list, or back to whose they are; returns how many.
  u32 collect() noexcept;
  // Sends what other workers have for this one's ports; whether there was any.
  bool serve_others() noexcept;
  bool others_wait() const noexcept;
  // Asks the kernel to send.
  void kick() noexcept;
  // When no worker runs any more: what was to be sent and was not is lost. First abandon() of all of them,
  // then take_back().
  void abandon() noexcept;
  void take_back() noexcept;

  // Frames of this worker's that are to be sent, and not over: by this one and by others; of others, by this
  // one.
  u64 frames_out() const noexcept;
  u64 handed() const noexcept;
  u64 of_others() const noexcept { return of_others_; }
  u64 of_others(u32 port) const noexcept { return of_others_by_port_[port]; }

 private:
  static constexpr u32 kPortBits = 5;  // of a frame's in counted_as_
  void find_ways();
  void cover() noexcept;
  void drop_all(const Batch& batch) noexcept;
  // What is said of a datagram is done to each of its fragments.
  void route_assembled(const Batch& batch, const Assembled& datagram, u64 now_ns) noexcept;
  // Descriptors `first` to `end`, each a packet that came in on `port`. Those that want nothing special done
  // are sorted by their way; the others are decided one by one, and whatever stands in front of them goes
  // ahead.
  void route_run(const Batch& batch, u32 first, u32 end, u32 port, u64 now_ns) noexcept;
  // What a device says of packets, from one of a batch on: the records beside a result are there where it
  // names them.
  struct Judged {
    const xg_result* results;
    const xg_edit* edits;
    const xg_adjust* adjusts;
    const xg_patch* patches;
    Judged operator+(u32 packets) const noexcept {
      return {results + packets, edits + packets, adjusts + packets, patches + packets};
    }
  };
  // What was sorted of a block, whose first descriptor these are, and what is said of it.
  void leave(const xg_descriptor* descriptors, const Judged& judged, PortQueue& from) noexcept;
  void send(u32 way, u32 count, const xg_descriptor* descriptors, const Judged& judged,
            PortQueue& from) noexcept;
  // A descriptor of what the host sent.
  void forget_egress(u8 port, const xg_descriptor& descriptor) noexcept;
  // Packet: Buffers, or OneBuffer.
  template <class Packet>
  void decide(Packet packet, const Judged& judged, PortQueue& from, u64 now_ns) noexcept;
  // Where a packet goes: into a ring of this worker's, or over to another worker.
  struct Target {
    Transmitter* ring = nullptr;
    HandOver* over = nullptr;
    u32 packet_buffers = XG_PACKET_BUFFERS;  // that it takes
    explicit operator bool() const noexcept { return ring || over; }
  };
  // That the verdict names, if there is one.
  Target target_of(u32 verdict, const PortQueue& from) noexcept;
  bool caches_redirects(u32 port) const noexcept;
  static u64& count_of(xg_worker_counters& counters, u32 action) noexcept;
  // A packet is in the target's ring.
  template <class Packet>
  void note_sent(Packet packet, u32 port, u32 action) noexcept;
  // Waits until a packet of so many frames fits into a ring that is full, as long as the ring and the batch
  // have patience: a port that does not send must not hold up the others.
  bool make_room(Transmitter& to, u32 frames) noexcept;
  // The packet of this worker's that ends with this frame was not sent.
  void lost(FrameId frame) noexcept;
  // Likewise, of whichever worker's.
  void lost_by(FrameId frame) noexcept;
  void over(FrameId frame) noexcept;
  // Of the worker that gave it, nullptr where there is none.
  HandOver* giver_of(FrameId frame, const Transmitter& sent_by) noexcept;
  void give_back(FrameId frame, const Transmitter& sent_by) noexcept;
  template <class Packet>
  void give_up(Packet packet) noexcept {
    for (const xg_descriptor& buffer : packet) free_.push(frame_of(buffer.offset));
  }
  u32 collect(Transmitter& from) noexcept;
  // Of packets that are counted as dropped: their sender is told, if that may be.
  void drop_too_long(Buffers packet, u32 mtu, PortQueue& from, u64 now_ns) noexcept;
  void drop_refused(Buffers packet, PortQueue& from) noexcept;
  // rejects: XG_RES_REJECT_*.
  void drop_rejected(Buffers packet, u32 rejects, PortQueue& from, u64 now_ns) noexcept;
  // Whether the frame of the packet's first buffer is sent with that; the others' may be free by now.
  bool tell_rejected(Buffers packet, u32 rejects, PortQueue& from, u64 now_ns) noexcept;
  bool send_rejection(const xg_descriptor& first, u32 bytes, Told whom, PortQueue& from) noexcept;
  // Sends an answer that stands in a dropped packet's frame, or in a free one; false: there is no room.
  bool send_answer(Transmitter& to, const xg_descriptor& answer) noexcept;
  void cache(Buffers packet, const xg_result& result, PortQueue& from, u64 now_ns) noexcept;
  template <class Packet>
  bool transmit(const Target& to, Packet packet) noexcept;
  // Likewise, inside of the outer headers that the rewrite names.
  template <class Packet>
  bool transmit_inside(const Target& to, Packet packet, const xg_rewrite& rewrite, u32 flow_hash) noexcept;
  // Likewise, out of the outer headers that it came in; how many of its buffers are left, 0: it was not sent.
  template <class Packet>
  u32 transmit_inner(const Target& to, Packet packet, const xg_adjust& adjust, PortQueue& from) noexcept;
  // Likewise, as a program has left it; whatever comes of it is counted.
  void send_patched(const Target& to, Buffers packet, const Judged& judged, PortQueue& from) noexcept;
  void publish(Buffers packet, const xg_result& result, PortQueue& from, u64 now_ns) noexcept;

  u8* region_;
  std::vector<PortQueue*> queues_;
  std::vector<Transmitter*> transmitters_;  // each port's own, then each port's reinjection
  // By ring: where the kernel stood in it when it was last waited for in vain.
  std::vector<std::optional<u32>> stuck_at_;
  u32 tries_left_ = 0;             // of the batch under way, for all full rings
  std::vector<HandOver*> others_;  // by port; nullptr: this worker has a queue of it, or nobody does
  std::vector<HandOver*> givers_;
  // What was counted of a frame's packet as it was sent: port | XG_* << 5, or 0: nothing.
  std::vector<u8> counted_as_;
  std::vector<FrameId> lost_of_others_;  // and not back yet
  u64 of_others_ = 0;
  std::vector<u64> of_others_by_port_;
  FreeList& free_;
  UnparsedRing& unparsed_;
  OrderLog& order_;
  AnswerLimit answers_, rejections_;
  bool covered_ = false;
  Ways ways_;
  bool device_publishes_ = false;
  bool published_ = false;  // the verdicts of the batch under way, by the device
  Routed routed_;
};

// Writes the MAC addresses, TTL and IPv4 header checksum that the record sets over the frame's, whose
// metadata stand in front of it.
void apply_edit(u8* frame, const xg_edit& edit) noexcept;

}  // namespace xdpgpu::dataplane
