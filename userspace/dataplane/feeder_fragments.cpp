// SPDX-License-Identifier: MIT
//
// Feeding, of fragments that wait for the rest of their datagram.
#include <algorithm>

#include "userspace/dataplane/feeder.hpp"

namespace xdpgpu::dataplane {
PortQueue& Feeder::queue_of(u32 port) noexcept {
  return **std::find_if(queues_.begin(), queues_.end(),
                        [&](const PortQueue* one) { return one->port == port; });
}

void Feeder::notice_policy() noexcept {
  const CurrentPolicy* policy = policy_.load(std::memory_order_acquire);
  if (!policy || policy->generation == known_[0].generation) [[likely]]
    return;
  std::move_backward(known_.begin(), known_.end() - 1, known_.end());
  known_[0] = {policy->generation, policy->reassembles};
  reassembling_ = std::any_of(known_.begin(), known_.end(), [](const auto& one) { return one.how; });
}

std::optional<Overlapping> Feeder::reassembles(u32 generation) const noexcept {
  for (const Reassembling& one : known_)
    if (one.generation == generation) return one.how;
  return std::nullopt;
}

// What is audited is not to be dropped for want of others: then fragments go by their first one's result.
Feeder::Waits Feeder::wait_for_others(PortQueue& queue, Buffers packet, u64 now_ns) noexcept {
  const u8* const frame = region_ + packet.front().offset;
  const auto& metadata = *reinterpret_cast<const xg_metadata*>(frame - XG_METADATA_SIZE);
  const std::optional<Overlapping> how = reassembles(metadata.generation);
  if (!how || metadata.flags & XG_PKT_AUDIT) return Waits::no;
  const Fragment fragment = fragment_of(packet, region_, static_cast<u8>(queue.port));
  if (fragment.is_whole()) return Waits::no;
  if (!pass_on_assembled(now_ns)) return Waits::not_now;
  if (queue.next_sequence != metadata.sequence + 1) {  // else it was counted, and is judged again
    queue.next_sequence = metadata.sequence + 1;
    queue.metadata.note({metadata.rx_time_ns, metadata.sequence});
  }
  reassembler_.take(packet, fragment, *how, metadata.rx_time_ns);
  drop_unassembled();
  queue.publish_waiting(reassembler_.packets(queue.port), reassembler_.frames(queue.port));
  pass_on_assembled(now_ns);
  return Waits::yes;
}

// False: there is one for which no batch has room now, or no frame is free.
bool Feeder::pass_on_assembled(u64 now_ns) noexcept {
  while (reassembler_.any_whole()) {
    const Reassembler::Whole whole = reassembler_.whole();
    const auto fragments = static_cast<u32>(whole.buffers.size());
    if (!free_.size()) return false;
    Batch* const batch = batcher_->open(whole.generation, now_ns, fragments + 1);
    if (!batch || !batch->has_room_for_fragments(fragments)) return false;
    std::array<xg_descriptor, XG_PACKET_BUFFERS> packet;
    const u32 buffers = reassembler_.make(chunk_of(free_.pop()) + XG_FRAME_DATA, packet);
    PortQueue& queue = queue_of(whole.port);
    const auto later = std::count_if(whole.buffers.begin(), whole.buffers.end(),
                                     [](const xg_descriptor& one) { return one.flags & XG_DESC_MORE; });
    queue.batch_later(static_cast<u32>(later) + 1);
    batch->add_assembled({packet.data(), buffers}, whole.buffers, whole.port, whole.last_ns,
                         queue.next_sequence);
    reassembler_.made();
    ++queue.counters->reassembled;
    queue.publish_waiting(reassembler_.packets(whole.port), reassembler_.frames(whole.port));
  }
  return true;
}

void Feeder::drop_unassembled() noexcept {
  reassembler_.take_dropped([this](const Reassembler::Dropped& dropped) {
    free_.push(frame_of(dropped.buffer.offset));
    if (dropped.buffer.flags & XG_DESC_MORE) return;
    PortQueue& queue = queue_of(dropped.port);
    ++(queue.counters->*counter_of(dropped.why));
    queue.publish_waiting(reassembler_.packets(dropped.port), reassembler_.frames(dropped.port));
  });
}

void Feeder::abandon() noexcept {
  reassembler_.abandon();
  drop_unassembled();
}

}  // namespace xdpgpu::dataplane
