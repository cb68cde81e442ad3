// SPDX-License-Identifier: MIT
#include "userspace/control/metrics.hpp"

#include <fmt/format.h>

#include "userspace/control/describe.hpp"
#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::control {
namespace {

Json level_json(const xg_ring_level& level) { return {{"now", level.now}, {"most", level.most}}; }

std::string rings_text(const Json& metrics) {
  const Json& rings = metrics.at("rings");
  auto level = [&](const char* name) {
    const Json& ring = rings.at(name);
    return fmt::format("{}/{}", ring.at("now").get<u32>(), ring.at("most").get<u32>());
  };
  return fmt::format(
      "    rings of {}, now/most: RX {}, fill {} (least {}); rings of {}: TX {}, completion {}, reinjection "
      "{}\n",
      metrics.at("ring_size").get<u32>(), level("rx"), level("fill"), rings.at("fill").at("least").get<u32>(),
      metrics.at("send_ring_size").get<u32>(), level("tx"), level("completion"), level("reinject_tx"));
}

// What user space or the kernel behind the redirect took away.
std::string losses_text(const Json& counters) {
  std::string text;
  for (const auto outcome : {XG_OUTCOME_drop, XG_OUTCOME_error})
    for (const auto& counter : dataplane::kWorkerCounters) {
      if (counter.outcome != outcome) continue;
      const u64 packets = counters.at(counter.name).get<u64>();
      if (packets)
        text += fmt::format("{}{} {}", text.empty() ? "    drops: " : ", ", packets, counter.brief);
    }
  return text.empty() ? text : text + "\n";
}

}  // namespace

Json to_json(const dataplane::Durations& d) {
  return {{"count", d.count}, {"mean", d.mean_ns},   {"p50", d.p50_ns},
          {"p99", d.p99_ns},  {"p99_9", d.p99_9_ns}, {"max", d.most_ns}};
}

Json metrics_json(const xg_queue_metrics& m) {
  Json fill = level_json(m.fill);
  fill["least"] = m.fill_least;
  Json device_time = to_json(dataplane::device_time_of(m));
  device_time["log2"] = m.device_ns_log2;
  return {{"ring_size", m.ring_size},
          {"send_ring_size", m.send_ring_size},
          {"rings",
           {{"rx", level_json(m.rx)},
            {"fill", std::move(fill)},
            {"tx", level_json(m.tx)},
            {"completion", level_json(m.completion)},
            {"reinject_tx", level_json(m.reinject_tx)},
            {"reinject_completion", level_json(m.reinject_completion)}}},
          {"frames",
           {{"fill", m.frames_fill},
            {"batch", m.frames_batch},
            {"tx", m.frames_tx},
            {"reinject", m.frames_reinject},
            {"handed", m.frames_handed},
            {"worker_total", m.worker_frames},
            {"worker_free", m.worker_free}}},
          {"kernel_losses",
           {{"rx_dropped", m.kernel_rx_dropped},
            {"rx_ring_full", m.kernel_rx_ring_full},
            {"fill_ring_empty", m.kernel_fill_ring_empty},
            {"tx_refused", m.tx_refused},
            {"reinject_refused", m.reinject_refused}}},
          {"batches", {{"count", m.batches}, {"packets", m.batch_packets}, {"log2", m.batch_log2}}},
          {"device_time_ns", std::move(device_time)},
          {"latency_ns", to_json(dataplane::latency_of(m))}};
}

std::string time_text(u64 ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000) return fmt::format("{} ns", ns);
  if (ns < 999'950) return fmt::format("{:.1f} us", value / 1e3);
  if (ns < 999'950'000) return fmt::format("{:.1f} ms", value / 1e6);
  return fmt::format("{:.1f} s", value / 1e9);
}

std::string durations_text(const Json& durations) {
  auto time = [&](const char* name) { return time_text(durations.at(name).get<u64>()); };
  return fmt::format("p50 {}, p99 {}, p99.9 {}, at most {}", time("p50"), time("p99"), time("p99_9"),
                     time("max"));
}

std::string metrics_text(const Json& queue) {
  const Json& metrics = queue.at("metrics");
  std::string text = rings_text(metrics);
  if (metrics.at("latency_ns").at("count").get<u64>())
    text += fmt::format("    latency: {}\n", durations_text(metrics.at("latency_ns")));
  const Json& batches = metrics.at("batches");
  if (const auto count = batches.at("count").get<u64>())
    text += fmt::format("    batches: {} of {:.1f} packets on average; device time {}\n", count,
                        batches.at("packets").get<double>() / static_cast<double>(count),
                        durations_text(metrics.at("device_time_ns")));
  return text + losses_text(queue.at("counters"));
}

std::string tables_text(const Json& report) {
  if (const auto error = report.find("tables_error"); error != report.end())
    return fmt::format("\ntables of stages: {}\n", error->get<std::string>());
  std::string text;
  for (const auto& table : report.at("tables")) {
    auto n = [&](const char* name) { return table.at(name).get<u64>(); };
    const bool exact = n("live_counted_in") == n("entries");
    text += fmt::format(
        "  pipeline {}, stage {} ({}): {}{} of {} entries live, pressure {:.1f} %, {} ever used\n",
        table.at("pipeline").get<std::string>(), n("stage"), table.at("kind").get<std::string>(),
        exact ? "" : "about ", n("live"), n("entries"), table.at("pressure_percent").get<double>(),
        n("occupied"));
    text +=
        fmt::format("    {} looked, {} found theirs; entries: {} made, {} evicted, {} refused\n",
                    counted(n("touches"), "packet"), n("hits"), n("inserted"), n("evicted"), n("refused"));
    std::string packets;
    for (const auto& [name, count] : table.at("packets").items())
      if (count.get<u64>())
        packets += fmt::format("{}{} {}", packets.empty() ? "    packets: " : ", ", count.get<u64>(), name);
    if (!packets.empty()) text += packets + "\n";
  }
  return text.empty() ? text : "\ntables of stages:\n" + text;
}

}  // namespace xdpgpu::control
