// SPDX-License-Identifier: MIT
//
// userspace/dataplane/event_log.hpp: what a worker tells of its packets, for logs
// (userspace/control/eve_log.hpp).
//
//   EventSelection  what all workers are to tell; the control thread writes, workers read
//   Event           one packet that is told of: what was decided, and its first bytes
//   EventLog        of one worker: a ring of events; whoever retires writes, one other thread reads
//
// Nobody waits: an event that finds the ring full is counted and left out, and its packet goes on.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "userspace/dataplane/alert_rules.hpp"
#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/event_limit.hpp"
#include "userspace/dataplane/rule_finisher.hpp"

namespace xdpgpu::dataplane {

// drop: a device's verdict dropped the packet. dns: a DNS message over UDP went through a stage `domains`.
// alert: rules hold for it (XG_RES_ALERTS). program: its program put something out (XG_RES_EVENT).
enum class EventKind : u8 { drop, dns, alert, program };
inline constexpr u32 kEventKinds = 4;
inline constexpr u32 kMostEventPayload = 1024;  // bytes

class EventSelection {
 public:
  static constexpr u32 kPipelines = 1024;  // that it can name

  // Control thread; workers see it at some batch soon. Of a pipeline that is gone an event may still come.
  // per_second: of each kind; per_rule: of each rule that alerts. payload: bytes that are told of each
  // packet's L4 payload, at most kMostEventPayload.
  void tell(std::span<const EventKind> kinds, u32 per_second, u32 per_rule, u32 payload) noexcept;
  void tell_nothing() noexcept { kinds_.store(0, std::memory_order_relaxed); }
  // Which pipelines have a stage that looks at DNS messages, and at which ports (host order), besides those
  // that are looked at already; forget: none are, before.
  void look_at_dns(std::span<const u16> pipelines, std::span<const std::pair<u16, u16>> ports,
                   bool forget) noexcept;

  bool anything() const noexcept { return kinds_.load(std::memory_order_relaxed) != 0; }
  bool tells(EventKind kind) const noexcept {
    return kinds_.load(std::memory_order_relaxed) >> static_cast<u32>(kind) & 1;
  }
  u32 payload() const noexcept { return payload_.load(std::memory_order_relaxed); }
  bool is_dns_pipeline(u16 pipeline) const noexcept {
    return pipeline < kPipelines &&
           pipelines_[pipeline / 64].load(std::memory_order_relaxed) >> pipeline % 64 & 1;
  }
  bool is_dns_port(u16 port) const noexcept {
    return ports_[port / 64].load(std::memory_order_relaxed) >> port % 64 & 1;
  }
  bool take(EventKind kind, u64 now_ns) noexcept { return limits_[static_cast<u32>(kind)].take(now_ns); }
  bool take_rule(u16 pipeline, u16 rule, u64 now_ns) noexcept { return rules_.take(pipeline, rule, now_ns); }
  // The rules that alert: the control thread writes, workers read.
  AlertRules& rules() noexcept { return alert_rules_; }

 private:
  std::atomic<u32> kinds_{0};  // bit a kind
  std::atomic<u32> payload_{0};
  std::array<EventLimit, kEventKinds> limits_;
  RuleLimits rules_;
  AlertRules alert_rules_;
  std::array<std::atomic<u64>, kPipelines / 64> pipelines_{};
  std::array<std::atomic<u64>, 1024> ports_{};
};

// Left as it is until it is written: most are of a ring that nobody needs.
struct Event {
  u64 at_ns;       // CLOCK_MONOTONIC, when XDP saw the packet
  u32 generation;  // of the policy that decided
  u32 verdict;     // verdict word
  u32 flags;       // XG_RES_*
  u32 length;      // of the whole packet, bytes
  u16 bytes;       // of it that follow
  u16 payload;     // most bytes of payload that are to be told
  u16 pipeline;
  EventKind kind;
  u8 port;           // that it came in on
  xg_alerts alerts;  // of an alert: those that are told
  xg_event program;  // of a program: what it put out; so many of the packet's bytes are here as it asks for
  bool audited;      // what was decided is not done
  static constexpr u32 kBytes = 1343;
  u8 packet[kBytes];
};
static_assert(sizeof(Event) == 1536);

struct EventCounts {
  u64 told = 0;       // that came into the ring
  u64 over_rate = 0;  // left out, as there were more than the policy's rate
  u64 limited = 0;    // of alerts: left out, as rules' thresholds or suppressions say
  u64 ring_full = 0;  // left out, as whoever writes them did not come after
  u64 wrong = 0;      // of programs: left out, as a device's record says what cannot be
};

class EventLog {
 public:
  static constexpr u32 kEvents = 1024;

  // selection: outlives it. worker: by whose number rules are counted. Allocates; memory that is never
  // written to is never touched.
  explicit EventLog(EventSelection& selection, std::size_t worker = 0);

  // Whoever retires: tells of what was decided of a batch's packets, before anything is done with them. No
  // allocation, no lock, no system call.
  bool wanted() const noexcept { return selection_.anything(); }
  void tell(const Batch& batch, const u8* region, u64 now_ns) noexcept;

  // Whoever reads: the oldest event, or nullptr; it stays until it is taken.
  const Event* oldest() const noexcept {
    const u64 taken = taken_.load(std::memory_order_relaxed);
    return taken == given_.load(std::memory_order_acquire) ? nullptr : &events_[taken % kEvents];
  }
  void take() noexcept {
    taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Any thread.
  EventCounts counts(EventKind kind) const noexcept;
  // Of the same worker, what it tells of rules.
  RuleFinisher& finisher() noexcept { return finisher_; }

 private:
  struct Counters {
    std::atomic<u64> told{0}, over_rate{0}, ring_full{0}, wrong{0};
  };
  bool is_dns(const xg_metadata& metadata, const u8* frame, u32 length) const noexcept;
  // alerts: of an alert; program: of a program.
  void give(EventKind kind, const Batch& batch, u32 at, const u8* region, u64 now_ns,
            const xg_alerts& alerts = {}, const xg_event* program = nullptr) noexcept;
  void put_out(const Batch& batch, u32 at, const u8* region, u64 now_ns) noexcept;
  void alert(const Batch& batch, u32 at, const u8* region, u64 now_ns) noexcept;

  EventSelection& selection_;
  RuleFinisher finisher_;
  std::unique_ptr<Event[]> events_;
  std::array<Counters, kEventKinds> counters_;
  alignas(64) std::atomic<u64> given_{0};
  alignas(64) std::atomic<u64> taken_{0};
};

}  // namespace xdpgpu::dataplane
