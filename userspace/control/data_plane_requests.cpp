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

Result<void> DataPlane::apply(std::shared_ptr<const CompiledPolicy> policy,
                              std::chrono::seconds confirm_within) {
  if (auto applied = put_in_force(std::move(policy)); !applied) return applied;
  confirm_timer_.cancel();
  if (confirm_within.count() == 0)
    keep_confirmed();
  else
    go_back_after(confirm_within);
  return {};
}

bool DataPlane::confirm() {
  if (confirmed_ == swap_->current()) return false;
  confirm_timer_.cancel();
  keep_confirmed();
  return true;
}

std::optional<Trial> DataPlane::on_trial() const {
  if (!confirmed_ || confirmed_ == swap_->current()) return std::nullopt;
  const auto left = std::chrono::ceil<std::chrono::seconds>(confirm_timer_.expiry() - Clock::now());
  return Trial{std::max<std::int64_t>(0, left.count()),
               {confirmed_->source.file, fmt::format("{:016x}", confirmed_->policy.hash)}};
}

Result<void> DataPlane::renew() {
  const auto was_confirmed = confirmed_ == swap_->current();
  if (auto renewed = swap_->renew(); !renewed) return renewed;
  if (was_confirmed) confirmed_ = swap_->current();
  return {};
}

FlowsReport DataPlane::flows(const FlowQuery& query) const {
  return list_flows(ports_, *swap_->current(), query);
}

Result<void> DataPlane::set_bypass(bool on) {
  return set_state(on ? XG_STATE_BYPASS : XG_STATE_RUNNING, true);
}

void DataPlane::detach(bool keep, const Reply& reply) {
  why_ = keep ? "\"xdpgpu detach --keep\"" : "\"xdpgpu detach\"";
  shut_down(reply, keep);
}

}  // namespace xdpgpu::control
