// SPDX-License-Identifier: MIT
#include "gpu/abilities.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <type_traits>
#include <variant>
#include <vector>

#include "gpu/stages/list.hpp"

namespace xdpgpu::gpu {
namespace {

// Those of the stages that remember packets which are content with what a mirror shows.
std::vector<std::string_view> estimating_stages() {
  std::vector<std::string_view> names;
  const auto add = [&]<class Settings>(std::type_identity<Settings>) {
    using Info = StageInfo<Settings>;
    if (Info::kTraits.remembers && Info::kTraits.estimates) names.push_back(Info::kName);
  };
  [&]<class... Settings>(std::type_identity<std::variant<Settings...>>) {
    (add(std::type_identity<Settings>()), ...);
  }(std::type_identity<StageSettings>());
  return names;
}

}  // namespace

Abilities abilities_of(const DeviceInfo& device) {
  return {device.persistent, device.graph, device.kind != Kind::vulkan, device.mirrors_tables};
}

std::optional<Abilities> abilities_at_best(std::string_view name) {
  const auto kind = name.substr(0, name.find(':'));
  if (kind == "cpu") return Abilities{.persistent = true, .mirrors = true, .mirrors_tables = true};
  if (kind == "cuda") return Abilities{.persistent = true, .graph = true, .mirrors = true};
  if (kind == "vulkan") return Abilities{};
  return std::nullopt;
}

Result<void> check_drive(std::string_view name, const Abilities& abilities, Drive drive) {
  if (drive == Drive::persistent && !abilities.persistent)
    return tl::unexpected(fmt::format(
        "{} cannot be driven by a kernel that stays on the device: set compute.mode to auto, inline or "
        "split, or use a CUDA device or the cpu",
        name));
  if (drive == Drive::graph && !abilities.graph)
    return tl::unexpected(
        fmt::format("{} cannot have batches posted ahead, which takes a CUDA device and a driver with stream "
                    "memory operations: set compute.mode to auto, inline or split",
                    name));
  return {};
}

Result<void> check_mirrored(std::string_view name, const Abilities& abilities, bool to_tables) {
  if (!abilities.mirrors)
    return tl::unexpected(
        fmt::format("{} cannot watch mirrored packets, as Vulkan promises no view of the host's memory while "
                    "a submission runs: use the device cpu, or leave out the rules that mirror",
                    name));
  if (to_tables && !abilities.mirrors_tables)
    return tl::unexpected(
        fmt::format("{} cannot take mirrored packets through stages that remember packets ({}): use the "
                    "device cpu, or have "
                    "rules inspect with that pipeline instead of mirroring to it",
                    name, fmt::join(estimating_stages(), ", ")));
  return {};
}

}  // namespace xdpgpu::gpu
