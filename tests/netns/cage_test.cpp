// SPDX-License-Identifier: MIT
//
// tests/netns/cage_test.cpp: what the data plane reaches of its host when somebody else's code runs in it.
#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kBounce = R"({"stage": "l2fwd", "cache": true})";

// A variable of the programs that are started while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// The rest of the line behind `beginning`.
std::string line_after(const std::string& said, const std::string& beginning) {
  const auto at = said.find(beginning);
  if (at == std::string::npos) return "(nothing)";
  return said.substr(at + beginning.size(), said.find('\n', at) - at - beginning.size());
}

class Cage : public OnTheWire {
 protected:
  // What it said of its system calls, printed for who looks for what drivers ask for.
  void expect_nothing_beyond_the_filter() {
    EXPECT_EQ(attached_->detach().status, 0);
    const std::string said = attached_->process().err();
    const std::string device = device_under_test();
    const std::string used = line_after(said, "used of what the filter lets through by request or path: ");
    const std::string asked = line_after(said, "asked for beyond the filter: ");
    fmt::print("{}, {}: lets through by request or path: {}\n", device, config_.mode, used);
    fmt::print("{}, {}: asked for beyond the filter: {}\n", device, config_.mode, asked);
    EXPECT_EQ(asked, "none") << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, Cage,
                         testing::Values(Config{false, 2, "inline"}, Config{false, 2, "split"},
                                         Config{false, 1, "persistent"}, Config{false, 2, "graph"}),
                         config_name);

// A run of everything, in which nothing is refused, so that all that would have been is told.
TEST_P(Cage, TheFilterLacksNothing) {
  const Variable record("XDPGPU_SECCOMP", "record");
  attach(inspect_udp(7000, kBounce));
  Sniffer left(left_port());
  const auto frames = many_flows(7000, 200, 2);
  Sender(left_port()).send_paced(frames, 5000);
  EXPECT_EQ(left.take(frames.size(), 5000ms, udp_to(7000)).size(), frames.size());
  EXPECT_EQ(attached_->apply(inspect_all(kPass)).status, 0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U);
  EXPECT_FALSE(attached_->status().empty());
  const std::string& name = host_port().ifname();
  EXPECT_EQ(product(*host_, {"flows", "list", name}).status, 0);
  EXPECT_EQ(product(*host_, {"flows", "flush", name}).status, 0);
  EXPECT_EQ(product(*host_, {"bypass", "on", name}).status, 0);
  std::this_thread::sleep_for(1200ms);  // the interface and its MTU are looked at
  expect_nothing_beyond_the_filter();
}

// The driver opens its device again, within the filter.
TEST_P(Cage, TheFilterLacksNothingForADeviceThatComesBack) {
  if (config_.mode != "split") GTEST_SKIP() << "once is enough";
  const Variable record("XDPGPU_SECCOMP", "record"), fault("XDPGPU_FAULT", "fail:5");
  attach(inspect_udp(7000, kBounce, R"("compute": {"retry": "100ms"})"));
  const auto frames = many_flows(7000, 200, 2);
  Sender(left_port()).send_paced(frames, 5000);
  EXPECT_TRUE(eventually(
      [&] { return attached_->process().err().find("decides again, after ") != std::string::npos; }, 30s));
  Sender(left_port()).send_paced(frames, 5000);
  expect_nothing_beyond_the_filter();
}

}  // namespace
}  // namespace xdpgpu::lab
