// SPDX-License-Identifier: MIT
//
// Stages that remember packets: what a policy may say of them, and what it may not.
#include "userspace/policy/table_stages.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace xdpgpu::policy {
namespace {

using gpu::Action;
using gpu::AffinitySettings;
using gpu::ConntrackSettings;
using gpu::DdosSettings;
using gpu::EncapsulationSettings;
using gpu::LoadBalanceSettings;
using gpu::RateLimitSettings;
using Evict = gpu::TableSettings::Evict;

Result<Policy> parsed(const std::string& stages, const std::string& action = R"({"inspect": "p"})",
                      const FileContents& files = {}) {
  return parse(fmt::format(R"({{"version": 1, "rules": [{{"action": {}}}], "pipelines": {{"p": [{}]}}}})",
                           action, stages),
               "p.json", read_files_of(files));
}

template <class Kind>
Kind stage_of(const std::string& stages) {
  const auto policy = parsed(stages);
  EXPECT_TRUE(policy) << policy.error().front().sentence();
  return policy ? std::get<Kind>(policy->pipelines.front().stages.front()) : Kind{};
}

std::vector<std::string> notes_on(const Policy& policy) {
  std::vector<std::string> found;
  for (const auto& pipeline : policy.pipelines)
    for (std::size_t i = 0; i < pipeline.stages.size(); i++)
      for (auto& note : gpu::notes_of({pipeline.name, pipeline.stages, i})) found.push_back(std::move(note));
  return found;
}

// The first problem, and where it is.
std::string problem(const std::string& stages, const std::string& action = R"({"inspect": "p"})") {
  const auto policy = parsed(stages, action);
  return policy ? "none" : policy.error().front().pointer + ": " + policy.error().front().message;
}
void expect_problem(const std::string& stages, const std::string& where, const std::string& said) {
  const std::string found = problem(stages);
  EXPECT_EQ(found.substr(0, where.size() + 2), where + ": ") << found;
  EXPECT_NE(found.find(said), std::string::npos) << found;
}

TEST(RateLimitStage, HasASecondsBurstUnlessItSays) {
  auto stage = stage_of<RateLimitSettings>(R"({"stage": "rate_limit", "per": "src", "pps": 100})");
  EXPECT_EQ(stage.packets_per_second, 100u);
  EXPECT_EQ(stage.burst_packets, 100u);
  EXPECT_EQ(stage.bytes_per_second, 0u);
  EXPECT_EQ(stage.bits4, 32);
  EXPECT_EQ(stage.bits6, 128);
  EXPECT_EQ(stage.excess, Action::drop);
  EXPECT_EQ(stage.table.entries, 65536u);
  EXPECT_EQ(stage.table.evict, Evict::lru);
  stage = stage_of<RateLimitSettings>(R"({"stage": "rate_limit", "per": "dst", "bytes_per_second": 5000,
      "burst_bytes": 9000, "prefix4": 24, "prefix6": 56, "excess": "pass", "entries": 10, "evict": "refuse"})");
  EXPECT_EQ(stage.packets_per_second, 0u);
  EXPECT_EQ(stage.bytes_per_second, 5000u);
  EXPECT_EQ(stage.burst_bytes, 9000u);
  EXPECT_EQ(stage.bits4, 24);
  EXPECT_EQ(stage.bits6, 56);
  EXPECT_EQ(stage.excess, Action::pass);
  EXPECT_EQ(stage.table.entries, 10u);
  EXPECT_EQ(stage.table.evict, Evict::refuse);
}

TEST(RateLimitStage, RefusesWhatMeansNothing) {
  expect_problem(R"({"stage": "rate_limit", "per": "src"})", "/pipelines/p/0", "needs a rate");
  expect_problem(R"({"stage": "rate_limit", "pps": 1})", "/pipelines/p/0", "\"per\"");
  expect_problem(R"({"stage": "rate_limit", "per": "src", "pps": 1, "burst_bytes": 1})",
                 "/pipelines/p/0/burst_bytes", "needs a rate: add \"bytes_per_second\"");
  expect_problem(R"({"stage": "rate_limit", "per": "flow", "pps": 1, "prefix4": 24})",
                 "/pipelines/p/0/prefix4", "whole addresses");
  expect_problem(R"({"stage": "rate_limit", "per": "src", "pps": 1, "burst": 86401})", "/pipelines/p/0/burst",
                 "more than a day's packets");
  expect_problem(R"({"stage": "rate_limit", "per": "src", "bytes_per_second": 999})",
                 "/pipelines/p/0/bytes_per_second", "from 1000");
  expect_problem(R"({"stage": "rate_limit", "per": "source", "pps": 1})", "/pipelines/p/0/per", "\"src\"");
  expect_problem(R"({"stage": "rate_limit", "per": "src", "pps": 1, "entries": 0})", "/pipelines/p/0/entries",
                 "from 1 to 67108864");
  expect_problem(R"({"stage": "rate_limit", "per": "src", "pps": 1, "cache": true})", "/pipelines/p/0/cache",
                 "");
}

std::string balance(const std::string& more, const std::string& backend = R"("name": "b")") {
  return R"({"stage": "load_balance", "backends": [{"mac": "52:54:00:00:00:01", )" + backend + "}]" + more +
         "}";
}

TEST(LoadBalanceStage, HashesUnlessItSays) {
  auto stage = stage_of<LoadBalanceSettings>(balance(""));
  EXPECT_EQ(stage.algorithm, LoadBalanceSettings::Algorithm::hash);
  EXPECT_FALSE(stage.affinity);
  stage = stage_of<LoadBalanceSettings>(balance(R"(, "algorithm": "maglev", "affinity": {})"));
  EXPECT_EQ(stage.table_size, 65'537u);
  EXPECT_EQ(stage.affinity, AffinitySettings{});
  stage = stage_of<LoadBalanceSettings>(balance(
      R"(, "algorithm": "maglev", "table_size": 251, "cache": "30s",
         "affinity": {"per": "src", "idle": "1m", "entries": 10, "evict": "fifo"})"));
  EXPECT_EQ(stage.table_size, 251u);
  EXPECT_EQ(stage.affinity, (AffinitySettings{AffinitySettings::Per::src, 60'000, {10, Evict::fifo}}));
  EXPECT_TRUE(stage.cache);
  EXPECT_EQ(stage.cache_ttl_ms, 30'000u);
}

TEST(LoadBalanceStage, ABackendOfNoWeightDrains) {
  const std::string two = R"({"stage": "load_balance", "backends": [{"mac": "52:54:00:00:00:01", "weight": 0},
      {"mac": "52:54:00:00:00:02", "drain": true, "weight": 7}, {"mac": "52:54:00:00:00:03"}]})";
  const auto stage = stage_of<LoadBalanceSettings>(two);
  ASSERT_EQ(stage.backends.size(), 3u);
  EXPECT_TRUE(stage.backends[0].drains);
  EXPECT_EQ(stage.backends[0].weight, 1u);
  EXPECT_TRUE(stage.backends[1].drains);
  EXPECT_EQ(stage.backends[1].weight, 7u);
  EXPECT_FALSE(stage.backends[2].drains);
}

TEST(LoadBalanceStage, TakesItsKeyFromAFile) {
  const auto of_file = [](const std::string& content) {
    return parsed(balance(R"(, "algorithm": "maglev", "key_file": "k")"), R"({"inspect": "p"})",
                  {{"k", content}});
  };
  const auto policy = of_file("000102030405060708090a0b0C0D0E0F\n");
  ASSERT_TRUE(policy);
  const auto& stage = std::get<LoadBalanceSettings>(policy->pipelines[0].stages[0]);
  EXPECT_EQ(stage.key, (std::array<u64, 2>{0x0706050403020100, 0x0f0e0d0c0b0a0908}));
  EXPECT_EQ(stage.key_file, "k");
  EXPECT_NE(of_file("000102030405060708090a0b0c0d0e10")->hash, policy->hash);
  for (const char* wrong : {"", "00", "000102030405060708090a0b0c0d0e0g", "000102030405060708090a0b0c0d0e0f0",
                            "0001020304050607 08090a0b0c0d0e0f"}) {
    const auto refused = of_file(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error()[0].pointer, "/pipelines/p/0/key_file");
    EXPECT_NE(refused.error()[0].message.find("32 hexadecimal digits"), std::string::npos);
  }
  expect_problem(balance(R"(, "key_file": "k")"), "/pipelines/p/0/key_file", "only maglev");
}

TEST(LoadBalanceStage, RefusesWhatMeansNothing) {
  const std::string maglev = R"(, "algorithm": "maglev")";
  expect_problem(balance(maglev, R"("weight": 2)"), "/pipelines/p/0/backends/0", "add a \"name\"");
  expect_problem(balance(R"(, "table_size": 251)"), "/pipelines/p/0/table_size", "only maglev");
  expect_problem(balance(maglev + R"(, "table_size": 65536)"), "/pipelines/p/0/table_size",
                 "the next one is 65537");
  expect_problem(balance("", R"("drain": true)"), "/pipelines/p/0/backends", "all backends drain");
  expect_problem(balance(R"(, "affinity": {})"), "/pipelines/p/0/affinity", "add \"algorithm\": \"maglev\"");
  expect_problem(balance(maglev + R"(, "affinity": {"idle": "10s"}, "cache": "5001ms")"),
                 "/pipelines/p/0/cache", "at most half of the affinity's \"idle\", \"5s\"");
  expect_problem(balance(maglev + R"(, "affinity": {"idle": "10s"}, "cache": true)"), "/pipelines/p/0/cache",
                 "half");
  EXPECT_EQ(problem(balance(maglev + R"(, "affinity": {"idle": "10s"}, "cache": "5s")")), "none");
  expect_problem(
      R"({"stage": "load_balance", "algorithm": "maglev", "backends": [
          {"name": "b", "mac": "52:54:00:00:00:01"}, {"name": "b", "mac": "52:54:00:00:00:02"}]})",
      "/pipelines/p/0/backends/1/name", "give each its own");
}

TEST(LoadBalanceStage, ChecksBackendsByTheirAddresses) {
  const auto stage =
      stage_of<LoadBalanceSettings>(balance(R"(, "health": {"port": 80})", R"("address": "10.0.0.1")"));
  gpu::HealthSettings health;
  health.port = 80;
  EXPECT_EQ(stage.health, health);
  EXPECT_EQ(stage.backends.at(0).address, (gpu::Prefix{4, {10, 0, 0, 1}, 32}));
  EXPECT_EQ(stage_of<LoadBalanceSettings>(
                balance(R"(, "health": {"port": 80, "interval": "100ms"})", R"("address": "::1")"))
                .health->timeout_ms,
            100u)
      << "a default is no longer than the interval";
  expect_problem(balance(R"(, "health": {"port": 80})"), "/pipelines/p/0/backends/0", "add its \"address\"");
  expect_problem(balance("", R"("address": "10.0.0.1")"), "/pipelines/p/0/backends/0/address", "take it out");
  expect_problem(balance(R"(, "health": {"port": 80})", R"("address": "10.0.0.0/24")"),
                 "/pipelines/p/0/backends/0/address", "is a network");
  expect_problem(balance(R"(, "health": {"port": 80, "timeout": "3s"})", R"("address": "10.0.0.1")"),
                 "/pipelines/p/0/health/timeout", "make it shorter");
  expect_problem(balance(R"(, "health": {"port": 80, "interval": "1ms"})", R"("address": "10.0.0.1")"),
                 "/pipelines/p/0/health/interval", "from 10ms");
}

TEST(LoadBalanceStage, PutsPacketsInsideOfOuterHeadersToItsBackends) {
  const std::string four = R"("address": "10.0.0.1")", six = R"("address": "2001:db8::1")";
  const auto with = [](const std::string& members) { return R"(, "encapsulation": {)" + members + "}"; };
  auto stage = stage_of<LoadBalanceSettings>(
      balance(with(R"("type": "ipip", "source": {"ipv4": "10.0.9.0/24"})"), four));
  ASSERT_TRUE(stage.encapsulation);
  EXPECT_EQ(*stage.encapsulation,
            (EncapsulationSettings{EncapsulationSettings::Type::ipip, gpu::Prefix{4, {10, 0, 9}, 24}}));
  EXPECT_EQ(stage.backends.at(0).address, (gpu::Prefix{4, {10, 0, 0, 1}, 32}));
  stage = stage_of<LoadBalanceSettings>(
      balance(with(R"("type": "gue", "source": {"ipv6": "fd00::1"}, "port": 9000, "mtu": 9000)"), six));
  EXPECT_EQ(stage.encapsulation->type, EncapsulationSettings::Type::gue);
  EXPECT_EQ(stage.encapsulation->source6->length, 128);
  EXPECT_EQ(stage.encapsulation->port, 9000);
  EXPECT_EQ(stage.encapsulation->mtu, 9000u);

  const std::string at = "/pipelines/p/0/encapsulation", backend = "/pipelines/p/0/backends/0";
  const std::string ipip = R"("type": "ipip", "source": {"ipv4": "10.0.9.1"})";
  expect_problem(balance(with(R"("type": "gre", "source": {"ipv4": "10.0.9.1"})"), four), at + "/type",
                 "\"gue\"");
  expect_problem(balance(with(R"("source": {"ipv4": "10.0.9.1"})"), four), at, "\"type\"");
  expect_problem(balance(with(R"("type": "ipip")"), four), at, "\"source\"");
  expect_problem(balance(with(R"("type": "ipip", "source": {})"), four), at + "/source", "add \"ipv4\"");
  expect_problem(balance(with(R"("type": "ipip", "source": "10.0.9.1")"), four), at + "/source", "");
  expect_problem(balance(with(R"("type": "ipip", "source": {"ipv4": "fd00::1"})"), four), at + "/source/ipv4",
                 "no IPv4 address");
  expect_problem(balance(with(R"("type": "ipip", "source": {"ipv4": "10.0.0.0/8"})"), four),
                 at + "/source/ipv4", "/16 or longer");
  expect_problem(balance(with(R"("type": "ipip", "source": {"ipv4": "224.0.0.1"})"), four),
                 at + "/source/ipv4", "an address of this host");
  expect_problem(balance(with(R"("type": "ipip", "source": {"ipv6": "::"})"), six), at + "/source/ipv6",
                 "an address of this host");
  expect_problem(balance(with(ipip + R"(, "port": 6080)"), four), at + "/port", "only gue has a port");
  expect_problem(balance(with(ipip + R"(, "mtu": 575)"), four), at + "/mtu", "from 576 to 65535");
  expect_problem(balance(with(ipip)), backend, "add its \"address\"");
  expect_problem(balance(with(ipip), six), backend + "/address", "add \"ipv6\" to the \"source\"");
  expect_problem(balance(with(ipip), R"("address": "255.255.255.255")"), backend + "/address", "no host's");
  expect_problem(balance(with(ipip + R"(, "ttl": 3)"), four), at + "/ttl", "");
}

TEST(LoadBalanceStage, IsCachedOnlyWhereNoOtherTableStandsAhead) {
  const std::string cached = balance(R"(, "algorithm": "maglev", "affinity": {}, "cache": "60s")");
  EXPECT_EQ(problem(cached), "none");
  expect_problem(R"({"stage": "conntrack"}, )" + cached, "/pipelines/p/1", "stage 1 (conntrack) has to see");
}

TEST(ConntrackStage, IsStrictWithWhatTheHostSendsAndLooseWithout) {
  const auto of = [](const std::string& members) {
    return stage_of<ConntrackSettings>(R"({"stage": "conntrack")" + members + "}");
  };
  EXPECT_TRUE(of("").egress);
  EXPECT_FALSE(of("").loose);
  EXPECT_TRUE(of(R"(, "loose": true)").egress);
  EXPECT_TRUE(of(R"(, "loose": true)").loose);
  EXPECT_FALSE(of(R"(, "egress": false)").egress);
  EXPECT_TRUE(of(R"(, "egress": false)").loose);
  EXPECT_FALSE(of(R"(, "egress": false, "loose": false)").loose);
  expect_problem(R"({"stage": "conntrack", "egress": "no"})", "/pipelines/p/0/egress", "");
}

TEST(ConntrackStage, SaysWhereATableBehindMayDropWhatItTakesUp) {
  const auto notes = [](const std::string& stages) {
    const auto policy = parsed(stages);
    return policy ? notes_on(*policy) : std::vector<std::string>{"wrong"};
  };
  const std::string heard = R"({"stage": "conntrack"})", deaf = R"({"stage": "conntrack", "egress": false})";
  const std::string limit = R"(, {"stage": "rate_limit", "per": "src", "pps": 1})",
                    sends = R"(, {"stage": "l2fwd"})";
  const auto begins = [](const std::string& note, const std::string& with) { return note.find(with) == 0; };

  const auto first = notes(deaf + R"(, {"stage": "acl", "rules": []})" + limit);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_TRUE(begins(first[0],
                     R"(pipeline "p", stage 1 (conntrack), takes up connections whose first packets )"
                     "stage 3 (rate_limit) behind it drops, and lets their answers in: put the "
                     "rate_limit in front of conntrack, or leave \"egress\" on"))
      << first[0];
  const auto sent = notes(heard + limit + sends);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_NE(sent[0].find("stage 2 (rate_limit)"), std::string::npos) << sent[0];
  EXPECT_EQ(sent[0].find("egress"), std::string::npos) << "would not do: " << sent[0];
  EXPECT_EQ(notes(heard + R"(, {"stage": "ddos", "syn_pps": 1000})" + sends).size(), 1u);

  EXPECT_TRUE(notes(heard + limit).empty()) << "the host confirms them";
  EXPECT_TRUE(notes(R"({"stage": "rate_limit", "per": "src", "pps": 1}, )" + heard + sends).empty())
      << "the cure";
  EXPECT_TRUE(notes(heard + R"(, {"stage": "rate_limit", "per": "src", "pps": 1, "excess": "pass"})" + sends)
                  .empty());
  EXPECT_TRUE(notes(heard + sends).empty());
}

TEST(ConntrackStage, SaysWhatFollowsWhereTheHostIsNotHeard) {
  const auto notes = [](const std::string& stages) {
    const auto policy = parsed(stages);
    return policy ? notes_on(*policy) : std::vector<std::string>{"wrong"};
  };
  EXPECT_TRUE(notes(R"({"stage": "conntrack"})").empty());
  const auto loose = notes(R"({"stage": "l2fwd"}, {"stage": "conntrack", "egress": false})");
  ASSERT_EQ(loose.size(), 1u);
  EXPECT_EQ(loose[0].find(R"(pipeline "p", stage 2 (conntrack), is not shown what the host sends ("egress": )"
                          R"(false), so it is loose)"),
            0u)
      << loose[0];
  const auto strict = notes(R"({"stage": "conntrack", "egress": false, "loose": false})");
  ASSERT_EQ(strict.size(), 1u);
  EXPECT_NE(strict[0].find("does not come in by an attached interface"), std::string::npos) << strict[0];
  EXPECT_EQ(strict[0].find("answers"), std::string::npos) << strict[0];
  EXPECT_TRUE(wants_egress(*parsed(R"({"stage": "conntrack", "loose": true})")));
  EXPECT_FALSE(wants_egress(*parsed(R"({"stage": "conntrack", "egress": false})")));
  EXPECT_FALSE(wants_egress(*parsed(R"({"stage": "l2fwd"})")));
  EXPECT_EQ(compile(*parsed(R"({"stage": "conntrack"})"))->header.feeds_egress, 1u);
  EXPECT_EQ(compile(*parsed(R"({"stage": "l2fwd"})"))->header.feeds_egress, 0u);
}

TEST(ConntrackStage, DropsWhatIsInvalidUnlessItSays) {
  auto stage = stage_of<ConntrackSettings>(R"({"stage": "conntrack"})");
  EXPECT_EQ(stage, ConntrackSettings{});
  EXPECT_EQ(stage.on_new, Action::next);
  EXPECT_EQ(stage.on_invalid, Action::drop);
  stage = stage_of<ConntrackSettings>(
      R"({"stage": "conntrack", "on_new": "drop", "on_invalid": "pass", "loose": false,
      "timeouts": {"established": "168h", "other": "1ms"}, "entries": 4194304, "evict": "fifo"})");
  EXPECT_FALSE(stage.loose);
  EXPECT_EQ(stage.on_new, Action::drop);
  EXPECT_EQ(stage.on_untracked, Action::drop) << "where new ones are";
  EXPECT_EQ(stage.on_invalid, Action::pass);
  EXPECT_EQ(stage.timeouts.established, 168u * 3'600'000);
  EXPECT_EQ(stage.timeouts.other, 1u);
  EXPECT_EQ(stage.table.entries, 4194304u);
  EXPECT_EQ(stage_of<ConntrackSettings>(R"({"stage": "conntrack"})").on_untracked, Action::next);
  EXPECT_EQ(stage_of<ConntrackSettings>(R"({"stage": "conntrack", "on_untracked": "drop"})").on_untracked,
            Action::drop);
  EXPECT_EQ(stage_of<ConntrackSettings>(R"({"stage": "conntrack", "on_new": "drop", "on_untracked": "pass"})")
                .on_untracked,
            Action::pass);
}

TEST(ConntrackStage, RefusesWhatMeansNothing) {
  expect_problem(R"({"stage": "conntrack", "on_new": "tx"})", "/pipelines/p/0/on_new", "\"next\"");
  expect_problem(R"({"stage": "conntrack", "on_untracked": "tx"})", "/pipelines/p/0/on_untracked",
                 "\"next\"");
  expect_problem(R"({"stage": "conntrack", "timeouts": {"tcp": "1s"}})", "/pipelines/p/0/timeouts/tcp", "");
  expect_problem(R"({"stage": "conntrack", "timeouts": {"udp": "1us"}})", "/pipelines/p/0/timeouts/udp",
                 "whole milliseconds");
  expect_problem(R"({"stage": "conntrack", "timeouts": {"udp": "169h"}})", "/pipelines/p/0/timeouts/udp",
                 "168h");
  expect_problem(R"({"stage": "conntrack", "evict": "lifo"})", "/pipelines/p/0/evict", "\"lru\"");
}

// They have to see every packet of a flow.
TEST(TableStages, NothingBehindThemIsCachedButDrops) {
  constexpr const char* kTrack = R"({"stage": "conntrack"}, )";
  expect_problem(kTrack + std::string(R"({"stage": "l2fwd", "cache": true})"), "/pipelines/p/1",
                 "stage 1 (conntrack) has to see every packet");
  EXPECT_EQ(problem(kTrack + std::string(R"({"stage": "l2fwd"})")), "none");
  EXPECT_EQ(problem(kTrack + std::string(R"({"stage": "acl", "rules": [], "cache": true})")), "none");
  EXPECT_EQ(problem(R"({"stage": "l2fwd", "cache": true}, {"stage": "conntrack"})"), "none") << "in front";
}

TEST(DdosStage, HoldsAsLongAsItCachesUnlessItSays) {
  auto stage = stage_of<DdosSettings>(R"({"stage": "ddos", "syn_pps": 20000})");
  EXPECT_EQ(stage.thresholds, (std::array<u64, 10>{20000}));
  EXPECT_EQ(stage.direction, DdosSettings::Direction::in);
  EXPECT_EQ(stage.window_ms, 1000u);
  EXPECT_EQ(stage.release_percent, 50u);
  EXPECT_EQ(stage.hold_ms, 60'000u);
  EXPECT_EQ(stage.on_detect, DdosSettings::OnDetect::drop);
  EXPECT_FALSE(stage.cache);
  EXPECT_EQ(stage.table, (gpu::TableSettings{4096, Evict::lru}));
  EXPECT_EQ(stage_of<DdosSettings>(R"({"stage": "ddos", "pps": 1, "cache": "5m"})").hold_ms, 300'000u);
  EXPECT_EQ(stage_of<DdosSettings>(R"({"stage": "ddos", "pps": 1, "cache": true})").hold_ms, 60'000u);
  EXPECT_EQ(stage_of<DdosSettings>(R"({"stage": "ddos", "pps": 1, "cache": "1s", "hold": "2s"})").hold_ms,
            2000u);
  stage = stage_of<DdosSettings>(R"({"stage": "ddos", "direction": "out", "prefix4": 24, "prefix6": 64,
      "window": "500ms", "udp_bytes_per_second": 1000000000000, "sources": 9, "release_percent": 80,
      "on_detect": "drop_sources", "share_percent": 5, "entries": 7, "evict": "refuse"})");
  EXPECT_EQ(stage.thresholds, (std::array<u64, 10>{0, 0, 1'000'000'000'000, 0, 0, 0, 0, 0, 0, 9}));
  EXPECT_EQ(stage.direction, DdosSettings::Direction::out);
  EXPECT_EQ(stage.share_percent, 5u);
}

TEST(DdosStage, RefusesWhatMeansNothing) {
  const auto with = [](const std::string& more) {
    return R"({"stage": "ddos", "syn_pps": 1, )" + more + "}";
  };
  expect_problem(R"({"stage": "ddos"})", "/pipelines/p/0", "needs a threshold");
  expect_problem(R"({"stage": "ddos", "syn_pps": 0})", "/pipelines/p/0/syn_pps", "from 1 to 1000000000");
  expect_problem(R"({"stage": "ddos", "syn_pp": 1})", "/pipelines/p/0/syn_pp", "did you mean \"syn_pps\"?");
  expect_problem(with(R"("window": "9ms")"), "/pipelines/p/0/window", "from 10ms to 1m");
  expect_problem(with(R"("window": "10500us")"), "/pipelines/p/0/window", "whole milliseconds");
  expect_problem(with(R"("hold": "9h")"), "/pipelines/p/0/hold", "from 1ms to 8h");
  expect_problem(with(R"("hold": "1s", "cache": "2s")"), "/pipelines/p/0/cache",
                 "ends with the alarm, which \"hold\" ends after \"1s\"");
  expect_problem(with(R"("cache": "9h")"), "/pipelines/p/0/cache", "at most 8h");
  expect_problem(with(R"("share_percent": 9)"), "/pipelines/p/0/share_percent", "drop_sources");
  expect_problem(with(R"("on_detect": "pass", "cache": true)"), "/pipelines/p/0/cache", "nothing to cache");
  expect_problem(with(R"("on_detect": "ban")"), "/pipelines/p/0/on_detect", "\"drop_sources\"");
  expect_problem(with(R"("direction": "both")"), "/pipelines/p/0/direction", "\"out\"");
  expect_problem(with(R"("entries": 1048577)"), "/pipelines/p/0/entries", "from 1 to 1048576");
  expect_problem(with(R"("release_percent": 101)"), "/pipelines/p/0/release_percent", "from 1 to 100");
}

// Each device would have a table of its own.
TEST(TableStages, HaveOneDevice) {
  const auto on = [](const std::string& devices, const std::string& stage) {
    const auto policy = parse(fmt::format(R"({{"version": 1, "rules": [{{"action": {{"inspect": "p"}}}}],
        "pipelines": {{"p": [{{"stage": "l2fwd"}}], "q": [{}]}}, "compute": {{"devices": [{}]}}}})",
                                          stage, devices),
                              "p.json", read_files_of({}));
    return policy ? "none" : policy.error().front().pointer + ": " + policy.error().front().message;
  };
  const std::string limit = R"({"stage": "rate_limit", "per": "src", "pps": 1})";
  const std::string found = on(R"("cuda:0", "cuda:1")", limit);
  EXPECT_EQ(found.substr(0, 19), "/compute/devices: p") << found;
  EXPECT_NE(found.find("pipeline \"q\" remembers packets (stage 1 (rate_limit)), and each of 2 devices"),
            std::string::npos)
      << found;
  EXPECT_NE(on(R"("cpu", "cpu")", R"({"stage": "conntrack"})"), "none");
  EXPECT_EQ(on(R"("cuda:0")", limit), "none");
  EXPECT_EQ(on(R"("cuda:0", "cuda:1")", R"({"stage": "l2fwd"})"), "none");
}

TEST(DecapsulateStage, SaysWhatGetsInAndIsNotMirroredTo) {
  const std::string stage = R"({"stage": "decapsulate", "addresses": ["10.0.0.1", "fd00::1"]})";
  const auto read = stage_of<gpu::DecapsulateSettings>(stage);
  EXPECT_EQ(read.type, gpu::DecapsulateSettings::Type::any);
  EXPECT_EQ(read.port, 6080);
  EXPECT_EQ(read.action, Action::pass);
  ASSERT_EQ(read.addresses.size(), 2u);
  const auto notes = notes_on(*parsed(stage));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("the tunnel's other ends in \"src\""), std::string::npos) << notes[0];
  EXPECT_NE(problem(stage, R"({"mirror": "p"})").find("change them (stage 1 (decapsulate))"),
            std::string::npos);
  const auto with = [](const std::string& more) { return R"({"stage": "decapsulate", )" + more + "}"; };
  expect_problem(with(R"("type": "ipip", "addresses": "10.0.0.1", "port": 6080)"), "/pipelines/p/0/port",
                 "only gue has a port");
  expect_problem(with(R"("type": "gue")"), "/pipelines/p/0", "\"addresses\"");
  expect_problem(with(R"("addresses": "10.0.0.0/24")"), "/pipelines/p/0/addresses", "no network");
  expect_problem(with(R"("addresses": [])"), "/pipelines/p/0/addresses", "empty");
  expect_problem(with(R"("addresses": "10.0.0.1", "action": "drop")"), "/pipelines/p/0/action", "\"pass\"");
  std::string many;
  for (u32 i = 0; i < 17; i++) many += fmt::format("{}\"10.0.0.{}\"", many.empty() ? "" : ", ", i);
  expect_problem(with("\"addresses\": [" + many + "]"), "/pipelines/p/0/addresses", "1 to 16");
}

TEST(TableStages, AMirrorLeadsToDdosAlone) {
  const std::string mirror = R"({"mirror": "p"})", ddos = R"({"stage": "ddos", "syn_pps": 1, "cache": "5m"})";
  EXPECT_EQ(problem(ddos, mirror), "none");
  EXPECT_NE(problem(ddos + R"(, {"stage": "rate_limit", "per": "src", "pps": 1})", mirror)
                .find("stage 2 (rate_limit)"),
            std::string::npos);
  const std::string found = problem(R"({"stage": "conntrack"})", R"({"mirror": "p"})");
  EXPECT_NE(found.find("stage 1 (conntrack)"), std::string::npos) << found;
  EXPECT_EQ(found.substr(0, 8), "/rules/0") << found;
}

}  // namespace
}  // namespace xdpgpu::policy
