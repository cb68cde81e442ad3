// SPDX-License-Identifier: MIT
//
// Two devices of one kind over the same memory: both decide as the reference does, and each publishes into
// the shards of its own queues alone.
#include <algorithm>
#include <optional>

#include "tests/backends/judge.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

constexpr u32 kPackets = 2000, kShard = 1024, kShards = 2;

// Names of the kind's first two usable devices; one that is alone is opened twice.
std::vector<std::string> two_of(const std::string& kind) {
  std::vector<std::string> names;
  for (const gpu::DeviceInfo& info : gpu::list_devices())
    if (info.usable && info.name.starts_with(kind) && names.size() < 2) names.push_back(info.name);
  if (names.size() == 1) names.push_back(names.front());
  return names;
}

class Several : public testing::TestWithParam<Target> {
 protected:
  // What is registered first is given back last.
  ~Several() override {
    while (!devices_.empty()) devices_.pop_back();
  }
  std::span<xg_flow_verdict> entries() const {
    return {reinterpret_cast<xg_flow_verdict*>(entries_.base()), kShard * kShards};
  }
  std::span<const u8> shard(u32 queue) const {
    return entries_.bytes().subspan(queue * kShard * sizeof(xg_flow_verdict),
                                    kShard * sizeof(xg_flow_verdict));
  }
  static bool empty(std::span<const u8> shard) {
    return std::all_of(shard.begin(), shard.end(), [](u8 byte) { return byte == 0; });
  }

  FrameRegion entries_{kShard * kShards * sizeof(xg_flow_verdict)};
  FrameRegion stats_{kShard * kShards * sizeof(xg_flow_stats)};
  std::optional<Traffic> traffic_;
  std::vector<std::unique_ptr<gpu::Device>> devices_;  // before the memory that they have
};

TEST_P(Several, ShareFramesAndFlowVerdicts) {
  const auto names = two_of(GetParam().kind);
  if (names.empty()) {
    if (required(GetParam().kind)) FAIL() << "there is no usable device of kind " << GetParam().kind;
    GTEST_SKIP() << "this host has no usable device of kind " << GetParam().kind;
  }
  Random random(test_seed());
  const Traffic& traffic = traffic_.emplace(random_traffic(random, kPackets, 1));
  gpu::AclSettings acl;
  acl.otherwise = gpu::AclRule::Action::drop;
  acl.cache = true;
  const std::vector<gpu::PipelineSettings> settings{{"drop", {acl}}};
  const auto pipelines = gpu::Pipelines::compile(settings).value();
  const auto should = expected(traffic, settings);

  const std::vector<gpu::FlowTables> tables(
      1, {entries(), {reinterpret_cast<xg_flow_stats*>(stats_.base()), kShard * kShards}, kShard});
  std::vector<bool> publishes;
  for (const std::string& name : names) {
    auto opened = gpu::open_device(name);
    ASSERT_TRUE(opened) << opened.error();
    devices_.push_back(std::move(*opened));
    gpu::Device& device = *devices_.back();
    const auto registered =
        device.register_frames(traffic.region.base(), traffic.region.size(), GetParam().frames);
    ASSERT_TRUE(registered) << name << ": " << registered.error();
    EXPECT_EQ(device.frames(), GetParam().frames) << name;
    const auto published = device.publish_flows(tables);
    ASSERT_TRUE(published) << name << ": " << published.error();
    publishes.push_back(*published);
    const auto loaded = device.load(kGeneration, pipelines);
    ASSERT_TRUE(loaded) << name << ": " << loaded.error();
  }
  for (u32 i = 0; i < devices_.size(); ++i) {
    gpu::QueueOptions options = GetParam().queue(256, 3);
    options.receive_queue = i;
    auto queue = devices_[i]->open_queue(options);
    ASSERT_TRUE(queue) << names[i] << ": " << queue.error();
    const std::vector<u8> others(shard(1 - i).begin(), shard(1 - i).end());
    auto results = judge(**queue, traffic.descriptors, 200, kGeneration);
    for (xg_result& result : results) result.flags &= ~(XG_RES_PUBLISHED | XG_RES_EVICTED);
    expect_equal(results, should, traffic.descriptors);
    EXPECT_EQ(empty(shard(i)), !publishes[i]) << names[i];
    EXPECT_TRUE(std::equal(others.begin(), others.end(), shard(1 - i).begin()))
        << names[i] << " wrote where it has no queue";
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Several, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace xdpgpu::tests
