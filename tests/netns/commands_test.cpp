// SPDX-License-Identifier: MIT
//
// tests/netns/commands_test.cpp: a command reaches the process that it is meant for, and no other; and nobody
// keeps it waiting for ever.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "tests/netns/control_socket.hpp"
#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class Commands : public OnOneWire {
 protected:
  bool passes_on_the_right() const {
    return ping(*right_, "10.9.1.1", {.count = 1, .timeout = 200ms}).received == 1;
  }
  // `xdpgpu ARGUMENTS` has failed in one sentence with these words.
  static void expect_refused(const Outcome& outcome, const std::vector<std::string>& words) {
    EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
    for (const auto& word : words)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " is not in: " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
};

TEST_F(Commands, OneInterfaceIsNotAnothersProcess) {
  const std::string closed = policy(R"("default": "drop")");
  attach_both(closed);
  const std::string first = host_port().ifname(), second = host_second().ifname();
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  attach(closed);
  EXPECT_FALSE(passes_on_the_right()) << "by the dead one's program";
  expect_refused(product(*host_, {"status", second}), {second, "is dead"});
  const Outcome bypass = product(*host_, {"bypass", "on", second});
  EXPECT_EQ(bypass.status, 0) << bypass.err;
  EXPECT_TRUE(passes_on_the_right());
  EXPECT_EQ(attached_->status().at("ports").at(0).at("state"), "running");
  {
    Attached other(*host_, {.interfaces = {second}, .policy = closed});
    EXPECT_EQ(attached_->status().at("ports").at(0).at("interface"), first);
    other.kill_outright();
    const Outcome detach = product(*host_, {"detach", second});
    EXPECT_EQ(detach.status, 0) << detach.err;
  }
  EXPECT_EQ(xdp_state(host_second()).mode, XdpAttach::none);
  EXPECT_TRUE(passes_on_the_right());
  EXPECT_NE(xdp_state(host_port()).mode, XdpAttach::none) << "that one was not meant";
  EXPECT_EQ(attached_->detach().status, 0);
}

// Whatever led there.
TEST_F(Commands, AProcessRefusesWhatIsMeantForAnother) {
  attach(inspect_all(R"({"stage": "acl", "rules": [], "default": "pass"})"));
  const std::string name = host_port().ifname();
  for (const char* request : {"status", "bypass", "detach"}) {
    const Json answer = ask(name, request, {{"for", "eth77"}, {"on", true}});
    EXPECT_FALSE(answer.at("ok").get<bool>()) << request;
    const std::string error = answer.value("error", "");
    EXPECT_NE(error.find(name + " and not eth77"), std::string::npos) << error;
  }
  EXPECT_TRUE(ask(name, "status", {{"for", name}}).at("ok").get<bool>());
  EXPECT_EQ(attached_->status().at("ports").at(0).at("state"), "running");
}

// Its socket's queue is full of clients that have given up, so that nobody else gets as far as to ask.
TEST_F(Commands, AStuckProcessKeepsNobodyForEver) {
  attach(policy(R"("default": "drop", "on_failure": "drop")"));
  const std::string name = host_port().ifname();
  const pid_t data_plane = attached_->data_plane();
  kill(data_plane, SIGSTOP);
  EXPECT_GT(fill_queue(name), 0U);
  const auto begin = std::chrono::steady_clock::now();
  const Outcome bypass = product(*host_, {"bypass", "on", name});
  EXPECT_EQ(bypass.status, 0) << bypass.err;
  EXPECT_NE(bypass.out.find("through the pinned map"), std::string::npos) << bypass.out;
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 500ms}).received, 1U);
  expect_refused(product(*host_, {"attach", name}), {name + " is attached already"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  kill(data_plane, SIGCONT);
  EXPECT_EQ(attached_->status().at("ports").at(0).at("state"), "bypass") << "and the others come up again";
  EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
}

// It has yet to see it: its control thread is busy, with a large policy, say.
TEST_F(Commands, ANewNameTakesNoLivingProgramOff) {
  if (!kernel_at_least(6, 2)) GTEST_SKIP() << "before Linux 6.2 an interface that is up keeps its name";
  attach(policy(R"("default": "drop")"));
  const std::string before = host_port().ifname(), now = before + "2";
  const auto links = link_names(*host_).size();
  const pid_t data_plane = attached_->data_plane();
  kill(data_plane, SIGSTOP);
  const Interface port = host_port().renamed(now);
  const std::vector<std::vector<std::string>> commands{{"detach", now},
                                                       {"attach", now, "--mode", "copy", "--device", "cpu"}};
  for (const auto& command : commands)
    expect_refused(product(*host_, command), {now + " is attached", "detach " + before});
  EXPECT_NE(xdp_state(port).mode, XdpAttach::none);
  EXPECT_EQ(link_names(*host_).size(), links) << "and its pair is there";
  kill(data_plane, SIGCONT);
  EXPECT_TRUE(eventually(
      [&] {
        return product(*host_, {"status", now}).status == 0;
      },
      5s))
      << attached_->process().err();
  const Outcome detach = product(*host_, {"detach", now});
  EXPECT_EQ(detach.status, 0) << detach.err;
  EXPECT_EQ(attached_->process().wait(5s), 0) << attached_->process().err();
  port.renamed(before);
}

TEST_F(Commands, ALostSocketTakesNoLivingProgramOff) {
  attach(policy(R"("default": "drop")"));
  const std::string name = host_port().ifname(), socket = run_file(*host_, name, "sock");
  ASSERT_EQ(unlink(socket.c_str()), 0);
  expect_refused(product(*host_, {"detach", name}), {name + " is attached", socket});
  EXPECT_NE(xdp_state(host_port()).mode, XdpAttach::none);
  attached_->process().signal(SIGTERM);
  EXPECT_EQ(attached_->process().wait(10s), 0) << attached_->process().err();
}

}  // namespace
}  // namespace xdpgpu::lab
