// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "userspace/control/data_plane_state.hpp"
#include "userspace/control/request_registry.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::control {

void DataPlane::handle(Request request, const Reply& reply) {
  if (const auto names = setup_.plan.interfaces();
      !request.ifname.empty() && std::find(names.begin(), names.end(), request.ifname) == names.end())
    return reply(Response::failure(fmt::format(
        "the process that was asked attached {} and not {}; run the command again, and where that "
        "does not help remove {}, which leads to it",
        fmt::join(names, ", "), request.ifname, kernel::names::socket(request.ifname))));
  if (shutting_down_) return reply(Response::failure("it is being detached"));
  const AnyRequest* const known = AnyRequest::find(request.name);
  if (known == nullptr)
    return reply(Response::failure(
        fmt::format("there is no request \"{}\"; is the command newer than the process?", request.name)));
  known->serve(*this, std::move(request), reply);
}

void DataPlane::apply(Order order, Done done) {
  const auto confirm_within = order.confirm_within;
  changes_->add({.source = std::move(order.source),
                 .audit = order.audit,
                 .keep = confirm_within.count() == 0,
                 .left = std::move(order.left),
                 .in_force =
                     [this, confirm_within](const PolicyPtr&) {
                       trial_++;
                       confirm_timer_.cancel();
                       lost_names_.clear();
                       if (confirm_within.count() != 0) return go_back_after(confirm_within);
                       confirmed_ = swap_->current();
                       settle_names();
                     },
                 .done = std::move(done)});
}

void DataPlane::confirm(Done done) {
  if (confirmed_ == swap_->current())
    return done(tl::unexpected(Refusal{
        .sentence = "there is no policy to confirm: it is in force for good, or was taken back; apply it "
                    "again with \"xdpgpu policy apply IF FILE --confirm TIME\""}));
  trial_++;
  confirm_timer_.cancel();
  confirmed_ = swap_->current();
  settle_names();
  changes_->keep(confirmed_, [done = std::move(done)](const Result<void>& kept) {
    if (kept) return done({});
    done(tl::unexpected(
        Refusal{.sentence = fmt::format(
                    "the policy stays in force, but the next data plane begins with the one before, as "
                    "it cannot be kept: {}; confirmed it is all the same",
                    kept.error())}));
  });
}

std::optional<Trial> DataPlane::on_trial() const {
  if (!confirmed_ || confirmed_ == swap_->current()) return std::nullopt;
  const auto left = std::chrono::ceil<std::chrono::seconds>(confirm_timer_.expiry() - Clock::now());
  return Trial{std::max<std::int64_t>(0, left.count()),
               {confirmed_->source.file, fmt::format("{:016x}", confirmed_->policy.hash)}};
}

void DataPlane::renew(Done done) {
  changes_->add({.kind = PolicySwap::Kind::anew,
                 .in_force = [this](const PolicyPtr& before) { follows(before); },
                 .done = std::move(done)});
}

void DataPlane::change_list(ListOrder order, Changed done) {
  auto changed = std::make_shared<ListChanged>();
  changes_->add({.work = [this, order = std::move(order), changed]() -> Result<void> {
                   const compiler::CompiledPolicy& policy = *swap_->current();
                   const auto names = swap_->names();
                   auto planned = plan_changes(policy.policy, *policy.pipelines, *names, order);
                   if (!planned) return Error(planned.error());
                   if (!planned->changed.empty())
                     if (auto put = swap_->change_names(planned->names); !put)
                       return Error(fmt::format("list \"{}\" was not changed: {}", order.list, put.error()));
                   *changed = std::move(*planned);
                   return {};
                 },
                 .done =
                     [this, changed, done = std::move(done)](tl::expected<void, Refusal> worked) {
                       if (!worked) return done(tl::unexpected(std::move(worked.error())));
                       if (!changed->changed.empty()) keep_names();
                       done(std::move(*changed));
                     }});
}

void DataPlane::settle_names() {
  const auto names = swap_->names();
  if (names->empty()) return;
  auto settled = settle_changes(swap_->current()->policy, *swap_->current()->pipelines, *names);
  lost_names_ = std::move(settled.lost);
  for (const std::string& lost : lost_names_) output_.problem(lost);
  swap_->set_names(std::move(settled.names));
}

// One at a time: whoever changes a thousand names, one after the other, has the policy kept a few times.
void DataPlane::keep_names() {
  if (keeps_names_ || shutting_down_) return;
  keeps_names_ = true;
  changes_->keep(confirmed_, [this, names = swap_->names()](const Result<void>& /*kept*/) {
    keeps_names_ = false;
    if (swap_->names() != names) keep_names();
  });
}

FlowsReport DataPlane::flows(const FlowQuery& query) const {
  return list_flows(ports_, *swap_->current(), query);
}

FlowCountsReport DataPlane::flow_counts(const FlowCountQuery& query) const {
  return count_flows(ports_, query);
}

FileRulesReport DataPlane::rules(const RuleQuery& query) const {
  return rule_stats_->top(*swap_->current(), query);
}

Result<void> DataPlane::set_bypass(bool on, std::chrono::seconds ends_after) {
  const auto answer =
      broker_.call(Message::make(MessageType::set_bypass, on ? 1 : 0, static_cast<u32>(ends_after.count())),
                   kStateTimeout);
  if (!answer) return Error(answer.error());
  if (answer->message.type != MessageType::done) return Error(answer->message.text);
  return {};
}

// The broker ends it, whoever has asked for it by then.
std::optional<BypassReport> DataPlane::bypass_end() const {
  const bool bypassed = std::any_of(ports_.begin(), ports_.end(),
                                    [](const auto& port) { return port.state() == XG_STATE_BYPASS; });
  if (!bypassed || shutting_down_ || broker_gone_) return std::nullopt;
  const auto answer = broker_.call(Message::make(MessageType::bypass_left), kReportTimeout);
  if (!answer || answer->message.type != MessageType::done) return std::nullopt;
  return bypass_report(std::chrono::milliseconds(answer->message.record<u64>()));
}

void DataPlane::detach(bool keep, const Reply& reply) {
  why_ = keep ? "\"xdpgpu detach --keep\"" : "\"xdpgpu detach\"";
  shut_down(reply, keep);
}

}  // namespace xdpgpu::control
