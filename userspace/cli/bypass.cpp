// SPDX-License-Identifier: MIT
#include "userspace/control/bypass.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "userspace/cli/command.hpp"
#include "userspace/control/request/bypass.hpp"

namespace xdpgpu::cli {
namespace {

struct Arguments {
  bool on = false;
  std::string ifname;
  std::optional<std::string> time;
};

int run(const Arguments& arguments, Format format) {
  const auto& [on, ifname, time] = arguments;
  std::optional<u64> for_s;
  if (time) {
    const auto seconds = parse_duration(*time);
    if (!seconds || *seconds == 0 || *seconds > control::Bypass::kMostSeconds)
      return fail(fmt::format("--for {} is not a time from 1s to {}h, such as 90s or 5m", *time,
                              control::Bypass::kMostSeconds / 3600),
                  kUsage);
    if (!on) return fail("--for goes with \"bypass on\" alone; \"bypass off\" ends it at once", kUsage);
    for_s = *seconds;
  }
  const auto done = control::set_bypass(ifname, on, for_s);
  if (!done) return fail(done.error());
  if (format == Format::json) {
    print_record(*done);
    return kDone;
  }
  std::string text = on ? "every packet passes, whatever the policy says" : "the policy is in force";
  if (done->ends_in_s)
    text += fmt::format(", until {:%Y-%m-%d %H:%M:%S} UTC ({} s from now)",
                        fmt::gmtime(std::time(nullptr) + static_cast<std::time_t>(*done->ends_in_s)),
                        *done->ends_in_s);
  if (done->by_pins)
    text +=
        "; no process answers for it, so the kernel was told through the pinned map, of this interface alone";
  print(fmt::format("{}: {}\n", ifname, text));
  return kDone;
}

void add(CLI::App& app, Chosen& chosen) {
  auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("bypass", "Let every packet pass for a while, without detaching");
  describe(*command,
           "With on, the kernel passes every packet at once, on all interfaces of the process; with off,\n"
           "the policy decides again. Where that process does not answer, the kernel is told through the\n"
           "interface's pinned map. With --for the process ends the bypass by itself, also if its data\n"
           "plane dies and is started again in the meantime; \"bypass on\" again changes that time, or\n"
           "takes it away.");
  add_choice<bool>(*command, "what", arguments->on, {{"on", true}, {"off", false}}, "What to do")->required();
  add_attached_interface(*command, arguments->ifname)->required();
  command
      ->add_option(
          "--for", arguments->time,
          "End the bypass by itself after this time (90s, 5m; 168h at most); refused where no process "
          "answers, as nobody would end it")
      ->type_name("TIME");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return run(*arguments, *format); });
}

Registered registered(60, add);

}  // namespace

}  // namespace xdpgpu::cli
