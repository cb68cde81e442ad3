// SPDX-License-Identifier: MIT
#include "userspace/control/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/control/describe.hpp"

namespace xdpgpu::control {
namespace {

std::string level_text(const auto& level) { return fmt::format("{}/{}", level.now, level.most); }

std::string rings_text(const MetricsReport& metrics) {
  const RingLevels& rings = metrics.rings;
  return fmt::format(
      "    rings of {}, now/most: RX {}, fill {} (least {}); rings of {}: TX {}, completion {}, reinjection "
      "{}\n",
      metrics.ring_size, level_text(rings.rx), level_text(rings.fill), rings.fill.least,
      metrics.send_ring_size, level_text(rings.tx), level_text(rings.completion),
      level_text(rings.reinject_tx));
}

// What user space or the kernel behind the redirect took away.
std::string losses_text(const xg_worker_counters& counters) {
  std::string text;
  for (const auto outcome : {XG_OUTCOME_drop, XG_OUTCOME_error})
    for (const auto& counter : dataplane::kWorkerCounters) {
      const u64 packets = counters.*counter.value;
      if (counter.outcome == outcome && packets)
        text += fmt::format("{}{} {}", text.empty() ? "    drops: " : ", ", packets, counter.brief);
    }
  return text.empty() ? text : text + "\n";
}

std::string table_text(const StageTableReport& table) {
  std::string text = fmt::format(
      "  pipeline {}, stage {} ({}): {}{} of {} entries live, pressure {:.1f} %, {} ever used\n"
      "    {} looked, {} found theirs; entries: {} made, {} evicted, {} refused\n",
      table.pipeline, table.stage, table.kind, table.live_counted_in == table.entries ? "" : "about ",
      table.live, table.entries, table.pressure_percent, table.occupied, counted(table.touches, "packet"),
      table.hits, table.inserted, table.evicted, table.refused);
  std::string packets;
  for (const auto& [name, count] : table.packets)
    if (count) packets += fmt::format("{}{} {}", packets.empty() ? "    packets: " : ", ", count, name);
  return packets.empty() ? text : text + packets + "\n";
}

}  // namespace

MetricsReport metrics_report(const xg_queue_metrics& m) {
  MetricsReport report;
  report.ring_size = m.ring_size;
  report.send_ring_size = m.send_ring_size;
  report.rings = {m.rx,          {m.fill.now, m.fill.most, m.fill_least},
                  m.tx,          m.completion,
                  m.reinject_tx, m.reinject_completion};
  report.frames = {.fill = m.frames_fill,
                   .batch = m.frames_batch,
                   .tx = m.frames_tx,
                   .reinject = m.frames_reinject,
                   .handed = m.frames_handed,
                   .waiting = m.frames_waiting,
                   .worker_total = m.worker_frames,
                   .worker_free = m.worker_free};
#define XG_X(name, unit, outcome, words, member) report.kernel_losses.name = m.member;
  XG_QUEUE_LOSSES(XG_X)
#undef XG_X
  report.batches = {m.batches, m.batch_packets, {}};
  std::copy(std::begin(m.batch_log2), std::end(m.batch_log2), report.batches.log2.begin());
  report.device_time.durations = dataplane::device_time_of(m);
  std::copy(std::begin(m.device_ns_log2), std::end(m.device_ns_log2), report.device_time.log2.begin());
  report.latency.durations = dataplane::latency_of(m);
  report.latency.log2 = dataplane::latency_log2(m);
  return report;
}

std::string time_text(u64 ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000) return fmt::format("{} ns", ns);
  if (ns < 999'950) return fmt::format("{:.1f} us", value / 1e3);
  if (ns < 999'950'000) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.1f} s", value / 1e9);
}

std::string durations_text(const dataplane::Durations& durations) {
  return fmt::format("p50 {}, p99 {}, p99.9 {}, at most {}", time_text(durations.p50_ns),
                     time_text(durations.p99_ns), time_text(durations.p99_9_ns),
                     time_text(durations.most_ns));
}

std::string metrics_text(const QueueReport& queue) {
  const MetricsReport& metrics = queue.service->metrics;
  std::string text = rings_text(metrics);
  if (const auto& latency = metrics.latency.durations; latency.count)
    text += fmt::format("    latency: {}\n", durations_text(latency));
  if (const auto& batches = metrics.batches; batches.count)
    text += fmt::format("    batches: {} of {:.1f} packets on average; device time {}\n", batches.count,
                        static_cast<double>(batches.packets) / static_cast<double>(batches.count),
                        durations_text(metrics.device_time.durations));
  return text + losses_text(queue.counters);
}

std::string programs_text(const std::vector<ProgramReport>& programs) {
  std::string text;
  for (const auto& program : programs) {
    std::string packets;
    for (const auto& [name, count] : program.packets)
      if (count) packets += fmt::format("{}{} {}", packets.empty() ? "" : ", ", count, name);
    const bool in_kernel = program.where == "kernel";
    const char* const none = in_kernel ? "0 given" : "none dropped, none sent";
    text += fmt::format("  pipeline {}, stage {}{}: {}\n", program.pipeline, program.stage,
                        in_kernel ? ", in the kernel" : "", packets.empty() ? none : packets);
    for (const auto& map : program.maps) {
      text += map.problem.empty() ? fmt::format("    map {}: {}, {:.0f} ms; {} entries\n", map.map,
                                                map.direction, map.lag_ms, map.entries)
                                  : fmt::format("    map {}: not in step: {}\n", map.map, map.problem);
    }
  }
  return text.empty() ? text : "\nprograms decided of packets:\n" + text;
}

std::string tables_text(const ServiceReport& service) {
  if (service.tables_error) return fmt::format("\ntables of stages: {}\n", *service.tables_error);
  std::string text;
  if (service.tables)
    for (const auto& table : *service.tables) text += table_text(table);
  return text.empty() ? text : "\ntables of stages:\n" + text;
}

}  // namespace xdpgpu::control
