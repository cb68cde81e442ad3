// SPDX-License-Identifier: MIT
#include "userspace/manual/command_pages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "userspace/cli/command_line.hpp"
#include "userspace/control/device_codes.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/manual/troff.hpp"

namespace xdpgpu::manual {
namespace {

// Bold what is to be written as it stands, italic what stands for something.
Troff value_text(const Argument& argument) {
  if (argument.value.find('|') == std::string::npos) return italic(argument.value);
  return marked(fmt::format("`{}`", fmt::join(CLI::detail::split(argument.value, '|'), "`|`")));
}

Troff usage(const Argument& argument) {
  Troff one;
  if (argument.names.front().starts_with('-')) {
    one = bold(argument.names.front());
    if (!argument.value.empty()) one += plain(" ") + value_text(argument);
  } else {
    one =
        argument.value.find('|') == std::string::npos ? italic(argument.names.front()) : value_text(argument);
  }
  if (argument.endless) one += plain(" ...");
  return together(argument.required ? one : plain("[") + one + plain("]"));
}

Troff tag(const Argument& argument) {
  Troff all;
  for (const auto& name : argument.names) {
    if (!all.empty()) all += plain(", ");
    all += name.starts_with('-') ? bold(name) : italic(name);
  }
  if (!argument.value.empty()) all += plain(" ") + value_text(argument);
  if (argument.endless) all += plain(" ...");
  return all;
}

Troff about(const Argument& argument) {
  std::string text = argument.about;
  const auto add = [&](const std::string& sentence) {
    if (!text.empty() && !text.ends_with('.')) text += '.';
    text += (text.empty() ? "" : " ") + sentence;
  };
  if (!argument.usual.empty()) add(fmt::format("Default: {}.", argument.usual));
  if (!argument.excludes.empty()) add(fmt::format("Not with {}.", fmt::join(argument.excludes, ", ")));
  if (!argument.needs.empty()) add(fmt::format("Only with {}.", fmt::join(argument.needs, ", ")));
  return plain(text);
}

// A command's own words, sorted into the sections of a page: by how the paragraphs of its help begin.
struct Words {
  std::string about, exit_status, examples;
};
Words sorted(const Command& command) {
  constexpr std::string_view kExit = "Exit status: ", kExamples = "Examples:\n";
  Words words;
  std::string_view rest = command.footer;
  words.about = command.about + "\n";
  while (!rest.empty()) {
    const auto end = rest.find("\n\n");
    std::string_view one = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
    while (one.starts_with('\n')) one.remove_prefix(1);
    if (one.starts_with(kExit))
      words.exit_status = one.substr(kExit.size());
    else if (one.starts_with(kExamples))
      words.examples = one.substr(kExamples.size());
    else
      words.about += fmt::format("\n{}\n", one);
  }
  if (words.exit_status.empty())
    words.exit_status = fmt::format("{}.\n{}", cli::kExitStatuses, cli::kFailuresInJson);
  return words;
}

void list_commands(Page& page, const Command& command) {
  for (const auto& one : command.commands) {
    if (one.commands.empty())
      page.item(Page::reference(name_of(one, "-"), "1"), plain(one.summary));
    else
      list_commands(page, one);
  }
}

bool mentions(const Command& command, std::string_view what) {
  const auto has = [&](const std::string& text) { return text.find(what) != std::string::npos; };
  if (has(command.about) || has(command.footer)) return true;
  for (const auto* list : {&command.arguments, &command.options})
    for (const auto& one : *list)
      if (has(one.about)) return true;
  return false;
}

void files(Page& page, const Command& command) {
  const bool all = command.path.empty();
  if (!all && !mentions(command, cli::kPolicyFile)) return;
  page.section("FILES");
  page.item(bold(cli::kPolicyFile), plain("The policy that attach goes by where none is named, and that "
                                          "\"policy init\" writes."));
  if (!all) return;
  const kernel::names::Scope host, other = "netns-INODE-COOKIE";
  const auto item = [&](const std::string& file, const std::string& about) {
    page.item(bold(file), plain(about));
  };
  item(kernel::names::socket("IF", host),
       "The control socket of the process that has attached the interface.");
  item(kernel::names::pin_root(host) + "/IF/", "The interface's XDP program, its link and its maps.");
  item(kernel::names::run_root(other) + "/, " + kernel::names::pin_root(other) + "/",
       "The same of interfaces in another network namespace, by the inode that \"lsns -t net\" shows.");
  item(control::kCodeFolder, "What was compiled for devices, kept for the next start.");
}

void environment(Page& page, const Command& command) {
  const bool attach = command.path == std::vector<std::string>{"attach"};
  if (!attach && !command.path.empty()) return;
  page.section("ENVIRONMENT");
  page.item(bold("XDPGPU_DEVICE"), plain("The compute device where \"auto\" is asked for."));
  page.item(bold("XDPGPU_CPU_CODE"),
            plain("portable: the device cpu does without this processor's vector instructions."));
  page.item(
      bold("XDPGPU_SECCOMP"),
      plain("record: the data plane's system calls are not filtered, and those that would be refused are "
            "named, for a driver that needs more of them. off: neither filter nor rules for files."));
}

void see_also(Page& page, const Command& command, const Command* above) {
  page.section("SEE ALSO");
  std::set<std::string> names;
  if (above != nullptr) {
    names.insert(name_of(*above, "-"));
    for (const auto& one : above->commands)
      if (!above->path.empty() && one.path != command.path) names.insert(name_of(one, "-"));
  }
  if (!command.path.empty()) {
    names.insert("xdpgpu");
    for (const auto& one : command.commands) names.insert(name_of(one, "-"));
  }
  Troff all;
  for (const auto& name : names) all += Page::reference(name, "1") + plain(", ");
  page.paragraph(all + Page::reference("xdpgpu-policy", "5"));
}

void add_pages(const Command& command, const Command* above, const std::string& date,
               std::vector<ManualPage>& pages) {
  const std::string name = name_of(command, "-");
  Page page(name, "1", date);
  page.section("NAME");
  page.paragraph(plain(name) + Troff{" \\- "} + plain(command.summary));
  page.section("SYNOPSIS");
  Troff rest;
  const auto add = [&](const Troff& one) { rest += (rest.empty() ? Troff{} : Troff{"\n"}) + one; };
  for (const auto& one : command.options) add(usage(one));
  for (const auto& one : command.arguments) add(usage(one));
  if (!command.commands.empty()) add(italic("command") + plain(" ..."));
  page.synopsis(name_of(command), rest);

  const Words words = sorted(command);
  page.section("DESCRIPTION");
  if (words.about.find_first_not_of(" \n") == std::string::npos)
    page.paragraph(plain(command.summary + "."));
  else
    page.help_text(words.about);
  if (!command.commands.empty()) {
    page.section("COMMANDS");
    list_commands(page, command);
  }
  page.section("OPTIONS");
  for (const auto* list : {&command.arguments, &command.options})
    for (const auto& one : *list) page.item(tag(one), about(one));
  page.section("EXIT STATUS");
  page.help_text(words.exit_status);
  environment(page, command);
  files(page, command);
  if (!words.examples.empty()) {
    page.section("EXAMPLES");
    page.help_text(words.examples);
  }
  see_also(page, command, above);
  pages.push_back({name, page.text()});
  for (const auto& one : command.commands) add_pages(one, &command, date, pages);
}

}  // namespace

std::vector<ManualPage> command_pages(const Command& program, const std::string& date) {
  std::vector<ManualPage> pages;
  add_pages(program, nullptr, date, pages);
  return pages;
}

}  // namespace xdpgpu::manual
