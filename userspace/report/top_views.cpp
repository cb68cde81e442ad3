// SPDX-License-Identifier: MIT
#include "userspace/report/top_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "userspace/control/metrics.hpp"
#include "userspace/dataplane/counters.hpp"
#include "userspace/report/queue_metrics.hpp"

namespace xdpgpu::report {
namespace {

using control::PortReport;
using control::QueueReport;
using control::StatusReport;
using Kind = Column::Kind;
using Row = std::vector<Cell>;
using Rate = std::optional<double>;

// An attach that answers, and what it said before.
struct Pair {
  const Attach& attach;
  const StatusReport& now;
  const StatusReport* before = nullptr;
  double seconds = 0;
  bool elsewhere = false;  // among others: which network namespace has to be said

  std::string label(const std::string& interface) const {
    if (!elsewhere || attach.netns.empty()) return interface;
    return fmt::format("{}@{}", interface, now.netns.inode);
  }
  // A second. A count that is smaller than before began anew.
  Rate rate(u64 count, std::optional<u64> then) const {
    if (before == nullptr) return std::nullopt;
    const u64 was = then.value_or(0);
    return static_cast<double>(count < was ? count : count - was) / seconds;
  }
  const PortReport* port_before(const PortReport& port) const {
    return before == nullptr ? nullptr : find(before->ports, &PortReport::interface, port.interface);
  }
  template <class T, class Value>
  static const T* find(const std::vector<T>& all, Value T::*member, const Value& value) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const T& one) { return one.*member == value; });
    return found == all.end() ? nullptr : &*found;
  }
};

void each_pair(const Look* before, const Look& now, const std::function<void(const Pair&)>& tell) {
  std::set<std::string> namespaces;
  for (const Attach& attach : now.answers.attaches) namespaces.insert(attach.netns);
  for (const Attach& attach : now.answers.attaches) {
    if (!attach.status) continue;
    Pair pair{.attach = attach, .now = *attach.status, .elsewhere = namespaces.size() > 1};
    if (before != nullptr)
      for (const Attach& old : before->answers.attaches)
        if (old.netns == attach.netns && old.status && old.status->pid == pair.now.pid &&
            old.status->uptime_s < pair.now.uptime_s) {
          pair.before = &*old.status;
          pair.seconds = pair.now.uptime_s - old.status->uptime_s;
        }
    tell(pair);
  }
}

// What they are together; nothing where one of them is not known.
Rate sum(Rate a, Rate b) { return a && b ? Rate(*a + *b) : std::nullopt; }
Rate bits(Rate bytes) { return bytes ? Rate(*bytes * 8) : std::nullopt; }

Column words(std::string_view name, std::string_view title, std::size_t width, unsigned rank = 0,
             bool grows = false) {
  return {name, title, Kind::words, width, rank, grows};
}
Column number(std::string_view name, std::string_view title, std::size_t width, unsigned rank = 0) {
  return {name, title, Kind::number, width, rank, false};
}
Column bar(std::string_view name, std::string_view title, std::size_t width, unsigned rank,
           bool grows = false) {
  return {name, title, Kind::bar, width, rank, grows};
}

Cell count_cell(u64 count) { return number_cell(static_cast<double>(count)); }

// ---- verdicts and their reasons --------------------------------------------------------------------------

Tone tone_of(xg_outcome outcome) {
  if (outcome == XG_OUTCOME_drop) return Tone::warn;
  return outcome == XG_OUTCOME_error ? Tone::bad : Tone::plain;
}

struct Reason {
  const char* verdict;
  const dataplane::Counter& counter;
  Tone tone;
  u64 packets;
  Rate packets_s, bits_s;
};

// How much of what came in at the port.
Cell share(Rate part, Rate all) {
  Cell cell;
  if (part && all && *all > 0) cell.number = cell.part = std::clamp(*part / *all, 0.0, 1.0);
  return cell;
}

void add_kernel_reasons(std::vector<Reason>& all, const Pair& pair, const PortReport& port) {
  const PortReport* const then = pair.port_before(port);
  const auto add = [&](const char* verdict, const dataplane::Counter& counter, Tone tone,
                       const xg_counter& now, const xg_counter* was) {
    if (now.packets == 0) return;
    all.push_back({verdict, counter, tone, now.packets,
                   pair.rate(now.packets, was ? std::optional(was->packets) : std::nullopt),
                   bits(pair.rate(now.bytes, was ? std::optional(was->bytes) : std::nullopt))});
  };
  for (std::size_t i = 0; i < port.kernel.by.size(); ++i) {
    const auto& counter = dataplane::kKernelCounters[i];
    add(outcome_name(counter.outcome), counter, tone_of(counter.outcome), port.kernel.by[i],
        then ? &then->kernel.by[i] : nullptr);
  }
  for (std::size_t i = 0; i < port.malformed.by.size(); ++i)
    add("(malformed)", dataplane::kMalformedCounters[i], Tone::quiet, port.malformed.by[i],
        then ? &then->malformed.by[i] : nullptr);
}

void add_worker_reasons(std::vector<Reason>& all, const Pair& pair, const PortReport& port) {
  const auto total = [](const PortReport& one, const dataplane::WorkerCounter& counter) {
    u64 packets = 0;
    for (const QueueReport& queue : one.queues) packets += queue.counters.*counter.value;
    return packets;
  };
  const PortReport* const then = pair.port_before(port);
  for (const auto& counter : dataplane::kWorkerCounters) {
    const u64 packets = total(port, counter);
    if (packets == 0) continue;
    const bool end = dataplane::is_end(counter.outcome);
    all.push_back({end ? outcome_name(counter.outcome) : "(of these)", counter,
                   end ? tone_of(counter.outcome) : Tone::quiet, packets,
                   pair.rate(packets, then ? std::optional(total(*then, counter)) : std::nullopt),
                   std::nullopt});
  }
}

Table verdicts(const Look* before, const Look& now) {
  Table table;
  table.columns = {words("verdict", "verdict", 11),       words("reason", "reason", 21),
                   words("interface", "interface", 9, 2), number("packets_s", "packets/s", 10),
                   number("bits_s", "bits/s", 6, 3),      number("packets", "packets", 7, 1),
                   bar("share", "share", 10, 4),          words("words", "in words", 24, 5, true)};
  table.sorted_by = 3;
  each_pair(before, now, [&](const Pair& pair) {
    for (const PortReport& port : pair.now.ports) {
      std::vector<Reason> reasons;
      add_kernel_reasons(reasons, pair, port);
      add_worker_reasons(reasons, pair, port);
      const PortReport* const then = pair.port_before(port);
      const Rate in =
          pair.rate(port.kernel.by[XG_KERNEL_received].packets,
                    then ? std::optional(then->kernel.by[XG_KERNEL_received].packets) : std::nullopt);
      for (const Reason& reason : reasons)
        table.rows.push_back({words_cell(reason.verdict, reason.tone), words_cell(reason.counter.name),
                              words_cell(pair.label(port.interface)), number_cell(reason.packets_s),
                              number_cell(reason.bits_s), count_cell(reason.packets),
                              share(reason.packets_s, in), words_cell(reason.counter.words, Tone::quiet)});
    }
  });
  return table;
}

// ---- rules -----------------------------------------------------------------------------------------------

const control::FileRulesReport* file_rules_of(const Look& look, const Attach& attach) {
  const auto found = look.file_rules.find({attach.netns, attach.name});
  return found == look.file_rules.end() ? nullptr : &found->second;
}

// How often it had held before. One that is not among those told of had held less often, or never: that is
// known where all were told of.
std::optional<u64> matched_before(const control::FileRulesReport& report,
                                  const control::FileRuleReport& rule) {
  for (const auto& old : report.top)
    if (old.pipeline == rule.pipeline && old.gid == rule.gid && old.sid == rule.sid) return old.matched;
  return report.left_out == 0 ? std::optional<u64>(0) : std::nullopt;
}

void add_file_rules(Table& table, const Pair& pair, const control::FileRulesReport& report,
                    const control::FileRulesReport* before) {
  for (const auto& rule : report.top) {
    const auto was = before && pair.before ? matched_before(*before, rule) : std::nullopt;
    table.rows.push_back({words_cell(fmt::format("{}:{} {}", rule.gid, rule.sid, rule.signature)),
                          words_cell(pair.label(pair.attach.name)),
                          number_cell(was ? pair.rate(rule.matched, was) : std::nullopt), Cell{},
                          count_cell(rule.matched), Cell{}, Cell{}});
  }
  if (report.left_out)
    table.note = fmt::format("of the rules in files the {} that held most often", report.top.size());
}

Table rules(const Look* before, const Look& now) {
  Table table;
  table.columns = {words("rule", "rule", 24, 0, true),   words("attach", "attach", 9, 2),
                   number("packets_s", "packets/s", 10), number("bits_s", "bits/s", 6, 3),
                   number("packets", "packets", 7, 1),   number("shed_s", "shed/s", 6, 4),
                   bar("share", "share", 10, 5)};
  table.sorted_by = 2;
  each_pair(before, now, [&](const Pair& pair) {
    if (!pair.now.service) return;
    std::map<std::string_view, const control::RuleReport*> old;
    if (pair.before && pair.before->service)
      for (const auto& rule : pair.before->service->rules) old.emplace(rule.name, &rule);
    const Rate in =
        pair.rate(pair.now.packets.in, pair.before ? std::optional(pair.before->packets.in) : std::nullopt);
    for (const auto& rule : pair.now.service->rules) {
      const auto found = old.find(rule.name);
      const control::RuleReport none, &was = found == old.end() ? none : *found->second;
      const Rate packets = pair.rate(rule.packets, was.packets);
      const u64 shed = rule.shed.overload + rule.shed.failure;
      table.rows.push_back(
          {words_cell(rule.name), words_cell(pair.label(pair.attach.name)), number_cell(packets),
           number_cell(bits(pair.rate(rule.bytes, was.bytes))), count_cell(rule.packets),
           number_cell(pair.rate(shed, was.shed.overload + was.shed.failure)), share(packets, in)});
    }
    if (const auto* const report = file_rules_of(now, pair.attach))
      add_file_rules(table, pair, *report, before ? file_rules_of(*before, pair.attach) : nullptr);
  });
  return table;
}

// ---- flows and sources -----------------------------------------------------------------------------------

// shown: how many rows there are.
std::string part_note(const FlowsSeen& flows, std::size_t shown) {
  if (flows.parts == 0) return "no interface is attached";
  const std::string known = flows.rated < flows.parts
                                ? fmt::format("rates of {} of {} parts so far; ", flows.rated, flows.parts)
                            : flows.parts > 1 ? fmt::format("1 of {} parts a look; ", flows.parts)
                                              : "";
  const std::string busiest =
      shown < FlowWatch::kShown ? "" : fmt::format("the {} busiest; ", FlowWatch::kShown);
  return fmt::format("{}{}{} of the kernel's, no other flows", busiest, known,
                     flows.current == 1 ? "1 flow verdict"
                                        : short_text(static_cast<double>(flows.current)) + " flow verdicts");
}

Table flows(const Look* /*before*/, const Look& now) {
  Table table;
  table.columns = {words("flow", "flow", 30, 0, true),
                   words("action", "action", 8),
                   number("packets_s", "packets/s", 10),
                   number("bits_s", "bits/s", 6, 2),
                   number("packets", "packets", 7, 1),
                   words("interface", "interface", 9, 3),
                   words("decided_by", "decided by", 20, 4, true)};
  table.sorted_by = 2;
  if (!now.flows) return table;
  table.note = part_note(*now.flows, now.flows->flows.size());
  for (const FlowRate& one : now.flows->flows) {
    const control::FlowReport& flow = one.flow;
    table.rows.push_back(
        {words_cell(flow.flow),
         words_cell(flow.action + (flow.target ? " " + *flow.target : ""),
                    flow.action == "drop" ? Tone::warn : Tone::plain),
         number_cell(one.packets_s), number_cell(one.bytes_s * 8), count_cell(flow.packets),
         words_cell(flow.interface),
         words_cell(flow.decided_by + (flow.backend ? ", backend " + *flow.backend : ""), Tone::quiet)});
  }
  return table;
}

Table sources(const Look* /*before*/, const Look& now) {
  Table table;
  table.columns = {words("source", "source", 39), number("flows", "flows", 6),
                   number("packets_s", "packets/s", 10), number("bits_s", "bits/s", 6, 1),
                   bar("share", "share", 10, 2, true)};
  table.sorted_by = 2;
  if (!now.flows) return table;
  table.note = part_note(*now.flows, now.flows->sources.size());
  const double all = std::accumulate(now.flows->sources.begin(), now.flows->sources.end(), 0.0,
                                     [](double sum, const SourceRate& one) { return sum + one.packets_s; });
  for (const SourceRate& one : now.flows->sources)
    table.rows.push_back({words_cell(one.address), count_cell(one.flows), number_cell(one.packets_s),
                          number_cell(one.bytes_s * 8), share(one.packets_s, all)});
  return table;
}

// ---- queues ----------------------------------------------------------------------------------------------

// Below which time a share of what a histogram has counted since was; 0: nothing was.
template <std::size_t N>
double below(const std::array<u64, N>& now, const std::array<u64, N>* before, double quantile) {
  std::array<u64, N> counts = now;
  if (before)
    for (std::size_t i = 0; i < N; ++i) counts[i] -= std::min(counts[i], (*before)[i]);
  const u64 all = std::accumulate(counts.begin(), counts.end(), u64{0});
  if (all == 0) return 0;
  u64 so_far = 0;
  for (std::size_t i = 0; i < N; ++i) {
    so_far += counts[i];
    if (static_cast<double>(so_far) >= quantile * static_cast<double>(all))
      return static_cast<double>(u64{1} << std::min<std::size_t>(i, 62));
  }
  return 0;
}

Cell time_cell(double ns) {
  if (ns <= 0) return {.text = "-"};
  return {.text = control::time_text(static_cast<u64>(ns)), .number = ns};
}

Cell level_cell(u32 now, u32 size, bool full_is_bad) {
  Cell cell = bar_cell(now, size);
  if (cell.part) {
    const double pressure = full_is_bad ? *cell.part : 1 - *cell.part;
    cell.tone = pressure > 0.9 ? Tone::bad : pressure > 0.6 ? Tone::warn : Tone::good;
  }
  return cell;
}

Table queues(const Look* before, const Look& now) {
  Table table;
  table.columns = {words("interface", "interface", 9),   number("queue", "queue", 5),
                   number("packets_s", "packets/s", 10), bar("rx", "RX ring", 8, 3, true),
                   bar("fill", "fill ring", 9, 4, true), bar("tx", "TX ring", 8, 5, true),
                   number("credits", "credits", 7, 6),   number("p50_ns", "p50 <", 8, 8),
                   number("p99_ns", "p99 <", 8, 1),      bar("latency", "latency", 8, 2, true),
                   words("mode", "mode", 16, 9),         words("device", "device", 12, 10)};
  each_pair(before, now, [&](const Pair& pair) {
    for (const PortReport& port : pair.now.ports) {
      const PortReport* const port_then = pair.port_before(port);
      for (const QueueReport& queue : port.queues) {
        const QueueReport* const then =
            port_then ? Pair::find(port_then->queues, &QueueReport::queue, queue.queue) : nullptr;
        Row row{words_cell(pair.label(port.interface)),
                {.text = fmt::format("{}", queue.queue), .number = queue.queue},
                number_cell(pair.rate(queue.counters.received,
                                      then ? std::optional(then->counters.received) : std::nullopt))};
        if (queue.service) {
          const control::QueueService& service = *queue.service;
          const auto& metrics = service.metrics;
          const auto* const was = then && then->service ? &then->service->metrics.latency.log2 : nullptr;
          const double p50 = was ? below(metrics.latency.log2, was, 0.5) : 0;
          const double p99 = was ? below(metrics.latency.log2, was, 0.99) : 0;
          Cell latency = time_bar_cell(p99);
          latency.tone = p99 > 1e7 ? Tone::bad : p99 > 1e6 ? Tone::warn : Tone::good;
          row.insert(row.end(),
                     {level_cell(metrics.rings.rx.now, metrics.ring_size, true),
                      level_cell(metrics.rings.fill.now, metrics.ring_size, false),
                      level_cell(metrics.rings.tx.now, metrics.send_ring_size, true),
                      Cell{.text = fmt::format("{}", service.credits),
                           .number = service.credits,
                           .tone = service.credits <= 0 ? Tone::bad : Tone::plain},
                      time_cell(p50), time_cell(p99), std::move(latency),
                      words_cell(service.mode + ", " + service.compute_mode), words_cell(service.device)});
        } else {
          row.resize(table.columns.size() - 2);
          row.push_back(words_cell("not served", Tone::bad));
          row.emplace_back();
        }
        table.rows.push_back(std::move(row));
      }
    }
  });
  table.note = "p50, p99: below these times, from receipt to verdict, since the last look";
  return table;
}

// ---- the device, and what it remembers -------------------------------------------------------------------

class DeviceRows {
 public:
  DeviceRows(Table& table, const Pair& pair) : table_(table), pair_(pair) {}

  void add(std::string item, std::string text, Rate rate = std::nullopt, Cell level = {},
           Tone tone = Tone::plain) {
    table_.rows.push_back({words_cell(std::move(item), tone), words_cell(std::move(text), tone),
                           rate ? number_cell(rate) : Cell{}, std::move(level),
                           words_cell(pair_.label(pair_.attach.name), Tone::quiet)});
  }

 private:
  Table& table_;
  const Pair& pair_;
};

struct Sum {
  u64 batches = 0, packets = 0;
  std::array<u64, XG_DEVICE_BUCKETS> device_ns{}, latency_ns{};
};
Sum sum_of(const StatusReport& status, const std::string& device) {
  Sum sum;
  for (const PortReport& port : status.ports)
    for (const QueueReport& queue : port.queues) {
      if (!queue.service || queue.service->device != device) continue;
      const auto& metrics = queue.service->metrics;
      sum.batches += metrics.batches.count;
      sum.packets += metrics.batches.packets;
      for (std::size_t i = 0; i < sum.device_ns.size(); ++i) {
        sum.device_ns[i] += metrics.device_time.log2[i];
        sum.latency_ns[i] += metrics.latency.log2[i];
      }
    }
  return sum;
}

void add_times(DeviceRows& rows, const char* item, const char* unit, const auto& now, const auto* before,
               Rate rate) {
  const double p50 = before ? below(now, before, 0.5) : 0, p99 = before ? below(now, before, 0.99) : 0;
  if (p99 <= 0) return rows.add(item, before ? fmt::format("no {} since the last look", unit) : "-", rate);
  rows.add(item,
           fmt::format("p50 < {}, p99 < {}", control::time_text(static_cast<u64>(p50)),
                       control::time_text(static_cast<u64>(p99))),
           rate, time_bar_cell(p99));
}

void add_device(DeviceRows& rows, const Pair& pair, const control::DeviceReport& device) {
  rows.add("device " + device.name,
           device.degraded
               ? *device.degraded
               : fmt::format("{}, mode {}{}{}", device.frames, device.mode, device.automatic ? " (auto)" : "",
                             device.programs ? ", programs " + *device.programs : ""),
           std::nullopt, {}, device.degraded ? Tone::bad : Tone::good);
  const Sum now = sum_of(pair.now, device.name);
  const Sum then = pair.before ? sum_of(*pair.before, device.name) : Sum{};
  const Sum* const was = pair.before ? &then : nullptr;
  const Rate batches = pair.rate(now.batches, then.batches), packets = pair.rate(now.packets, then.packets);
  rows.add(
      "  batches",
      batches && *batches > 0 ? fmt::format("a second, of {:.1f} packets", *packets / *batches) : "a second",
      batches);
  add_times(rows, "  device time", "batch", now.device_ns, was ? &was->device_ns : nullptr, batches);
  add_times(rows, "  latency", "packet", now.latency_ns, was ? &was->latency_ns : nullptr, packets);
}

void add_tables(DeviceRows& rows, const Pair& pair, const control::ServiceReport& service) {
  if (service.tables_error) rows.add("tables", *service.tables_error, std::nullopt, {}, Tone::bad);
  if (!service.tables) return;
  for (const auto& table : *service.tables) {
    const control::StageTableReport* was = nullptr;
    if (pair.before && pair.before->service && pair.before->service->tables)
      for (const auto& old : *pair.before->service->tables)
        if (old.pipeline == table.pipeline && old.stage == table.stage && old.kind == table.kind) was = &old;
    Cell pressure = bar_cell(table.pressure_percent, 100);
    pressure.tone = table.pressure_percent > 90   ? Tone::bad
                    : table.pressure_percent > 70 ? Tone::warn
                                                  : Tone::good;
    rows.add(fmt::format("table {} {} {}", table.pipeline, table.stage, table.kind),
             fmt::format("{} of {} live, {} refused", table.live, table.entries, table.refused),
             pair.rate(table.touches, was ? std::optional(was->touches) : std::nullopt), std::move(pressure));
  }
}

void add_programs(DeviceRows& rows, const Pair& pair, const control::ServiceReport& service) {
  for (const auto& program : service.programs)
    for (const auto& [answer, packets] : program.packets) {
      if (packets == 0) continue;
      std::optional<u64> was;
      if (pair.before && pair.before->service)
        for (const auto& old : pair.before->service->programs)
          if (old.pipeline == program.pipeline && old.stage == program.stage && old.where == program.where)
            if (const auto found = old.packets.find(answer); found != old.packets.end()) was = found->second;
      rows.add(fmt::format("program {} {}", program.pipeline, program.stage),
               fmt::format("{} ({})", answer, program.where), pair.rate(packets, was));
    }
}

void add_warnings(DeviceRows& rows, const Pair& pair) {
  if (pair.now.alarms)
    for (const auto& alarm : pair.now.alarms->on)
      rows.add("ALARM " + alarm.target,
               fmt::format("{} {}, threshold {}", alarm.value, alarm.metric, alarm.threshold), std::nullopt,
               bar_cell(static_cast<double>(alarm.value), static_cast<double>(alarm.peak)), Tone::bad);
  if (pair.now.health)
    for (const auto& backend : *pair.now.health)
      rows.add("backend " + backend.backend,
               backend.up ? "up" : "DOWN: " + backend.problem.value_or("no answer"), std::nullopt, {},
               backend.up ? Tone::plain : Tone::bad);
}

Table device(const Look* before, const Look& now) {
  Table table;
  table.columns = {words("item", "", 22, 0), words("state", "", 34, 0, true),
                   number("rate_s", "a second", 8, 1), bar("level", "", 10, 2),
                   words("attach", "attach", 9, 3)};
  // As they are put here: the headings are about what follows them.
  table.sorted_by = table.columns.size();
  each_pair(before, now, [&](const Pair& pair) {
    DeviceRows rows(table, pair);
    if (!pair.now.service)
      return rows.add("no data plane", "on_failure decides", std::nullopt, {}, Tone::bad);
    const control::ServiceReport& service = *pair.now.service;
    for (const auto& one : service.devices) add_device(rows, pair, one);
    const auto& frames = service.frames;
    rows.add("frames",
             fmt::format("free {}/{} fill {} batch {} tx {}", frames.free, frames.total, frames.fill,
                         frames.batch, frames.tx),
             std::nullopt,
             bar_cell(static_cast<double>(frames.total - std::min<u64>(frames.free, frames.total)),
                      static_cast<double>(frames.total)),
             frames.conserved() ? Tone::plain : Tone::bad);
    if (service.mirror) {
      const auto* const was = pair.before && pair.before->service && pair.before->service->mirror
                                  ? &*pair.before->service->mirror
                                  : nullptr;
      rows.add("mirror",
               fmt::format("shown to {}; {} unseen", service.mirror->device, service.mirror->overruns),
               pair.rate(service.mirror->mirrored, was ? std::optional(was->mirrored) : std::nullopt));
    }
    add_tables(rows, pair, service);
    add_programs(rows, pair, service);
    add_warnings(rows, pair);
  });
  return table;
}

}  // namespace

Rates rates_of(const Look* before, const Look& now) {
  Rates all;
  bool first = true;
  each_pair(before, now, [&](const Pair& pair) {
    // One that has just come does not hide the others.
    if (pair.before == nullptr) return;
    all.seconds = std::max(all.seconds.value_or(0), pair.seconds);
    const auto add = [&](Rate& to, u64 control::Totals::*count) {
      const Rate rate = pair.rate(pair.now.packets.*count, pair.before->packets.*count);
      to = first ? rate : sum(to, rate);
    };
    add(all.in, &control::Totals::in);
    add(all.pass, &control::Totals::pass);
    add(all.drop, &control::Totals::drop);
    add(all.tx, &control::Totals::tx);
    add(all.redirect, &control::Totals::redirect);
    add(all.error, &control::Totals::error);
    add(all.program, &control::Totals::program);
    add(all.inspected, &control::Totals::inspected);
    first = false;
  });
  return all;
}

std::vector<std::string> warnings_of(const Look& now) {
  std::vector<std::string> all;
  for (const Attach& attach : now.answers.attaches) {
    if (!attach.status) {
      all.push_back(attach.name + " DOES NOT ANSWER");
      continue;
    }
    const StatusReport& status = *attach.status;
    if (!status.service) all.push_back(attach.name + ": NO DATA PLANE, on_failure decides");
    for (const PortReport& port : status.ports)
      if (port.state == "bypass") all.push_back(port.interface + ": BYPASS, everything passes");
    if (status.policy.in_force && status.policy.in_force->audit)
      all.push_back(attach.name + ": AUDIT, nothing is dropped");
    if (status.policy.trial) all.push_back(attach.name + ": the policy is on trial");
    if (status.service)
      for (const auto& device : status.service->devices)
        if (device.degraded) all.push_back(fmt::format("{}: {} is DEGRADED", attach.name, device.name));
    if (status.alarms && !status.alarms->on.empty())
      all.push_back(fmt::format("{}: {} ALARM{}", attach.name, status.alarms->on.size(),
                                status.alarms->on.size() == 1 ? "" : "S"));
  }
  for (const std::string& refused : now.answers.refused) all.push_back(refused);
  return all;
}

Table table_of(View view, const Look* before, const Look& now) {
  switch (view) {
    case View::verdicts:
      return verdicts(before, now);
    case View::rules:
      return rules(before, now);
    case View::flows:
      return flows(before, now);
    case View::sources:
      return sources(before, now);
    case View::queues:
      return queues(before, now);
    case View::device:
      return device(before, now);
  }
  return {};
}

}  // namespace xdpgpu::report
