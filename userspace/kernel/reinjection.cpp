// SPDX-License-Identifier: MIT
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <net/if.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "reinject.skel.h"
#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/logging.hpp"
#include "userspace/kernel/pair.hpp"

namespace xdpgpu::kernel {
namespace {

struct SkeletonCloser {
  void operator()(reinject_bpf* skeleton) const noexcept { reinject_bpf__destroy(skeleton); }
};
using Skeleton = std::unique_ptr<reinject_bpf, SkeletonCloser>;

Result<Skeleton> load(u32 target_ifindex) {
  Skeleton skeleton(reinject_bpf__open());
  if (!skeleton)
    return tl::unexpected(fmt::format("cannot open the reinjection program: {}", std::strerror(errno)));
  skeleton->rodata->target_ifindex = target_ifindex;
  if (const int error = reinject_bpf__load(skeleton.get()); error)
    return tl::unexpected(fmt::format("cannot load the reinjection program: {} ({})", std::strerror(-error),
                                      last_library_message()));
  return skeleton;
}

// The interface's MAC: mirred leaves the packet's type as the pair's own end judged it.
Result<void> take_mac(const Netlink& netlink, const std::string& from, const std::string& to) {
  auto mac = netlink.mac(from);
  if (!mac) return tl::unexpected(mac.error());
  return netlink.set_mac(to, *mac);
}

}  // namespace

// The pair takes its qdisc and filters along.
struct Reinjection::Impl {
  std::string worker, far;
  XdpMode mode = XdpMode::native;
  Skeleton skeleton;
  Pair pair;
  std::array<Filter, 1> filters;

  Result<void> make(const std::string& ifname) const;
};

Reinjection::Reinjection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reinjection::~Reinjection() = default;

const std::string& Reinjection::worker_ifname() const noexcept { return impl_->worker; }
u32 Reinjection::worker_ifindex() const noexcept { return impl_->pair.near(); }
bool Reinjection::gone() const noexcept { return impl_->pair.gone(); }
Result<std::string> Reinjection::mend() { return impl_->pair.mend(impl_->filters); }

Result<void> Reinjection::follow_mac(const Mac& mac) const {
  return impl_->mode == XdpMode::generic ? impl_->pair.netlink().set_mac(impl_->far, mac) : Result<void>{};
}

Result<std::unique_ptr<Reinjection>> Reinjection::create(const std::string& ifname, u32 ifindex, u32 queues,
                                                         XdpMode mode) {
  quiet_libraries();
  const auto failed = [&](const std::string& why) {
    return tl::unexpected(fmt::format("{}: {}", ifname, why));
  };
  auto skeleton = load(ifindex);
  if (!skeleton) return failed(skeleton.error());
  const auto worker = fmt::format("xg{}w", ifindex), far = fmt::format("xg{}k", ifindex);
  auto pair =
      Pair::make(worker, far, queues, fmt::format("xdpgpu: passes packets to the stack of {}", ifname));
  if (!pair) return failed(pair.error());
  const bool native = mode == XdpMode::native;
  const auto& programs = (*skeleton)->progs;
  const Filter filter{pair->far(),
                      bpf_program__fd(native ? programs.reinject_native : programs.reinject_generic),
                      native ? 0 : ifindex};
  std::unique_ptr<Impl> impl(new Impl{worker, far, mode, std::move(*skeleton), std::move(*pair), {filter}});
  if (auto ok = impl->make(ifname); !ok) return failed(ok.error());
  return std::unique_ptr<Reinjection>(new Reinjection(std::move(impl)));
}

Result<void> Reinjection::Impl::make(const std::string& ifname) const {
  if (mode == XdpMode::generic) {
    if (auto ok = take_mac(pair.netlink(), ifname, far); !ok) return ok;
  }
  // A veth end joins segments only if they come from an end that does not claim to send big ones.
  set_offload(worker, Offload::tso, false);
  set_offload(far, Offload::gro, true);
  if (auto ok = pair.attach(filters); !ok) return ok;
  if (auto ok = pair.netlink().set_up(far); !ok) return ok;
  // Else the stack's work on each packet would be done on the worker's own core, in its system call.
  use_napi_threads(far);
  return pair.netlink().set_up(worker);
}

}  // namespace xdpgpu::kernel
