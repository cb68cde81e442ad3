// SPDX-License-Identifier: MIT
//
// gpu/stages/acl/together.hpp: `acl` for several packets side by side on a CPU (gpu/cpu/group.hpp): each step
// of the way through its tables for all of them, so that the loads do not wait for each other.
#pragma once

#include <array>

#include "gpu/stages/acl/device.h"

namespace xdpgpu::gpu {

struct xg_acl_ahead {
  xg_acl_place place;
  std::array<u32, XG_ACL_DIMENSIONS> rows;  // -> where the first block's bits are named
};

// seen(i), body(i), ahead(i): of packet i.
template <class Seen, class Body, class Ahead>
void xg_acl_look_ahead(xg_words image, u32 count, Seen seen, Body body, Ahead ahead) {
  const auto fetch = [&](u32 word) { __builtin_prefetch(image.v + word); };
  for (u32 d = 0; d < XG_ACL_DIMENSIONS; d++)
    for (u32 i = 0; i < count; i++) {
      const u32 at = body(i), used = image.v[at + XG_ACL_USED];
      u32 found = 0;
      if ((used >> d & 1) != 0)
        found = xg_acl_class_of(image, at, d, seen(i), (used & XG_ACL_USES_FLAGS) != 0);
      ahead(i).place.classes[d] = found;
    }
  for (u32 i = 0; i < count; i++) {
    xg_acl_ahead& one = ahead(i);
    xg_acl_locate(image, body(i), one.place);
    fetch(one.place.cell);
  }
  for (u32 i = 0; i < count; i++) {
    xg_acl_ahead& one = ahead(i);
    const u32 at = body(i);
    one.rows.fill(0);
    const u64 blocks =
        (one.place.low & image.v[one.place.cell]) | u64{one.place.high & image.v[one.place.cell + 1]} << 32;
    if (blocks == 0) continue;
    const u32 block = static_cast<u32>(__builtin_ctzl(blocks));
    const u32 used = image.v[at + XG_ACL_USED];
    for (u32 d = 0; d < XG_ACL_DIMENSIONS; d++) {
      if ((used >> d & 1) == 0) continue;
      const u32 row =
          image.v[at + XG_ACL_ROWS + d] + block * image.v[at + XG_ACL_CLASSES + d] + one.place.classes[d];
      one.rows[d] = row;
      fetch(row);
    }
  }
  for (u32 i = 0; i < count; i++)
    for (const u32 row : ahead(i).rows)
      if (row != 0) fetch(image.v[row]);
}

inline u32 xg_acl_decide_ahead(const xg_batch& b, u32 body, const xg_view& p, const xg_acl_ahead& ahead,
                               xg_result& r) {
  return xg_acl_answer(b, body, p, ahead.place, r);
}

}  // namespace xdpgpu::gpu
