// SPDX-License-Identifier: MIT
#include "userspace/kernel/egress_feed.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "egress.skel.h"
#include "userspace/kernel/logging.hpp"
#include "userspace/kernel/netlink.hpp"
#include "userspace/kernel/tc_hook.hpp"

namespace xdpgpu::kernel {
namespace {

struct SkeletonCloser {
  void operator()(egress_bpf* skeleton) const noexcept { egress_bpf__destroy(skeleton); }
};
using Skeleton = std::unique_ptr<egress_bpf, SkeletonCloser>;

// BPF_TCX_EGRESS: newer than the oldest kernel headers that we build with (linux/bpf.h, Linux 6.6).
constexpr auto kTcxEgress = static_cast<bpf_attach_type>(47);

// By these a filter is known for ours, together with the program's name. First in the chain, since one ahead
// could keep packets from it; a priority that is taken by another kind of filter cannot be shared.
constexpr u32 kHandle = 0x7867;
constexpr u32 kPriorities = 8;
constexpr std::string_view kProgram = "xdpgpu_egress";

bpf_tc_opts place_of(u32 priority) {
  bpf_tc_opts place{};
  place.sz = sizeof(place);
  place.handle = kHandle;
  place.priority = priority;
  return place;
}

void detach_filter(u32 ifindex, u32 priority) noexcept {
  const bpf_tc_hook hook = tc_hook(ifindex, BPF_TC_EGRESS);
  const bpf_tc_opts place = place_of(priority);
  bpf_tc_detach(&hook, &place);
}

// Unless somebody has filters there.
void remove_qdisc(u32 ifindex) noexcept {
  const auto netlink = Netlink::open();
  if (!netlink || netlink->clsact_filters(ifindex) != 0u) return;
  bpf_tc_hook hook = tc_hook(ifindex, BPF_TC_INGRESS | BPF_TC_EGRESS);
  bpf_tc_hook_destroy(&hook);
}

bool is_ours(u32 program_id) {
  const Fd program(bpf_prog_get_fd_by_id(program_id));
  bpf_prog_info info{};
  u32 size = sizeof(info);
  return program && bpf_obj_get_info_by_fd(program.get(), &info, &size) == 0 && kProgram == info.name;
}

}  // namespace

struct EgressFeed::Impl {
  u32 ifindex = 0;
  Skeleton skeleton;
  Fd link;
  u32 priority = 0;  // of the filter; 0: there is none
  bool made_qdisc = false;

  Result<void> load(const PortMaps& maps);
  int attach_link();
  int attach_filter();
};

EgressFeed::EgressFeed(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

EgressFeed::~EgressFeed() {
  if (impl_->priority != 0) detach_filter(impl_->ifindex, impl_->priority);
  if (impl_->made_qdisc) remove_qdisc(impl_->ifindex);
}

Result<void> EgressFeed::Impl::load(const PortMaps& maps) {
  skeleton.reset(egress_bpf__open());
  if (!skeleton)
    return tl::unexpected(fmt::format("cannot open the egress program: {}", std::strerror(errno)));
  bpf_map__reuse_fd(skeleton->maps.config, maps.config.get());
  bpf_map__reuse_fd(skeleton->maps.policy, maps.policy.get());
  bpf_map__reuse_fd(skeleton->maps.egress_records, maps.egress_records.get());
  bpf_map__reuse_fd(skeleton->maps.egress_heads, maps.egress_heads.get());
  if (const int error = egress_bpf__load(skeleton.get()); error)
    return tl::unexpected(fmt::format("cannot load the egress program: {} ({})", std::strerror(-error),
                                      last_library_message()));
  return {};
}

int EgressFeed::Impl::attach_link() {
  bpf_link_create_opts options{};
  options.sz = sizeof(options);
  const int fd = bpf_link_create(bpf_program__fd(skeleton->progs.xdpgpu_egress), static_cast<int>(ifindex),
                                 kTcxEgress, &options);
  if (fd < 0) return fd;
  link = Fd(fd);
  return 0;
}

int EgressFeed::Impl::attach_filter() {
  bpf_tc_hook hook = tc_hook(ifindex, BPF_TC_EGRESS);
  int error = bpf_tc_hook_create(&hook);
  if (error && error != -EEXIST) return error;
  made_qdisc = error == 0;
  for (u32 wanted = 1; wanted <= kPriorities; wanted++) {
    bpf_tc_opts options = place_of(wanted);
    options.prog_fd = bpf_program__fd(skeleton->progs.xdpgpu_egress);
    error = bpf_tc_attach(&hook, &options);
    if (error) continue;
    priority = wanted;
    return 0;
  }
  return error;
}

Result<std::unique_ptr<EgressFeed>> EgressFeed::attach(const std::string& ifname, u32 ifindex,
                                                       const PortMaps& maps, How how) {
  quiet_libraries();
  std::unique_ptr<EgressFeed> feed(new EgressFeed(std::make_unique<Impl>()));
  Impl& impl = *feed->impl_;
  impl.ifindex = ifindex;
  if (auto ok = impl.load(maps); !ok) return tl::unexpected(fmt::format("{}: {}", ifname, ok.error()));
  int error = -EOPNOTSUPP;
  if (how != How::filter) error = impl.attach_link();
  if (error && how != How::link) error = impl.attach_filter();
  if (error)
    return tl::unexpected(
        fmt::format("{}: tc egress cannot be used ({}): the kernel needs NET_CLS_ACT, NET_CLS_BPF and "
                    "NET_SCH_INGRESS; else set \"egress\": false at the stage conntrack",
                    ifname, std::strerror(-error)));
  return feed;
}

bool EgressFeed::remove_leftover(u32 ifindex) {
  quiet_libraries();
  bool removed = false;
  for (u32 priority = 1; priority <= kPriorities; priority++) {
    const bpf_tc_hook hook = tc_hook(ifindex, BPF_TC_EGRESS);
    bpf_tc_opts found = place_of(priority);
    if (bpf_tc_query(&hook, &found) != 0 || !is_ours(found.prog_id)) continue;
    detach_filter(ifindex, priority);
    removed = true;
  }
  if (removed) remove_qdisc(ifindex);
  return removed;
}

}  // namespace xdpgpu::kernel
