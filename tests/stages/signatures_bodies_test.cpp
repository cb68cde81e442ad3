// SPDX-License-Identifier: MIT
//
// Rules on the bodies of requests by HTTP, on every device: what of a body a rule sees, and with which packet
// it fires.
#include <cstring>

#include "tests/stages/requests_by_hand.hpp"

namespace xdpgpu::tests {
namespace {

using namespace by_hand;

constexpr u32 kNextGeneration = kGeneration + 1;

class Bodies : public StreamsByHand {
 protected:
  // Sends the text from byte 0 of a connection on, cut behind each of these places. -> the packets
  static std::vector<u32> send(Wire& wire, u16 port, const std::string& text, std::vector<std::size_t> cuts) {
    wire.open(port);
    cuts.push_back(text.size());
    std::vector<u32> packets;
    std::size_t at = 0;
    for (const std::size_t cut : cuts) {
      packets.push_back(
          wire.send(Wire::client, static_cast<u32>(at), text.substr(at, cut - at), kAck, 0, port));
      at = cut;
    }
    return packets;
  }
  // In packets of so many bytes.
  static std::vector<u32> send(Wire& wire, u16 port, const std::string& text, std::size_t bytes) {
    std::vector<std::size_t> cuts;
    for (std::size_t cut = bytes; cut < text.size(); cut += bytes) cuts.push_back(cut);
    return send(wire, port, text, cuts);
  }
  // Sends it all through; from packet `from` on by the rules that come then.
  void decide_both(Wire& wire, u32 from, const SignaturesSettings& before, const SignaturesSettings& after) {
    const std::vector<PipelineSettings> first{{"streams", {before}}}, second{{"streams", {after}}};
    const Traffic& traffic = wire.traffic();
    const auto& all = traffic.descriptors;
    for (std::size_t i = from; i < all.size(); i++)
      std::memcpy(
          traffic.region.base() + all[i].offset - XG_METADATA_SIZE + offsetof(xg_metadata, generation),
          &kNextGeneration, sizeof(kNextGeneration));
    const std::vector<xg_descriptor> early(all.begin(), all.begin() + from),
        late(all.begin() + from, all.end());
    gpu::reference::Judge reference(first);
    Answers should = answers_of(reference, traffic.region.bytes(), early, kGeneration);
    reference.change(second);
    append(should, answers_of(reference, traffic.region.bytes(), late, kNextGeneration));
    XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
    auto queue = device->open_queue(GetParam().queue(64, 3));
    ASSERT_TRUE(queue) << queue.error();
    const auto one = gpu::Pipelines::compile(first), other = gpu::Pipelines::compile(second);
    ASSERT_TRUE(one && other);
    ASSERT_TRUE(device->load(kGeneration, *one));
    answers_ = judge(**queue, early, 64, kGeneration);
    ASSERT_TRUE(device->load(kNextGeneration, *other));
    device->unload(kGeneration);
    append(answers_, judge(**queue, late, 64, kNextGeneration));
    device->unload(kNextGeneration);
    expect_equal(answers_, should, all);
  }
  // Which of the packets a rule fires with.
  std::vector<std::size_t> firing(const std::vector<u32>& packets, u32 rule) const {
    std::vector<std::size_t> made;
    for (std::size_t i = 0; i < packets.size(); i++)
      if (fires(packets[i], rule)) made.push_back(i);
    return made;
  }
};

using Packets = std::vector<std::size_t>;

constexpr HttpPart kBody = HttpPart::request_body;

std::string plain(const std::string& body, const std::string& uri = "/") {
  return fmt::format("POST {} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{}", uri, body.size(), body);
}
// In chunks of so many bytes.
std::string chunked(const std::string& body, std::size_t bytes, const std::string& uri = "/") {
  std::string made = fmt::format("POST {} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", uri);
  for (std::size_t at = 0; at < body.size(); at += bytes) {
    const std::string chunk = body.substr(at, bytes);
    made += fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk);
  }
  return made + "0\r\n\r\n";
}

sig::NameIs of_size(u32 first, u32 last) {
  sig::NameIs made = in(kBody, {});
  made.sizes.push_back({{first, last}, false});
  return made;
}
sig::Content at_end(const std::string& bytes) {
  sig::Content made = content(bytes);
  made.ends = true;
  return made;
}

SignaturesSettings narrow(std::vector<sig::Signature> rules) {
  SignaturesSettings settings = of(std::move(rules));
  settings.inspect.window = kWindow;
  return settings;
}

// However a body is cut, into packets and into chunks.
TEST_P(Bodies, AreOneTextInEveryCut) {
  const std::string body = "user=admin&cmd=evil&x=1";
  const std::size_t last = body.find("evil") + 3;
  for (const bool in_chunks : {false, true}) {
    const std::string text = in_chunks ? chunked(body, 5) : plain(body);
    const std::size_t head = text.find("\r\n\r\n") + 4;
    Wire wire(512);
    std::vector<std::vector<u32>> sent;
    u16 port = 1000;
    for (std::size_t cut = head - 2; cut < text.size() && port < 1060; cut++)
      sent.push_back(send(wire, port++, text, std::vector{cut}));
    decide(wire,
           of({asks(kBody, "evil"), asks(kBody, "admin&cmd=evil"),
               asks({in(HttpPart::uri, {content("/")}), in(kBody, {content("user="), content("evil")})}),
               asks(kBody, "Transfer"), asks(kBody, "\r\n")}));
    if (answers_.empty()) return;
    // Where the byte stands in the text.
    const std::size_t place = in_chunks ? head + last + (last / 5) * 5 + 3 : head + last;
    for (std::size_t i = 0; i < sent.size(); i++) {
      const std::size_t with = place < head - 2 + i ? 0 : 1;
      for (const u32 rule : {0u, 1u, 2u})
        EXPECT_EQ(firing(sent[i], rule), Packets{with}) << in_chunks << " " << i << " rule " << rule;
      for (const u32 rule : {3u, 4u}) EXPECT_EQ(firing(sent[i], rule), Packets{}) << i << " rule " << rule;
    }
  }
}

// All that a rule asks for is one request's.
TEST_P(Bodies, BelongToTheirHeads) {
  Wire wire(128);
  const auto same = send(wire, 1000, plain("evil", "/bad"), 1000);
  const auto apart = send(wire, 1001, plain("evil", "/") + plain("good", "/bad") + plain("", "/bad"), 1000);
  const auto second = send(wire, 1002, plain("good", "/") + plain("evil", "/bad"), 30);
  const auto across = send(wire, 1003, plain("ev", "/bad") + plain("il", "/bad"), 1000);
  const auto none = send(wire, 1004, "GET /bad HTTP/1.1\r\n\r\nevil", 1000);
  // By the URI, and by the body.
  decide(wire, of({asks({in(HttpPart::uri, {content("bad")}), in(kBody, {content("evil")})}),
                   asks({in(kBody, {content("evil")}), in(HttpPart::uri, {content("bad")})}),
                   asks({in(HttpPart::method, {absent("GET")}), in(kBody, {content("evil")})})}));
  if (answers_.empty()) return;
  for (const u32 rule : {0u, 1u}) {
    EXPECT_EQ(firing(same, rule), Packets{0});
    EXPECT_EQ(firing(apart, rule), Packets{});
    EXPECT_EQ(firing(second, rule), Packets{second.size() - 1});
    EXPECT_EQ(firing(across, rule), Packets{});
    EXPECT_EQ(firing(none, rule), Packets{});
  }
  EXPECT_EQ(firing(apart, 2), Packets{0});
  EXPECT_EQ(firing(across, 2), Packets{});
}

// What hangs on a body's size or end is asked with its last byte.
TEST_P(Bodies, EndsAreKnownWithTheLastByte) {
  sig::NameIs anchored = in(kBody, {first("ab", 2)});
  for (const bool in_chunks : {false, true}) {
    const auto make = [&](const std::string& body) { return in_chunks ? chunked(body, 3) : plain(body); };
    Wire wire(256);
    const auto longer = send(wire, 1000, make("abcdef"), 1);
    const auto shorter = send(wire, 1001, make("abcd"), 1);
    decide(wire,
           of({asks({of_size(4, 4)}), asks({in(kBody, {at_end("cd")})}), asks({in(kBody, {absent("ef")})}),
               asks({anchored}), asks({in(kBody, {content("cd"), absent("ef")})})}));
    if (answers_.empty()) return;
    const std::size_t last = shorter.size() - (in_chunks ? 3 : 1);
    for (const u32 rule : {0u, 1u, 2u, 4u}) {
      EXPECT_EQ(firing(longer, rule), Packets{}) << in_chunks << " rule " << rule;
      EXPECT_EQ(firing(shorter, rule), Packets{last}) << in_chunks << " rule " << rule;
    }
    EXPECT_EQ(firing(longer, 3).size(), 1u);
    EXPECT_EQ(firing(shorter, 3), firing(longer, 3));
  }
}

// Of a long one the block that the last byte is of, and the one in front of it.
TEST_P(Bodies, LongOnesAreSeenByTwoBlocks) {
  for (const std::size_t chunk : {std::size_t{0}, std::size_t{7}, std::size_t{100}}) {
    Wire wire(1024);
    u16 port = 1000;
    std::vector<std::pair<std::size_t, std::vector<u32>>> sent;
    for (const std::size_t at : {0u, 100u, 230u, 250u, 253u, 256u, 300u, 500u, 700u, 1000u, 1500u}) {
      std::string body(2000, '-');
      body.replace(at, 4, "evil");
      body.replace(at + 200, 3, "too");
      const std::string text = chunk == 0 ? plain(body) : chunked(body, chunk);
      sent.emplace_back(at, send(wire, port++, text, 100));
    }
    decide(wire, narrow({asks(kBody, "evil"), asks({in(kBody, {content("evil"), behind("too", 0, 250)})}),
                         asks({in(kBody, {first("evil", 104)})}),
                         asks({in(kBody, {content("evil"), absent("bad")})}),
                         asks({in(kBody, {content("too"), absent("evil")})})}));
    if (answers_.empty()) return;
    for (const auto& [at, packets] : sent) {
      EXPECT_EQ(firing(packets, 0).size(), 1u) << chunk << " at " << at;
      // 200 bytes of a body are more of a stream where they are in small chunks.
      if (chunk != 7) {
        EXPECT_EQ(firing(packets, 1).size(), 1u) << chunk << " at " << at;
      }
      EXPECT_EQ(firing(packets, 2).size(), at <= 100 ? 1u : 0u) << chunk << " at " << at;
      EXPECT_GE(firing(packets, 3).size(), 1u) << chunk << " at " << at;
    }
  }
}

// Whoever matches many heads waits for many bodies.
TEST_P(Bodies, TooManyRulesThatWaitAreTooMuch) {
  const auto wait = [](u32 count) {
    std::vector<sig::Signature> rules;
    for (u32 i = 0; i < count; i++)
      rules.push_back(asks({in(HttpPart::uri, {content("/")}), in(kBody, {content(fmt::format("a{}", i))})}));
    return of(rules);
  };
  for (const u32 count : {sig::kMostAwaited, sig::kMostAwaited + 1}) {
    Wire wire(64);
    const auto packets = send(wire, 1000, plain("a5"), 1000);
    decide(wire, wait(count));
    if (answers_.empty()) return;
    EXPECT_EQ(dropped(packets[0]), count > sig::kMostAwaited);
    EXPECT_EQ(fires(packets[0], 5), count == sig::kMostAwaited);
  }
}

// A body that says how long it is in two ways, or in none, hides nothing that a server may take for a
// request.
TEST_P(Bodies, WhatIsBehindIsReadAsAServerDoes) {
  Wire wire(128);
  const std::string evil = "GET /evil HTTP/1.1\r\n\r\n";
  const auto both = send(wire, 1000,
                         "POST / HTTP/1.1\r\nContent-Length: 200\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "3\r\nabc\r\n0\r\n\r\n" +
                             evil,
                         40);
  const auto neither = send(wire, 1001, "POST / HTTP/1.1\r\n\r\n" + evil, 40);
  const auto broken =
      send(wire, 1002, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n" + evil, 40);
  decide(wire, of({asks(HttpPart::uri, "evil"), asks(kBody, "abc")}));
  if (answers_.empty()) return;
  for (const auto& packets : {both, neither, broken}) EXPECT_EQ(firing(packets, 0).size(), 1u);
  EXPECT_EQ(firing(both, 1).size(), 1u);
  EXPECT_EQ(firing(neither, 1).size(), 0u);
  EXPECT_EQ(firing(broken, 1).size(), 1u);
}

TEST_P(Bodies, ARuleThatDropsDropsTheConnection) {
  Wire wire(64);
  const auto packets = send(wire, 1000, plain("x=evil&y=1") + plain("good"), 8);
  decide(wire, of({asks({in(kBody, {content("evil")})}, sig::Action::drop)}));
  if (answers_.empty()) return;
  const std::size_t with = (plain("x=evil&y=1").find("evil") + 3) / 8;
  for (std::size_t i = 0; i < packets.size(); i++) EXPECT_EQ(dropped(packets[i]), i >= with) << i;
}

// Other rules do not go on with what those before them have found; the same ones do, wherever they stand.
TEST_P(Bodies, GoOnByTheRulesThatTheirHeadsWereAskedBy) {
  const auto evil = asks({in(HttpPart::uri, {content("/")}), in(kBody, {content("evil")})});
  const auto by_body = asks({in(kBody, {content("evil")})});
  const auto other =
      asks({in(HttpPart::uri, {content("/")}), in(kBody, {content("good")})}, sig::Action::drop);
  for (const bool are_others : {false, true}) {
    Wire wire(64);
    wire.open();
    const std::string text = plain("an evil one") + chunked("evil", 2);
    const std::size_t cut = text.find("evil") + 2, end = text.find("POST", 4);
    wire.send(Wire::client, 0, text.substr(0, cut));
    const u32 rest = wire.send(Wire::client, static_cast<u32>(cut), text.substr(cut, end - cut));
    const u32 next = wire.send(Wire::client, static_cast<u32>(end), text.substr(end));
    const auto before = of({evil, by_body});
    auto after = are_others ? of({other, evil, by_body}) : before;
    // What else is changed is no matter.
    after.inspect.depth = 1u << 19;
    decide_both(wire, rest, before, after);
    if (answers_.empty()) return;
    EXPECT_EQ(fired(rest), are_others ? Fired{} : (Fired{0, 1}));
    EXPECT_EQ(fired(next), are_others ? (Fired{1, 2}) : (Fired{0, 1}));
    EXPECT_FALSE(dropped(rest));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Bodies, testing::ValuesIn(all_targets()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace xdpgpu::tests
