// SPDX-License-Identifier: MIT
//
// Rules on requests by HTTP, on every device: where each part stands, and with which packet a rule fires.
#include <map>
#include <set>

#include "gpu/reference/http_head.hpp"
#include "tests/stages/http_text.hpp"
#include "tests/stages/requests_by_hand.hpp"

namespace xdpgpu::tests {
namespace {

using namespace by_hand;

class Requests : public StreamsByHand {};

constexpr const char* kRequest =
    "GET /a/../in%64ex.PHP?q=%41+b#top HTTP/1.1\r\n"
    "Host: WWW.Example.com:8080\r\nUser-Agent: curl/8\r\nCookie: a=b\r\nAccept: */*\r\nX-One: 1\r\n"
    "x-one: 2\r\nReferer: http://r/\r\n\r\n";

TEST_P(Requests, EachPartIsWhereItIsLookedFor) {
  const std::vector<sig::Signature> rules{
      is(HttpPart::method, "GET"),
      is(HttpPart::uri, "/index.PHP?q=A+b#top"),
      is(HttpPart::raw_uri, "/a/../in%64ex.PHP?q=%41+b#top"),
      is(HttpPart::protocol, "HTTP/1.1"),
      is(HttpPart::request_line, "GET /a/../in%64ex.PHP?q=%41+b#top HTTP/1.1"),
      is(HttpPart::host, "www.example.com"),
      is(HttpPart::raw_host, "WWW.Example.com:8080"),
      is(HttpPart::user_agent, "curl/8"),
      is(HttpPart::cookie, "a=b"),
      is(HttpPart::referer, "http://r/"),
      is(HttpPart::accept, "*/*"),
      is(HttpPart::header,
         "Host: WWW.Example.com:8080\r\nUser-Agent: curl/8\r\nAccept: */*\r\nX-One: 1, 2\r\nReferer: "
         "http://r/\r\n"),
      is(HttpPart::header_names, "\r\nHost\r\nUser-Agent\r\nCookie\r\nAccept\r\nX-One\r\nReferer\r\n\r\n"),
      // What is not there matches nothing, not even that something is not in it.
      asks({in(HttpPart::content_type, {absent("x")})}),
      asks({in(HttpPart::host, {content(".example.com")}, true)}),
      asks({in(HttpPart::host, {content(".www.ex")}, true)}),
  };
  for (std::size_t from = 0; from < rules.size(); from += 6) {
    const std::size_t count = std::min<std::size_t>(6, rules.size() - from);
    Wire wire(64);
    wire.open();
    const std::string text = kRequest;
    const u32 half = wire.send(Wire::client, 0, text.substr(0, 60));
    const u32 most = wire.send(Wire::client, 60, text.substr(60, text.size() - 61));
    const u32 whole = wire.send(Wire::client, static_cast<u32>(text.size()) - 1, "\n");
    wire.open(1001);
    const u32 server = wire.send(Wire::server, 0, text, kAck, 0, 1001);
    decide(wire, of({rules.begin() + static_cast<std::ptrdiff_t>(from),
                     rules.begin() + static_cast<std::ptrdiff_t>(from + count)}));
    if (answers_.empty()) return;
    Fired should;
    for (u32 i = 0; i < count; i++)
      if (from + i != 13) should.push_back(i);
    EXPECT_EQ(fired(whole), should) << "rules from " << from;
    for (const u32 packet : {half, most, server}) EXPECT_EQ(fired(packet), Fired{}) << packet;
  }
}

TEST_P(Requests, AllPartsOfARuleAreOneRequests) {
  Wire wire(64);
  wire.open();
  const u32 both = wire.send(Wire::client, 0, "GET /evil HTTP/1.1\r\nUser-Agent: bad\r\n\r\n");
  wire.open(1001);
  const u32 apart = wire.send(
      Wire::client, 0, "GET /evil HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nUser-Agent: bad\r\n\r\n", kAck, 0, 1001);
  decide(wire, of({asks({in(HttpPart::uri, {content("evil")}), in(HttpPart::user_agent, {content("bad")})}),
                   asks({in(HttpPart::method, {absent("POST")}), in(HttpPart::uri, {absent("good")})})}));
  if (answers_.empty()) return;
  EXPECT_EQ(fired(both), (Fired{0, 1}));
  EXPECT_EQ(fired(apart), Fired{1});
}

// One request behind the other, with bodies between them that are no requests.
TEST_P(Requests, BodiesAreNoHeads) {
  const std::string evil = "GET /evil HTTP/1.1\r\n\r\n";
  Wire wire(64);
  std::vector<u32> none, found;
  u16 port = 1000;
  const auto length = fmt::format("Content-Length: {}\r\n\r\n", evil.size());
  const auto send = [&](const std::string& front, const std::string& inside) {
    wire.open(port);
    none.push_back(wire.send(Wire::client, 0, front, kAck, 0, port));
    none.push_back(wire.send(Wire::client, static_cast<u32>(front.size()), inside, kAck, 0, port));
    found.push_back(
        wire.send(Wire::client, static_cast<u32>(front.size() + inside.size()), evil, kAck, 0, port));
    port++;
  };
  send("POST / HTTP/1.1\r\n" + length, evil);
  send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
       fmt::format("{:x}\r\n{}\r\n0\r\nTrailer: GET /evil\r\n\r\n", evil.size(), evil));
  send("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: gzip, CHUNKED\r\n\r\n",
       fmt::format("{:X};ext\r\n{}\r\n000\r\n\r\n", evil.size(), evil));
  // What begins no request is passed over, as a client's answer to an upgrade.
  send("GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", "\x81\x05hello GET /evil\n");
  // Behind CONNECT there may be a tunnel, or not.
  send("CONNECT a:443 HTTP/1.1\r\n\r\n", "\r\n");
  const auto tunnel = [&] {
    wire.open(port);
    wire.send(Wire::client, 0, "CONNECT a:443 HTTP/1.1\r\n\r\n", kAck, 0, port);
    none.push_back(wire.send(Wire::client, 26, "\x16\x03\x01\n" + evil, kAck, 0, port++));
  };
  tunnel();
  wire.open(port);
  none.push_back(wire.send(Wire::client, 0, "EHLO a\r\n" + evil, kAck, 0, port++));
  decide(wire, of({asks(HttpPart::uri, "evil")}));
  if (answers_.empty()) return;
  for (const u32 packet : none) EXPECT_EQ(fired(packet), Fired{}) << packet;
  for (const u32 packet : found) EXPECT_EQ(fired(packet), Fired{0}) << packet;
}

// What is too long to be looked at is not looked past.
TEST_P(Requests, HeadsThatAreTooLongAreTooMuch) {
  const std::string padding(1000, 'p');
  const auto lines = [](u32 count) {
    std::string made;
    while (count-- != 0) made += "A: b\r\n";
    return made;
  };
  SignaturesSettings settings = of({asks(HttpPart::uri, "evil", sig::Action::drop)});
  const auto limit = [&](const std::vector<std::string>& parts) {
    Wire wire(64);
    wire.open();
    u32 at = 0;
    std::vector<u32> packets;
    for (const std::string& part : parts) {
      packets.push_back(wire.send(Wire::client, at, part));
      at += static_cast<u32>(part.size());
    }
    packets.push_back(wire.send(Wire::client, at, "more"));
    decide(wire, settings);
    if (answers_.empty()) return false;
    const u32 count = static_cast<u32>(settings.rules.all().size());
    const bool is_too_much = std::any_of(packets.begin(), packets.end(), [&](u32 packet) {
      return dropped(packet) && number(packet) == count + 1;
    });
    EXPECT_EQ(dropped(packets.back()), is_too_much);
    return is_too_much;
  };
  limit({"GET /", padding, padding, padding});
  if (answers_.empty()) return;
  EXPECT_TRUE(limit({"GET /", padding, padding, padding}));
  EXPECT_TRUE(limit({"GET / HTTP/1.1\r\nA: ", padding, padding, padding}));
  EXPECT_TRUE(limit({"GET / HTTP/1.1\r\n\r\nGET /", padding, padding, padding}));
  EXPECT_TRUE(limit({"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5 ", padding, padding, padding}));
  EXPECT_TRUE(limit({"GET / HTTP/1.1\r\n", lines(100), "A: b\r\n\r\n"}));
  EXPECT_FALSE(limit({"GET / HTTP/1.1\r\n", lines(100), "\r\n"}));
  // What is no HTTP may be as long as it likes, and so may bodies and what an upgrade brings.
  EXPECT_FALSE(limit({"EHLO ", padding, padding, padding}));
  EXPECT_FALSE(limit({"POST / HTTP/1.1\r\nContent-Length: 3000\r\n\r\n", padding, padding, padding}));
  EXPECT_FALSE(limit({"GET / HTTP/1.1\r\n\r\n", padding, padding, padding}));
  // All of a head's parts together.
  std::vector<sig::Signature> all;
  for (const HttpPart part : {HttpPart::header, HttpPart::header_names, HttpPart::uri, HttpPart::host})
    all.push_back(asks(part, "zzz", sig::Action::drop));
  settings = of(all);
  EXPECT_FALSE(limit({"GET / HTTP/1.1\r\nA: ", padding, "\r\nB: b\r\n\r\n"}));
  EXPECT_TRUE(limit({"GET / HTTP/1.1\r\n" + padding + ": a\r\n", std::string(900, 'q') + ": a\r\n\r\n"}))
      << "2 KB of lines, of headers, and of names";
}

// Who asks for much with one packet has it dropped, and not the device at work.
TEST_P(Requests, ManyInAPacketAreTooMuch) {
  const auto many = [](u32 count) {
    std::string text;
    while (count-- != 0) text += "GET a\n";
    return text;
  };
  const u32 most = gpu::kMostSoftwareWork / gpu::kHttpWork;
  Wire wire(64);
  wire.open();
  const u32 fine = wire.send(Wire::client, 0, many(most));
  wire.open(1001);
  const u32 too_many = wire.send(Wire::client, 0, many(most + 1), kAck, 0, 1001);
  decide(wire, of({asks(HttpPart::uri, "evil")}));
  if (answers_.empty()) return;
  EXPECT_FALSE(dropped(fine));
  EXPECT_TRUE(dropped(too_many));
  EXPECT_EQ(number(too_many), 2u);
}

TEST_P(Requests, ARuleThatDropsDropsTheConnection) {
  Wire wire(64);
  wire.open();
  const u32 begin = wire.send(Wire::client, 0, "GET /evil HTTP/1.1\r\n");
  const u32 bad = wire.send(Wire::client, 20, "\r\n");
  const u32 later = wire.send(Wire::client, 22, "GET / HTTP/1.1\r\n\r\n");
  wire.open(1001);
  const u32 old = wire.send(Wire::client, 0, "GET /evil\r\n", kAck, 0, 1001);
  wire.open(1002);
  const u32 fine = wire.send(Wire::client, 0, "GET /good HTTP/1.1\r\n\r\n", kAck, 0, 1002);
  decide(wire, of({asks(HttpPart::uri, "evil", sig::Action::drop)}));
  if (answers_.empty()) return;
  EXPECT_FALSE(dropped(begin));
  EXPECT_TRUE(dropped(bad));
  EXPECT_TRUE(dropped(later));
  EXPECT_TRUE(dropped(old)) << "a line without protocol is all there is";
  EXPECT_FALSE(dropped(fine));
}

// Whatever a client writes: each part is what the definition has.
TEST_P(Requests, PartsAreTheDefinitions) {
  Random random(test_seed());
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  for (u32 first_part = 0; first_part < sig::kRequestParts; first_part += 6) {
    constexpr u16 kHeads = 20;
    std::vector<sig::Signature> rules;
    std::map<std::pair<u32, std::string>, u32> known;
    std::vector<Fired> should;
    std::vector<u32> packets;
    Wire wire(8 * kHeads);
    for (u16 i = 0; i < kHeads; i++) {
      std::string head = random_http_head(random);
      if (!gpu::reference::begins_request(head.substr(0, head.find('\n') + 1))) head.insert(0, "GET ");
      const auto read = gpu::reference::read_http_request(head);
      if (!read[HttpPart::protocol]) continue;
      std::set<u32> fire;
      for (u32 part = first_part; part < std::min(first_part + 6, sig::kRequestParts); part++) {
        if (!read.parts[part]) continue;
        const auto [place, is_new] =
            known.try_emplace({part, *read.parts[part]}, static_cast<u32>(rules.size()));
        if (is_new) rules.push_back(is(HttpPart(part), *read.parts[part]));
        fire.insert(place->second);
      }
      wire.open(static_cast<u16>(1000 + i));
      const u32 cut = random.below(static_cast<u32>(head.size()));
      if (cut != 0) wire.send(Wire::client, 0, head.substr(0, cut), kAck, 0, static_cast<u16>(1000 + i));
      packets.push_back(wire.send(Wire::client, cut, head.substr(cut), kAck, 0, static_cast<u16>(1000 + i)));
      if (read.line_bytes < 900 && std::count(head.begin(), head.end(), '\n') < 90)
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

INSTANTIATE_TEST_SUITE_P(Backends, Requests, testing::ValuesIn(all_targets()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace xdpgpu::tests
