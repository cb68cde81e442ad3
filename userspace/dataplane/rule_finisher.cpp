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

void RuleFinisher::finish(Batch& batch, const u8* region) noexcept {
  if (batch.outcome != Outcome::decided) return;
  const bool has_alerts = batch.slot->alerts != nullptr;
  const AlertRules::Policies* const policies = reader_.begin(rules_);
  const bool some_wait = deferred_ && deferred_->any();
  if (policies == nullptr && !some_wait) return;
  const bool counts = policies != nullptr && rules_.counts_verdicts();
  xg_result* const results = batch.slot->results;
  for (u32 i = 0; i < batch.count; ++i) {
    if (!Batch::is_received(batch.ports[i])) continue;
    const bool holds = has_alerts && results[i].flags & XG_RES_ALERTS;
    // Devices reject nothing by themselves.
    if (results[i].flags & kRejects) results[i].flags &= ~kRejects;
    // Of one that was not judged the metadata may be another packet's.
    if (XG_VERDICT_ACTION(results[i].verdict) == XG_ABORTED) continue;
    const bool may_wait = deferred_ && deferred_->any();
    const bool is_counted = counts && XG_VERDICT_STAGE(results[i].verdict) != 0;
    if (!holds && !may_wait && !is_counted) continue;
    const xg_descriptor& packet = batch.slot->descriptors[i];
    const u8* const frame = region + packet.offset;
    xg_metadata metadata;
    std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
    if (is_counted) AlertRules::count_verdict(*policies, metadata, results[i].verdict, worker_);
    if (!holds && !may_wait) continue;
    const auto* const pipeline =
        holds && policies ? AlertRules::find(*policies, metadata.generation, metadata.pipeline) : nullptr;
    const bool asks = pipeline != nullptr && AlertRules::asks(*pipeline, batch.slot->alerts[i]);
    // What a first fragment comes to is told before its batch goes on (FragmentFates).
    const bool is_followed = metadata.flags & XG_PKT_TRACKED && batch.assembled_at(i) == nullptr;
    const bool is_behind = may_wait && !is_followed && deferred_->waits(metadata.flow_hash);
    if (asks || is_behind) {
      if (deferred_ && !is_followed && deferred_->take(batch, i, pipeline)) continue;
      count(unasked_);
      const u32 verdict = is_behind ? deferred_->limit_behind(metadata.flow_hash) : 0;
      if (verdict != 0) {
        results[i].verdict = verdict;
        results[i].flags = 0;
        continue;
      }
    }
    if (pipeline == nullptr) {
      // Nobody knows these rules, and the device may have left it to them whether the packet is dropped.
      if (holds && policies) {
        results[i].verdict = XG_VERDICT(XG_ABORTED, 0u, 0u, 0u);
        results[i].flags = 0;
      }
      continue;
    }
    xg_alerts& alerts = batch.slot->alerts[i];
    const Ends ends = ends_of(frame, packet.length, metadata, alerts.connection);
    const AlertRules::Rests rests{0, asks ? AlertRules::asking(*pipeline, alerts) : 0};
    const auto decided = rules_.decide(*pipeline, alerts, ends, metadata.rx_time_ns, worker_, rests);
    if (decided.limited != 0) count(limited_, decided.limited);
    alerts = decided.told;
    put_late(decided, pipeline->stage, results[i]);
  }
  reader_.end();
}

}  // namespace xdpgpu::dataplane
