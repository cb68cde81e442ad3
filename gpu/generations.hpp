// SPDX-License-Identifier: MIT
//
// gpu/generations.hpp: the generations a device knows, looked up by workers once a batch without a lock
// while another thread adds and removes others.
//
// A value may be looked up and used by any thread from add() until remove(); the caller of remove() has
// seen to it that nobody uses that generation any more (Device::unload's promise).
#pragma once

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu {

inline constexpr u32 kMaxGenerations = 64;

template <class Value>
class Generations {
 public:
  // Fails without effect where the generation is there already or kMaxGenerations are.
  Result<void> add(u32 generation, Value value) {
    const std::lock_guard lock(mutex_);
    if (find(generation) != nullptr)
      return tl::unexpected(
          fmt::format("generation {} is loaded already: a generation is never reused", generation));
    for (Entry& entry : entries_) {
      if (entry.key.load(std::memory_order_relaxed) != 0) continue;
      entry.value.emplace(std::move(value));
      entry.key.store(key(generation), std::memory_order_release);
      return {};
    }
    return tl::unexpected(
        fmt::format("the device holds {} generations already: unload old ones first", kMaxGenerations));
  }

  void remove(u32 generation) {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.key.load(std::memory_order_relaxed) != key(generation)) continue;
      entry.key.store(0, std::memory_order_relaxed);
      entry.value.reset();
    }
  }

  // Not while other threads add or remove.
  template <class Use>
  void each(Use use) {
    for (Entry& entry : entries_)
      if (entry.key.load(std::memory_order_relaxed) != 0) use(*entry.value);
  }

  const Value* find(u32 generation) const noexcept {
    for (const Entry& entry : entries_)
      if (entry.key.load(std::memory_order_acquire) == key(generation)) return &*entry.value;
    return nullptr;
  }

 private:
  struct Entry {
    std::atomic<u64> key{0};  // 0: empty
    std::optional<Value> value;
  };
  static u64 key(u32 generation) noexcept { return u64{1} << 32 | generation; }

  std::mutex mutex_;
  std::array<Entry, kMaxGenerations> entries_;
};

}  // namespace xdpgpu::gpu
