// SPDX-License-Identifier: MIT
#include "userspace/control/arguments.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>

namespace xdpgpu::control {
namespace {

Result<std::optional<bool>> boolean(const Json& arguments, const char* name) {
  const auto said = arguments.find(name);
  if (said == arguments.end()) return std::optional<bool>();
  if (!said->is_boolean()) return Error(fmt::format("\"{}\" is not true or false", name));
  return std::optional<bool>(said->get<bool>());
}

Result<std::optional<u64>> number(const Json& arguments, const char* name, u64 least, u64 most,
                                  const char* what) {
  const auto said = arguments.find(name);
  if (said == arguments.end()) return std::optional<u64>();
  if (!said->is_number_unsigned() || said->get<u64>() < least || said->get<u64>() > most)
    return Error(fmt::format("\"{}\" is not {} from {} to {}", name, what, least, most));
  return std::optional<u64>(said->get<u64>());
}

Result<std::optional<std::string>> text(const Json& arguments, const char* name) {
  const auto said = arguments.find(name);
  if (said == arguments.end()) return std::optional<std::string>();
  if (!said->is_string()) return Error(fmt::format("\"{}\" is not a text", name));
  return std::optional<std::string>(said->get<std::string>());
}

}  // namespace

Result<ApplyArguments> apply_arguments(const Json& arguments) {
  auto policy = text(arguments, "text");
  auto file = text(arguments, "file");
  if (!policy || !file || !*policy || !*file)
    return Error(std::string("policy.apply needs \"text\" and \"file\""));
  const auto confirm_s = number(arguments, "confirm_s", 1, kMaxConfirmSeconds, "a number of seconds");
  if (!confirm_s) return Error(confirm_s.error());
  const auto audit = boolean(arguments, "audit");
  if (!audit) return Error(audit.error());
  const auto keep_audit = boolean(arguments, "keep_audit");
  if (!keep_audit) return Error(keep_audit.error());
  return ApplyArguments{.text = std::move(**policy),
                        .file = std::move(**file),
                        .confirm_s = confirm_s->value_or(0),
                        .audit = audit->value_or(false),
                        .keep_audit = keep_audit->value_or(false)};
}

Result<bool> detach_keeps(const Json& arguments) {
  const auto keep = boolean(arguments, "keep");
  if (!keep) return Error(keep.error());
  return keep->value_or(false);
}

Result<bool> bypass_is_on(const Json& arguments) {
  const auto on = boolean(arguments, "on");
  if (!on || !*on) return Error(std::string("bypass needs \"on\": true or false"));
  return **on;
}

Result<FlowQuery> flow_query(const Json& arguments) {
  FlowQuery query;
  const auto interface = text(arguments, "interface");
  if (!interface) return Error(interface.error());
  const auto limit =
      number(arguments, "limit", 0, std::numeric_limits<u64>::max(), "a number of flow verdicts");
  if (!limit) return Error(limit.error());
  const auto from =
      number(arguments, "from", 0, std::numeric_limits<u32>::max(), "an index of the flow verdicts' map");
  if (!from) return Error(from.error());
  if (*from && !*interface)
    return Error(std::string("\"from\" is an index of one port: name its \"interface\""));
  query.interface = interface->value_or("");
  query.limit = limit->value_or(query.limit);
  query.from = static_cast<u32>(from->value_or(0));
  return query;
}

}  // namespace xdpgpu::control
