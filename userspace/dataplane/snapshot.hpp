// SPDX-License-Identifier: MIT
//
// userspace/dataplane/snapshot.hpp: a value that one thread publishes and others read whole (a sequence
// lock). The writer never waits.
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

#include "maps/types.h"

namespace xdpgpu::dataplane {

template <class T>
class Snapshot {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);

 public:
  void publish(const T& value) noexcept {
    u64 words[kWords];
    std::memcpy(words, &value, sizeof(T));
    const u64 version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
    version_.store(version + 2, std::memory_order_release);
  }

  T read() const noexcept {
    u64 words[kWords];
    for (;;) {
      const u64 before = version_.load(std::memory_order_acquire);
      for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (!(before & 1) && version_.load(std::memory_order_relaxed) == before) break;
    }
    T value;
    std::memcpy(&value, words, sizeof(T));
    return value;
  }

 private:
  static constexpr std::size_t kWords = sizeof(T) / 8;
  std::atomic<u64> version_{0};
  std::atomic<u64> words_[kWords] = {};
};

}  // namespace xdpgpu::dataplane
