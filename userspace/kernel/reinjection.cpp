// SPDX-License-Identifier: MIT
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <net/if.h>

#include <cerrno>
#include <cstring>

#include "reinject.skel.h"
#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/logging.hpp"
#include "userspace/kernel/netlink.hpp"

namespace xdpgpu::kernel {
namespace {

constexpr u32 kMtu = 65535;
constexpr u32 kMarkPriority = 1, kRedirectPriority = 2;

struct SkeletonCloser {
  void operator()(reinject_bpf* skeleton) const noexcept { reinject_bpf__destroy(skeleton); }
};
using Skeleton = std::unique_ptr<reinject_bpf, SkeletonCloser>;

// The interface's MAC: mirred leaves the packet's type as the pair's own end judged it.
Result<void> take_mac(const Netlink& netlink, const std::string& from, const std::string& to) {
  auto mac = netlink.mac(from);
  if (!mac) return tl::unexpected(mac.error());
  return netlink.set_mac(to, *mac);
}

}  // namespace

struct Reinjection::Impl {
  std::string worker, far;
  u32 worker_ifindex = 0, far_ifindex = 0;
  Netlink netlink;
  bool made = false;
  Skeleton skeleton;

  Result<void> make(const std::string& ifname, u32 queues, XdpMode mode);
  Result<void> attach_tc(u32 target_ifindex, XdpMode mode);
};

Reinjection::Reinjection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

// The pair takes its qdisc, filters and program along.
Reinjection::~Reinjection() {
  if (impl_->made) impl_->netlink.remove_link(impl_->worker);
}

const std::string& Reinjection::worker_ifname() const noexcept { return impl_->worker; }
u32 Reinjection::worker_ifindex() const noexcept { return impl_->worker_ifindex; }

Result<std::unique_ptr<Reinjection>> Reinjection::create(const std::string& ifname, u32 ifindex, u32 queues,
                                                         XdpMode mode) {
  quiet_libraries();
  auto netlink = Netlink::open();
  if (!netlink) return tl::unexpected(netlink.error());
  std::unique_ptr<Impl> impl(new Impl{.worker = fmt::format("xg{}w", ifindex),
                                      .far = fmt::format("xg{}k", ifindex),
                                      .netlink = std::move(*netlink),
                                      .skeleton = nullptr});
  std::unique_ptr<Reinjection> reinjection(new Reinjection(std::move(impl)));
  if (auto ok = reinjection->impl_->make(ifname, queues, mode); !ok)
    return tl::unexpected(fmt::format("{}: {}", ifname, ok.error()));
  if (auto ok = reinjection->impl_->attach_tc(ifindex, mode); !ok)
    return tl::unexpected(fmt::format("{}: {}", ifname, ok.error()));
  return reinjection;
}

Result<void> Reinjection::Impl::make(const std::string& ifname, u32 queues, XdpMode mode) {
  netlink.remove_link(worker);  // of an attach that died
  if (auto ok = netlink.add_veth(worker, far, queues, kMtu); !ok) return ok;
  made = true;
  worker_ifindex = if_nametoindex(worker.c_str());
  far_ifindex = if_nametoindex(far.c_str());
  if (mode == XdpMode::generic) {
    if (auto ok = take_mac(netlink, ifname, far); !ok) return ok;
  }
  // A veth end joins segments only if they come from an end that does not claim to send big ones.
  set_offload(worker, Offload::tso, false);
  set_offload(far, Offload::gro, true);
  if (auto ok = netlink.set_up(far); !ok) return ok;
  // Else the stack's work on each packet would be done on the worker's own core, in its system call.
  use_napi_threads(far);
  return netlink.set_up(worker);
}

Result<void> Reinjection::Impl::attach_tc(u32 target_ifindex, XdpMode mode) {
  skeleton.reset(reinject_bpf__open());
  if (!skeleton)
    return tl::unexpected(fmt::format("cannot open the reinjection program: {}", std::strerror(errno)));
  skeleton->rodata->target_ifindex = target_ifindex;
  if (const int error = reinject_bpf__load(skeleton.get()); error)
    return tl::unexpected(fmt::format("cannot load the reinjection program: {} ({})", std::strerror(-error),
                                      last_library_message()));
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = static_cast<int>(far_ifindex);
  hook.attach_point = BPF_TC_INGRESS;
  if (const int error = bpf_tc_hook_create(&hook); error && error != -EEXIST)
    return tl::unexpected(
        fmt::format("cannot make the clsact qdisc on {}: {}; the kernel needs NET_CLS_ACT and "
                    "NET_SCH_INGRESS",
                    far, std::strerror(-error)));
  bpf_tc_opts options{};
  options.sz = sizeof(options);
  options.prog_fd = bpf_program__fd(mode == XdpMode::native ? skeleton->progs.reinject_native
                                                            : skeleton->progs.reinject_generic);
  options.handle = 1;
  options.priority = kMarkPriority;
  if (const int error = bpf_tc_attach(&hook, &options); error)
    return tl::unexpected(
        fmt::format("cannot attach the reinjection program to {}: {}", far, std::strerror(-error)));
  if (mode == XdpMode::native) return {};
  return netlink.redirect_ingress(far_ifindex, kRedirectPriority, target_ifindex);
}

}  // namespace xdpgpu::kernel
