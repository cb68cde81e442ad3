// SPDX-License-Identifier: MIT
#include "userspace/manual/command_tree.hpp"

#include <algorithm>
#include <set>

#include "userspace/cli/command_line.hpp"

namespace xdpgpu::manual {
namespace {

std::vector<std::string> names(const std::set<CLI::Option*>& options) {
  std::vector<std::string> all;
  all.reserve(options.size());
  for (const auto* option : options) all.push_back(option->get_name());
  std::sort(all.begin(), all.end());
  return all;
}

Argument read_argument(CLI::Option& option) {
  Argument argument;
  for (const auto& name : option.get_snames()) argument.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) argument.names.push_back("--" + name);
  if (option.get_positional()) argument.names = {option.get_name(true, false)};
  if (option.get_type_size() != 0) argument.value = option.get_type_name();
  argument.about = option.get_description();
  argument.usual = option.get_default_str();
  argument.excludes = names(option.get_excludes());
  argument.needs = names(option.get_needs());
  argument.required = option.get_required();
  argument.repeated = !argument.value.empty() && option.get_expected_max() > 1;
  argument.endless = argument.repeated && option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  argument.several = argument.repeated && option.get_allow_extra_args();
  argument.attached = cli::is_attached_interface(option);
  return argument;
}

Command read(CLI::App& app, const std::vector<std::string>& path) {
  Command command;
  command.path = path;
  // describe() has put the line in front of the rest; of the program itself there is only the rest.
  const std::string text = app.get_description();
  const auto end = path.empty() ? std::string::npos : text.find(".\n");
  command.summary = path.empty() ? cli::kSummary : text.substr(0, end);
  command.about = path.empty() ? text : end == std::string::npos ? "" : text.substr(end + 2);
  command.footer = app.get_footer();
  for (auto* option : app.get_options())
    (option->get_positional() ? command.arguments : command.options).push_back(read_argument(*option));
  for (auto* one : app.get_subcommands([](CLI::App*) { return true; })) {
    auto below = path;
    below.push_back(one->get_name());
    command.commands.push_back(read(*one, below));
  }
  return command;
}

}  // namespace

Command read_commands(CLI::App& app) { return read(app, {}); }

std::string name_of(const Command& command, const std::string& separator) {
  std::string name = "xdpgpu";
  for (const auto& word : command.path) name += separator + word;
  return name;
}

}  // namespace xdpgpu::manual
