// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <thread>

#include "userspace/cli/command.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/leftovers.hpp"
#include "userspace/control/summary.hpp"

namespace xdpgpu::cli {
namespace {

int clean_up(const std::string& ifname, Format format) {
  const auto lock = control::RunLock::take();
  if (!lock) return fail(lock.error());
  const auto removed = control::remove_leftovers(ifname, *lock);
  if (!removed) return fail(removed.error());
  if (removed->empty())
    return fail(
        fmt::format("{} is not attached, and nothing is left of an earlier attach; see what is attached with "
                    "\"xdpgpu status\"",
                    ifname));
  if (format == Format::json)
    print_json({{"removed", *removed}});
  else
    print(fmt::format("{}: the process that attached it is dead; removed what it left: {}\n", ifname,
                      fmt::join(*removed, ", ")));
  return kDone;
}

// A process that was killed may still take the request with its last breath.
bool dies(const std::string& ifname) {
  for (int i = 0; i < 60; i++) {
    if (control::find_process(ifname) != control::Presence::running) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

int run(const std::string& ifname, Format format) {
  if (control::find_process(ifname) != control::Presence::running) return clean_up(ifname, format);

  constexpr std::chrono::seconds kTimeout{60};
  const auto answer = control::ask(ifname, {std::string(control::request::kDetach), {}}, kTimeout);
  if (!answer) return dies(ifname) ? clean_up(ifname, format) : fail(answer.error());
  if (!answer->ok()) return fail(answer->error);
  const Json& report = answer->result;
  if (format == Format::json)
    print_json(report);
  else
    print(fmt::format("{} is detached\n{}", ifname, control::account_text(report)));
  return report.value("frames_conserved", false) && report.value("packets_balanced", false) ? kDone : kFailed;
}

}  // namespace

void add_detach(CLI::App& app, Chosen& chosen) {
  auto ifname = std::make_shared<std::string>();
  auto* command = app.add_subcommand("detach", "End an attach, or clean up after one that died");
  describe(
      *command,
      "Asks the process that attached the interface to end, and waits until everything is undone: packets "
      "in\n"
      "hand are sent, programs, pins and the reinjection pair removed, offloads restored. Where that "
      "process\n"
      "is dead, removes what it left.");
  add_interface(*command, "interface", *ifname, "Any one of the process's interfaces")->required();
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [ifname, format] { return run(*ifname, *format); });
}

}  // namespace xdpgpu::cli
