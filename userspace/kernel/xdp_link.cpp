// SPDX-License-Identifier: MIT
#include "userspace/kernel/xdp_link.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

namespace xdpgpu::kernel {

int create_xdp_link(int ifindex, int program, XdpMode mode, Fd& link) noexcept {
  bpf_link_create_opts options{};
  options.sz = sizeof(options);
  options.flags = mode == XdpMode::native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
  const int fd = bpf_link_create(program, ifindex, BPF_XDP, &options);
  if (fd < 0) return fd;
  link = Fd(fd);
  return 0;
}

std::optional<XdpLinkInfo> look_at_link(int link) noexcept {
  bpf_link_info info{};
  u32 size = sizeof(info);
  if (link < 0 || bpf_obj_get_info_by_fd(link, &info, &size) != 0 || info.type != BPF_LINK_TYPE_XDP ||
      info.xdp.ifindex == 0)
    return std::nullopt;
  return XdpLinkInfo{info.prog_id, info.xdp.ifindex};
}

Fd find_xdp_link(int ifindex, u32 program_id) noexcept {
  for (u32 id = 0; bpf_link_get_next_id(id, &id) == 0;) {
    Fd link(bpf_link_get_fd_by_id(id));
    const auto info = look_at_link(link.get());
    if (info && info->program_id == program_id && info->ifindex == static_cast<u32>(ifindex)) return link;
  }
  return Fd();
}

int take_off(int ifindex, int program, u32 program_id, u32 mode_flag) noexcept {
  if (const Fd link = find_xdp_link(ifindex, program_id)) return bpf_link_detach(link.get());
  bpf_xdp_attach_opts only_this{};
  only_this.sz = sizeof(only_this);
  only_this.old_prog_fd = program;
  return bpf_xdp_detach(ifindex, mode_flag, &only_this);
}

}  // namespace xdpgpu::kernel
