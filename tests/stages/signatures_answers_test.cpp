// SPDX-License-Identifier: MIT
//
// Rules on answers by HTTP, on every device: which bytes are an answer's head and body, what hangs on the
// request, and with which packet a rule fires.
#include <set>

#include "gpu/reference/http_head.hpp"
#include "tests/stages/http_text.hpp"
#include "tests/stages/requests_by_hand.hpp"

namespace xdpgpu::tests {
namespace {

using namespace by_hand;

class HttpAnswers : public StreamsByHand {
 protected:
  // What a client asks, and what its server says, in packets of so many bytes. -> the server's
  static std::vector<u32> talk(Wire& wire, u16 port, const std::string& asked, const std::string& text,
                               std::size_t bytes = 1000) {
    wire.open(port);
    wire.send(Wire::client, 0, asked, kAck, 0, port);
    return say(wire, port, text, 0, bytes);
  }
  static std::vector<u32> say(Wire& wire, u16 port, const std::string& text, std::size_t from,
                              std::size_t bytes = 1000) {
    std::vector<u32> packets;
    for (std::size_t at = from; at < text.size(); at += bytes)
      packets.push_back(wire.send(Wire::server, static_cast<u32>(at), text.substr(at, bytes), kAck, 0, port));
    return packets;
  }
  static u32 end(Wire& wire, u16 port, const std::string& text) {
    return wire.send(Wire::server, static_cast<u32>(text.size()), "", kAck | kFin, 0, port);
  }
  std::size_t fired_in(const std::vector<u32>& packets, u32 rule) const {
    return static_cast<std::size_t>(
        std::count_if(packets.begin(), packets.end(), [&](u32 packet) { return fires(packet, rule); }));
  }
};

constexpr HttpPart kBody = HttpPart::response_body, kCode = HttpPart::stat_code;

const std::string kGet = "GET / HTTP/1.1\r\n\r\n", kHead = "HEAD / HTTP/1.1\r\n\r\n";

std::string answer(const std::string& status, const std::string& headers, const std::string& body = "") {
  return "HTTP/1.1 " + status + "\r\n" + headers + "\r\n" + body;
}
std::string plain(const std::string& body, const std::string& status = "200 OK") {
  return answer(status, fmt::format("Content-Length: {}\r\n", body.size()), body);
}
std::string chunked(const std::string& body, std::size_t bytes) {
  std::string cut;
  for (std::size_t at = 0; at < body.size(); at += bytes) {
    const std::string chunk = body.substr(at, bytes);
    cut += fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk);
  }
  return answer("200 OK", "Transfer-Encoding: chunked\r\n", cut + "0\r\n\r\n");
}

TEST_P(HttpAnswers, HaveTheirParts) {
  Wire wire(64);
  const auto packets =
      talk(wire, 1000, kGet,
           "HTTP/1.1 302 Found it\r\nServer: evil/1\r\nLocation: http://a/\r\nSet-Cookie: a=b\r\n"
           "Set-Cookie: c=d\r\nContent-Type: text/html\r\nConnection: close\r\n"
           "Content-Length: 3\r\n\r\nabc");
  std::vector<sig::Signature> rules{
      is(kCode, "302"),
      is(HttpPart::stat_msg, "Found it"),
      is(HttpPart::answer_protocol, "HTTP/1.1"),
      is(HttpPart::response_line, "HTTP/1.1 302 Found it"),
      is(HttpPart::server, "evil/1"),
      is(HttpPart::location, "http://a/"),
      is(HttpPart::set_cookie, "a=b, c=d"),
  };
  std::vector<sig::Signature> others{
      is(HttpPart::answer_connection, "close"),
      is(HttpPart::answer_content_type, "text/html"),
      is(HttpPart::answer_content_length, "3"),
      is(HttpPart::answer_header_names,
         "\r\nServer\r\nLocation\r\nSet-Cookie\r\nContent-Type\r\nConnection\r\nContent-Length\r\n\r\n"),
      is(HttpPart::answer_header,
         "Server: evil/1\r\nLocation: http://a/\r\nContent-Type: text/html\r\nConnection: close\r\n"
         "Content-Length: 3\r\n"),
      is(kBody, "abc"),
      asks(HttpPart::header, "Server"),
  };
  decide(wire, of(rules));
  if (answers_.empty()) return;
  EXPECT_EQ(fired(packets[0]), (Fired{0, 1, 2, 3, 4, 5, 6}));
  decide(wire, of(others));
  EXPECT_EQ(fired(packets[0]), (Fired{0, 1, 2, 3, 4, 5}));
}

// With the byte by which a rule comes to hold, however that is cut.
TEST_P(HttpAnswers, AreTheSameInEveryCut) {
  for (const bool in_chunks : {false, true}) {
    const std::string text = in_chunks ? chunked("<script>evil</script>", 3) : plain("<script>evil</script>");
    Wire wire(512);
    std::vector<std::vector<u32>> sent;
    for (u16 bytes = 1; bytes < 12; bytes++) sent.push_back(talk(wire, 1000 + bytes, kGet, text, bytes));
    decide(wire, of({asks({in(kCode, {content("200")}), in(kBody, {content("script>evil<")})}),
                     asks({in(kBody, {content("evil")})}), asks({in(kBody, {content("chunked")})})}));
    if (answers_.empty()) return;
    const std::size_t last = text.find("\r\n\r\n") + 4 + (in_chunks ? 12 + 4 * 5 + 3 : 12);
    for (std::size_t i = 0; i < sent.size(); i++) {
      const auto& packets = sent[i];
      EXPECT_TRUE(fires(packets[last / (i + 1)], 0)) << in_chunks << " " << i;
      EXPECT_EQ(fired_in(packets, 0), 1u);
      EXPECT_EQ(fired_in(packets, 1), 1u);
      EXPECT_EQ(fired_in(packets, 2), 0u);
    }
  }
}

// What is behind a head hangs on what was asked.
TEST_P(HttpAnswers, AreToTheirRequests) {
  Wire wire(256);
  const std::string no_body = answer("200 OK", "Content-Length: 500\r\n");
  const auto heads =
      talk(wire, 1000, kHead + kGet + kHead, no_body + plain("evil") + no_body + plain("good"));
  const auto none = talk(wire, 1001, kGet + kGet + kGet,
                         answer("204 x", "") + answer("304 x", "Content-Length: 9\r\n") + plain("evil"));
  const auto later = talk(wire, 1002, kHead + kGet,
                          answer("100 Continue", "") + answer("103 x", "A: b\r\n") + no_body + plain("evil"));
  const auto tunnel = talk(wire, 1003, "CONNECT a HTTP/1.1\r\n\r\n",
                           answer("200 OK", "Content-Length: 4\r\n") + plain("evil"));
  const auto refused =
      talk(wire, 1004, "CONNECT a HTTP/1.1\r\n\r\n" + kGet, plain("no", "403 x") + plain("evil"));
  const auto other = talk(wire, 1005, kGet, answer("101 x", "Upgrade: b\r\n") + plain("evil"));
  // Nobody asked, as far as is known.
  wire.open(1006);
  const auto unasked = say(wire, 1006, plain("evil"), 0);
  decide(wire, of({asks(kBody, "evil"), asks(kCode, "200")}));
  if (answers_.empty()) return;
  for (const auto& packets : {heads, none, later, tunnel, refused, unasked})
    EXPECT_EQ(fired(packets[0]), (Fired{0, 1}));
  EXPECT_EQ(fired(other[0]), (Fired{}));
}

// More requests than are known to be HEAD or CONNECT, one behind the other.
TEST_P(HttpAnswers, ManyRequestsAreWaitedFor) {
  Wire wire(64);
  std::string asked, said;
  for (u32 i = 0; i < sig::kMostAsked; i++) {
    asked += kHead;
    said += answer("200 OK", "Content-Length: 9\r\n");
  }
  asked += kGet;
  said += plain("evil");
  wire.open();
  for (std::size_t at = 0; at < asked.size(); at += 200)
    wire.send(Wire::client, static_cast<u32>(at), asked.substr(at, 200));
  const auto packets = say(wire, 1000, said, 0, 200);
  decide(wire, of({asks(kBody, "evil")}));
  if (answers_.empty()) return;
  EXPECT_EQ(fired_in(packets, 0), 1u);
}

// Browsers show what has no head, and what says no chunk's size.
TEST_P(HttpAnswers, WhatIsNoAnswerIsABody) {
  Wire wire(256);
  const auto headless = talk(wire, 1000, "GET /\r\n", "<html>\r\nevil", 5);
  const auto long_line = talk(wire, 1001, kGet, std::string(2100, 'a') + "evil", 500);
  const auto no_chunk =
      talk(wire, 1002, kGet,
           answer("200 OK", "Transfer-Encoding: chunked\r\n", "2\r\nev\r\nnothing evil\r\nevil"), 7);
  const auto long_chunk =
      talk(wire, 1003, kGet,
           answer("200 OK", "Transfer-Encoding: chunked\r\n", std::string(2500, '1') + "evil"), 500);
  const auto no_length = talk(wire, 1004, kGet, answer("200 OK", "Content-Length: x\r\n", "an evil"), 9);
  const auto optional = talk(wire, 1007, kGet + kGet,
                             answer("204 x", "Content-Length: 9\r\n", "some evil") + plain("good"), 11);
  const auto in_chunks =
      talk(wire, 1008, kGet,
           answer("0304 x", "Transfer-Encoding: chunked\r\n", "2\r\nev\r\n2\r\nil\r\n0\r\n\r\n"), 3);
  const auto by_cr =
      talk(wire, 1009, kGet,
           "HTTP/1.1 200 OK\rA: b\rTransfer-Encoding: chunked\r\n\n3\r\nevi\r\n1\r\nl\r\n0\r\n\r\n", 1);
  // Whom nobody asked, and what is in a tunnel.
  wire.open(1005);
  const auto banner = say(wire, 1005, "220 evil\r\n", 0);
  const auto tunnel = talk(wire, 1006, "CONNECT a HTTP/1.1\r\n\r\n", answer("200 OK", "") + "220 evil\r\n");
  decide(wire, of({asks(kBody, "evil")}));
  if (answers_.empty()) return;
  for (const auto& packets :
       {headless, long_line, no_chunk, long_chunk, no_length, optional, in_chunks, by_cr})
    EXPECT_EQ(fired_in(packets, 0), 1u);
  for (const auto& packets : {banner, tunnel}) EXPECT_EQ(fired_in(packets, 0), 0u);
}

// A FIN is the end of a body, with bytes in front of it or without, early or late.
TEST_P(HttpAnswers, EndWithTheStream) {
  sig::NameIs sized = in(kBody, {});
  sized.sizes.push_back({{4, 4}, false});
  sig::Content at_end = content("vil");
  at_end.ends = true;
  const std::string text = answer("200 OK", "", "evil");
  Wire wire(128);
  const auto open = talk(wire, 1000, kGet, text, 11);
  const u32 fin = end(wire, 1000, text), again = end(wire, 1000, text);
  const u32 behind = wire.send(Wire::server, static_cast<u32>(text.size()), "more evil", kAck, 0, 1000);
  wire.open(1001);
  wire.send(Wire::client, 0, kGet, kAck, 0, 1001);
  const u32 with = wire.send(Wire::server, 0, text, kAck | kFin, 0, 1001);
  wire.open(1002);
  wire.send(Wire::client, 0, kGet, kAck, 0, 1002);
  const u32 early = end(wire, 1002, text);
  const u32 filled = wire.send(Wire::server, 0, text, kAck, 0, 1002);
  const auto short_one = talk(wire, 1003, kGet, answer("200 OK", "Content-Length: 9\r\n", "evil"));
  const u32 cut = end(wire, 1003, answer("200 OK", "Content-Length: 9\r\n", "evil"));
  const std::string head = "HTTP/1.1 200 OK\r\nServer: evil";
  const auto headers = talk(wire, 1004, kGet, head, 7);
  const u32 no_more = end(wire, 1004, head);
  const std::string no_size = answer("200 OK", "Transfer-Encoding: chunked\r\n", "no chunk, evil");
  wire.open(1005);
  wire.send(Wire::client, 0, kGet, kAck, 0, 1005);
  const u32 no_line = wire.send(Wire::server, 0, no_size, kAck | kFin, 0, 1005);
  decide(wire,
         of({asks({sized}), asks({in(kBody, {at_end})}), asks({in(kBody, {content("evil"), absent("good")})}),
             asks(HttpPart::server, "evil"), asks(kBody, "no chunk, evil")}));
  if (answers_.empty()) return;
  EXPECT_EQ(fired(no_more), Fired{3});
  EXPECT_EQ(fired_in(headers, 3), 0u);
  EXPECT_EQ(fired(no_line), (Fired{1, 2, 4}));
  const Fired all{0, 1, 2};
  EXPECT_EQ(fired(fin), all);
  EXPECT_EQ(fired(with), all);
  EXPECT_EQ(fired(filled), all);
  EXPECT_EQ(fired(cut), all);
  for (const u32 packet : {open.back(), again, behind, early, short_one[0]})
    EXPECT_EQ(fired(packet), Fired{}) << packet;
}

// A rule that drops holds back what it is about.
TEST_P(HttpAnswers, ARuleThatDropsDropsTheConnection) {
  Wire wire(64);
  const auto packets = talk(wire, 1000, kGet, plain("an evil one"), 8);
  decide(wire, of({asks({in(kBody, {content("evil")})}, sig::Action::drop)}));
  if (answers_.empty()) return;
  const std::size_t with = (plain("an evil one").find("evil") + 3) / 8;
  for (std::size_t i = 0; i < packets.size(); i++) EXPECT_EQ(dropped(packets[i]), i >= with) << i;
}

// What cannot be read is counted, and dropped where that is asked for.
TEST_P(HttpAnswers, EncodedOnesAreTold) {
  for (const auto on_encoded : {gpu::Action::next, gpu::Action::drop}) {
    Wire wire(64);
    const auto encoded =
        talk(wire, 1000, kGet, answer("200 OK", "Content-Encoding: gzip\r\n", "\x1f\x8b") + "evil", 30);
    const auto identity =
        talk(wire, 1001, kGet, answer("200 OK", "content-encoding: Identity\r\n", "evil"), 30);
    const auto empty = talk(wire, 1002, kHead, answer("200 OK", "Content-Encoding: gzip\r\n"), 30);
    SignaturesSettings settings = of({asks(kBody, "evil")});
    settings.on_encoded = on_encoded;
    decide(wire, settings);
    if (answers_.empty()) return;
    const bool drops = on_encoded == gpu::Action::drop;
    EXPECT_FALSE(dropped(encoded[0]));
    EXPECT_EQ(dropped(encoded[1]), drops);
    if (drops) {
      EXPECT_EQ(number(encoded[1]), 1u + XG_STREAM_ENCODED);
    }
    EXPECT_FALSE(dropped(identity.back()));
    EXPECT_TRUE(fires(identity.back(), 0));
    EXPECT_FALSE(dropped(empty.back()));
    // It is looked at as it is.
    EXPECT_EQ(fired_in(encoded, 0), drops ? 0u : 1u);
  }
}

TEST_P(HttpAnswers, AreNotReadIfNobodyAsks) {
  Wire wire(64);
  const auto packets = talk(wire, 1000, kGet, plain("evil"));
  SignaturesSettings settings = of({asks(HttpPart::uri, "/")});
  settings.inspect.answers = false;
  decide(wire, settings);
  if (answers_.empty()) return;
  EXPECT_EQ(fired(packets[0]), Fired{});
  const auto refused = gpu::Pipelines::compile(std::vector<PipelineSettings>{{"streams", {[&] {
                                                                                auto other =
                                                                                    of({asks(kBody, "evil")});
                                                                                other.inspect.answers = false;
                                                                                return other;
                                                                              }()}}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("\"answers\" of \"inspect\""), std::string::npos) << refused.error();
}

// Whatever a server writes: each part is what the definition has.
TEST_P(HttpAnswers, PartsAreTheDefinitions) {
  Random random(test_seed());
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  for (u32 first_part = sig::kRequestParts; first_part < sig::kHttpParts; first_part += 6) {
    constexpr u16 kHeads = 20;
    std::vector<sig::Signature> rules;
    std::map<std::pair<u32, std::string>, u32> known;
    std::vector<Fired> should;
    std::vector<u32> packets;
    Wire wire(8 * kHeads);
    for (u16 i = 0; i < kHeads; i++) {
      const std::string head = random_answer_head(random);
      const auto read = gpu::reference::read_http_answer(head);
      std::set<u32> fire;
      for (u32 part = first_part; part < std::min(first_part + 6, sig::kHttpParts); part++) {
        if (!read.parts[part]) continue;
        const auto [place, is_new] =
            known.try_emplace({part, *read.parts[part]}, static_cast<u32>(rules.size()));
        if (is_new) rules.push_back(is(HttpPart(part), *read.parts[part]));
        fire.insert(place->second);
      }
      const auto sent = talk(wire, static_cast<u16>(1000 + i), kGet, head, 1400);
      packets.push_back(sent.back());
      if (sent.size() == 1 && read.line_bytes < 900 && std::count(head.begin(), head.end(), '\n') < 90)
        should.emplace_back(fire.begin(), fire.end());
      else
        packets.pop_back();
    }
    SignaturesSettings settings = of(rules);
    settings.limit = gpu::Action::next;
    decide(wire, settings);
    if (answers_.empty()) return;
    for (std::size_t i = 0; i < packets.size(); i++) EXPECT_EQ(fired(packets[i]), should[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, HttpAnswers, testing::ValuesIn(all_targets()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace xdpgpu::tests
