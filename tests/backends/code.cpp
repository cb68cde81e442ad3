// SPDX-License-Identifier: MIT
//
// Pipelines that bring machine code of their own: it is loaded beside running batches, decides from the first
// batch of its generation on, and none is lost. The code is the build's own under another name, so that the
// answers are the reference's.
#include <gmock/gmock.h>

#include <atomic>
#include <span>
#include <thread>

#include "gpu/device_code.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/sources.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

constexpr u32 kSources = 100, kEach = 60;
constexpr u32 kBatch = 200;

class Code : public testing::TestWithParam<Target> {
 protected:
  // The device's own under another name.
  static std::shared_ptr<gpu::DeviceCode> copy_of(const gpu::DeviceCode& code, const std::string& id) {
    auto copy = std::make_shared<gpu::DeviceCode>(code);
    copy->id = id;
    return copy;
  }
};

void make_all(const Traffic& traffic, std::span<const xg_descriptor> these, u32 generation) {
  for (const xg_descriptor& one : these)
    std::memcpy(traffic.region.base() + one.offset - XG_METADATA_SIZE + offsetof(xg_metadata, generation),
                &generation, sizeof(generation));
}
std::vector<gpu::PipelineSettings> limits() {
  return {{"main", {limit(gpu::RateLimitSettings::Per::src, 4, 0, {64, gpu::TableSettings::Evict::lru})}}};
}

#define XDPGPU_CODE_OR_SKIP(device)  \
  const auto own = (device)->code(); \
  if (own == nullptr) GTEST_SKIP() << (device)->info().name << " takes none"

TEST_P(Code, TakesOverBetweenTwoBatches) {
  const std::vector<gpu::PipelineSettings> settings = limits();
  const Traffic traffic = of_sources(kSources, kEach);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  XDPGPU_CODE_OR_SKIP(device);
  const auto pipelines = gpu::Pipelines::compile(settings).value();
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  auto queue = device->open_queue(GetParam().queue(kBatch + 64, 4));
  ASSERT_TRUE(queue) << queue.error();
  // While batches are decided, code is loaded for other generations, one after the other; none of their
  // batches goes missing.
  std::atomic<bool> over{false};
  std::string problem;
  std::thread loader([&] {
    for (u32 i = 1; i <= 8; i++) {
      const auto with = gpu::Pipelines::with_code(pipelines, copy_of(*own, fmt::format("copy {}", i)));
      if (const auto loaded = device->load(kGeneration + i, with); !loaded) problem = loaded.error();
      device->unload(kGeneration + i);
    }
    over = true;
  });
  const auto first = judge(**queue, traffic.descriptors, kBatch, kGeneration);
  expect_equal(first, expected(traffic, settings), traffic.descriptors);
  while (!over) (void)judge(**queue, traffic.descriptors, kBatch, kGeneration);
  loader.join();
  EXPECT_EQ(problem, "");
}

TEST_P(Code, DecidesItsOwnGenerationsBatches) {
  const std::vector<gpu::PipelineSettings> settings = limits();
  const auto pipelines = gpu::Pipelines::compile(settings).value();
  const Traffic traffic = of_sources(kSources, kEach);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  XDPGPU_CODE_OR_SKIP(device);
  auto queue = device->open_queue(GetParam().queue(kBatch + 64, 4));
  ASSERT_TRUE(queue) << queue.error();
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  const auto other = gpu::Pipelines::with_code(pipelines, copy_of(*own, "another name"));
  ASSERT_TRUE(device->load(kGeneration + 1, other));
  // The batches of two generations by turns, several in flight: each is decided by its own kernels, and in
  // its order, as the table that both have in common says.
  gpu::reference::Judge reference(settings);
  std::size_t at = 0;
  Answers is;
  const auto take = [&](gpu::Slot* slot) {
    ASSERT_NE(slot, nullptr) << "a batch did not come back";
    ASSERT_FALSE(slot->failed);
    append(is, answers_in(*slot));
    (*queue)->release(slot);
  };
  for (u32 turn = 0; at < traffic.descriptors.size(); turn++) {
    gpu::Slot* slot = (*queue)->acquire();
    if (slot == nullptr) {
      take(wait(**queue));
      if (HasFatalFailure()) return;
      turn--;
      continue;
    }
    const u32 count = cut(traffic.descriptors, at, kBatch, slot->capacity);
    std::copy_n(traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(at), count, slot->descriptors);
    const u32 generation = kGeneration + turn % 2;
    make_all(traffic, {slot->descriptors, count}, generation);
    ASSERT_EQ((*queue)->submit(slot, count, generation), gpu::Submit::ok);
    at += count;
  }
  while ((*queue)->in_flight() > 0) {
    take(wait(**queue));
    if (HasFatalFailure()) return;
  }
  // As if all had been of one generation.
  make_all(traffic, traffic.descriptors, kGeneration);
  expect_equal(is, answers_of(reference, traffic.region.bytes(), traffic.descriptors, kGeneration),
               traffic.descriptors);
  // The first one's code is still there when the second's generation has gone.
  device->unload(kGeneration + 1);
  EXPECT_EQ(judge(**queue, traffic.descriptors, kBatch, kGeneration).size(), traffic.descriptors.size());
}

TEST_P(Code, OfAnotherArchitectureOrInPiecesIsRefused) {
  const Traffic traffic = of_sources(kSources, kEach);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  XDPGPU_CODE_OR_SKIP(device);
  const auto pipelines = gpu::Pipelines::compile({{"main", {}}}).value();
  const auto why = [&](std::shared_ptr<gpu::DeviceCode> code) {
    const auto loaded = device->load(kGeneration, gpu::Pipelines::with_code(pipelines, std::move(code)));
    return loaded ? "" : loaded.error();
  };
  auto code = copy_of(*own, "for another");
  code->architecture += 10;
  EXPECT_THAT(why(code), testing::HasSubstr("is for compute capability"));
  code = copy_of(*own, "in pieces");
  code->modules.pop_back();
  EXPECT_THAT(why(code), testing::HasSubstr("modules"));
  code = copy_of(*own, "cut short");
  code->modules.back().resize(code->modules.back().size() - 1);
  EXPECT_THAT(why(code), testing::HasSubstr("a part is missing"));
  code = copy_of(*own, "no code");
  for (auto& module : code->modules) std::fill(module.begin(), module.end(), 'x');
  EXPECT_THAT(why(code), testing::HasSubstr("is none for a GPU"));
  // And nothing of them is left.
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  auto queue = device->open_queue(GetParam().queue(kBatch + 64, 4));
  ASSERT_TRUE(queue) << queue.error();
  EXPECT_EQ(judge(**queue, traffic.descriptors, kBatch, kGeneration).size(), traffic.descriptors.size());
}

INSTANTIATE_TEST_SUITE_P(Backends, Code, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace xdpgpu::tests
