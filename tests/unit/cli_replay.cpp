// SPDX-License-Identifier: MIT
//
// tests/unit/cli_replay.cpp: what `replay` says of captures, and that it says so again.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "tests/unit/cli_test.hpp"

namespace xdpgpu::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string le16(unsigned value) { return {static_cast<char>(value), static_cast<char>(value >> 8)}; }
std::string le32(unsigned value) { return le16(value & 0xffff) + le16(value >> 16); }
std::string be16(unsigned value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }

// A packet as a capture has it: its first `kept` bytes.
struct Captured {
  std::string frame;
  std::size_t kept = std::string::npos;
};

std::string pcap(const std::vector<Captured>& packets, unsigned link_type = 1) {
  std::string text =
      le32(0xa1b2c3d4) + le16(2) + le16(4) + le32(0) + le32(0) + le32(262144) + le32(link_type);
  for (const auto& [frame, kept] : packets) {
    const auto bytes = frame.substr(0, kept);
    text += le32(1) + le32(0) + le32(static_cast<unsigned>(bytes.size())) +
            le32(static_cast<unsigned>(frame.size())) + bytes;
  }
  return text;
}

std::string ethernet(const std::string& rest) {
  return std::string("\x02\0\0\0\0\x02\x02\0\0\0\0\x01", 12) + rest;
}
std::string ipv4(unsigned protocol, const std::string& payload, unsigned from = 1) {
  return be16(0x0800) + std::string("\x45\0", 2) + be16(static_cast<unsigned>(20 + payload.size())) +
         std::string("\0\0\0\0\x40", 5) + static_cast<char>(protocol) + std::string("\0\0\x0a\0\0", 5) +
         static_cast<char>(from) + std::string("\x0a\0\0\xc8", 4) + payload;
}
std::string udp(unsigned from, unsigned to, std::size_t bytes = 100) {
  return be16(from) + be16(to) + be16(static_cast<unsigned>(8 + bytes)) + be16(0) + std::string(bytes, 'x');
}
std::string tcp(unsigned from, unsigned to, std::size_t bytes = 100) {
  return be16(from) + be16(to) + std::string(8, '\1') + std::string("\x50\x10\xff\xff\0\0\0\0", 8) +
         std::string(bytes, 'x');
}

class CliReplay : public CliTest {
 protected:
  // As lines of JSON, the summary last.
  std::vector<Json> replay(const std::string& bytes, const std::string& policy,
                           const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"replay", file("packets.pcap", bytes), "--device", "cpu", "-o",
                                       "json"};
    if (!policy.empty()) arguments.insert(arguments.end(), {"--policy", file("policy.json", policy)});
    arguments.insert(arguments.end(), more.begin(), more.end());
    outcome_ = run(arguments);
    EXPECT_EQ(outcome_.status, 0) << outcome_.err;
    std::vector<Json> lines;
    for (std::size_t begin = 0, end; (end = outcome_.out.find('\n', begin)) != std::string::npos;
         begin = end + 1)
      lines.push_back(Json::parse(outcome_.out.substr(begin, end - begin)));
    EXPECT_FALSE(lines.empty());
    return lines;
  }
  // By the kernel's program, where that may be loaded, and by the walk in user space.
  static std::vector<std::vector<std::string>> both() { return {{}, {"--no-kernel"}}; }

  Outcome outcome_;
};

// Maglev without a key of its own: who gets a flow hangs on the key that hashes it.
TEST_F(CliReplay, ASeedMakesTheAnswersTheSame) {
  std::string backends;
  for (int i = 10; i < 26; i++) {
    const std::string number = std::to_string(i);
    backends.append(i > 10 ? ", " : "").append(R"({"name": "b)").append(number);
    backends.append(R"(", "mac": "02:00:00:00:00:)").append(number).append("\"}");
  }
  const std::string policy = R"({"version": 1, "fragments": "track",
      "rules": [{"limit": {"per": "src", "pps": 1000000}}, {"action": {"inspect": "p"}}],
      "pipelines": {"p": [{"stage": "load_balance", "algorithm": "maglev", "backends": [)" +
                             backends + "]}]}}";
  std::vector<Captured> packets;
  for (unsigned from = 1; from <= 64; from++) packets.push_back({ethernet(ipv4(17, udp(1000, 53), from))});
  const auto answers = [&](const std::vector<std::string>& more) {
    auto lines = replay(pcap(packets), policy, more);
    EXPECT_EQ(lines.size(), 65u);
    lines.resize(std::min<std::size_t>(lines.size(), 64));
    return Json(lines).dump();
  };
  // One of 16 for each of 64 flows: no two keys give the same by chance.
  EXPECT_NE(answers({}), answers({}));
  const std::string of_seven = answers({"--seed", "7"});
  EXPECT_EQ(of_seven, answers({"--seed", "7"}));
  EXPECT_EQ(of_seven, answers({"--seed", "7", "--no-kernel"}));
  EXPECT_NE(of_seven, answers({"--seed", "8"}));
  EXPECT_NE(of_seven, answers({"--seed", "0"}));
  EXPECT_EQ(answers({"--seed", "18446744073709551615"}), answers({"--seed", "18446744073709551615"}));

  const std::string capture = file("packets.pcap", pcap(packets));
  for (const char* wrong : {"x", "-1", "1.5", "18446744073709551616", ""}) {
    const auto refused = run({"replay", capture, "--seed", wrong});
    EXPECT_EQ(refused.status, 2) << wrong << refused.out;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
}

TEST_F(CliReplay, CutPacketsAreJudgedByTheirLengthOnTheWire) {
  const std::string policy = R"({"version": 1, "default": "drop", "rules": [
      {"name": "dns", "match": {"proto": "udp", "dst_port": 53}, "action": "pass"},
      {"name": "web", "match": {"proto": "tcp", "dst_port": 443, "tcp_flags": "ack,!syn"}, "action": {"inspect": "p"}}],
      "pipelines": {"p": [{"stage": "acl", "rules": [{"name": "here", "match": {"dst_port": 443}, "action": "drop"}]}]}})";
  const std::string dns = ethernet(ipv4(17, udp(1000, 53, 1000))),
                    web = ethernet(ipv4(6, tcp(1000, 443, 1400)));
  const std::vector<Captured> packets{{dns, 42}, {dns, 128}, {web, 54}, {web, 96}, {web},      {dns, 37},
                                      {web, 47}, {dns, 30},  {web, 13}, {dns, 0},  {dns, 1041}};
  for (const auto& more : both()) {
    const auto lines = replay(pcap(packets), policy, more);
    ASSERT_EQ(lines.size(), 12u);
    for (const std::size_t i : {0u, 1u, 10u}) {
      EXPECT_EQ(lines[i].at("why"), "passed by rule \"dns\"") << i;
      EXPECT_EQ(lines[i].at("length"), dns.size());
      EXPECT_FALSE(lines[i].contains("headers_cut"));
    }
    for (const std::size_t i : {2u, 3u, 4u})
      EXPECT_EQ(lines[i].at("why"), "inspected by rule \"web\" in pipeline p: stage 1 (acl) rule 1 (here)")
          << i;
    for (const std::size_t i : {5u, 6u, 7u, 8u, 9u}) {
      EXPECT_EQ(lines[i].at("why"), "dropped: malformed, headers cut by the capture") << i;
      EXPECT_EQ(lines[i].at("headers_cut"), true) << i;
    }
    const std::string notes = lines.back().at("notes").dump();
    EXPECT_THAT(notes,
                HasSubstr("5 packets were cut by the capture, and judged by the headers and the length"));
    EXPECT_THAT(notes, HasSubstr("5 packets were cut by the capture within the headers"));
  }
}

// A capture of raw IP has no Ethernet header, whose bytes count all the same.
TEST_F(CliReplay, CutPacketsOfOtherLinkTypesToo) {
  const std::string packet = ipv4(17, udp(1000, 53, 1000)).substr(2);
  for (const auto& more : both()) {
    const auto lines = replay(pcap({{packet, 64}, {packet}}, 101), "", more);
    ASSERT_EQ(lines.size(), 3u);
    for (const std::size_t i : {0u, 1u}) {
      EXPECT_EQ(lines[i].at("why"), "passed by the policy's default") << i;
      EXPECT_EQ(lines[i].at("length"), 14 + packet.size()) << i;
    }
  }
}

// config/malformed.md, "Frames that no interface hands over".
TEST_F(CliReplay, OddFrames) {
  const std::string policy = R"({"version": 1, "fragments": "drop", "rules": [
      {"name": "web", "match": {"proto": "tcp", "dst_port": 443}, "action": {"inspect": "p"}}],
      "pipelines": {"p": [{"stage": "acl", "rules": [{"match": {"dst_port": 443}, "action": "drop"}]}]}})";
  const std::string tags = be16(0x8100) + be16(1) + be16(0x8100) + be16(2) + be16(0x8100) + be16(3);
  const std::vector<Captured> packets{
      {""},
      {std::string(13, '\2')},
      {ethernet(tags + ipv4(17, udp(1000, 53)))},
      {ethernet(ipv4(17, udp(1000, 53, 60000)))},
      {ethernet(ipv4(6, tcp(1000, 443, 65495)))},
      {ethernet(ipv4(6, tcp(1000, 443, 65495))), 96},
  };
  for (const auto& more : both()) {
    const auto lines = replay(pcap(packets), policy, more);
    ASSERT_EQ(lines.size(), 7u);
    for (const std::size_t i : {0u, 1u, 2u}) EXPECT_EQ(lines[i].at("why"), "dropped: malformed") << i;
    EXPECT_EQ(lines[3].at("why"), "passed by the policy's default");
    for (const std::size_t i : {4u, 5u}) {
      EXPECT_EQ(lines[i].at("verdict"), "drop") << i;
      EXPECT_EQ(lines[i].at("pipeline"), "p") << i;
    }
    EXPECT_THAT(lines.back().at("notes").dump(), HasSubstr("3 packets are longer than 28160 bytes"));
  }
}

TEST_F(CliReplay, SaysOneOfOne) {
  const std::string dns = ethernet(ipv4(17, udp(1000, 53, 1000)));
  const std::string policy = R"({"version": 1, "rules": [
      {"name": "slow", "match": {"src": "10.0.0.2"}, "limit": {"per": "src", "pps": 1, "burst": 1}},
      {"name": "dns", "match": {"proto": "udp", "dst_port": 53}, "action": "drop"}]})";
  const auto said = [&](const std::vector<Captured>& packets) {
    const auto one = run({"replay", file("packets.pcap", pcap(packets)), "--policy",
                          file("policy.json", policy), "--device", "cpu", "-v"});
    EXPECT_EQ(one.status, 0) << one.err;
    EXPECT_THAT(one.out, Not(HasSubstr("by a rule")));
    EXPECT_THAT(one.out, Not(HasSubstr("1 packets")));
    return one.out;
  };
  EXPECT_THAT(said({{dns, 64}}), HasSubstr("note: 1 packet was cut by the capture, and judged by"));
  EXPECT_THAT(said({{dns, 64}}), HasSubstr("drop: dropped by rule \"dns\""));
  EXPECT_THAT(said({{dns, 20}}), HasSubstr("note: 1 packet was cut by the capture within the headers"));
  EXPECT_THAT(said({{ethernet(ipv4(17, udp(1, 2, 60000)))}}),
              HasSubstr("note: 1 packet is longer than 28160"));
  const std::string from_two = ethernet(ipv4(17, udp(1000, 53), 2));
  EXPECT_THAT(said({{from_two}, {from_two}}), HasSubstr("dropped: over the limit of rule \"slow\""));
}

// Two interfaces of one pcapng, of which the second one is no Ethernet.
TEST_F(CliReplay, ACaptureOfTwoLinkTypesIsNotDamaged) {
  const auto block = [](unsigned type, std::string body) {
    body.resize((body.size() + 3) / 4 * 4);
    const auto length = le32(static_cast<unsigned>(body.size() + 12));
    return le32(type) + length + body + length;
  };
  const auto interface = [&](unsigned link_type) {
    return block(1, le16(link_type) + le16(0) + le32(262144));
  };
  const auto packet = [&](unsigned of, const std::string& frame) {
    const auto size = le32(static_cast<unsigned>(frame.size()));
    return block(6, le32(of) + le32(0) + le32(0) + size + size + frame);
  };
  const std::string dns = ethernet(ipv4(17, udp(1000, 53)));
  const std::string section =
      block(0x0a0d0d0a, le32(0x1a2b3c4d) + le16(1) + le16(0) + std::string(8, '\xff'));
  const std::string capture = file("two.pcapng", section + interface(1) + packet(0, dns) + packet(0, dns) +
                                                     interface(101) + packet(1, dns.substr(14)));
  const auto outcome = run({"replay", capture, "--device", "cpu"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("2 packets: 2 pass"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("damaged")));
  EXPECT_THAT(outcome.err, HasSubstr("packets of another interface behind packet 2"));
  EXPECT_THAT(outcome.err, HasSubstr("tshark"));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST_F(CliReplay, NamesWhatProgramsChange) {
  const std::string policy = R"({"version": 1, "rules": [{"action": {"inspect": "p"}}],
      "pipelines": {"p": [{"stage": "program", "object": ")" XDPGPU_OBJECTS R"(/changes.bpf.o"}]}})";
  std::vector<Captured> packets;
  for (const unsigned to : {53u, 54u, 55u, 56u}) packets.push_back({ethernet(ipv4(17, udp(1000, to)))});
  const auto lines = replay(pcap(packets), policy);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].at("verdict"), "tx");
  EXPECT_EQ(lines[0].at("length"), 142u);
  EXPECT_EQ(lines[0].at("changed_length"), 162u);
  EXPECT_THAT(lines[0].at("why").get<std::string>(), HasSubstr("stage 1 (program), changed"));
  EXPECT_EQ(lines[1].at("verdict"), "pass");
  EXPECT_EQ(lines[1].at("changed_length"), 60u);
  EXPECT_EQ(lines[2].at("verdict"), "drop");
  EXPECT_FALSE(lines[2].contains("changed_length")) << "nobody gets it";
  EXPECT_EQ(lines[3].at("verdict"), "pass");
  EXPECT_FALSE(lines[3].contains("changed_length"));
  EXPECT_THAT(lines[3].at("why").get<std::string>(), Not(HasSubstr("changed")));
  const auto text = run({"replay", file("packets.pcap", pcap(packets)), "--policy",
                         file("policy.json", policy), "--device", "cpu", "-v"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr(" 142 bytes  tx "));
  EXPECT_THAT(text.out, HasSubstr("\n              changed to 162 bytes\n"));
  EXPECT_THAT(text.out, HasSubstr("\n              changed to 60 bytes\n"));
}

// By the object, program first goes on with last, which sends packets back; table drops them where the map
// that it looks into has nothing.
TEST_F(CliReplay, AProgramGoesOnWithThoseThatThePolicyNames) {
  const auto verdict = [&](const std::string& maps) {
    const std::string policy =
        R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [{"stage": "program",
            "section": "first", "object": ")" XDPGPU_OBJECTS R"(/slots.bpf.o", "maps": {)" +
        maps + "}}]}}";
    return replay(pcap({{ethernet(ipv4(17, udp(1000, 53)))}}), policy).at(0).at("verdict");
  };
  EXPECT_EQ(verdict(""), "tx");
  const std::string table = R"("next": {"programs": [{"index": 2, "program": "table"}]})";
  EXPECT_EQ(verdict(table), "pass") << "it finds the map that the object puts there";
  EXPECT_EQ(verdict(table + R"(, "tables": {"file": ")" + file("tables.json", "[]") + R"("})"), "drop");
  EXPECT_EQ(verdict(R"("next": {"programs": [{"index": 1, "program": "last"}]})"), "pass")
      << "it goes on with nothing";
}

// What the program makes of a later fragment by itself is nothing: it gets what its first one gets.
TEST_F(CliReplay, LaterFragmentsAreNotChanged) {
  const std::string policy =
      R"({"version": 1, "fragments": "track", "rules": [{"action": {"inspect": "p"}}],
      "pipelines": {"p": [{"stage": "program", "object": ")" XDPGPU_OBJECTS R"(/changes.bpf.o"}]}})";
  const auto fragment = [](char id, char flags, char offset, const std::string& payload) {
    std::string frame = ethernet(ipv4(17, payload));
    frame[14 + 5] = id;
    frame[14 + 6] = flags, frame[14 + 7] = offset;
    return frame;
  };
  std::vector<Captured> packets;
  for (const unsigned to : {53u, 56u}) {
    const auto id = static_cast<char>(to);
    packets.push_back({fragment(id, '\x20', 0, udp(1000, to, 104))});
    // Where the first one's port is.
    packets.push_back({fragment(id, 0, 14, udp(1000, 54))});
  }
  const auto lines = replay(pcap(packets), policy, {"--no-kernel"});
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].at("verdict"), "tx");
  EXPECT_TRUE(lines[0].contains("changed_length"));
  EXPECT_EQ(lines[1].at("verdict"), "drop") << lines[1];
  EXPECT_EQ(lines[2].at("verdict"), "pass");
  EXPECT_EQ(lines[3].at("verdict"), "pass") << lines[3];
  for (const std::size_t i : {1u, 2u, 3u}) EXPECT_FALSE(lines[i].contains("changed_length")) << lines[i];
}

}  // namespace
}  // namespace xdpgpu::test
