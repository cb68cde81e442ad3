// SPDX-License-Identifier: MIT
//
// config/policy.schema.json and the parser say the same: the same keys, words, ranges and defaults. And
// the policies in config/examples are good ones.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "userspace/policy/classify.hpp"
#include "userspace/policy/policy.hpp"
#include "userspace/policy/stage_schema.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::policy {
namespace {

using Json = nlohmann::ordered_json;
const std::string kConfig = std::string(XDPGPU_SOURCE_DIR) + "/config/";

const Json& schema() {
  static const Json all = Json::parse(read_policy_text(kConfig + "policy.schema.json").value());
  return all;
}

// A policy in which every key stands at least once.
Json specimen() {
  return Json::parse(R"({
    "$schema": "x", "version": 1, "description": "x", "default": "drop", "on_failure": "drop",
    "on_overload": {"known": "keep", "new": "drop"},
    "fragments": "reassemble", "overlapping_fragments": "first",
    "malformed": "inspect",
    "management": [{"description": "x", "src": "10.0.0.1", "dst": "10.0.0.2", "proto": "tcp", "src_port": 1, "dst_port": 2, "vlan": 3,
                    "family": "ipv4"}],
    "rates": {"arp": {"pps": 1000000, "burst": 2000}, "nd": {"pps": 1}, "dhcp": {"pps": 1}, "lacp": {"pps": 1},
              "lldp": {"pps": 1}, "stp": {"pps": 1}, "management_answers": {"pps": 1}},
    "lists": {"file": {"file": "l.txt", "description": "x"}, "inline": ["::1"],
              "told": {"prefixes": ["::1"], "description": "x"},
              "names": {"type": "domain", "file": "n.txt", "subdomains": true, "description": "x"},
              "named": {"type": "domain", "names": ["example.com"], "description": "x"}},
    "rules": [
      {"name": "a", "description": "x", "action": {"inspect": "p"}, "priority": 5,
       "match": {"src": "10.0.0.1", "dst": "10.0.0.2", "proto": "tcp", "src_port": 1, "dst_port": 2,
                 "tcp_flags": "syn", "vlan": 3, "family": "ipv4"}},
      {"limit": {"per": "src", "pps": 1000000, "burst": 2000}, "match": {"control": "arp"}},
      {"match": {"proto": "udp"}, "action": {"mirror": "watch"}}
    ],
    "pipelines": {"p": [
      {"stage": "acl", "description": "x", "default": "pass", "cache": true, "rules": [
        {"name": "a", "action": {"redirect": "eth1"},
         "match": {"src": "10.0.0.1", "dst": "10.0.0.2", "proto": "tcp", "src_port": 1, "dst_port": 2,
                   "tcp_flags": "syn", "vlan": 3}}]},
      {"stage": "load_balance", "description": "x", "algorithm": "hash", "cache": "1s", "backends": [
        {"name": "b", "mac": "52:54:00:00:00:01", "weight": 1, "drain": false, "to": "eth1"},
        {"name": "c", "mac": "52:54:00:00:00:02"}]},
      {"stage": "l2fwd", "description": "x", "to": "eth1", "cache": false},
      {"stage": "reputation", "description": "x", "of": "either", "default": "next", "cache": false,
       "lists": [{"list": "@file", "action": "drop"}]},
      {"stage": "forward", "description": "x", "default": "drop", "cache": "1s",
       "next_hops": {"a": {"mac": "52:54:00:00:00:01", "src_mac": "52:54:00:00:00:02", "mtu": 1500},
                     "b": {"mac": "52:54:00:00:00:03", "src_mac": "52:54:00:00:00:04", "to": "eth1"}},
       "routes": [{"prefix": ["10.0.0.0/8", "::/0"], "next_hop": "a"}, {"file": "r.txt"}]},
      {"stage": "rate_limit", "description": "x", "per": "src", "prefix4": 24, "prefix6": 56, "pps": 1000000, "burst": 2000,
       "bytes_per_second": 100000000, "burst_bytes": 2000, "excess": "pass", "entries": 1, "evict": "fifo"},
      {"stage": "conntrack", "description": "x", "on_new": "drop", "on_invalid": "next", "on_untracked": "pass", "egress": false, "loose": false, "entries": 1, "evict": "refuse",
       "timeouts": {"syn_sent": "1s", "syn_received": "1s", "established": "1s", "fin_wait": "1s", "time_wait": "1s",
                    "closed": "1s", "udp": "1s", "udp_replied": "1s", "icmp": "1s", "other": "1s"}},
      {"stage": "load_balance", "algorithm": "maglev", "table_size": 251, "key_file": "k.txt",
       "affinity": {"per": "flow", "idle": "1s", "entries": 1, "evict": "lru"},
       "backends": [{"name": "b", "mac": "52:54:00:00:00:01"}]},
      {"stage": "load_balance", "health": {"port": 80, "interval": "1s", "timeout": "1s", "fall": 1, "rise": 1},
       "backends": [{"mac": "52:54:00:00:00:01", "address": "10.0.0.1"}]},
      {"stage": "ddos", "description": "x", "direction": "in", "prefix4": 32, "prefix6": 128, "window": "1s", "syn_pps": 1, "udp_pps": 1,
       "udp_bytes_per_second": 1, "dns_pps": 1, "dns_bytes_per_second": 1, "icmp_pps": 1, "pps": 1, "bytes_per_second": 1,
       "new_flows_per_second": 1, "sources": 1, "release_percent": 50, "hold": "1m", "on_detect": "drop_sources",
       "share_percent": 10, "cache": "1s", "entries": 1, "evict": "lru"},
      {"stage": "load_balance", "encapsulation": {"type": "gue", "source": {"ipv4": "10.0.0.0/24", "ipv6": "fd00::1"},
                                                  "port": 6080, "mtu": 1500},
       "backends": [{"mac": "52:54:00:00:00:01", "address": "10.0.0.1"}]},
      {"stage": "decapsulate", "description": "x", "type": "gue", "port": 6080, "addresses": "10.0.0.9",
       "action": {"redirect": "eth1"}},
      {"stage": "domains", "description": "x", "ports": [53, 5353], "default": "pass", "malformed": "next",
       "tcp": "pass", "lists": [{"list": "@named", "action": "drop"}]},
      {"stage": "signatures", "description": "x", "rules": ["s.rules"], "vars": {"HOME_NET": ["10.0.0.0/8", "!10.1.0.0/16"], "P": 80},
       "classification": "c.config", "disable": "d.conf", "enable": "d.conf", "modify": "m.conf", "drop": "d.conf",
       "threshold": "t.config", "work": 256, "limit": "pass", "streams": 1, "on_gap": "pass", "on_encoded": "drop", "evict": "lru",
       "inspect": {"depth": 65536, "window": "4KB", "midstream": true, "http": false, "answers": false, "idle": "1s"}}
    ], "watch": [{"stage": "acl", "rules": [], "default": "drop"}],
      "inside": {"description": "x", "inner": true, "stages": [{"stage": "acl", "rules": []}]}},
    "io": {"mode": "auto", "ring_size": 64, "frames_per_queue": 128, "huge_pages": false, "busy_poll": true,
           "heartbeat": "1s", "spin": "1us", "busy_poll_us": 20, "busy_poll_budget": 64, "mirror_slots": 64, "mirror_bytes": 64},
    "compute": {"device": "auto", "mode": "auto", "frames": "auto", "batch": 1, "max_wait": "50us", "standby": "cpu",
                "retry": "1s"},
    "log": {"outputs": [{"file": "/x"}, {"socket": "/y"}, {"journald": true}], "events": ["alert", "drop", "dns", "program", "stats"],
            "rate": 1, "alert_rate": 1, "payload": 0, "stats_every": "1s"}
  })");
}

// The specimen in which `key` of "io" or "compute" stands, too: some of their keys exclude each other.
Json specimen_with(std::string_view key) {
  Json document = specimen();
  if (key == "burst" || key == "link_gbps") {
    document["io"].erase("frames_per_queue");
    document["io"]["burst"] = "1ms";
  }
  if (key == "link_gbps") document["io"]["link_gbps"] = 10;
  if (key == "devices") {
    document["compute"].erase("device");
    document["compute"]["devices"] = Json::array({"cuda:0", "cuda:1"});
    // Pipelines that remember packets have one.
    Json& stages = document["pipelines"]["p"];
    for (std::size_t i = stages.size(); i-- > 0;)
      if (stages[i]["stage"] == "rate_limit" || stages[i]["stage"] == "conntrack" ||
          stages[i]["stage"] == "ddos" || stages[i].contains("affinity"))
        stages.erase(i);
      else if (stages[i].contains("streams"))
        for (const char* one : {"streams", "inspect", "on_gap", "evict"}) stages[i].erase(one);
  }
  return document;
}

Diagnostics problems(const Json& document) {
  auto policy = parse(document.dump(), "p.json",
                      read_files_of({{"l.txt", ""},
                                     {"n.txt", ""},
                                     {"r.txt", "10.1.0.0/16 b\n"},
                                     {"k.txt", std::string(32, '5')},
                                     {"s.rules", "alert udp any any -> any $P (content:\"x\"; sid:1;)\n"},
                                     {"c.config", ""},
                                     {"d.conf", "7\n"},
                                     {"m.conf", ""},
                                     {"t.config", "suppress gen_id 1, sig_id 7\n"}}));
  return policy ? Diagnostics{} : policy.error();
}
std::string text_of(const Diagnostics& found) {
  std::string all;
  for (const auto& d : found) all += d.sentence() + "\n";
  return all;
}

// The schema's properties of a definition.
Words properties_of(const char* definition) {
  static std::map<std::string, std::vector<std::string>> names;
  static std::map<std::string, std::vector<std::string_view>> views;
  auto& view = views[definition];
  if (view.empty()) {
    for (const auto& [key, property] : schema().at("$defs").at(definition).at("properties").items())
      names[definition].push_back(key);
    view.assign(names[definition].begin(), names[definition].end());
  }
  return view;
}

// Each object of the schema: where its keys stand in the specimen, and the parser's table of them; a stage's
// are of its table of fields, as the schema's are.
struct ObjectKind {
  const char* definition;  // in $defs; empty: the root
  std::vector<std::string> specimens;
  Words keys;
};
const std::vector<ObjectKind>& object_kinds() {
  static const std::vector<ObjectKind> kinds{
      {"", {""}, keys::kPolicy},
      {"known", {"/on_overload"}, keys::kKnown},
      {"match", {"/rules/0/match", "/rules/1/match"}, keys::kMatch},
      {"management", {"/management/0"}, keys::kManagement},
      {"listFile", {"/lists/file"}, keys::kListFile},
      {"listPrefixes", {"/lists/told"}, keys::kListPrefixes},
      {"domainFile", {"/lists/names"}, keys::kDomainFile},
      {"domainNames", {"/lists/named"}, keys::kDomainNames},
      {"rule", {"/rules/0", "/rules/1"}, keys::kRule},
      {"limit", {"/rules/1/limit"}, keys::kLimit},
      {"rates", {"/rates"}, keys::kRates},
      {"rate", {"/rates/arp"}, keys::kRate},
      {"inspect", {"/rules/0/action"}, keys::kInspect},
      {"mirror", {"/rules/2/action"}, keys::kMirror},
      {"pipeline", {"/pipelines/inside"}, keys::kPipeline},
      {"acl", {"/pipelines/p/0"}, properties_of("acl")},
      {"acl_rules", {"/pipelines/p/0/rules/0"}, properties_of("acl_rules")},
      {"acl_rules_match", {"/pipelines/p/0/rules/0/match"}, properties_of("acl_rules_match")},
      {"redirect", {"/pipelines/p/0/rules/0/action"}, properties_of("redirect")},
      {"load_balance",
       {"/pipelines/p/1", "/pipelines/p/7", "/pipelines/p/8", "/pipelines/p/10"},
       properties_of("load_balance")},
      {"load_balance_encapsulation",
       {"/pipelines/p/10/encapsulation"},
       properties_of("load_balance_encapsulation")},
      {"load_balance_encapsulation_source",
       {"/pipelines/p/10/encapsulation/source"},
       properties_of("load_balance_encapsulation_source")},
      {"load_balance_affinity", {"/pipelines/p/7/affinity"}, properties_of("load_balance_affinity")},
      {"load_balance_health", {"/pipelines/p/8/health"}, properties_of("load_balance_health")},
      {"load_balance_backends",
       {"/pipelines/p/1/backends/0", "/pipelines/p/8/backends/0"},
       properties_of("load_balance_backends")},
      {"l2fwd", {"/pipelines/p/2"}, properties_of("l2fwd")},
      {"reputation", {"/pipelines/p/3"}, properties_of("reputation")},
      {"reputation_lists", {"/pipelines/p/3/lists/0"}, properties_of("reputation_lists")},
      {"forward", {"/pipelines/p/4"}, properties_of("forward")},
      {"forward_next_hops",
       {"/pipelines/p/4/next_hops/a", "/pipelines/p/4/next_hops/b"},
       properties_of("forward_next_hops")},
      {"route", {"/pipelines/p/4/routes/0"}, keys::kRoute},
      {"routeFile", {"/pipelines/p/4/routes/1"}, keys::kRouteFile},
      {"rate_limit", {"/pipelines/p/5"}, properties_of("rate_limit")},
      {"conntrack", {"/pipelines/p/6"}, properties_of("conntrack")},
      {"conntrack_timeouts", {"/pipelines/p/6/timeouts"}, properties_of("conntrack_timeouts")},
      {"ddos", {"/pipelines/p/9"}, properties_of("ddos")},
      {"decapsulate", {"/pipelines/p/11"}, properties_of("decapsulate")},
      {"domains", {"/pipelines/p/12"}, properties_of("domains")},
      {"domains_lists", {"/pipelines/p/12/lists/0"}, properties_of("domains_lists")},
      {"signatures_inspect", {"/pipelines/p/13/inspect"}, properties_of("signatures_inspect")},
      {"io", {"/io"}, keys::kIo},
      {"compute", {"/compute"}, keys::kCompute},
      {"log", {"/log"}, keys::kLog},
      {"logFile", {"/log/outputs/0"}, keys::kLogFile},
      {"logSocket", {"/log/outputs/1"}, keys::kLogSocket},
      {"logJournald", {"/log/outputs/2"}, keys::kLogJournald},
  };
  return kinds;
}
const Json& definition(const std::string& name) {
  return name.empty() ? schema() : schema().at("$defs").at(name);
}

Json::json_pointer place_of(const ObjectKind& kind, const std::string& key) {
  for (const auto& at : kind.specimens)
    if (auto place = Json::json_pointer(at) / key; specimen_with(key).contains(place)) return place;
  ADD_FAILURE() << "the specimen lacks " << kind.definition << "." << key;
  return Json::json_pointer();
}

// Follows $ref and lays the property's own keys over it.
Json resolved(const Json& schema, Json property) {
  while (property.contains("$ref")) {
    Json target = schema.at(Json::json_pointer(property["$ref"].get<std::string>().substr(1)));
    property.erase("$ref");
    target.update(property);
    property = target;
  }
  return property;
}

template <class F>
void each_property(F&& visit) {
  u32 properties = 0;
  for (const auto& kind : object_kinds())
    for (const auto& [key, property] : definition(kind.definition).at("properties").items()) {
      SCOPED_TRACE(std::string(kind.definition) + "." + key);
      visit(kind, key, resolved(schema(), property));
      ++properties;
    }
  EXPECT_GT(properties, 60u);
}

// What stands in config/ of the stages is what their tables of fields say.
TEST(Schema, TheStagesAreUpToDate) {
  constexpr const char* kCure = "run build/release/bin/stage-tables config, and commit what it writes";
  const std::string text = read_policy_text(kConfig + "policy.schema.json").value();
  EXPECT_TRUE(with_stages(text).value() == text) << kCure;
  EXPECT_TRUE(read_policy_text(kConfig + "stages.md").value() == stages_page()) << kCure;
  for (const auto name : gpu::kStageNames) {
    EXPECT_TRUE(schema()["$defs"].contains(std::string(name))) << name;
    EXPECT_THAT(stages_page(), testing::HasSubstr(fmt::format("\n## {}\n", name)));
  }
}

TEST(Schema, HasTheParsersKeys) {
  for (const auto& kind : object_kinds()) {
    std::vector<std::string> keys;
    for (const auto& [key, property] : definition(kind.definition).at("properties").items())
      keys.push_back(key);
    std::vector<std::string> known(kind.keys.begin(), kind.keys.end());
    EXPECT_THAT(keys, testing::UnorderedElementsAreArray(known)) << "in " << kind.definition;
  }
}

// A stage's definitions, named after it, are made of its table of fields (TheStagesAreUpToDate), each key of
// which goes through the real commands (tests/netns/settings_test.cpp).
bool is_a_stage_s(const std::string& definition) {
  return std::any_of(gpu::kStageNames.begin(), gpu::kStageNames.end(), [&](std::string_view stage) {
    return definition == stage || definition.starts_with(std::string(stage) + "_");
  });
}

TEST(Schema, HasNoObjectThatTheParserDoesNotKnow) {
  std::set<std::string> known;
  for (const auto& kind : object_kinds()) known.insert(kind.definition);
  const Json& all = schema();
  for (const auto& [name, def] : all["$defs"].items()) {
    if (!def.contains("properties")) continue;
    EXPECT_TRUE(known.contains(name) || is_a_stage_s(name)) << name;
    EXPECT_EQ(def["additionalProperties"], false) << name;
  }
  EXPECT_EQ(all["additionalProperties"], false);
}

TEST(Schema, HasTheParsersWords) {
  static constexpr std::array<std::string_view, 4> kStageActions{"next", "drop", "pass", "tx"};
  const std::map<std::string, Words> words{{"decision", words::kDo},
                                           {"fragments", words::kFragments},
                                           {"overlapping", words::kOverlapping},
                                           {"malformed", words::kMalformed},
                                           {"actionWord", words::kAction},
                                           {"limitPer", words::kLimitPer},
                                           {"family", words::kFamily},
                                           {"control", words::kControl},
                                           {"vlanWord", words::kVlan},
                                           {"stageActionWord", kStageActions},
                                           {"ioMode", words::kIoMode},
                                           {"computeMode", words::kComputeMode},
                                           {"computeFrames", words::kComputeFrames},
                                           {"standby", words::kStandby},
                                           {"logEvent", words::kLogEvents}};
  std::vector<std::string> protocols;
  protocols.reserve(kProtocols.size());
  for (const auto& protocol : kProtocols) protocols.emplace_back(protocol.name);
  const Json& all = schema();
  for (const auto& [name, def] : all["$defs"].items()) {
    if (!def.contains("enum")) continue;
    auto listed = def["enum"].get<std::vector<std::string>>();
    if (name == "protocolName") {
      EXPECT_EQ(listed, protocols);
      continue;
    }
    ASSERT_TRUE(words.contains(name)) << name;
    EXPECT_EQ(listed, std::vector<std::string>(words.at(name).begin(), words.at(name).end())) << name;
  }
  for (const auto& [name, list] : words) EXPECT_TRUE(all["$defs"].contains(name)) << name;
  for (auto flag : words::kTcpFlags)
    EXPECT_THAT(all["$defs"]["tcpFlags"]["pattern"].get<std::string>(),
                testing::HasSubstr(std::string(flag)));
}

TEST(Schema, ReferencesLeadSomewhereAndEverythingIsUsed) {
  const Json& all = schema();
  std::set<std::string> used;
  auto visit = [&](auto&& self, const Json& node) -> void {
    if (node.is_object() && node.contains("$ref")) {
      auto target = node["$ref"].get<std::string>();
      EXPECT_TRUE(all.contains(Json::json_pointer(target.substr(1)))) << target;
      used.insert(target.substr(std::string("#/$defs/").size()));
    }
    if (node.is_structured())
      for (const auto& child : node) self(self, child);
  };
  visit(visit, all);
  for (const auto& [name, def] : all["$defs"].items()) EXPECT_TRUE(used.contains(name)) << name;
}

TEST(Schema, EveryPropertyIsExplained) {
  each_property([](const ObjectKind&, const std::string& key, const Json& property) {
    bool speaks_for_itself = key == "stage" || key == "rules" || key == "backends" || key == "redirect";
    EXPECT_TRUE(speaks_for_itself || property.contains("description"));
  });
}

TEST(Specimen, IsAccepted) {
  for (const char* key : {"", "burst", "link_gbps", "devices"})
    EXPECT_THAT(text_of(problems(specimen_with(key))), testing::IsEmpty()) << key;
}

TEST(Specimen, IoKeysThatExcludeEachOtherAreTheSchemas) {
  const Json& io = definition("io");
  Json both = specimen();
  for (const auto& key : io.at("not").at("required"))
    both["io"][key] = key == "burst" ? Json("1ms") : Json(8192);
  EXPECT_THAT(text_of(problems(both)), testing::HasSubstr("leave one of them out"));
  Json alone = specimen();
  for (const auto& [key, needed] : io.at("dependentRequired").items()) {
    EXPECT_EQ(needed, Json::array({"burst"}));
    alone["io"][key] = 10;
  }
  EXPECT_THAT(text_of(problems(alone)), testing::HasSubstr("only matters for \"burst\""));
}

TEST(Specimen, ComputeKeysThatExcludeEachOtherAreTheSchemas) {
  EXPECT_EQ(definition("compute").at("not").at("required"), Json::array({"device", "devices"}));
  Json both = specimen_with("devices");
  both["compute"]["device"] = "auto";
  EXPECT_THAT(text_of(problems(both)), testing::HasSubstr("leave one of them out"));
}

TEST(Specimen, ANextHopBehindAnInterfaceNeedsItsAddressAsTheSchemaSays) {
  Json document = specimen();
  for (const auto& [key, needed] : definition("forward_next_hops").at("dependentRequired").items())
    for (const auto& one : needed)
      document["pipelines"]["p"][4]["next_hops"]["b"].erase(one.get<std::string>());
  EXPECT_THAT(text_of(problems(document)), testing::HasSubstr("needs \"src_mac\""));
}

TEST(Specimen, AsManyDevicesAsTheSchemaSays) {
  const Json& devices = definition("compute").at("properties").at("devices");
  const auto refused = [](u32 count) {
    Json document = specimen_with("devices");
    document["compute"]["devices"] = Json::array();
    for (u32 i = 0; i < count; ++i) document["compute"]["devices"].push_back(fmt::format("cuda:{}", i));
    return !problems(document).empty();
  };
  const u32 least = devices.at("minItems"), most = devices.at("maxItems");
  EXPECT_FALSE(refused(least));
  EXPECT_FALSE(refused(most));
  EXPECT_TRUE(refused(least - 1));
  EXPECT_TRUE(refused(most + 1));
}

// As many elements or members as the schema allows are read, and not one more.
TEST(Specimen, CountsAreTheSchemas) {
  using Element = std::function<std::pair<std::string, Json>(u32)>;  // and its name, where it has one
  struct Counted {
    const char* schema;
    const char* place;
    const char* policy;
    Element element;
  };
  const auto element = [](const char* text) {
    return [made = Json::parse(text)](u32 number) { return std::pair(fmt::format("n{}", number), made); };
  };
  const auto listed = [](u32 number) {
    return std::pair("", Json({{"list", fmt::format("@n{}", number)}, {"action", "drop"}}));
  };
  const std::vector<Counted> all{
      {"/properties/management", "/management", "{}", element(R"({"src_port": 1})")},
      {"/properties/lists", "/lists", "{}", element("[]")},
      {"/properties/rules", "/rules", "{}", element(R"({"action": "drop"})")},
      {"/properties/pipelines", "/pipelines", "{}", element(R"([{"stage": "l2fwd"}])")},
      {"/$defs/stages", "/pipelines/p", "{}", element(R"({"stage": "l2fwd"})")},
      {"/$defs/stages", "/pipelines/p/stages", "{}", element(R"({"stage": "l2fwd"})")},
      {"/$defs/acl/properties/rules", "/pipelines/p/0/rules", R"({"pipelines": {"p": [{"stage": "acl"}]}})",
       element(R"({"action": "drop"})")},
      {"/$defs/load_balance/properties/backends", "/pipelines/p/0/backends",
       R"({"pipelines": {"p": [{"stage": "load_balance"}]}})", element(R"({"mac": "52:54:00:00:00:01"})")},
      {"/$defs/reputation/properties/lists", "/pipelines/p/0/lists",
       R"({"pipelines": {"p": [{"stage": "reputation"}]}})", listed},
      {"/$defs/forward/properties/next_hops", "/pipelines/p/0/next_hops",
       R"({"pipelines": {"p": [{"stage": "forward", "routes": []}]}})",
       element(R"({"mac": "52:54:00:00:00:01"})")}};
  for (const auto& one : all) {
    SCOPED_TRACE(one.schema);
    const Json& bounds = schema().at(Json::json_pointer(one.schema));
    const bool named = bounds.at("type") == "object";
    const u32 most = bounds.at(named ? "maxProperties" : "maxItems");
    Json document = Json::parse(one.policy);
    document["version"] = 1;
    if (one.schema == std::string("/$defs/reputation/properties/lists"))
      for (u32 i = 0; i <= most; ++i) document["lists"][fmt::format("n{}", i)] = Json::array();
    Json& at = document[Json::json_pointer(one.place)];
    at = named ? Json::object() : Json::array();
    const auto add = [&](u32 number) {
      auto [name, made] = one.element(number);
      if (named)
        at[name] = std::move(made);
      else
        at.push_back(std::move(made));
    };
    for (u32 i = 0; i < most; ++i) add(i);
    EXPECT_THAT(text_of(problems(document)), testing::IsEmpty());
    add(most);
    EXPECT_THAT(text_of(problems(document)), testing::HasSubstr(fmt::format("{}: ", one.place)));
  }
}

// A value of the wrong type must be noticed where it stands: the parser reads every key it lists.
TEST(Specimen, EveryKeyIsRead) {
  each_property([](const ObjectKind& kind, const std::string& key, const Json&) {
    auto place = place_of(kind, key);
    Json document = specimen_with(key);
    document[place] = Json::parse("[[[]]]");
    auto found = problems(document);
    bool noticed = std::any_of(found.begin(), found.end(),
                               [&](const Diagnostic& d) { return d.pointer.starts_with(place.to_string()); });
    EXPECT_TRUE(noticed) << text_of(found);
  });
}

TEST(Specimen, RequiredKeysAreRequired) {
  for (const auto& kind : object_kinds()) {
    std::set<std::string> required;
    for (const auto& key : definition(kind.definition).value("required", std::vector<std::string>()))
      required.insert(key);
    for (auto key : kind.keys) {
      std::string name(key);
      if (std::string_view(kind.definition) == "rule" && (name == "action" || name == "limit"))
        continue;  // oneOf
      if (std::string_view(kind.definition) == "rate_limit" && (name == "pps" || name == "bytes_per_second"))
        continue;  // the burst beside it needs it
      if (std::string_view(kind.definition) == "load_balance_encapsulation_source")
        continue;  // the backend's address needs it
      if (std::string_view(kind.definition) == "load_balance_backends" && name == "address")
        continue;  // health needs it
      auto place = place_of(kind, name);
      Json document = specimen_with(name);
      document[place.parent_pointer()].erase(name);
      if (name == "health") document["pipelines"]["p"][8]["backends"][0].erase("address");  // for it
      // Which looks at it alone.
      if (std::string_view(kind.definition) == "ddos" && name == "on_detect")
        document["pipelines"]["p"][9].erase("share_percent");
      if (name == "encapsulation")
        document["pipelines"]["p"][10]["backends"][0].erase("address");  // likewise
      if (name == "pipelines") {
        document["rules"][0]["action"] = document["rules"][2]["action"] = "drop";
        document["rules"][0].erase("priority");  // which goes with "inspect"
      }
      if (name == "lists" && std::string_view(kind.definition).empty())
        for (const std::size_t stage : {12, 3}) document["pipelines"]["p"].erase(stage);  // which name some
      // An empty condition is what "control" and the sole keys of some objects leave behind: allowed.
      EXPECT_EQ(problems(document).empty(), !required.contains(name))
          << kind.definition << "." << name << "\n"
          << text_of(problems(document));
    }
  }
}

TEST(Specimen, RangesAreTheSchemas) {
  u32 ranges = 0;
  each_property([&](const ObjectKind& kind, const std::string& key, const Json& property) {
    if (!property.contains("minimum")) return;
    ++ranges;
    auto place = place_of(kind, key);
    auto refused = [&](const Json& value) {
      Json document = specimen_with(key);
      document[place] = value;
      return !problems(document).empty();
    };
    auto least = property["minimum"].get<std::int64_t>();
    auto most = property["maximum"].get<std::int64_t>();
    EXPECT_FALSE(refused(least));
    EXPECT_FALSE(refused(most));
    EXPECT_TRUE(refused(least - 1));
    EXPECT_TRUE(refused(most + 1));
    EXPECT_TRUE(refused(double(least) + 0.5));
    EXPECT_TRUE(refused(std::to_string(least)));
  });
  EXPECT_EQ(ranges, 47u);
}

TEST(Specimen, WordsAreTheSchemas) {
  u32 words = 0;
  each_property([&](const ObjectKind& kind, const std::string& key, const Json& property) {
    if (!property.contains("enum")) return;
    ++words;
    auto place = place_of(kind, key);
    Json document = specimen();
    for (const auto& word : property["enum"]) {
      document[place] = word;
      if (key == "family" && word == "ipv6") continue;             // the specimen's addresses are IPv4
      if (key == "per" && word == "flow") continue;                // the specimen has prefixes
      if (key == "on_detect" && word != "drop_sources") continue;  // and a share of sources
      if (key == "type" && word == "ipip") continue;               // the specimen has a port
      EXPECT_THAT(text_of(problems(document)), testing::IsEmpty()) << word;
    }
    document[place] = "bogus";
    EXPECT_FALSE(problems(document).empty());
  });
  EXPECT_GE(words, 12u);
}

TEST(Specimen, DefaultsAreTheSchemas) {
  Json shown = Json::parse(to_json(parse(R"({"version": 1})", "p", read_files_of({})).value()));
  const Json& all = schema();
  u32 defaults = 0;
  for (const char* where : {"", "io", "compute"}) {
    const Json have = *where == '\0' ? shown : shown[where];
    for (const auto& [key, property] : definition(where).at("properties").items())
      if (Json full = resolved(all, property); full.contains("default")) {
        EXPECT_EQ(full["default"], have[key]) << where << "." << key;
        ++defaults;
      }
  }
  EXPECT_GE(defaults, 13u);
}

// ---- Examples ---------------------------------------------------------------------------------------
std::vector<std::string> examples() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kConfig + "examples"))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}
class Examples : public testing::TestWithParam<std::string> {
 protected:
  Policy policy() {
    std::string path = kConfig + "examples/" + GetParam() + ".json";
    auto policy = parse(read_policy_text(path).value(), path, read_files_from(kConfig + "examples"));
    EXPECT_TRUE(policy) << text_of(policy.error());
    return policy.value_or(Policy{});
  }
};
TEST_P(Examples, AreAcceptedAndCompiled) {
  Policy policy = this->policy();
  EXPECT_FALSE(policy.description.empty()) << "an example explains itself";
  EXPECT_FALSE(policy.management.empty()) << "an example shows how not to lock oneself out";
  EXPECT_FALSE(policy.rules.empty());
  auto tables = compile(policy);
  ASSERT_TRUE(tables) << text_of(tables.error());
  EXPECT_EQ(tables->header.rule_count, policy.rules.size() + 2 * policy.management.size());
}
INSTANTIATE_TEST_SUITE_P(Config, Examples, testing::ValuesIn(examples()), [](const auto& name) {
  std::string clean = name.param;
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return std::isalnum(static_cast<u8>(c)) == 0; }, '_');
  return clean;
});

TEST(Firewall, DecidesAsItsDescriptionSays) {
  std::string path = kConfig + "examples/firewall.json";
  Policy policy = parse(read_policy_text(path).value(), path, read_files_from(kConfig + "examples")).value();
  Tables tables = compile(policy).value();
  auto first = [&](const PacketFacts& packet) {
    auto found = classify(tables, packet);
    return found.empty() ? std::string("default") : tables.rule_names[found[0]];
  };
  PacketFacts packet{.family = 4,
                     .src = {203, 0, 113, 200},
                     .dst = {192, 0, 2, 1},
                     .src_port = 999,
                     .dst_port = 443,
                     .l4 = XG_L4_V4_TCP + 0x02};
  EXPECT_EQ(first(packet), "known bad");
  packet.src[0] = 8;
  EXPECT_EQ(first(packet), "new connections");
  packet.l4 = XG_L4_V4_TCP + 0x10;
  EXPECT_EQ(first(packet), "web");
  packet.dst_port = 25;
  EXPECT_EQ(first(packet), "default");
  PacketFacts ssh{.family = 4,
                  .src = {198, 51, 100, 7},
                  .dst = {192, 0, 2, 1},
                  .src_port = 999,
                  .dst_port = 22,
                  .l4 = XG_L4_V4_TCP + 0x02};
  EXPECT_EQ(first(ssh), "management 1");
  EXPECT_EQ(first({.l4 = l4_of(0, 0, false, 0, XG_CONTROL_STP, tables.header.control_named)}),
            "no switch talk from outside");
}

}  // namespace
}  // namespace xdpgpu::policy
