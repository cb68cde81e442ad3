// SPDX-License-Identifier: MIT
#include "userspace/kernel/cutter.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cut.skel.h"
#include "userspace/kernel/logging.hpp"
#include "userspace/kernel/pair.hpp"

namespace xdpgpu::kernel {
namespace {

struct SkeletonCloser {
  void operator()(cut_bpf* skeleton) const noexcept { cut_bpf__destroy(skeleton); }
};
using Skeleton = std::unique_ptr<cut_bpf, SkeletonCloser>;

Result<Skeleton> load(u32 target_ifindex, u32 most_bytes, const PortMaps& maps) {
  Skeleton skeleton(cut_bpf__open());
  if (!skeleton)
    return tl::unexpected(fmt::format("cannot open the cutting programs: {}", std::strerror(errno)));
  skeleton->rodata->target_ifindex = target_ifindex;
  skeleton->rodata->most_bytes = most_bytes;
  bpf_map__reuse_fd(skeleton->maps.counters, maps.counters.get());
  if (const int error = cut_bpf__load(skeleton.get()); error)
    return tl::unexpected(fmt::format("cannot load the cutting programs: {} ({})", std::strerror(-error),
                                      last_library_message()));
  return skeleton;
}

Result<void> tell(const PortMaps& maps, u32 near, u32 most_bytes) {
  const u32 cutter = XG_CUTTER;
  if (bpf_map_update_elem(maps.tx_ports.get(), &cutter, &near, BPF_ANY) != 0)
    return tl::unexpected(
        fmt::format("cannot tell the XDP program where frames are cut: {}", std::strerror(errno)));
  auto config = MapView<xg_config>::open(maps.config.get(), 1);
  if (!config) return tl::unexpected(config.error());
  __atomic_store_n(&(*config)[0].most_bytes, static_cast<u16>(most_bytes), __ATOMIC_RELEASE);
  return {};
}

}  // namespace

struct Cutter::Impl {
  Skeleton skeleton;
  Pair pair;
  std::array<Filter, 2> filters;
};

Cutter::Cutter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
// The map of targets drops an interface that goes.
Cutter::~Cutter() = default;

bool Cutter::gone() const noexcept { return impl_->pair.gone(); }
Result<std::string> Cutter::mend() { return impl_->pair.mend(impl_->filters); }

Result<std::unique_ptr<Cutter>> Cutter::create(const std::string& ifname, u32 ifindex, u32 queues,
                                               u32 most_bytes, const PortMaps& maps) {
  quiet_libraries();
  const auto failed = [&](const std::string& why) {
    return tl::unexpected(fmt::format("{}: {}", ifname, why));
  };
  auto skeleton = load(ifindex, most_bytes, maps);
  if (!skeleton) return failed(skeleton.error());
  const auto near = fmt::format("xg{}c", ifindex), far = fmt::format("xg{}s", ifindex);
  auto pair = Pair::make(near, far, queues, fmt::format("xdpgpu: cuts what comes to {} uncut", ifname));
  if (!pair) return failed(pair.error());
  // Of an end that can do nothing by itself the kernel does all: it fills in checksums, too. Nor must the
  // other end join again what was cut.
  for (const Offload offload : {Offload::tx_checksum, Offload::tso, Offload::scatter_gather})
    set_offload(far, offload, false);
  for (const auto& end : {near, far}) set_offload(end, Offload::gro, false);
  const std::array filters{Filter{pair->far(), bpf_program__fd((*skeleton)->progs.cut_whole), pair->far(),
                                  Netlink::Mirred::out_as_new},
                           Filter{pair->near(), bpf_program__fd((*skeleton)->progs.cut_segment)}};
  std::unique_ptr<Impl> impl(new Impl{std::move(*skeleton), std::move(*pair), filters});
  if (auto ok = impl->pair.attach(impl->filters); !ok) return failed(ok.error());
  if (auto ok = impl->pair.set_up(); !ok) return failed(ok.error());
  if (auto ok = tell(maps, impl->pair.near(), most_bytes); !ok) return failed(ok.error());
  return std::unique_ptr<Cutter>(new Cutter(std::move(impl)));
}

}  // namespace xdpgpu::kernel
