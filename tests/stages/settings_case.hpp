// SPDX-License-Identifier: MIT
//
// tests/stages/settings_case.hpp: a policy and values for its keys, which tests/netns/settings_test.cpp puts
// through the commands; and the values that several keys have in common.
#pragma once

#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

namespace xdpgpu::tests {

// One more value for a key of the case's policy. All JSON.
struct SettingsValue {
  std::string pointer;
  std::string given;
  std::string
      shown{};  // how `policy show -o json` writes it; empty: as it is given, or a canonical form of that
  std::string refused{};  // where not every host has it: a word of attach's refusal
};
using SettingsValues = std::vector<SettingsValue>;

struct SettingsCase {
  std::string name;
  std::string policy;  // IF0 and IF1 are the attached interfaces
  SettingsValues values{};
  bool at_attach = false;  // each value by an attach of its own, else by `policy apply`
};
inline void PrintTo(const SettingsCase& one, std::ostream* out) { *out << one.name; }

SettingsValues each(const std::string& pointer, const std::vector<std::string>& values);
SettingsValues together(std::initializer_list<SettingsValues> parts);

// Words, as JSON.
extern const std::vector<std::string> kDecisions;      // "pass" and "drop"
extern const std::vector<std::string> kStageDefaults;  // these, and "next"
extern const std::vector<std::string> kEvict;
extern const std::vector<std::string> kCache;

// What a packet meets: rules, management and a stage's rules alike. `at` is the object with the key.
SettingsValues address_values(const std::string& at);
SettingsValues protocol_values(const std::string& at);
SettingsValues port_values(const std::string& at);
SettingsValues vlan_values(const std::string& at);
// In the order in which they are written again.
SettingsValues flag_values(const std::string& at);

}  // namespace xdpgpu::tests
