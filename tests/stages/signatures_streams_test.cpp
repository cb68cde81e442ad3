// SPDX-License-Identifier: MIT
//
// Rules on what TCP connections say, by hand, on every device: with which packet a rule fires, and what
// becomes of what comes again, too early, or not at all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/stages/streams_by_hand.hpp"

namespace xdpgpu::tests {
namespace {

using namespace by_hand;

class Streams : public StreamsByHand {};

// However it is cut, a rule fires with the packet that has the last byte that it needs, once.
TEST_P(Streams, ARuleFiresWithThePacketThatCompletesIt) {
  Wire wire(64);
  wire.open();
  const u32 a = wire.send(Wire::client, 0, "xxev");
  const u32 b = wire.send(Wire::client, 4, "i");
  const u32 c = wire.send(Wire::client, 5, "lzz");
  const u32 d = wire.send(Wire::client, 8, "more of it");
  const u32 e = wire.send(Wire::client, 18, "evil");
  wire.open(1001);
  const u32 f = wire.send(Wire::server, 0, "evil", kAck, 0, 1001);
  decide(wire, with({rule("evil"), rule({content("ev"), behind("z", 3, 4)})}));
  if (answers_.empty()) return;
  EXPECT_EQ(fired(a), Fired{});
  EXPECT_EQ(fired(b), Fired{});
  EXPECT_EQ(fired(c), (Fired{0, 1}));
  EXPECT_EQ(fired(d), Fired{});
  EXPECT_EQ(fired(e), Fired{}) << "it has held since then";
  EXPECT_EQ(fired(f), Fired{0});
}

TEST_P(Streams, WhatComesEarlyGoesOnAndIsInspectedInItsPlace) {
  Wire wire(64);
  wire.open();
  const u32 late = wire.send(Wire::client, 4, "lzz");
  const u32 farther = wire.send(Wire::client, 20, "tail");
  const u32 missing = wire.send(Wire::client, 2, "vi");
  const u32 first = wire.send(Wire::client, 0, "xe");
  const u32 rest = wire.send(Wire::client, 7, "0123456789abc");
  decide(wire, with({rule("evilzz"), rule("abctail")}));
  if (answers_.empty()) return;
  for (const u32 packet : {late, farther, missing}) {
    EXPECT_EQ(fired(packet), Fired{});
    EXPECT_FALSE(dropped(packet));
  }
  EXPECT_EQ(fired(first), Fired{0});
  EXPECT_EQ(fired(rest), Fired{1});
}

// First data wins: what has been inspected cannot come again as something else.
TEST_P(Streams, OtherBytesInThePlaceOfThoseThatCameAreDropped) {
  Wire wire(64);
  wire.open();
  wire.send(Wire::client, 0, "good things");
  const u32 same = wire.send(Wire::client, 5, "things");
  const u32 other = wire.send(Wire::client, 5, "thongs");
  const u32 longer = wire.send(Wire::client, 5, "thOngs and more");
  wire.send(Wire::client, 30, "early");
  const u32 early = wire.send(Wire::client, 28, "xxEarly");
  const u32 on = wire.send(Wire::client, 11, " evil");
  SignaturesSettings settings = with({rule("evil")});
  decide(wire, settings);
  if (answers_.empty()) return;
  EXPECT_FALSE(dropped(same));
  for (const u32 packet : {other, longer, early}) {
    EXPECT_TRUE(dropped(packet));
    EXPECT_EQ(number(packet), 3u) << "rules, and two";
  }
  EXPECT_EQ(fired(on), Fired{0}) << "not one byte of those that were dropped counts";
}

TEST_P(Streams, ARuleThatDropsDropsTheConnection) {
  Wire wire(64);
  wire.open();
  const u32 before = wire.send(Wire::client, 0, "some e");
  const u32 bad = wire.send(Wire::client, 6, "vil");
  const u32 again = wire.send(Wire::client, 6, "vil");
  const u32 answer = wire.send(Wire::server, 0, "what?");
  const u32 plain = wire.send(Wire::server, 5, "", kAck);
  wire.open(1001);
  const u32 others = wire.send(Wire::client, 0, "fine", kAck, 0, 1001);
  decide(wire, with({rule("evil", sig::Action::drop)}));
  if (answers_.empty()) return;
  EXPECT_FALSE(dropped(before));
  EXPECT_TRUE(dropped(bad));
  EXPECT_EQ(number(bad), 1u);
  EXPECT_EQ(fired(bad), Fired{0});
  for (const u32 packet : {again, answer, plain}) {
    EXPECT_TRUE(dropped(packet));
    EXPECT_EQ(number(packet), 5u) << "rules, and four";
    EXPECT_EQ(fired(packet), Fired{});
  }
  EXPECT_FALSE(dropped(others));
}

TEST_P(Streams, ARuleThatPassesEndsInspection) {
  Wire wire(64);
  wire.open();
  const u32 good = wire.send(Wire::client, 0, "fine and evil");
  const u32 later = wire.send(Wire::client, 13, " evil");
  const u32 packet = wire.send(Wire::client, 18, " worse");
  const u32 answer = wire.send(Wire::server, 0, "worse");
  wire.open(1001);
  const u32 elsewhere = wire.send(Wire::client, 0, "worse", kAck, 0, 1001);
  decide(wire, with({rule("fine", sig::Action::pass), rule("evil", sig::Action::drop),
                     rule("worse", sig::Action::drop, sig::Where::both)}));
  if (answers_.empty()) return;
  EXPECT_EQ(fired(good), Fired{});
  EXPECT_FALSE(dropped(good));
  EXPECT_FALSE(dropped(later));
  EXPECT_FALSE(dropped(packet)) << "rules for packets are not asked, either";
  EXPECT_FALSE(dropped(answer));
  EXPECT_TRUE(dropped(elsewhere));
}

// What must not be there is asked of the bytes in front of the last one that has to be.
TEST_P(Streams, NegatedContentsAreAskedOfWhatIsThereThen) {
  Wire wire(64);
  wire.open();
  const u32 a = wire.send(Wire::client, 0, "GET agent");
  wire.open(1001);
  const u32 b = wire.send(Wire::client, 0, "GET x refer agent", kAck, 0, 1001);
  wire.open(1002);
  const u32 c = wire.send(Wire::client, 0, "GET agent refer", kAck, 0, 1002);
  const u32 d = wire.send(Wire::client, 15, " agent", kAck, 0, 1002);
  decide(wire, with({rule({content("GET"), content("agent"), absent("refer")})}));
  if (answers_.empty()) return;
  EXPECT_EQ(fired(a), Fired{0});
  EXPECT_EQ(fired(b), Fired{});
  EXPECT_EQ(fired(c), Fired{0}) << "it is not there yet";
  EXPECT_EQ(fired(d), Fired{});
}

// A rule sees the block that a byte is of, and the one in front of it.
TEST_P(Streams, ARuleSeesTwoBlocksAtMost) {
  Wire wire(64);
  wire.open();
  const std::string filler(kWindow - 10, '.');
  wire.send(Wire::client, 0, "begin" + filler);  // up to 251
  const u32 across = wire.send(Wire::client, kWindow - 5, "abcdefghij");
  wire.send(Wire::client, kWindow + 5, filler);  // up to 507
  const u32 end = wire.send(Wire::client, 2 * kWindow - 5, "12345");
  const u32 behind = wire.send(Wire::client, 2 * kWindow, "67890");
  decide(wire, with({rule("efgh"), rule({first("begin", 5), content("12345")}),
                     rule({content("begin"), content("67890")}), rule({content("efgh"), content("67890")}),
                     rule("345678")}));
  if (answers_.empty()) return;
  EXPECT_EQ(fired(across), Fired{0});
  EXPECT_EQ(fired(end), Fired{1});
  EXPECT_EQ(fired(behind), Fired{4}) << "begin, and abcde of efgh, are two blocks in front";
}

TEST_P(Streams, GapsAreSaid) {
  for (const gpu::Action on_gap : {gpu::Action::drop, gpu::Action::next}) {
    Wire wire(64);
    const u32 unknown = wire.send(Wire::client, 0, "evil", kAck, 0, 1005);
    wire.open();
    const u32 far = wire.send(Wire::client, 4 * kWindow, "far away");
    const u32 evil = wire.send(Wire::client, 0, "evil");
    const std::string filler(kWindow, '.');
    for (u32 i = 0; i < 4; i++) wire.send(Wire::client, 4 + i * kWindow, filler);
    const u32 old = wire.send(Wire::client, 1, "VIL");
    wire.send(Wire::server, 0, "", kAck, 100);
    const u32 acknowledged = wire.send(Wire::client, 0, "EVIL");
    SignaturesSettings settings = with({rule("evil")});
    settings.on_gap = on_gap;
    decide(wire, settings);
    if (answers_.empty()) return;
    const bool drops = on_gap == gpu::Action::drop;
    for (const u32 packet : {unknown, far, old}) {
      EXPECT_EQ(dropped(packet), drops) << packet;
      if (drops) {
        EXPECT_EQ(number(packet), 4u) << "rules, and three";
      }
    }
    EXPECT_EQ(fired(evil), Fired{0}) << "what is far ahead ends nothing";
    EXPECT_FALSE(dropped(acknowledged)) << "nobody takes it any more";
  }
}

// What is not kept any more is known by its digest, from where a packet has ended to where another one has.
TEST_P(Streams, WhatComesAgainBehindTheWindowIsCompared) {
  for (const gpu::Action on_gap : {gpu::Action::drop, gpu::Action::next}) {
    const auto text = [](u32 from, u32 bytes) {
      std::string made;
      for (u32 i = 0; i < bytes; i++) made.push_back(static_cast<char>('a' + (from + i) * (from + i) % 23));
      return made;
    };
    Wire wire(256);
    wire.open();
    for (u32 at = 0; at < 2000; at += 100) wire.send(Wire::client, at, text(at, 100));
    const u32 same = wire.send(Wire::client, 0, text(0, 100));
    const u32 two = wire.send(Wire::client, 100, text(100, 200));
    const u32 on = wire.send(Wire::client, 1000, text(1000, 1100));  // the last 100 are new
    std::string changed = text(300, 100);
    changed[57] = '!';
    const u32 other = wire.send(Wire::client, 300, changed);
    const u32 between = wire.send(Wire::client, 350, text(350, 50));
    const u32 short_of = wire.send(Wire::client, 300, text(300, 99));
    wire.send(Wire::server, 0, "", kAck, 200);
    const u32 partly = wire.send(Wire::client, 150, "?" + text(151, 49) + text(200, 200));
    // Sixty-four more, and what was in front of them is not known any more.
    for (u32 at = 2100; at < 2100 + 64; at++) wire.send(Wire::client, at, text(at, 1));
    const u32 long_ago = wire.send(Wire::client, 400, text(400, 100));
    SignaturesSettings settings = with({rule("evil")});
    settings.on_gap = on_gap;
    decide(wire, settings);
    if (answers_.empty()) return;
    const bool drops = on_gap == gpu::Action::drop;
    for (const u32 packet : {same, two, on, partly}) {
      EXPECT_FALSE(dropped(packet)) << packet;
    }
    EXPECT_TRUE(dropped(other));
    EXPECT_EQ(number(other), 3u) << "rules, and two";
    for (const u32 packet : {between, short_of, long_ago}) {
      EXPECT_EQ(dropped(packet), drops) << packet;
      if (drops) {
        EXPECT_EQ(number(packet), 4u) << "rules, and three";
      }
    }
  }
}

// Who is to be inspected cannot end that by bytes that nobody takes; but what has come to its receiver past
// us does not keep the rest from being inspected.
TEST_P(Streams, BeginAnewBehindBytesThatWereNeverSeen) {
  for (const gpu::Action on_gap : {gpu::Action::drop, gpu::Action::next}) {
    Wire wire(64);
    wire.open();
    wire.send(Wire::client, 0, "first ev");
    const u32 far = wire.send(Wire::client, 5000, "il");
    const u32 on = wire.send(Wire::client, 8, "il");
    const u32 other = wire.send(Wire::client, 5002, "evi");
    wire.send(Wire::server, 0, "", kAck, 5001);
    const u32 early = wire.send(Wire::client, 5005, "evil");
    wire.send(Wire::server, 0, "", kAck, 9000);  // beyond what was sent
    wire.send(Wire::server, 0, "", kAck, 5005);
    const u32 across = wire.send(Wire::client, 5005, "l evil");
    const u32 old = wire.send(Wire::client, 5000, "IL");
    const u32 first_of_all = wire.send(Wire::client, 5011, " first");
    const u32 farther = wire.send(Wire::client, 5017, "evil");
    SignaturesSettings settings = with({rule("evil"), rule({first("first", 30)})});
    settings.on_gap = on_gap;
    decide(wire, settings);
    if (answers_.empty()) return;
    const bool drops = on_gap == gpu::Action::drop;
    EXPECT_EQ(fired(on), Fired{0}) << "a forged one ends nothing";
    for (const u32 packet : {far, other, early, across, farther}) EXPECT_EQ(dropped(packet), drops) << packet;
    EXPECT_EQ(fired(early), Fired{}) << "bytes in front of it are missing";
    EXPECT_EQ(fired(across), drops ? Fired{} : Fired{0});
    EXPECT_EQ(dropped(old), drops) << "its receiver has it";
    EXPECT_EQ(fired(first_of_all), Fired{}) << "where it begins nobody knows";
    EXPECT_EQ(fired(farther), Fired{}) << "of a text a rule is said once";
  }
}

// The most that one packet may bring to be inspected: all that has come early, behind it.
TEST_P(Streams, ThreeBlocksAreInspectedWithOnePacket) {
  constexpr u32 kBlock = 4096, kSegment = 1300, kFirst = 100;
  Wire wire(64);
  wire.open();
  std::string text;
  while (text.size() < 3 * kBlock) text += "abcdefghijk lmnopqrstuvw xyz ";
  text.resize(3 * kBlock);
  text.replace(kBlock - 2, 4, "EVIL");
  text.replace(3 * kBlock - 4, 4, "EVIL");
  for (u32 at = kFirst; at < text.size(); at += kSegment)
    wire.send(Wire::client, at, text.substr(at, kSegment));
  const u32 first = wire.send(Wire::client, 0, text.substr(0, kFirst));
  const u32 behind = wire.send(Wire::client, 3 * kBlock, text.substr(0, kSegment));
  SignaturesSettings settings = with({rule("EVIL"), rule("z abc")});
  settings.inspect.window = kBlock;
  decide(wire, settings);
  if (answers_.empty()) return;
  EXPECT_EQ(fired(first), (Fired{0, 1}));
  EXPECT_EQ(fired(behind), Fired{});
}

TEST_P(Streams, ReachToTheirDepth) {
  Wire wire(64);
  wire.open();
  const std::string filler(298, '.');
  wire.send(Wire::client, 0, filler);
  const u32 across = wire.send(Wire::client, 298, "evil");
  const u32 later = wire.send(Wire::client, 302, "evil");
  const u32 server = wire.send(Wire::server, 0, "evil");
  SignaturesSettings settings = with({rule("evil"), rule("ev")});
  settings.inspect.depth = 300;
  decide(wire, settings);
  if (answers_.empty()) return;
  EXPECT_EQ(fired(across), Fired{1});
  EXPECT_EQ(fired(later), Fired{});
  EXPECT_EQ(fired(server), (Fired{0, 1}));
}

TEST_P(Streams, KnowTheirSides) {
  using Way = sig::ConnectionIs::Way;
  const auto to = [](Way way) {
    sig::Signature made = rule("word");
    made.conditions.emplace_back(sig::ConnectionIs{way, true});
    return made;
  };
  Wire wire(64);
  wire.open();
  const u32 request = wire.send(Wire::client, 0, "word");
  const u32 answer = wire.send(Wire::server, 0, "word");
  decide(wire, with({to(Way::to_server), to(Way::to_client), to(Way::any)}));
  if (answers_.empty()) return;
  EXPECT_EQ(fired(request), (Fired{0, 2}));
  EXPECT_EQ(fired(answer), (Fired{1, 2}));
}

TEST_P(Streams, ConnectionsAreTakenUpInTheMiddleIfAsked) {
  for (const bool midstream : {false, true}) {
    Wire wire(64);
    wire.send(Wire::client, 500, "ev");
    const u32 packet = wire.send(Wire::client, 502, "il");
    SignaturesSettings settings = with({rule("evil")});
    settings.inspect.midstream = midstream;
    decide(wire, settings);
    if (answers_.empty()) return;
    EXPECT_EQ(fired(packet), midstream ? Fired{0} : Fired{});
  }
}

// A new one between the same ports begins where the one before has ended.
TEST_P(Streams, BeginAnewBehindTheirEnd) {
  Wire wire(64);
  wire.open();
  wire.send(Wire::client, 0, "ev");
  const u32 blind = wire.send(Wire::client, 700, "", kRst);
  const u32 on = wire.send(Wire::client, 2, "il");
  wire.send(Wire::client, 4, "", kRst);
  wire.open();
  const u32 anew = wire.send(Wire::client, 0, "evil");
  wire.send(Wire::client, 4, "", kFin | kAck);
  wire.send(Wire::server, 0, "", kFin | kAck);
  wire.open();
  const u32 third = wire.send(Wire::client, 0, "evil");
  decide(wire, with({rule("evil")}));
  if (answers_.empty()) return;
  EXPECT_FALSE(dropped(blind));
  EXPECT_EQ(fired(on), Fired{0});
  EXPECT_EQ(fired(anew), Fired{0});
  EXPECT_EQ(fired(third), Fired{0});
}

// ---- ClientHellos

std::string sized(u32 bytes, const std::string& what) {
  std::string made;
  for (u32 i = bytes; i-- > 0;) made.push_back(static_cast<char>(what.size() >> 8 * i));
  return made + what;
}
std::string record(u8 type, const std::string& what) {
  return std::string{static_cast<char>(type), 3, 1} + sized(2, what);
}
std::string extension(u8 type, const std::string& what) {
  return std::string{0, static_cast<char>(type)} + sized(2, what);
}
std::string server_name(const std::string& name) {
  return extension(0, sized(2, std::string(1, '\0') + sized(2, name)));
}
std::string hello(const std::string& extensions) {
  const std::string body = std::string(34, 'r') + sized(1, "session") + sized(2, "cipher") +
                           sized(1, std::string(1, '\0')) + sized(2, extensions);
  return '\1' + sized(3, body);
}
std::string hello_to(const std::string& name) {
  return hello(extension(10, "groups") + server_name(name) + extension(16, "protocols"));
}

sig::Signature named(std::vector<sig::Step> steps, sig::Action action = sig::Action::alert,
                     bool dot_prefix = false) {
  sig::Signature made = rule("x", action);
  made.payload.clear();
  made.hello.emplace();
  const auto& first = std::get<sig::Content>(steps[0]);
  made.fast_pattern.reset();
  if (!first.negated) made.fast_pattern = sig::FastPattern{0, 0, static_cast<u32>(first.bytes.size()), 1};
  made.hello->names.push_back({dot_prefix, {}, {}, std::move(steps)});
  return made;
}
sig::Content last(std::string bytes) {
  sig::Content made = content(std::move(bytes));
  made.ends = true;
  return made;
}

TEST_P(Streams, AServersNameIsReadOnceTheHelloIsWhole) {
  const std::string said = record(22, hello_to("www.Bad.example"));
  // In one record, in several, and behind an alert; and no client's.
  const std::string message = hello_to("www.Bad.example");
  std::string cut;
  for (u32 at = 0; at < message.size(); at += 7) cut += record(22, message.substr(at, 7)) + record(21, "ab");
  const auto all_but = [](const std::string& text, u32 bytes) { return text.substr(0, text.size() - bytes); };
  Wire wire(64);
  std::vector<u32> wholes, parts;
  for (const auto& [port, text] : {std::pair<u16, std::string>{1000, said}, {1001, cut}}) {
    wire.open(port);
    // The last two records of the other one are an alert, and none of the hello.
    const u32 behind = text == cut ? 7 : 0;
    const u32 most = static_cast<u32>(all_but(text, behind).size()) - 1;
    parts.push_back(wire.send(Wire::client, 0, text.substr(0, 11), kAck, 0, port));
    parts.push_back(wire.send(Wire::client, 11, text.substr(11, most - 11), kAck, 0, port));
    wholes.push_back(wire.send(Wire::client, most, text.substr(most), kAck, 0, port));
    parts.push_back(wire.send(Wire::client, static_cast<u32>(text.size()), said, kAck, 0, port));
  }
  wire.open(1002);
  const u32 server = wire.send(Wire::server, 0, said, kAck, 0, 1002);
  wire.open(1003);
  const u32 other = wire.send(Wire::client, 0, record(22, '\2' + message.substr(1)), kAck, 0, 1003);
  wire.open(1004);
  const u32 behind_text = wire.send(Wire::client, 0, "x" + said, kAck, 0, 1004);
  wire.open(1005);
  const u32 elsewhere = wire.send(Wire::client, 0, record(22, hello_to("www.good.example")), kAck, 0, 1005);
  sig::Content nocase = content("bad.ex");
  nocase.nocase = true;
  decide(wire, with({named({nocase}), named({last(".Bad.example")}, sig::Action::alert, true),
                     named({absent("Bad")}), rule("www.Bad")}));
  if (answers_.empty()) return;
  for (const u32 packet : wholes) EXPECT_EQ(fired(packet), (Fired{0, 1})) << packet;
  EXPECT_EQ(fired(parts[1]), Fired{3}) << "its bytes are in the stream all the same";
  for (const u32 packet : {parts[0], parts[2], parts[3], parts[5], other})
    EXPECT_FALSE(fires(packet, 0)) << packet;
  EXPECT_EQ(fired(server), Fired{3}) << "clients say it";
  EXPECT_EQ(fired(behind_text), Fired{3});
  EXPECT_EQ(fired(elsewhere), Fired{2});
}

TEST_P(Streams, AHelloThatIsNotAsItShouldBeNamesNobody) {
  const std::string name(1, '\0'), host = "bad.example";
  const std::string entry = name + sized(2, host);
  std::vector<std::string> wrong{
      hello(""),
      hello(extension(1, sized(2, entry))),
      hello(server_name("")),
      hello(server_name(std::string(256, 'a') + host)),
      hello(extension(0, sized(2, '\1' + sized(2, host)))),             // no host's name
      hello(extension(0, sized(2, name + std::string{0, 12} + host))),  // longer than it is
      hello(extension(0, sized(2, '\1' + sized(2, "x") + entry)) + server_name(host)),
  };
  std::string too_long = hello_to(host);
  too_long[4 + 34] = '\x7f';  // its session
  wrong.push_back(too_long);
  std::vector<u32> packets;
  Wire wire(64);
  u16 port = 1000;
  for (const std::string& one : wrong) {
    wire.open(port);
    packets.push_back(wire.send(Wire::client, 0, record(22, one), kAck, 0, port++));
  }
  const std::vector<std::string> right{
      hello(extension(0, "") + server_name(host)), hello(server_name(host) + server_name("good")),
      hello(server_name(host + name + "good")), hello(server_name(std::string(244, 'a') + host))};
  std::vector<u32> named_packets;
  for (const std::string& one : right) {
    wire.open(port);
    named_packets.push_back(wire.send(Wire::client, 0, record(22, one), kAck, 0, port++));
  }
  // What begins with a zero is a name, though an empty one.
  wire.open(port);
  const u32 empty = wire.send(Wire::client, 0, record(22, hello(server_name(name + host))), kAck, 0, port);
  decide(wire, with({named({last("bad.example")}), named({absent("z")})}));
  if (answers_.empty()) return;
  for (std::size_t i = 0; i < packets.size(); i++) EXPECT_EQ(fired(packets[i]), Fired{}) << i;
  for (std::size_t i = 0; i < named_packets.size(); i++)
    EXPECT_EQ(fired(named_packets[i]), (Fired{0, 1})) << i;
  EXPECT_EQ(fired(empty), Fired{1});
}

// Who hides a name behind more than is kept, is not looked past.
TEST_P(Streams, AHelloLongerThanTwoBlocksIsTooMuch) {
  Wire wire(64);
  wire.open();
  const std::string text =
      record(22, hello(extension(21, std::string(2 * kWindow, 'p')) + server_name("bad")));
  const u32 begin = wire.send(Wire::client, 0, text.substr(0, kWindow + 40));
  const u32 rest = wire.send(Wire::client, kWindow + 40, text.substr(kWindow + 40));
  const u32 later = wire.send(Wire::client, static_cast<u32>(text.size()), "more");
  decide(wire, with({named({content("bad")}, sig::Action::drop)}));
  if (answers_.empty()) return;
  EXPECT_FALSE(dropped(begin));
  EXPECT_TRUE(dropped(rest));
  EXPECT_EQ(number(rest), 2u) << "rules, and one: limit";
  EXPECT_TRUE(dropped(later));
}

// The same text cut in other ways: each rule fires with the packet that has the byte with which it comes to
// hold.
TEST_P(Streams, CutsDoNotMatter) {
  Random random(test_seed());
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  std::string text;
  while (text.size() < 5 * kWindow) text.push_back(random.pick(std::array{'a', 'b', 'c', '.'}));
  std::vector<sig::Signature> rules;
  for (u32 i = 0; i < 7; i++) {
    const auto some = [&] {
      std::string bytes;
      while (bytes.size() < 3 + i % 3) bytes.push_back(random.pick(std::array{'a', 'b', 'c'}));
      return bytes;
    };
    std::vector<sig::Step> steps{content(some())};
    if (i % 2 == 1) steps.emplace_back(behind(some().substr(0, 2), random.below(4), 20));
    if (i % 3 == 2) steps.emplace_back(absent("a." + some().substr(0, 1)));
    rules.push_back(rule(std::move(steps)));
  }
  // Byte positions with which each fires, by packets of a byte.
  std::vector<std::vector<u32>> fires(rules.size());
  {
    const u32 packets = static_cast<u32>(text.size()) + 2;
    Wire wire(packets);
    wire.open();
    for (u32 at = 0; at < text.size(); at++) wire.send(Wire::client, at, text.substr(at, 1));
    const Answers each = expected(wire.traffic(), {{"streams", {with(rules)}}});
    for (u32 at = 0; at < text.size(); at++)
      if ((each[at + 2].flags & XG_RES_ALERTS) != 0)
        for (u32 i = 0; i < each[at + 2].alerts.count; i++) fires[each[at + 2].alerts.rules[i]].push_back(at);
  }
  for (u32 round = 0; round < 3; round++) {
    Wire wire(64);
    wire.open();
    std::vector<std::array<u32, 2>> parts;
    for (u32 at = 0; at < text.size();) {
      const u32 size = std::min(random.between(1, round == 0 ? 60 : 300), static_cast<u32>(text.size()) - at);
      wire.send(Wire::client, at, text.substr(at, size));
      parts.push_back({at, at + size});
      at += size;
      if (parts.size() == 60) break;
    }
    decide(wire, with(rules));
    if (answers_.empty()) return;
    for (u32 i = 0; i < parts.size(); i++) {
      Fired should;
      for (u32 one = 0; one < rules.size(); one++)
        if (std::any_of(fires[one].begin(), fires[one].end(),
                        [&](u32 at) { return parts[i][0] <= at && at < parts[i][1]; }))
          should.push_back(one);
      EXPECT_EQ(fired(i + 2), should) << "bytes " << parts[i][0] << " to " << parts[i][1];
    }
  }
}

// Software Vulkan ends loops that it holds for endless: what it has not inspected whole, it does not answer
// for.
TEST_P(Streams, WhatIsTooMuchForSoftwareFailsTheDevice) {
  Wire wire(64);
  wire.open();
  const u32 heavy = wire.send(Wire::client, 0, "evil");
  std::vector<sig::Signature> rules(12'000, rule("evil"));
  for (std::size_t i = 0; i + 1 < rules.size(); i++) rules[i].header.src_ports = sig::Ranges<u16>{{7, 7}};
  const std::vector<PipelineSettings> all{{"streams", {with(rules)}}};
  const auto pipelines = gpu::Pipelines::compile(all);
  ASSERT_TRUE(pipelines) << pipelines.error();
  const Traffic& traffic = wire.traffic();
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, *pipelines));
  auto queue = device->open_queue(GetParam().queue(64, 3));
  ASSERT_TRUE(queue) << queue.error();
  for (const xg_descriptor& packet : traffic.descriptors) {
    gpu::Slot* slot = (*queue)->acquire();
    ASSERT_NE(slot, nullptr);
    slot->descriptors[0] = packet;
    ASSERT_EQ((*queue)->submit(slot, 1, kGeneration), gpu::Submit::ok);
  }
  for (u32 packet = 0; packet <= heavy; packet++) {
    gpu::Slot* slot = wait(**queue);
    ASSERT_NE(slot, nullptr);
    const bool is_too_much = packet == heavy && GetParam().kind == "vulkan" && device->info().software;
    EXPECT_EQ(slot->failed, is_too_much) << packet;
    if (packet == heavy && !slot->failed) {
      EXPECT_EQ(slot->results[0].flags & XG_RES_ALERTS, XG_RES_ALERTS);
      EXPECT_EQ(slot->alerts[0].rules[0], rules.size() - 1);
    }
    (*queue)->release(slot);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Streams, testing::ValuesIn(all_targets()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace xdpgpu::tests
