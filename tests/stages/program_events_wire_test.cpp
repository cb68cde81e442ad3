// SPDX-License-Identifier: MIT
//
// What a program puts out, on the wire: it reports each SYN that comes, and the log has it, with the packet's
// headers, whatever becomes of the packet.
#include <fmt/format.h>

#include <algorithm>

#include "tests/netns/logged.hpp"
#include "tests/stages/program_object.hpp"

namespace xdpgpu::lab {
namespace {

std::string decoded(const std::string& base64) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (const char c : base64) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string::npos) break;
    bits = bits << 6 | static_cast<unsigned>(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
  }
  return bytes;
}
std::uint16_t number16(const std::string& bytes, std::size_t at) {
  return static_cast<std::uint16_t>(static_cast<std::uint8_t>(bytes.at(at)) << 8 |
                                    static_cast<std::uint8_t>(bytes.at(at + 1)));
}

class ProgramEventsOnTheWire : public LoggedOnTheWire {
 protected:
  std::string text(const std::string& more = "") const {
    return policy(fmt::format(
        R"("rules": [{{"match": {{"proto": "tcp"}}, "action": {{"inspect": "reports"}}}},
                    {{"match": {{"proto": "udp", "dst_port": 7000}}, "action": {{"inspect": "reports"}}}}],
           "pipelines": {{"reports": [{{"stage": "program", "object": "{}"}}]}},
           "log": {{"outputs": [{{"file": "{}"}}]{}}})",
        object_.path(), path("eve.json"), more));
  }
  void attach_logged() {
    write("policy.json", text());
    attach_by_file();
  }
  bool come(std::size_t count) const {
    return eventually([&] { return told("program").size() >= count; }, 10s);
  }
  Json counts() const { return attached_->status().at("log").at("program"); }

  const TemporaryFile object_{tests::syns_object(), ".o"};
};
INSTANTIATE_TEST_SUITE_P(Netns, ProgramEventsOnTheWire, kNativeAndGeneric, config_name);

TEST_P(ProgramEventsOnTheWire, EachSynIsInTheLogWithItsPortsAndHeaders) {
  attach_logged();
  for (const auto port : std::initializer_list<std::uint16_t>{5001, 5002, 5003})
    ASSERT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", port)) << port;
  ASSERT_TRUE(come(3)) << attached_->process().err();
  auto events = told("program");
  ASSERT_EQ(events.size(), 3u);
  // Connections that came by several queues are told of in no order.
  std::sort(events.begin(), events.end(), [](const Json& one, const Json& other) {
    return one.at("dest_port").get<int>() < other.at("dest_port").get<int>();
  });
  for (std::size_t i = 0; i < events.size(); i++) {
    const Json& event = events[i];
    EXPECT_EQ(event.at("src_ip"), "10.9.0.2");
    EXPECT_EQ(event.at("dest_ip"), "10.9.0.1");
    EXPECT_EQ(event.at("dest_port"), 5001 + i);
    EXPECT_EQ(event.at("in_iface"), host_port().ifname());
    EXPECT_EQ(event.at("xdpgpu").at("pipeline"), "reports");
    EXPECT_EQ(event.at("xdpgpu").at("action"), "pass");
    const Json& program = event.at("program");
    EXPECT_EQ(program.at("name"), "report_syns");
    EXPECT_EQ(program.at("map"), "syns");
    const std::string ports = decoded(program.at("data")), packet = decoded(program.at("packet"));
    ASSERT_EQ(ports.size(), 4u);
    EXPECT_EQ(number16(ports, 0), event.at("src_port"));
    EXPECT_EQ(number16(ports, 2), event.at("dest_port"));
    ASSERT_EQ(packet.size(), 54u);
    EXPECT_EQ(number16(packet, 12), 0x0800);
    EXPECT_EQ(number16(packet, 36), event.at("dest_port"));
    EXPECT_EQ(packet[47] & 0x12, 0x02) << "a SYN without an ACK";
  }
  EXPECT_EQ(counts().at("told"), 3u);
  EXPECT_EQ(counts().at("wrong"), 0u);
  EXPECT_EQ(counts().at("ring_full"), 0u);
  EXPECT_NE(product(*host_, {"status", attached_->ifname()}).out.find("program 3 told"), std::string::npos);
  expect_conserved(attached_->pins());
}

TEST_P(ProgramEventsOnTheWire, WhatIsTooLongIsAnsweredAsSuchAndTheNextOneIsTold) {
  attach_logged();
  Sender(left_port()).send(build(from_left(1'000, 7'000, "hello")));
  ASSERT_TRUE(come(1)) << attached_->process().err();
  const Json event = told("program")[0];
  EXPECT_EQ(event.at("program").at("map"), "notes");
  EXPECT_EQ(decoded(event.at("program").at("data")), std::string("too long\0", 9));
  EXPECT_FALSE(event.at("program").contains("packet"));
  EXPECT_EQ(event.at("xdpgpu").at("action"), "drop");
  EXPECT_TRUE(eventually([&] { return told("drop").size() == 1; }, 10s));
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == 1; }, 10s));
}

TEST_P(ProgramEventsOnTheWire, NoMoreIsToldThanThePolicyWants) {
  attach_logged();
  write("policy.json", text(R"(, "rate": 2)"));
  ASSERT_EQ(product(*host_, {"policy", "apply", host_port().ifname(), path("policy.json")}).status, 0);
  std::vector<Frame> frames;
  for (std::uint16_t i = 0; i < 40; i++) frames.push_back(build(from_left(1'000 + i, 7'000, "hello")));
  Sender(left_port()).send(frames);
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == 40; }, 10s));
  EXPECT_TRUE(eventually(
      [&] {
        const Json now = counts();
        return now.at("told").get<int>() + now.at("over_rate").get<int>() == 40;
      },
      10s))
      << counts();
  EXPECT_GT(counts().at("over_rate"), 20);
  write("policy.json", text(R"(, "events": ["drop"])"));
  ASSERT_EQ(product(*host_, {"policy", "apply", host_port().ifname(), path("policy.json")}).status, 0);
  const Json before = counts();
  Sender(left_port()).send(build(from_left(999, 7'000, "hello")));
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == 41; }, 10s));
  EXPECT_EQ(counts(), before);
}

TEST_P(ProgramEventsOnTheWire, ProgramCheckTakesIt) {
  const Outcome checked = product(*host_, {"program", "check", object_.path()});
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_NE(checked.out.find("perf_event_output"), std::string::npos) << checked.out;
  EXPECT_NE(checked.out.find("ringbuf_output"), std::string::npos) << checked.out;
}

}  // namespace
}  // namespace xdpgpu::lab
