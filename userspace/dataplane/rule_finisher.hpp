// SPDX-License-Identifier: MIT
//
// userspace/dataplane/rule_finisher.hpp: finishes what a device has begun: of the rules that hold for a
// packet by all that the device asks for, it says which hold by what hosts alone know, which are told, and
// whether one of them drops the packet (alert_rules.hpp). On its way it counts verdicts of stages that are to
// be counted.
#pragma once

#include <atomic>

#include "userspace/dataplane/alert_rules.hpp"
#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/deferred_packets.hpp"

namespace xdpgpu::dataplane {

// Of one worker: of whoever retires.
class RuleFinisher {
 public:
  // rules: of all workers together; outlive it. worker: by whose number matches are counted.
  RuleFinisher(AlertRules& rules, std::size_t worker) : rules_(rules), worker_(worker) {}

  // Before the first batch. Outlives it. Without it the rest of rules is not asked, as if there were no room.
  void defer_to(DeferredPackets& deferred) noexcept { deferred_ = &deferred; }

  bool wanted() const noexcept { return rules_.any() || (deferred_ && deferred_->any()); }
  // Once for a batch that is decided, before anything is done with its packets: in its slot's alerts those
  // that are told remain, and in its results stands what becomes of the packets. No allocation, no lock, no
  // system call.
  // Packets about which a thread is to be asked, and those behind them, are left out (Batch::kDeferred).
  void finish(Batch& batch, const u8* region) noexcept;

  // Any thread. Alerts that were not told, as rules' thresholds or suppressions say.
  u64 limited() const noexcept {
    return limited_.load(std::memory_order_relaxed) + (deferred_ ? deferred_->limited() : 0);
  }
  // Packets about which a thread was to be asked, or that were behind such a one, and for which there was no
  // room.
  u64 unasked() const noexcept { return unasked_.load(std::memory_order_relaxed); }
  // Any thread: RuleAsker's.
  u64 bounds_reached() const noexcept { return deferred_ ? deferred_->bounds_reached() : 0; }
  const AlertRules::Reader& reader() const noexcept { return reader_; }

 private:
  AlertRules& rules_;
  const std::size_t worker_;
  AlertRules::Reader reader_;
  DeferredPackets* deferred_ = nullptr;
  std::atomic<u64> limited_{0}, unasked_{0};
};

// Writes into a packet's result what was decided of it late. stage: where its rules stand in the pipeline.
void put_late(const AlertRules::Decided& decided, u8 stage, xg_result& result) noexcept;

}  // namespace xdpgpu::dataplane
