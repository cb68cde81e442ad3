// SPDX-License-Identifier: MIT
//
// userspace/cli/command_line.hpp: the command line with every command on it: for main, which obeys it, and
// for what is written about it (userspace/manual).
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "userspace/cli/command.hpp"

namespace xdpgpu::cli {

// What the program is, in a line.
inline constexpr const char* kSummary = "Inline packet processor: XDP, AF_XDP and a GPU";
inline constexpr const char* kVersion = XDPGPU_VERSION;
// Of every command that does not say its own.
inline constexpr const char* kExitStatuses = "0 done, 1 failed, 2 wrong usage or wrong policy";
inline constexpr const char* kFailuresInJson =
    "With -o json a failure is an object, too: {\"error\": {\"message\": ...}}.";

// `chosen` gets what is chosen when it is parsed, and has to outlive it.
std::unique_ptr<CLI::App> command_line(Chosen& chosen);

}  // namespace xdpgpu::cli
