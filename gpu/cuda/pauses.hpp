// SPDX-License-Identifier: MIT
//
// gpu/cuda/pauses.hpp: how code is loaded on a GPU on which kernels stay. The driver loads none while one is
// there (bench/link: it waits for that kernel's end, whether loading is lazy or eager). So what stays is sent
// away first, between two batches: no more are handed over, those that were are decided, and the kernels end;
// the batches that come meanwhile wait with the thread that brings them. Behind the pause the next batch
// starts its kernel again. None is lost.
//
// Where the host changes a table, batches that are launched wait, too: then nothing of a batch is on the GPU.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/gpu.hpp"
#include "gpu/thread.hpp"

namespace xdpgpu::gpu::cuda {

// Who has a kernel that stays.
class Stays {
 public:
  Stays() = default;
  virtual ~Stays() = default;
  Stays(const Stays&) = delete;
  Stays& operator=(const Stays&) = delete;

  // Sends it away, and says whether it is gone. Called again and again by the thread that pauses, while
  // nothing is handed over, until it is.
  virtual bool send_away() noexcept = 0;
  // The pause is over.
  virtual void come_back() noexcept {}
};

// A queue whose batches are launched.
class Launches {
 public:
  Launches() = default;
  virtual ~Launches() = default;
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  // Whether all that was launched is over. Called again and again by the thread that pauses, while nothing is
  // launched, until it is.
  virtual bool is_over() noexcept = 0;
};

class Pauses {
 public:
  // Who stays from now on, and no longer.
  void add(Stays& one) {
    const std::lock_guard lock(mutex_);
    all_.push_back(&one);
  }
  void remove(Stays& one) {
    const std::lock_guard lock(mutex_);
    std::erase(all_, &one);
  }
  void add(Launches& one) {
    const std::lock_guard lock(mutex_);
    launching_.push_back(&one);
  }
  void remove(Launches& one) {
    const std::lock_guard lock(mutex_);
    std::erase(launching_, &one);
  }
  // Whether there is a pause, or one begins: then no kernel may be started that stays, but for batches that
  // have been handed over.
  bool any() const noexcept { return paused_.load(); }

  // What a queue hands over stands between these two: in a pause the first one waits for its end.
  void begin(std::atomic<bool>& handing_over) const noexcept { begin(handing_over, paused_); }
  static void end(std::atomic<bool>& handing_over) noexcept {
    handing_over.store(false, std::memory_order_release);
  }
  // The same of what is launched, which waits where nothing may be on the GPU.
  void begin_launch(std::atomic<bool>& launching) const noexcept { begin(launching, all_paused_); }

  // Does `what` while nothing stays. False, and it is not done: some kernel does not go, which is a device
  // that hangs.
  template <class What>
  bool pause(What&& what) {
    return pause(false, what);
  }
  // Does `what` while nothing of a batch is on the GPU.
  template <class What>
  bool pause_all(What&& what) {
    return pause(true, what);
  }

 private:
  static constexpr std::chrono::seconds kLongest{2};

  static void begin(std::atomic<bool>& handing_over, const std::atomic<bool>& waits) noexcept {
    for (;;) {
      handing_over.store(true);
      if (!waits.load()) return;
      handing_over.store(false, std::memory_order_release);
      while (waits.load(std::memory_order_relaxed)) relax();
    }
  }

  template <class What>
  bool pause(bool all, What& what) {
    const std::lock_guard lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + kLongest;
    const auto until = [&](auto&& holds) {
      while (!holds()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
      }
      return true;
    };
    paused_ = true;
    all_paused_ = all;
    bool gone = std::all_of(all_.begin(), all_.end(),
                            [&](Stays* one) { return until([&] { return one->send_away(); }); });
    if (gone && all)
      gone = std::all_of(launching_.begin(), launching_.end(),
                         [&](Launches* one) { return until([&] { return one->is_over(); }); });
    if (gone) what();
    all_paused_ = false;
    paused_ = false;
    for (Stays* one : all_) one->come_back();
    return gone;
  }

  std::mutex mutex_;
  std::vector<Stays*> all_;
  std::vector<Launches*> launching_;
  std::atomic<bool> paused_{false};
  std::atomic<bool> all_paused_{false};
};

}  // namespace xdpgpu::gpu::cuda
