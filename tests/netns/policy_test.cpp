// SPDX-License-Identifier: MIT
//
// tests/netns/policy_test.cpp: policies meet traffic: rules and limits in the kernel, management, swaps
// under load, refusals.
#include <fmt/format.h>
#include <signal.h>

#include <atomic>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class Policy : public OnTheWire {};
INSTANTIATE_TEST_SUITE_P(Netns, Policy, kConfigs, config_name);

// Two policies that give every probe packet the same fate by opposite means: pipeline "x" bounces in
// one and drops in the other, and the rule names the one that bounces. A packet classified by one policy
// and judged by the other's pipelines would be dropped.
std::string bouncing_policy(bool mirrored) {
  const char* bounce = R"([{"stage": "l2fwd"}])";
  const char* drop = R"([{"stage": "acl", "rules": [], "default": "drop"}])";
  return policy(fmt::format(
      R"("rules": [{{"match": {{"proto": "udp", "dst_port": 7000}}, "action": {{"inspect": "{}"}}}}],
         "pipelines": {{"x": {}, "y": {}}}, "default": "{}")",
      mirrored ? "y" : "x", mirrored ? drop : bounce, mirrored ? bounce : drop, mirrored ? "drop" : "pass"));
}

TEST_P(Policy, SwapsUnderTrafficLoseAndMisjudgeNothing) {
  attach(bouncing_policy(false));
  const Pins& pins = attached_->pins();
  constexpr int kSwaps = 12;
  Sniffer left(left_port());
  std::atomic<bool> stop{false};
  std::uint64_t sent = 0;
  std::thread traffic([&] {
    Sender sender(left_port());
    const auto frames = many_flows(7000, 16, 25);
    while (!stop) {
      sender.send_paced(frames, 20000);
      sent += frames.size();
    }
  });
  std::string problem;
  const auto first = XG_ACTIVE_GENERATION(pins.config().active);
  for (int swap = 1; swap <= kSwaps && problem.empty(); ++swap) {
    const Outcome outcome = attached_->apply(bouncing_policy(swap % 2 == 1));
    if (outcome.status != 0) problem = outcome.out + outcome.err;
    std::this_thread::sleep_for(20ms);
  }
  stop = true;
  traffic.join();
  EXPECT_EQ(problem, "");
  EXPECT_EQ(XG_ACTIVE_GENERATION(pins.config().active), first + kSwaps);
  const auto seen = left.take(sent, 3000ms, udp_to(7000));
  EXPECT_EQ(left.lost(), 0U);
  EXPECT_EQ(seen.size(), sent) << "packets were lost or misjudged";
  EXPECT_EQ(pins.worker("transmitted"), sent);
  EXPECT_EQ(pins.worker("dropped"), 0U) << "half a policy decided";
  EXPECT_EQ(pins.worker("error_generation"), 0U);
  EXPECT_EQ(pins.kernel("drop_default"), 0U);
  expect_conserved(pins);
}

TEST_P(Policy, ARefusedPolicyChangesNothing) {
  attach(bouncing_policy(false));
  const Pins& pins = attached_->pins();
  Sniffer left(left_port());
  Sender sender(left_port());
  const auto active = pins.config().active;
  const auto hash = pins.config().policy_hash;
  const std::string kernel_before = snapshot({&*host_}, XG_PIN_ROOT);
  const Outcome shown_before = product(*host_, {"policy", "show", host_port().ifname(), "-o", "json"});
  struct Refusal {
    const char* text;
    std::vector<std::string> says;
  };
  for (const Refusal& refusal : {
           Refusal{"{\n  \"version\": 1,\n  \"defualt\": \"drop\"\n}", {":3:", "/defualt", "default"}},
           Refusal{"{\"version\": 1, \"rules\": [{\"action\": {\"inspect\": \"nowhere\"}}]}",
                   {"/rules/0/action/inspect", "nowhere"}},
           Refusal{"{\"version\": 1, ", {":1:"}},
           Refusal{R"({"version": 1, "rules": [{"action": {"inspect": "p"}}],
                       "pipelines": {"p": [{"stage": "l2fwd", "to": "no-such-port"}]}})",
                   {"/pipelines/p/0", "no-such-port"}},
       }) {
    const Outcome outcome = attached_->apply(refusal.text);
    EXPECT_EQ(outcome.status, 2) << refusal.text;
    for (const auto& word : refusal.says)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " is not in: " << outcome.err;
    const TemporaryFile file(refusal.text);
    const Outcome json =
        product(*host_, {"policy", "apply", host_port().ifname(), file.path(), "-o", "json"});
    EXPECT_EQ(json.status, 2) << refusal.text;
    const Json said = Json::parse(json.out, nullptr, false);
    ASSERT_TRUE(said.is_object()) << "no JSON: " << json.out;
    EXPECT_EQ(said.value("ok", true), false) << said;
    EXPECT_FALSE(said.value("diagnostics", Json::array()).empty()) << said;
    EXPECT_EQ(pins.config().active, active) << refusal.text;
  }
  EXPECT_EQ(pins.config().policy_hash, hash);
  EXPECT_EQ(snapshot({&*host_}, XG_PIN_ROOT), kernel_before);
  EXPECT_EQ(product(*host_, {"policy", "show", host_port().ifname(), "-o", "json"}).out, shown_before.out);
  sender.send(build(from_left(1000, 7000, "still bounced")));
  EXPECT_EQ(left.take(1, 2000ms, with_payload("still bounced")).size(), 1U);
}

// What is legal and likely not meant: said where a policy comes into force, and no failure.
TEST_P(Policy, NotesComeWithIt) {
  const std::string checked = R"({"version": 1, "default": "drop", "io": {"heartbeat": "5s"}})";
  const TemporaryFile drop(checked);
  const TemporaryFile rings(
      R"({"version": 1, "lists": {"none": []}, "io": {"heartbeat": "5s", "ring_size": 1024}})");
  attach(checked);
  const auto notes = [&](const std::vector<std::string>& command) {
    auto arguments = command;
    arguments.insert(arguments.end(), {"-o", "json"});
    const Outcome outcome = product(*host_, arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? Json::parse(outcome.out).value("notes", Json::array()) : Json::array();
  };
  const Json dropped = notes({"policy", "apply", host_port().ifname(), drop.path()});
  ASSERT_EQ(dropped.size(), 1U) << dropped;
  EXPECT_NE(dropped[0].get<std::string>().find("there is no \"management\""), std::string::npos) << dropped;
  // The check says the same, of the interface that it is asked for.
  for (const auto& command : {std::vector<std::string>{"policy", "apply", host_port().ifname(), rings.path()},
                              {"policy", "check", rings.path(), "--interfaces", host_port().ifname()}}) {
    const Json said = notes(command);
    ASSERT_EQ(said.size(), 2U) << said;
    EXPECT_NE(said[0].get<std::string>().find("\"none\" is empty"), std::string::npos) << said;
    EXPECT_NE(said[1].get<std::string>().find("io.ring_size stays what it was"), std::string::npos) << said;
  }
  // Still by what it was attached with, not by what was applied last.
  EXPECT_EQ(notes({"policy", "apply", host_port().ifname(), rings.path()}).size(), 2U);
  EXPECT_EQ(notes({"policy", "check", rings.path()}).size(), 1U);
  const Outcome text = product(*host_, {"policy", "apply", host_port().ifname(), rings.path()});
  EXPECT_NE(text.out.find("note: io.ring_size stays"), std::string::npos) << text.out;
}

TEST_P(Policy, RulesDecideInTheKernel) {
  attach(policy(R"("lists": {"bad": ["10.9.0.66/32", "fd09::66/128"]},
    "rules": [{"name": "bad", "match": {"src": "@bad"}, "action": "drop"},
              {"name": "web", "match": {"proto": "udp", "dst_port": [80, "8000-8099"], "vlan": "none"}, "action": "drop"},
              {"name": "limited", "match": {"proto": "udp", "dst_port": 53}, "limit": {"per": "src", "pps": 1, "burst": 5}}])"));
  const Pins& pins = attached_->pins();
  Sender sender(left_port());
  const auto count_of = [&](const char* reason, std::uint64_t wanted) {
    return eventually([&] { return pins.kernel(reason) == wanted; }, 1000ms);
  };
  PacketSpec spec = from_left(1000, 9000, "x");
  sender.send(build(spec));
  EXPECT_TRUE(count_of("pass_default", 1));
  spec.src_ip = "10.9.0.66";
  sender.send(build(spec));
  EXPECT_TRUE(count_of("drop_rule", 1)) << "list, IPv4";
  spec.src_ip = "fd09::66", spec.dst_ip = "fd09::1";
  sender.send(build(spec));
  EXPECT_TRUE(count_of("drop_rule", 2)) << "list, IPv6";
  sender.send(build(from_left(1000, 8099, "x")));
  EXPECT_TRUE(count_of("drop_rule", 3)) << "range's end";
  sender.send(build(from_left(1000, 8100, "x")));
  EXPECT_TRUE(count_of("pass_default", 2)) << "behind the range";
  spec = from_left(1000, 80, "x");
  spec.vlans = {{10}};
  sender.send(build(spec));
  EXPECT_TRUE(count_of("pass_default", 3)) << "tagged";
  for (int i = 0; i < 20; ++i) sender.send(build(from_left(1000, 53, "x")));
  EXPECT_TRUE(eventually([&] { return pins.kernel("received") == 26; }));
  EXPECT_GE(pins.kernel("drop_limit"), 14U);
  EXPECT_LE(pins.kernel("drop_limit"), 15U);
  EXPECT_EQ(pins.kernel("inspected"), 0U);
  expect_conserved(pins);
}

// Each packet's place in its payload: by the rules in the kernel, and by an acl's on the device.
TEST_P(Policy, VlanRangesDecideInTheKernelAndOnTheDevice) {
  attach(policy(
      R"("rules": [{"name": "dropped", "match": {"proto": "udp", "vlan": ["100-199", 7]}, "action": "drop"},
              {"name": "bounced", "match": {"proto": "udp", "vlan": ["200-299", 4094]}, "action": {"inspect": "p"}}],
    "pipelines": {"p": [{"stage": "acl", "rules": [{"match": {"vlan": ["250-299", "none"]}, "action": "drop"}]},
                        {"stage": "l2fwd"}]})"));
  const Pins& pins = attached_->pins();
  Sender sender(left_port());
  Sniffer left(left_port());
  using Ids = std::initializer_list<std::uint16_t>;
  const auto send = [&](std::uint16_t vlan) {
    PacketSpec spec = from_left(1000, 9000, "in VLAN " + std::to_string(vlan));
    spec.vlans = {{vlan}};
    sender.send(build(spec));
  };
  for (const auto vlan : Ids{7, 100, 150, 199}) send(vlan);
  EXPECT_TRUE(eventually([&] { return pins.kernel("drop_rule") == 4; })) << pins.kernel("drop_rule");
  for (const auto vlan : Ids{6, 8, 99, 300, 4093}) send(vlan);
  EXPECT_TRUE(eventually([&] { return pins.kernel("pass_default") == 5; })) << pins.kernel("pass_default");
  for (const auto vlan : Ids{200, 249, 250, 299, 4094}) send(vlan);
  EXPECT_TRUE(eventually([&] { return pins.kernel("inspected") == 5; })) << pins.kernel("inspected");
  for (const auto vlan : Ids{200, 249, 4094})
    EXPECT_EQ(left.take(1, 2000ms, with_payload("in VLAN " + std::to_string(vlan))).size(), 1U) << vlan;
  for (const auto vlan : Ids{250, 299})
    EXPECT_TRUE(left.take(1, 100ms, with_payload("in VLAN " + std::to_string(vlan))).empty()) << vlan;
  expect_conserved(pins);
}

// Management and control protocols come through a policy that drops all else.
TEST_P(Policy, ManagementIsNeverLockedOut) {
  // A second subnet, without static neighbours: ARP and neighbour discovery have to work.
  host_port().add_address("10.9.2.1/24");
  left_port().add_address("10.9.2.2/24");
  host_port().add_address("fd09:2::1/64");
  left_port().add_address("fd09:2::2/64");
  attach(policy(R"("default": "drop", "on_failure": "drop", "on_overload": "drop",
                   "management": [{"src": ["10.9.2.0/24", "fd09:2::/64"], "proto": "tcp", "dst_port": 2222}],
                   "rules": [{"match": {}, "action": "drop"}])"));
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.2.1", 2222));
  EXPECT_TRUE(tcp_connects(*left_, *host_, "fd09:2::1", 2222));
  EXPECT_FALSE(tcp_connects(*left_, *host_, "10.9.2.1", 2223, 200ms)) << "another port was let in";
  EXPECT_FALSE(tcp_connects(*left_, *host_, "10.9.0.1", 2222, 200ms)) << "another source was let in";
  // The other direction: the host manages a machine on the left; the answers come in.
  EXPECT_TRUE(tcp_connects(*host_, *left_, "10.9.2.2", 2222));
  const auto counts = attached_->pins().kernel_counts();
  EXPECT_GT(counts.at("pass_management"), 0U);
  EXPECT_GT(counts.at("pass_control"), 0U)
      << "no ARP or neighbour discovery was seen: the test shows nothing";
  EXPECT_GT(counts.at("drop_rule"), 0U);
}

TEST_P(Policy, BypassPassesEverythingAtOnce) {
  attach(policy(R"("default": "drop")"));
  const PingOptions one{.count = 1, .timeout = 200ms};
  EXPECT_EQ(ping(*left_, "10.9.0.1", one).received, 0U);
  EXPECT_EQ(product(*host_, {"bypass", "on", host_port().ifname()}).status, 0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", one).received, 1U);
  EXPECT_GE(attached_->pins().kernel("pass_bypass"), 1U);
  EXPECT_EQ(product(*host_, {"bypass", "off", host_port().ifname()}).status, 0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", one).received, 0U);
}

class Bypass : public OnOneWire {};

TEST_F(Bypass, NeedsNoProcessThatAnswers) {
  attach(policy(R"("default": "drop")"));
  const PingOptions one{.count = 1, .timeout = 200ms};
  const auto bypass = [&](const std::string& how) {
    const Outcome on = product(*host_, {"bypass", "on", host_port().ifname()});
    EXPECT_EQ(on.status, 0) << on.err;
    EXPECT_NE(on.out.find(how), std::string::npos) << on.out;
    EXPECT_EQ(ping(*left_, "10.9.0.1", one).received, 1U);
    EXPECT_EQ(product(*host_, {"bypass", "off", host_port().ifname()}).status, 0);
    EXPECT_EQ(ping(*left_, "10.9.0.1", one).received, 0U);
  };
  const pid_t data_plane = attached_->data_plane();
  ASSERT_EQ(kill(data_plane, SIGSTOP), 0);
  bypass("every packet passes");         // the broker answers in its place
  attached_->process().signal(SIGKILL);  // the broker first, which would clean up
  ASSERT_EQ(attached_->process().wait(10s), 128 + SIGKILL);
  ASSERT_EQ(kill(data_plane, SIGKILL), 0);
  bypass("through the pinned map");
  EXPECT_EQ(product(*host_, {"detach", host_port().ifname()}).status, 0);
  attached_.reset();
}

TEST_P(Policy, AnUnconfirmedPolicyGoesBack) {
  attach(policy(R"("default": "pass")"));
  const TemporaryFile lockout(policy(R"("default": "drop")"));
  const PingOptions one{.count = 1, .timeout = 100ms};
  const Outcome applied =
      product(*host_, {"policy", "apply", host_port().ifname(), lockout.path(), "--confirm", "1s"});
  ASSERT_EQ(applied.status, 0) << applied.out << applied.err;
  EXPECT_EQ(ping(*left_, "10.9.0.1", one).received, 0U);
  EXPECT_TRUE(eventually([&] { return ping(*left_, "10.9.0.1", one).received == 1; }, 5s));
}

TEST_P(Policy, StatusSaysWhatTheMapsSay) {
  attach(inspect_udp(7000, R"({"stage": "acl", "rules": [], "default": "drop"})"));
  const Pins& pins = attached_->pins();
  Sender(left_port()).send_paced(many_flows(7000, 8, 25), 20000);
  EXPECT_TRUE(eventually([&] { return pins.worker("dropped") == 200; }));
  const Json status = attached_->status();
  EXPECT_EQ(status.at("packets").at("in"), pins.kernel("received")) << status;
  EXPECT_EQ(status.at("packets").at("drop"), 200) << status;
  EXPECT_EQ(status.at("packets").at("inspected"), 200) << status;
  EXPECT_TRUE(status.at("frames").at("conserved")) << status;
  const Json& port = status.at("ports").at(0);
  EXPECT_EQ(port.at("interface"), host_port().ifname());
  EXPECT_EQ(port.at("xdp"), generic() ? "generic" : "native");
  ASSERT_EQ(port.at("queues").size(), queues());
  for (std::uint32_t queue = 0; queue < queues(); ++queue) {
    const Json& one = port.at("queues").at(queue);
    EXPECT_EQ(one.at("mode"), generic() ? "generic" : "copy");
    EXPECT_EQ(one.at("counters").at("received"), pins.worker_counts(queue).at("received"));
  }
  const std::string device = status.at("device").at("name");
  EXPECT_TRUE(device.starts_with(device_under_test())) << device;
  const Outcome human = product(*host_, {"status", host_port().ifname()});
  EXPECT_EQ(human.status, 0) << human.err;
  EXPECT_NE(human.out.find(host_port().ifname()), std::string::npos) << human.out;
}

}  // namespace
}  // namespace xdpgpu::lab
