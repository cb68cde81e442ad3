// SPDX-License-Identifier: MIT
//
// tests/netns/settings_cases.hpp: the policies that settings_test.cpp puts through the commands.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace xdpgpu::lab {

// One more value for a key of the case's policy. All JSON.
struct SettingsValue {
  std::string pointer;
  std::string given;
  std::string
      shown{};  // how `policy show -o json` writes it; empty: as it is given, or a canonical form of that
  std::string refused{};  // where not every host has it: a word of attach's refusal
};

struct SettingsCase {
  std::string name;
  std::string policy;  // IF0 and IF1 are the attached interfaces
  std::vector<SettingsValue> values{};
  bool at_attach = false;  // each value by an attach of its own, else by `policy apply`
};
inline void PrintTo(const SettingsCase& one, std::ostream* out) { *out << one.name; }

const std::vector<SettingsCase>& settings_cases();
// The files that they name, by name.
const std::map<std::string, std::string>& settings_files();

}  // namespace xdpgpu::lab
