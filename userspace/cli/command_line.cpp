// SPDX-License-Identifier: MIT
#include "userspace/cli/command_line.hpp"

#include <fmt/format.h>

namespace xdpgpu::cli {
namespace {

constexpr const char* kAbout =
    "An inline packet processor: the kernel (XDP) decides what it can about every packet, a GPU or the CPU\n"
    "decides the rest, and what was decided for a flow the kernel remembers. What is decided, a policy "
    "says.\n"
    "\n"
    "  sudo xdpgpu doctor eth0                  is this host ready?\n"
    "  sudo xdpgpu policy init                  write a first policy for this host\n"
    "  xdpgpu policy check policy.json          is this policy right?\n"
    "  xdpgpu replay trace.pcap -p policy.json  what would it do to these packets?\n"
    "  sudo xdpgpu attach eth0 -p policy.json   do it (Ctrl-C ends it and undoes everything)\n"
    "  sudo xdpgpu status eth0                  what became of the packets, and why?\n";

}  // namespace

std::unique_ptr<CLI::App> command_line(Chosen& chosen) {
  auto app = std::make_unique<CLI::App>(kAbout, "xdpgpu");
  // Of every command that does not say its own: CLI11 hands it on to those that are added from here on.
  const std::string outcome = fmt::format("\nExit status: {}.\n{}", kExitStatuses, kFailuresInJson);
  app->footer(outcome);
  app->set_version_flag("--version", fmt::format("xdpgpu {}", kVersion));
  app->require_subcommand(1);
  app->formatter(std::make_shared<HelpFormatter>());
  app->get_formatter()->column_width(26);
  add_commands(*app, chosen);
  app->footer(
      outcome +
      "\n\n\"xdpgpu status\" and \"xdpgpu policy diff\" have their own. Each command has its own --help.");
  return app;
}

}  // namespace xdpgpu::cli
