// SPDX-License-Identifier: MIT
//
// userspace/manual/command_tree.hpp: the commands as their manual pages and their completion need them, read
// from the command line itself (userspace/cli/command_line.hpp).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace xdpgpu::manual {

// An option, or an argument that stands by itself: then it has one name, without dashes.
struct Argument {
  std::vector<std::string> names;  // "-p", "--policy"
  std::string value;               // what it takes, as --help has it: "FILE", "text|json"; empty: nothing
  std::string about, usual;        // usual: what it is if it is not said, where CLI11 knows
  std::vector<std::string> excludes, needs;  // other options
  bool required = false;
  bool repeated = false;  // may be there several times
  bool endless = false;   // any number of times; --help shows that by dots
  bool several = false;   // takes several values in a row
  bool attached = false;  // an interface of those that are attached
};

struct Command {
  std::vector<std::string> path;  // "policy", "check"; none: the program itself
  std::string summary;            // its line in the list of commands
  std::string about, footer;      // what its own help says besides
  std::vector<Argument> arguments, options;
  std::vector<Command> commands;
};

Command read_commands(CLI::App& app);

// "xdpgpu policy check", or with another separator.
std::string name_of(const Command& command, const std::string& separator = " ");

}  // namespace xdpgpu::manual
