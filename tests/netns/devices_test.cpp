// SPDX-License-Identifier: MIT
//
// tests/netns/devices_test.cpp: several compute devices under one policy (compute.devices): each receive
// queue is served by one of them, and a policy is swapped on all of them at once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <thread>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kBounce = R"({"stage": "l2fwd"})";
constexpr const char* kDrop = R"({"stage": "acl", "rules": [], "default": "drop"})";

class SeveralDevices : public OnOneWire {
 protected:
  SeveralDevices() { config_.queues = 2; }

  // Two of the kind under test; where the host has but one, the second is the CPU, which is there any number
  // of times.
  std::vector<std::string> two_devices() const {
    const std::string device = device_under_test(), kind = device.substr(0, device.find(':'));
    std::vector<std::string> names;
    const Json all = Json::parse(product(*host_, {"devices", "-o", "json"}).out);
    for (const Json& one : all)
      if (one.at("kind") == kind && one.at("usable") == true && names.size() < 2)
        names.push_back(one.at("name").get<std::string>());
    while (names.size() < 2) names.emplace_back("cpu");
    return names;
  }
  std::string bounce_on(const std::vector<std::string>& devices, const char* stages = kBounce) const {
    return inspect_udp(7000, stages,
                       fmt::format(R"("compute": {{"devices": ["{}"]}})", fmt::join(devices, "\", \"")));
  }
  void attach_by_policy(const std::string& policy) {
    attached_ = std::make_unique<Attached>(*host_, AttachSpec{.interfaces = {host_port().ifname()},
                                                              .policy = policy,
                                                              .queues = config_.queues,
                                                              .device_by_policy = true});
  }
};

TEST_F(SeveralDevices, EachServesAQueue) {
  const auto names = two_devices();
  attach_by_policy(bounce_on(names));
  Sniffer left(left_port());
  const auto frames = many_flows(7000, 64, 25);
  Sender(left_port()).send_paced(frames, 20000);
  EXPECT_EQ(left.take(frames.size(), 5000ms, udp_to(7000)).size(), frames.size());

  const Json status = attached_->status();
  ASSERT_EQ(status.at("devices").size(), 2U);
  const Json& queues = status.at("ports").at(0).at("queues");
  ASSERT_EQ(queues.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(status.at("devices").at(i).at("name"), names[i]);
    EXPECT_EQ(queues.at(i).at("device"), names[i]);
    EXPECT_EQ(queues.at(i).at("compute_mode"), status.at("devices").at(i).at("mode"));
    EXPECT_GT(queues.at(i).at("counters").at("transmitted"), 0U) << "queue " << i << " had no flow";
  }
  EXPECT_EQ(status.at("device"), status.at("devices").at(0));
  const std::string text = product(*host_, {"status", host_port().ifname()}).out;
  for (const std::string& name : names)
    EXPECT_NE(text.find(", device " + name + ","), std::string::npos) << text;
  expect_conserved(attached_->pins());
}

TEST_F(SeveralDevices, APolicyIsSwappedOnAllOfThem) {
  const auto names = two_devices();
  attach_by_policy(bounce_on(names, kDrop));
  const Pins& pins = attached_->pins();
  Sniffer left(left_port());
  std::atomic<bool> stop{false};
  std::uint64_t sent = 0;
  std::thread traffic([&] {
    Sender sender(left_port());
    const auto frames = many_flows(7000, 64, 5);
    while (!stop) {
      sender.send_paced(frames, 20000);
      sent += frames.size();
    }
  });
  std::string problem;
  for (int swap = 0; swap < 6 && problem.empty(); ++swap) {
    const Outcome outcome = attached_->apply(bounce_on(names, swap % 2 ? kDrop : kBounce));
    if (outcome.status != 0) problem = outcome.out + outcome.err;
    std::this_thread::sleep_for(20ms);
  }
  stop = true;
  traffic.join();
  EXPECT_EQ(problem, "");
  EXPECT_TRUE(eventually([&] { return pins.worker("dropped") + pins.worker("transmitted") == sent; }))
      << pins.summary();
  EXPECT_GT(pins.worker("transmitted"), 0U);
  EXPECT_EQ(pins.worker("error_generation"), 0U) << "a device did not know a policy";
  expect_conserved(pins);
  EXPECT_EQ(attached_->detach().status, 0);
}

// The policy that is applied names one device, but the process has two.
TEST_F(SeveralDevices, NoPolicyThatRemembersPacketsComesToThem) {
  attach_by_policy(bounce_on(two_devices()));
  const Outcome outcome = attached_->apply(inspect_udp(7000, R"({"stage": "conntrack"})"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("each of the 2 devices would remember only its own queues'"), std::string::npos)
      << outcome.err;
  Sniffer left(left_port());
  Sender(left_port()).send(build(from_left(1000, 7000, "the old policy's")));
  EXPECT_EQ(left.take(1, 2000ms, udp_to(7000)).size(), 1U);
}

// On the CPU, which mirrors with a thread of the first device.
TEST_F(SeveralDevices, TheFirstLooksAtWhatIsMirrored) {
  const auto names = two_devices();
  if (names[0].starts_with("vulkan")) GTEST_SKIP() << "Vulkan does not mirror";
  attach_by_policy(policy(fmt::format(
      R"("rules": [{{"match": {{"proto": "udp", "dst_port": 7000}}, "action": {{"mirror": "watch"}}}}],
         "pipelines": {{"watch": [{{"stage": "acl", "rules": [], "default": "drop", "cache": true}}]}},
         "compute": {{"devices": ["{}"]}})",
      fmt::join(names, "\", \""))));
  Sender(left_port()).send(build(from_left(1000, 7000, "first")));
  EXPECT_TRUE(eventually([&] { return attached_->pins().flow(1000, 7000).has_value(); }));
  EXPECT_EQ(attached_->status().at("mirror").at("device"), names[0]);
}

TEST_F(SeveralDevices, MoreThanThereAreQueuesIsSaid) {
  auto names = two_devices();
  names.emplace_back("cpu");
  attach_by_policy(bounce_on(names));
  const auto said = [&] { return attached_->process().err(); };
  for (const char* words : {"compute.devices names 3 devices", "cpu will have nothing to do"})
    EXPECT_TRUE(eventually([&] { return said().find(words) != std::string::npos; })) << said();
}

}  // namespace
}  // namespace xdpgpu::lab
