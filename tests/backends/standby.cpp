// SPDX-License-Identifier: MIT
//
// A standby behind each device: whatever way the device breaks, every batch comes back decided, and in its
// order.
#include "gpu/standby.hpp"

#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "gpu/faults.hpp"
#include "tests/backends/forwarding.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"
#include "tests/kernel/frame.hpp"

namespace xdpgpu::tests {
namespace {

struct Broken {
  Target target;
  std::string fault;
};
void PrintTo(const Broken& one, std::ostream* out) { *out << one.target.name() << " " << one.fault; }

std::vector<Broken> all_broken() {
  std::vector<Broken> all;
  for (const Target& target : all_targets())
    for (const char* fault : {"fail", "refuse", "hang"}) all.push_back({target, fault});
  return all;
}

class Standby : public testing::TestWithParam<Broken> {
 protected:
  static constexpr std::chrono::milliseconds kRetry{5};

  // What is said while the device is tried again, up to one sentence.
  static std::string tried(gpu::Device& device) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      if (auto said = device.try_again(); !said.empty()) return said;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return "nothing";
  }

  // Breaks at batch number `at`; 0: never.
  gpu::Result<std::unique_ptr<gpu::Device>> open(const Traffic& traffic, u32 at,
                                                 decltype(gpu::StandbyOptions::reopen) reopen = {}) {
    const auto& [target, fault] = GetParam();
    auto device = gpu::open_device(target.kind);
    if (!device) return device;
    if (at > 0) device = gpu::with_fault(std::move(*device), fmt::format("{}:{}", fault, at));
    if (!device) return device;
    // A software Vulkan is long at its first batch, and the one that hangs here never comes.
    const bool hangs = at > 0 && fault == "hang";
    auto made = gpu::with_standby(std::move(*device), gpu::open_device("cpu").value(),
                                  {.hung_ns = hangs ? 300'000'000u : 1'000'000'000ull * kPatience.count(),
                                   .reopen = std::move(reopen),
                                   .retry = kRetry});
    if (auto ok = made->register_frames(traffic.region.base(), traffic.region.size(), target.frames); !ok)
      return tl::unexpected(ok.error());
    return made;
  }
};

#define XDPGPU_OPEN_BROKEN_OR_SKIP(traffic, ...)                                            \
  auto opened_broken = open(traffic, __VA_ARGS__);                                          \
  if (!opened_broken) {                                                                     \
    if (required(GetParam().target.kind)) FAIL() << opened_broken.error();                  \
    GTEST_SKIP() << GetParam().target.name() << " is not there: " << opened_broken.error(); \
  }                                                                                         \
  auto& device = *opened_broken

std::shared_ptr<const gpu::Pipelines> compiled(const std::vector<gpu::PipelineSettings>& settings) {
  return gpu::Pipelines::compile(settings).value();
}

TEST_P(Standby, DecidesWhatTheDeviceHadAndWhatComes) {
  Random random(test_seed());
  SCOPED_TRACE(test_seed());
  const auto settings = policy_case("composed", random);
  const Traffic traffic = random_traffic(random, 600, static_cast<u32>(settings.size()));
  const auto should = expected(traffic, settings);
  XDPGPU_OPEN_BROKEN_OR_SKIP(traffic, 5);
  ASSERT_TRUE(device->load(kGeneration, compiled(settings)));
  auto queue = device->open_queue(GetParam().target.queue(64, 4));
  ASSERT_TRUE(queue) << queue.error();
  for (u32 round = 0; round < 3; round++)
    expect_equal(judge(**queue, traffic.descriptors, 30, kGeneration), should, traffic.descriptors);
  EXPECT_NE(device->degraded().find("cpu decides in its place"), std::string::npos) << device->degraded();

  // A later policy is the standby's alone.
  ASSERT_TRUE(device->load(kGeneration + 1, compiled(settings)));
  auto another = device->open_queue(GetParam().target.queue(64, 2));
  if (another)
    expect_equal(judge(**another, traffic.descriptors, 30, kGeneration), should, traffic.descriptors);
  device->unload(kGeneration);
}

TEST_P(Standby, IsThereForTwoThreads) {
  Random random(test_seed());
  SCOPED_TRACE(test_seed());
  const auto settings = policy_case("acl_random", random);
  const Traffic traffic = random_traffic(random, 2000, static_cast<u32>(settings.size()));
  const auto should = expected(traffic, settings);
  XDPGPU_OPEN_BROKEN_OR_SKIP(traffic, 20);
  ASSERT_TRUE(device->load(kGeneration, compiled(settings)));
  auto opened = device->open_queue(GetParam().target.queue(64, 4));
  ASSERT_TRUE(opened) << opened.error();
  gpu::Queue& queue = **opened;
  std::atomic<bool> over{false};
  std::jthread feeder([&] {
    for (std::size_t first = 0; first < traffic.descriptors.size();) {
      gpu::Slot* slot = queue.acquire();
      if (slot == nullptr) {
        std::this_thread::yield();
        continue;
      }
      const u32 count = cut(traffic.descriptors, first, 40, slot->capacity);
      std::copy_n(traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(first), count, slot->descriptors);
      if (queue.submit(slot, count, kGeneration) != gpu::Submit::ok) break;
      first += count;
    }
    over = true;
  });
  Answers results;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while ((!over || queue.in_flight() > 0) && std::chrono::steady_clock::now() < deadline) {
    gpu::Slot* slot = queue.poll();
    if (slot == nullptr) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_FALSE(slot->failed);
    append(results, answers_in(*slot));
    queue.release(slot);
  }
  feeder.join();
  expect_equal(results, should, traffic.descriptors);
  EXPECT_NE(device->degraded(), "");
}

TEST_P(Standby, GoesBackToADeviceThatIsThereAgain) {
  Random random(test_seed());
  SCOPED_TRACE(test_seed());
  const auto settings = policy_case("acl_random", random), others = policy_case("composed", random);
  const Traffic traffic =
      random_traffic(random, 600, static_cast<u32>(std::min(settings.size(), others.size())));
  const auto should = expected(traffic, settings);
  XDPGPU_OPEN_BROKEN_OR_SKIP(traffic, 5, [&] { return gpu::open_device(GetParam().target.kind); });
  ASSERT_TRUE(device->load(kGeneration, compiled(settings)));
  auto queue = device->open_queue(GetParam().target.queue(64, 4));
  ASSERT_TRUE(queue) << queue.error();
  expect_equal(judge(**queue, traffic.descriptors, 30, kGeneration), should, traffic.descriptors);
  ASSERT_NE(device->degraded(), "");
  EXPECT_EQ(device->try_again(), "") << "its time has not come";
  // While it is away policies come and go.
  ASSERT_TRUE(device->load(kGeneration + 1, compiled(settings)));
  device->unload(kGeneration);
  ASSERT_TRUE(device->load(kGeneration, compiled(settings)));
  // A batch that the standby decides holds it up.
  gpu::Slot* slot = (*queue)->acquire();
  slot->descriptors[0] = traffic.descriptors[0];
  ASSERT_EQ((*queue)->submit(slot, 1, kGeneration + 1), gpu::Submit::ok);
  EXPECT_NE(tried(*device).find("decides again"), std::string::npos);
  EXPECT_EQ(device->degraded(), "");
  EXPECT_EQ((*queue)->acquire(), nullptr) << "the standby may still have flow verdicts to publish";
  ASSERT_EQ(wait(**queue), slot);
  EXPECT_TRUE(slot->standby);
  EXPECT_EQ((*queue)->acquire(), nullptr) << "likewise";
  (*queue)->release(slot);
  slot = (*queue)->acquire();
  ASSERT_NE(slot, nullptr);
  slot->descriptors[0] = traffic.descriptors[0];
  ASSERT_EQ((*queue)->submit(slot, 1, kGeneration + 1), gpu::Submit::ok);
  ASSERT_EQ(wait(**queue), slot);
  EXPECT_FALSE(slot->standby);
  (*queue)->release(slot);
  expect_equal(judge(**queue, traffic.descriptors, 30, kGeneration), should, traffic.descriptors);
  device->unload(kGeneration);
  ASSERT_TRUE(device->load(kGeneration, compiled(others)));
  expect_equal(judge(**queue, traffic.descriptors, 30, kGeneration), expected(traffic, others),
               traffic.descriptors);
  EXPECT_EQ(device->degraded(), "");
}

TEST_P(Standby, LeavesADeviceAloneThatFailsEachTime) {
  if (GetParam().target.kind != "cpu") GTEST_SKIP() << "no device's matter: cpu will do";
  Random random(test_seed());
  SCOPED_TRACE(test_seed());
  const auto settings = policy_case("acl_random", random);
  const Traffic traffic = random_traffic(random, 200, static_cast<u32>(settings.size()));
  const auto should = expected(traffic, settings);
  std::atomic<u32> opened{0};
  XDPGPU_OPEN_BROKEN_OR_SKIP(traffic, 2, [&]() -> gpu::Result<std::unique_ptr<gpu::Device>> {
    if (++opened == 1) return tl::unexpected(std::string("it is warm still"));
    auto again = gpu::open_device(GetParam().target.kind);
    if (!again) return again;
    return gpu::with_fault(std::move(*again), fmt::format("{}:2", GetParam().fault));
  });
  ASSERT_TRUE(device->load(kGeneration, compiled(settings)));
  auto queue = device->open_queue(GetParam().target.queue(64, 4));
  ASSERT_TRUE(queue) << queue.error();
  for (u32 life = 1; life < gpu::kStandbyLives; life++) {
    expect_equal(judge(**queue, traffic.descriptors, 30, kGeneration), should, traffic.descriptors);
    ASSERT_NE(device->degraded(), "") << life;
    if (life == 1) {
      EXPECT_NE(tried(*device).find("in vain: it is warm still"), std::string::npos);
    }
    ASSERT_NE(tried(*device).find("decides again"), std::string::npos) << life;
  }
  expect_equal(judge(**queue, traffic.descriptors, 30, kGeneration), should, traffic.descriptors);
  EXPECT_NE(tried(*device).find("is not tried again"), std::string::npos);
  EXPECT_EQ(opened, gpu::kStandbyLives);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(device->try_again(), "");
  EXPECT_EQ(opened, gpu::kStandbyLives);
}

// Of a connection that was open; a strict stage would drop what it does not know the beginning of.
TEST_P(Standby, OpenConnectionsGoOn) {
  using test::ethernet, test::ipv4, test::tcp, test::operator+;
  const auto packet = [](bool back, u8 flags) {
    return back ? ethernet() +
                      ipv4({.src = "198.51.100.2", .dst = "192.0.2.1", .protocol = 6}, tcp(80, 4000, flags))
                : ethernet() +
                      ipv4({.src = "192.0.2.1", .dst = "198.51.100.2", .protocol = 6}, tcp(4000, 80, flags));
  };
  const std::vector<test::Frame> frames{packet(false, 0x02), packet(true, 0x12),  packet(false, 0x10),
                                        packet(true, 0x10),  packet(false, 0x18), packet(true, 0x10)};
  Traffic traffic{FrameRegion((frames.size() + 1) / 2 * 4096), {}};
  for (u32 i = 0; i < frames.size(); i++)
    traffic.descriptors.push_back(
        place(traffic.region, u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA, frames[i], 0, i));
  gpu::ConntrackSettings strict;
  strict.egress = false;
  strict.table.entries = 64;
  const std::vector<gpu::PipelineSettings> settings{{"strict", {strict}}};
  XDPGPU_OPEN_BROKEN_OR_SKIP(traffic, 4);
  ASSERT_TRUE(device->load(kGeneration, compiled(settings)));
  auto queue = device->open_queue(GetParam().target.queue(8, 1));
  ASSERT_TRUE(queue) << queue.error();
  for (const xg_result& result : judge(**queue, traffic.descriptors, 1, kGeneration))
    EXPECT_EQ(XG_VERDICT_ACTION(result.verdict), XG_PASS);
  EXPECT_NE(device->degraded(), "");
}

TEST_P(Standby, StaysOutOfTheWayOfADeviceThatWorks) {
  if (GetParam().fault != "fail") GTEST_SKIP() << "no fault: one of them will do";
  Random random(test_seed());
  SCOPED_TRACE(test_seed());
  const auto settings = policy_case("composed", random);
  const Traffic traffic = random_traffic(random, 600, static_cast<u32>(settings.size()));
  XDPGPU_OPEN_BROKEN_OR_SKIP(traffic, 0);
  ASSERT_TRUE(device->load(kGeneration, compiled(settings)));
  auto queue = device->open_queue(GetParam().target.queue(64, 4));
  ASSERT_TRUE(queue) << queue.error();
  expect_equal(judge(**queue, traffic.descriptors, 30, kGeneration), expected(traffic, settings),
               traffic.descriptors);
  gpu::Slot* slot = (*queue)->acquire();
  slot->descriptors[0] = traffic.descriptors[0];
  EXPECT_EQ((*queue)->submit(slot, 1, kGeneration + 9), gpu::Submit::unknown_generation);
  ASSERT_EQ((*queue)->submit(slot, 1, kGeneration), gpu::Submit::ok) << "it is the caller's still";
  ASSERT_EQ(wait(**queue), slot);
  EXPECT_FALSE(slot->standby);
  EXPECT_EQ(device->degraded(), "");
}

INSTANTIATE_TEST_SUITE_P(Backends, Standby, testing::ValuesIn(all_broken()),
                         [](const auto& one) { return one.param.target.name() + "_" + one.param.fault; });

// That has no room for a generation, and works.
class Full final : public Forwarding {
 public:
  explicit Full(u32 refused) : Forwarding(gpu::open_device("cpu").value()), refused_(refused) {}
  gpu::Result<void> load(u32 generation, std::shared_ptr<const gpu::Pipelines> pipelines) override {
    if (std::exchange(refused_, 0) == generation) return tl::unexpected(std::string("it is full"));
    return Forwarding::load(generation, std::move(pipelines));
  }

 private:
  u32 refused_;
};

class Lost : public testing::Test {
 protected:
  void open(const char* fault, decltype(gpu::StandbyOptions::reopen) reopen = {}) {
    auto broken = gpu::with_fault(gpu::open_device("cpu").value(), fault);
    ASSERT_TRUE(broken) << broken.error();
    open(std::move(*broken), std::move(reopen));
  }
  void open(std::unique_ptr<gpu::Device> device, decltype(gpu::StandbyOptions::reopen) reopen = {}) {
    device_ = gpu::with_standby(std::move(device), gpu::open_device("cpu").value(),
                                {.reopen = std::move(reopen), .retry = std::chrono::milliseconds(1)});
    ASSERT_TRUE(
        device_->register_frames(traffic_.region.base(), traffic_.region.size(), gpu::Frames::in_place));
  }

  Random random_{test_seed()};
  const std::vector<gpu::PipelineSettings> settings_ = policy_case("acl_random", random_);
  const Traffic traffic_ = random_traffic(random_, 200, static_cast<u32>(settings_.size()));
  std::unique_ptr<gpu::Device> device_;
};

// Where packets are mirrored alone, there is no batch that would.
TEST_F(Lost, IsShownByAPolicyThatTheStandbyTakes) {
  open("lose:2");
  ASSERT_TRUE(device_->load(kGeneration, compiled(settings_)));
  auto queue = device_->open_queue({64, 2, gpu::Drive::launched, 0});
  ASSERT_TRUE(queue) << queue.error();
  EXPECT_EQ(device_->degraded(), "");
  const auto loaded = device_->load(kGeneration + 1, compiled(settings_));
  EXPECT_TRUE(loaded) << loaded.error();
  EXPECT_NE(device_->degraded().find("cpu decides in its place"), std::string::npos) << device_->degraded();
  expect_equal(judge(**queue, traffic_.descriptors, 30, kGeneration), expected(traffic_, settings_),
               traffic_.descriptors);
}

TEST_F(Lost, IsNotWhoRefusesAPolicy) {
  open(std::make_unique<Full>(kGeneration));
  const auto refused = device_->load(kGeneration, compiled(settings_));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), "it is full");
  EXPECT_EQ(device_->degraded(), "");
  EXPECT_TRUE(device_->load(kGeneration, compiled(settings_))) << "the standby has not kept it";
}

// No stack is to be had of more than all addresses.
TEST_F(Lost, IsTriedAgainLaterWhereThereIsNoThread) {
  open("lose:2", [] { return gpu::open_device("cpu"); });
  ASSERT_TRUE(device_->load(kGeneration, compiled(settings_)));
  ASSERT_TRUE(device_->load(kGeneration + 1, compiled(settings_)));
  pthread_attr_t normal, greedy;
  ASSERT_EQ(pthread_getattr_default_np(&normal), 0);
  ASSERT_EQ(pthread_getattr_default_np(&greedy), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&greedy, std::size_t{1} << 47), 0);
  ASSERT_EQ(pthread_setattr_default_np(&greedy), 0);
  const auto said = [&] {
    std::string what;
    for (int ms = 0; ms < 5000 && what.empty(); ++ms) {
      what = device_->try_again();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return what;
  };
  const std::string in_vain = said();
  pthread_setattr_default_np(&normal);
  EXPECT_NE(in_vain.find("no thread can be started for it"), std::string::npos) << in_vain;
  EXPECT_NE(device_->degraded(), "");
  EXPECT_NE(said().find("decides again"), std::string::npos);
  EXPECT_EQ(device_->degraded(), "");
}

TEST(Loosened, AreThePipelinesWithLooseConntrack) {
  const auto make = [](bool loose) {
    gpu::ConntrackSettings conntrack;
    conntrack.egress = false;
    conntrack.loose = loose;
    conntrack.table.entries = 64;
    gpu::RateLimitSettings limit;
    limit.packets_per_second = 9;
    limit.burst_packets = 9;
    limit.table.entries = 8;
    return compiled({{"a", {limit, conntrack}}, {"b", {gpu::L2fwdSettings{}}}, {"c", {conntrack}}});
  };
  const auto strict = make(false), loose = make(true);
  const auto loosened = gpu::Pipelines::loosened(strict);
  EXPECT_EQ(loosened->image(), loose->image());
  EXPECT_NE(loosened->image(), strict->image());
  ASSERT_EQ(loosened->states().size(), 3u);
  for (std::size_t i = 0; i < 3; i++)
    EXPECT_EQ(loosened->states()[i].identity, strict->states()[i].identity) << "a later policy finds them";
  EXPECT_EQ(gpu::Pipelines::loosened(loose), loose) << "no copy";
}

TEST(Faults, AreSaidInFull) {
  for (const char* fault : {"", "fail", "fail:", "fail:0", "fail:x", "fail:1x", "melt:1", "lose:"}) {
    const auto device = gpu::with_fault(gpu::open_device("cpu").value(), fault);
    ASSERT_FALSE(device) << fault;
    EXPECT_NE(device.error().find("fail:N, refuse:N, hang:N, lose:N or die:N"), std::string::npos)
        << device.error();
  }
}

}  // namespace
}  // namespace xdpgpu::tests
