// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <thread>

#include "userspace/cli/command.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/settle.hpp"
#include "userspace/control/summary.hpp"

namespace xdpgpu::cli {
namespace {

int clean_up(const std::string& ifname, Format format) {
  const auto lock = control::RunLock::take();
  if (!lock) return fail(lock.error());
  control::settle_names(*lock);
  control::remove_gone_namespaces();
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

const char* outcome_text(bool keep, const Json& report) {
  if (!keep) return "detached";
  return report.value("kept", false)
             ? "left to the kernel, which goes by what it knows until the next attach"
             : "detached: a program that libxdp's dispatcher runs cannot be left to a later attach";
}

int leave(const std::string& ifname, control::Presence found) {
  if (found != control::Presence::dead) return fail(fmt::format("{} is not attached", ifname));
  print(fmt::format("{}: the process that attached it is dead; the next attach goes on with what it left\n",
                    ifname));
  return kDone;
}

int run(const std::string& ifname, bool keep, Format format) {
  if (const auto found = control::find_process(ifname); found != control::Presence::running)
    return keep ? leave(ifname, found) : clean_up(ifname, format);

  constexpr std::chrono::seconds kTimeout{60};
  Json arguments = Json::object();
  if (keep) arguments["keep"] = true;
  const auto answer =
      control::ask(ifname, {std::string(control::request::kDetach), std::move(arguments)}, kTimeout);
  if (!answer) return dies(ifname) && !keep ? clean_up(ifname, format) : fail(answer.error());
  if (!answer->ok()) return fail(answer->error);
  const Json& report = answer->result;
  if (format == Format::json)
    print_json(report);
  else
    print(fmt::format("{} is {}\n{}", ifname, outcome_text(keep, report), control::account_text(report)));
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
  auto keep = std::make_shared<bool>(false);
  add_interface(*command, "interface", *ifname, "Any one of the process's interfaces")->required();
  command->add_flag(
      "--keep", *keep,
      "Leave the XDP program and its maps where they are, for an upgrade or a restart: flows with "
      "a verdict go by it, what is to be inspected goes by on_failure, and the next attach goes "
      "on from there");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [ifname, keep, format] { return run(*ifname, *keep, *format); });
}

}  // namespace xdpgpu::cli
