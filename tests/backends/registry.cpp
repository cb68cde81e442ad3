// SPDX-License-Identifier: MIT
//
// Which devices there are, and that the one that was asked for is the one that runs.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

using testing::HasSubstr;

// Sets XDPGPU_DEVICE for one test.
class Forced {
 public:
  explicit Forced(const char* value) {
    if (const char* before = std::getenv("XDPGPU_DEVICE")) before_ = before;
    set(value);
  }
  ~Forced() { set(before_ ? before_->c_str() : nullptr); }
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;

 private:
  static void set(const char* value) {
    if (value != nullptr)
      setenv("XDPGPU_DEVICE", value, 1);
    else
      unsetenv("XDPGPU_DEVICE");
  }
  std::optional<std::string> before_;
};

// Rank in the order that list_devices promises.
int rank(const gpu::DeviceInfo& info) {
  if (info.kind == gpu::Kind::cuda) return 0;
  if (info.kind == gpu::Kind::vulkan) return info.usable && info.software ? 3 : 1;
  return 2;
}

TEST(Registry, ListsEveryKindInTheOrderOfPreference) {
  const auto devices = gpu::list_devices();
  for (gpu::Kind kind : {gpu::Kind::cpu, gpu::Kind::cuda, gpu::Kind::vulkan})
    EXPECT_TRUE(
        std::any_of(devices.begin(), devices.end(), [&](const auto& info) { return info.kind == kind; }));
  EXPECT_TRUE(std::is_sorted(devices.begin(), devices.end(),
                             [](const auto& a, const auto& b) { return rank(a) < rank(b); }));
  for (const gpu::DeviceInfo& info : devices) {
    EXPECT_FALSE(info.name.empty());
    EXPECT_FALSE(info.description.empty()) << info.name;
    EXPECT_EQ(info.usable, info.reason.empty()) << info.name << ": " << info.reason;
  }
}

TEST(Registry, OpensByItsOwnNameEachUsableDevice) {
  for (const gpu::DeviceInfo& info : gpu::list_devices()) {
    auto device = gpu::open_device(info.name);
    ASSERT_EQ(device.has_value(), info.usable) << info.name << ": " << (device ? "" : device.error());
    if (device) {
      EXPECT_EQ((*device)->info().name, info.name);
    }
  }
}

// NVIDIA's Vulkan driver once could not be loaded any more after a dozen times.
TEST(Registry, OpensADeviceAsOftenAsWanted) {
  const auto devices = gpu::list_devices();
  const auto vulkan = std::find_if(devices.begin(), devices.end(), [](const gpu::DeviceInfo& info) {
    return info.kind == gpu::Kind::vulkan && info.usable;
  });
  if (vulkan == devices.end()) GTEST_SKIP() << "no Vulkan device";
  for (int i = 0; i < 20; ++i) {
    const auto device = gpu::open_device(vulkan->name);
    ASSERT_TRUE(device) << "time " << i << ": " << device.error();
  }
}

TEST(Registry, AnUnknownNameIsAnsweredWithTheDevicesThereAre) {
  const auto device = gpu::open_device("abacus");
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error(), HasSubstr("abacus"));
  for (const gpu::DeviceInfo& info : gpu::list_devices()) EXPECT_THAT(device.error(), HasSubstr(info.name));
}

TEST(Registry, AutoNeverTakesASoftwareVulkan) {
  const Forced nothing(nullptr);
  const auto device = gpu::open_device("auto");
  ASSERT_TRUE(device) << device.error();
  const gpu::DeviceInfo& info = (*device)->info();
  EXPECT_FALSE(info.kind == gpu::Kind::vulkan && info.software) << info.name;
  const auto devices = gpu::list_devices();
  const auto first = std::find_if(devices.begin(), devices.end(), [](const gpu::DeviceInfo& listed) {
    return listed.usable && (listed.kind == gpu::Kind::cpu || !listed.software);
  });
  ASSERT_NE(first, devices.end());
  EXPECT_EQ(info.name, first->name);
}

TEST(Registry, TheEnvironmentOverridesAutoAloneAndItsErrorsSaySo) {
  const Forced wrong("abacus");
  const auto device = gpu::open_device("auto");
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error(), HasSubstr("XDPGPU_DEVICE"));
  EXPECT_TRUE(gpu::open_device("cpu"));
}

class ForcedDevice : public testing::TestWithParam<const char*> {};

// XDPGPU_DEVICE is obeyed, and the device that it names does the work: its own memory holds the answers.
TEST_P(ForcedDevice, IsTheOneThatRuns) {
  const Forced kind(GetParam());
  const Traffic traffic = single_frame(std::vector<u8>(64, 0x11), 0);
  auto opened = gpu::open_device("auto");
  if (!opened) {
    if (required(GetParam())) FAIL() << opened.error();
    GTEST_SKIP() << opened.error();
  }
  gpu::Device& device = **opened;
  const std::map<std::string, gpu::Kind> kinds{
      {"cpu", gpu::Kind::cpu}, {"cuda", gpu::Kind::cuda}, {"vulkan", gpu::Kind::vulkan}};
  ASSERT_EQ(device.info().kind, kinds.at(GetParam()));

  const std::vector<gpu::PipelineSettings> settings{{"back", {gpu::L2fwdSettings{true, 3, false, 0}}}};
  ASSERT_TRUE(device.register_frames(traffic.region.base(), traffic.region.size(), gpu::Frames::automatic));
  ASSERT_TRUE(device.load(kGeneration, *gpu::Pipelines::compile(settings)));
  auto queue = device.open_queue({.batch_capacity = 8, .depth = 1});
  ASSERT_TRUE(queue) << queue.error();
  const auto results = judge(**queue, traffic.descriptors, 8, kGeneration);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].verdict, XG_VERDICT(XG_REDIRECT, 3u, 1u, 0u));
  EXPECT_EQ(results[0].flags, XG_RES_SWAP_MACS);
}

INSTANTIATE_TEST_SUITE_P(Backends, ForcedDevice, testing::Values("cpu", "cuda", "vulkan"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace xdpgpu::tests
