// SPDX-License-Identifier: MIT
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <future>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {
namespace {

u64 mapped_bytes(u64 bytes) {
  const u64 page = static_cast<u64>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

Result<Fd> create_table(const char* name, u32 value_size, u32 entries) {
  bpf_map_create_opts options{};
  options.sz = sizeof(options);
  options.map_flags = XG_TABLE_FLAGS;
  Fd fd(bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(u32), value_size, entries ? entries : 1, &options));
  if (!fd)
    return tl::unexpected(fmt::format("cannot create a policy table of {} entries of {} bytes: {}; {}",
                                      entries, value_size, std::strerror(errno),
                                      errno == EPERM ? "this needs CAP_BPF" : "the policy may be too large"));
  return fd;
}

// V: what the map has of the values in one entry, `each` of them.
template <class V, class T>
Result<void> fill(const Fd& map, std::span<const T> values, u32 each) {
  if (values.empty()) return {};
  auto view = MapView<V>::open(map.get(), static_cast<u32>((values.size() + each - 1) / each));
  if (!view) return tl::unexpected(view.error());
  std::memcpy(view->data(), values.data(), values.size_bytes());
  return {};
}

Result<void> install(const Fd& outer, u32 slot, const Fd& inner) {
  const int fd = inner.get();
  if (bpf_map_update_elem(outer.get(), &slot, &fd, BPF_ANY) == 0) return {};
  return tl::unexpected(
      fmt::format("cannot install policy tables in slot {}: {}", slot, std::strerror(errno)));
}

}  // namespace

Result<u32> map_entries(int fd) {
  bpf_map_info info{};
  u32 size = sizeof(info);
  if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0)
    return tl::unexpected(fmt::format("cannot look at a map: {}", std::strerror(errno)));
  return info.max_entries;
}

Result<void> enter_targets(const PortMaps& maps, const std::vector<u32>& ifindexes) {
  for (u32 port = 0; port < ifindexes.size(); port++)
    if (bpf_map_update_elem(maps.tx_ports.get(), &port, &ifindexes[port], BPF_ANY) != 0)
      return tl::unexpected(
          fmt::format("cannot enter interface {} into the XDP program's map as a target: {}", ifindexes[port],
                      std::strerror(errno)));
  return {};
}

Result<void*> map_array(int fd, u32 entries, u32 value_size, Mapping mapping) {
  bpf_map_info info{};
  u32 size = sizeof(info);
  if (bpf_obj_get_info_by_fd(fd, &info, &size) != 0)
    return tl::unexpected(fmt::format("cannot look at a map: {}", std::strerror(errno)));
  if (info.type != BPF_MAP_TYPE_ARRAY || !(info.map_flags & BPF_F_MMAPABLE) ||
      info.value_size != value_size || info.max_entries < entries)
    return tl::unexpected(fmt::format(
        "map {} has {} entries of {} bytes where {} of {} in mapped memory are expected; it is of another "
        "version of xdpgpu: detach and attach again",
        info.name, info.max_entries, info.value_size, entries, value_size));
  const int protection = mapping == Mapping::writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = mmap(nullptr, mapped_bytes(u64{entries} * value_size), protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    return tl::unexpected(
        fmt::format("cannot map the memory of map {}: {}", info.name, std::strerror(errno)));
  return data;
}

void unmap_array(void* data, u64 bytes) noexcept {
  if (data) munmap(data, mapped_bytes(bytes));
}

Result<PolicyMaps> create_policy_maps(u32 lines, u32 rows) {
  auto line_map = create_table("policy_lines", sizeof(xg_chunk), chunks_of(lines));
  if (!line_map) return tl::unexpected(line_map.error());
  auto row_map = create_table("policy_rows", sizeof(xg_class_row), rows);
  if (!row_map) return tl::unexpected(row_map.error());
  return PolicyMaps{std::move(*line_map), std::move(*row_map)};
}

Result<void> fill_policy_maps(const PolicyMaps& maps, std::span<const xg_line> lines,
                              std::span<const xg_class_row> rows) {
  if (auto ok = fill<xg_chunk>(maps.lines, lines, XG_CHUNK_LINES); !ok) return ok;
  return fill<xg_class_row>(maps.rows, rows, 1);
}

// The kernel returns from each update after a grace period: with a thread each, they are in the same one.
Result<void> install_policy_maps(const std::vector<const PortMaps*>& ports, u32 slot,
                                 const PolicyMaps& maps) {
  std::vector<std::future<Result<void>>> updates;
  for (const PortMaps* port : ports) {
    updates.push_back(std::async(install, std::cref(port->policy_lines), slot, std::cref(maps.lines)));
    updates.push_back(std::async(install, std::cref(port->policy_rows), slot, std::cref(maps.rows)));
  }
  Result<void> installed;
  for (auto& update : updates)
    if (auto ok = update.get(); !ok && installed) installed = std::move(ok);
  return installed;
}

}  // namespace xdpgpu::kernel
