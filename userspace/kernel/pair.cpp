// SPDX-License-Identifier: MIT
#include "userspace/kernel/pair.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "userspace/kernel/tc_hook.hpp"

namespace xdpgpu::kernel {
namespace {

constexpr u32 kMtu = 65535;
constexpr u32 kHandle = 1;
constexpr u32 kProgramPriority = 1, kRedirectPriority = 2;

std::string name_of(u32 ifindex) {
  char name[IF_NAMESIZE] = {};
  return if_indextoname(ifindex, name) ? name : fmt::format("interface {}", ifindex);
}

bpf_tc_opts place() {
  bpf_tc_opts options{};
  options.sz = sizeof(options);
  options.handle = kHandle;
  options.priority = kProgramPriority;
  return options;
}

u32 id_of(int program) {
  bpf_prog_info info{};
  u32 size = sizeof(info);
  return bpf_obj_get_info_by_fd(program, &info, &size) == 0 ? info.id : 0;
}

Result<void> attach_one(const Netlink& netlink, const Filter& filter) {
  bpf_tc_hook hook = tc_hook(filter.ifindex, BPF_TC_INGRESS);
  if (const int error = bpf_tc_hook_create(&hook); error && error != -EEXIST)
    return tl::unexpected(
        fmt::format("cannot make the clsact qdisc on {}: {}; the kernel needs NET_CLS_ACT and "
                    "NET_SCH_INGRESS",
                    name_of(filter.ifindex), std::strerror(-error)));
  bpf_tc_opts options = place();
  options.prog_fd = filter.program;
  if (const int error = bpf_tc_attach(&hook, &options); error)
    return tl::unexpected(
        fmt::format("cannot attach a tc program to {}: {}", name_of(filter.ifindex), std::strerror(-error)));
  if (!filter.mirred_to) return {};
  return netlink.redirect_ingress(filter.ifindex, kRedirectPriority, filter.mirred_to, filter.how);
}

bool is_there(const Netlink& netlink, const Filter& filter) {
  const bpf_tc_hook hook = tc_hook(filter.ifindex, BPF_TC_INGRESS);
  bpf_tc_opts found = place();
  if (bpf_tc_query(&hook, &found) != 0 || found.prog_id != id_of(filter.program)) return false;
  return netlink.clsact_filters(filter.ifindex).value_or(0) >= (filter.mirred_to ? 2u : 1u);
}

}  // namespace

Result<Pair> Pair::make(const std::string& near, const std::string& far, u32 queues,
                        const std::string& alias) {
  auto netlink = Netlink::open();
  if (!netlink) return tl::unexpected(netlink.error());
  netlink->remove_link(near);
  if (auto ok = netlink->add_veth(near, far, queues, kMtu); !ok) return tl::unexpected(ok.error());
  for (const auto& name : {near, far}) netlink->set_alias(name, alias);
  return Pair(std::move(*netlink), if_nametoindex(near.c_str()), if_nametoindex(far.c_str()));
}

Pair::Pair(Pair&& other) noexcept
    : netlink_(std::move(other.netlink_)), near_(std::exchange(other.near_, 0)), far_(other.far_) {}

Pair::~Pair() {
  char name[IF_NAMESIZE] = {};
  if (near_ && if_indextoname(near_, name)) netlink_.remove_link(name);
}

bool Pair::gone() const noexcept { return !is_up(near_) || !is_up(far_); }

Result<void> Pair::attach(std::span<const Filter> filters) const {
  for (const Filter& filter : filters)
    if (auto ok = attach_one(netlink_, filter); !ok) return ok;
  return {};
}

Result<void> Pair::set_up() const {
  for (const u32 end : {far_, near_})
    if (auto ok = netlink_.set_up(name_of(end)); !ok) return ok;
  return {};
}

Result<std::string> Pair::mend(std::span<const Filter> filters) const {
  std::vector<std::string> mended;
  for (const Filter& filter : filters) {
    if (gone()) break;
    if (is_there(netlink_, filter)) continue;
    bpf_tc_hook both = tc_hook(filter.ifindex, BPF_TC_INGRESS | BPF_TC_EGRESS);
    bpf_tc_hook_destroy(&both);
    if (auto ok = attach_one(netlink_, filter); !ok) return tl::unexpected(ok.error());
    mended.push_back(fmt::format("the tc program of its end {} was taken off", name_of(filter.ifindex)));
  }
  for (const u32 end : {far_, near_}) {
    const auto up = is_up(end);
    if (!up) return tl::unexpected(std::string("it was deleted, or moved to another network namespace"));
    if (*up) continue;
    if (auto ok = netlink_.set_up(name_of(end)); !ok) return tl::unexpected(ok.error());
    mended.push_back(fmt::format("its end {} was set down", name_of(end)));
  }
  return fmt::format("{}", fmt::join(mended, ", and "));
}

}  // namespace xdpgpu::kernel
