// SPDX-License-Identifier: MIT
#include "userspace/control/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "userspace/control/decide.hpp"
#include "userspace/control/metrics.hpp"
#include "userspace/dataplane/counters.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::control {
namespace {

Json worker_json(const xg_worker_counters& counters) {
  Json json;
  for (const auto& counter : dataplane::kWorkerCounters) json[counter.name] = counters.*counter.value;
  return json;
}

// What a counter says of the packets that came in. A worker's are of packets that have come in already.
void count(Totals& sum, xg_outcome outcome, u64 packets) {
  switch (outcome) {
    case XG_OUTCOME_none:
      break;
    case XG_OUTCOME_in:
      sum.in += packets;
      break;
    case XG_OUTCOME_again:
      sum.in -= std::min(sum.in, packets);
      break;
    case XG_OUTCOME_on:
      sum.inspected += packets;
      break;
    case XG_OUTCOME_drop:
      sum.drop += packets;
      break;
    case XG_OUTCOME_pass:
      sum.pass += packets;
      break;
    case XG_OUTCOME_tx:
      sum.tx += packets;
      break;
    case XG_OUTCOME_redirect:
      sum.redirect += packets;
      break;
    case XG_OUTCOME_error:
      sum.error += packets;
      break;
  }
}

Json queue_json(const dataplane::QueueStatus& queue, const std::vector<dataplane::DeviceStatus>& devices) {
  Json json{{"queue", queue.queue},
            {"device", devices.at(queue.device).name},
            {"mode", mode_name(queue.mode)},
            {"metadata", queue.metadata},
            {"compute_mode", dataplane::name_of(queue.compute_mode)},
            {"cpu", queue.cpu},
            {"retire_cpu", queue.retire_cpu},
            {"numa_node", queue.numa_node},
            {"frames_node", queue.frames_node},
            {"busy_poll", queue.busy_poll},
            {"frames", queue.frames},
            {"credits", static_cast<std::int32_t>(queue.state.granted - queue.state.admitted)},
            {"in_user_space", queue.state.admitted - queue.state.retired},
            {"counters", worker_json(queue.counters)},
            {"metrics", metrics_json(queue.metrics)}};
  if (!queue.because.empty()) json["because"] = queue.because;
  return json;
}

Json kernel_json(const std::vector<xg_counter>& counters) {
  Json json = Json::object();
  for (u32 reason = 0; reason < counters.size(); reason++)
    json[reason_name(reason)] = {{"packets", counters[reason].packets}, {"bytes", counters[reason].bytes}};
  return json;
}

Json malformed_json(const std::vector<xg_counter>& counters) {
  Json json = Json::object();
  for (u32 kind = 0; kind < counters.size(); kind++)
    json[dataplane::kMalformedCounters[kind].name] = {{"packets", counters[kind].packets},
                                                      {"bytes", counters[kind].bytes}};
  return json;
}

Json rates_json(const std::vector<xg_exempt_counter>& counters) {
  Json json = Json::object();
  for (u32 kind = 0; kind < counters.size(); kind++)
    json[std::string(policy::keys::kRates[kind])] = {{"passed", counters[kind].passed},
                                                     {"over", counters[kind].excess}};
  return json;
}

void add(xg_counter& sum, const xg_counter& one) {
  sum.packets += one.packets;
  sum.bytes += one.bytes;
}

Result<Json> rules_json(const std::vector<PortControl>& ports, const policy::Tables& tables) {
  std::vector<xg_counter> sums(tables.rule_names.size());
  std::vector<xg_rule_shed> shed(sums.size());
  for (const auto& port : ports) {
    const auto counters = port.rule_counters(port.active_slot(), tables.header.rule_count);
    if (!counters) return Error(counters.error());
    const auto left = port.rule_shed(port.active_slot(), tables.header.rule_count);
    if (!left) return Error(left.error());
    for (std::size_t i = 0; i < counters->size() && i < sums.size(); i++) {
      add(sums[i], (*counters)[i]);
      add(shed[i].overload, (*left)[i].overload);
      add(shed[i].failure, (*left)[i].failure);
    }
  }
  Json json = Json::array();
  for (std::size_t i = 0; i < sums.size(); i++)
    json.push_back(
        {{"name", tables.rule_names[i]},
         {"packets", sums[i].packets},
         {"bytes", sums[i].bytes},
         {"shed", {{"overload", shed[i].overload.packets}, {"failure", shed[i].failure.packets}}}});
  return json;
}

Json mirror_json(const dataplane::MirrorStatus& mirror) {
  const gpu::MirrorCounters& counters = mirror.counters;
  return {{"device", mirror.device},
          {"mirrored", mirror.mirrored},
          {"overruns", mirror.overruns},
          {"taken", counters.taken},
          {"published", counters.published},
          {"evicted", counters.evicted},
          {"unknown_generation", counters.unknown_generation},
          {"undecided", counters.undecided}};
}

Json table_json(const gpu::TableReport& table) {
  Json outcomes = Json::object();
  for (const auto& [name, packets] : table.outcomes) outcomes[std::string(name)] = packets;
  return {{"pipeline", table.pipeline},
          {"stage", table.stage + 1},
          {"kind", table.kind},
          {"entries", table.entries},
          {"occupied", table.occupied},
          {"live", table.live},
          {"live_counted_in", table.counted},
          {"pressure_percent", table.pressure()},
          {"touches", table.touches},
          {"hits", table.hits},
          {"inserted", table.inserted},
          {"evicted", table.evicted},
          {"refused", table.refused},
          {"packets", std::move(outcomes)}};
}

const char* frames_name(gpu::Frames frames) {
  return frames == gpu::Frames::in_place ? "in_place" : frames == gpu::Frames::staged ? "staged" : "auto";
}

Json device_json(const dataplane::DeviceStatus& device, bool automatic) {
  Json json{{"name", device.name},
            {"frames", frames_name(device.frames_mode)},
            {"mode", dataplane::name_of(device.compute_mode)},
            {"auto", automatic},
            {"publishes_flows", device.publishes}};
  if (!device.because.empty()) json["because"] = device.because;
  if (!device.degraded.empty()) json["degraded"] = device.degraded;
  return json;
}

}  // namespace

const char* mode_name(dataplane::PortMode mode) {
  switch (mode) {
    case dataplane::PortMode::zero_copy:
      return "zero-copy";
    case dataplane::PortMode::copy:
      return "copy";
    case dataplane::PortMode::generic:
      return "generic";
  }
  return "unknown";
}

const char* state_name(u32 state) {
  switch (state) {
    case XG_STATE_STARTING:
      return "starting";
    case XG_STATE_RUNNING:
      return "running";
    case XG_STATE_BYPASS:
      return "bypass";
    case XG_STATE_DRAINING:
      return "draining";
    case XG_STATE_CUT_OFF:
      return "cut off from the stack";
    default:
      return "unknown";
  }
}

namespace {

// Flows that the policy says to cache, and why they are not.
Json never_cached_json(const std::vector<dataplane::QueueStatus>& queues) {
  u64 repaired = 0, sent_on = 0;
  for (const auto& queue : queues) {
    repaired += queue.counters.checksums_repaired;
    sent_on += queue.counters.transmitted + queue.counters.redirected;
  }
  Json json = Json::array();
  // The kernel program sends a packet as it came, so what is to be sent and wants completing comes here.
  if (repaired != 0 && sent_on != 0)
    json.push_back({{"reason", "partial_checksums"},
                    {"packets", repaired},
                    {"text",
                     "flows of packets with partial checksums that are sent on are never cached, as the "
                     "kernel program cannot complete them: their sender (a veth's peer, a guest) leaves them "
                     "to its device; \"ethtool -K PEER tx off\" there ends that"}});
  return json;
}

}  // namespace

Totals total(const std::vector<std::vector<xg_counter>>& kernel_by_port,
             const std::vector<dataplane::QueueStatus>& queues) {
  Totals sum;
  for (const auto& counters : kernel_by_port)
    for (u32 reason = 0; reason < counters.size(); reason++)
      count(sum, dataplane::kKernelCounters[reason].outcome, counters[reason].packets);
  for (const auto& queue : queues) {
    for (const auto& counter : dataplane::kWorkerCounters)
      count(sum, counter.outcome, queue.counters.*counter.value);
    sum.refused += queue.counters.error_refused;
  }
  return sum;
}

Json to_json(const Totals& sum) {
  return {{"in", sum.in},           {"pass", sum.pass},           {"drop", sum.drop},
          {"tx", sum.tx},           {"redirect", sum.redirect},   {"error", sum.error},
          {"refused", sum.refused}, {"inspected", sum.inspected}, {"in_flight", sum.in_flight()}};
}

Result<Totals> totals(const std::vector<PortControl>& ports, const dataplane::Engine& engine) {
  std::vector<std::vector<xg_counter>> kernel_by_port;
  for (const auto& port : ports) {
    auto counters = port.kernel_counters();
    if (!counters) return Error(counters.error());
    kernel_by_port.push_back(std::move(*counters));
  }
  return total(kernel_by_port, engine.status().queues);
}

Result<Json> report(const ReportInput& input) {
  const auto status = input.engine.status();
  std::vector<std::vector<xg_counter>> kernel_by_port;
  Json ports = Json::array();
  for (u32 p = 0; p < input.ports.size(); p++) {
    const auto& port = input.ports[p];
    auto counters = port.kernel_counters();
    if (!counters) return Error(counters.error());
    const auto malformed = port.malformed_counters();
    if (!malformed) return Error(malformed.error());
    const auto rates = port.exempt_counters();
    if (!rates) return Error(rates.error());
    Json queues = Json::array();
    for (const auto& queue : status.queues)
      if (queue.port == p) queues.push_back(queue_json(queue, status.devices));
    ports.push_back({{"interface", port.ifname()},
                     {"port", p},
                     {"state", state_name(port.state())},
                     {"xdp", p < input.xdp_modes.size() ? input.xdp_modes[p] : "unknown"},
                     {"pins", kernel::names::pin_folder(port.ifname())},
                     {"queues", std::move(queues)},
                     {"kernel", kernel_json(*counters)},
                     {"malformed", malformed_json(*malformed)},
                     {"rates", rates_json(*rates)}});
    kernel_by_port.push_back(std::move(*counters));
  }
  const auto& current = input.policy.current();
  Json rules = Json::array();
  if (current) {
    auto made = rules_json(input.ports, current->tables);
    if (!made) return Error(made.error());
    rules = std::move(*made);
  }
  xg_queue_metrics all{};
  for (const auto& queue : status.queues) dataplane::add_histograms(all, queue.metrics);
  Json devices = Json::array();
  for (const auto& device : status.devices) devices.push_back(device_json(device, status.automatic));
  const auto& frames = status.frames;
  const auto& netns = kernel::names::own();
  Json json{{"pid", getpid()},
            {"netns", {{"inode", netns.inode}, {"cookie", netns.cookie}, {"initial", netns.initial}}},
            {"uptime_s", input.uptime_s},
            {"device", devices.at(0)},
            {"devices", devices},
            {"policy",
             {{"file", current ? current->source.file : ""},
              {"generation", input.policy.generation()},
              {"audit", current && current->audits()},
              {"conntrack_loosened", input.policy.loosens()},
              {"hash", fmt::format("{:016x}", current ? current->policy.hash : 0)}}},
            {"packets", to_json(total(kernel_by_port, status.queues))},
            {"ports", std::move(ports)},
            {"rules", std::move(rules)},
            {"never_cached", never_cached_json(status.queues)},
            {"batches", {{"count", status.batches}, {"packets", status.batch_packets}}},
            {"device_time_ns", to_json(dataplane::device_time_of(all))},
            {"latency_ns", to_json(dataplane::latency_of(all))},
            {"frames",
             {{"total", frames.total},
              {"free", frames.free},
              {"fill", frames.fill},
              {"batch", frames.batch},
              {"tx", frames.tx},
              {"conserved", frames.conserved()}}}};
  if (status.mirror) json["mirror"] = mirror_json(*status.mirror);
  // A device that has failed still has the rest of this report to be told about.
  if (const auto tables = input.engine.tables()) {
    json["tables"] = Json::array();
    for (const auto& table : *tables) json["tables"].push_back(table_json(table));
  } else {
    json["tables_error"] = tables.error();
  }
  return json;
}

Result<Json> report_without_data_plane(const std::vector<PortControl>& ports,
                                       const std::vector<std::string>& xdp_modes, double uptime_s) {
  std::vector<std::vector<xg_counter>> kernel_by_port;
  std::vector<dataplane::QueueStatus> all;
  Json json_ports = Json::array();
  for (u32 p = 0; p < ports.size(); p++) {
    const auto& port = ports[p];
    auto counters = port.kernel_counters();
    if (!counters) return Error(counters.error());
    const auto malformed = port.malformed_counters();
    if (!malformed) return Error(malformed.error());
    const auto rates = port.exempt_counters();
    if (!rates) return Error(rates.error());
    const auto queues = port.queue_counters();
    if (!queues) return Error(queues.error());
    Json json_queues = Json::array();
    for (const auto& queue : *queues)
      json_queues.push_back({{"queue", queue.queue}, {"counters", worker_json(queue.counters)}});
    json_ports.push_back({{"interface", port.ifname()},
                          {"port", p},
                          {"state", state_name(port.state())},
                          {"xdp", p < xdp_modes.size() ? xdp_modes[p] : "unknown"},
                          {"pins", kernel::names::pin_folder(port.ifname())},
                          {"queues", std::move(json_queues)},
                          {"kernel", kernel_json(*counters)},
                          {"malformed", malformed_json(*malformed)},
                          {"rates", rates_json(*rates)}});
    kernel_by_port.push_back(std::move(*counters));
    all.insert(all.end(), queues->begin(), queues->end());
  }
  const auto& netns = kernel::names::own();
  return Json{{"pid", getpid()},
              {"netns", {{"inode", netns.inode}, {"cookie", netns.cookie}, {"initial", netns.initial}}},
              {"uptime_s", uptime_s},
              {"policy",
               {{"generation", ports.front().active_generation()},
                {"hash", fmt::format("{:016x}", ports.front().policy_hash())}}},
              {"packets", to_json(total(kernel_by_port, all))},
              {"ports", std::move(json_ports)}};
}

}  // namespace xdpgpu::control
