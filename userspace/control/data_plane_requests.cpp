// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "userspace/control/arguments.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/data_plane_state.hpp"
#include "userspace/control/notes.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/policy/notes.hpp"

namespace xdpgpu::control {

void DataPlane::handle(Request request, const Server::Reply& reply) {
  const auto& name = request.name;
  if (const auto names = setup_.plan.interfaces();
      !request.ifname.empty() && std::find(names.begin(), names.end(), request.ifname) == names.end())
    return reply(Response::failure(fmt::format(
        "the process that was asked attached {} and not {}; run the command again, and where that "
        "does not help remove {}, which leads to it",
        fmt::join(names, ", "), request.ifname, kernel::names::socket(request.ifname))));
  if (shutting_down_) return reply(Response::failure("it is being detached"));
  if (name == request::kDetach) {
    const auto keep = detach_keeps(request.arguments);
    if (!keep) return reply(Response::failure(keep.error()));
    why_ = *keep ? "\"xdpgpu detach --keep\"" : "\"xdpgpu detach\"";
    return shut_down(reply, *keep);
  }
  if (name == request::kStatus) return reply(status());
  if (name == request::kPolicyApply) return reply(apply(std::move(request)));
  if (name == request::kPolicyConfirm) return reply(confirm());
  if (name == request::kPolicyShow) return reply(show());
  if (name == request::kFlowsList) return reply(list(request.arguments));
  if (name == request::kFlowsFlush) return reply(flush());
  if (name == request::kBypass) return reply(bypass(request.arguments));
  reply(Response::failure(
      fmt::format("there is no request \"{}\"; is the command newer than the process?", name)));
}

Response DataPlane::status() const {
  auto made = make_report();
  return made ? Response::success(as_json(*made)) : Response::failure(made.error());
}

Response DataPlane::apply(Request request) {
  auto said = apply_arguments(request.arguments);
  if (!said) return Response::failure(said.error());
  PolicySource source{std::move(said->file), std::move(said->text), std::move(request.files)};
  const u64 confirm_s = said->confirm_s;
  const bool audit = said->keep_audit ? swap_->current()->audits() : said->audit;
  auto compiled = compile_policy(std::move(source), setup_.plan.interfaces());
  if (!compiled)
    return Response::failure(compiled.error().sentence, compiled.error().diagnostics,
                             compiled.error().problems);
  compiled->set_audit(audit);
  if (request.left && request.left())
    return Response::failure(
        "whoever asked for it has gone; the policy was not applied, nothing has changed");
  if (auto applied = put_in_force(std::make_shared<const CompiledPolicy>(std::move(*compiled))); !applied)
    return Response::failure("the policy was not applied, nothing has changed: " + applied.error());

  confirm_timer_.cancel();
  if (confirm_s == 0) {
    keep_confirmed();
  } else {
    go_back_after(std::chrono::seconds(confirm_s));
  }
  Json result = {{"generation", swap_->generation()},
                 {"hash", fmt::format("{:016x}", swap_->current()->policy.hash)},
                 {"rules", swap_->current()->policy.rules.size()},
                 {"audit", audit},
                 {"notes", policy::notes(swap_->current()->policy)}};
  if (auto ignored = ignored_by_apply(taken_at_attach(setup_.plan.policy->policy), swap_->current()->policy))
    result["notes"].push_back(std::move(*ignored));
  if (confirm_s) result["confirm_within_s"] = confirm_s;
  return Response::success(std::move(result));
}

Response DataPlane::confirm() {
  if (confirmed_ == swap_->current())
    return Response::failure(
        "there is no policy to confirm: it is in force for good, or was taken back; apply it "
        "again with \"xdpgpu policy apply IF FILE --confirm TIME\"");
  confirm_timer_.cancel();
  keep_confirmed();
  return Response::success({{"generation", swap_->generation()}});
}

std::optional<Trial> DataPlane::on_trial() const {
  if (!confirmed_ || confirmed_ == swap_->current()) return std::nullopt;
  const auto left = std::chrono::ceil<std::chrono::seconds>(confirm_timer_.expiry() - Clock::now());
  return Trial{std::max<std::int64_t>(0, left.count()),
               {confirmed_->source.file, fmt::format("{:016x}", confirmed_->policy.hash)}};
}

Response DataPlane::show() const {
  // More than somebody would look at.
  constexpr std::size_t kMostText = std::size_t{1} << 20;
  const auto& current = *swap_->current();
  Json files = Json::object();
  for (const auto& [path, content] : current.source.files) files[path] = content.size();
  const bool long_text = current.source.text.size() > kMostText;
  Json result = {{"file", current.source.file},
                 {"text", current.source.text},
                 {"settings", long_text ? Json() : Json::parse(policy::to_json(current.policy))},
                 {"files", std::move(files)},
                 {"at_attach", taken_at_attach(setup_.plan.policy->policy)},
                 {"generation", swap_->generation()},
                 {"audit", current.audits()},
                 {"hash", fmt::format("{:016x}", current.policy.hash)}};
  if (const auto trial = on_trial()) result.update(as_json(*trial));
  if (setup_.plan.last_end) result["last_end"] = as_json(*setup_.plan.last_end);
  return Response::success(std::move(result));
}

Response DataPlane::list(const Json& arguments) const {
  const auto query = flow_query(arguments);
  if (!query) return Response::failure(query.error());
  return Response::success(as_json(list_flows(ports_, *swap_->current(), *query)));
}

Response DataPlane::flush() {
  const auto was_confirmed = confirmed_ == swap_->current();
  if (auto renewed = swap_->renew(); !renewed) return Response::failure(renewed.error());
  if (was_confirmed) confirmed_ = swap_->current();
  return Response::success({{"generation", swap_->generation()}});
}

Response DataPlane::bypass(const Json& arguments) {
  const auto on = bypass_is_on(arguments);
  if (!on) return Response::failure(on.error());
  if (auto set = set_state(*on ? XG_STATE_BYPASS : XG_STATE_RUNNING, true); !set)
    return Response::failure(set.error());
  return Response::success({{"bypass", *on}});
}

}  // namespace xdpgpu::control
