// SPDX-License-Identifier: MIT
//
// xdpgpu: the command line. Exit status 0: done, 1: failed, 2: wrong usage or a wrong policy; status has some
// of its own.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "userspace/cli/command.hpp"
#include "userspace/cli/command_line.hpp"
#include "userspace/host/netns.hpp"

namespace {

using namespace xdpgpu::cli;
namespace host = xdpgpu::host;

// CLI11's messages as one sentence that ends in where to look.
int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  while (!message.empty() && message.back() == ' ') message.pop_back();
  const CLI::App* command = &app;
  std::string path = "xdpgpu";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  return fail(fmt::format("{}; see \"{} --help\"", message, path), kUsage);
}

bool is_command(const CLI::App& app, const std::string& word) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(commands.begin(), commands.end(), [&](const auto* c) { return c->get_name() == word; });
}

int unknown_command(const CLI::App& app, const std::string& word) {
  std::string names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + command->get_name();
  return fail(fmt::format("there is no command \"{}\"; the commands are {}", word, names), kUsage);
}

// Also where the command line is wrong, so that no parser has understood it.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    if (word == "--") break;
    if (word == "-ojson" || word == "-o=json" || word == "--output=json") return true;
    if ((word == "-o" || word == "--output") && i + 1 < argc && std::strcmp(argv[i + 1], "json") == 0)
      return true;
  }
  return false;
}

int run(int argc, char** argv) {
  // What attach says are events, the last of which tells how it ended: also where it has not begun.
  const bool events = argc > 1 && std::strcmp(argv[1], "attach") == 0;
  if (asks_for_json(argc, argv)) fail_in_json(events ? "end" : "");
  Chosen chosen;
  const auto made = command_line(chosen);
  CLI::App& app = *made;
  if (argc == 1) {
    print(app.help());
    return kUsage;
  }
  const std::string first = argv[1];
  if (first.starts_with('-') && first != "-h" && first != "--help" && first != "--version")
    return fail(fmt::format("there is no option {} in front of a command; see \"xdpgpu --help\"", first),
                kUsage);
  if (first[0] != '-' && !is_command(app, argv[1])) return unknown_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return kDone;
  } catch (const CLI::CallForAllHelp&) {
    print(app.help("", CLI::AppFormatMode::All));
    return kDone;
  } catch (const CLI::CallForVersion& version) {
    print(fmt::format("{}\n", version.what()));
    return kDone;
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  if (!chosen.netns.empty()) {
    if (auto entered = host::enter_netns(chosen.netns); !entered) return fail(entered.error());
    xdpgpu::kernel::names::remember_netns(chosen.netns);
  }
  return chosen.run();
}

// What was printed may still be on its way; a full disk shows only now.
int finish_output(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  fail(fmt::format("cannot write the output{}; see where standard output goes, and run the command again",
                   errno ? fmt::format(": {}", std::strerror(errno)) : ""));
  return status == kDone ? kFailed : status;
}

// Whoever started this may have closed some of the descriptors 0 to 2. Those would be given to the next thing
// that is opened, and what is said, or a daemon that lets go of its terminal, would go there. Each gets
// /dev/null, the wrong way round: to read from it, or to write to it, is still the error that it was.
bool reserve_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest one that is free, which is this one.
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // Nobody could be told.
  if (!reserve_standard_descriptors()) return kFailed;
  int status = kFailed;
  try {
    status = run(argc, argv);
  } catch (const std::exception& error) {
    status = fail(fmt::format("unexpected failure: {}", error.what()));
  }
  return finish_output(status);
}
