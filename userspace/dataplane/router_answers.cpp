// SPDX-License-Identifier: MIT
//
// Of the router: what is sent in answer to packets that are dropped. An answer takes the packet's frame, and
// is in no counter of packets: the one that it answers is.
#include <algorithm>
#include <cstring>

#include "userspace/dataplane/dns_answer.hpp"
#include "userspace/dataplane/reject_answer.hpp"
#include "userspace/dataplane/router.hpp"

namespace xdpgpu::dataplane {

void Router::drop_too_long(Buffers packet, u32 mtu, PortQueue& from, u64 now_ns) noexcept {
  const xg_descriptor first = packet.front();
  ++from.counters->too_long;
  give_up(packet.subspan(1));
  std::optional<Answer> answer;
  if (answers_.take(now_ns)) {
    cover();
    answer = answer_too_long(region_ + first.offset, first.length, mtu);
  }
  if (!answer || !send_answer(from.socket->transmitter, {first.offset - answer->earlier, answer->length, 0}))
    return free_.push(frame_of(first.offset));
  ++from.counters->too_long_answered;
}

void Router::drop_refused(Buffers packet, PortQueue& from) noexcept {
  const xg_descriptor first = packet.front();
  const std::optional<u32> length =
      packet.size() == 1 ? answer_no_such_domain(region_ + first.offset, first.length) : std::nullopt;
  if (!length || !send_answer(from.socket->transmitter, {first.offset, *length, 0})) return give_up(packet);
  ++from.counters->refused_answered;
}

void Router::drop_rejected(Buffers packet, u32 rejects, PortQueue& from, u64 now_ns) noexcept {
  give_up(packet.subspan(1));
  if (!tell_rejected(packet, rejects, from, now_ns)) free_.push(frame_of(packet.front().offset));
}

bool Router::tell_rejected(Buffers packet, u32 rejects, PortQueue& from, u64 now_ns) noexcept {
  const xg_descriptor first = packet.front();
  const u32 bytes = bytes_of(packet);
  const bool sender = rejects & XG_RES_REJECT_SENDER;
  const bool receiver = rejects & XG_RES_REJECT_RECEIVER && from.reinject;
  if (!(sender || receiver) || !rejections_.take(now_ns)) return false;
  bool told = false;
  if (sender && receiver && free_.size()) {
    const FrameId frame = free_.pop();
    const xg_descriptor copy{chunk_of(frame) + XG_FRAME_DATA, std::min(first.length, XG_FRAME_MAX), 0};
    std::memcpy(region_ + copy.offset, region_ + first.offset, copy.length);
    told = send_rejection(copy, bytes, Told::receiver, from);
    if (!told) free_.push(frame);
  }
  const bool sent = send_rejection(first, bytes, sender ? Told::sender : Told::receiver, from);
  if (told || sent) ++from.counters->rejected_answered;
  return sent;
}

bool Router::send_rejection(const xg_descriptor& first, u32 bytes, Told whom, PortQueue& from) noexcept {
  const u32 room = XG_CHUNK_SIZE - static_cast<u32>(first.offset % XG_CHUNK_SIZE);
  const std::optional<u32> length = answer_rejected(region_ + first.offset, first.length, bytes, room, whom);
  const bool back = whom == Told::sender;
  if (!length || !send_answer((back ? from.socket : from.reinject)->transmitter, {first.offset, *length, 0}))
    return false;
  routed_.passed |= !back;
  return true;
}

}  // namespace xdpgpu::dataplane
