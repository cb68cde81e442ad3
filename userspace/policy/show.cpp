// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "userspace/policy/policy.hpp"
#include "userspace/policy/stage_writer.hpp"
#include "userspace/policy/values.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::policy {
namespace {

using Json = nlohmann::ordered_json;

Json addresses(const std::vector<Prefix>& prefixes, const std::vector<std::string>& lists) {
  Json values = Json::array();
  for (const auto& name : lists) values.push_back("@" + name);
  for (const auto& prefix : prefixes) values.push_back(write_prefix(prefix));
  return one_or_more(std::move(values));
}

template <class Range, class Write>
Json ranges(const std::vector<Range>& from, Write&& write) {
  Json values = Json::array();
  for (const auto& one : from) values.push_back(write(one.first, one.last));
  return one_or_more(std::move(values));
}

Json match_json(const Match& match) {
  Json json = Json::object();
  if (!match.src.empty() || !match.src_lists.empty()) json["src"] = addresses(match.src, match.src_lists);
  if (!match.dst.empty() || !match.dst_lists.empty()) json["dst"] = addresses(match.dst, match.dst_lists);
  if (match.family) json["family"] = words::kFamily[*match.family == 4 ? 0 : 1];
  if (!match.protocols.empty()) json["proto"] = write_protocols(match.protocols);
  if (!match.src_ports.empty()) json["src_port"] = ranges(match.src_ports, write_port_range);
  if (!match.dst_ports.empty()) json["dst_port"] = ranges(match.dst_ports, write_port_range);
  if (match.tcp_flags_mask)
    json["tcp_flags"] = write_tcp_flags({*match.tcp_flags_mask, match.tcp_flags_value});
  if (!match.vlans.empty()) json["vlan"] = ranges(match.vlans, write_vlan_range);
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

Json list_json(const List& list) {
  Json json = Json::object();
  if (!list.description.empty()) json["description"] = list.description;
  if (list.type == List::Type::domain) {
    json["type"] = "domain";
    if (list.file.empty()) {
      json["names"] = Json::array();
      for (std::size_t at = 0, end; list.names.count != 0 && at < list.names.text->size(); at = end + 1) {
        end = list.names.text->find('\n', at);
        json["names"].push_back(list.names.text->substr(at, end - at));
      }
      return json;
    }
    if (list.subdomains) json["subdomains"] = true;
  }
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

Json log_json(const Log& log) {
  Json json;
  for (const auto& output : log.outputs) {
    Json& one = json["outputs"].emplace_back();
    switch (output.kind) {
      case LogOutput::Kind::file:
        one["file"] = output.path;
        break;
      case LogOutput::Kind::socket:
        one["socket"] = output.path;
        break;
      case LogOutput::Kind::journald:
        one["journald"] = true;
    }
  }
  std::size_t event = 0;
  for (const bool told : {log.alert, log.drop, log.dns, log.program, log.stats}) {
    if (told) json["events"].push_back(words::kLogEvents[event]);
    event++;
  }
  json["rate"] = log.rate;
  json["alert_rate"] = log.alert_rate;
  json["payload"] = log.payload_bytes;
  json["stats_every"] = write_duration(log.stats_every_ns);
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
  json["fragments"] = policy.reassembles ? Json("reassemble") : decision_json(policy.fragments);
  json["overlapping_fragments"] = words::kOverlapping[static_cast<u32>(policy.overlapping_fragments)];
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
    for (u32 i = 0; i < pipeline.stages.size(); i++) {
      const auto text = pipeline.descriptions.find(i);
      stages.push_back(
          write_stage(pipeline.stages[i], text == pipeline.descriptions.end() ? "" : text->second));
    }
    if (!pipeline.in_object) {
      json["pipelines"][pipeline.name] = std::move(stages);
      continue;
    }
    Json& object = json["pipelines"][pipeline.name] = Json::object();
    if (!pipeline.description.empty()) object["description"] = pipeline.description;
    object["inner"] = pipeline.inner;
    object["stages"] = std::move(stages);
  }
  json["io"] = io_json(policy.io);
  json["compute"] = compute_json(policy.compute);
  if (!policy.log.outputs.empty()) json["log"] = log_json(policy.log);
  return json.dump(2) + "\n";
}

}  // namespace xdpgpu::policy
