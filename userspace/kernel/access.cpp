// SPDX-License-Identifier: MIT
#include "userspace/kernel/access.hpp"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace xdpgpu::kernel {
namespace {

constexpr bool in_order() {
  for (std::size_t i = 0; i < kPortMapCount; i++)
    if (std::string_view(kMapAccess[i].map) != kPortMapNames[i]) return false;
  return true;
}
static_assert(in_order());

Result<Fd> read_only(int map, const char* name) {
  bpf_map_info info{};
  u32 size = sizeof(info);
  bpf_get_fd_by_id_opts options{};
  options.sz = sizeof(options);
  options.open_flags = BPF_F_RDONLY;
  Fd fd(bpf_obj_get_info_by_fd(map, &info, &size) == 0 ? bpf_map_get_fd_by_id_opts(info.id, &options) : -1);
  if (fd) return fd;
  return tl::unexpected(
      fmt::format("cannot open map {} for reading alone: {}; run as root, or with CAP_SYS_ADMIN", name,
                  std::strerror(errno)));
}

Result<Fd> again(int map, const char* name) {
  Fd fd(fcntl(map, F_DUPFD_CLOEXEC, 0));
  if (fd) return fd;
  return tl::unexpected(
      fmt::format("cannot duplicate the descriptor of map {}: {}; raise the open file limit", name,
                  std::strerror(errno)));
}

}  // namespace

Result<PortMaps> for_data_plane(const PortMaps& maps) {
  PortMaps given;
  Result<void> ok;
  const auto give = [&](Fd& to, const Fd& from, Access access, const char* name) {
    if (!ok) return;
    auto fd = access == Access::look ? read_only(from.get(), name) : again(from.get(), name);
    if (!fd)
      ok = tl::unexpected(fd.error());
    else
      to = std::move(*fd);
  };
#define XG_X(name, access, why) \
  if (Access::access != Access::none) give(given.name, maps.name, Access::access, #name);
  XG_MAP_ACCESS(XG_X)
#undef XG_X
  give(given.xsks, maps.xsks, Access::write, "xsks");  // to enter its sockets
  if (!ok) return tl::unexpected(ok.error());
  return given;
}

void close_writable(PortMaps& maps) noexcept {
#define XG_X(name, access, why) \
  if (Access::access != Access::look) maps.name = Fd();
  XG_MAP_ACCESS(XG_X)
#undef XG_X
}

}  // namespace xdpgpu::kernel
