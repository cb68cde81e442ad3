// SPDX-License-Identifier: MIT
#include "userspace/control/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "userspace/control/metrics.hpp"
#include "userspace/dataplane/counters.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/policy/kernel_programs.hpp"

namespace xdpgpu::control {
namespace {

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
    case XG_OUTCOME_program:
      sum.program += packets;
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

QueueReport queue_report(const dataplane::QueueStatus& queue,
                         const std::vector<dataplane::DeviceStatus>& devices) {
  QueueService service;
  service.device = devices.at(queue.device).name;
  service.mode = mode_name(queue.mode);
  service.compute_mode = dataplane::name_of(queue.compute_mode);
  service.metadata = queue.metadata;
  service.cpu = queue.cpu;
  service.retire_cpu = queue.retire_cpu;
  service.numa_node = queue.numa_node;
  service.frames_node = queue.frames_node;
  service.busy_poll = queue.busy_poll;
  service.frames = queue.frames;
  service.credits = static_cast<std::int32_t>(queue.state.granted - queue.state.admitted);
  service.in_user_space = queue.state.admitted - queue.state.retired;
  service.metrics = metrics_report(queue.metrics);
  if (!queue.because.empty()) service.because = queue.because;
  return {queue.queue, queue.counters, std::move(service)};
}

// All but its queues.
Result<PortReport> port_report(const PortControl& port, u32 index,
                               const std::vector<std::string>& xdp_modes) {
  PortReport report;
  report.interface = port.ifname();
  report.port = index;
  report.state = state_name(port.state());
  report.xdp = index < xdp_modes.size() ? xdp_modes[index] : "unknown";
  report.pins = kernel::names::pin_folder(port.ifname());
  const auto kernel = port.kernel_counters();
  if (!kernel) return Error(kernel.error());
  std::copy(kernel->begin(), kernel->end(), report.kernel.by.begin());
  const auto malformed = port.malformed_counters();
  if (!malformed) return Error(malformed.error());
  std::copy(malformed->begin(), malformed->end(), report.malformed.by.begin());
  const auto rates = port.exempt_counters();
  if (!rates) return Error(rates.error());
  std::copy(rates->begin(), rates->end(), report.rates.by.begin());
  return report;
}

void add(xg_counter& sum, const xg_counter& one) {
  sum.packets += one.packets;
  sum.bytes += one.bytes;
}

Result<std::vector<RuleReport>> rule_reports(const std::vector<PortControl>& ports,
                                             const policy::Tables& tables) {
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
  std::vector<RuleReport> rules;
  rules.reserve(sums.size());
  for (std::size_t i = 0; i < sums.size(); i++)
    rules.push_back({tables.rule_names[i],
                     sums[i].packets,
                     sums[i].bytes,
                     {shed[i].overload.packets, shed[i].failure.packets}});
  return rules;
}

StageTableReport table_report(const gpu::TableReport& table) {
  StageTableReport report;
  report.pipeline = table.pipeline;
  report.stage = table.stage + 1;
  report.kind = table.kind;
  report.entries = table.entries;
  report.occupied = table.occupied;
  report.live = table.live;
  report.live_counted_in = table.counted;
  report.pressure_percent = table.pressure();
  report.touches = table.touches;
  report.hits = table.hits;
  report.inserted = table.inserted;
  report.evicted = table.evicted;
  report.refused = table.refused;
  for (const auto& [name, packets] : table.outcomes) report.packets[std::string(name)] = packets;
  return report;
}

const char* frames_name(gpu::Frames frames) {
  return frames == gpu::Frames::in_place ? "in_place" : frames == gpu::Frames::staged ? "staged" : "auto";
}

DeviceReport device_report(const dataplane::DeviceStatus& device, bool automatic) {
  DeviceReport report;
  report.name = device.name;
  report.frames = frames_name(device.frames_mode);
  report.mode = dataplane::name_of(device.compute_mode);
  report.automatic = automatic;
  report.publishes_flows = device.publishes;
  if (!device.because.empty()) report.because = device.because;
  if (!device.degraded.empty()) report.degraded = device.degraded;
  return report;
}

std::string hash_text(u64 hash) { return fmt::format("{:016x}", hash); }

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

NetnsReport own_netns() {
  const auto& netns = kernel::names::own();
  return {netns.inode, netns.cookie, netns.initial};
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

std::vector<NeverCached> never_cached(const std::vector<dataplane::QueueStatus>& queues) {
  u64 repaired = 0, sent_on = 0;
  for (const auto& queue : queues) {
    repaired += queue.counters.checksums_repaired;
    sent_on += queue.counters.transmitted + queue.counters.redirected;
  }
  // The kernel program sends a packet as it came, so what is to be sent and wants completing comes here.
  if (repaired == 0 || sent_on == 0) return {};
  return {{"partial_checksums", repaired,
           "flows of packets with partial checksums that are sent on are never cached, as the kernel program "
           "cannot complete them: their sender (a veth's peer, a guest) leaves them to its device; \"ethtool "
           "-K PEER tx off\" there ends that"}};
}

}  // namespace

Totals total(const std::vector<PortReport>& ports) {
  Totals sum;
  for (const auto& port : ports) {
    for (u32 reason = 0; reason < port.kernel.by.size(); reason++)
      count(sum, dataplane::kKernelCounters[reason].outcome, port.kernel.by[reason].packets);
    for (const auto& queue : port.queues) {
      for (const auto& counter : dataplane::kWorkerCounters)
        count(sum, counter.outcome, queue.counters.*counter.value);
      sum.refused += queue.counters.error_refused;
    }
  }
  return sum;
}

void add_maps(ServiceReport& service, const std::vector<StageMapsReport>& maps) {
  for (const StageMapsReport& of : maps)
    for (auto& program : service.programs)
      if (program.pipeline == of.pipeline && program.stage == of.stage) program.maps = of.maps;
}

void add_given(ServiceReport& service, const compiler::CompiledPolicy& policy) {
  if (policy.audits()) return;
  const auto& all = policy.policy.pipelines;
  const std::size_t first = policy.tables.header.management_count;
  for (const u16 place : policy::kernel_pipelines(policy.policy)) {
    const auto program = std::find_if(service.programs.begin(), service.programs.end(),
                                      [&](const auto& one) { return one.pipeline == all[place].name; });
    if (program == service.programs.end()) continue;
    u64 given = 0;
    for (std::size_t i = 0; i < policy.policy.rules.size() && first + i < service.rules.size(); i++) {
      const policy::Rule& rule = policy.policy.rules[i];
      if (rule.action == policy::Rule::Action::inspect && rule.pipeline == all[place].name)
        given += service.rules[first + i].packets;
    }
    program->where = "kernel";
    program->packets = {{"given", given}};
  }
}

Result<Totals> totals(const std::vector<PortControl>& ports, const dataplane::Engine& engine) {
  std::vector<PortReport> reports(ports.size());
  for (std::size_t p = 0; p < ports.size(); p++) {
    const auto kernel = ports[p].kernel_counters();
    if (!kernel) return Error(kernel.error());
    std::copy(kernel->begin(), kernel->end(), reports[p].kernel.by.begin());
  }
  for (const auto& queue : engine.status().queues)
    reports.at(queue.port).queues.push_back({queue.queue, queue.counters, std::nullopt});
  return total(reports);
}

Result<StatusReport> report(const ReportInput& input) {
  const auto status = input.engine.status();
  StatusReport report;
  report.pid = getpid();
  report.netns = own_netns();
  report.uptime_s = input.uptime_s;
  for (u32 p = 0; p < input.ports.size(); p++) {
    auto port = port_report(input.ports[p], p, input.xdp_modes);
    if (!port) return Error(port.error());
    for (const auto& queue : status.queues)
      if (queue.port == p) port->queues.push_back(queue_report(queue, status.devices));
    report.ports.push_back(std::move(*port));
  }
  report.packets = total(report.ports);
  const auto& current = input.policy.current();
  report.policy.generation = input.policy.generation();
  report.policy.hash = hash_text(current ? current->policy.hash : 0);
  report.policy.in_force = PolicyInForce{current ? current->source.file : "", current && current->audits(),
                                         input.policy.loosens()};
  ServiceReport& service = report.service.emplace();
  for (const auto& device : status.devices)
    service.devices.push_back(device_report(device, status.automatic));
  if (current) {
    auto rules = rule_reports(input.ports, current->tables);
    if (!rules) return Error(rules.error());
    service.rules = std::move(*rules);
  }
  service.never_cached = never_cached(status.queues);
  service.batches = {status.batches, status.batch_packets};
  xg_queue_metrics all{};
  for (const auto& queue : status.queues) dataplane::add_histograms(all, queue.metrics);
  service.device_time = dataplane::device_time_of(all);
  service.latency = dataplane::latency_of(all);
  service.frames = status.frames;
  service.mirror = status.mirror;
  // A device that has failed still has the rest of this report to be told about.
  if (const auto tables = input.engine.tables()) {
    service.tables.emplace();
    for (const auto& table : *tables) service.tables->push_back(table_report(table));
  } else {
    service.tables_error = tables.error();
  }
  return report;
}

Result<StatusReport> report_without_data_plane(const std::vector<PortControl>& ports,
                                               const std::vector<std::string>& xdp_modes, double uptime_s) {
  StatusReport report;
  report.pid = getpid();
  report.netns = own_netns();
  report.uptime_s = uptime_s;
  report.policy.generation = ports.front().active_generation();
  report.policy.hash = hash_text(ports.front().policy_hash());
  for (u32 p = 0; p < ports.size(); p++) {
    auto port = port_report(ports[p], p, xdp_modes);
    if (!port) return Error(port.error());
    const auto queues = ports[p].queue_counters();
    if (!queues) return Error(queues.error());
    for (const auto& queue : *queues) port->queues.push_back({queue.queue, queue.counters, std::nullopt});
    report.ports.push_back(std::move(*port));
  }
  report.packets = total(report.ports);
  return report;
}

std::optional<BypassReport> bypass_report(std::chrono::milliseconds left) {
  if (left.count() <= 0) return std::nullopt;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(left);
  const auto at = std::chrono::system_clock::now() + left;
  return BypassReport{
      static_cast<u64>(seconds.count()),
      fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(at)))};
}

}  // namespace xdpgpu::control
