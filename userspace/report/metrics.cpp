// SPDX-License-Identifier: MIT
#include "userspace/report/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "userspace/report/queue_metrics.hpp"

namespace xdpgpu::report {
namespace {

using control::StatusReport;

Labels labels_of(const Attach& attach) { return report::labels_of(attach, {"attach", attach.name}); }

// Each attach that answers.
using Each = std::function<void(const Labels&, const StatusReport&)>;
void each(std::span<const Attach> attaches, const Each& tell) {
  for (const Attach& attach : attaches)
    if (attach.status) tell(labels_of(attach), *attach.status);
}
// Likewise, those that a data plane serves.
using EachService = std::function<void(const Labels&, const control::ServiceReport&)>;
void each_service(std::span<const Attach> attaches, const EachService& tell) {
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    if (status.service) tell(labels, *status.service);
  });
}

// ---- processes and their policies ------------------------------------------------------------------------

void processes(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::gauge, "xdpgpu_up", "", "Whether the process that attached the interface answers.");
  for (const Attach& attach : attaches) out.sample(labels_of(attach), u64{attach.status.has_value()});
  out.family(Kind::gauge, "xdpgpu_data_plane_up", "",
             "Whether a data plane serves the attach; without one on_failure decides.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    out.sample(labels, u64{status.service.has_value()});
  });
  out.family(Kind::counter, "xdpgpu_data_plane_deaths", "", "Times that the data plane died.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    out.sample(labels, status.data_plane ? status.data_plane->deaths : 0);
  });
  out.family(Kind::gauge, "xdpgpu_uptime_seconds", "seconds", "How long the process has been attached.");
  each(attaches,
       [&](const Labels& labels, const StatusReport& status) { out.sample(labels, status.uptime_s); });
}

void policies(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::info, "xdpgpu_policy", "", "The policy in force.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    out.sample(with(labels, Label{"hash", status.policy.hash}), u64{1});
  });
  out.family(Kind::gauge, "xdpgpu_policy_generation", "", "The number of the policy in force.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    out.sample(labels, u64{status.policy.generation});
  });
  out.family(Kind::gauge, "xdpgpu_policy_audit", "", "Whether the policy is in audit: nothing is dropped.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    out.sample(labels, u64{status.policy.in_force && status.policy.in_force->audit});
  });
  out.family(Kind::gauge, "xdpgpu_policy_confirm_seconds", "seconds",
             "Until a policy that nobody confirms is taken back.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    if (status.policy.trial) out.sample(labels, static_cast<double>(status.policy.trial->confirm_within_s));
  });
}

void verdicts(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::counter, "xdpgpu_received_packets", "", "Packets that the XDP programs saw.");
  each(attaches,
       [&](const Labels& labels, const StatusReport& status) { out.sample(labels, status.packets.in); });
  out.family(Kind::counter, "xdpgpu_inspected_packets", "", "Packets that were handed to user space.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    out.sample(labels, status.packets.inspected);
  });
  out.family(Kind::counter, "xdpgpu_packets", "", "Packets by what became of them, kernel and workers.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    const control::Totals& all = status.packets;
    for (const auto& [verdict, packets] :
         std::initializer_list<std::pair<const char*, u64>>{{"pass", all.pass},
                                                            {"drop", all.drop},
                                                            {"tx", all.tx},
                                                            {"redirect", all.redirect},
                                                            {"error", all.error},
                                                            {"program", all.program}})
      out.sample(with(labels, Label{"verdict", verdict}), packets);
  });
}

// ---- what a policy names ---------------------------------------------------------------------------------

// One of many, by name, of which only so many are told.
struct Named {
  Labels labels;
  std::vector<u64> values;
};
// Those to tell, the largest first values first; what the others count stands in the last.
struct Told {
  std::vector<Named> named;
  std::size_t left_out = 0;
};
Told largest(std::vector<Named> all, const Limits& limits, const Labels& others) {
  Told told;
  if (all.size() > limits.series) {
    std::stable_sort(all.begin(), all.end(),
                     [](const Named& a, const Named& b) { return a.values.front() > b.values.front(); });
    Named rest{others, std::vector<u64>(all.front().values.size())};
    for (std::size_t i = limits.series; i < all.size(); ++i)
      for (std::size_t value = 0; value < rest.values.size(); ++value)
        rest.values[value] += all[i].values[value];
    told.left_out = all.size() - limits.series;
    all.resize(limits.series);
    all.push_back(std::move(rest));
  }
  told.named = std::move(all);
  return told;
}

void left_out(Exposition& out, std::span<const std::pair<Labels, std::size_t>> counts) {
  out.family(Kind::gauge, "xdpgpu_series_left_out", "",
             "Names that have no series of their own, as there are more than are told.");
  for (const auto& [labels, count] : counts) out.sample(labels, u64{count});
}

// Rules that have matched: of the others there is nothing to tell.
std::vector<std::pair<Labels, std::size_t>> rules(Exposition& out, std::span<const Attach> attaches,
                                                  const Limits& limits) {
  std::vector<Told> told;
  std::vector<std::pair<Labels, std::size_t>> missing;
  each_service(attaches, [&](const Labels& labels, const control::ServiceReport& service) {
    std::vector<Named> all;
    for (const auto& rule : service.rules)
      if (rule.packets)
        all.push_back({with(labels, Label{"rule", rule.name}),
                       {rule.packets, rule.bytes, rule.shed.overload, rule.shed.failure}});
    told.push_back(largest(std::move(all), limits, with(labels, Label{"rule", "(others)"})));
    missing.emplace_back(with(labels, Label{"family", "rules"}), told.back().left_out);
  });
  const auto each_rule = [&](const auto& tell) {
    for (const Told& one : told)
      for (const Named& rule : one.named) tell(rule);
  };
  out.family(Kind::counter, "xdpgpu_rule_packets", "", "Packets that a rule of the policy decided.");
  each_rule([&](const Named& rule) { out.sample(rule.labels, rule.values[0]); });
  out.family(Kind::counter, "xdpgpu_rule_bytes", "bytes", "Bytes of these packets.");
  each_rule([&](const Named& rule) { out.sample(rule.labels, rule.values[1]); });
  out.family(Kind::counter, "xdpgpu_rule_shed_packets", "",
             "Packets of a rule that on_overload or on_failure decided.");
  each_rule([&](const Named& rule) {
    out.sample(with(rule.labels, Label{"by", "overload"}), rule.values[2]);
    out.sample(with(rule.labels, Label{"by", "failure"}), rule.values[3]);
  });
  return missing;
}

void never_cached(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::counter, "xdpgpu_uncached_packets", "",
             "Packets of flows that the policy says to cache, and that cannot be.");
  each_service(attaches, [&](const Labels& labels, const control::ServiceReport& service) {
    for (const auto& one : service.never_cached)
      out.sample(with(labels, Label{"reason", one.reason}), one.packets);
  });
}

// ---- devices ---------------------------------------------------------------------------------------------

void devices(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::info, "xdpgpu_device", "", "Compute devices in use.");
  each_service(attaches, [&](const Labels& labels, const control::ServiceReport& service) {
    for (const auto& device : service.devices)
      out.sample(with(labels, Label{"device", device.name}, Label{"mode", device.mode},
                      Label{"frames", device.frames}),
                 u64{1});
  });
  out.family(Kind::gauge, "xdpgpu_device_degraded", "", "Whether the CPU stands in for the device.");
  each_service(attaches, [&](const Labels& labels, const control::ServiceReport& service) {
    for (const auto& device : service.devices)
      out.sample(with(labels, Label{"device", device.name}), u64{device.degraded.has_value()});
  });
  out.family(Kind::gauge, "xdpgpu_frames", "", "Frames of the attach by who has them.");
  each_service(attaches, [&](const Labels& labels, const control::ServiceReport& service) {
    for (const auto& [owner, frames] :
         std::initializer_list<std::pair<const char*, u64>>{{"free", service.frames.free},
                                                            {"fill", service.frames.fill},
                                                            {"batch", service.frames.batch},
                                                            {"tx", service.frames.tx},
                                                            {"waiting", service.frames.waiting}})
      out.sample(with(labels, Label{"owner", owner}), frames);
  });
  out.family(Kind::gauge, "xdpgpu_frames_conserved", "", "Whether every frame has one owner.");
  each_service(attaches, [&](const Labels& labels, const control::ServiceReport& service) {
    out.sample(labels, u64{service.frames.conserved()});
  });
  out.family(Kind::counter, "xdpgpu_mirror_events", "", "What became of mirrored packets, all ports.");
  each_service(attaches, [&](const Labels& labels, const control::ServiceReport& service) {
    if (!service.mirror) return;
#define XG_X(name, ...) out.sample(with(labels, Label{"event", #name}), service.mirror->name);
    XG_MIRROR_COUNTERS(XG_X)
#undef XG_X
  });
}

// ---- what stages remember --------------------------------------------------------------------------------

using EachTable = std::function<void(const Labels&, const control::StageTableReport&)>;
void each_table(std::span<const Attach> attaches, const EachTable& tell) {
  each_service(attaches, [&](const Labels& labels, const control::ServiceReport& service) {
    if (!service.tables) return;
    for (const auto& table : *service.tables)
      tell(with(labels, Label{"pipeline", table.pipeline}, Label{"stage", fmt::format("{}", table.stage)},
                Label{"kind", table.kind}),
           table);
  });
}

void tables(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::gauge, "xdpgpu_table_entries", "", "Entries that a stage's table holds, at most.");
  each_table(attaches, [&](const Labels& labels, const auto& table) { out.sample(labels, table.entries); });
  out.family(Kind::gauge, "xdpgpu_table_live_entries", "", "Entries in use and not timed out.");
  each_table(attaches, [&](const Labels& labels, const auto& table) { out.sample(labels, table.live); });
  out.family(Kind::gauge, "xdpgpu_table_pressure_ratio", "ratio",
             "How full the places are that an entry can have.");
  each_table(attaches, [&](const Labels& labels, const auto& table) {
    out.sample(labels, table.pressure_percent / 100);
  });
  out.family(Kind::counter, "xdpgpu_table_lookups", "", "Packets that looked for their entry.");
  each_table(attaches, [&](const Labels& labels, const auto& table) { out.sample(labels, table.touches); });
  out.family(Kind::counter, "xdpgpu_table_changes", "", "Entries found, made, evicted and refused.");
  each_table(attaches, [&](const Labels& labels, const auto& table) {
    for (const auto& [change, count] :
         std::initializer_list<std::pair<const char*, u64>>{{"hit", table.hits},
                                                            {"inserted", table.inserted},
                                                            {"evicted", table.evicted},
                                                            {"refused", table.refused}})
      out.sample(with(labels, Label{"change", change}), count);
  });
  out.family(Kind::counter, "xdpgpu_table_packets", "", "Packets by what the stage took them for.");
  each_table(attaches, [&](const Labels& labels, const auto& table) {
    for (const auto& [as, count] : table.packets) out.sample(with(labels, Label{"as", as}), count);
  });
  out.family(Kind::counter, "xdpgpu_program_packets", "", "Packets by what a stage's program decided.");
  each_service(attaches, [&](const Labels& labels, const control::ServiceReport& service) {
    for (const auto& program : service.programs)
      for (const auto& [answer, count] : program.packets)
        out.sample(with(labels, Label{"pipeline", program.pipeline},
                        Label{"stage", fmt::format("{}", program.stage)}, Label{"where", program.where},
                        Label{"answer", answer}),
                   count);
  });
}

// ---- what is told ----------------------------------------------------------------------------------------

std::vector<std::pair<Labels, std::size_t>> alarms(Exposition& out, std::span<const Attach> attaches,
                                                   const Limits& limits) {
  std::vector<std::pair<Labels, std::size_t>> missing;
  out.family(Kind::gauge, "xdpgpu_alarms_on", "", "Alarms that are on.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    out.sample(labels, u64{status.alarms ? status.alarms->on.size() : 0});
  });
  out.family(Kind::counter, "xdpgpu_alarms", "", "Alarms that began and ended.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    out.sample(with(labels, Label{"event", "detected"}), status.alarms ? status.alarms->detected : 0);
    out.sample(with(labels, Label{"event", "ended"}), status.alarms ? status.alarms->ended : 0);
  });
  out.family(Kind::gauge, "xdpgpu_alarm_value", "",
             "What an alarm is about, as it is now: per second, by the metric's unit.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    if (!status.alarms) return;
    const auto& on = status.alarms->on;
    for (std::size_t i = 0; i < std::min(on.size(), limits.series); ++i)
      out.sample(with(labels, Label{"pipeline", on[i].pipeline},
                      Label{"stage", fmt::format("{}", on[i].stage)}, Label{"direction", on[i].direction},
                      Label{"target", on[i].target}, Label{"metric", on[i].metric}),
                 on[i].value);
    missing.emplace_back(with(labels, Label{"family", "alarms"}),
                         on.size() - std::min(on.size(), limits.series));
  });
  return missing;
}

void logs(Exposition& out, std::span<const Attach> attaches) {
  using Events = std::initializer_list<std::pair<const char*, const control::LogEventReport*>>;
  const auto each_event = [&](const auto& tell) {
    each(attaches, [&](const Labels& labels, const StatusReport& status) {
      if (!status.log) return;
      const control::LogReport& log = *status.log;
      for (const auto& [event, counts] :
           Events{{"alert", &log.alert}, {"drop", &log.drop}, {"dns", &log.dns}, {"program", &log.program}})
        tell(with(labels, Label{"event", event}), *counts);
    });
  };
  out.family(Kind::counter, "xdpgpu_log_events", "", "Events that were told to logs.");
  each_event(
      [&](const Labels& labels, const control::LogEventReport& counts) { out.sample(labels, counts.told); });
  out.family(Kind::counter, "xdpgpu_log_left_out", "", "Events that logs were not told of, by why.");
  each_event([&](const Labels& labels, const control::LogEventReport& counts) {
    for (const auto& [why, count] :
         std::initializer_list<std::pair<const char*, u64>>{{"rate", counts.over_rate},
                                                            {"threshold", counts.limited},
                                                            {"ring_full", counts.ring_full},
                                                            {"wrong", counts.wrong}})
      out.sample(with(labels, Label{"why", why}), count);
  });
  const auto each_output = [&](const auto& tell) {
    each(attaches, [&](const Labels& labels, const StatusReport& status) {
      if (!status.log) return;
      for (const auto& output : status.log->outputs)
        tell(with(labels, Label{"output", output.output}), output);
    });
  };
  out.family(Kind::gauge, "xdpgpu_log_output_open", "", "Whether a log's output can be written.");
  each_output([&](const Labels& labels, const auto& output) { out.sample(labels, u64{output.open}); });
  out.family(Kind::counter, "xdpgpu_log_lines", "", "Lines that went out.");
  each_output([&](const Labels& labels, const auto& output) { out.sample(labels, output.lines); });
  out.family(Kind::counter, "xdpgpu_log_lines_missed", "", "Lines that an output did not take.");
  each_output([&](const Labels& labels, const auto& output) { out.sample(labels, output.missed); });
}

void health(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::gauge, "xdpgpu_backend_up", "", "Whether a load balancer's backend answers its checks.");
  each(attaches, [&](const Labels& labels, const StatusReport& status) {
    if (!status.health) return;
    for (const auto& backend : *status.health)
      out.sample(with(labels, Label{"pipeline", backend.pipeline},
                      Label{"stage", fmt::format("{}", backend.stage)}, Label{"backend", backend.backend},
                      Label{"address", backend.address}, Label{"port", fmt::format("{}", backend.port)}),
                 u64{backend.up});
  });
}

}  // namespace

std::string metrics_text(std::span<const Attach> attaches, Syntax syntax, const Limits& limits) {
  Exposition out(syntax);
  out.family(Kind::info, "xdpgpu_build", "", "The version of the program that tells these metrics.");
  out.sample({{"version", XDPGPU_VERSION}}, u64{1});
  processes(out, attaches);
  policies(out, attaches);
  verdicts(out, attaches);
  queue_metrics(out, attaches);
  auto missing = rules(out, attaches, limits);
  never_cached(out, attaches);
  devices(out, attaches);
  tables(out, attaches);
  const auto more = alarms(out, attaches, limits);
  missing.insert(missing.end(), more.begin(), more.end());
  logs(out, attaches);
  health(out, attaches);
  left_out(out, missing);
  return std::move(out).text();
}

}  // namespace xdpgpu::report
