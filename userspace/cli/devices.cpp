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

int run(Format format) {
  Json list = Json::array();
  for (const auto& device : gpu::list_devices()) {
    list.push_back({{"name", device.name},
                    {"kind", kind_name(device.kind)},
                    {"description", device.description},
                    {"usable", device.usable},
                    {"reason", device.reason},
                    {"software", device.software},
                    {"in_place", device.in_place},
                    {"memory_bytes", device.memory_bytes}});
    if (format == Format::json) continue;
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
    print(fmt::format("{:<12} {}\n", device.name, about));
  }
  if (format == Format::json) print_json(list);
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
