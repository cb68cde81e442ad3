// SPDX-License-Identifier: MIT
#include "userspace/host/features.hpp"

#include <fmt/format.h>

#include "userspace/cli/command.hpp"
#include "userspace/host/interface.hpp"

namespace xdpgpu::cli {
namespace {

const char* have_name(host::Have have) {
  switch (have) {
    case host::Have::yes:
      return "yes";
    case host::Have::no:
      return "no";
    case host::Have::unknown:
      return "unknown";
  }
  return "unknown";
}

std::string xdp_modes(const host::InterfaceFacts& facts) {
  if (!facts.xdp_features) return "unknown: this kernel does not tell";
  const u64 bits = *facts.xdp_features;
  if ((bits & (host::kXdpBasic | host::kXdpRedirect)) != (host::kXdpBasic | host::kXdpRedirect))
    return "generic XDP only";
  return fmt::format("native XDP{}{}",
                     bits & host::kXdpZeroCopy ? ", AF_XDP zero-copy" : ", AF_XDP in copy mode",
                     bits & host::kXdpNdoXmit ? ", transmits for other programs" : "");
}

int run(Format format) {
  const auto features = host::probe_features();
  Json list = Json::array();
  int status = kDone;
  for (const auto& feature : features) {
    if (feature.required && feature.have == host::Have::no) status = kFailed;
    list.push_back({{"name", feature.name},
                    {"have", have_name(feature.have)},
                    {"required", feature.required},
                    {"why", feature.why},
                    {"detail", feature.detail}});
    if (format == Format::text)
      print(fmt::format("{:<20} {:<8} {}{} ({})\n", feature.name, have_name(feature.have),
                        feature.required ? "needed: " : "", feature.why, feature.detail));
  }
  Json interfaces = Json::array();
  const auto& netns = kernel::names::own();
  if (format == Format::text)
    print(netns.initial ? "\ninterfaces:\n"
                        : fmt::format("\ninterfaces of network namespace {}:\n", netns.inode));
  for (const auto& name : host::list_interfaces()) {
    const auto facts = host::read_interface(name);
    if (!facts) continue;
    interfaces.push_back({{"interface", name},
                          {"driver", facts->driver},
                          {"queues", facts->rx_queues},
                          {"mtu", facts->mtu},
                          {"xdp_features", facts->xdp_features ? Json(*facts->xdp_features) : Json()},
                          {"modes", xdp_modes(*facts)}});
    if (format == Format::text)
      print(fmt::format("{:<20} {} ({} queue{}): {}\n", name,
                        facts->driver.empty() ? "no driver name" : facts->driver, facts->rx_queues,
                        facts->rx_queues == 1 ? "" : "s", xdp_modes(*facts)));
  }
  if (format == Format::json)
    print_json({{"kernel", host::kernel_version().release},
                {"features", list},
                {"netns", netns_json()},
                {"interfaces", interfaces}});
  return status;
}

void add(CLI::App& app, Chosen& chosen) {
  auto* command =
      app.add_subcommand("features", "Which abilities this kernel has, and what each is good for");
  describe(*command,
           "Tries the kernel's abilities one by one (as root; otherwise some are unknown) and leaves nothing "
           "behind.\n"
           "Exit status 1 if one that is needed is missing.");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [format] { return run(*format); });
}

Registered registered(100, add);

}  // namespace

}  // namespace xdpgpu::cli
