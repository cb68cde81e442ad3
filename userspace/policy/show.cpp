// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "userspace/policy/policy.hpp"
#include "userspace/policy/routes.hpp"
#include "userspace/policy/values.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::policy {
namespace {

using Json = nlohmann::ordered_json;

// One value stands alone, several in an array.
Json one_or_more(Json values) { return values.size() == 1 ? values[0] : std::move(values); }

Json addresses(const std::vector<Prefix>& prefixes, const std::vector<std::string>& lists) {
  Json values = Json::array();
  for (const auto& name : lists) values.push_back("@" + name);
  for (const auto& prefix : prefixes) values.push_back(write_prefix(prefix));
  return one_or_more(std::move(values));
}

Json ports(const std::vector<PortRange>& ranges) {
  Json values = Json::array();
  for (const auto& range : ranges) {
    if (range.first == range.last)
      values.push_back(range.first);
    else
      values.push_back(std::to_string(range.first) + "-" + std::to_string(range.last));
  }
  return one_or_more(std::move(values));
}

Json match_json(const Match& match) {
  Json json = Json::object();
  if (!match.src.empty() || !match.src_lists.empty()) json["src"] = addresses(match.src, match.src_lists);
  if (!match.dst.empty() || !match.dst_lists.empty()) json["dst"] = addresses(match.dst, match.dst_lists);
  if (match.family) json["family"] = words::kFamily[*match.family == 4 ? 0 : 1];
  if (!match.protocols.empty()) {
    Json values = Json::array();
    for (u8 number : match.protocols) {
      auto name = protocol_name(number);
      values.push_back(name.empty() ? Json(number) : Json(name));
    }
    json["proto"] = one_or_more(std::move(values));
  }
  if (!match.src_ports.empty()) json["src_port"] = ports(match.src_ports);
  if (!match.dst_ports.empty()) json["dst_port"] = ports(match.dst_ports);
  if (match.tcp_flags_mask)
    json["tcp_flags"] = write_tcp_flags({*match.tcp_flags_mask, match.tcp_flags_value});
  if (!match.vlans.empty()) {
    Json values = Json::array();
    for (const auto& range : match.vlans) {
      if (range.first < kLeastVlan || range.first > kMostVlan)
        values.push_back(words::kVlan[range.first == 0 ? 0 : 1]);
      else if (range.first == range.last)
        values.push_back(range.first);
      else
        values.push_back(std::to_string(range.first) + "-" + std::to_string(range.last));
    }
    json["vlan"] = one_or_more(std::move(values));
  }
  if (!match.control.empty()) {
    Json values = Json::array();
    for (u32 kind : match.control) values.push_back(words::kControl[kind]);
    json["control"] = one_or_more(std::move(values));
  }
  return json;
}

Json rule_json(const Rule& rule) {
  Json json = {{"name", rule.name}};
  if (!rule.description.empty()) json["description"] = rule.description;
  json["match"] = match_json(rule.match);
  switch (rule.action) {
    case Rule::Action::pass:
      json["action"] = "pass";
      break;
    case Rule::Action::drop:
      json["action"] = "drop";
      break;
    case Rule::Action::inspect:
      json["action"] = {{"inspect", rule.pipeline}};
      json["priority"] = rule.priority;
      break;
    case Rule::Action::mirror:
      json["action"] = {{"mirror", rule.pipeline}};
      break;
    case Rule::Action::limit:
      json["limit"] = {
          {"per", words::kLimitPer[rule.limit.per]}, {"pps", rule.limit.pps}, {"burst", rule.limit.burst}};
      break;
  }
  return json;
}

void add_cache(Json& json, const std::optional<u32>& cache_ms) {
  if (cache_ms && *cache_ms != 0)
    json["cache"] = write_duration(u64{*cache_ms} * 1'000'000);
  else
    json["cache"] = cache_ms.has_value();
}

Json stage_json(const AclStage& stage) {
  Json rules = Json::array();
  for (const auto& rule : stage.rules)
    rules.push_back(
        {{"name", rule.name},
         {"match", match_json(rule.match)},
         {"action", rule.action == "redirect" ? Json{{"redirect", rule.to}} : Json(rule.action)}});
  Json json = {{"stage", "acl"}, {"rules", std::move(rules)}, {"default", stage.otherwise}};
  add_cache(json, stage.cache_ms);
  return json;
}

void add_table(Json& json, const TableSpec& table) {
  json["entries"] = table.entries;
  json["evict"] = table.evict;
}

Json stage_json(const LoadBalanceStage& stage) {
  Json backends = Json::array();
  for (const auto& backend : stage.backends) {
    Json one = {{"name", backend.name}, {"mac", write_mac(backend.mac)}, {"weight", backend.weight}};
    if (backend.drain) one["drain"] = true;
    if (backend.address) one["address"] = write_prefix(*backend.address);
    if (!backend.to.empty()) one["to"] = backend.to;
    backends.push_back(std::move(one));
  }
  Json json = {{"stage", "load_balance"}, {"algorithm", stage.algorithm}};
  if (stage.algorithm == "maglev") json["table_size"] = stage.table_size;
  if (stage.key) json["key_file"] = stage.key_file;
  json["backends"] = std::move(backends);
  if (stage.affinity) {
    json["affinity"] = {{"per", stage.affinity->per},
                        {"idle", write_duration(u64{stage.affinity->idle_ms} * 1'000'000)}};
    add_table(json["affinity"], stage.affinity->table);
  }
  if (const auto& health = stage.health)
    json["health"] = {{"port", health->port},
                      {"interval", write_duration(u64{health->interval_ms} * 1'000'000)},
                      {"timeout", write_duration(u64{health->timeout_ms} * 1'000'000)},
                      {"fall", health->fall},
                      {"rise", health->rise}};
  if (const auto& outer = stage.encapsulation) {
    Json source = Json::object();
    if (outer->source4) source["ipv4"] = write_prefix(*outer->source4);
    if (outer->source6) source["ipv6"] = write_prefix(*outer->source6);
    json["encapsulation"] = {{"type", outer->type}, {"source", std::move(source)}};
    if (outer->type == "gue") json["encapsulation"]["port"] = outer->port;
    json["encapsulation"]["mtu"] = outer->mtu;
  }
  add_cache(json, stage.cache_ms);
  return json;
}

Json stage_json(const L2fwdStage& stage) {
  Json json = {{"stage", "l2fwd"}};
  if (!stage.to.empty()) json["to"] = stage.to;
  add_cache(json, stage.cache_ms);
  return json;
}

Json stage_json(const ReputationStage& stage) {
  Json lists = Json::array();
  for (const auto& entry : stage.lists)
    lists.push_back(
        {{"list", "@" + entry.list},
         {"action", entry.action == "redirect" ? Json{{"redirect", entry.to}} : Json(entry.action)}});
  Json json = {
      {"stage", "reputation"}, {"of", stage.of}, {"lists", std::move(lists)}, {"default", stage.otherwise}};
  add_cache(json, stage.cache_ms);
  return json;
}

Json route_json(const ForwardStage& stage, const RouteSource& source) {
  if (!source.file.empty()) return {{"file", source.file}};
  Json prefixes = Json::array();
  for (const auto& route : source.routes) prefixes.push_back(write_prefix(route.prefix));
  return {{"prefix", one_or_more(std::move(prefixes))},
          {"next_hop", route_target(stage, source.routes.front().next_hop)}};
}

Json stage_json(const ForwardStage& stage) {
  Json hops = Json::object(), routes = Json::array();
  for (const auto& hop : stage.next_hops) {
    Json one = {{"mac", write_mac(hop.mac)}};
    if (hop.src_mac) one["src_mac"] = write_mac(*hop.src_mac);
    if (!hop.to.empty()) one["to"] = hop.to;
    if (hop.mtu) one["mtu"] = *hop.mtu;
    hops[hop.name] = std::move(one);
  }
  for (const auto& source : stage.routes) routes.push_back(route_json(stage, source));
  Json json = {{"stage", "forward"},
               {"next_hops", std::move(hops)},
               {"routes", std::move(routes)},
               {"default", stage.otherwise}};
  add_cache(json, stage.cache_ms);
  return json;
}

Json stage_json(const RateLimitStage& stage) {
  Json json = {{"stage", "rate_limit"}, {"per", stage.per}};
  if (stage.per != "flow") {
    json["prefix4"] = stage.prefix4;
    json["prefix6"] = stage.prefix6;
  }
  if (stage.pps != 0) {
    json["pps"] = stage.pps;
    json["burst"] = stage.burst;
  }
  if (stage.bytes_per_second != 0) {
    json["bytes_per_second"] = stage.bytes_per_second;
    json["burst_bytes"] = stage.burst_bytes;
  }
  json["excess"] = stage.excess;
  add_table(json, stage.table);
  return json;
}

Json stage_json(const ConntrackStage& stage) {
  Json timeouts = Json::object();
  for (std::size_t i = 0; i < keys::kTimeouts.size(); i++)
    timeouts[std::string(keys::kTimeouts[i])] = write_duration(u64{stage.timeouts_ms[i]} * 1'000'000);
  Json json = {{"stage", "conntrack"},           {"on_new", stage.on_new},
               {"on_invalid", stage.on_invalid}, {"on_untracked", stage.on_untracked},
               {"egress", stage.egress},         {"loose", stage.loose},
               {"timeouts", std::move(timeouts)}};
  add_table(json, stage.table);
  return json;
}

Json stage_json(const DdosStage& stage) {
  Json json = {{"stage", "ddos"},
               {"direction", stage.direction},
               {"prefix4", stage.prefix4},
               {"prefix6", stage.prefix6},
               {"window", write_duration(u64{stage.window_ms} * 1'000'000)}};
  for (std::size_t i = 0; i < stage.thresholds.size(); i++)
    if (stage.thresholds[i] != 0) json[std::string(words::kDdosMetric[i])] = stage.thresholds[i];
  json["release_percent"] = stage.release_percent;
  json["hold"] = write_duration(u64{stage.hold_ms} * 1'000'000);
  json["on_detect"] = stage.on_detect;
  if (stage.on_detect == "drop_sources") json["share_percent"] = stage.share_percent;
  if (stage.on_detect != "pass") add_cache(json, stage.cache_ms);
  add_table(json, stage.table);
  return json;
}

Json list_json(const List& list) {
  Json json = Json::object();
  if (!list.description.empty()) json["description"] = list.description;
  if (!list.file.empty()) {
    json["file"] = list.file;
    return json;
  }
  Json values = Json::array();
  for (const auto& prefix : list.prefixes) values.push_back(write_prefix(prefix));
  if (list.description.empty()) return values;
  json["prefixes"] = std::move(values);
  return json;
}

Json management_json(const Management& entry) {
  Json json = Json::object();
  if (!entry.description.empty()) json["description"] = entry.description;
  json.update(match_json(entry));
  return json;
}

// With what the policy says of the stage behind its name.
Json described(const Json& stage, const std::string& description) {
  Json json = {{"stage", stage.at("stage")}, {"description", description}};
  json.update(stage);
  return json;
}

Json io_json(const Io& io) {
  Json json = {{"mode", io.mode}, {"ring_size", io.ring_size}};
  if (io.burst_ns == 0) {
    json["frames_per_queue"] = io.frames_per_queue;
  } else {
    json["burst"] = write_duration(io.burst_ns);
    if (io.link_gbps != 0) json["link_gbps"] = io.link_gbps;
  }
  json["heartbeat"] = write_duration(io.heartbeat_ns);
  json["spin"] = write_duration(io.spin_ns);
  json["huge_pages"] = io.huge_pages;
  if (io.busy_poll == Io::BusyPoll::automatic)
    json["busy_poll"] = "auto";
  else
    json["busy_poll"] = io.busy_poll == Io::BusyPoll::on;
  json["busy_poll_us"] = io.busy_poll_us;
  json["busy_poll_budget"] = io.busy_poll_budget;
  json["mirror_slots"] = io.mirror_slots;
  json["mirror_bytes"] = io.mirror_bytes;
  return json;
}

Json compute_json(const Compute& compute) {
  Json json;
  if (compute.devices.empty())
    json["device"] = compute.device;
  else
    json["devices"] = compute.devices;
  json["mode"] = compute.mode;
  json["frames"] = compute.frames;
  json["batch"] = compute.batch;
  json["max_wait"] = write_duration(compute.max_wait_ns);
  json["standby"] = compute.standby;
  json["retry"] = compute.retry_ns > 0 ? Json(write_duration(compute.retry_ns)) : Json(false);
  return json;
}

Json decision_json(Do decision) {
  if (decision == Do::known_pass || decision == Do::known_drop)
    return {{"known", "keep"}, {"new", decision == Do::known_pass ? "pass" : "drop"}};
  return words::kFragments[static_cast<u32>(decision)];
}

}  // namespace

std::string to_json(const Policy& policy) {
  Json json = {{"version", 1}};
  if (!policy.description.empty()) json["description"] = policy.description;
  json["default"] = decision_json(policy.default_action);
  json["on_failure"] = decision_json(policy.on_failure);
  json["on_overload"] = decision_json(policy.on_overload);
  json["fragments"] = decision_json(policy.fragments);
  json["malformed"] = decision_json(policy.malformed);
  json["management"] = Json::array();
  for (const auto& entry : policy.management) json["management"].push_back(management_json(entry));
  json["rates"] = Json::object();
  for (u32 kind = 0; kind < XG_RATES; ++kind)
    json["rates"][std::string(keys::kRates[kind])] = {{"pps", policy.rates[kind].pps},
                                                      {"burst", policy.rates[kind].burst}};
  json["lists"] = Json::object();
  for (const auto& [name, list] : policy.lists) json["lists"][name] = list_json(list);
  json["rules"] = Json::array();
  for (const auto& rule : policy.rules) json["rules"].push_back(rule_json(rule));
  json["pipelines"] = Json::object();
  for (const auto& pipeline : policy.pipelines) {
    Json stages = Json::array();
    for (const auto& stage : pipeline.stages)
      stages.push_back(std::visit([](const auto& one) { return stage_json(one); }, stage));
    for (const auto& [at, text] : pipeline.descriptions) stages[at] = described(stages[at], text);
    json["pipelines"][pipeline.name] = std::move(stages);
  }
  json["io"] = io_json(policy.io);
  json["compute"] = compute_json(policy.compute);
  return json.dump(2) + "\n";
}

}  // namespace xdpgpu::policy
