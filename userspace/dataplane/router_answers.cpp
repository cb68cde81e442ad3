// SPDX-License-Identifier: MIT
//
// Of the router: what is sent in answer to packets that are dropped. An answer takes the packet's frame, and
// is in no counter of packets: the one that it answers is.
#include "userspace/dataplane/dns_answer.hpp"
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

}  // namespace xdpgpu::dataplane
