// SPDX-License-Identifier: MIT
//
// gpu/cpu/group.hpp: several packets side by side on one CPU. A packet's way through large tables is a chain
// of loads that hang on each other, and a CPU that follows it to its end waits for memory at every step: so
// an `acl` at the head of a pipeline takes each step for all packets of a group. The other stages, and those
// behind, decide packet by packet, in order. The answers are those of xg_decide.
#pragma once

#include <array>

#include "gpu/stages/pipeline.h"

namespace xdpgpu::gpu::cpu {

class Group {
 public:
  static constexpr u32 kPackets = 16;

  explicit Group(const xg_batch& batch) : batch_(batch), image_(batch.image) {}

  // Decides packets first..first + count - 1 of the batch, at most kPackets.
  void decide(u32 first, u32 count) {
    u32 looked_up = 0;
    for (u32 i = 0; i < count; i++) {
      Packet& packet = packets_[i];
      packet.acl = 0;
      packet.there = xg_begin(batch_, first + i, packet.seen);
      if (packet.there && (packet.seen.flags & XG_PKT_EGRESS) == 0)
        packet.acl = leading_acl(packet.seen.pipeline);
      if (packet.acl != 0) with_acl_[looked_up++] = &packet;
    }
    look_up(looked_up);
    for (u32 i = 0; i < count; i++) batch_.results.v[first + i] = answer(packets_[i]);
  }

 private:
  struct Packet {
    xg_view seen;
    bool there;
    u32 acl;  // its body, 0: the pipeline begins with none
    xg_acl_place place;
    std::array<u32, XG_ACL_DIMENSIONS> rows;  // -> where the first block's bits are named
  };

  u32 leading_acl(u32 pipeline) const {
    const u32 entry = image_.v[XG_IMAGE_TABLE_AT] + pipeline * XG_PIPELINE_WORDS;
    const u32 stages = image_.v[entry];
    if (image_.v[entry + 1] == 0 || image_.v[stages] != XG_KIND_ACL_BITS) return 0;
    return image_.v[stages + 1];
  }

  void fetch(u32 word) const { __builtin_prefetch(image_.v + word); }

  // All that the answers of the first `count` packets in with_acl_ hang on.
  void look_up(u32 count) {
    for (u32 d = 0; d < XG_ACL_DIMENSIONS; d++)
      for (u32 k = 0; k < count; k++) classify(*with_acl_[k], d);
    for (u32 k = 0; k < count; k++) {
      xg_acl_locate(image_, with_acl_[k]->acl, with_acl_[k]->place);
      fetch(with_acl_[k]->place.cell);
    }
    for (u32 k = 0; k < count; k++) find_rows(*with_acl_[k]);
    for (u32 k = 0; k < count; k++)
      for (const u32 row : with_acl_[k]->rows)
        if (row != 0) fetch(image_.v[row]);
  }

  void classify(Packet& packet, u32 dimension) const {
    const u32 used = image_.v[packet.acl + XG_ACL_USED];
    packet.place.classes[dimension] = 0;
    if ((used >> dimension & 1) != 0)
      packet.place.classes[dimension] =
          xg_acl_class_of(image_, packet.acl, dimension, packet.seen, (used & XG_ACL_USES_FLAGS) != 0);
  }

  void find_rows(Packet& packet) const {
    packet.rows.fill(0);
    const u64 blocks = (packet.place.low & image_.v[packet.place.cell]) |
                       u64{packet.place.high & image_.v[packet.place.cell + 1]} << 32;
    if (blocks == 0) return;
    const u32 block = static_cast<u32>(__builtin_ctzl(blocks));
    const u32 used = image_.v[packet.acl + XG_ACL_USED];
    for (u32 d = 0; d < XG_ACL_DIMENSIONS; d++) {
      if ((used >> d & 1) == 0) continue;
      packet.rows[d] = image_.v[packet.acl + XG_ACL_ROWS + d] +
                       block * image_.v[packet.acl + XG_ACL_CLASSES + d] + packet.place.classes[d];
      fetch(packet.rows[d]);
    }
  }

  xg_result answer(const Packet& packet) const {
    if (!packet.there) return xg_no_result();
    if (packet.acl == 0) return xg_go_on(batch_, 0, packet.seen);
    xg_result result = xg_no_result();
    const u32 action = xg_acl_answer(batch_, packet.acl, packet.seen, packet.place, result);
    if (XG_VERDICT_ACTION(action) == XG_NEXT) return xg_go_on(batch_, 1, packet.seen);
    result.verdict = action | 1u << 8;
    return result;
  }

  const xg_batch& batch_;
  const xg_words image_;
  std::array<Packet, kPackets> packets_;
  std::array<Packet*, kPackets> with_acl_;
};

}  // namespace xdpgpu::gpu::cpu
