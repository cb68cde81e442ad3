// SPDX-License-Identifier: MIT
#include "userspace/dataplane/rule_finisher.hpp"

#include <cstring>

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kRejects = XG_RES_REJECT_SENDER | XG_RES_REJECT_RECEIVER;

}  // namespace

void put_late(const AlertRules::Decided& decided, u8 stage, xg_result& result) noexcept {
  if (decided.told.count == 0) result.flags &= ~XG_RES_ALERTS;
  if (decided.drops == 0) return;
  const bool has_dropped =
      XG_VERDICT_ACTION(result.verdict) == XG_DROP && XG_VERDICT_STAGE(result.verdict) == stage;
  if (!has_dropped) {
    result.verdict = XG_VERDICT(XG_DROP, 0u, stage, decided.drops);
    result.flags &= XG_RES_ALERTS;
  }
  result.flags |= decided.rejects;
}

void RuleFinisher::finish(const Batch& batch, const u8* region) noexcept {
  if (batch.outcome != Outcome::decided || batch.slot->alerts == nullptr) return;
  const AlertRules::Policies* const policies = reader_.begin(rules_);
  if (policies == nullptr) return;
  xg_result* const results = batch.slot->results;
  for (u32 i = 0; i < batch.count; ++i) {
    if (!(results[i].flags & (XG_RES_ALERTS | kRejects)) || !Batch::is_received(batch.ports[i])) continue;
    // Devices reject nothing by themselves.
    results[i].flags &= ~kRejects;
    // Of one that was not judged the metadata may be another packet's.
    if (!(results[i].flags & XG_RES_ALERTS) || XG_VERDICT_ACTION(results[i].verdict) == XG_ABORTED) continue;
    const xg_descriptor& packet = batch.slot->descriptors[i];
    const u8* const frame = region + packet.offset;
    xg_metadata metadata;
    std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
    const auto* const pipeline = AlertRules::find(*policies, metadata.generation, metadata.pipeline);
    if (pipeline == nullptr) continue;
    xg_alerts& alerts = batch.slot->alerts[i];
    const Ends ends = ends_of(frame, packet.length, metadata, alerts.connection);
    const auto decided = rules_.decide(*pipeline, alerts, ends, metadata.rx_time_ns, worker_);
    if (decided.limited != 0)
      limited_.store(limited_.load(std::memory_order_relaxed) + decided.limited, std::memory_order_relaxed);
    alerts = decided.told;
    put_late(decided, pipeline->stage, results[i]);
  }
  reader_.end();
}

}  // namespace xdpgpu::dataplane
