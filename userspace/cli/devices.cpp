// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "gpu/gpu.hpp"
#include "userspace/cli/command.hpp"

namespace xdpgpu::cli {
namespace {

const char* kind_name(gpu::Kind kind) {
  switch (kind) {
    case gpu::Kind::cpu:
      return "cpu";
    case gpu::Kind::cuda:
      return "cuda";
    case gpu::Kind::vulkan:
      return "vulkan";
  }
  return "unknown";
}

// A gpu::DeviceInfo, as JSON has it.
struct DeviceLine {
  gpu::DeviceInfo info;
  static void fields(auto& self, auto& field) {
    field("name", self.info.name);
    field("kind", std::string(kind_name(self.info.kind)));
    field("description", self.info.description);
    field("usable", self.info.usable);
    field("reason", self.info.reason);
    field("software", self.info.software);
    field("in_place", self.info.in_place);
    field("memory_bytes", self.info.memory_bytes);
  }
};

std::string text_of(const std::vector<DeviceLine>& devices) {
  std::string text;
  for (const auto& [device] : devices) {
    const std::string memory =
        device.memory_bytes
            ? fmt::format(", {:.1f} GiB", static_cast<double>(device.memory_bytes) / (1 << 30))
            : "";
    const std::string about =
        device.usable
            ? fmt::format(
                  "{}{}; reads frames {}{}", device.description, memory,
                  device.in_place ? "in place" : "from staging buffers",
                  device.software && device.kind == gpu::Kind::vulkan ? "; software, only if named" : "")
            : "not usable: " + device.reason;
    text += fmt::format("{:<12} {}\n", device.name, about);
  }
  return text;
}

int run(Format format) {
  std::vector<DeviceLine> devices;
  for (auto& device : gpu::list_devices()) devices.push_back({std::move(device)});
  if (format == Format::json)
    print_record(devices);
  else
    print(text_of(devices));
  return kDone;
}

void add(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("devices", "List the compute devices, best first");
  describe(
      *command,
      "Lists the devices that --device takes, in the order that auto prefers them, and why those that are "
      "not\n"
      "usable are not.");
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [format] { return run(*format); });
}

Registered registered(90, add);

}  // namespace

}  // namespace xdpgpu::cli
