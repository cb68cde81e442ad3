// SPDX-License-Identifier: MIT
#include "userspace/dataplane/mirroring.hpp"

namespace xdpgpu::dataplane {
namespace {

u64 load(const u64& value) noexcept { return __atomic_load_n(&value, __ATOMIC_ACQUIRE); }

// What the device counts; the rest of the table the kernel does.
template <class Counters>
void add(MirrorStatus& sum, const Counters& counters) noexcept {
#define XG_X(name, ...) \
  if constexpr (requires { counters.name; }) sum.name += counters.name;
  XG_MIRROR_COUNTERS(XG_X)
#undef XG_X
}

template <class Counters>
constexpr std::size_t in_the_table() {
  std::size_t named = 0;
#define XG_X(name, ...) \
  if constexpr (requires(Counters counters) { counters.name; }) named++;
  XG_MIRROR_COUNTERS(XG_X)
#undef XG_X
  return named;
}
static_assert(in_the_table<gpu::MirrorCounters>() * sizeof(u64) == sizeof(gpu::MirrorCounters),
              "a counter of the device's is not in XG_MIRROR_COUNTERS, by its name");

}  // namespace

Result<void> Mirroring::open(gpu::Device& device) {
  {
    const std::lock_guard lock(mutex_);
    if (mirror_) return {};
  }
  auto mirror = device.open_mirror(options_);
  if (!mirror) return tl::unexpected(mirror.error());
  const std::lock_guard lock(mutex_);
  mirror_ = std::move(*mirror);
  device_ = device.info().name;
  return {};
}

void Mirroring::close() noexcept {
  std::unique_ptr<gpu::Mirror> closed;
  {
    const std::lock_guard lock(mutex_);
    if (mirror_) add(before_, mirror_->counters());
    closed = std::move(mirror_);
  }
}

void Mirroring::device_failed() noexcept {
  const std::lock_guard lock(mutex_);
  failed_ = true;
}

Result<void> Mirroring::device_is_back(gpu::Device& device) {
  {
    const std::lock_guard lock(mutex_);
    failed_ = false;
    if (!mirror_) return {};
  }
  close();
  return open(device);
}

std::vector<u64> Mirroring::heads() const {
  std::vector<u64> heads;
  each_state([&](const xg_mirror_state& state) { heads.push_back(load(state.head)); });
  return heads;
}

bool Mirroring::past(const std::vector<u64>& heads) const noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!mirror_ || failed_) return true;
  }
  std::size_t at = 0;
  bool past = true;
  each_state([&](const xg_mirror_state& state) { past &= load(state.consumed) >= heads[at++]; });
  return past;
}

std::optional<MirrorStatus> Mirroring::status() const {
  const std::lock_guard lock(mutex_);
  if (device_.empty()) return std::nullopt;
  MirrorStatus status = before_;
  status.device = device_;
  if (mirror_) add(status, mirror_->counters());
  each_state([&](const xg_mirror_state& state) {
    status.mirrored += load(state.head);
    status.overruns += load(state.overruns);
  });
  return status;
}

}  // namespace xdpgpu::dataplane
