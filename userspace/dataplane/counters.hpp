// SPDX-License-Identifier: MIT
//
// userspace/dataplane/counters.hpp: the tables of maps/counters.h as values, and sums by them.
#pragma once

#include <array>

#include "maps/control.h"

namespace xdpgpu::dataplane {

struct Counter {
  const char* name;
  xg_unit unit;
  xg_outcome outcome;
  const char* words;
  const char* brief;
};

struct WorkerCounter : Counter {
  u64 xg_worker_counters::*value;
};

// By XG_KERNEL_*.
#define XG_X(name, unit, outcome, words) Counter{#name, XG_UNIT_##unit, XG_OUTCOME_##outcome, words, words},
inline constexpr std::array<Counter, XG_KERNEL_REASON_COUNT> kKernelCounters{{XG_KERNEL_REASONS(XG_X)}};
#undef XG_X

constexpr const char* brief_or_words(const char* brief, const char* words) { return *brief ? brief : words; }

// In the record's order.
#define XG_X(name, unit, outcome, words, brief)                                                     \
  WorkerCounter{{#name, XG_UNIT_##unit, XG_OUTCOME_##outcome, words, brief_or_words(brief, words)}, \
                &xg_worker_counters::name},
inline constexpr std::array kWorkerCounters{XG_WORKER_REASONS(XG_X)};
#undef XG_X

// By XG_MALFORMED_* - 1: beside the reasons, of which each of these packets has one.
#define XG_X(name, words) Counter{#name, XG_UNIT_packets, XG_OUTCOME_none, words, words},
inline constexpr std::array<Counter, XG_MALFORMED_COUNT> kMalformedCounters{{XG_MALFORMED_KINDS(XG_X)}};
#undef XG_X

// Is it an end of a packet: drop, pass, tx, redirect or error?
constexpr bool is_end(xg_outcome outcome) noexcept {
  switch (outcome) {
    case XG_OUTCOME_drop:
    case XG_OUTCOME_pass:
    case XG_OUTCOME_tx:
    case XG_OUTCOME_redirect:
    case XG_OUTCOME_error:
      return true;
    case XG_OUTCOME_none:
    case XG_OUTCOME_in:
    case XG_OUTCOME_program:
    case XG_OUTCOME_on:
    case XG_OUTCOME_again:
      return false;
  }
  return false;
}

// Packets that a worker was handed, whether it received them or the kernel lost them on the way.
inline u64 packets_handed(const xg_worker_counters& c) noexcept { return c.received + c.lost_in_kernel; }

// Packets that came to an end, of those `received`. Each counter is whole; what another thread counts
// meanwhile may be in it or not.
inline u64 packets_over(const xg_worker_counters& c) noexcept {
  u64 over = 0;
#define XG_X(name, unit, outcome, ...)                                               \
  if constexpr (is_end(XG_OUTCOME_##outcome) &&                                      \
                &xg_worker_counters::name !=                                         \
                    &xg_worker_counters::lost_in_kernel) /* it was never received */ \
    over += __atomic_load_n(&c.name, __ATOMIC_ACQUIRE);
  XG_WORKER_REASONS(XG_X)
#undef XG_X
  return over;
}

inline void add(xg_worker_counters& sum, const xg_worker_counters& one) noexcept {
  for (const WorkerCounter& counter : kWorkerCounters) sum.*counter.value += one.*counter.value;
}

}  // namespace xdpgpu::dataplane
