// SPDX-License-Identifier: MIT
//
// tests/netns/refusal_test.cpp: what cannot be attached is refused in one sentence, with exit status 1 or
// 2, and nothing has changed.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class Refused : public OnOneWire {
 protected:
  // Runs the command; it has to fail with `status`, say `words` in one line on standard error, and leave
  // the kernel as it was.
  void expect_refusal(const std::vector<std::string>& arguments, int status,
                      const std::vector<std::string>& words, unsigned uid = 0) {
    SCOPED_TRACE(fmt::format("xdpgpu {}", fmt::join(arguments, " ")));
    const std::string before = snapshot({&*host_, &*left_}, XG_PIN_ROOT);
    std::vector<std::string> argv{product_path()};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run_program(*host_, argv, 20s, {.uid = uid});
    EXPECT_EQ(outcome.status, status) << outcome.out << outcome.err;
    for (const auto& word : words)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " is not in: " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(snapshot({&*host_, &*left_}, XG_PIN_ROOT), before);
    EXPECT_TRUE(processes_in(*host_).empty());
  }
  std::string ifname() const { return host_port().ifname(); }
};

TEST_F(Refused, AnInterfaceThatIsNotThere) {
  expect_refusal({"attach", "no-such-if", "--pass-all"}, 1, {"no-such-if"});
  expect_refusal({"attach", ifname(), "no-such-if", "--pass-all"}, 1, {"no-such-if"});
  expect_refusal({"attach", "lo", "--pass-all"}, 1, {"lo"});
}

TEST_F(Refused, AForeignProgramByItsName) {
  for (const bool foreign_generic : {false, true}) {
    const XdpProgram foreign(host_port(), 2, foreign_generic, "somebody_elses");
    expect_refusal({"attach", ifname(), "--pass-all", "--mode", "copy"}, 1, {ifname(), "somebody_elses"});
    expect_refusal({"attach", ifname(), "--pass-all", "--mode", "generic"}, 1, {ifname(), "somebody_elses"});
    expect_refusal({"attach", ifname(), "--pass-all"}, 1, {ifname(), "somebody_elses", "--replace"});
    EXPECT_EQ(xdp_state(host_port()).program_id, foreign.id());
    // Detaching what was never attached does not touch it either.
    product(*host_, {"detach", ifname()});
    EXPECT_EQ(xdp_state(host_port()).program_id, foreign.id());
  }
}

// Explicitly, it gives way; and comes back where the attach comes to nothing.
TEST_F(Refused, AForeignProgramUnlessItIsToBeReplaced) {
  const std::string pass = inspect_all(R"({"stage": "acl", "rules": [], "default": "pass"})");
  for (const bool foreign_generic : {false, true}) {
    const XdpProgram foreign(host_port(), 1, foreign_generic, "somebody_elses");
    EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received, 0U) << "it drops";
    const TemporaryFile file(pass);
    const Outcome failed = run_program(
        *host_, {product_path(), "attach", ifname(), "--policy", file.path(), "--mode", "copy", "--replace"},
        20s, {.environment = {{"XDPGPU_FAULT", "nonsense"}}});
    EXPECT_EQ(failed.status, 1) << failed.out << failed.err;
    EXPECT_EQ(xdp_state(host_port()).program_id, foreign.id()) << failed.err;
    attach(pass, {"--replace"});
    const std::string said = attached_->process().err();
    EXPECT_NE(said.find(fmt::format("\"somebody_elses\" (id {})", foreign.id())), std::string::npos) << said;
    EXPECT_EQ(xdp_state(host_port()).program_name, "xdpgpu");
    EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U);
    EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
    EXPECT_EQ(xdp_state(host_port()).mode, XdpAttach::none) << "it is not put back";
    attached_.reset();
  }
}

TEST_F(Refused, APortThatIsHeldBySomebodyElse) {
  attach(inspect_all(R"({"stage": "acl", "rules": [], "default": "pass"})"));
  const Outcome second = product(*host_, {"attach", ifname(), "--pass-all"});
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.err.find(ifname()), std::string::npos) << second.err;
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U) << "the first attach suffered";
}

TEST_F(Refused, APortOfABridge) {
  const Bridge bridge(*host_, fmt::format("xg{:x}br", getpid()), host_second());
  expect_refusal({"attach", host_second().ifname(), "--pass-all"}, 1, {host_second().ifname(), "bridge"});
}

TEST_F(Refused, FramesThatDoNotFit) {
  host_port().set_mtu(9000);
  expect_refusal({"attach", ifname(), "--pass-all", "--mode", "zero-copy"}, 1,
                 {ifname(), "MTU", "9000", "1760", "1738", "ip link set"});
  host_port().set_mtu(60000);
  const char* most = kernel_at_least(6, 7) ? "28138" : "Linux 6.7";
  for (const char* mode : {"auto", "copy", "generic"})
    expect_refusal({"attach", ifname(), "--pass-all", "--mode", mode}, 1,
                   {ifname(), "MTU", "60000", "1760", most, "ip link set"});
}

TEST_F(Refused, JumboFramesOfAKernelThatCannotHandThemOver) {
  if (kernel_at_least(6, 7)) GTEST_SKIP() << "this kernel can";
  host_port().set_mtu(9000);
  for (const char* mode : {"auto", "copy", "generic"})
    expect_refusal({"attach", ifname(), "--pass-all", "--mode", mode}, 1,
                   {ifname(), "MTU 9000", "Linux 6.7", "1738", "ip link set"});
  host_port().set_mtu(1738);
  attach(inspect_all(R"({"stage": "acl", "rules": [], "default": "pass"})"));
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U);
}

TEST_F(Refused, ZeroCopyWhereThereIsNone) {
  expect_refusal({"attach", ifname(), "--pass-all", "--mode", "zero-copy"}, 1, {ifname(), "zero-copy"});
}

TEST_F(Refused, MoreQueuesThanThereAre) {
  expect_refusal({"attach", ifname(), "--pass-all", "--queues", "7"}, 1, {ifname(), "queue"});
}

TEST_F(Refused, WrongUsage) {
  expect_refusal({"attach"}, 2, {});
  expect_refusal({"attach", ifname(), "--pass-all", "--mode", "fast"}, 2, {"fast"});
  expect_refusal({"attahc", ifname()}, 2, {});
}

TEST_F(Refused, AWrongPolicy) {
  const TemporaryFile wrong("{\"version\": 1,\n \"rules\": [{\"action\": \"dorp\"}]}");
  expect_refusal({"attach", ifname(), "--policy", wrong.path()}, 2,
                 {":2:", "/rules/0/action", "dorp", "drop"});
  expect_refusal({"attach", ifname(), "--policy", "/no/such/policy.json"}, 2, {"/no/such/policy.json"});
  const TemporaryFile elsewhere(inspect_all(R"({"stage": "l2fwd", "to": "eth77"})"));
  expect_refusal({"attach", ifname(), "--policy", elsewhere.path()}, 2, {"eth77"});
}

TEST_F(Refused, ADeviceThatIsNotThere) {
  expect_refusal({"attach", ifname(), "--pass-all", "--device", "cuda:77"}, 1, {"cuda:77"});
  expect_refusal({"attach", ifname(), "--pass-all", "--device", "abacus"}, 2, {"abacus", "cpu"});
}

TEST_F(Refused, OneOfSeveralDevicesThatIsNotThere) {
  const TemporaryFile policy(R"({"version": 1, "compute": {"devices": ["cpu", "cuda:77"]}})");
  expect_refusal({"attach", ifname(), "--policy", policy.path()}, 1, {"cuda:77"});
}

// What each key by itself is right in: every command that takes a policy says the same of it.
TEST_F(Refused, SettingsThatCannotBeHadTogether) {
  const std::string mirrors =
      R"("rules": [{"match": {"proto": "udp"}, "action": {"mirror": "p"}}], "pipelines": {"p": [)";
  const std::string acl = R"({"stage": "acl", "rules": []}]})",
                    ddos = R"({"stage": "ddos", "udp_pps": 1000}]})";
  struct Case {
    std::string members;
    std::vector<std::string> says;
  };
  const std::vector<Case> cases{
      {R"("compute": {"device": "cpu", "mode": "graph"})", {":1:", "/compute/mode", "cpu", "inline"}},
      {R"("compute": {"device": "vulkan:3", "mode": "graph"})", {"/compute/mode", "vulkan:3", "CUDA"}},
      {R"("compute": {"device": "vulkan", "mode": "persistent"})", {"/compute/mode", "vulkan", "auto"}},
      {R"("compute": {"devices": ["cuda:0", "cpu"], "mode": "graph"})",
       {"/compute/mode", "cpu", "posted ahead"}},
      {R"("compute": {"device": "vulkan"}, )" + mirrors + acl, {"/rules/0/action", "vulkan", "mirror"}},
      {R"("compute": {"device": "cuda"}, )" + mirrors + ddos,
       {"/rules/0/action", "cuda", "stages that remember packets", "pipeline \"p\", stage 1 (ddos)"}},
      {R"("io": {"frames_per_queue": 1024})", {"/io/frames_per_queue", "too small", "3072"}},
      {R"("io": {"ring_size": 8192})", {"/io/ring_size", "io.frames_per_queue 8192 is too small", "9216"}},
      {R"("compute": {"batch": 16384})", {"/compute/batch", "too small", "compute.batch"}},
      {R"("io": {"mode": "generic", "busy_poll": true})", {"/io/busy_poll", "generic", "\"auto\""}},
  };
  const std::string capture = source_tree() / "tests/data/pcap/vlan.pcap";
  for (const Case& one : cases) {
    SCOPED_TRACE(one.members);
    const TemporaryFile policy("{\"version\": 1, " + one.members + "}");
    expect_refusal({"attach", ifname(), "--policy", policy.path()}, 2, one.says);
    expect_refusal({"policy", "check", policy.path()}, 2, one.says);
    expect_refusal({"replay", capture, "--policy", policy.path()}, 2, one.says);
    const Outcome json = product(*host_, {"policy", "check", policy.path(), "-o", "json"});
    EXPECT_EQ(json.status, 2) << json.out;
    EXPECT_EQ(Json::parse(json.out).at("diagnostics").size(), 1U) << json.out;
  }
}

// The command line in the policy's place.
TEST_F(Refused, OptionsThatThePolicyCannotBeHadWith) {
  const TemporaryFile graph(R"({"version": 1, "compute": {"mode": "graph"}})");
  expect_refusal({"attach", ifname(), "--policy", graph.path(), "--device", "cpu"}, 2,
                 {"cpu", "compute.mode", "inline"});
  const TemporaryFile polls(R"({"version": 1, "io": {"busy_poll": true}})");
  expect_refusal({"attach", ifname(), "--policy", polls.path(), "--mode", "generic"}, 2,
                 {"generic", "io.busy_poll"});
}

TEST_F(Refused, WithoutRoot) {
  // The program has to be readable for the user at all.
  const auto copy = std::filesystem::temp_directory_path() / fmt::format("xdpgpu-{}", getpid());
  std::error_code error;
  std::filesystem::copy_file(product_path(), copy, error);
  if (error) GTEST_SKIP() << "cannot copy the program: " << error.message();
  const std::string before = snapshot({&*host_}, XG_PIN_ROOT);
  const Outcome outcome = run_program(*host_, {copy, "attach", ifname(), "--pass-all"}, 20s, {.uid = 65534});
  std::filesystem::remove(copy);
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("root"), std::string::npos) << outcome.err;
  EXPECT_EQ(snapshot({&*host_}, XG_PIN_ROOT), before);
}

TEST_F(Refused, CommandsToNobody) {
  for (const char* command : {"status", "detach"}) {
    const Outcome outcome = product(*host_, {command, ifname()});
    EXPECT_EQ(outcome.status, 1) << command << ": " << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find(ifname()), std::string::npos) << command << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace xdpgpu::lab
