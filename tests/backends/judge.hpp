// SPDX-License-Identifier: MIT
//
// tests/backends/judge.hpp: sends a stream of descriptors through a queue in batches, as many in flight
// as it takes, and compares with the reference.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "gpu/gpu.hpp"
#include "gpu/reference/reference.hpp"
#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {

inline constexpr u8 kPoison = 0xa5;
// A software Vulkan compiles its shaders with the first batch, on a host of two busy cores for more than a
// minute.
inline constexpr std::chrono::seconds kPatience{150};

// A batch's results and a few behind them are overwritten first: the device writes all of the former and
// none of the latter.
inline u32 poisoned(const gpu::Slot* slot, u32 count) { return std::min(count + 16, slot->capacity); }
inline void poison(gpu::Slot* slot, u32 count) {
  std::memset(slot->results, kPoison, poisoned(slot, count) * sizeof(xg_result));
}

// Descriptors from `first` on that make a batch of `batch` packets; more where the last packet has more.
inline u32 cut(const std::vector<xg_descriptor>& stream, std::size_t first, u32 batch, u32 capacity) {
  std::size_t end = std::min(first + batch, stream.size());
  while (end < stream.size() && (stream[end - 1].flags & XG_DESC_MORE) != 0) end++;
  EXPECT_LE(end - first, capacity);
  return static_cast<u32>(end - first);
}

// The oldest batch, once it is finished; nullptr where the device takes longer than kPatience.
inline gpu::Slot* wait(gpu::Queue& queue) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (queue.in_flight() > 0) {
    if (gpu::Slot* slot = queue.poll()) return slot;
    if (std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::yield();
  }
  return nullptr;
}

// The answers to `stream` cut into batches of `batch`. Batches must come back in order and whole.
inline std::vector<xg_result> judge(gpu::Queue& queue, const std::vector<xg_descriptor>& stream, u32 batch,
                                    u32 generation) {
  std::vector<xg_result> results;
  results.reserve(stream.size());
  std::map<const gpu::Slot*, const xg_result*> poisoned_at;
  const auto take = [&](gpu::Slot* slot) {
    ASSERT_NE(slot, nullptr) << "a batch did not come back";
    ASSERT_FALSE(slot->failed);
    ASSERT_EQ(slot->generation, generation);
    results.insert(results.end(), slot->results, slot->results + slot->count);
    // A standby may answer elsewhere.
    if (slot->standby && slot->results != poisoned_at[slot]) return queue.release(slot);
    for (std::size_t i = slot->count * sizeof(xg_result); i < poisoned(slot, slot->count) * sizeof(xg_result);
         i++)
      ASSERT_EQ(reinterpret_cast<const u8*>(slot->results)[i], kPoison)
          << "written behind the batch's results";
    queue.release(slot);
  };
  for (std::size_t first = 0; first < stream.size();) {
    gpu::Slot* slot = queue.acquire();
    if (slot == nullptr) {
      take(wait(queue));
      if (testing::Test::HasFatalFailure()) return results;
      continue;
    }
    const u32 count = cut(stream, first, batch, slot->capacity);
    poison(slot, count);
    poisoned_at[slot] = slot->results;
    std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(first), count, slot->descriptors);
    const gpu::Submit submitted = queue.submit(slot, count, generation);
    EXPECT_EQ(submitted, gpu::Submit::ok);
    if (submitted != gpu::Submit::ok) return results;
    first += count;
  }
  while (queue.in_flight() > 0 && !testing::Test::HasFatalFailure()) take(wait(queue));
  return results;
}

inline std::vector<xg_result> expected(const Traffic& traffic,
                                       const std::vector<gpu::PipelineSettings>& settings,
                                       u32 generation = kGeneration) {
  std::vector<xg_result> results(traffic.descriptors.size());
  gpu::reference::decide(traffic.region.bytes(), traffic.descriptors, generation, settings, results);
  return results;
}

// Names the first packet that differs.
inline void expect_equal(const std::vector<xg_result>& is, const std::vector<xg_result>& should,
                         const std::vector<xg_descriptor>& stream) {
  ASSERT_EQ(is.size(), should.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < is.size(); i++) {
    if (std::memcmp(&is[i], &should[i], sizeof(xg_result)) == 0) continue;
    if (different++ > 0) continue;
    ADD_FAILURE() << "packet " << i << " at " << stream[i].offset << " of " << stream[i].length
                  << " bytes: verdict " << std::hex << is[i].verdict << " flags " << is[i].flags << " detail "
                  << is[i].detail << " ttl " << is[i].cache_ttl_ms << ", the reference says verdict "
                  << should[i].verdict << " flags " << should[i].flags << " detail " << should[i].detail
                  << " ttl " << should[i].cache_ttl_ms;
  }
  EXPECT_EQ(different, 0u) << "of " << is.size() << " packets";
}

}  // namespace xdpgpu::tests
