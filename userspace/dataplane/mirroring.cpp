// SPDX-License-Identifier: MIT
#include "userspace/dataplane/mirroring.hpp"

namespace xdpgpu::dataplane {
namespace {

u64 load(const u64& value) noexcept { return __atomic_load_n(&value, __ATOMIC_ACQUIRE); }

gpu::MirrorCounters sum(const gpu::MirrorCounters& a, const gpu::MirrorCounters& b) noexcept {
  return {a.taken + b.taken, a.published + b.published, a.evicted + b.evicted,
          a.unknown_generation + b.unknown_generation, a.undecided + b.undecided};
}

}  // namespace

Result<void> Mirroring::open(gpu::Device& device) {
  if (mirror_) return {};
  auto mirror = device.open_mirror(options_);
  if (!mirror) return tl::unexpected(mirror.error());
  mirror_ = std::move(*mirror);
  device_ = device.info().name;
  return {};
}

void Mirroring::close() noexcept {
  if (mirror_) before_ = sum(before_, mirror_->counters());
  mirror_.reset();
}

Result<void> Mirroring::device_is_back(gpu::Device& device) {
  failed_ = false;
  if (!mirror_) return {};
  close();
  return open(device);
}

std::vector<u64> Mirroring::heads() const {
  std::vector<u64> heads;
  each_state([&](const xg_mirror_state& state) { heads.push_back(load(state.head)); });
  return heads;
}

bool Mirroring::past(const std::vector<u64>& heads) const noexcept {
  if (!mirror_ || failed_) return true;
  std::size_t at = 0;
  bool past = true;
  each_state([&](const xg_mirror_state& state) { past &= load(state.consumed) >= heads[at++]; });
  return past;
}

std::optional<MirrorStatus> Mirroring::status() const {
  if (device_.empty()) return std::nullopt;
  MirrorStatus status;
  status.device = device_;
  status.counters = mirror_ ? sum(before_, mirror_->counters()) : before_;
  each_state([&](const xg_mirror_state& state) {
    status.mirrored += load(state.head);
    status.overruns += load(state.overruns);
  });
  return status;
}

}  // namespace xdpgpu::dataplane
