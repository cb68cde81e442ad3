// SPDX-License-Identifier: MIT
#include "userspace/dataplane/devices.hpp"

#include <fmt/format.h>

namespace xdpgpu::dataplane {

Devices::~Devices() {
  while (!devices_.empty()) devices_.pop_back();
}

Result<Devices> Devices::create(std::vector<std::unique_ptr<gpu::Device>> devices, void* region, u64 bytes,
                                gpu::Frames frames, const std::vector<gpu::FlowTables>& tables) {
  if (devices.empty()) return tl::unexpected(std::string("the engine is given no device"));
  const bool several = devices.size() > 1;
  const auto refused = [&](const gpu::Device& device, const std::string& why) {
    return tl::unexpected(several ? fmt::format("device {}: {}", device.info().name, why) : why);
  };
  Devices made;
  for (auto& device : devices) {
    made.devices_.push_back({std::move(device), false, false});
    Device& one = made.devices_.back();
    if (auto ok = one.device->register_frames(region, bytes, frames); !ok)
      return refused(*one.device, ok.error());
    const auto publishes = one.device->publish_flows(tables);
    if (!publishes) return refused(*one.device, publishes.error());
    one.publishes = *publishes;
  }
  return made;
}

Result<void> Devices::load(u32 generation, const std::shared_ptr<const gpu::Pipelines>& pipelines) {
  if (devices_.size() > 1 && !pipelines->states().empty()) {
    const gpu::StateSpec& state = pipelines->states().front();
    return tl::unexpected(
        fmt::format("pipeline \"{}\", stage {}, remembers packets, and each of the {} devices would remember "
                    "only its own queues': attach with one device, or take the stage out",
                    state.pipeline, state.stage + 1, devices_.size()));
  }
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    auto loaded = devices_[i].device->load(generation, pipelines);
    if (loaded) continue;
    for (std::size_t before = 0; before < i; ++before) devices_[before].device->unload(generation);
    if (devices_.size() == 1) return loaded;
    return tl::unexpected(fmt::format("device {}: {}", devices_[i].device->info().name, loaded.error()));
  }
  return {};
}

Result<void> Devices::change_words(u32 generation, std::span<const gpu::ChangedWords> changes) {
  for (const Device& one : devices_)
    if (auto changed = one.device->change_words(generation, changes); !changed)
      return devices_.size() == 1
                 ? changed
                 : tl::unexpected(fmt::format("device {}: {}", one.device->info().name, changed.error()));
  return {};
}

void Devices::unload(u32 generation) noexcept {
  for (const Device& one : devices_) one.device->unload(generation);
}

std::vector<std::string> Devices::failed() {
  std::vector<std::string> sentences;
  for (Device& one : devices_) {
    if (std::string why = one.device->degraded(); why.empty() == one.failed) {
      one.failed = !why.empty();
      if (one.failed) sentences.push_back(std::move(why));
    }
  }
  return sentences;
}

std::vector<std::string> Devices::try_again() {
  std::vector<std::string> sentences;
  for (Device& one : devices_) {
    std::string what = one.device->try_again();
    if (what.empty()) continue;
    sentences.push_back(std::move(what));
    // Should it fail once more, that is news.
    one.failed = !one.device->degraded().empty();
  }
  return sentences;
}

}  // namespace xdpgpu::dataplane
