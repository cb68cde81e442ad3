// SPDX-License-Identifier: MIT
//
// tests/netns/compiler_test.cpp: the compiler, a process of its own: what it may do, and what it costs when
// it is slow, stopped or killed: a command, and no packet.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/netns/control_socket.hpp"
#include "tests/netns/on_the_wire.hpp"
#include "tests/netns/process_status.hpp"

namespace xdpgpu::lab {
namespace {

class CompilerProcess : public OnOneWire {
 protected:
  void SetUp() override {
    OnOneWire::SetUp();
    attach(kOpen);
  }
  std::string name() const { return host_port().ifname(); }
  bool answers() const { return ping(*left_, "10.9.0.1", {.count = 1, .timeout = 300ms}).received == 1; }
  Json in_force() const { return attached_->status().at("policy"); }
  // Has a compiler that is there, and stopped.
  pid_t stop_it() {
    EXPECT_EQ(attached_->apply(kOpen).status, 0);
    const pid_t compiler = attached_->compiler();
    EXPECT_GT(compiler, 0);
    kill(compiler, SIGSTOP);
    return compiler;
  }
  // `policy apply`, which goes on beside the test.
  std::unique_ptr<Process> begin(const TemporaryFile& policy) const {
    auto process = std::make_unique<Process>(
        *host_, std::vector<std::string>{product_path(), "policy", "apply", name(), policy.path()});
    EXPECT_EQ(process->wait(500ms), -1) << process->out() << process->err();
    return process;
  }

  static inline const std::string kOpen = policy(R"("default": "pass")");
  static inline const std::string kClosed = policy(R"("default": "drop")");
};

TEST_F(CompilerProcess, HasASocketAndNothingElse) {
  ASSERT_EQ(attached_->compiler(), -1) << "it is started when it is wanted";
  ASSERT_EQ(attached_->apply(kClosed).status, 0);
  const pid_t compiler = attached_->compiler();
  ASSERT_GT(compiler, 0);
  const std::filesystem::path proc = fmt::format("/proc/{}", compiler);
  expect_no_privileges(status_of(proc));
  for (const char* space : {"net", "ipc", "uts"})
    EXPECT_NE(std::filesystem::read_symlink(proc / "ns" / space),
              std::filesystem::read_symlink(fmt::format("/proc/{}/ns/{}", attached_->data_plane(), space)))
        << space;
  std::size_t sockets = 0;
  for (const auto& fd : std::filesystem::directory_iterator(proc / "fd")) {
    const int number = std::stoi(fd.path().filename());
    const std::string what = std::filesystem::read_symlink(fd.path());
    if (number <= 2) continue;
    EXPECT_TRUE(what.starts_with("socket:")) << what;
    sockets++;
  }
  EXPECT_EQ(sockets, 1u);
  // Nor can it change what its broker has mapped of the maps that steer the XDP program.
  std::ifstream maps(proc / "maps");
  std::size_t mapped = 0;
  for (std::string line; std::getline(maps, line); mapped++)
    EXPECT_FALSE(line.find("bpf-map") != std::string::npos && line.find(" rw") != std::string::npos) << line;
  EXPECT_GT(mapped, 10u);
  std::ifstream score(proc / "oom_score_adj");
  int worse = 0;
  score >> worse;
  EXPECT_GE(worse, 500) << "it goes before the data plane where memory is short";
}

TEST_F(CompilerProcess, IsTheSameOneForTheNextPolicy) {
  ASSERT_EQ(attached_->apply(kClosed).status, 0);
  const pid_t compiler = attached_->compiler();
  ASSERT_EQ(attached_->apply(kOpen).status, 0);
  EXPECT_EQ(attached_->compiler(), compiler);
  EXPECT_EQ(product(*host_, {"flows", "flush", name()}).status, 0);
  EXPECT_EQ(in_force().at("generation"), 4);
  EXPECT_EQ(attached_->detach().status, 0);
  EXPECT_TRUE(eventually([&] { return kill(compiler, 0) != 0; }, 5s)) << "it outlives the attach";
}

// While it takes its time, nobody waits but who asked.
TEST_F(CompilerProcess, ThatIsSlowHoldsNobodyUp) {
  const pid_t compiler = stop_it();
  const TemporaryFile closed(kClosed);
  const auto apply = begin(closed);
  auto longest = 0ms;
  for (int i = 0; i < 20; ++i) {
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(ask(name(), "status").at("ok"), true);
    longest = std::max(longest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                    std::chrono::steady_clock::now() - before));
    EXPECT_TRUE(answers());
  }
  EXPECT_LT(longest, 1s);
  EXPECT_EQ(product(*host_, {"bypass", "on", name()}).status, 0);
  EXPECT_EQ(product(*host_, {"bypass", "off", name()}).status, 0);
  EXPECT_EQ(product(*host_, {"policy", "show", name()}).status, 0);
  EXPECT_EQ(product(*host_, {"flows", "list", name()}).status, 0);
  EXPECT_EQ(in_force().at("generation"), 2);
  EXPECT_EQ(apply->wait(0ms), -1);
  kill(compiler, SIGCONT);
  EXPECT_EQ(apply->wait(20s), 0) << apply->err();
  EXPECT_EQ(in_force().at("generation"), 3);
  EXPECT_FALSE(answers());
}

// Orders are carried out one after the other.
TEST_F(CompilerProcess, OrdersAreDoneInTheirTurn) {
  const pid_t compiler = stop_it();
  const TemporaryFile closed(kClosed), open(kOpen);
  const auto first = begin(closed), second = begin(open);
  kill(compiler, SIGCONT);
  EXPECT_EQ(first->wait(20s), 0) << first->err();
  EXPECT_EQ(second->wait(20s), 0) << second->err();
  EXPECT_EQ(in_force().at("generation"), 4);
  EXPECT_TRUE(answers());
}

TEST_F(CompilerProcess, ThatIsKilledCostsACommand) {
  const pid_t compiler = stop_it();
  const TemporaryFile closed(kClosed);
  const auto apply = begin(closed);
  const auto data_plane = attached_->data_plane();
  kill(compiler, SIGKILL);
  EXPECT_EQ(apply->wait(20s), 1);
  const std::string said = apply->err();
  EXPECT_NE(
      said.find("the policy was not applied, nothing has changed: the compiler ended while it compiled"),
      std::string::npos)
      << said;
  EXPECT_TRUE(eventually([&] {
    return attached_->process().err().find("the compiler was killed by signal 9") != std::string::npos;
  })) << attached_->process().err();
  EXPECT_EQ(in_force().at("generation"), 2);
  EXPECT_TRUE(answers());
  EXPECT_EQ(attached_->data_plane(), data_plane);
  // The next one gets another compiler.
  const Outcome again = product(*host_, {"policy", "apply", name(), closed.path()});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_FALSE(answers());
  EXPECT_NE(attached_->compiler(), compiler);
}

// One that had nothing to do is missed by nobody.
TEST_F(CompilerProcess, ThatIsKilledMeanwhileCostsNothing) {
  const TemporaryFile closed(kClosed);
  for (const auto* policy : {&kClosed, &kOpen, &kClosed}) {
    ASSERT_EQ(attached_->apply(*policy).status, 0);
    const pid_t compiler = attached_->compiler();
    kill(compiler, SIGKILL);
    EXPECT_TRUE(eventually([&] { return kill(compiler, 0) != 0; }, 5s)) << "nobody has taken its end";
  }
  const Outcome again = product(*host_, {"policy", "apply", name(), closed.path()});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_FALSE(answers());
}

// The time of a policy on trial is over while another one is compiled: that one comes, and stays.
TEST_F(CompilerProcess, WhatReplacesATrialStays) {
  const TemporaryFile trial(kClosed), next(kClosed + " ");
  const pid_t compiler = stop_it();
  kill(compiler, SIGCONT);
  ASSERT_EQ(product(*host_, {"policy", "apply", name(), trial.path(), "--confirm", "2s"}).status, 0);
  EXPECT_FALSE(answers());
  kill(compiler, SIGSTOP);
  const auto apply = begin(next);
  std::this_thread::sleep_for(3s);
  EXPECT_EQ(in_force().at("generation"), 3);
  kill(compiler, SIGCONT);
  EXPECT_EQ(apply->wait(20s), 0) << apply->err();
  EXPECT_EQ(in_force().at("generation"), 4);
  std::this_thread::sleep_for(2s);
  EXPECT_EQ(in_force().at("generation"), 4) << "the one before the trial came back";
  EXPECT_FALSE(in_force().contains("confirm_within_s"));
  EXPECT_FALSE(answers());
}

// And where that one is none, the one before the trial comes back at once.
TEST_F(CompilerProcess, ATrialEndsBehindWhatIsRefused) {
  const TemporaryFile trial(kClosed), wrong(R"({"version": 1, "default": "maybe"})");
  const pid_t compiler = stop_it();
  kill(compiler, SIGCONT);
  ASSERT_EQ(product(*host_, {"policy", "apply", name(), trial.path(), "--confirm", "2s"}).status, 0);
  kill(compiler, SIGSTOP);
  const Json asked = {{"text", R"({"version": 1, "default": "maybe"})"}, {"file", "wrong.json"}};
  std::thread other([&] { EXPECT_EQ(ask(name(), "policy.apply", asked).at("ok"), false); });
  std::this_thread::sleep_for(3s);
  EXPECT_FALSE(answers());
  kill(compiler, SIGCONT);
  other.join();
  EXPECT_TRUE(eventually([&] { return answers(); }, 5s)) << attached_->process().err();
  EXPECT_EQ(in_force().at("generation"), 4);
}

// Those who wait for it have no more than their places, and give them back as they go.
TEST_F(CompilerProcess, ThatIsStoppedKeepsNobodyOut) {
  const pid_t compiler = stop_it();
  const TemporaryFile closed(kClosed);
  std::vector<std::unique_ptr<Process>> applies;
  applies.reserve(5);
  for (int i = 0; i < 5; ++i) applies.push_back(begin(closed));
  const Outcome another = product(*host_, {"policy", "apply", name(), closed.path()});
  EXPECT_EQ(another.status, 1);
  EXPECT_NE(another.err.find("4 others wait to be applied already"), std::string::npos) << another.err;
  for (int round = 0; round < 4; ++round) {
    applies.clear();  // and they are killed
    for (int i = 0; i < 4; ++i) {
      applies.push_back(std::make_unique<Process>(
          *host_, std::vector<std::string>{product_path(), "policy", "apply", name(), closed.path()}));
      applies.back()->wait(300ms);
    }
    EXPECT_EQ(ask(name(), "status").at("ok"), true) << round;
  }
  applies.clear();
  kill(compiler, SIGCONT);
  EXPECT_TRUE(eventually(
      [&] {
        return product(*host_, {"policy", "apply", name(), closed.path()}).status == 0;
      },
      20s));
  EXPECT_FALSE(answers());
}

// What nobody waits for any more is not put in force.
TEST_F(CompilerProcess, WhoeverAskedAndHasGoneChangesNothing) {
  const pid_t compiler = stop_it();
  const TemporaryFile closed(kClosed);
  auto apply = begin(closed);
  apply.reset();
  kill(compiler, SIGCONT);
  ASSERT_EQ(attached_->apply(kOpen).status, 0) << "behind it";
  EXPECT_EQ(in_force().at("generation"), 3);
  EXPECT_TRUE(answers());
}

TEST_F(CompilerProcess, DetachDoesNotWaitForIt) {
  const pid_t compiler = stop_it();
  const TemporaryFile closed(kClosed);
  const auto apply = begin(closed);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(attached_->detach().status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  EXPECT_EQ(apply->wait(10s), 1);
  EXPECT_NE(apply->err().find("it is being detached"), std::string::npos) << apply->err();
  EXPECT_TRUE(eventually([&] { return kill(compiler, 0) != 0; }, 5s)) << "stopped as it is";
}

// Of a policy that is wrong everything is said, as before.
TEST_F(CompilerProcess, SaysWhatIsWrongWithAPolicy) {
  const Json wrong =
      ask(name(), "policy.apply",
          {{"text", "{\"version\": 1,\n \"defualt\": \"drop\", \"rule\": []}"}, {"file", "web.json"}});
  EXPECT_EQ(wrong.at("ok"), false);
  ASSERT_EQ(wrong.at("problems").size(), 2u) << wrong;
  EXPECT_EQ(wrong.at("problems").at(0).at("pointer"), "/defualt");
  EXPECT_EQ(wrong.at("problems").at(0).at("line"), 2);
  EXPECT_EQ(in_force().at("generation"), 1);
  EXPECT_EQ(attached_->apply(kClosed).status, 0);
}

// A data plane that is started again gets the last policy by a compiler, too.
TEST_F(CompilerProcess, CompilesForTheNextDataPlane) {
  ASSERT_EQ(attached_->apply(kClosed).status, 0);
  const pid_t before = attached_->data_plane();
  kill(before, SIGKILL);
  ASSERT_TRUE(eventually(
      [&] {
        try {
          return attached_->data_plane() != before && in_force().at("generation") >= 2;
        } catch (const std::exception&) {
          return false;
        }
      },
      20s))
      << attached_->process().err();
  EXPECT_FALSE(answers());
  EXPECT_EQ(attached_->apply(kOpen).status, 0);
  EXPECT_TRUE(answers());
}

}  // namespace
}  // namespace xdpgpu::lab
