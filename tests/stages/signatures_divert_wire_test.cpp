// SPDX-License-Identifier: MIT
//
// "on_unsupported" on the wire: flows that rules are for which the stage does not decide go to whoever is at
// another interface, from their first packet on, while all others are inspected. With a Suricata there, too.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "tests/netns/logged.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kDecided = 7000, kSip = 5060;
constexpr const char* kRules =
    "drop udp any any -> any 7000 (content:\"attack\"; sid:1;)\n"
    "alert sip any any -> any 5060 (sip.method; content:\"INVITE\"; sid:2;)\n";

class DivertedOnTheWire : public LoggedOnTheWire {
 protected:
  void write_policy(const std::string& rules, const std::string& to) const {
    write("a.rules", rules);
    write("policy.json", policy(fmt::format(
                             R"("io": {{"heartbeat": "5s"}}, "default": "drop",
            "rules": [{{"match": {{"proto": ["udp", "tcp"]}}, "action": {{"inspect": "ids"}}}}],
            "pipelines": {{"ids": [{{"stage": "signatures", "rules": ["a.rules"], "on_unsupported": {{"redirect": "{}"}}}}]}})",
                             to)));
  }
  AttachSpec spec(std::vector<std::string> interfaces) const {
    return {.interfaces = std::move(interfaces),
            .generic = generic(),
            .queues = queues(),
            .policy_file = path("policy.json")};
  }
  void attach_here() {
    attached_ = std::make_unique<Attached>(*host_, spec({host_port().ifname(), host_second().ifname()}));
  }
  Outcome apply() const {
    return product(*host_, {"policy", "apply", host_port().ifname(), path("policy.json")});
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, DivertedOnTheWire, kConfigs, config_name);

TEST_P(DivertedOnTheWire, FlowsGoThereAsTheyCame) {
  write_policy(kRules, host_second().ifname());
  attach_here();
  const UdpSocket here(*host_, "10.9.0.1", kDecided), not_here(*host_, "10.9.0.1", kSip);
  Sniffer right(right_port());
  Sender left(left_port());
  std::vector<Frame> sip;
  for (std::uint16_t flow = 0; flow < 8; ++flow)
    sip.push_back(build(from_left(1000 + flow, kSip, fmt::format("INVITE {}, and an attack", flow))));
  left.send(sip);
  const auto there = right.take(sip.size(), 5s, udp_to(kSip));
  std::sort(sip.begin(), sip.end());
  EXPECT_EQ(sorted_frames(there), sip);
  EXPECT_EQ(not_here.receive(100ms), std::nullopt);
  left.send({build(from_left(1000, kDecided, "hello"))});
  EXPECT_EQ(here.receive(5s), "hello");
  left.send({build(from_left(1000, kDecided, "attack"))});
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == 1; }));
  EXPECT_EQ(here.receive(100ms), std::nullopt);
  EXPECT_EQ(attached_->pins().kernel("redirect_rule"), sip.size());
  // What comes from there has been looked at: it is inspected here as all else, and not sent back.
  PacketSpec back{.src = right_port().mac(),
                  .dst = host_second().mac(),
                  .src_ip = "10.9.1.2",
                  .dst_ip = "10.9.1.1",
                  .src_port = 1000,
                  .dst_port = kSip,
                  .payload = "INVITE"};
  const UdpSocket beyond(*host_, "10.9.1.1", kSip);
  Sender(right_port()).send({build(back)});
  EXPECT_EQ(beyond.receive(5s), "INVITE") << attached_->pins(1).summary();
  expect_conserved(attached_->pins());
  expect_conserved(attached_->pins(1));
}

// The rules' files say which flows go, so applying the policy again is enough where one was edited.
TEST_P(DivertedOnTheWire, WhatIsAppliedHolds) {
  write_policy(kRules, host_second().ifname());
  attach_here();
  const UdpSocket here(*host_, "10.9.0.1", kSip);
  Sender left(left_port());
  const auto goes_by = [&](const std::string& what) {
    const std::uint64_t before = attached_->pins().kernel("redirect_rule");
    left.send({build(from_left(1000, kSip, what))});
    return here.receive(500ms) == what                          ? std::string("here")
           : attached_->pins().kernel("redirect_rule") > before ? std::string("there")
                                                                : std::string("nowhere");
  };
  EXPECT_EQ(goes_by("one"), "there");
  write("a.rules", "drop udp any any -> any 7000 (content:\"attack\"; sid:1;)\n");
  EXPECT_EQ(apply().status, 0);
  EXPECT_EQ(goes_by("two"), "here");
  write("a.rules", kRules);
  EXPECT_EQ(apply().status, 0);
  EXPECT_EQ(goes_by("three"), "there");
  // One that cannot be put in force leaves the one before.
  write_policy(kRules, "nowhere0");
  const Outcome refused = apply();
  EXPECT_EQ(refused.status, 2) << refused.out;
  EXPECT_NE(refused.err.find("/pipelines/ids/0/on_unsupported/redirect"), std::string::npos) << refused.err;
  EXPECT_EQ(goes_by("four"), "there");
}

TEST_P(DivertedOnTheWire, TheCommandsSaySo) {
  write_policy(std::string(kRules) + "alert http any any -> any any (http.start; content:\"a\"; sid:3;)\n",
               "ips0");
  const Outcome text = product(*host_, {"rules", "check", "--policy", path("policy.json"), "-v"});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find(
                "Of 2 that are not decided, or not over TCP, addresses, ports and protocol tell the flows "
                "of 1 (50 %): they go to ips0; those of 1 are told by an application's protocol alone"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("; addresses, ports and protocol tell its flows\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("; no addresses, ports or protocol tell its flows\n"), std::string::npos)
      << text.out;
  const Outcome json = product(*host_, {"rules", "check", path("a.rules"), "-v", "-o", "json"});
  ASSERT_EQ(json.status, 0) << json.err;
  const Json report = Json::parse(json.out);
  EXPECT_EQ(report.at("left"), 2);
  EXPECT_EQ(report.at("told_by_header"), 1);
  EXPECT_EQ(report.at("sent_to"), "");
  for (const Json& rule : report.at("rules")) EXPECT_EQ(rule.at("told_by_header"), rule.at("sid") == 2);
  // Packets of a capture, too.
  const Outcome replay = product(*host_, {"replay", source_tree() / "tests/data/pcap/vlan.pcap", "--policy",
                                          path("policy.json"), "--device", device_under_test()});
  EXPECT_EQ(replay.status, 0) << replay.err;
}

// ---- with a Suricata -------------------------------------------------------------------------------------

constexpr const char* kSuricata = "/usr/bin/suricata";

// A router between left and right. Beside it stands a Suricata in line between two more wires of its: what
// goes out to one comes in, if it may, by the other, and the router's stack sends it on. All of the router's
// ends of wires have one MAC address, so that it takes what was sent to another one.
class BesideSuricata : public DivertedOnTheWire {
 protected:
  void SetUp() override {
    DivertedOnTheWire::SetUp();
    if (IsSkipped()) return;
    if (access(kSuricata, X_OK) != 0) GTEST_SKIP() << "Suricata is not installed (apt-get install suricata)";
    ips_.emplace("ips");
    const std::string prefix = fmt::format("xg{:x}", getpid());
    in_.emplace(*host_, prefix + "i", *ips_, prefix + "s", VethOptions{.queues = queues()});
    out_.emplace(*host_, prefix + "o", *ips_, prefix + "t");
    const Mac mac = host_port().mac();
    host_second().set_mac(mac);
    out_->a().set_mac(mac);
    right_port().add_neighbour("10.9.1.1", mac);
    for (const Veth* const wire : {&*in_, &*out_}) {
      wire->up();
      wire->checksums_in_software();
    }
    left_port().add_route("10.9.1.0/24", "10.9.0.1");
    right_port().add_route("10.9.0.0/24", "10.9.1.1");
    host_->sysctl("ipv4/ip_forward", "1");
    for (const std::string& which : {std::string("all"), out_->a().ifname()})
      host_->sysctl(fmt::format("ipv4/conf/{}/rp_filter", which), "0");
  }
  void TearDown() override {
    suricata_.reset();
    if (!HasFailure()) {
      attached_.reset();
      in_.reset();
      out_.reset();
    }
    DivertedOnTheWire::TearDown();
  }

  // It leaves GRO on: an end of a veth without it, and without an XDP program, takes nothing that XDP sends.
  void start_suricata(const std::string& rules) {
    write("ips.rules", rules);
    const auto side = [](const Veth& from, const Veth& to, int cluster) {
      return fmt::format(
          "  - interface: {}\n    threads: 1\n    cluster-id: {}\n    cluster-type: cluster_flow\n    "
          "defrag: no\n"
          "    use-mmap: yes\n    copy-mode: ips\n    copy-iface: {}\n",
          from.b().ifname(), cluster, to.b().ifname());
    };
    write("suricata.yaml",
          fmt::format(
              "%YAML 1.1\n---\nvars:\n  address-groups:\n    HOME_NET: any\n    EXTERNAL_NET: any\n"
              "  port-groups:\n    HTTP_PORTS: any\n"
              "default-log-dir: {0}\noutputs:\n  - eve-log:\n      enabled: yes\n      filetype: regular\n"
              "      filename: eve.json\n      types:\n        - alert\n"
              "logging:\n  default-log-level: notice\n  outputs:\n    - console:\n        enabled: yes\n"
              "capture:\n  disable-offloading: no\n"
              "app-layer:\n  protocols:\n    http:\n      enabled: yes\n"
              "af-packet:\n{1}{2}default-rule-path: {0}\nrule-files:\n  - ips.rules\n",
              folder(), side(*in_, *out_, 91), side(*out_, *in_, 92)));
    suricata_ = std::make_unique<Process>(
        *ips_, std::vector<std::string>{kSuricata, "-c", path("suricata.yaml"), "--af-packet", "-l", folder(),
                                        "--pidfile", path("suricata.pid")});
    ASSERT_TRUE(eventually(
        [&] { return (suricata_->out() + suricata_->err()).find("ngine started") != std::string::npos; },
        60s))
        << suricata_->out() << suricata_->err();
  }
  void attach_router() {
    attached_ = std::make_unique<Attached>(
        *host_, spec({host_port().ifname(), host_second().ifname(), in_->a().ifname()}));
  }
  // What the server on the right hears of a request.
  std::string heard(std::uint16_t port, const std::string& uri) const {
    const TcpConnection connection(*left_, *right_, "10.9.1.2", port);
    const std::string request = fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", uri);
    connection.say(request);
    return connection.heard(3s) == request ? "all of it" : "not all";
  }

  std::optional<Namespace> ips_;
  std::optional<Veth> in_, out_;
  std::unique_ptr<Process> suricata_;
};
INSTANTIATE_TEST_SUITE_P(Netns, BesideSuricata, kNativeAndGeneric, config_name);

TEST_P(BesideSuricata, EachDecidesItsOwn) {
  const std::string http = "drop http any any -> any 8080 (http.uri; content:\"/evil\"; sid:9;)\n";
  write_policy("drop tcp any any -> any 8081 (content:\"/evil\"; sid:1;)\n" + http, in_->a().ifname());
  // Here streams are followed, so that the first rule is decided here, but requests are not read.
  std::string text = content("policy.json");
  text.replace(text.find("\"rules\": [\"a.rules\"]"), 20,
               "\"streams\": 64, \"inspect\": {\"http\": false}, \"rules\": [\"a.rules\"]");
  write("policy.json", text);
  start_suricata(http);
  attach_router();
  EXPECT_EQ(heard(8080, "/good"), "all of it") << suricata_->out() << suricata_->err();
  EXPECT_EQ(attached_->pins().worker("received"), 0U) << "of this flow nothing is inspected here";
  EXPECT_EQ(heard(8080, "/%65vil"), "not all") << "libhtp reads it as /evil";
  EXPECT_TRUE(eventually([&] { return !told("alert").empty(); }, 10s))
      << suricata_->out() << suricata_->err();
  for (const Json& line : told("alert")) EXPECT_EQ(line.at("alert").at("signature_id"), 9);
  EXPECT_EQ(heard(8081, "/good"), "all of it");
  EXPECT_EQ(heard(8081, "/evil"), "not all");
  EXPECT_GT(attached_->pins().worker("dropped"), 0U);
  // Both ways.
  EXPECT_GT(attached_->pins(0).kernel("redirect_rule"), 3U);
  EXPECT_GT(attached_->pins(1).kernel("redirect_rule"), 1U);
}

}  // namespace
}  // namespace xdpgpu::lab
