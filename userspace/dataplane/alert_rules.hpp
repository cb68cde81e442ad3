// SPDX-License-Identifier: MIT
//
// userspace/dataplane/alert_rules.hpp: rules that hold for packets, as far as the device can tell: whether
// the bits that they ask for are set, how often they held, how often they alert, and for whom not
// (gpu/rule_source.hpp); and whether those that are late drop the packet.
//
//   RuleMatches  how often each rule of a pipeline has held
//   AlertCounts  how often rules with thresholds have, for whom; of all workers together
//   AlertRules   the rules of the policies in force; the control thread writes, workers read
//
// Beside rules it is told of stages whose verdicts are counted, each by its rule.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "gpu/rule_source.hpp"
#include "maps/packet.h"
#include "userspace/dataplane/one_writer.hpp"
#include "userspace/dataplane/rule_bits.hpp"

namespace xdpgpu::dataplane {

// As the parser found its first IP header; no version where there is none. connection: as the device told it.
Ends ends_of(const u8* frame, u32 length, const xg_metadata& metadata, u32 connection) noexcept;

class RuleMatches {
 public:
  // Allocates.
  RuleMatches(std::size_t rules, std::size_t workers)
      : rules_(rules), workers_(workers), counts_(std::make_unique<std::atomic<u64>[]>(rules * workers)) {}
  // That worker alone; nothing where there is no such rule or worker.
  void add(std::size_t worker, std::size_t rule) noexcept {
    if (rule >= rules_ || worker >= workers_) return;
    dataplane::count(counts_[worker * rules_ + rule]);
  }
  // Any thread.
  u64 of(std::size_t rule) const noexcept {
    u64 sum = 0;
    for (std::size_t i = 0; i < workers_; i++)
      sum += counts_[i * rules_ + rule].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  const std::size_t rules_, workers_;
  const std::unique_ptr<std::atomic<u64>[]> counts_;
};

// What comes of a match: nothing; what the rule does to packets, and nothing is told; or it is told, too.
enum class Match : u8 { nothing, silent, told };

// A table of fixed size: an entry is a rule's window for one address, or one pair. Where its set is full, the
// window that ends first makes room. Its places are drawn by a key of its own, so that nobody who sends
// packets chooses who makes room.
class AlertCounts {
 public:
  static constexpr u32 kEntries = 1u << 16;

  // Allocates.
  AlertCounts();

  // Counts a match of a rule that has a limit, and says what comes of it: as Suricata 7.0.10 does
  // (detect-engine-threshold.c). now_ns: of any clock, always the same one. Any thread; none waits.
  Match count(const gpu::RuleHead& rule, const Ends& ends, u64 now_ns) noexcept;
  // Windows that had to make room before their time.
  u64 forgotten() const noexcept { return forgotten_.load(std::memory_order_relaxed); }

 private:
  static constexpr u32 kWays = 4;
  // A cache line. Each entry has a tag, the end of its window and the matches in it, exchanged as a whole.
  struct alignas(64) Set {
    u64 ways[kWays][2]{};
  };
  u64 hash(const gpu::RuleHead& rule, const Ends& ends) const noexcept;

  const std::array<u64, 2> key_;
  const std::unique_ptr<Set[]> sets_;
  alignas(64) std::atomic<u64> forgotten_{0};
};

class AlertRules {
 public:
  struct Pipeline {
    std::shared_ptr<const std::vector<gpu::RuleHead>> rules;          // nullptr: none
    std::shared_ptr<const std::vector<gpu::Suppression>> suppressed;  // by gid and sid; nullptr: none
    std::shared_ptr<RuleMatches> matches{};                           // nullptr: nobody asks
    u8 stage = 0;                                                     // the rules' place in the pipeline
    bool inner = false;       // they see what is inside of a packet's tunnel
    u32 drops_end = ~u32{0};  // behind the last rule that drops packets, or rejects them
    bool limit_drops = true;  // a packet of which not all rules are known that may drop it is dropped
    bool answers = true;      // what a rule rejects is answered: not what is inside of another packet
    u64 counted = 0;          // bit of a stage's place, from 1 on: how often it decided is counted
    std::shared_ptr<RuleMatches> decided{};  // of these, at decided_at(); nullptr: nobody asks
  };
  // Where a verdict's count is. Rules from kCountedRules on are not counted.
  static constexpr u32 kCountedRules = 16;
  static constexpr std::size_t decided_at(u32 stage, u32 rule) noexcept {
    return std::size_t{stage} * kCountedRules + rule;
  }
  struct Policy {
    u32 generation = 0;
    std::vector<Pipeline> pipelines;
  };
  using Policies = std::vector<Policy>;  // the newest last

  // A worker, which uses what it has been given until it lets it go.
  class Reader {
   public:
    // Nothing where there are no rules. Nobody waits.
    const Policies* begin(const AlertRules& rules) noexcept {
      if (!rules.any()) return nullptr;
      turn_.fetch_add(1, std::memory_order_seq_cst);
      return rules.policies_.load(std::memory_order_seq_cst);
    }
    void end() noexcept {
      if (turn_.load(std::memory_order_relaxed) & 1) turn_.fetch_add(1, std::memory_order_release);
    }
    // Of another thread: returns once what the reader may still use is what there is now. A batch's time.
    void wait() const noexcept;

   private:
    std::atomic<u64> turn_{0};  // odd: it reads
  };

  // Control thread. What was there before is there until all readers have let it go.
  void set(Policies policies, std::span<const Reader* const> readers);

  bool any() const noexcept { return policies_.load(std::memory_order_relaxed) != nullptr; }

  // Whether some stage's verdicts are counted.
  bool counts_verdicts() const noexcept { return counts_verdicts_.load(std::memory_order_relaxed); }
  // A packet's verdict, as the device said it. worker: by whose number it is counted.
  static void count_verdict(const Policies& policies, const xg_metadata& metadata, u32 verdict,
                            std::size_t worker) noexcept;

  // Any thread; none waits. The pipeline of the policy with that generation; nullptr: it is not known.
  static const Pipeline* find(const Policies& policies, u32 generation, u16 pipeline) noexcept;
  // What comes of the rules that hold for a packet by all that the device asks for.
  struct Decided {
    xg_alerts told{};  // of them, those that are told
    u32 limited = 0;   // how many are not for their thresholds, or are suppressed
    u32 drops = 0;     // position + 1 of the first one that drops it; of n rules n + 1: it is not known
                       // whether one does, and that drops it; 0: none
    u32 rejects = 0;   // XG_RES_REJECT_*, of all that do
  };
  // What is known of the rests of the rules that hold (RuleHead::rest): bit i for hold.rules[i].
  struct Rests {
    u32 refused = 0;  // they do not hold
    u32 unasked = 0;  // it is not known whether they do
  };
  // Changes bits, counts. worker: by whose number matches are counted. Behind a rule that passes the packet
  // others change bits alone. Rules of whose rest it is not known whether it holds are taken not to hold, and
  // where one may drop the packet, or pass what another one drops, the policy's `limit` decides.
  Decided decide(const Pipeline& pipeline, const xg_alerts& hold, const Ends& ends, u64 now_ns,
                 std::size_t worker, Rests rests) noexcept;
  // Whether a rule that holds for a packet, by its place in `hold`, has a rest; and whether some do.
  static bool asks(const Pipeline& pipeline, const xg_alerts& hold, u32 at) noexcept;
  static bool asks(const Pipeline& pipeline, const xg_alerts& hold) noexcept;
  // All that have a rest.
  static u32 asking(const Pipeline& pipeline, const xg_alerts& hold) noexcept;
  // Of all that hold, those that are named.
  static u32 named(const xg_alerts& hold) noexcept {
    const u32 count = hold.count & ~XG_ALERTS_MORE;
    return count < XG_MAX_ALERTS ? count : XG_MAX_ALERTS;
  }
  u64 forgotten() const noexcept { return counts_.forgotten(); }
  u64 bits_forgotten() const noexcept { return bits_.forgotten(); }

 private:
  bool has_bits(const gpu::RuleHead& rule, const Ends& ends, u64 now_ns) noexcept;
  // is_untold: it is told of nobody, whatever comes of it.
  Match match(const Pipeline& pipeline, const gpu::RuleHead& rule, const Ends& ends, u64 now_ns,
              bool& is_untold) noexcept;

  AlertCounts counts_;
  RuleBits bits_;
  std::unique_ptr<const Policies> owned_;  // the control thread's
  std::atomic<const Policies*> policies_{nullptr};
  std::atomic<bool> counts_verdicts_{false};
};

}  // namespace xdpgpu::dataplane
