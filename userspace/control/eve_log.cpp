// SPDX-License-Identifier: MIT
#include "userspace/control/eve_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <variant>

#include "gpu/program_packets.hpp"
#include "gpu/thread.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/dataplane/clock.hpp"
#include "userspace/dataplane/random_key.hpp"

namespace xdpgpu::control {
namespace {

using dataplane::EventKind;

constexpr std::chrono::milliseconds kTurn{20};    // while there are outputs
constexpr std::chrono::milliseconds kIdle{1000};  // else
constexpr u32 kTogether = 128;                    // events, before their lines are written
constexpr std::size_t kPoliciesKnown = 8;         // those of which packets may be under way are fewer

u64 wall_clock_ns() {
  return static_cast<u64>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count());
}

// The ports of the stage that looks at DNS messages, as a build that has it knows it; nullptr: it is another.
const std::vector<gpu::PortRange>* dns_ports_of(const gpu::StageSettings& stage) {
  return std::visit(
      []<class Settings>(const Settings& settings) -> const std::vector<gpu::PortRange>* {
        if constexpr (gpu::StageInfo<Settings>::kName == "domains") return &settings.ports;
        return nullptr;
      },
      stage);
}

bool look_at_dns(const std::vector<gpu::StageSettings>& stages) {
  return std::any_of(stages.begin(), stages.end(),
                     [](const auto& stage) { return dns_ports_of(stage) != nullptr; });
}

// The pipeline's stage that tells of rules, and its place; nothing: it has none.
std::optional<std::size_t> teller_of(const std::vector<gpu::StageSettings>& stages) {
  for (std::size_t i = 0; i < stages.size(); i++)
    if (gpu::file_rules(stages[i]) != nullptr) return i;
  return std::nullopt;
}

// The pipeline's program that puts something out, of which it has one at most; nullptr: it has none.
const gpu::programs::Program* putter_of(const std::vector<gpu::StageSettings>& stages) {
  for (const auto& stage : stages) {
    const auto runs = gpu::program_of(stage);
    if (runs && runs->program && gpu::programs::output_of(*runs->program)) return runs->program.get();
  }
  return nullptr;
}

void select_dns(const policy::Policy& policy, dataplane::EventSelection& selection, bool forget) {
  std::vector<u16> pipelines;
  std::vector<std::pair<u16, u16>> ports;
  for (std::size_t i = 0; i < policy.pipelines.size(); i++)
    for (const auto& stage : policy.pipelines[i].stages)
      if (const auto* ranges = dns_ports_of(stage)) {
        pipelines.push_back(static_cast<u16>(i));
        for (const auto& range : *ranges) ports.emplace_back(range.first, range.last);
      }
  selection.look_at_dns(pipelines, ports, forget);
}

std::string kind_text(const char* name, const LogEventReport& kind) {
  std::string text = fmt::format("{} {} told", name, kind.told);
  if (kind.over_rate) text += fmt::format(", {} left out over the rate", kind.over_rate);
  if (kind.limited) text += fmt::format(", {} left out by their rules' thresholds", kind.limited);
  if (kind.wrong) text += fmt::format(", {} left out as a device's records are wrong", kind.wrong);
  if (kind.ring_full) text += fmt::format(", {} left out as they came too fast", kind.ring_full);
  return text;
}

}  // namespace

std::string log_text(const LogReport& report) {
  const auto early = [](u64 count, std::string_view what) {
    return count == 0 ? "" : fmt::format("; {} {} ended early for want of room", count, what);
  };
  std::string text =
      fmt::format("\nlog: {}; {}; {}; {}{}{}\n", kind_text("drop", report.drop), kind_text("dns", report.dns),
                  kind_text("alert", report.alert), kind_text("program", report.program),
                  early(report.thresholds_forgotten, "windows of thresholds"),
                  early(report.rule_bits_forgotten, "bits of rules"));
  if (report.rules_unasked)
    text +=
        fmt::format("  {} packets that rules asked a host about had no room to wait\n", report.rules_unasked);
  if (report.rule_bounds_reached)
    text += fmt::format("  {} packets had a rule's expression not found in them, as it took too long\n",
                        report.rule_bounds_reached);
  for (const auto& output : report.outputs)
    text += fmt::format("  {}: {} lines, {} missed{}\n", output.output, output.lines, output.missed,
                        output.problem ? fmt::format("; {}", *output.problem)
                        : output.open  ? ""
                                       : "; not open yet");
  return text;
}

EveLog::EveLog(dataplane::EventSelection& selection, std::vector<dataplane::EventLog*> logs,
               std::vector<std::string> interfaces)
    : selection_(selection),
      logs_(std::move(logs)),
      key_(dataplane::random_key()),
      interfaces_(std::move(interfaces)) {}

Result<void> EveLog::start() try {
  thread_ = gpu::start_thread("xdpgpu-log", [this] { run(); });
  return {};
} catch (const std::system_error& error) {
  return Error(std::string("no thread can be started to write logs: ") + error.what());
}

void EveLog::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

// ---- the control thread's -----------------------------------------------------------------------------

void EveLog::coming(std::shared_ptr<const compiler::CompiledPolicy> policy, u32 generation) {
  select_dns(policy->policy, selection_, false);
  const std::lock_guard lock(mutex_);
  known_.push_back({generation, std::move(policy)});
  if (known_.size() > kPoliciesKnown) known_.erase(known_.begin());
}

void EveLog::in_force(const policy::Policy& policy) {
  const bool same_stats = next_stats_ && policy.log.stats && !policy.log.outputs.empty() &&
                          policy.log.stats_every_ns == log_.stats_every_ns;
  log_ = policy.log;
  if (!same_stats) next_stats_.reset();
  if (!same_stats && log_.stats && !log_.outputs.empty())
    next_stats_ = Clock::now() + std::chrono::nanoseconds(log_.stats_every_ns);
  std::vector<EventKind> kinds;
  if (log_.drop) kinds.push_back(EventKind::drop);
  if (log_.alert && std::any_of(policy.pipelines.begin(), policy.pipelines.end(),
                                [](const auto& pipeline) { return teller_of(pipeline.stages).has_value(); }))
    kinds.push_back(EventKind::alert);
  if (log_.dns && std::any_of(policy.pipelines.begin(), policy.pipelines.end(),
                              [](const auto& pipeline) { return look_at_dns(pipeline.stages); }))
    kinds.push_back(EventKind::dns);
  if (log_.program && std::any_of(policy.pipelines.begin(), policy.pipelines.end(),
                                  [](const auto& pipeline) { return putter_of(pipeline.stages) != nullptr; }))
    kinds.push_back(EventKind::program);
  if (log_.outputs.empty())
    selection_.tell_nothing();
  else
    selection_.tell(kinds, log_.rate, log_.alert_rate, log_.payload_bytes);
  const std::lock_guard lock(mutex_);
  mail_.outputs = log_.outputs;
  wake_.notify_one();
}

// A policy has its lists with it, millions of names maybe: those before go, and nobody waits while they do.
void EveLog::settled(const policy::Policy& policy) {
  select_dns(policy, selection_, true);
  std::vector<Known> before;
  const std::lock_guard lock(mutex_);
  if (known_.size() < 2) return;
  before.swap(known_);
  known_.push_back(std::move(before.back()));
}

void EveLog::rename(std::size_t port, const std::string& now) {
  const std::lock_guard lock(mutex_);
  interfaces_.at(port) = now;
}

std::vector<policy::LogOutput> EveLog::to_open() {
  const std::lock_guard lock(mutex_);
  return std::exchange(to_open_, {});
}

void EveLog::opened(const policy::LogOutput& output, Result<kernel::Fd> fd) {
  const std::lock_guard lock(mutex_);
  mail_.opened.emplace_back(output, std::move(fd));
  wake_.notify_one();
}

bool EveLog::wants_stats() {
  const auto now = Clock::now();
  if (!next_stats_ || now < *next_stats_) return false;
  // One that comes late is not made up for.
  next_stats_ = std::max(*next_stats_ + std::chrono::nanoseconds(log_.stats_every_ns), now);
  return true;
}

void EveLog::stats(const Json& stats) {
  std::string line;
  eve_stats(stats, wall_clock_ns(), line);
  const std::lock_guard lock(mutex_);
  mail_.lines.push_back(std::move(line));
  wake_.notify_one();
}

std::vector<std::string> EveLog::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

std::optional<LogReport> EveLog::report() const {
  if (log_.outputs.empty()) return std::nullopt;
  LogReport report;
  for (const auto* log : logs_)
    for (const auto& [kind, sum] : {std::pair(EventKind::drop, &report.drop),
                                    {EventKind::dns, &report.dns},
                                    {EventKind::alert, &report.alert},
                                    {EventKind::program, &report.program}}) {
      const dataplane::EventCounts counts = log->counts(kind);
      sum->told += counts.told;
      sum->over_rate += counts.over_rate;
      sum->limited += counts.limited;
      sum->ring_full += counts.ring_full;
      sum->wrong += counts.wrong;
    }
  // They came into a ring, and are in no line.
  const u64 wrong = std::min(wrong_programs_.load(std::memory_order_relaxed), report.program.told);
  report.program.told -= wrong;
  report.program.wrong += wrong;
  for (auto* const log : logs_) {
    report.rules_unasked += log->finisher().unasked();
    report.rule_bounds_reached += log->finisher().bounds_reached();
  }
  report.thresholds_forgotten = selection_.rules().forgotten();
  report.rule_bits_forgotten = selection_.rules().bits_forgotten();
  const std::lock_guard lock(mutex_);
  report.outputs = reports_;
  return report;
}

// ---- the thread's -------------------------------------------------------------------------------------

void EveLog::run() {
  std::unique_lock lock(mutex_);
  for (bool more = false, ended = false; !ended;) {
    wake_.wait_for(lock,
                   more               ? std::chrono::milliseconds(0)
                   : outputs_.empty() ? kIdle
                                      : kTurn,
                   [this] { return ended_ || !mail_.empty(); });
    ended = ended_;
    Mail mail = std::exchange(mail_, {});
    const Facts facts{known_, interfaces_, wall_clock_ns(), dataplane::monotonic_ns()};
    lock.unlock();
    take(std::move(mail));
    more = take_events(facts);
    flush();
    lock.lock();
    publish();
  }
}

void EveLog::take(Mail mail) {
  if (mail.outputs) {
    std::vector<LogOutput> outputs;
    for (const auto& wanted : *mail.outputs) {
      const auto before = std::find_if(outputs_.begin(), outputs_.end(),
                                       [&](const LogOutput& output) { return output.output() == wanted; });
      if (before != outputs_.end())
        outputs.push_back(std::move(*before));
      else
        outputs.emplace_back(wanted);
    }
    outputs_ = std::move(outputs);
  }
  for (auto& [which, fd] : mail.opened)
    for (LogOutput& output : outputs_) {
      if (!(output.output() == which)) continue;
      if (fd)
        output.opened(std::move(*fd));
      else
        output.not_opened(fd.error(), Clock::now());
      break;
    }
  for (const std::string& line : mail.lines) add(line);
}

bool EveLog::take_events(const Facts& facts) {
  bool more = false;
  for (dataplane::EventLog* log : logs_) {
    u32 taken = 0;
    for (; taken < dataplane::EventLog::kEvents; taken++) {
      const dataplane::Event* event = log->oldest();
      if (event == nullptr) break;
      if (!outputs_.empty()) tell(*event, facts);
      log->take();
      if (taken % kTogether == kTogether - 1) flush();
    }
    more |= taken > dataplane::EventLog::kEvents / 4;
  }
  return more;
}

void EveLog::tell(const dataplane::Event& event, const Facts& facts) {
  EveFacts of;
  of.key = key_;
  of.wall_ns = facts.wall_ns + event.at_ns - facts.monotonic_ns;
  if (event.port < facts.interfaces.size()) of.interface = facts.interfaces[event.port];
  const auto known = std::find_if(facts.known.rbegin(), facts.known.rend(),
                                  [&](const Known& one) { return one.generation == event.generation; });
  const gpu::PipelineSettings* pipeline = nullptr;
  if (known != facts.known.rend() && event.pipeline < known->policy->pipelines->settings().size())
    pipeline = &known->policy->pipelines->settings()[event.pipeline];
  if (pipeline) of.pipeline = pipeline->name;
  of.decided_by = decider_text(event.verdict, pipeline, nullptr);
  line_.clear();
  if (event.kind == EventKind::alert) return pipeline ? tell_alerts(event, *pipeline, of) : void();
  if (event.kind == EventKind::program) return pipeline ? tell_program(event, *pipeline, of) : void();
  if (event.kind == EventKind::drop)
    eve_drop(event, of, line_);
  else if (!pipeline || look_at_dns(pipeline->stages))
    eve_dns(event, of, line_);
  if (!line_.empty()) add(line_);
}

// A line for each of its rules.
void EveLog::tell_alerts(const dataplane::Event& event, const gpu::PipelineSettings& pipeline,
                         const EveFacts& of) {
  const auto teller = teller_of(pipeline.stages);
  const auto* const rules = teller ? gpu::file_rules(pipeline.stages[*teller]) : nullptr;
  if (rules == nullptr || !rules->heads) return;
  const bool blocked = XG_VERDICT_ACTION(event.verdict) == XG_DROP && !event.audited;
  const u32 count = std::min<u32>(event.alerts.count & ~XG_ALERTS_MORE, XG_MAX_ALERTS);
  for (u32 i = 0; i < count; i++) {
    if (event.alerts.rules[i] >= rules->heads->size()) continue;
    const gpu::RuleHead& head = (*rules->heads)[event.alerts.rules[i]];
    line_.clear();
    eve_alert(event,
              {.gid = head.gid,
               .sid = head.sid,
               .rev = head.rev,
               .severity = head.priority,
               .signature = head.msg,
               .category = head.category,
               .blocked = blocked,
               .more = (event.alerts.count & XG_ALERTS_MORE) != 0},
              of, line_);
    add(line_);
  }
}

// A device says which map it was.
void EveLog::tell_program(const dataplane::Event& event, const gpu::PipelineSettings& pipeline,
                          const EveFacts& of) {
  const auto* const program = putter_of(pipeline.stages);
  if (program == nullptr || event.program.map >= program->maps.size()) {
    wrong_programs_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  eve_program(event, {.name = program->name, .map = program->maps[event.program.map].name}, of, line_);
  add(line_);
}

void EveLog::flush() {
  for (LogOutput& output : outputs_) output.flush(Clock::now());
}

void EveLog::add(std::string_view line) {
  for (LogOutput& output : outputs_) output.add(line);
}

void EveLog::publish() {
  reports_.clear();
  for (LogOutput& output : outputs_) {
    reports_.push_back(output.report());
    if (output.wants_opening(Clock::now())) to_open_.push_back(output.output());
    if (auto news = output.news(); !news.empty()) news_.push_back(std::move(news));
  }
}

}  // namespace xdpgpu::control
