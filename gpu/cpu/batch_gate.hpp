// SPDX-License-Identifier: MIT
//
// gpu/cpu/batch_gate.hpp: keeps something still while batches are decided by it. Whoever decides has a pass,
// and enters and leaves with each batch: a store of its own memory and a load, and a store. Whoever changes
// what they read closes the gate: those that are inside leave, and those that come wait.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "gpu/thread.hpp"

namespace xdpgpu::gpu::cpu {

class BatchGate {
 public:
  // Of a thread at a time. The gate outlives it.
  class Pass {
   public:
    explicit Pass(BatchGate& gate) : gate_(gate) {
      const std::lock_guard lock(gate_.mutex_);
      gate_.passes_.push_back(this);
    }
    ~Pass() {
      const std::lock_guard lock(gate_.mutex_);
      std::erase(gate_.passes_, this);
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    void enter() noexcept {
      inside_.store(true);
      while (gate_.closed_.load()) {
        inside_.store(false, std::memory_order_release);
        await([this] { return !gate_.closed_.load(std::memory_order_relaxed); });
        inside_.store(true);
      }
    }
    void leave() noexcept { inside_.store(false, std::memory_order_release); }

   private:
    friend class BatchGate;
    BatchGate& gate_;
    alignas(64) std::atomic<bool> inside_{false};
  };

  // Does `what` while nobody is inside. From no thread that is.
  template <class What>
  void close_for(What&& what) {
    const std::lock_guard lock(mutex_);
    closed_.store(true);
    for (const Pass* one : passes_) await([one] { return !one->inside_.load(); });
    what();
    closed_.store(false);
  }

 private:
  static constexpr unsigned kSpins = 64;
  // Whoever is waited for may have lost its CPU: then it should get this one.
  template <class Holds>
  static void await(Holds holds) noexcept {
    for (unsigned i = 0; !holds(); i++) {
      if (i < kSpins)
        relax();
      else
        sched_yield();
    }
  }

  std::mutex mutex_;
  std::vector<const Pass*> passes_;
  alignas(64) std::atomic<bool> closed_{false};
};

}  // namespace xdpgpu::gpu::cpu
