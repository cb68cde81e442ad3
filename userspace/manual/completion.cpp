// SPDX-License-Identifier: MIT
#include "userspace/manual/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "userspace/cli/command.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::manual {
namespace {

// What completes an argument's value: the words themselves, or the name of what the frames offer.
std::string kind_of(const Argument& argument) {
  const std::string& value = argument.value;
  if (value.find('|') != std::string::npos) return value;
  if (value == cli::kInterface) return argument.attached ? "attached" : "present";
  if (value == cli::kDevice) return fmt::format("{}", fmt::join(cli::kDeviceKinds, "|"));
  if (value == cli::kFile) return "file";
  if (value == cli::kNetns) return "netns";
  if (value == cli::kGroup) return "group";
  return "none";
}

void replace(std::string& text, std::string_view what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

std::string filled(std::string frame, const std::string& commands) {
  constexpr std::string_view kPlace = "@COMMANDS@\n";
  if (frame.find(kPlace) == std::string::npos)
    throw std::runtime_error("the frame of a completion has no line @COMMANDS@");
  replace(frame, kPlace, commands);
  replace(frame, "@RUN@", kernel::names::run_root(kernel::names::Scope{}));
  return frame;
}

// ---- bash: a line of words for each command

void add_bash(const Command& command, std::string& text) {
  std::string commands, options, values, arguments;
  const auto add = [](std::string& list, const std::string& word) {
    list += (list.empty() ? "" : " ") + word;
  };
  for (const auto& one : command.commands) add(commands, one.path.back());
  for (const auto& one : command.options)
    for (const auto& name : one.names) {
      add(options, name);
      if (!one.value.empty()) add(values, fmt::format("{}:{}{}", name, kind_of(one), one.several ? "+" : ""));
    }
  for (const auto& one : command.arguments) add(arguments, kind_of(one) + (one.several ? "+" : ""));
  text += fmt::format(
      "    '{}')\n      commands='{}'\n      options='{}'\n      values='{}'\n      arguments='{}'\n"
      "      ;;\n",
      fmt::join(command.path, " "), commands, options, values, arguments);
  for (const auto& one : command.commands) add_bash(one, text);
}

// ---- zsh: a function for each command

// In an argument of _arguments, between apostrophes.
std::string in_spec(std::string_view text) {
  std::string all;
  for (const char c : text) {
    if (c == '\'')
      all += "'\\'";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      all += '\\';
    all += c == '\n' ? ' ' : c;
  }
  return all;
}

// The first of what is said: lists are read in passing.
std::string brief(const std::string& about) {
  std::size_t end = about.size();
  for (const char* mark : {"; ", ". ", ".\n", " ("}) end = std::min(end, about.find(mark));
  return about.substr(0, end);
}

std::string zsh_action(const Argument& argument) {
  std::string kind = kind_of(argument);
  if (kind.find('|') != std::string::npos) {
    replace(kind, "|", " ");
    return fmt::format("({})", kind);
  }
  if (kind == "file") return "_files";
  if (kind == "group") return "_groups";
  return kind == "none" ? " " : "_xdpgpu_" + kind;
}

std::string zsh_option(const Argument& option) {
  std::vector<std::string> forms = option.names;
  std::string value;
  if (!option.value.empty()) {
    for (auto& form : forms) form += form.starts_with("--") ? "=" : "+";
    value = fmt::format(":{}:{}", in_spec(option.value), zsh_action(option));
  }
  const std::string front = option.repeated ? "'*'" : fmt::format("'({})'", fmt::join(option.names, " "));
  const std::string form = forms.size() == 1 ? forms.front() : fmt::format("{{{}}}", fmt::join(forms, ","));
  return fmt::format("{}{}'[{}]{}'", front, form, in_spec(brief(option.about)), value);
}

void add_zsh(const Command& command, std::string& text) {
  for (const auto& one : command.commands) add_zsh(one, text);
  std::vector<std::string> specs;
  for (const auto& one : command.options) specs.push_back(zsh_option(one));
  for (std::size_t i = 0; i < command.arguments.size(); i++) {
    const auto& one = command.arguments[i];
    specs.push_back(fmt::format("'{}:{}:{}'", one.several ? "*" : std::to_string(i + 1),
                                in_spec(one.names.front()), zsh_action(one)));
  }
  const std::string name =
      fmt::format("_xdpgpu{}{}", command.path.empty() ? "" : "_of_", fmt::join(command.path, "_"));
  if (command.commands.empty()) {
    text +=
        fmt::format("{}() {{\n  _arguments -s -S : \\\n    {}\n}}\n", name, fmt::join(specs, " \\\n    "));
    return;
  }
  specs.emplace_back("'1: :->command'");
  specs.emplace_back("'*:: :->rest'");
  text += fmt::format(
      "{}() {{\n  local curcontext=$curcontext state line\n  typeset -A opt_args\n"
      "  _arguments -C -S : \\\n    {}\n  case $state in\n    command)\n      local -a commands=(\n",
      name, fmt::join(specs, " \\\n    "));
  for (const auto& one : command.commands)
    text += fmt::format("        '{}:{}'\n", one.path.back(), in_spec(one.summary));
  text +=
      "      )\n      _describe -t commands command commands\n      ;;\n    rest)\n      case $words[1] in\n";
  for (const auto& one : command.commands)
    text += fmt::format("        {}) _xdpgpu_of_{} ;;\n", one.path.back(), fmt::join(one.path, "_"));
  text += "      esac\n      ;;\n  esac\n}\n";
}

}  // namespace

std::string bash_completion(const Command& program, std::string frame) {
  std::string commands;
  add_bash(program, commands);
  return filled(std::move(frame), commands);
}

std::string zsh_completion(const Command& program, std::string frame) {
  std::string commands;
  add_zsh(program, commands);
  return filled(std::move(frame), commands);
}

}  // namespace xdpgpu::manual
