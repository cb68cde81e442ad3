// SPDX-License-Identifier: MIT
//
// tests/netns/privilege_test.cpp: how little the process that sees the packets may do.
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class Privilege : public OnOneWire {
 protected:
  Privilege() { config_ = {.queues = 2, .mode = "split"}; }
};

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kBounce = R"({"stage": "l2fwd", "cache": true})";

// XDPGPU_SECCOMP for the programs that are started while it lives.
class Seccomp {
 public:
  explicit Seccomp(const char* mode) { setenv("XDPGPU_SECCOMP", mode, 1); }
  ~Seccomp() { unsetenv("XDPGPU_SECCOMP"); }
  Seccomp(const Seccomp&) = delete;
  Seccomp& operator=(const Seccomp&) = delete;
};

// /proc/.../status, by name.
std::map<std::string, std::string> status_of(const std::filesystem::path& process) {
  std::map<std::string, std::string> fields;
  std::ifstream file(process / "status");
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(":\t"); colon != std::string::npos)
      fields[line.substr(0, colon)] = line.substr(colon + 2);
  return fields;
}

TEST_F(Privilege, NoThreadOfTheDataPlaneHoldsAny) {
  attach(inspect_all(kPass));
  // A device may compile for its first batch.
  EXPECT_TRUE(eventually([&] { return ping(*left_, "10.9.0.1", {.count = 1}).received == 1; }, 10s));
  std::size_t threads = 0;
  const auto tasks = fmt::format("/proc/{}/task", attached_->data_plane());
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    SCOPED_TRACE(task.path());
    const auto status = status_of(task.path());
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
      EXPECT_EQ(status.at(set), "0000000000000000") << set;
    EXPECT_EQ(status.at("NoNewPrivs"), "1");
    EXPECT_EQ(status.at("Seccomp"), "2");
    for (const char* ids : {"Uid", "Gid"}) {
      std::istringstream in(status.at(ids));
      for (unsigned id = 0; in >> id;) EXPECT_NE(id, 0U) << ids;
    }
    std::istringstream groups(status.at("Groups"));
    for (unsigned id = 0; groups >> id;) EXPECT_NE(id, 0U) << "root's group";
    threads++;
  }
  EXPECT_GT(threads, 4U) << "two workers' two threads, and the first";
}

// A run of everything, in which nothing is refused, so that all that would have been is told.
TEST_F(Privilege, TheFilterLacksNothing) {
  const Seccomp seccomp("record");
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
  EXPECT_EQ(attached_->detach().status, 0);
  const std::string said = attached_->process().err();
  const std::string sum = "asked for beyond the filter: ";
  const auto at = said.find(sum);
  ASSERT_NE(at, std::string::npos) << said;
  const std::string asked = said.substr(at + sum.size(), said.find('\n', at) - at - sum.size());
  fmt::print("{} asked for beyond the filter: {}\n", device_under_test(), asked);
  EXPECT_EQ(asked, "none");
}

TEST_F(Privilege, WhatTheFilterKillsIsCleanedUpAndToldApart) {
  attach(inspect_all(kPass));
  kill(attached_->data_plane(), SIGSYS);  // as the kernel does
  EXPECT_EQ(attached_->process().wait(10s), 1);
  attached_->process().wait_for_end_of_output(2s);
  const std::string said = attached_->process().err();
  EXPECT_NE(said.find("system-call filter"), std::string::npos) << said;
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U);
}

TEST_F(Privilege, AWrongWordForTheFilterIsRefused) {
  const Seccomp seccomp("on");
  const Outcome outcome = product(*host_, {"attach", host_port().ifname()});
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_NE(outcome.err.find("XDPGPU_SECCOMP is \"on\""), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace xdpgpu::lab
