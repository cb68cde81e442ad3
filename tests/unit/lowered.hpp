// SPDX-License-Identifier: MIT
//
// tests/unit/lowered.hpp: rules by hand, lowered to signatures.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"

namespace xdpgpu::rules::test {

inline Rule rule_of(const std::string& text) {
  auto rule = parse_rule({text, {"test.rules", 1}}, usual_variables());
  if (!rule) throw std::runtime_error(text + ": " + rule.error());
  return *std::move(rule);
}
inline Lowered lowered(const std::string& options, const std::string& protocol = "udp") {
  return lower(rule_of(fmt::format("alert {} any any -> any any ({} sid:1;)", protocol, options)));
}
// Where streams are followed, and HTTP is read in them.
inline Lowered in_streams(const std::string& options, const std::string& protocol = "tcp") {
  return lower(rule_of(fmt::format("alert {} any any -> any any ({} sid:1;)", protocol, options)),
               Streams::with_answers);
}

}  // namespace xdpgpu::rules::test
