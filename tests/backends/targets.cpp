// SPDX-License-Identifier: MIT
#include "tests/backends/targets.hpp"

#include <cstdlib>
#include <ostream>
#include <sstream>

namespace xdpgpu::tests {

std::string Target::name() const {
  return kind + (frames == gpu::Frames::staged ? "_staged" : "_in_place") +
         (drive == gpu::Drive::persistent  ? "_persistent"
          : drive == gpu::Drive::graph     ? "_graph"
          : drive == gpu::Drive::automatic ? "_auto"
                                           : "") +
         as;
}

std::vector<Target> all_targets() {
  std::vector<Target> targets;
  for (const char* kind : {"cpu", "cuda", "vulkan"})
    for (gpu::Frames frames : {gpu::Frames::in_place, gpu::Frames::staged})
      targets.push_back({kind, frames, gpu::Drive::launched});
  for (const char* kind : {"cpu", "cuda"})
    for (gpu::Frames frames : {gpu::Frames::in_place, gpu::Frames::staged})
      targets.push_back({kind, frames, gpu::Drive::persistent});
  for (gpu::Frames frames : {gpu::Frames::in_place, gpu::Frames::staged})
    targets.push_back({"cuda", frames, gpu::Drive::graph});
  targets.push_back({"cuda", gpu::Frames::in_place, gpu::Drive::automatic});
  return targets;
}

void PrintTo(const Target& target, std::ostream* out) { *out << target.name(); }
std::string target_name(const testing::TestParamInfo<Target>& info) { return info.param.name(); }

bool required(const std::string& kind) {
  const char* kinds = std::getenv("XDPGPU_TEST_REQUIRE");
  std::istringstream list(kinds == nullptr ? "" : kinds);
  for (std::string item; std::getline(list, item, ',');)
    if (item == kind) return true;
  return false;
}

gpu::Result<std::unique_ptr<gpu::Device>> open_target(const Target& target, void* base, u64 bytes) {
  auto device = gpu::open_device(target.kind);
  if (!device) return device;
  if (auto registered = (*device)->register_frames(base, bytes, target.frames); !registered)
    return tl::unexpected(registered.error());
  if ((*device)->frames() != target.frames) return tl::unexpected("it did not take " + target.name());
  if (target.made != nullptr) return target.made(*std::move(device));
  return device;
}

}  // namespace xdpgpu::tests
