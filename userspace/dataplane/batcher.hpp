// SPDX-License-Identifier: MIT
//
// userspace/dataplane/batcher.hpp: a worker's packets, gathered into batches for the device. A batch
// holds packets of one policy generation, each with all its buffers, in the order of arrival; batches come
// back in the order they were submitted.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <vector>

#include "gpu/doorbell.hpp"
#include "gpu/gpu.hpp"
#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {

// When the open batch goes to the device, other than when it is full.
//   patient  when its oldest packet has waited for max_wait, or the device has nothing to do and no packet is
//            there to join: the largest batches that max_wait allows.
//   by_load  when the device has nothing to do; while it has, when the oldest packet has waited for half of
//            what the last batches took there (their mean, each counting an eighth), at most max_wait. So a
//            device that answers in 5 us gets a batch every 2.5 us, of one packet or of many, and one that
//            falls behind takes longer for each batch and gets larger ones, until they are full.
enum class Closing { patient, by_load };

enum class Outcome { decided, device_failed, unknown_generation };

// Received packets that stand together in a batch, all of one port. Those between the first and the last are
// taken to have come evenly between them.
struct Arrivals {
  u32 packets = 0;
  u8 port = 0;
  u64 first_ns = 0, last_ns = 0;  // when XDP saw them
};

// A packet of a batch that was made of a datagram's fragments (reassembler.hpp): its first descriptor, whose
// frame is its headers', and the fragments' own buffers, each packet's together.
struct Assembled {
  u32 at = 0;
  std::span<const xg_descriptor> fragments;
};

// One batch and what the worker remembers of it beside the device's slot.
struct Batch {
  gpu::Slot* slot = nullptr;
  u32 limit = 0;  // descriptors that it takes
  u32 generation = 0;
  u32 count = 0;  // descriptors: a packet has one for each of its buffers
  u32 later = 0;  // of them, those that are not a received packet's first
  u32 spare = 0;  // frames that have no descriptor: all of their bytes stand in another one
  u64 opened_ns = 0;
  u64 submitted_ns = 0;
  Outcome outcome = Outcome::decided;
  std::vector<u8> ports;  // of each descriptor; kLaterBuffer, kEgress or kDeferred, where it is no received
                          // packet's first
  std::vector<Arrivals> arrivals;  // of the received packets, in their order
  u32 arrivals_count = 0;
  std::vector<Assembled> assembled;  // in the descriptors' order
  u32 assembled_count = 0;
  std::vector<xg_descriptor> fragments;  // that these are made of
  u32 fragments_count = 0;
  u32 port_mask = 0;
  bool audit = false;           // XG_PKT_AUDIT, which is the policy's: all of a generation have it, or none
  bool tracked = false;         // there are followed fragments in it (XG_PKT_TRACKED)
  bool deferred = false;        // some of its packets are left out (kDeferred)
  bool default_passes = false;  // with `tracked`: what the policy's default does with one of no first
  std::array<u32, XG_MAX_PORTS> next_sequence{};  // where port_mask has the port: one past its last

  static constexpr u8 kLaterBuffer = 0xff;
  static constexpr u8 kEgress = 0x80;    // + port: the host sends it there; nobody asks what became of it
  static constexpr u8 kDeferred = 0xfe;  // a packet's first that is not this batch's any more
  static bool is_received(u8 port) noexcept { return port < kEgress; }
  static u8 egress_port(u8 port) noexcept { return port & (kEgress - 1); }

  u32 packets() const noexcept { return count - later; }
  u32 frames() const noexcept { return count + spare; }
  bool full() const noexcept { return count == limit; }
  u32 room() const noexcept { return limit - count; }
  bool has_room(u32 buffers) const noexcept { return room() >= buffers; }
  // A packet, by its first buffer.
  void add(u64 offset, u32 length, u8 port, const xg_metadata& metadata) noexcept {
    slot->descriptors[count] = {offset, length, 0};
    arrived({1, port, metadata.rx_time_ns, metadata.rx_time_ns});
    add_run(1, port, metadata);
  }
  // Packets of one buffer each, of one port, whose descriptors stand behind the last one's already, and whose
  // arrival is noted. last: the last one's.
  void add_run(u32 packets, u8 port, const xg_metadata& last) noexcept {
    std::memset(ports.data() + count, port, packets);
    count += packets;
    port_mask |= 1u << port;
    audit |= (last.flags & XG_PKT_AUDIT) != 0;
    next_sequence[port] = last.sequence + 1;
  }
  // Before they are added.
  void arrived(const Arrivals& run) noexcept {
    Arrivals* const before = arrivals_count ? &arrivals[arrivals_count - 1] : nullptr;
    if (before && before->port == run.port && before->first_ns == run.first_ns &&
        before->last_ns == run.last_ns && run.first_ns == run.last_ns)
      before->packets += run.packets;
    else
      arrivals[arrivals_count++] = run;
  }
  bool has_room_for_fragments(u32 buffers) const noexcept {
    return assembled_count < assembled.size() && fragments.size() - fragments_count >= buffers;
  }
  // A packet of `port` that was made of these fragments, the last of which came at `came_ns`. next: one past
  // the last sequence that was received there.
  void add_assembled(std::span<const xg_descriptor> packet, std::span<const xg_descriptor> made_of, u8 port,
                     u64 came_ns, u32 next) noexcept {
    xg_descriptor* const own = fragments.data() + fragments_count;
    std::copy(made_of.begin(), made_of.end(), own);
    fragments_count += static_cast<u32>(made_of.size());
    assembled[assembled_count++] = {count, {own, made_of.size()}};
    arrived({1, port, came_ns, came_ns});
    std::copy(packet.begin(), packet.end(), slot->descriptors + count);
    std::memset(ports.data() + count, kLaterBuffer, packet.size());
    ports[count] = port;
    count += static_cast<u32>(packet.size());
    later += static_cast<u32>(packet.size()) - 1;
    spare += static_cast<u32>(made_of.size() + 1 - packet.size());
    port_mask |= 1u << port;
    next_sequence[port] = next;
  }
  // The one whose first descriptor this is, or nullptr.
  const Assembled* assembled_at(u32 at) const noexcept {
    const auto end = assembled.begin() + assembled_count;
    const auto found = std::lower_bound(assembled.begin(), end, at,
                                        [](const Assembled& one, u32 to) { return one.at < to; });
    return found != end && found->at == at ? &*found : nullptr;
  }
  // What the host sends out of `port`.
  void add_egress(u64 offset, u32 length, u8 port) noexcept {
    slot->descriptors[count] = {offset, length, 0};
    ports[count++] = static_cast<u8>(kEgress | port);
    ++later;
  }
  // The next buffer of the packet that was added last.
  void extend(u64 offset, u32 length) noexcept {
    slot->descriptors[count - 1].flags |= XG_DESC_MORE;
    slot->descriptors[count] = {offset, length, 0};
    ports[count++] = kLaterBuffer;
    ++later;
  }
};

// Of two threads, which may be one: one feeds (open, submit_if_due), one retires (poll, release); what goes
// from the one to the other is ordered by it. No allocation after construction; virtual calls a batch, none a
// packet.
class Batcher {
 public:
  // `queue` is the worker's own, opened with this depth; outlives the batcher. Batches are of `capacity`
  // descriptors. bell: rung at each batch that is submitted, where another thread retires; nullptr where
  // there is none. most: what the queue's slots take, where that is more: so large grows a batch that is
  // opened while the device has all the others, and is behind.
  Batcher(gpu::Queue& queue, u32 capacity, u32 depth, u64 max_wait_ns, Closing closing = Closing::patient,
          gpu::Doorbell* bell = nullptr, u32 most = 0);

  // The batch to which a packet of `generation` and so many buffers, at most the capacity, is to be added, or
  // nullptr while the device has no slot free: the packet then waits in the RX ring. A batch of another
  // generation, or one without room for all of them, is submitted first.
  Batch* open(u32 generation, u64 now_ns, u32 buffers = 1) noexcept {
    if (current_ && current_->generation == generation && current_->has_room(buffers)) return current_;
    return open_next(generation, now_ns);
  }

  // Submits the open batch if it is full, or it is time (Closing). rings_empty: no packet is there to join.
  void submit_if_due(u64 now_ns, bool rings_empty) noexcept;

  // Retiring: the oldest batch that is over, or nullptr. Its outcome says whether the results are valid. To
  // be given back by release().
  Batch* poll() noexcept;
  void release(Batch* batch) noexcept;
  // Retiring: how long a batch was with the device.
  void took(u64 device_ns) noexcept {
    const u64 mean = device_ns_.load(std::memory_order_relaxed);
    device_ns_.store(mean ? mean - mean / 8 + device_ns / 8 : device_ns, std::memory_order_relaxed);
  }

  // Feeding: frames put into batches since the start.
  u64 taken() const noexcept { return submitted_frames_ + (current_ ? current_->frames() : 0); }
  // Feeding: frames in the open batch and in submitted ones.
  u64 held() const noexcept { return taken() - released_frames_.load(std::memory_order_acquire); }
  bool open_batch() const noexcept { return current_ != nullptr; }
  // Either: whether batches are submitted and not polled.
  bool waiting() const noexcept {
    return polled_.load(std::memory_order_acquire) != submitted_.load(std::memory_order_acquire);
  }
  // Retiring: when the device was given the oldest batch that it has; `now_ns` if it has none.
  u64 asked_ns(u64 now_ns) const noexcept { return waiting() ? oldest().submitted_ns : now_ns; }
  // Retiring: whether the oldest submitted batch was opened more than `limit_ns` before `now_ns`. The other
  // thread may have opened it since `now_ns` was read.
  bool overdue(u64 now_ns, u64 limit_ns) const noexcept {
    return waiting() && now_ns > oldest().opened_ns + limit_ns;
  }

 private:
  // Of those that are waiting.
  const Batch& oldest() const noexcept {
    return *order_[polled_.load(std::memory_order_relaxed) % order_.size()];
  }
  Batch* open_next(u32 generation, u64 now_ns) noexcept;
  void submit() noexcept;

  gpu::Queue& queue_;
  u32 capacity_, most_;
  u64 max_wait_ns_;
  Closing closing_;
  gpu::Doorbell* bell_;
  std::vector<Batch> batches_;  // by slot index
  Batch* current_ = nullptr;
  u64 submitted_frames_ = 0;
  std::vector<Batch*> order_;  // ring of those submitted and not polled yet, refused ones included
  // Batches, each count on the line of the thread that writes it.
  alignas(64) std::atomic<u64> submitted_{0};
  alignas(64) std::atomic<u64> polled_{0};
  std::atomic<u64> released_frames_{0};
  std::atomic<u64> device_ns_{0};  // mean of the last batches
};

}  // namespace xdpgpu::dataplane
