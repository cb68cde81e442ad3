// SPDX-License-Identifier: MIT
//
// `domains` on the wire: DNS messages between hosts, by the names that they ask for; and lists that are
// edited and applied while traffic flows.
#include <fmt/format.h>
#include <signal.h>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

std::string query(const std::string& name) {
  std::string dns("\0\1\1\0\0\1\0\0\0\0\0\0", 12);
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    dns += static_cast<char>(end - at) + name.substr(at, end - at);
    at = end + 1;
  }
  return dns + std::string("\0\0\1\0\1", 5);
}

class DomainsOnTheWire : public OnTheWire {
 protected:
  void listen() {
    server_.emplace(*host_, "10.9.0.1", 53);
    left_sniffer_.emplace(left_port());
  }
  // "pass": the server on the host has it; "tx": it came back to who asked; "drop".
  std::string fate(const PacketSpec& spec) {
    const std::uint64_t before = attached_->pins().worker("dropped");
    Sender(left_port()).send(build(spec));
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (std::chrono::steady_clock::now() < end) {
      const bool gone = attached_->pins().worker("dropped") > before;
      const auto patience = gone ? 50ms : 5ms;
      if (!left_sniffer_->take(1, patience, with_payload(spec.payload)).empty()) return "tx";
      if (server_->receive(patience) == spec.payload) return "pass";
      if (gone) return "drop";
    }
    return "nowhere";
  }
  std::string fate(const std::string& name) { return fate(from_left(next_port_++, 53, query(name))); }

  static std::string watching(const std::string& stage, const std::string& lists) {
    return inspect_udp(53, stage, fmt::format(R"("lists": {{{}}})", lists));
  }

  std::optional<UdpSocket> server_;
  std::optional<Sniffer> left_sniffer_;
  std::uint16_t next_port_ = 20000;
};
INSTANTIATE_TEST_SUITE_P(Netns, DomainsOnTheWire, kNativeAndGeneric, config_name);

TEST_P(DomainsOnTheWire, NamesOfListsAreDealtWithByTheirLists) {
  const TemporaryFile ads("# ads\n0.0.0.0 ads.example\ntracker.example.  # both\nB\u00fccher.example\n",
                          ".txt");
  attach(watching(R"({"stage": "domains", "lists": [{"list": "@ads", "action": "drop"},
                      {"list": "@back", "action": "tx"}, {"list": "@fine", "action": "next"}]})",
                  fmt::format(R"("ads": {{"type": "domain", "file": "{}", "subdomains": true}},
                      "back": {{"type": "domain", "names": ["*.test"]}},
                      "fine": {{"type": "domain", "names": ["Good.Ads.example"]}})",
                              ads.path())));
  listen();
  EXPECT_EQ(fate("www.example"), "pass") << "in no list";
  EXPECT_EQ(fate("ads.example"), "drop");
  EXPECT_EQ(fate("ADS.Example"), "drop");
  EXPECT_EQ(fate("a.b.tracker.example"), "drop");
  EXPECT_EQ(fate("good.ads.example"), "pass") << "an exception";
  EXPECT_EQ(fate("x.good.ads.example"), "drop") << "that stands for itself alone";
  EXPECT_EQ(fate("www.xn--bcher-kva.example"), "drop") << "as it is asked for";
  EXPECT_EQ(fate("b\u00fccher.example"), "pass") << "as nobody asks for it";
  EXPECT_EQ(fate("a.test"), "tx");
  EXPECT_EQ(fate("test"), "pass");
  // One flow, whose queries are for this and that.
  for (const auto& [name, what] :
       {std::pair("www.example", "pass"), {"ads.example", "drop"}, {"x.example", "pass"}})
    EXPECT_EQ(fate(from_left(5353, 53, query(name))), what) << name;
  PacketSpec two = from_left(5354, 53, query("www.example"));
  two.payload[5] = 2;
  EXPECT_EQ(fate(two), "drop") << "two questions";
  EXPECT_EQ(fate(from_left(5355, 53, "no DNS")), "drop");
  expect_conserved(attached_->pins());
}

// As the resolver of the host that asks sees it.
TEST_P(DomainsOnTheWire, WhoAsksForARefusedNameIsTold) {
  attach(watching(R"({"stage": "domains", "lists": [{"list": "@bad", "action": "refuse"}]})",
                  R"("bad": {"type": "domain", "names": [".bad.example"]})"));
  listen();
  UdpSocket client(*left_, "10.9.0.2", 30000);
  UdpSocket client6(*left_, "fd09::2", 30000);
  for (const bool six : {false, true}) {
    UdpSocket& socket = six ? client6 : client;
    const std::string asks = query("www.Bad.example");
    socket.send_to(six ? "fd09::1" : "10.9.0.1", 53, asks);
    std::string told = asks;
    told[2] = '\x81';
    told[3] = '\x83';
    EXPECT_EQ(socket.receive(5000ms), told);
  }
  EXPECT_EQ(attached_->pins().worker("refused_answered"), 2u);
  EXPECT_EQ(attached_->pins().worker("dropped"), 2u);
  EXPECT_EQ(attached_->pins().worker("transmitted"), 0u) << "the answer to one that is counted";
  EXPECT_EQ(fate("good.example"), "pass");
  // An answer about it is dropped, and so is a query from nobody.
  PacketSpec answer = from_left(53, 40000, query("bad.example"));
  answer.payload[2] = '\x81';
  answer.dst_port = 53;
  EXPECT_EQ(fate(answer), "drop");
  PacketSpec nobody = from_left(30001, 53, query("bad.example"));
  nobody.src_ip = "0.0.0.0";
  EXPECT_EQ(fate(nobody), "drop");
  EXPECT_EQ(attached_->pins().worker("refused_answered"), 2u);
  expect_conserved(attached_->pins());
}

TEST_P(DomainsOnTheWire, AnEditedListHoldsFromItsApplicationOn) {
  std::string names;
  for (int i = 0; i < 10'000; i++) names += fmt::format("n{}.example\n", i);
  const TemporaryFile list(names, ".txt");
  const std::string text = watching(R"({"stage": "domains", "lists": [{"list": "@bad", "action": "drop"}]})",
                                    fmt::format(R"("bad": {{"type": "domain", "file": "{}"}})", list.path()));
  attach(text);
  listen();
  EXPECT_EQ(fate("n9999.example"), "drop");
  EXPECT_EQ(fate("n10000.example"), "pass");
  list.write(names + "n10000.example\n");
  EXPECT_EQ(fate("n10000.example"), "pass") << "the file alone changes nothing";
  EXPECT_EQ(attached_->apply(text).status, 0);
  EXPECT_EQ(fate("n10000.example"), "drop");
  list.write("n1.example\nexa mple\n");
  const Outcome refused = attached_->apply(text);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find(":2:1: /lists/bad/file: \"mple\" stands behind a name"), std::string::npos)
      << refused.err;
  EXPECT_EQ(fate("n10000.example"), "drop") << "a refused list changes nothing";
  list.write("n1.example\n");
  EXPECT_EQ(attached_->apply(text).status, 0);
  EXPECT_EQ(fate("n10000.example"), "pass");
  EXPECT_EQ(fate("n1.example"), "drop");
}

// With no compiling in between: what is asked next meets the list as it is then.
TEST_P(DomainsOnTheWire, NamesAreAddedAndRemovedOneAtATime) {
  const TemporaryFile ads("ads.example\n.tracker.example\n", ".txt");
  const std::string text = watching(R"({"stage": "domains", "lists": [{"list": "@ads", "action": "drop"},
                      {"list": "@fine", "action": "pass"}]})",
                                    fmt::format(R"("ads": {{"type": "domain", "file": "{}"}},
                      "fine": {{"type": "domain", "names": ["fine.ads.example"]}}, "office": ["192.0.2.0/24"])",
                                                ads.path()));
  attach(text);
  listen();
  const auto list = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "list");
    words.insert(words.begin() + 2, host_port().ifname());
    return product(*host_, words);
  };
  const auto changed = [&](std::vector<std::string> words, const std::string& says) {
    const Outcome outcome = list(std::move(words));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(says), std::string::npos) << outcome.out;
  };
  EXPECT_EQ(fate("new.example"), "pass");
  changed({"add", "ads", "new.example", ".B\u00fccher.example"},
          "2 names added: new.example, .xn--bcher-kva.example");
  EXPECT_EQ(fate("new.example"), "drop");
  EXPECT_EQ(fate("a.new.example"), "pass") << "it stands for itself alone";
  EXPECT_EQ(fate("a.xn--bcher-kva.example"), "drop");
  changed({"add", "ads", "new.example"}, "0 names added; there already: new.example");
  changed({"remove", "ads", "new.example"}, "1 name removed: new.example");
  EXPECT_EQ(fate("new.example"), "pass");
  // What the file has, and not what it has not.
  changed({"remove", "ads", "ads.example", "tracker.example"},
          "1 name removed: ads.example; not there already: tracker.example");
  EXPECT_EQ(fate("ads.example"), "pass");
  EXPECT_EQ(fate("a.tracker.example"), "drop");
  // All or none.
  for (const auto& [words, status, says] :
       {std::tuple(std::vector<std::string>{"add", "ads", "x.example", "x..example"}, 2,
                   "nothing between two dots"),
        std::tuple(std::vector<std::string>{"add", "adz", "x.example"}, 1,
                   "its lists of names are ads, fine"),
        std::tuple(std::vector<std::string>{"add", "office", "x.example"}, 1,
                   "\"office\" is of addresses")}) {
    const Outcome outcome = list(words);
    EXPECT_EQ(outcome.status, status);
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(fate("x.example"), "pass");

  // They go on with the next policy, and with the data plane that follows one that dies.
  EXPECT_EQ(attached_->apply(text).status, 0);
  EXPECT_EQ(fate("ads.example"), "pass");
  EXPECT_EQ(fate("xn--bcher-kva.example"), "drop");
  const Outcome shown = list({"show", "ads"});
  EXPECT_NE(shown.out.find(
                "1 added and 1 removed since it was compiled\n+ .xn--bcher-kva.example\n- ads.example\n"),
            std::string::npos)
      << shown.out << shown.err;

  // What the file has come to say is the file's, and what is of no list any more is gone.
  ads.write(".tracker.example\n.xn--bcher-kva.example\n");
  EXPECT_EQ(attached_->apply(text).status, 0);
  EXPECT_NE(list({"show"}).out.find("0 added and 0 removed"), std::string::npos);
  changed({"add", "fine", "a.tracker.example"}, "1 name added");
  EXPECT_EQ(fate("a.tracker.example"), "pass");
  const Outcome other =
      attached_->apply(watching(R"({"stage": "domains", "lists": [{"list": "@ads", "action": "drop"}]})",
                                R"("ads": {"type": "domain", "names": [".tracker.example"]})"));
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_NE((other.out + other.err).find("of names any more"), std::string::npos) << other.out << other.err;
  EXPECT_EQ(attached_->apply(text).status, 0);
  EXPECT_EQ(fate("a.tracker.example"), "drop");
  expect_conserved(attached_->pins());
}

TEST_P(DomainsOnTheWire, ChangedNamesOutliveADataPlane) {
  attach(watching(R"({"stage": "domains", "lists": [{"list": "@bad", "action": "drop"}]})",
                  R"("bad": {"type": "domain", "names": ["bad.example"]})"));
  listen();
  for (const auto& words : {std::vector<std::string>{"add", "new.example"}, {"remove", "bad.example"}}) {
    const Outcome outcome = product(*host_, {"list", words[0], host_port().ifname(), "bad", words[1]});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
  const pid_t before = attached_->data_plane();
  // The broker is told of it behind the answer.
  std::this_thread::sleep_for(300ms);
  kill(before, SIGKILL);
  ASSERT_TRUE(eventually(
      [&] {
        try {
          return attached_->data_plane() != before &&
                 product(*host_, {"list", "show", host_port().ifname(), "bad"}).out.find("+ new.example") !=
                     std::string::npos;
        } catch (const std::exception&) {
          return false;  // there is none yet
        }
      },
      30s))
      << attached_->process().err();
  EXPECT_TRUE(eventually([&] { return fate("bad.example") == "pass"; }, 20s));
  EXPECT_EQ(fate("new.example"), "drop");
}

// The next query of the flow would meet the cached verdict, and no list.
TEST_P(DomainsOnTheWire, ACacheBehindItIsRefused) {
  const std::string lists = R"("bad": {"type": "domain", "names": ["bad.example"]})";
  const std::string stage = R"({"stage": "domains", "lists": [{"list": "@bad", "action": "drop"}]})";
  attach(watching(stage, lists));
  const Outcome refused = attached_->apply(
      watching(stage + R"(, {"stage": "acl", "rules": [], "default": "pass", "cache": true})", lists));
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.err.find("stage 1 (domains) in front of it has to see every packet"), std::string::npos)
      << refused.err;
}

}  // namespace
}  // namespace xdpgpu::lab
