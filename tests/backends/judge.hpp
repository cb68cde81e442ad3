// SPDX-License-Identifier: MIT
//
// tests/backends/judge.hpp: sends a stream of descriptors through a queue in batches, as many in flight
// as it takes, and compares with the reference.
#pragma once

#include <fmt/format.h>
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
// minute; where sanitizers look at each of its allocations, for some.
#ifdef XDPGPU_SANITIZED
inline constexpr std::chrono::seconds kPatience{600};
#else
inline constexpr std::chrono::seconds kPatience{300};
#endif

// A batch's results and a few behind them are overwritten first: the device writes all of the former and
// none of the latter.
inline u32 poisoned(const gpu::Slot* slot, u32 count) { return std::min(count + 16, slot->capacity); }
inline void poison(gpu::Slot* slot, u32 count) {
  std::memset(slot->results, kPoison, poisoned(slot, count) * sizeof(xg_result));
  std::memset(slot->edits, kPoison, poisoned(slot, count) * sizeof(xg_edit));
  std::memset(slot->adjusts, kPoison, poisoned(slot, count) * sizeof(xg_adjust));
  std::memset(slot->alerts, kPoison, poisoned(slot, count) * sizeof(xg_alerts));
  std::memset(slot->patches, kPoison, poisoned(slot, count) * sizeof(xg_patch));
  std::memset(slot->events, kPoison, poisoned(slot, count) * sizeof(xg_event));
}

// A packet's result, and the records that it names; all zero where it names none.
struct Answer : xg_result {
  xg_edit edit{};
  xg_adjust adjust{};
  xg_alerts alerts{};
  xg_patch patch{};
  xg_event event{};
};
using Answers = std::vector<Answer>;
inline bool equal(const Answer& a, const Answer& b) {
  const xg_result &ours = a, &theirs = b;
  return std::memcmp(&ours, &theirs, sizeof(xg_result)) == 0 &&
         std::memcmp(&a.edit, &b.edit, sizeof(xg_edit)) == 0 &&
         std::memcmp(&a.adjust, &b.adjust, sizeof(xg_adjust)) == 0 &&
         std::memcmp(&a.alerts, &b.alerts, sizeof(xg_alerts)) == 0 &&
         std::memcmp(&a.patch, &b.patch, sizeof(xg_patch)) == 0 &&
         std::memcmp(&a.event, &b.event, sizeof(xg_event)) == 0;
}
inline Answer answer_of(const xg_result& result, const xg_edit& edit, const xg_adjust& adjust,
                        const xg_alerts& alerts, const xg_patch& patch, const xg_event& event) {
  Answer answer{result, {}, {}, {}, {}, {}};
  if ((result.flags & XG_RES_EDIT) != 0) answer.edit = edit;
  if ((result.flags & (XG_RES_ADJUST | XG_RES_TOO_LONG)) != 0) answer.adjust = adjust;
  if ((result.flags & XG_RES_ALERTS) != 0) answer.alerts = alerts;
  if ((result.flags & XG_RES_PATCH) != 0) {
    const std::size_t lines = std::min<std::size_t>(patch.count, XG_PATCH_LINES);
    std::memcpy(&answer.patch, &patch, offsetof(xg_patch, bytes) + lines * XG_PATCH_LINE_BYTES);
  }
  if ((result.flags & XG_RES_EVENT) != 0) {
    // With the 16 bytes that its last one is in.
    const std::size_t bytes = (std::min<std::size_t>(event.length, XG_EVENT_BYTES) + 15) / 16 * 16;
    std::memcpy(&answer.event, &event, offsetof(xg_event, bytes) + bytes);
  }
  return answer;
}
// The answers of a batch that is over.
inline Answers answers_in(const gpu::Slot& slot) {
  Answers answers;
  for (u32 i = 0; i < slot.count; i++)
    answers.push_back(answer_of(slot.results[i], slot.edits[i], slot.adjusts[i], slot.alerts[i],
                                slot.patches[i], slot.events[i]));
  return answers;
}
inline void append(Answers& to, const Answers& more) { to.insert(to.end(), more.begin(), more.end()); }
// The reference's.
inline Answers answers_of(gpu::reference::Judge& judge, std::span<const u8> region,
                          std::span<const xg_descriptor> descriptors, u32 generation) {
  std::vector<xg_result> results(descriptors.size());
  std::vector<xg_edit> edits(descriptors.size());
  std::vector<xg_adjust> adjusts(descriptors.size());
  std::vector<xg_alerts> alerts(descriptors.size());
  std::vector<xg_patch> patches(descriptors.size());
  std::vector<xg_event> events(descriptors.size());
  judge.decide(region, descriptors, generation, results, {edits, adjusts, alerts, patches, events});
  Answers answers;
  for (std::size_t i = 0; i < results.size(); i++) {
    answers.push_back(answer_of(results[i], edits[i], adjusts[i], alerts[i], patches[i], events[i]));
    const Answer all{results[i], edits[i], adjusts[i], alerts[i], patches[i], events[i]};
    EXPECT_TRUE(equal(answers.back(), all))
        << "packet " << i << " has a record that its result does not name";
  }
  return answers;
}

// Descriptors from `first` on that make a batch of `batch` packets; more where the last packet has more,
// which is the next batch's where that is too many.
inline u32 cut(const std::vector<xg_descriptor>& stream, std::size_t first, u32 batch, u32 capacity) {
  std::size_t end = std::min(first + batch, stream.size());
  while (end < stream.size() && (stream[end - 1].flags & XG_DESC_MORE) != 0) end++;
  if (end - first > capacity)
    for (end = first + capacity; end > first && (stream[end - 1].flags & XG_DESC_MORE) != 0;) end--;
  EXPECT_GT(end, first);
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

// Records first..end - 1 were not written.
template <class Record>
void expect_poison(const Record* records, u32 first, u32 end) {
  for (std::size_t i = first * sizeof(Record); i < end * sizeof(Record); i++)
    ASSERT_EQ(reinterpret_cast<const u8*>(records)[i], kPoison)
        << "record " << i / sizeof(Record) << " of " << sizeof(Record) << " bytes was written";
}

// A record that says nothing was not written, unless a stage in front of the one that tells had something to
// say: then it is whole.
inline void expect_untold(const xg_alerts* alerts, u32 i) {
  const auto* const words = reinterpret_cast<const u32*>(alerts + i);
  const bool is_whole = words[5] == 0 && words[6] == 0 && words[7] == 0;
  if (!is_whole) expect_poison(alerts, i, i + 1);
}

// The answers to `stream` cut into batches of `batch`. Batches must come back in order and whole.
inline Answers judge(gpu::Queue& queue, const std::vector<xg_descriptor>& stream, u32 batch, u32 generation) {
  Answers results;
  results.reserve(stream.size());
  std::map<const gpu::Slot*, const xg_result*> poisoned_at;
  const auto take = [&](gpu::Slot* slot) {
    ASSERT_NE(slot, nullptr) << "a batch did not come back";
    ASSERT_FALSE(slot->failed);
    ASSERT_EQ(slot->generation, generation);
    append(results, answers_in(*slot));
    // A standby may answer elsewhere.
    if (slot->standby && slot->results != poisoned_at[slot]) return queue.release(slot);
    expect_poison(slot->results, slot->count, poisoned(slot, slot->count));
    expect_poison(slot->edits, slot->count, poisoned(slot, slot->count));
    expect_poison(slot->adjusts, slot->count, poisoned(slot, slot->count));
    expect_poison(slot->alerts, slot->count, poisoned(slot, slot->count));
    expect_poison(slot->patches, slot->count, poisoned(slot, slot->count));
    expect_poison(slot->events, slot->count, poisoned(slot, slot->count));
    for (u32 i = 0; i < slot->count && !slot->standby; i++) {
      const u32 flags = slot->results[i].flags;
      if ((flags & XG_RES_EDIT) == 0) expect_poison(slot->edits, i, i + 1);
      if ((flags & (XG_RES_ADJUST | XG_RES_TOO_LONG)) == 0) expect_poison(slot->adjusts, i, i + 1);
      if ((flags & XG_RES_ALERTS) == 0) expect_untold(slot->alerts, i);
      if ((flags & XG_RES_PATCH) == 0) expect_poison(slot->patches, i, i + 1);
      if ((flags & XG_RES_EVENT) == 0) expect_poison(slot->events, i, i + 1);
    }
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

inline Answers expected(const Traffic& traffic, const std::vector<gpu::PipelineSettings>& settings,
                        u32 generation = kGeneration) {
  gpu::reference::Judge judge(settings);
  return answers_of(judge, traffic.region.bytes(), traffic.descriptors, generation);
}

inline std::string text_of(const Answer& answer) {
  std::string text;
  for (std::size_t i = sizeof(xg_result); i < sizeof(Answer); i++)
    text += fmt::format("{:02x}", reinterpret_cast<const u8*>(&answer)[i]);
  return text;
}

// Names the first packet that differs.
inline void expect_equal(const Answers& is, const Answers& should, const std::vector<xg_descriptor>& stream) {
  ASSERT_EQ(is.size(), should.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < is.size(); i++) {
    if (equal(is[i], should[i])) continue;
    if (different++ > 0) continue;
    ADD_FAILURE() << "packet " << i << " at " << stream[i].offset << " of " << stream[i].length
                  << " bytes: verdict " << std::hex << is[i].verdict << " flags " << is[i].flags << " detail "
                  << is[i].detail << " ttl " << is[i].cache_ttl_ms << ", the reference says verdict "
                  << should[i].verdict << " flags " << should[i].flags << " detail " << should[i].detail
                  << " ttl " << should[i].cache_ttl_ms << "; edits " << text_of(is[i]) << " and "
                  << text_of(should[i]);
  }
  EXPECT_EQ(different, 0u) << "of " << is.size() << " packets";
}

}  // namespace xdpgpu::tests
