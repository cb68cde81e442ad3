// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "userspace/cli/command.hpp"
#include "userspace/control/bypass.hpp"

namespace xdpgpu::cli {
namespace {

int run(bool on, const std::string& ifname, Format format) {
  const auto done = control::set_bypass(ifname, on);
  if (!done) return fail(done.error());
  if (format == Format::json)
    print_record(*done);
  else
    print(fmt::format(
        "{}: {}{}\n", ifname, on ? "every packet passes, whatever the policy says" : "the policy is in force",
        done->by_pins ? "; no process answers for it, so the kernel was told through the pinned map, of "
                        "this interface alone"
                      : ""));
  return kDone;
}

void add(CLI::App& app, Chosen& chosen) {
  struct Arguments {
    bool on = false;
    std::string ifname;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("bypass", "Let every packet pass for a while, without detaching");
  describe(*command,
           "With on, the kernel passes every packet at once, on all interfaces of the process; with off, the "
           "policy\n"
           "decides again. Where that process does not answer, the kernel is told through the interface's\n"
           "pinned map.");
  add_choice<bool>(*command, "what", arguments->on, {{"on", true}, {"off", false}}, "on or off")
      ->required()
      ->type_name("on|off");
  add_interface(*command, "interface", arguments->ifname, "An attached interface")->required();
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen,
              [arguments, format] { return run(arguments->on, arguments->ifname, *format); });
}

Registered registered(60, add);

}  // namespace

}  // namespace xdpgpu::cli
