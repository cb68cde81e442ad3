// SPDX-License-Identifier: MIT
//
// userspace/control/data_plane_logs.cpp: the logs of an attach: which policy's, what the broker opens for
// them, and which rules workers tell of.
#include <utility>

#include "userspace/control/data_plane_state.hpp"
#include "userspace/control/eve_stats.hpp"
#include "userspace/control/log_places.hpp"

namespace xdpgpu::control {
namespace {

constexpr std::chrono::seconds kOpening{5};

}  // namespace

Result<void> DataPlane::start_logs() {
  log_ =
      std::make_unique<EveLog>(engine_->event_selection(), engine_->event_logs(), setup_.plan.interfaces());
  rule_stats_ = std::make_unique<RuleStats>(engine_->event_selection(), engine_->event_logs());
  swap_->tell({.coming =
                   [this](const auto& policy, u32 generation) {
                     rule_stats_->coming(policy, generation);
                     log_->coming(policy, generation);
                   },
               .in_force = [this](const compiler::CompiledPolicy& policy) { log_->in_force(policy.policy); },
               .settled = [this](const compiler::CompiledPolicy& policy) { log_->settled(policy.policy); }});
  return log_->start();
}

Result<kernel::Fd> DataPlane::open_log(const policy::LogOutput& output) {
  auto answer = broker_.call(Message::make(MessageType::open_log, 0, 0, log_place(output)), kOpening);
  if (!answer) return Error(answer.error());
  if (answer->message.type != MessageType::log) return Error(std::string(answer->message.text));
  return std::move(answer->descriptors[0]);
}

void DataPlane::watch_logs() {
  for (const auto& output : log_->to_open()) log_->opened(output, open_log(output));
  if (log_->wants_stats())
    if (const auto made = make_report()) log_->stats(eve_stats_of(*made));
  for (const auto& sentence : log_->news()) output_.problem(sentence);
  if (setup_.broker.take_pending_reopen()) (void)reopen_logs();
}

ReopenedLogs DataPlane::reopen_logs() {
  ReopenedLogs reopened;
  for (const auto& output : swap_->current()->policy.log.outputs) {
    if (output.kind != policy::LogOutput::Kind::file) continue;
    auto fd = open_log(output);
    reopened.files++;
    if (!fd) reopened.problems.push_back(fd.error());
    log_->opened(output, std::move(fd));
  }
  return reopened;
}

}  // namespace xdpgpu::control
