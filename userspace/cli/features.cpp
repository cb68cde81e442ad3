// SPDX-License-Identifier: MIT
#include "userspace/host/features.hpp"

#include <fmt/format.h>

#include "userspace/cli/command.hpp"
#include "userspace/control/report.hpp"
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

struct FeatureReport {
  std::string name, have;
  bool required = false;
  std::string why, detail;
  static void fields(auto& self, auto& field) {
    field("name", self.name);
    field("have", self.have);
    field("required", self.required);
    field("why", self.why);
    field("detail", self.detail);
  }
};
struct InterfaceReport {
  std::string interface, driver;
  u32 queues = 0, mtu = 0;
  std::optional<u64> xdp_features;  // as the kernel numbers them, if it tells
  std::string modes;
  static void fields(auto& self, auto& field) {
    field("interface", self.interface);
    field("driver", self.driver);
    field("queues", self.queues);
    field("mtu", self.mtu);
    field.nullable("xdp_features", self.xdp_features);
    field("modes", self.modes);
  }
};
struct FeaturesReport {
  std::string kernel;
  std::vector<FeatureReport> features;
  control::NetnsReport netns;
  std::vector<InterfaceReport> interfaces;
  static void fields(auto& self, auto& field) {
    field("kernel", self.kernel);
    field("features", self.features);
    field("netns", self.netns);
    field("interfaces", self.interfaces);
  }
};

std::string xdp_modes(const host::InterfaceFacts& facts) {
  if (!facts.xdp_features) return "unknown: this kernel does not tell";
  const u64 bits = *facts.xdp_features;
  if ((bits & (host::kXdpBasic | host::kXdpRedirect)) != (host::kXdpBasic | host::kXdpRedirect))
    return "generic XDP only";
  return fmt::format("native XDP{}{}",
                     bits & host::kXdpZeroCopy ? ", AF_XDP zero-copy" : ", AF_XDP in copy mode",
                     bits & host::kXdpNdoXmit ? ", transmits for other programs" : "");
}

std::string text_of(const FeaturesReport& report) {
  std::string text;
  for (const auto& feature : report.features)
    text += fmt::format("{:<20} {:<8} {}{} ({})\n", feature.name, feature.have,
                        feature.required ? "needed: " : "", feature.why, feature.detail);
  text += report.netns.initial ? "\ninterfaces:\n"
                               : fmt::format("\ninterfaces of network namespace {}:\n", report.netns.inode);
  for (const auto& one : report.interfaces)
    text += fmt::format("{:<20} {} ({} queue{}): {}\n", one.interface,
                        one.driver.empty() ? "no driver name" : one.driver, one.queues,
                        one.queues == 1 ? "" : "s", one.modes);
  return text;
}

int run(Format format) {
  FeaturesReport report{.kernel = host::kernel_version().release,
                        .features = {},
                        .netns = control::own_netns(),
                        .interfaces = {}};
  int status = kDone;
  for (const auto& feature : host::probe_features()) {
    if (feature.required && feature.have == host::Have::no) status = kFailed;
    report.features.push_back(
        {feature.name, have_name(feature.have), feature.required, feature.why, feature.detail});
  }
  for (const auto& name : host::list_interfaces())
    if (const auto facts = host::read_interface(name))
      report.interfaces.push_back(
          {name, facts->driver, facts->rx_queues, facts->mtu, facts->xdp_features, xdp_modes(*facts)});
  if (format == Format::json)
    print_record(report);
  else
    print(text_of(report));
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
