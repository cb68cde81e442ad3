// SPDX-License-Identifier: MIT
//
// tests/unit/control_packet_words.cpp: packets in words are the packets that they name, as the XDP program
// reads them, with right checksums; and the schema of tests has the keys that are read.
#include "userspace/control/packet_words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "maps/parse.h"
#include "userspace/control/describe.hpp"
#include "userspace/control/policy_test.hpp"
#include "userspace/dataplane/checksum.hpp"

namespace xdpgpu::control {
namespace {

using testing::HasSubstr;

std::vector<u8> frame(const std::string& words) {
  const auto frames = frames_of({.words = words});
  EXPECT_TRUE(frames) << words << ": " << frames.error();
  return frames ? frames->front() : std::vector<u8>(64);
}
xg_packet parsed(const std::vector<u8>& bytes) {
  xg_packet packet;
  xg_parse_part(bytes.data(), bytes.data() + bytes.size(), static_cast<u32>(bytes.size()), 0, &packet);
  return packet;
}
std::string flow(const std::vector<u8>& bytes) {
  const auto packet = parsed(bytes);
  EXPECT_EQ(packet.malformed, 0);
  return flow_text(packet.key, packet.flags);
}
// Of bytes that hold their own checksum.
bool sums_up(std::vector<u8> bytes) {
  if (bytes.size() % 2 != 0) bytes.push_back(0);
  return dataplane::ones_sum(bytes.data(), static_cast<u32>(bytes.size())) == 0xffff;
}
// The IP header's, and the transport's with its pseudo-header.
bool checksums_are_right(const std::vector<u8>& bytes) {
  const auto packet = parsed(bytes);
  const bool is_ipv4 = packet.key.family == 4;
  const auto at = bytes.begin() + packet.l3_offset;
  const std::ptrdiff_t header = is_ipv4 ? 20 : 40;
  if (is_ipv4 && !sums_up({at, at + header})) return false;
  std::vector<u8> all(at + (is_ipv4 ? 12 : 8), at + header);
  const std::size_t length = bytes.size() - packet.l3_offset - static_cast<std::size_t>(header);
  if (packet.key.protocol == 1) all.clear();
  if (packet.key.protocol != 1)
    for (const std::size_t byte :
         {std::size_t{0}, std::size_t{packet.key.protocol}, length >> 8, length & 0xff})
      all.push_back(static_cast<u8>(byte));
  all.insert(all.end(), at + header, bytes.end());
  return sums_up(all);
}

TEST(PacketWords, AreReadAsTheyWereMeant) {
  for (const auto& [words, expected] : std::vector<std::pair<const char*, const char*>>{
           {"tcp 198.51.100.7:4000 > 10.0.0.1:22 syn", "198.51.100.7:4000 > 10.0.0.1:22 tcp"},
           {"udp 10.0.0.1:1 > 10.0.0.2:65535 length 3", "10.0.0.1:1 > 10.0.0.2:65535 udp"},
           {"udp 10.0.0.1:1 > 10.0.0.2:53 dns example.com", "10.0.0.1:1 > 10.0.0.2:53 udp"},
           {"tcp [2001:db8::1]:4000 > [2001:db8::2]:443 length 1",
            "[2001:db8::1]:4000 > [2001:db8::2]:443 tcp"},
           {"vlan 7 udp [2001:db8::1]:1 > [2001:db8::2]:2 length 9",
            "[2001:db8::1]:1 > [2001:db8::2]:2 udp vlan 7"},
           {"vlan 7 vlan 8 icmp 10.0.0.1 > 10.0.0.2", "10.0.0.1 > 10.0.0.2 icmp type 8 id 1 vlan 7 vlan 8"},
           {"icmp 10.0.0.1 > 10.0.0.2 type 13 length 12", "10.0.0.1 > 10.0.0.2 icmp type 13"},
           {"icmp 2001:db8::1 > [2001:db8::2] echo-reply length 5",
            "2001:db8::1 > 2001:db8::2 icmpv6 type 129"},
           {"  tcp   10.0.0.1:1 > 10.0.0.2:2   fin  ack ttl 1 tos 184 ", "10.0.0.1:1 > 10.0.0.2:2 tcp"}}) {
    const auto bytes = frame(words);
    EXPECT_THAT(flow(bytes), HasSubstr(expected)) << words;
    EXPECT_TRUE(checksums_are_right(bytes)) << words;
  }
  EXPECT_EQ(flow(frame("sctp 10.0.0.1:1 > 10.0.0.2:2")), "10.0.0.1:1 > 10.0.0.2:2 sctp");
  EXPECT_EQ(flow(frame("proto 200 10.0.0.1 > 10.0.0.2 length 8")), "10.0.0.1 > 10.0.0.2 protocol 200");
  EXPECT_EQ(parsed(frame("arp 10.0.0.1 > 10.0.0.2")).control, u32{XG_CONTROL_ARP});
  EXPECT_EQ(frame("arp 10.0.0.1 > 10.0.0.2")[0], 0xff);
}

TEST(PacketWords, FlagsAreThoseThatAreNamed) {
  const auto flags = [](const char* words) { return parsed(frame(words)).tcp_flags; };
  EXPECT_EQ(flags("tcp 10.0.0.1:1 > 10.0.0.2:2"), 0x10);
  EXPECT_EQ(flags("tcp 10.0.0.1:1 > 10.0.0.2:2 syn"), 0x02);
  EXPECT_EQ(flags("tcp 10.0.0.1:1 > 10.0.0.2:2 syn ack ece cwr"), 0xd2);
  EXPECT_EQ(flags("tcp 10.0.0.1:1 > 10.0.0.2:2 no-flags"), 0);
}

// Put together again they are the packet.
TEST(PacketWords, FragmentsAreOfOneDatagram) {
  for (const std::string words :
       {"udp 10.0.0.1:1 > 10.0.0.2:2 length 1000", "udp [2001:db8::1]:1 > [2001:db8::2]:2 length 1000"}) {
    const auto whole = frame(words);
    const std::size_t header = parsed(whole).key.family == 4 ? 34 : 54;
    const auto pieces = frames_of({.words = words, .mtu = 300});
    ASSERT_TRUE(pieces) << pieces.error();
    EXPECT_EQ(pieces->size(), header == 34 ? 4u : 5u);
    std::vector<u8> together(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(header));
    for (const auto& piece : *pieces) {
      EXPECT_LE(piece.size(), 314u);
      EXPECT_NE(parsed(piece).flags & XG_PKT_FRAGMENT, 0);
      EXPECT_EQ(parsed(piece).malformed, 0);
      const std::size_t at = header == 34 ? header : header + 8;
      together.insert(together.end(), piece.begin() + static_cast<std::ptrdiff_t>(at), piece.end());
    }
    EXPECT_EQ(together.size(), whole.size());
    EXPECT_TRUE(std::equal(together.begin() + static_cast<std::ptrdiff_t>(header), together.end(),
                           whole.begin() + static_cast<std::ptrdiff_t>(header)));
    EXPECT_EQ(frames_of({.words = words, .mtu = 1500})->size(), 1u);
  }
}

TEST(PacketWords, NonsenseIsASentence) {
  for (const char* words : {"",
                            "tcp",
                            "tcp 10.0.0.1:1",
                            "tcp 10.0.0.1:1 > ",
                            "tcp 10.0.0.1:1 10.0.0.2:2",
                            "tcp 10.0.0.1:65536 > 10.0.0.2:2",
                            "tcp 10.0.0.1: > 10.0.0.2:2",
                            "tcp [::1:1 > [::2]:2",
                            "tcp [::1]1 > [::2]:2",
                            "icmp [::1]: > ::2",
                            "vlan udp 10.0.0.1:1 > 10.0.0.2:2",
                            "vlan 4096 udp 10.0.0.1:1 > 10.0.0.2:2",
                            "vlan 1 vlan 2 vlan 3 udp 10.0.0.1:1 > 10.0.0.2:2",
                            "udp 10.0.0.1:1 > 10.0.0.2:2 vlan 3",
                            "proto 256 10.0.0.1 > 10.0.0.2",
                            "proto",
                            "udp 10.0.0.1:1 > 10.0.0.2:2 dns",
                            "udp 10.0.0.1:1 > 10.0.0.2:2 dns a..b",
                            "udp 10.0.0.1:1 > 10.0.0.2:2 dns a length 3",
                            "udp 10.0.0.1:1 > 10.0.0.2:2 ttl 256",
                            "udp 10.0.0.1:1 > 10.0.0.2:2 ttl",
                            "tcp 10.0.0.1:1 > 10.0.0.2:2 syn no-flags",
                            "icmp 10.0.0.1 > 10.0.0.2 echo-reply type 3",
                            "arp ::1 > ::2",
                            "arp 10.0.0.1 > 10.0.0.2 length 3",
                            "udp 10.0.0.1:1 > 10.0.0.2:2 src-mac 0",
                            "udp 10.0.0.1:1 > 10.0.0.2:2 query-type 1",
                            "tcp 10.0.0.1:1 > 10.0.0.2:2 \x01"}) {
    const auto frames = frames_of({.words = words});
    ASSERT_FALSE(frames) << words;
    EXPECT_GT(frames.error().size(), 20u) << words << ": " << frames.error();
  }
  EXPECT_FALSE(frames_of({.words = "udp 10.0.0.1:1 > 10.0.0.2:2 df length 100", .mtu = 68}));
  EXPECT_FALSE(frames_of({.words = "udp [::1]:1 > [::2]:2 length 100", .mtu = 55}));
}

template <class Words>
std::set<std::string> set_of(const Words& words) {
  return {words.begin(), words.end()};
}

TEST(PolicyTestSchema, HasTheKeysThatAreRead) {
  std::ifstream file(XDPGPU_SOURCE_DIR "/config/policy-test.schema.json");
  const auto schema = nlohmann::json::parse(file);
  const auto keys = [](const nlohmann::json& object) {
    std::set<std::string> all;
    for (const auto& [key, value] : object.at("properties").items()) all.insert(key);
    return all;
  };
  const auto& defs = schema.at("$defs");
  EXPECT_EQ(keys(schema), set_of(test_keys::kTest));
  EXPECT_EQ(keys(defs.at("case")), set_of(test_keys::kCase));
  EXPECT_EQ(keys(defs.at("packet").at("oneOf").at(1)), set_of(test_keys::kPacket));
  EXPECT_EQ(keys(defs.at("capture").at("oneOf").at(1)), set_of(test_keys::kCapture));
  EXPECT_EQ(keys(defs.at("expect").at("oneOf").at(1)), set_of(test_keys::kExpect));
  EXPECT_EQ(keys(defs.at("case").at("properties").at("counts")), set_of(test_keys::kVerdicts));
  EXPECT_EQ(defs.at("verdict").at("enum").get<std::set<std::string>>(), set_of(test_keys::kVerdicts));
  EXPECT_EQ(schema.at("properties").at("cases").at("maxItems"), kMostTestCases);
  EXPECT_EQ(defs.at("count").at("maximum"), kMostCasePackets);
}

}  // namespace
}  // namespace xdpgpu::control
