// SPDX-License-Identifier: MIT
//
// `signatures` on the wire, of what TCP connections say: patterns that are cut over segments, what becomes of
// the rest of the connection, bytes that come anew, gaps, and how often is told of them.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "tests/netns/logged.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kPort = 7000;
constexpr const char* kDrop =
    "drop tcp any any -> any 7000 (msg:\"an attack\"; content:\"attack\"; sid:1;)\n";
constexpr const char* kAlert =
    "alert tcp any any -> any 7000 (msg:\"an attack\"; content:\"attack\"; sid:1;)\n";

class StreamSignaturesOnTheWire : public LoggedOnTheWire {
 protected:
  void SetUp() override {
    LoggedOnTheWire::SetUp();
    std::filesystem::create_directory(path("rules"));
    arrived_ = host_->run([] { return Fd(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP)); });
    ASSERT_TRUE(arrived_);
    const int size = 16 << 20;
    setsockopt(arrived_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    const timeval soon{0, 20'000};
    setsockopt(arrived_.get(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
  }

  // more: of the stage.
  void write_policy(const std::string& rules, const std::string& more) const {
    write("rules/a.rules", rules);
    write("policy.json", policy(fmt::format(
                             R"("io": {{"heartbeat": "5s"}},
            "rules": [{{"match": {{"proto": "tcp", "dst_port": {}}}, "action": {{"inspect": "ids"}}}}],
            "pipelines": {{"ids": [{{"stage": "signatures", "rules": ["rules/*.rules"]{}}}]}},
            "log": {{"outputs": [{{"file": "{}"}}], "events": ["alert", "drop"]}})",
                             kPort, more, path("eve.json"))));
  }
  Outcome apply() const {
    return product(*host_, {"policy", "apply", host_port().ifname(), path("policy.json")});
  }

  // What a client says that nobody answers, byte by byte from 0 on.
  class Client {
   public:
    Client(StreamSignaturesOnTheWire& test, std::uint16_t port, std::uint32_t first = 1000)
        : test_(test), port_(port), first_(first) {}

    std::string begins() const { return test_.fate(port_, first_ - 1, "", kSyn); }
    // As a server, whom the host asked.
    std::string answers() const { return test_.fate(port_, first_ - 1, "", kSyn | kAck); }
    std::string says(std::uint32_t at, const std::string& what) const {
      return test_.fate(port_, first_ + at, what, kAck | kPsh);
    }
    std::string ends(std::uint32_t at) const { return test_.fate(port_, first_ + at, "", kAck | kFin); }

   private:
    StreamSignaturesOnTheWire& test_;
    std::uint16_t port_;
    std::uint32_t first_;
  };

  // "pass": the host's stack has it.
  std::string fate(std::uint16_t from, std::uint32_t number, const std::string& payload, unsigned flags) {
    PacketSpec spec = from_left(from, kPort, payload);
    spec.protocol = kTcp;
    spec.tcp_flags = static_cast<std::uint8_t>(flags);
    spec.tcp_seq = number;
    const std::uint64_t before = attached_->pins().worker("dropped");
    Sender(left_port()).send(build(spec));
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (std::chrono::steady_clock::now() < end) {
      if (arrives(from, number, payload)) return "pass";
      if (attached_->pins().worker("dropped") > before) return "drop";
    }
    return "nowhere";
  }

  // The ports from which came what is told of.
  std::vector<std::uint16_t> alerts() const {
    std::vector<std::uint16_t> ports;
    for (const Json& line : told("alert")) ports.push_back(line.at("src_port"));
    return ports;
  }
  // By what packets were dropped, behind the stage's name.
  std::vector<std::string> drops() const {
    constexpr std::string_view kStage = "stage 1 (signatures) ";
    std::vector<std::string> by;
    for (const Json& line : told("drop")) {
      const std::string what = line.at("xdpgpu").at("decided_by");
      EXPECT_EQ(what.substr(0, kStage.size()), kStage);
      by.push_back(what.substr(kStage.size()));
    }
    return by;
  }
  bool has_alerts(std::size_t count) const {
    return eventually([&] { return alerts().size() >= count; }, 10s);
  }
  bool has_drops(std::size_t count) const {
    return eventually([&] { return drops().size() >= count; }, 10s);
  }

 private:
  bool arrives(std::uint16_t from, std::uint32_t number, const std::string& payload) const {
    std::string packet(65536, '\0');
    const ssize_t bytes = recv(arrived_.get(), packet.data(), packet.size(), 0);
    if (bytes < 40) return false;
    packet.resize(static_cast<std::size_t>(bytes));
    const std::string tcp = packet.substr((static_cast<unsigned char>(packet[0]) & 0xfU) * 4U);
    std::uint16_t port = 0;
    std::uint32_t sequence = 0;
    std::memcpy(&port, &tcp[0], sizeof(port));
    std::memcpy(&sequence, &tcp[4], sizeof(sequence));
    return ntohs(port) == from && ntohl(sequence) == number &&
           tcp.substr((static_cast<unsigned char>(tcp[12]) >> 4U) * 4U) == payload;
  }

  Fd arrived_;
};
INSTANTIATE_TEST_SUITE_P(Netns, StreamSignaturesOnTheWire, kNativeAndGeneric, config_name);

using Drops = std::vector<std::string>;
using Ports = std::vector<std::uint16_t>;

// Two connections of real stacks, one of which says the word.
TEST_P(StreamSignaturesOnTheWire, AWordThatIsCutOverSegmentsEndsItsConnection) {
  write_policy(kDrop, R"(, "streams": 64)");
  attach_by_file();
  const auto connect = [&] { return std::make_unique<TcpConnection>(*left_, *host_, "10.9.0.1", kPort); };
  auto bad = connect();
  const auto good = connect();
  for (const auto* const one : {bad.get(), good.get()}) {
    one->say("an att");
    EXPECT_EQ(one->heard(5s), "an att");
  }
  bad->say("ack");
  EXPECT_EQ(bad->heard(500ms), "");
  bad->say(" and more");
  EXPECT_EQ(bad->heard(500ms), "");
  good->say("empt");
  EXPECT_EQ(good->heard(5s), "empt");
  ASSERT_TRUE(has_alerts(1));
  ASSERT_TRUE(has_drops(2)) << "what comes again, too";
  const Json alert = told("alert").at(0);
  EXPECT_EQ(alert.at("alert").at("signature_id"), 1);
  EXPECT_EQ(alert.at("alert").at("action"), "blocked");
  EXPECT_EQ(alert.at("src_port"), bad->client_port());
  const Ports told_of{bad->client_port()};
  bad.reset();
  const auto next = connect();
  next->say("hello");
  EXPECT_EQ(next->heard(5s), "hello");
  EXPECT_EQ(alerts(), told_of) << "once";
  const Drops by = drops();
  EXPECT_EQ(by.at(0), "rule 1:1");
  EXPECT_EQ(std::count(by.begin(), by.end(), "rule 1:1"), 1);
  EXPECT_EQ(std::count(by.begin(), by.end(), "dropped"), static_cast<long>(by.size()) - 1);
  expect_conserved(attached_->pins());
}

TEST_P(StreamSignaturesOnTheWire, WhatARuleDropsIsTheWholeRestOfTheConnection) {
  write_policy(kDrop, R"(, "streams": 64)");
  attach_by_file();
  const Client bad(*this, 30001, 0xffff'fffe), good(*this, 30002);
  EXPECT_EQ(bad.begins(), "pass");
  EXPECT_EQ(good.begins(), "pass");
  EXPECT_EQ(bad.says(3, "tac"), "pass") << "early";
  EXPECT_EQ(bad.says(6, "k"), "pass");
  EXPECT_EQ(good.says(0, "tac"), "pass");
  EXPECT_EQ(bad.says(0, " at"), "drop") << "it completes the word";
  EXPECT_EQ(bad.says(0, " at"), "drop") << "as it comes again";
  EXPECT_EQ(bad.says(7, " all is well"), "drop");
  EXPECT_EQ(good.says(3, "k"), "pass");
  EXPECT_EQ(bad.ends(20), "drop");
  EXPECT_EQ(good.ends(4), "pass");
  ASSERT_TRUE(has_drops(4));
  EXPECT_EQ(drops(), (Drops{"rule 1:1", "dropped", "dropped", "dropped"}));
  EXPECT_EQ(alerts(), Ports{30001});
  expect_conserved(attached_->pins());
}

TEST_P(StreamSignaturesOnTheWire, WhatComesAnewHasToBeWhatCameFirst) {
  write_policy(kDrop, R"(, "streams": 64)");
  attach_by_file();
  const Client client(*this, 30001);
  EXPECT_EQ(client.begins(), "pass");
  EXPECT_EQ(client.says(0, "GET /index"), "pass");
  EXPECT_EQ(client.says(0, "GET /attac"), "drop");
  EXPECT_EQ(client.says(5, "index"), "pass") << "the same";
  EXPECT_EQ(client.says(5, "index/k"), "pass") << "and some more";
  EXPECT_EQ(client.says(30, "late"), "pass");
  EXPECT_EQ(client.says(28, "a lot"), "drop") << "of what came early, too";
  EXPECT_EQ(client.says(28, "a late"), "pass");
  ASSERT_TRUE(has_drops(2));
  EXPECT_EQ(drops(), (Drops{"changed", "changed"}));
  EXPECT_TRUE(alerts().empty());
  expect_conserved(attached_->pins());
}

TEST_P(StreamSignaturesOnTheWire, WithoutStreamsTheRuleIsNamedAndDropsNothing) {
  write_policy(kDrop, "");
  attach_by_file();
  for (const Outcome& said : {product(*host_, {"policy", "check", path("policy.json")}), apply()}) {
    EXPECT_EQ(said.status, 0) << said.err;
    const std::string all = said.out + said.err;
    EXPECT_NE(all.find("1 of 1 rules are not decided"), std::string::npos) << all;
    EXPECT_NE(all.find("1 of the rules that are not decided are looked for in TCP streams, of which none is "
                       "followed"),
              std::string::npos)
        << all;
  }
  const Client client(*this, 30001);
  EXPECT_EQ(client.begins(), "pass");
  EXPECT_EQ(client.says(0, "an attack"), "pass");
  EXPECT_EQ(client.says(9, " att"), "pass");
  EXPECT_EQ(client.says(13, "ack"), "pass");
  EXPECT_TRUE(alerts().empty());
  EXPECT_TRUE(drops().empty());
  expect_conserved(attached_->pins());
}

// A block is 256 bytes: up to three of them a packet may be ahead.
TEST_P(StreamSignaturesOnTheWire, GapsAreWhatThePolicySays) {
  constexpr const char* kSmall = R"(, "streams": 64, "inspect": {"window": 256}, "on_gap": ")";
  write_policy(kDrop, std::string(kSmall) + "drop\"");
  attach_by_file();
  const Client client(*this, 30001), unknown(*this, 30002);
  EXPECT_EQ(client.begins(), "pass");
  EXPECT_EQ(client.says(0, "an att"), "pass");
  EXPECT_EQ(client.says(764, "ahead"), "drop");
  EXPECT_EQ(client.says(763, "ahead"), "pass") << "the last place that there is room for";
  EXPECT_EQ(client.says(20'000, "far"), "drop");
  EXPECT_EQ(unknown.says(0, "hello"), "drop") << "nobody has seen it begin";
  EXPECT_EQ(client.says(6, "ack"), "drop");
  ASSERT_TRUE(has_drops(4));
  EXPECT_EQ(drops(), (Drops{"gap", "gap", "gap", "rule 1:1"}));
  // What goes on there gets past the rules, and nothing else does.
  write_policy(kDrop, std::string(kSmall) + "next\"");
  ASSERT_EQ(apply().status, 0);
  const Client lost(*this, 30003), other(*this, 30004);
  EXPECT_EQ(lost.begins(), "pass");
  EXPECT_EQ(lost.says(20'000, "far"), "pass");
  EXPECT_EQ(lost.says(0, "an attack"), "drop") << "what is far ahead ends nothing";
  EXPECT_EQ(unknown.says(0, "an attack"), "pass");
  EXPECT_EQ(other.begins(), "pass");
  EXPECT_EQ(other.says(0, "an attack"), "drop");
  EXPECT_EQ(client.says(20, "hello"), "drop") << "streams stay over an apply";
  expect_conserved(attached_->pins());
}

std::string behind_its_size(std::size_t bytes, const std::string& what) {
  std::string made;
  for (std::size_t i = bytes; i-- > 0;) made.push_back(static_cast<char>(what.size() >> 8 * i));
  return made + what;
}
// A record with the ClientHello of who wants to talk with this server.
std::string hello_to(const std::string& name) {
  const std::string zero(1, '\0'), version("\3\3");
  const std::string entry = zero + behind_its_size(2, name);
  const std::string extension = zero + zero + behind_its_size(2, behind_its_size(2, entry));
  const std::string body = version + std::string(32, 'r') + zero + behind_its_size(2, "\x13\x01") +
                           behind_its_size(1, zero) + behind_its_size(2, extension);
  return "\x16\3\1" + behind_its_size(2, '\1' + behind_its_size(3, body));
}

TEST_P(StreamSignaturesOnTheWire, ServersNamesAreReadOutOfHellos) {
  write_policy(
      "drop tls any any -> any any (flow:to_server; tls.sni; dotprefix; content:\".bad.example\"; endswith; "
      "nocase; sid:1;)\n",
      R"(, "streams": 64)");
  attach_by_file();
  const Client bad(*this, 30001), good(*this, 30002);
  const std::string to_bad = hello_to("www.BAD.example"), to_good = hello_to("bad.example.org");
  EXPECT_EQ(bad.begins(), "pass");
  EXPECT_EQ(bad.says(0, to_bad.substr(0, 60)), "pass");
  EXPECT_EQ(bad.says(60, to_bad.substr(60)), "drop");
  EXPECT_EQ(bad.says(60, to_bad.substr(60)), "drop") << "it comes again";
  EXPECT_EQ(good.begins(), "pass");
  EXPECT_EQ(good.says(0, to_good), "pass");
  ASSERT_TRUE(has_drops(2));
  EXPECT_EQ(drops(), (Drops{"rule 1:1", "dropped"}));
  EXPECT_EQ(alerts(), std::vector<std::uint16_t>{30001});
  expect_conserved(attached_->pins());
}

// Written as nobody would who did not want to be overlooked, and cut in the middle of that.
TEST_P(StreamSignaturesOnTheWire, RequestsAreReadPartByPart) {
  write_policy(
      "drop http any any -> any any (flow:to_server; http.uri; content:\"/etc/passwd\"; http.host; "
      "content:\"shop.example\"; sid:1;)\n"
      "alert http any any -> any any (http.user_agent; content:\"scanner\"; nocase; sid:2;)\n",
      R"(, "streams": 64)");
  attach_by_file();
  const Client bad(*this, 30001), elsewhere(*this, 30002), scans(*this, 30003), body(*this, 30004);
  const std::string first = "GET /img/..//%65tc\\.%2fpass%",
                    second = "77d HTTP/1.1\r\nHost: Shop.EXAMPLE:80\r\n", third = "\r\n";
  EXPECT_EQ(bad.begins(), "pass");
  std::uint32_t at = 0;
  for (const auto& [part, fate] : {std::pair{first, "pass"}, {second, "pass"}, {third, "drop"}}) {
    EXPECT_EQ(bad.says(at, part), fate) << part;
    at += static_cast<std::uint32_t>(part.size());
  }
  EXPECT_EQ(bad.says(at, "GET / HTTP/1.1\r\n\r\n"), "drop") << "of the same connection";
  EXPECT_EQ(elsewhere.begins(), "pass");
  EXPECT_EQ(elsewhere.says(0, "GET /etc/passwd HTTP/1.1\r\nHost: other.example\r\n\r\n"), "pass");
  EXPECT_EQ(body.begins(), "pass");
  EXPECT_EQ(body.says(0, "POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 58\r\n\r\n"), "pass");
  EXPECT_EQ(body.says(63, "GET /etc/passwd HTTP/1.1\r\nHost: shop.example\r\n\r\n"), "pass") << "no request";
  EXPECT_EQ(scans.begins(), "pass");
  EXPECT_EQ(scans.says(0, "GET / HTTP/1.1\r\nUser-Agent: A Scanner\r\n\r\n"), "pass");
  ASSERT_TRUE(has_drops(2));
  EXPECT_EQ(drops(), (Drops{"rule 1:1", "dropped"}));
  ASSERT_TRUE(has_alerts(2));
  EXPECT_EQ(alerts(), (Ports{30001, 30003}));
  expect_conserved(attached_->pins());
}

// What a request's body says, in chunks and over segments, with what its head does.
TEST_P(StreamSignaturesOnTheWire, BodiesOfRequestsAreReadAsTheyCome) {
  write_policy(
      "drop http any any -> any any (flow:to_server; http.uri; content:\"/login\"; http.request_body; "
      "content:\"cmd=evil\"; sid:1;)\n"
      "drop http any any -> any any (http.request_body; content:\"secret\"; endswith; sid:2;)\n",
      R"(, "streams": 64)");
  attach_by_file();
  using Said = std::vector<std::pair<std::string, const char*>>;
  const auto talk = [&](std::uint16_t port, const Said& said) {
    const Client client(*this, port);
    EXPECT_EQ(client.begins(), "pass");
    std::uint32_t at = 0;
    for (const auto& [text, fate] : said) {
      EXPECT_EQ(client.says(at, text), fate) << port << ": " << text;
      at += static_cast<std::uint32_t>(text.size());
    }
  };
  const std::string chunked = "POST /login HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  talk(30001, {{chunked, "pass"},
               {"5\r\nx&cmd\r\n2;a=b\r\n=e", "pass"},
               {"\r\n3\r\nvi", "pass"},
               {"l", "drop"},
               {"\r\n0\r\n\r\n", "drop"}});
  talk(30002, {{"POST /login HTTP/1.1\r\nContent-Length: 8\r\n\r\ncmd=e", "pass"}, {"vil", "drop"}});
  // Another URI; another body; what stands behind the body; and no body.
  talk(30003, {{"POST /other HTTP/1.1\r\nContent-Length: 8\r\n\r\n", "pass"}, {"cmd=evil", "pass"}});
  talk(30004, {{"POST /login HTTP/1.1\r\nContent-Length: 8\r\n\r\n", "pass"},
               {"cmd=good", "pass"},
               {"cmd=evil\r\n", "pass"}});
  talk(30005, {{"GET /login?cmd=evil HTTP/1.1\r\nA: cmd=evil\r\n\r\n", "pass"}});
  // What it ends with is known with its last byte.
  talk(30006, {{"PUT / HTTP/1.1\r\nContent-Length: 7\r\n\r\nsecret", "pass"}, {"s", "pass"}});
  talk(30007, {{"PUT / HTTP/1.1\r\nContent-Length: 7\r\n\r\n-secre", "pass"}, {"t", "drop"}});
  ASSERT_TRUE(has_drops(4));
  EXPECT_EQ(drops(), (Drops{"rule 1:1", "dropped", "rule 1:1", "rule 1:2"}));
  expect_conserved(attached_->pins());
}

// What a server answers, over segments and in chunks, and its end.
TEST_P(StreamSignaturesOnTheWire, AnswersAreReadAsTheyCome) {
  write_policy(
      "drop http any any -> any any (flow:to_client; http.stat_code; content:\"200\"; file.data; "
      "content:\"evil page\"; sid:1;)\n"
      "drop http any any -> any any (http.server; content:\"bad\"; sid:2;)\n"
      "drop http any any -> any any (flow:to_client; file.data; content:\"last\"; endswith; sid:3;)\n",
      R"(, "streams": 64, "on_encoded": "drop")");
  attach_by_file();
  using Said = std::vector<std::pair<std::string, const char*>>;
  const auto talk = [&](std::uint16_t port, const Said& said) {
    const Client server(*this, port);
    EXPECT_EQ(server.answers(), "pass");
    std::uint32_t at = 0;
    for (const auto& [text, fate] : said) {
      EXPECT_EQ(text.empty() ? server.ends(at) : server.says(at, text), fate) << port << ": " << text;
      at += static_cast<std::uint32_t>(text.size());
    }
  };
  talk(30001, {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chu", "pass"},
               {"nked\r\n\r\n6\r\n<evil \r\n2\r\npa\r\n", "pass"},
               {"1\r\ng\r\n1\r\ne", "drop"},
               {"\r\n0\r\n\r\n", "drop"}});
  talk(30002, {{"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\nevil page", "pass"}});
  talk(30003, {{"HTTP/1.1 200 OK\r\nServer: b", "pass"}, {"ad\r\n\r\n", "drop"}});
  // What ends with the connection is known with its FIN.
  talk(30004, {{"HTTP/1.1 200 OK\r\n\r\nat last", "pass"}, {"", "drop"}});
  talk(30005, {{"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n", "pass"}, {"\r\n\x1f\x8b", "drop"}});
  talk(30006, {{"220 a server of mail with an evil page\r\n", "pass"}});
  ASSERT_TRUE(has_drops(5));
  EXPECT_EQ(drops(), (Drops{"rule 1:1", "dropped", "rule 1:2", "rule 1:3", "encoded"}));
  expect_conserved(attached_->pins());
}

// Whose memory they would take can leave them out.
TEST_P(StreamSignaturesOnTheWire, WithoutAnswersTheRuleIsNamedAndDropsNothing) {
  write_policy("drop http any any -> any any (http.server; content:\"evil\"; sid:1;)\n",
               R"(, "streams": 64, "inspect": {"answers": false})");
  const Outcome checked = product(*host_, {"policy", "check", path("policy.json")});
  EXPECT_EQ(checked.status, 0);
  EXPECT_NE((checked.out + checked.err).find("http.server"), std::string::npos) << checked.out << checked.err;
  attach_by_file();
  const Client server(*this, 30001);
  EXPECT_EQ(server.answers(), "pass");
  EXPECT_EQ(server.says(0, "HTTP/1.1 200 OK\r\nServer: evil\r\n\r\n"), "pass");
  expect_conserved(attached_->pins());
}

// Whose memory it would take can leave it out; then the rule is named.
TEST_P(StreamSignaturesOnTheWire, WithoutHttpTheRuleIsNamedAndDropsNothing) {
  write_policy("drop http any any -> any any (http.uri; content:\"evil\"; sid:1;)\n",
               R"(, "streams": 64, "inspect": {"http": false})");
  const Outcome checked = product(*host_, {"policy", "check", path("policy.json")});
  EXPECT_EQ(checked.status, 0);
  EXPECT_NE((checked.out + checked.err).find("http.uri"), std::string::npos) << checked.out << checked.err;
  attach_by_file();
  const Client client(*this, 30001);
  EXPECT_EQ(client.begins(), "pass");
  EXPECT_EQ(client.says(0, "GET /evil HTTP/1.1\r\n\r\n"), "pass");
  // With it the same rule drops.
  write_policy("drop http any any -> any any (http.uri; content:\"evil\"; sid:1;)\n", R"(, "streams": 64)");
  ASSERT_EQ(apply().status, 0);
  const Client later(*this, 30002);
  EXPECT_EQ(later.begins(), "pass");
  EXPECT_EQ(later.says(0, "GET /evil HTTP/1.1\r\n\r\n"), "drop");
  expect_conserved(attached_->pins());
}

TEST_P(StreamSignaturesOnTheWire, ARuleAlertsOnceOfAText) {
  write_policy(kAlert, R"(, "streams": 64)");
  attach_by_file();
  const Client client(*this, 30001), other(*this, 30002);
  EXPECT_EQ(client.begins(), "pass");
  EXPECT_EQ(client.says(0, "an att"), "pass");
  EXPECT_EQ(client.says(6, "ack, "), "pass");
  EXPECT_EQ(client.says(6, "ack, "), "pass") << "as it comes again";
  EXPECT_EQ(client.says(11, "one more attack"), "pass");
  // Until no text has any of that any more: the word stands in the first block.
  std::uint32_t at = 26;
  for (; at < 3 * 4096; at += 1400) ASSERT_EQ(client.says(at, std::string(1400, '.')), "pass") << at;
  EXPECT_EQ(other.begins(), "pass");
  EXPECT_EQ(other.says(0, "attack"), "pass");
  ASSERT_TRUE(has_alerts(2));
  EXPECT_EQ(alerts(), (Ports{30001, 30002}));
  EXPECT_EQ(client.says(at, "attack"), "pass");
  ASSERT_TRUE(has_alerts(3)) << "in a text of its own";
  EXPECT_EQ(alerts().back(), 30001);
  EXPECT_EQ(told("alert").at(0).at("alert").at("action"), "allowed");
  EXPECT_TRUE(drops().empty());
  expect_conserved(attached_->pins());
}

}  // namespace
}  // namespace xdpgpu::lab
