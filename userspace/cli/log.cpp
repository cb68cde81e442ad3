// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "userspace/cli/command.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/request/log_reopen.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::cli {
namespace {

struct Reopened {
  std::string interface;
  control::LogReopen::Answer answer;
  static void fields(auto& self, auto& field) {
    field("interface", self.interface);
    control::Fields<control::LogReopen::Answer>::fields(self.answer, field);
  }
};

// One interface of each attach: the others' sockets are links to its.
std::vector<std::string> attached() {
  auto names = kernel::names::interfaces_with_socket();
  std::erase_if(names, [](const std::string& name) {
    std::error_code ignored;
    return std::filesystem::is_symlink(kernel::names::socket(name), ignored);
  });
  return names;
}

int reopen(const std::string& named, Format format) {
  const auto names = named.empty() ? attached() : std::vector<std::string>{named};
  if (names.empty()) return fail("no interface is attached here, so there is no log to reopen");
  std::vector<Reopened> all;
  int worst = kDone;
  for (const auto& name : names) {
    int status = kFailed;
    auto answer = ask<control::LogReopen>(name, status);
    worst = std::max(worst, status);
    if (!answer) continue;
    if (!answer->problems.empty()) worst = std::max(worst, kFailed);
    for (const auto& problem : answer->problems) say(problem);
    if (format == Format::text)
      print(answer->files == 0
                ? fmt::format("{}: its policy's log has no file\n", name)
                : fmt::format("{}: {} of {} opened anew\n", name, answer->files - answer->problems.size(),
                              control::counted(answer->files, "file")));
    all.push_back({name, std::move(*answer)});
  }
  if (format == Format::json) print_record(all);
  return worst;
}

void add(CLI::App& app, Chosen& chosen) {
  auto* log = app.add_subcommand("log", "Reopen the files that logs are written to");
  log->require_subcommand(1);
  auto ifname = std::make_shared<std::string>();
  auto* command = log->add_subcommand("reopen", "Open the files of logs anew, behind logrotate");
  describe(
      *command,
      "Has the attached process open the files that its policy's \"log\" names, as somebody has put others\n"
      "in their places, and write to those from then on. SIGUSR1 to the process does the same. Without an\n"
      "interface: every attached process of this network namespace. Exit status 1: not all could be opened;\n"
      "the process writes on to the files that it has, and tries again each second.");
  add_attached_interface(*command, *ifname);
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [ifname, format] { return reopen(*ifname, *format); });
}

Registered registered(65, add);

}  // namespace

}  // namespace xdpgpu::cli
