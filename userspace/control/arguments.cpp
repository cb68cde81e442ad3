// SPDX-License-Identifier: MIT
#include "userspace/control/arguments.hpp"

#include <fmt/format.h>

namespace xdpgpu::control {
namespace {

std::string described(const char* kind, const Within& within) {
  return kind ? kind : fmt::format("{} from {} to {}", within.what, within.least, within.most);
}

}  // namespace

const Json* ArgumentReader::find(std::string_view name) const {
  const auto said = arguments_.find(std::string(name));
  return said == arguments_.end() ? nullptr : &*said;
}

void ArgumentReader::read(std::string_view name, const Json& said, std::string& value, const Within& within) {
  if (said.is_string())
    value = said.get<std::string>();
  else
    is_not(name, kind(value), within);
}

void ArgumentReader::read(std::string_view name, const Json& said, bool& value, const Within& within) {
  if (said.is_boolean())
    value = said.get<bool>();
  else
    is_not(name, kind(value), within);
}

std::optional<std::uint64_t> ArgumentReader::whole_number(const Json& said, const Within& within) {
  if (!said.is_number_unsigned()) return std::nullopt;
  const auto number = said.get<std::uint64_t>();
  return number < within.least || number > within.most ? std::nullopt : std::optional(number);
}

void ArgumentReader::lacks(std::string_view name, const char* kind, const Within& within) {
  if (problem_.empty())
    problem_ = fmt::format("{} needs \"{}\": {}", request_, name, described(kind, within));
}

void ArgumentReader::is_not(std::string_view name, const char* kind, const Within& within) {
  if (problem_.empty()) problem_ = fmt::format("\"{}\" is not {}", name, described(kind, within));
}

}  // namespace xdpgpu::control
