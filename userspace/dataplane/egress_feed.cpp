// SPDX-License-Identifier: MIT
#include "userspace/dataplane/egress_feed.hpp"

#include <algorithm>
#include <cstring>

namespace xdpgpu::dataplane {
namespace {

// Who has fallen behind goes on so far in front of what is overwritten next.
constexpr u64 kAhead = XG_EGRESS_SLOTS / 4;
constexpr u8 kSyn = 0x02;

// False: it has been overwritten.
bool copy(const xg_egress_record& from, u64 number, xg_egress_record& to) noexcept {
  if (__atomic_load_n(&from.ticket, __ATOMIC_ACQUIRE) != number + 1) return false;
  std::memcpy(&to, &from, sizeof(to));
  std::atomic_thread_fence(std::memory_order_acquire);
  return __atomic_load_n(&from.ticket, __ATOMIC_RELAXED) == number + 1;
}

// Whether it may be the first packet of a connection.
bool may_begin(const xg_packet& packet) noexcept {
  return !(packet.flags & XG_PKT_TCP) || (packet.tcp_flags & kSyn);
}

}  // namespace

EgressFeed::EgressFeed(std::vector<EgressLogs> ports, std::vector<PortQueue*> accounts, u32 worker,
                       u32 workers, u8* region, FreeList& free,
                       const std::atomic<const CurrentPolicy*>& policy)
    : worker_(worker), workers_(workers), region_(region), free_(free), policy_(policy) {
  for (u32 port = 0; port < ports.size(); ++port)
    for (u32 log = 0; log < ports[port].logs; ++log)
      logs_.push_back({ports[port].records + u64{log} * XG_EGRESS_SLOTS, ports[port].heads + log,
                       ports[port].config, accounts[port], static_cast<u8>(port),
                       __atomic_load_n(&ports[port].heads[log].head, __ATOMIC_ACQUIRE)});
}

void EgressFeed::change(const CurrentPolicy* policy) noexcept {
  policy_seen_ = policy;
  frames_before_ = batcher_->taken();
  feeds_ = policy && !policy->fed_by_egress.empty();
  for (Log& log : logs_) log.done = 0;
}

bool EgressFeed::take(Log& log, u64 head, u64 now_ns, bool* any) noexcept {
  while (log.next != head) {
    xg_egress_record record;
    if (head - log.next > XG_EGRESS_SLOTS ||
        !copy(log.records[log.next % XG_EGRESS_SLOTS], log.next, record)) {
      head = __atomic_load_n(&log.head->head, __ATOMIC_ACQUIRE);
      const u64 behind = head - log.next;
      const u64 missed = std::min(behind, kAhead + (behind > XG_EGRESS_SLOTS ? behind - XG_EGRESS_SLOTS : 0));
      log.account->counters->egress_missed += missed;
      log.next += missed;
      log.done = 0;
      continue;
    }
    if (!show(log, record, now_ns)) return false;
    log.done = 0;
    ++log.next;
    taken_ns_ = now_ns;
    *any = true;
  }
  return true;
}

bool EgressFeed::show(Log& log, const xg_egress_record& record, u64 now_ns) noexcept {
  const u32 captured = std::min(record.captured, XG_EGRESS_BYTES);
  xg_packet packet;
  xg_parse_part(record.packet, record.packet + captured, record.wire_length, log.port, &packet);
  const u32 hash = xg_flow_hash(&packet.key, &log.config->flow_keys);
  if (!may_begin(packet) && hash % workers_ != worker_) return true;
  xg_metadata metadata{};
  xg_metadata_from(&metadata, &packet, hash);
  metadata.flags |= XG_PKT_EGRESS;
  metadata.rx_time_ns = record.time_ns;
  metadata.generation = policy_seen_->generation;
  const std::vector<u16>& pipelines = policy_seen_->fed_by_egress;
  for (; log.done < pipelines.size(); ++log.done) {
    Batch* batch = free_.size() ? batcher_->open(metadata.generation, now_ns) : nullptr;
    if (!batch) return false;
    metadata.pipeline = pipelines[log.done];
    const u64 at = chunk_of(free_.pop()) + XG_FRAME_DATA;
    std::memcpy(region_ + at, record.packet, captured);
    std::memcpy(region_ + at - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    log.account->batch_later(1);
    batch->add_egress(at, captured, static_cast<u8>(log.account->port));
    ++log.account->counters->egress_seen;
  }
  return true;
}

}  // namespace xdpgpu::dataplane
