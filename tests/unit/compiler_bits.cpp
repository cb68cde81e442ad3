// SPDX-License-Identifier: MIT
//
// What rules ask of connections and bits, from their texts to what devices and workers go by. What comes of
// it against Suricata: control_replay.
#include "userspace/compiler/rules/bits.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "userspace/compiler/rules/load.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;
using gpu::RuleBits;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Each by its action and options; they are of packets alone.
std::vector<Rule> rules_of(const std::vector<std::pair<std::string, std::string>>& texts) {
  std::string lines;
  u32 sid = 0;
  for (const auto& [action, options] : texts)
    lines += fmt::format("{} udp any any -> any any (dsize:>0; {} sid:{};)\n", action, options, ++sid);
  auto loaded = load_rules({{"a.rules", lines}}, usual_variables(), {});
  if (!loaded.wrong.empty()) throw std::runtime_error(loaded.wrong[0].why);
  return loaded.rules;
}
std::vector<std::string> not_yet(const std::vector<Lowered>& all) {
  std::vector<std::string> texts;
  for (const Lowered& one : all) {
    std::string text;
    for (const auto& [keyword, why] : one.not_yet) text += fmt::format("{}: {};", keyword, why);
    texts.push_back(text);
  }
  return texts;
}

TEST(Bits, OfConnectionsAreAskedForBehindConntrack) {
  using Way = sig::ConnectionIs::Way;
  const std::vector<std::pair<std::string, std::optional<sig::ConnectionIs>>> kAsked{
      {"flow:to_server;", {{Way::to_server, {}}}},
      {"flow:from_client;", {{Way::to_server, {}}}},
      {"flow:to_client,established;", {{Way::to_client, true}}},
      {"flow:not_established;", {{Way::any, false}}},
      {"flow:stateless;", {}},
      {"flow:stateless,from_server;", {{Way::to_client, {}}}},
      {"flowbits:isset,x;", {{Way::any, {}}}},
      {"flowbits:set,x;", {{Way::any, {}}}},
      {"flow:established; flowbits:set,x;", {{Way::any, true}}},
      {"xbits:set,x,track ip_src;", {}},
      {"flowbits:noalert;", {}}};
  for (const auto& [options, asked] : kAsked) {
    const auto made = lower(rules_of({{"alert", options}})[0]);
    ASSERT_TRUE(made.signature) << options << not_yet({made})[0];
    std::optional<sig::ConnectionIs> is;
    for (const auto& one : made.signature->conditions)
      if (const auto* const connection = std::get_if<sig::ConnectionIs>(&one)) is = *connection;
    EXPECT_EQ(is, asked) << options;
    EXPECT_EQ(made.of_connections, asked.has_value()) << options;
  }
}

TEST(Bits, AreWhatTheRuleSays) {
  const auto bits = [](const std::string& options) { return lower(rules_of({{"alert", options}})[0]).bits; };
  using What = RuleBits::What;
  using On = RuleBits::On;
  const auto is = [](const RuleBits& one, What what, On on, u32 seconds) {
    return one.what == what && one.on == on && one.seconds == seconds && one.names.size() == 1;
  };
  EXPECT_TRUE(is(bits("flowbits:set,x;")[0], What::set, On::connection, 0));
  EXPECT_TRUE(is(bits("flowbits:isnotset,x;")[0], What::is_not_set, On::connection, 0));
  EXPECT_TRUE(is(bits("xbits:toggle,x,track ip_pair;")[0], What::toggle, On::pair, 30));
  EXPECT_TRUE(is(bits("xbits:set,x,track ip_dst,expire 9;")[0], What::set, On::destination, 9));
  EXPECT_TRUE(is(bits("hostbits:unset,x,src;")[0], What::unset, On::source, 300));
  EXPECT_EQ(bits("flowbits:isset,x|y;")[0].names.size(), 2u);
  EXPECT_EQ(bits("flowbits:set,x;")[0].names, bits("xbits:set,x,track ip_src;")[0].names);
  EXPECT_NE(bits("flowbits:set,x;")[0].names, bits("flowbits:set,y;")[0].names);
  EXPECT_TRUE(lower(rules_of({{"alert", "flowbits:set,x; flowbits:noalert;"}})[0]).noalert);
  EXPECT_TRUE(lower(rules_of({{"alert", "flowbits:set,x; noalert;"}})[0]).noalert);
  EXPECT_ANY_THROW(rules_of({{"alert", "hostbits:set,x,both;"}})) << "Suricata does not take it either";
}

// Workers look at bits behind the device: what drops or passes by them alerts, as far as that one knows.
TEST(Bits, DecideLateWhatBecomesOfPackets) {
  const auto all = lower(rules_of({{"drop", "flowbits:isset,x;"},
                                   {"reject", "xbits:isnotset,x,track ip_src;"},
                                   {"pass", "flowbits:set,y;"},
                                   {"drop", "flowbits:set,z;"},
                                   {"pass", "flowbits:isset,y;"}}));
  EXPECT_THAT(not_yet(all), Each(IsEmpty()));
  using Does = gpu::signatures::Action;
  for (const auto& [rule, action, to_device, late] : {std::tuple(0u, Does::drop, Does::alert, true),
                                                      {1u, Does::reject, Does::alert, true},
                                                      {2u, Does::pass, Does::pass, false},
                                                      {3u, Does::drop, Does::drop, false},
                                                      {4u, Does::pass, Does::alert, true}}) {
    EXPECT_EQ(all[rule].action, action) << rule;
    EXPECT_EQ(all[rule].signature.value().action, to_device) << rule;
    EXPECT_EQ(all[rule].late, late) << rule;
  }
}

// A bit that an undecided rule would set is never set: who asks for it would say the wrong thing.
TEST(Bits, ThatUndecidedRulesChangeAreNotAskedFor) {
  const auto all = lower(rules_of({{"alert", "flowbits:isset,b;"},                     // through 2
                                   {"alert", "flowbits:isnotset,a; flowbits:set,b;"},  // through 3
                                   {"alert", "stream_size:both,>,5; flowbits:toggle,a;"},
                                   {"alert", "xbits:isset,a,track ip_src;"},  // another bit
                                   {"alert", "flowbits:isset,c|b;"},
                                   {"alert", "flowbits:isset,c;"},
                                   {"alert", "stream_size:both,>,5; xbits:set,h,track ip_src;"},
                                   {"alert", "hostbits:isset,h,dst;"}}));
  EXPECT_THAT(not_yet(all),
              ElementsAre(HasSubstr("flowbits: rule 1:2 changes the bit"),
                          HasSubstr("flowbits: rule 1:3 changes the bit"), HasSubstr("stream_size"),
                          IsEmpty(), HasSubstr("rule 1:2 changes"), IsEmpty(), HasSubstr("stream_size"),
                          HasSubstr("hostbits: rule 1:7 changes the bit")));
  EXPECT_FALSE(all[0].signature);
}

// Each rule hangs on the one behind it, and the last one is not decided.
TEST(Bits, ThatHangOnEachOtherTakeNoLongerThanTheyMay) {
  constexpr u32 kRules = 20'000;
  std::vector<std::pair<std::string, std::string>> texts;
  for (u32 i = 0; i < kRules; i++)
    texts.emplace_back("alert", fmt::format("flowbits:isset,b{}; flowbits:set,b{};", i + 1, i));
  texts.emplace_back("alert",
                     fmt::format("stream_size:both,>,5; hostbits:isset,c,src; flowbits:set,b{};", kRules));
  const auto rules = rules_of(texts);
  const auto since = std::chrono::steady_clock::now();
  const auto all = lower(rules);
  EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(20));
  EXPECT_EQ(
      std::count_if(all.begin(), all.end(), [](const Lowered& one) { return one.signature.has_value(); }), 0);
}

TEST(Bits, AreSetInFrontOfWhereTheyAreAskedFor) {
  const auto all = rules_of({{"alert", ""},
                             {"alert", "flowbits:isset,a;"},
                             {"alert", "flowbits:isset,a; flowbits:set,b;"},
                             {"alert", "flowbits:set,a;"},
                             {"alert", "xbits:isset,a,track ip_pair;"},
                             {"alert", "xbits:isset,a,track ip_src;"},
                             {"alert", "hostbits:set,a,src;"},
                             {"alert", "hostbits:isset,a,src;"},
                             {"alert", "xbits:set,a,track ip_src;"}});
  const auto order = [&](std::size_t i) { return order_by_bits(all[i]); };
  EXPECT_LT(order(0), order(1));
  EXPECT_LT(order(1), order(2));
  EXPECT_LT(order(2), order(3));
  EXPECT_LT(order(0), order(4));
  EXPECT_LT(order(4), order(5));
  EXPECT_LT(order(5), order(6));
  EXPECT_LT(order(6), order(1)) << "connections' bits come first";
  for (const std::size_t unknown : {7, 8}) EXPECT_EQ(order(unknown), order(0)) << "as for Suricata";
}

}  // namespace
}  // namespace xdpgpu::rules
