// SPDX-License-Identifier: MIT
//
// userspace/control/eve_log.hpp: the writer of logs: a thread that takes what workers tell
// (userspace/dataplane/event_log.hpp), makes lines of it (eve.hpp) and gives them to the policy's outputs
// (log_output.hpp). Neither workers nor the control thread ever wait for it, or for who reads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/eve.hpp"
#include "userspace/control/log_output.hpp"
#include "userspace/dataplane/event_log.hpp"

namespace xdpgpu::control {

struct LogEventReport {
  u64 told = 0;
  u64 over_rate = 0;  // left out, as there were more than "rate" says
  u64 limited = 0;    // of alerts: left out, as rules' thresholds or suppressions say
  u64 ring_full = 0;  // left out, as the writer did not come after
  u64 wrong = 0;      // of programs: left out, as a device's record said what cannot be
  static void fields(auto& self, auto& field) {
    field("told", self.told);
    field("over_rate", self.over_rate);
    field("limited", self.limited);
    field("ring_full", self.ring_full);
    field("wrong", self.wrong);
  }
};
// Of `status`; since the data plane began.
struct LogReport {
  LogEventReport alert, drop, dns, program;
  u64 thresholds_forgotten = 0;  // windows of rules' thresholds that made room for others before their end
  u64 rule_bits_forgotten = 0;   // that rules had set, likewise
  u64 rules_unasked = 0;         // packets that rules asked a host about, which had no room for more
  u64 rule_bounds_reached = 0;   // packets in which a host did not find an expression, as it took too long
  std::vector<LogOutputReport> outputs;
  static void fields(auto& self, auto& field) {
    field("alert", self.alert);
    field("drop", self.drop);
    field("dns", self.dns);
    field("program", self.program);
    field("thresholds_forgotten", self.thresholds_forgotten);
    field("rule_bits_forgotten", self.rule_bits_forgotten);
    field("rules_unasked", self.rules_unasked);
    field("rule_bounds_reached", self.rule_bounds_reached);
    field("outputs", self.outputs);
  }
};
// As lines of text.
std::string log_text(const LogReport& report);

// Of the control thread.
class EveLog {
 public:
  // selection, logs (one a worker): outlive this object.
  EveLog(dataplane::EventSelection& selection, std::vector<dataplane::EventLog*> logs,
         std::vector<std::string> interfaces);
  ~EveLog() { stop(); }
  EveLog(const EveLog&) = delete;
  EveLog& operator=(const EveLog&) = delete;

  // Starts the thread.
  Result<void> start();
  // Takes what there is, writes what can be written, and ends the thread.
  void stop();

  // A policy is about to be in force as that generation: events may be of it from now on.
  void coming(std::shared_ptr<const compiler::CompiledPolicy> policy, u32 generation);
  // It is: its outputs and events take the place of those before. Outputs that both have go on as they are.
  void in_force(const policy::Policy& policy);
  // The kernel hands on no packet by a policy before any more; those that a device still has are looked at as
  // this one says.
  void settled(const policy::Policy& policy);
  // A port's interface has another name.
  void rename(std::size_t port, const std::string& now);

  // Outputs that are to be opened now, and what came of it.
  std::vector<policy::LogOutput> to_open();
  void opened(const policy::LogOutput& output, Result<kernel::Fd> fd);
  // Whether a line of statistics is due; and one.
  bool wants_stats();
  void stats(const Json& stats);

  // What is to be said, a sentence each.
  std::vector<std::string> news();
  // Nothing where the policy in force logs nothing.
  std::optional<LogReport> report() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    u32 generation = 0;
    std::shared_ptr<const compiler::CompiledPolicy> policy;
  };
  // What the control thread has for the other one.
  struct Mail {
    std::optional<std::vector<policy::LogOutput>> outputs;
    std::vector<std::pair<policy::LogOutput, Result<kernel::Fd>>> opened;
    std::vector<std::string> lines;
    bool empty() const { return !outputs && opened.empty() && lines.empty(); }
  };

  // The thread's.
  void run();
  void take(Mail mail);
  // Of whom events are.
  struct Facts {
    std::vector<Known> known;
    std::vector<std::string> interfaces;
    u64 wall_ns = 0, monotonic_ns = 0;  // the same moment
  };
  // Whether more may be there already.
  bool take_events(const Facts& facts);
  void tell(const dataplane::Event& event, const Facts& facts);
  void tell_alerts(const dataplane::Event& event, const gpu::PipelineSettings& pipeline, const EveFacts& of);
  void tell_program(const dataplane::Event& event, const gpu::PipelineSettings& pipeline, const EveFacts& of);
  void add(std::string_view line);
  void flush();
  void publish();

  dataplane::EventSelection& selection_;
  const std::vector<dataplane::EventLog*> logs_;
  const std::array<u64, 2> key_;
  // The control thread's.
  policy::Log log_;
  std::optional<Clock::time_point> next_stats_;
  std::thread thread_;

  // Of programs: what is told of in no line, as it names a map that there is not.
  std::atomic<u64> wrong_programs_{0};
  // The thread's.
  std::vector<LogOutput> outputs_;
  std::string line_;

  mutable std::mutex mutex_;  // of what follows; never for long
  std::condition_variable wake_;
  bool ended_ = false;
  Mail mail_;
  std::vector<Known> known_;  // the newest last
  std::vector<std::string> interfaces_;
  std::vector<policy::LogOutput> to_open_;
  std::vector<LogOutputReport> reports_;
  std::vector<std::string> news_;
};

}  // namespace xdpgpu::control
