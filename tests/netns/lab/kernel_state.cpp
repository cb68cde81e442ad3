// SPDX-License-Identifier: MIT
#include "tests/netns/lab/kernel_state.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/qdisc.h>
#include <netlink/route/tc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

namespace xdpgpu::lab {
namespace {

struct FreeSocket {
  void operator()(nl_sock* socket) const { nl_socket_free(socket); }
};
struct FreeCache {
  void operator()(nl_cache* cache) const { nl_cache_free(cache); }
};
using Socket = std::unique_ptr<nl_sock, FreeSocket>;
using Cache = std::unique_ptr<nl_cache, FreeCache>;

Socket route_socket() {
  Socket socket(nl_socket_alloc());
  if (const int error = nl_connect(socket.get(), NETLINK_ROUTE); error < 0)
    throw Error(fmt::format("cannot open a netlink socket: {}", nl_geterror(error)));
  return socket;
}

Cache links(const Socket& socket) {
  nl_cache* cache = nullptr;
  if (const int error = rtnl_link_alloc_cache(socket.get(), AF_UNSPEC, &cache); error < 0)
    throw Error(fmt::format("cannot list the interfaces: {}", nl_geterror(error)));
  return Cache(cache);
}

Fd program_by_id(std::uint32_t id) {
  const int fd = bpf_prog_get_fd_by_id(id);
  if (fd < 0) throw Error(fmt::format("there is no BPF program with id {}: {}", id, std::strerror(-fd)));
  return Fd(fd);
}

bpf_prog_info program_info(const Fd& program) {
  bpf_prog_info info{};
  __u32 size = sizeof(info);
  if (const int error = bpf_obj_get_info_by_fd(program.get(), &info, &size); error < 0)
    throw Error(fmt::format("cannot query a BPF program: {}", std::strerror(-error)));
  return info;
}

// A directory and what is in it, sorted; nothing if it is not there.
std::vector<std::string> paths_below(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  if (std::filesystem::exists(directory, error)) paths.push_back(directory);
  for (std::filesystem::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    paths.push_back(at->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool is_default_qdisc(const std::string& kind) {
  return kind == "noqueue" || kind == "mq" || kind == "pfifo_fast" || kind == "fq_codel" || kind == "noop";
}

}  // namespace

XdpState xdp_state(const Interface& interface) {
  XdpState state;
  LIBBPF_OPTS(bpf_xdp_query_opts, query);
  const int error =
      interface.ns().run([&] { return bpf_xdp_query(static_cast<int>(interface.ifindex()), 0, &query); });
  if (error < 0)
    throw Error(fmt::format("cannot query XDP on {}: {}", interface.ifname(), std::strerror(-error)));
  if (query.attach_mode == XDP_ATTACHED_NONE) return state;
  state.mode = query.attach_mode == XDP_ATTACHED_SKB  ? XdpAttach::generic
               : query.attach_mode == XDP_ATTACHED_HW ? XdpAttach::hardware
                                                      : XdpAttach::native;
  state.program_id = query.prog_id != 0       ? query.prog_id
                     : query.drv_prog_id != 0 ? query.drv_prog_id
                                              : query.skb_prog_id;
  state.program_name = program_info(program_by_id(state.program_id)).name;
  return state;
}

std::uint32_t xdp_link_id(const Interface& interface) {
  const std::uint32_t program = xdp_state(interface).program_id;
  for (__u32 id = 0; bpf_link_get_next_id(id, &id) == 0;) {
    const Fd link(bpf_link_get_fd_by_id(id));
    bpf_link_info info{};
    __u32 size = sizeof(info);
    if (link && bpf_obj_get_info_by_fd(link.get(), &info, &size) == 0 && info.type == BPF_LINK_TYPE_XDP &&
        info.prog_id == program)
      return id;
  }
  return 0;
}

std::uint32_t tcx_egress_programs(const Interface& interface) {
  constexpr auto kTcxEgress =
      static_cast<bpf_attach_type>(47);  // newer than the oldest headers that we build with
  std::uint32_t flags = 0, count = 0;
  const int error = interface.ns().run([&] {
    return bpf_prog_query(static_cast<int>(interface.ifindex()), kTcxEgress, 0, &flags, nullptr, &count);
  });
  return error < 0 ? 0 : count;
}

XdpProgram::XdpProgram(const Interface& interface, int action, bool generic, const std::string& name)
    : interface_(interface), flags_(generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE) {
  const bpf_insn instructions[] = {
      {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, action},
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  const int fd =
      bpf_prog_load(BPF_PROG_TYPE_XDP, name.c_str(), "GPL", instructions, std::size(instructions), nullptr);
  if (fd < 0) throw Error(fmt::format("cannot load an XDP program: {}", std::strerror(-fd)));
  program_ = Fd(fd);
  id_ = program_info(program_).id;
  const int error = interface_.ns().run([&] {
    return bpf_xdp_attach(static_cast<int>(interface_.ifindex()), fd, flags_ | XDP_FLAGS_UPDATE_IF_NOEXIST,
                          nullptr);
  });
  if (error < 0)
    throw Error(fmt::format("cannot attach XDP to {}: {}", interface_.ifname(), std::strerror(-error)));
}

XdpProgram::~XdpProgram() {
  try {
    interface_.ns().run([this] { bpf_xdp_detach(static_cast<int>(interface_.ifindex()), flags_, nullptr); });
  } catch (const Error&) {
    // The interface went first, and the program with it.
  }
}

BpfStatistics::BpfStatistics() : fd_(bpf_enable_stats(BPF_STATS_RUN_TIME)) {
  if (!fd_) throw Error(fmt::format("cannot enable BPF statistics: {}", std::strerror(errno)));
}

std::uint64_t program_runs(std::uint32_t program_id) {
  return program_info(program_by_id(program_id)).run_cnt;
}

std::vector<std::string> link_names(const Namespace& ns) {
  return ns.run([] {
    const Socket socket = route_socket();
    const Cache cache = links(socket);
    std::vector<std::string> names;
    for (nl_object* o = nl_cache_get_first(cache.get()); o != nullptr; o = nl_cache_get_next(o)) {
      auto* link = reinterpret_cast<rtnl_link*>(o);
      if ((rtnl_link_get_flags(link) & IFF_LOOPBACK) != 0) continue;
      names.emplace_back(rtnl_link_get_name(link));
    }
    std::sort(names.begin(), names.end());
    return names;
  });
}

std::vector<std::string> qdiscs(const Namespace& ns) {
  return ns.run([] {
    const Socket socket = route_socket();
    const Cache names = links(socket);
    nl_cache* raw = nullptr;
    if (const int error = rtnl_qdisc_alloc_cache(socket.get(), &raw); error < 0)
      throw Error(fmt::format("cannot list the qdiscs: {}", nl_geterror(error)));
    const Cache cache(raw);
    std::vector<std::string> result;
    for (nl_object* o = nl_cache_get_first(raw); o != nullptr; o = nl_cache_get_next(o)) {
      auto* qdisc = reinterpret_cast<rtnl_tc*>(o);
      const char* kind = rtnl_tc_get_kind(qdisc);
      if (kind == nullptr || is_default_qdisc(kind)) continue;
      char name[64] = {};
      rtnl_link_i2name(names.get(), rtnl_tc_get_ifindex(qdisc), name, sizeof(name));
      result.push_back(fmt::format("{} {}", name, kind));
    }
    std::sort(result.begin(), result.end());
    return result;
  });
}

namespace {

bool is_map(int fd) {
  std::array<char, 64> target{};
  const ssize_t length =
      readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target.data(), target.size() - 1);
  return length > 0 && std::string_view(target.data()) == "anon_inode:bpf-map";
}

}  // namespace

std::vector<PinInfo> pinned_maps(const std::string& directory) {
  std::vector<PinInfo> pins;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.is_directory(error)) continue;
    const Fd fd(bpf_obj_get(entry.path().c_str()));
    bpf_map_info info{};
    __u32 size = sizeof(info);
    // What is no map has no entries to look up.
    if (!fd || bpf_obj_get_info_by_fd(fd.get(), &info, &size) < 0 || !is_map(fd.get())) continue;
    pins.push_back({entry.path().filename(), info.id, info.type, info.key_size, info.value_size,
                    info.max_entries, info.btf_id, info.btf_key_type_id, info.btf_value_type_id});
  }
  std::sort(pins.begin(), pins.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return pins;
}

std::string snapshot(const std::vector<const Namespace*>& namespaces, const std::string& pin_root) {
  std::string text;
  for (const Namespace* ns : namespaces) {
    text += fmt::format("namespace {}\n", ns->name());
    for (const auto& name : link_names(*ns)) {
      const XdpState xdp = xdp_state(Interface(*ns, name));
      text += fmt::format("  {} xdp {} id {} {}\n", name, static_cast<int>(xdp.mode), xdp.program_id,
                          xdp.program_name);
      for (const auto& folder :
           {pin_root, fmt::format("{}/netns-{}-{}", pin_root, ns->inode(), ns->cookie())})
        for (const auto& path : paths_below(fmt::format("{}/{}", folder, name)))
          text += fmt::format("  pin {}\n", path);
    }
    for (const auto& qdisc : qdiscs(*ns)) text += fmt::format("  qdisc {}\n", qdisc);
  }
  return text;
}

}  // namespace xdpgpu::lab
