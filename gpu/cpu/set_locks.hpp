// SPDX-License-Identifier: MIT
//
// gpu/cpu/set_locks.hpp: who is at which set of a table. Packets of one set are taken one after the other,
// whichever queue they came by; those of different sets do not wait for each other, but where two sets share
// a lock.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "gpu/stages/pipeline.h"
#include "gpu/stages/program_body.h"
#include "gpu/thread.hpp"

namespace xdpgpu::gpu::cpu {

class SetLocks {
 public:
  // Applies a packet to its set, which it has to itself meanwhile. Nothing: the host has changed the table of
  // a program since; what the packet brings has to be found anew. Any thread; a thread is at one set at a
  // time.
  std::optional<u32> apply(const xg_batch& batch, u32 kind, u32 body, const xg_touch& touch) noexcept {
    if (touch.tag == XG_UNTRACKED) return touch.facts;
    std::atomic<bool>& taken = of(xg_state_of(batch, body).v, touch.set);
    while (taken.exchange(true, std::memory_order_acquire)) wait(taken);
    if (xg_stage_runs_programs(kind)) {
      // By what was there before a packet may have had another key.
      if (touch.key[XG_PROGRAM_TOUCH_EDITS] != edits_.load(std::memory_order_relaxed)) {
        taken.store(false, std::memory_order_release);
        return std::nullopt;
      }
      // Where packets are ordered by a key nobody has the maps to itself.
      if (batch.image.v[body + XG_PROGRAM_BODY_KEY_BITS] == 0) await_those_beside();
    }
    const u32 outcome = xg_stage_apply(batch, kind, body, touch);
    taken.store(false, std::memory_order_release);
    return outcome;
  }

  // What a packet brings to a table. A program that only counts runs here, beside others that do, and not
  // while a program of another policy has the same maps to itself.
  xg_touch touch(const xg_batch& batch, const xg_way& way, const xg_view& seen, u32 bytes) noexcept {
    if (!xg_stage_runs_programs(way.kind)) return xg_stage_touch(batch, way, seen, bytes);
    const std::atomic<bool>& taken = of(xg_state_of(batch, way.body).v, 0);
    std::atomic<u32>& beside = beside_[number_of_this_thread() % kBeside].packets;
    beside.fetch_add(1, std::memory_order_seq_cst);
    while (taken.load(std::memory_order_seq_cst)) {
      beside.fetch_sub(1, std::memory_order_release);
      wait(taken);
      beside.fetch_add(1, std::memory_order_seq_cst);
    }
    xg_touch brought = xg_stage_touch(batch, way, seen, bytes);
    brought.key[XG_PROGRAM_TOUCH_EDITS] = edits_.load(std::memory_order_relaxed);
    beside.fetch_sub(1, std::memory_order_release);
    return brought;
  }

  // Does `what` while no packet is at a table of so many sets, or is ahead of a program's. Any thread that is
  // at no set.
  static constexpr u64 kAll = ~u64{0};
  template <class What>
  void keep_off(const u32* table, u64 sets, What&& what) noexcept {
    const std::lock_guard lock(keeping_off_);
    const u32 locks = static_cast<u32>(std::min<u64>(sets, kLocks));
    for (u32 set = 0; set < locks; set++)
      while (of(table, set).exchange(true, std::memory_order_acquire)) wait(of(table, set));
    await_those_beside();
    what();
    edits_.fetch_add(1, std::memory_order_relaxed);
    for (u32 set = 0; set < locks; set++) of(table, set).store(false, std::memory_order_release);
  }

  // Another core may have had the set's lock last: it is on its way here.
  void prefetch(const u32* table, u32 set) noexcept { __builtin_prefetch(&of(table, set), 1); }

 private:
  static constexpr u32 kLocks = 1024;  // so that few of a host's queues meet at one by chance
  static constexpr u32 kSpins = 64;
  struct alignas(64) Lock {
    std::atomic<bool> taken{false};
  };

  // Threads count apart, so that few of them meet at one line.
  static u32 number_of_this_thread() noexcept {
    static std::atomic<u32> next{0};
    thread_local const u32 mine = next.fetch_add(1, std::memory_order_relaxed);
    return mine;
  }

  static constexpr u32 kBeside = 64;
  struct alignas(64) Beside {
    std::atomic<u32> packets{0};
  };

  // Whoever has taken the set: nobody comes beside it from now on.
  void await_those_beside() const noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (const Beside& one : beside_)
      for (u32 i = 0; one.packets.load(std::memory_order_acquire) != 0; i++) {
        if (i < kSpins)
          relax();
        else
          sched_yield();
      }
  }

  // A table is known by its memory, which generations hand on. Neighbours have different locks.
  std::atomic<bool>& of(const u32* table, u32 set) noexcept {
    return locks_[(static_cast<u32>(reinterpret_cast<std::uintptr_t>(table) >> 12) + set) % kLocks].taken;
  }
  // Whoever has it may have lost its CPU: then it should get this one.
  static void wait(const std::atomic<bool>& taken) noexcept {
    for (u32 i = 0; taken.load(std::memory_order_relaxed); i++) {
      if (i < kSpins)
        relax();
      else
        sched_yield();
    }
  }

  std::mutex keeping_off_;     // one at a time: two could wait for each other's sets
  std::atomic<u32> edits_{0};  // how often somebody was kept off: it changes while all are
  std::array<Lock, kLocks> locks_;
  std::array<Beside, kBeside> beside_;
};

}  // namespace xdpgpu::gpu::cpu
