// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "userspace/cli/command.hpp"

namespace xdpgpu::cli {
namespace {

int run(bool on, const std::string& ifname, Format format) {
  int status = kFailed;
  const auto result = ask(ifname, std::string(control::request::kBypass), {{"on", on}}, status);
  if (!result) return status;
  if (format == Format::json)
    print_json(*result);
  else
    print(on ? fmt::format("{}: every packet passes, whatever the policy says\n", ifname)
             : fmt::format("{}: the policy is in force\n", ifname));
  return kDone;
}

}  // namespace

void add_bypass(CLI::App& app, Chosen& chosen) {
  struct Arguments {
    bool on = false;
    std::string ifname;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("bypass", "Let every packet pass for a while, without detaching");
  describe(*command,
           "With on, the kernel passes every packet at once, on all interfaces of the process; with off, the "
           "policy\n"
           "decides again.");
  add_choice<bool>(*command, "what", arguments->on, {{"on", true}, {"off", false}}, "on or off")
      ->required()
      ->type_name("on|off");
  add_interface(*command, "interface", arguments->ifname, "An attached interface")->required();
  const auto format = add_output(*command);
  when_chosen(*command, chosen,
              [arguments, format] { return run(arguments->on, arguments->ifname, *format); });
}

}  // namespace xdpgpu::cli
