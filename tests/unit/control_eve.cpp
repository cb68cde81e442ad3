// SPDX-License-Identifier: MIT
//
// Events as lines of EVE JSON: the fields that Suricata's have, and one JSON object whatever a packet holds.
#include "userspace/control/eve.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "maps/parse.h"
#include "userspace/control/json_line.hpp"
#include "userspace/dataplane/dns_question.hpp"

namespace xdpgpu::control {
namespace {

using dataplane::Event;
using dataplane::EventKind;
using std::string_literals::operator""s;

std::string bytes_of(std::initializer_list<int> bytes) { return {bytes.begin(), bytes.end()}; }

// 198.51.100.7 > 192.0.2.1, VLAN 10.
std::string ipv4(u8 protocol, const std::string& rest) {
  const auto total = static_cast<int>(20 + rest.size());
  return bytes_of({2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 10, 8, 0}) +
         bytes_of({0x45, 0x10, total >> 8, total & 255, 0x12, 0x34, 0,   0, 63, protocol,
                   0,    0,    198,        51,          100,  7,    192, 0, 2,  1}) +
         rest;
}
// 2001:db8::7 > 2001:db8::1, traffic class 0x20, flow label 5.
std::string ipv6(u8 protocol, const std::string& rest) {
  const auto bytes = static_cast<int>(rest.size());
  return bytes_of({2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd}) +
         bytes_of({0x62, 0, 0, 5, bytes >> 8, bytes & 255, protocol, 61, 0x20, 1, 0x0d, 0xb8, 0,    0,
                   0,    0, 0, 0, 0,          0,           0,        0,  0,    7, 0x20, 1,    0x0d, 0xb8,
                   0,    0, 0, 0, 0,          0,           0,        0,  0,    0, 0,    1}) +
         rest;
}
std::string udp(u16 from, u16 to, const std::string& payload) {
  const auto bytes = static_cast<int>(8 + payload.size());
  return bytes_of({from >> 8, from & 255, to >> 8, to & 255, bytes >> 8, bytes & 255, 0, 0}) + payload;
}
std::string message(u16 flags, const std::string& name, u16 type = 1) {
  return bytes_of({0x3e, 0x80, flags >> 8, flags & 255, 0, 1, 0, 0, 0, 0, 0, 0}) + name +
         bytes_of({0, type >> 8, type & 255, 0, 1});
}
std::string label(const std::string& text) { return static_cast<char>(text.size()) + text; }

Event event(EventKind kind, const std::string& frame) {
  Event event{};
  event.kind = kind;
  event.verdict = XG_VERDICT(u32{XG_DROP}, 0u, 1u, 2u);
  event.generation = 3;
  event.length = static_cast<u32>(frame.size());
  event.bytes = static_cast<u16>(std::min<std::size_t>(frame.size(), Event::kBytes));
  std::memcpy(event.packet, frame.data(), event.bytes);
  return event;
}

EveFacts facts() {
  return {.wall_ns = 1'764'153'950'123'456'789,
          .key = {1, 2},
          .interface = "eth0",
          .pipeline = "web",
          .decided_by = "stage 1 (acl) rule 2"};
}

// The one object on the one line.
Json read(const std::string& line) {
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  EXPECT_EQ(line.back(), '\n');
  Json json = Json::parse(line, nullptr, false);
  EXPECT_TRUE(json.is_object()) << line;
  return json;
}
Json drop(const Event& event) {
  std::string line;
  eve_drop(event, facts(), line);
  return read(line);
}
Json dns(const Event& event) {
  std::string line;
  return eve_dns(event, facts(), line) ? read(line) : Json();
}

TEST(EveDrop, HasTheFieldsOfSuricatas) {
  Event tcp = event(
      EventKind::drop,
      ipv4(6, bytes_of({0x30, 0x39, 0, 80, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, 0x12, 0x72, 0x10, 0, 0, 0, 9}) +
                  "hello"));
  Json json = drop(tcp);
  EXPECT_GT(json.at("flow_id").get<u64>(), 0U);
  json.erase("flow_id");
  EXPECT_EQ(json, Json({{"timestamp", "2025-11-26T10:45:50.123456+0000"},
                        {"in_iface", "eth0"},
                        {"event_type", "drop"},
                        {"vlan", {10}},
                        {"src_ip", "198.51.100.7"},
                        {"src_port", 12345},
                        {"dest_ip", "192.0.2.1"},
                        {"dest_port", 80},
                        {"proto", "TCP"},
                        {"pkt_src", "wire/pcap"},
                        {"drop",
                         {{"len", 45},
                          {"tos", 16},
                          {"ttl", 63},
                          {"ipid", 0x1234},
                          {"tcpseq", 256},
                          {"tcpack", 512},
                          {"tcpwin", 0x7210},
                          {"syn", true},
                          {"ack", true},
                          {"psh", false},
                          {"rst", false},
                          {"urg", false},
                          {"fin", false},
                          {"tcpres", 0},
                          {"tcpurgp", 9},
                          {"reason", "rules"}}},
                        {"xdpgpu",
                         {{"action", "drop"},
                          {"pipeline", "web"},
                          {"decided_by", "stage 1 (acl) rule 2"},
                          {"generation", 3}}}}));
}

TEST(EveDrop, OfIpv6UdpAndIcmp) {
  const Json six = drop(event(EventKind::drop, ipv6(17, udp(1000, 2000, "x"))));
  EXPECT_EQ(six.at("src_ip"), "2001:db8::7");
  EXPECT_EQ(six.at("dest_ip"), "2001:db8::1");
  EXPECT_FALSE(six.contains("vlan"));
  EXPECT_EQ(
      six.at("drop"),
      Json({{"len", 9}, {"tc", 0x20}, {"hoplimit", 61}, {"flowlbl", 5}, {"udplen", 9}, {"reason", "rules"}}));
  const Json icmp = drop(event(EventKind::drop, ipv4(1, bytes_of({8, 0, 0, 0, 0, 77, 0, 3}))));
  EXPECT_EQ(icmp.at("proto"), "ICMP");
  EXPECT_EQ(icmp.at("icmp_type"), 8);
  EXPECT_EQ(icmp.at("icmp_code"), 0);
  EXPECT_FALSE(icmp.contains("src_port"));
  EXPECT_EQ(icmp.at("drop").at("icmp_id"), 77);
  EXPECT_EQ(icmp.at("drop").at("icmp_seq"), 3);
  EXPECT_EQ(drop(event(EventKind::drop, ipv6(58, bytes_of({128, 0, 0, 0, 0, 1, 0, 1})))).at("proto"),
            "IPv6-ICMP");
  EXPECT_EQ(drop(event(EventKind::drop, ipv4(103, "pim"))).at("proto"), "103");
}

TEST(EveDrop, WhatIsNoIpHasItsLength) {
  std::string arp(60, '\0');
  arp[12] = 8;
  arp[13] = 6;
  const Json json = drop(event(EventKind::drop, arp));
  EXPECT_EQ(json.at("drop").at("len"), 60);
  for (const char* key : {"src_ip", "dest_ip", "proto", "flow_id"}) EXPECT_FALSE(json.contains(key)) << key;
}

TEST(EveDrop, NoStageMeansTheDefault) {
  Event of_default = event(EventKind::drop, ipv4(17, udp(1, 2, "")));
  of_default.verdict = XG_DROP;
  EXPECT_EQ(drop(of_default).at("drop").at("reason"), "default packet policy");
}

TEST(EveDrop, AFragmentIsKnownByNoPorts) {
  std::string frame = ipv4(17, udp(1000, 2000, "first"));
  frame[18 + 6] = 0x20;  // more fragments
  const Json first = drop(event(EventKind::drop, frame));
  EXPECT_FALSE(first.contains("src_port"));
  frame[18 + 6] = 0;
  frame[18 + 7] = 8;  // a later one
  const Json later = drop(event(EventKind::drop, frame));
  EXPECT_FALSE(later.at("drop").contains("udplen"));
  EXPECT_EQ(first.at("flow_id"), later.at("flow_id")) << "one datagram";
}

TEST(EveFlowId, IsOneForBothDirections) {
  const auto id = [](const std::string& frame) { return drop(event(EventKind::drop, frame)).at("flow_id"); };
  const std::string there = ipv4(17, udp(1000, 2000, ""));
  std::string back = ipv4(17, udp(2000, 1000, ""));
  std::swap_ranges(back.begin() + 30, back.begin() + 34, back.begin() + 34);
  EXPECT_EQ(id(there), id(back));
  EXPECT_NE(id(there), id(ipv4(17, udp(1001, 2000, ""))));
  EXPECT_NE(id(there), id(ipv4(6, udp(1000, 2000, "") + std::string(12, 'P'))));
  EXPECT_LT(id(there).get<u64>(), u64{1} << 51) << "a double holds it";
}

TEST(EvePayload, IsAsLongAsWasAskedFor) {
  Event one = event(EventKind::drop, ipv4(17, udp(1, 2, "Man, \xff\0 and more"s)) + "padding");
  EXPECT_FALSE(drop(one).contains("payload")) << "nobody asked";
  for (const auto& [bytes, text] : {std::pair(1, "TQ=="), {2, "TWE="}, {3, "TWFu"}, {7, "TWFuLCD/AA=="}}) {
    one.payload = static_cast<u16>(bytes);
    EXPECT_EQ(drop(one).at("payload"), text);
  }
  one.payload = 1024;
  EXPECT_EQ(drop(one).at("payload"), "TWFuLCD/ACBhbmQgbW9yZQ==") << "and not Ethernet's padding";
  one.bytes = 18 + 20 + 8 + 3;
  EXPECT_EQ(drop(one).at("payload"), "TWFu") << "as far as it is there";
}

TEST(EveDns, QueriesHaveTheFieldsOfSuricatas) {
  Event query =
      event(EventKind::dns, ipv4(17, udp(4000, 53, message(0x0100, label("www") + label("example"), 28))));
  query.flags = XG_RES_REFUSED;
  const Json json = dns(query);
  EXPECT_EQ(json.at("event_type"), "dns");
  EXPECT_EQ(
      json.at("dns"),
      Json({{"type", "query"}, {"id", 16000}, {"opcode", 0}, {"rrname", "www.example"}, {"rrtype", "AAAA"}}));
  EXPECT_EQ(json.at("xdpgpu").at("action"), "refuse");
}

TEST(EveDns, AnswersHaveTheFieldsOfSuricatas) {
  const Json json =
      dns(event(EventKind::dns, ipv6(17, udp(53, 4000, message(0x8583, label("example"), 65399)))));
  EXPECT_EQ(json.at("dns"), Json({{"version", 2},
                                  {"type", "answer"},
                                  {"id", 16000},
                                  {"flags", "8583"},
                                  {"qr", true},
                                  {"aa", true},
                                  {"rd", true},
                                  {"ra", true},
                                  {"opcode", 0},
                                  {"rrname", "example"},
                                  {"rrtype", "65399"},
                                  {"rcode", "NXDOMAIN"}}));
}

TEST(EveDns, WhatHasNoQuestionIsNotTold) {
  const auto told = [](const std::string& dns_message) {
    return !dns(event(EventKind::dns, ipv4(17, udp(1, 53, dns_message)))).is_null();
  };
  const std::string fine = message(0, label("a"));
  EXPECT_TRUE(told(fine));
  EXPECT_TRUE(told(message(0, ""))) << "the root's";
  for (std::size_t bytes = 0; bytes < fine.size(); bytes++)
    EXPECT_FALSE(told(fine.substr(0, bytes))) << bytes;
  std::string two = fine;
  two[5] = 2;
  EXPECT_FALSE(told(two)) << "two questions";
  EXPECT_FALSE(told(message(0, "\xc0\x0c"))) << "compressed";
  std::string longest;
  for (int i = 0; i < 3; i++) longest += label(std::string(63, 'a'));
  EXPECT_TRUE(told(message(0, longest + label(std::string(61, 'b')))));
  EXPECT_FALSE(told(message(0, longest + label(std::string(62, 'b'))))) << "256 bytes";
}

TEST(EveDns, NoTwoNamesHaveOneText) {
  const auto text = [](const std::string& name) {
    return dns_name_text(reinterpret_cast<const u8*>(name.data()), static_cast<u32>(name.size()));
  };
  EXPECT_EQ(text("\0"s), ".");
  EXPECT_EQ(text(label("a") + label("b") + "\0"s), "a.b");
  EXPECT_EQ(text(label("a.b") + "\0"s), "a\\x2eb");
  EXPECT_EQ(text(label("a\\x2eb") + "\0"s), "a\\x5cx2eb");
  EXPECT_EQ(text(label("a b\"\n\xff\x7f") + "\0"s), "a\\x20b\"\\x0a\\xff\\x7f");
}

TEST(EveAlert, HasTheFieldsOfSuricatas) {
  std::string line;
  eve_alert(event(EventKind::drop, ipv4(17, udp(1, 2, ""))),
            {.gid = 1,
             .sid = 2100498,
             .rev = 7,
             .severity = 2,
             .signature = "GPL \"id\" root",
             .category = "Bad",
             .blocked = true},
            facts(), line);
  const Json json = read(line);
  EXPECT_EQ(json.at("event_type"), "alert");
  EXPECT_EQ(json.at("alert"), Json({{"action", "blocked"},
                                    {"gid", 1},
                                    {"signature_id", 2100498},
                                    {"rev", 7},
                                    {"signature", "GPL \"id\" root"},
                                    {"category", "Bad"},
                                    {"severity", 2}}));
  line.clear();
  eve_alert(event(EventKind::drop, ipv4(17, udp(1, 2, ""))), {.sid = 1, .signature = {}, .category = {}},
            facts(), line);
  EXPECT_EQ(read(line).at("alert").at("action"), "allowed");
}

TEST(EveProgram, HasWhatWasPutOutAndWhatWasAskedFor) {
  Event put = event(EventKind::program, ipv4(17, udp(7000, 53, "abc")));
  put.program.map = 1;
  put.program.length = 5;
  std::memcpy(put.program.bytes, "\x00\xff\x10\x20\"", 5);
  std::string line;
  eve_program(put, {.name = "report_syns", .map = "events"}, facts(), line);
  Json json = read(line);
  EXPECT_EQ(json.at("event_type"), "program");
  EXPECT_EQ(json.at("src_ip"), "198.51.100.7");
  EXPECT_EQ(json.at("src_port"), 7000);
  EXPECT_EQ(json.at("in_iface"), facts().interface);
  EXPECT_EQ(json.at("program"), Json({{"name", "report_syns"}, {"map", "events"}, {"data", "AP8QICI="}}));
  EXPECT_EQ(json.at("xdpgpu").at("action"), "drop");
  EXPECT_FALSE(json.contains("payload"));
  put.program.asked = 3;
  put.payload = 2;
  line.clear();
  eve_program(put, {.name = "report_syns", .map = "events"}, facts(), line);
  json = read(line);
  EXPECT_EQ(json.at("program").at("packet"), "AgAA");
  EXPECT_EQ(json.at("payload"), "YWI=");
  // Whatever stands there, no more is read than there is.
  put.program.asked = ~0u;
  put.program.length = 0xffff;
  line.clear();
  eve_program(put, {.name = "", .map = ""}, facts(), line);
  json = read(line);
  EXPECT_EQ(json.at("program").at("data").get<std::string>().size(), (XG_EVENT_BYTES + 2) / 3 * 4);
  EXPECT_EQ(json.at("program").at("packet").get<std::string>().size(), (put.bytes + 2u) / 3 * 4);
}

TEST(EveStats, AreAnEventOfTheirOwn) {
  std::string line;
  eve_stats({{"uptime", 5}, {"text", "\xff\n"}}, facts().wall_ns, line);
  const Json json = read(line);
  EXPECT_EQ(json.at("event_type"), "stats");
  EXPECT_EQ(json.at("stats").at("uptime"), 5);
}

TEST(JsonLine, TextIsReadBackAsItWas) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same in each run
  const std::vector<std::string> pieces{"\"",          "\\",   "\n",           "\t",
                                        "\0"s,         "\x1f", "\x7f",         "plain",
                                        "\xc3\xa9",    "/",    "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                        "\xed\x9f\xbf"};
  for (int i = 0; i < 2000; i++) {
    std::string text, line;
    for (auto n = random() % 9; n-- > 0;) text += pieces[random() % pieces.size()];
    JsonLine json(line);
    json.text("text", text);
    json.begin("in");
    json.number("number", static_cast<u64>(i));
    json.boolean("yes", true);
    json.end();
    json.raw("list", "[1]");
    json.finish();
    EXPECT_EQ(read(line), Json({{"text", text}, {"in", {{"number", i}, {"yes", true}}}, {"list", {1}}}))
        << line;
  }
}

// As nlohmann's own writer has it, which is another one's code: each wrong byte by itself.
TEST(JsonLine, AnyBytesMakeALine) {
  std::mt19937 random(8);  // NOLINT(cert-msc51-cpp)
  for (int i = 0; i < 20000; i++) {
    std::string text, line;
    for (auto n = random() % 12; n-- > 0;)
      text += static_cast<char>(random() % 3 ? 0x80 + random() % 0x80 : random() % 0x100);
    JsonLine json(line);
    json.text("text", text);
    json.finish();
    const Json read_back = read(line);
    const std::string told = read_back.at("text");
    if (const Json same = Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
        same == text)
      EXPECT_EQ(told, text) << "it was UTF-8";
    else
      EXPECT_NE(told.find("\xef\xbf\xbd"), std::string::npos) << line;
  }
}

// Whatever stands in a packet, and wherever it was cut off.
TEST(Eve, AnyPacketMakesALine) {
  std::mt19937 random(9);  // NOLINT(cert-msc51-cpp)
  const std::vector<std::string> frames{ipv4(6, std::string(40, '\5')),
                                        ipv4(17, udp(5, 53, message(0x8180, label("a\"b\n")))),
                                        ipv6(17, udp(5, 53, message(0, label("x")))),
                                        ipv6(44, std::string(32, '\1')), ipv4(1, std::string(9, '\x8'))};
  u32 told = 0;
  for (int i = 0; i < 50000; i++) {
    std::string frame = frames[random() % frames.size()];
    for (auto n = random() % 6; n-- > 0;) frame[random() % frame.size()] = static_cast<char>(random());
    frame.resize(random() % 4 ? frame.size() : random() % (frame.size() + 1));
    Event one = event(EventKind::dns, frame);
    one.payload = static_cast<u16>(random() % 40);
    one.verdict = static_cast<u32>(random());
    if (random() % 4 == 0) one.length += 2000;
    (void)drop(one);
    told += dns(one).is_null() ? 0 : 1;
    std::string line;
    eve_alert(one, {.signature = frame, .category = frame}, facts(), line);
    (void)read(line);
  }
  EXPECT_GT(told, 1000U);
}

}  // namespace
}  // namespace xdpgpu::control
