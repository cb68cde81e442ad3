// SPDX-License-Identifier: MIT
#include "userspace/control/policy_tables.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace xdpgpu::control {
namespace {

u32 id_of(int map) {
  bpf_map_info info{};
  u32 size = sizeof(info);
  return bpf_obj_get_info_by_fd(map, &info, &size) == 0 ? info.id : 0;
}

// What cannot be told counts.
bool lives(u32 id) {
  if (id == 0) return false;
  const kernel::Fd map(bpf_map_get_fd_by_id(id));
  return map || errno != ENOENT;
}

u32 id_in(const kernel::Fd& slots, u32 slot) {
  u32 id = 0;
  return bpf_map_lookup_elem(slots.get(), &slot, &id) == 0 ? id : 0;
}

}  // namespace

std::size_t PolicyTables::count() {
  std::erase_if(made_, [](const Made& made) { return !lives(made.lines) && !lives(made.rows); });
  return made_.size();
}

void PolicyTables::add(const kernel::PortMaps& port) {
  for (const u32 slot : {0u, 1u}) {
    const Made found{id_in(port.policy_lines, slot), id_in(port.policy_rows, slot)};
    const auto same = [&](const Made& made) { return made.lines == found.lines && made.rows == found.rows; };
    if ((found.lines != 0 || found.rows != 0) && std::none_of(made_.begin(), made_.end(), same))
      made_.push_back(found);
  }
}

Result<kernel::PolicyMaps> PolicyTables::create(u32 lines, u32 rows) {
  if (count() >= kMostPolicyTables)
    return Error(
        fmt::format("the tables of {} policies live already, one more than are in force and before it: the "
                    "data plane has "
                    "not let go of some; detach and attach again",
                    kMostPolicyTables));
  auto maps = kernel::create_policy_maps(lines, rows);
  if (maps) made_.push_back({id_of(maps->lines.get()), id_of(maps->rows.get())});
  return maps;
}

}  // namespace xdpgpu::control
