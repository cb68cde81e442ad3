// SPDX-License-Identifier: MIT
//
// tests/netns/settings_cases.hpp: the policies that settings_test.cpp puts through the commands: the stages'
// (tests/stages), and those of all that is no stage's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/stages/settings_case.hpp"

namespace xdpgpu::lab {

using tests::SettingsCase;
using tests::SettingsValue;

const std::vector<SettingsCase>& settings_cases();
// The files that they name, by name.
const std::map<std::string, std::string>& settings_files();

}  // namespace xdpgpu::lab
