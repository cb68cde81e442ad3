// SPDX-License-Identifier: MIT
#include "userspace/kernel/remains.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_link.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "userspace/kernel/pins.hpp"
#include "userspace/kernel/skeleton.hpp"
#include "userspace/kernel/xdp_link.hpp"

namespace xdpgpu::kernel {
namespace {

struct BtfCloser {
  void operator()(btf* types) const noexcept { btf__free(types); }
};
struct DumpCloser {
  void operator()(btf_dump* dump) const noexcept { btf_dump__free(dump); }
};

void append(void* text, const char* format, va_list arguments) {
  char part[512];
  if (std::vsnprintf(part, sizeof(part), format, arguments) > 0) *static_cast<std::string*>(text) += part;
}

// The type and those that it is made of, as C.
std::string text_of(const btf* types, u32 id) {
  std::string text;
  const std::unique_ptr<btf_dump, DumpCloser> dump(btf_dump__new(types, append, &text, nullptr));
  if (!dump || btf_dump__dump_type(dump.get(), id) != 0) return {};
  return text;
}

// The kernel keeps no types of maps whose values are its own objects.
bool has_types(u32 type) {
  return type == BPF_MAP_TYPE_ARRAY || type == BPF_MAP_TYPE_PERCPU_ARRAY || type == BPF_MAP_TYPE_LRU_HASH;
}

// Has the pinned map the shape of the program's own, and mean its values the same?
bool is_like(const btf* types, const bpf_map* wanted, const Fd& pinned) {
  bpf_map_info info{};
  u32 size = sizeof(info);
  if (bpf_obj_get_info_by_fd(pinned.get(), &info, &size) != 0) return false;
  // The kernel adds this flag to some.
  const u32 flags = info.map_flags & ~u32{BPF_F_RDONLY_PROG};
  if (info.type != bpf_map__type(wanted) || info.key_size != bpf_map__key_size(wanted) ||
      info.value_size != bpf_map__value_size(wanted) || info.max_entries != bpf_map__max_entries(wanted) ||
      flags != bpf_map__map_flags(wanted))
    return false;
  if (!has_types(info.type)) return true;
  const std::unique_ptr<btf, BtfCloser> its(btf__load_from_kernel_by_id(info.btf_id));
  return its &&
         text_of(its.get(), info.btf_value_type_id) == text_of(types, bpf_map__btf_value_type_id(wanted));
}

Result<void> check_shapes(const PortOptions& options, const PortMaps& maps) {
  const Skeleton skeleton = open_sized(options);
  if (!skeleton)
    return tl::unexpected(
        fmt::format("{}: cannot open the XDP program: {}", options.ifname, std::strerror(errno)));
  const btf* types = bpf_object__btf(skeleton->obj);
  const char* other = nullptr;
#define XG_X(name) \
  if (!other && !is_like(types, skeleton->maps.name, maps.name)) other = #name;
  XG_PORT_MAPS(XG_X)
#undef XG_X
  if (other) return tl::unexpected(fmt::format("its map {} is of another size or version", other));
  return {};
}

Result<void> check_config(const PortOptions& options, const xg_config& config) {
  if (config.port != options.port_index)
    return tl::unexpected(
        fmt::format("it was port {} of its process and is port {} now", config.port, options.port_index));
  if (config.queues != options.queues)
    return tl::unexpected(
        fmt::format("{} receive queues had workers, and now {} are to", config.queues, options.queues));
  if (config.flow_entries_per_queue != options.flow_entries_per_queue)
    return tl::unexpected(fmt::format("it remembers {} flows a queue, and now {} are wanted",
                                      config.flow_entries_per_queue, options.flow_entries_per_queue));
  if (config.mirror_slots != options.mirror_slots)
    return tl::unexpected(fmt::format("its mirror has {} slots, and now {} are wanted", config.mirror_slots,
                                      options.mirror_slots));
  return {};
}

// Programs in an array take packets of several buffers, or none does: as the first one did, ours.
bool takes_program(const Fd& user_programs, bool multi_buffer) {
  const auto instruction = [](int code, int d, int s, int immediate) {
    return bpf_insn{.code = static_cast<u8>(code),
                    .dst_reg = static_cast<u8>(d & 15),
                    .src_reg = static_cast<u8>(s & 15),
                    .off = 0,
                    .imm = immediate};
  };
  const bpf_insn goes_on[]{instruction(BPF_LD | BPF_IMM | BPF_DW, 2, BPF_PSEUDO_MAP_FD, user_programs.get()),
                           instruction(0, 0, 0, 0),
                           instruction(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0),
                           instruction(BPF_JMP | BPF_CALL, 0, 0, BPF_FUNC_tail_call),
                           instruction(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, XDP_PASS),
                           instruction(BPF_JMP | BPF_EXIT, 0, 0, 0)};
  bpf_prog_load_opts how{};
  how.sz = sizeof(how);
  how.expected_attach_type = BPF_XDP;
  how.prog_flags = multi_buffer ? BPF_F_XDP_HAS_FRAGS : 0;
  const Fd loaded(bpf_prog_load(BPF_PROG_TYPE_XDP, "goes_on", "GPL", goes_on, std::size(goes_on), &how));
  return static_cast<bool>(loaded);
}

// A flow's REDIRECT names its target by the number that it had.
bool sends_to(const PortMaps& maps, const std::vector<u32>& ports) {
  for (u32 i = 0; i < XG_MAX_PORTS; i++) {
    u32 ifindex = 0;
    if (bpf_map_lookup_elem(maps.tx_ports.get(), &i, &ifindex) != 0) ifindex = 0;
    if (ifindex != (i < ports.size() ? ports[i] : 0)) return false;
  }
  return true;
}

// The mode in which the program is on the interface of this namespace.
std::optional<XdpMode> mode_of(u32 program_id, u32 ifindex) {
  bpf_xdp_query_opts query{};
  query.sz = sizeof(query);
  if (program_id == 0 || bpf_xdp_query(static_cast<int>(ifindex), 0, &query) != 0) return std::nullopt;
  if (query.drv_prog_id == program_id) return XdpMode::native;
  if (query.skb_prog_id == program_id) return XdpMode::generic;
  return std::nullopt;
}

}  // namespace

Result<std::optional<Remains>> find_remains(const PortOptions& options, const std::vector<u32>& ports) {
  auto maps = pinned_maps(options.ifname);
  if (!maps) return std::nullopt;
  xg_config config{};
  const u32 zero = 0;
  // A map of fewer bytes would be copied in part, one of more bytes beyond the end.
  bpf_map_info info{};
  u32 size = sizeof(info);
  if (bpf_obj_get_info_by_fd(maps->config.get(), &info, &size) != 0 || info.value_size != sizeof(config) ||
      bpf_map_lookup_elem(maps->config.get(), &zero, &config) != 0)
    return tl::unexpected(std::string("its map config is of another size or version"));
  if (XG_ACTIVE_GENERATION(config.active) == 0) return std::nullopt;
  if (XG_ACTIVE_GENERATION(config.active) > kLastGenerationToGoOn)
    return tl::unexpected(
        fmt::format("it had come to policy generation {} of 4294967295, and none is ever given twice",
                    XG_ACTIVE_GENERATION(config.active)));
  Remains remains;
  remains.link = pinned_link(options.ifname);
  const auto link = look_at_link(remains.link.get());
  const auto mode =
      link && link->ifindex == options.ifindex ? mode_of(link->program_id, link->ifindex) : std::nullopt;
  if (!mode)
    return tl::unexpected(std::string("its program is not on the interface any more by a link of its own"));
  if (auto ok = check_config(options, config); !ok) return tl::unexpected(ok.error());
  if (!sends_to(*maps, ports))
    return tl::unexpected(std::string("it redirected to other interfaces than those that are named now"));
  if (auto ok = check_shapes(options, *maps); !ok) return tl::unexpected(ok.error());
  if (!takes_program(maps->user_programs, options.multi_buffer))
    return tl::unexpected(
        std::string("packets were of several buffers then and are not now, or the other way "
                    "round"));
  remains.maps = std::move(*maps);
  remains.mode = *mode;
  remains.active = config.active;
  remains.policy_hash = config.policy_hash;
  return remains;
}

}  // namespace xdpgpu::kernel
