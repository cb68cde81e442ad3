/* SPDX-License-Identifier: MIT
 *
 * gpu/checksum.h: is a packet's checksum only begun? Local stacks leave it to the "hardware" of a veth or
 * a container peer: such a packet carries the pseudo-header's sum, folded but not complemented, where the
 * checksum should be (Linux CHECKSUM_PARTIAL). RFC 1071, 9293, 768, 8200. For C++ and CUDA.
 */
#ifndef XDPGPU_GPU_CHECKSUM_H
#define XDPGPU_GPU_CHECKSUM_H

#include "maps/parse.h"

struct xg_partial {
  u32 field;    /* offset of the checksum in the frame; 0: it is not partial */
  u32 l4_bytes; /* from the L4 header to the IP packet's end */
  u32 pseudo;   /* ones' complement sum of the pseudo-header, not folded */
};

XG_FN u32 xg_ones_fold(u32 sum) {
  sum = (sum >> 16) + (sum & 0xffffu);
  return (sum >> 16) + (sum & 0xffffu);
}

/* Offsets and flags from the packet's metadata; fragments, malformed packets and anything but TCP and UDP
 * are not partial. Reads the frame's first `length` bytes; the packet may go on behind them, as l4_bytes then
 * says. */
XG_FN xg_partial xg_partial_checksum(const u8* frame, u32 length, const xg_metadata* metadata) {
  const xg_partial none = {0, 0, 0};
  const u32 flags = metadata->flags;
  const bool tcp = (flags & XG_PKT_TCP) != 0;
  if ((flags & (XG_PKT_TCP | XG_PKT_UDP)) == 0 ||
      (flags & (XG_PKT_FRAGMENT | XG_PKT_TRACKED | XG_PKT_MALFORMED)) != 0 || metadata->l4_offset == 0)
    return none;
  const u32 l3 = metadata->l3_offset;
  const u32 l4 = metadata->l4_offset;
  const u32 field = l4 + (tcp ? 16u : 6u);
  const bool v4 = (flags & XG_PKT_IPV4) != 0;
  if (field + 2u > length || l3 + (v4 ? 20u : 40u) > length) return none;

  const u32 end =
      v4 ? l3 + xg_host16(xg_load16(frame + l3 + 2)) : l3 + 40u + xg_host16(xg_load16(frame + l3 + 4));
  if (end < field + 2u) return none;
  const u8* addresses = frame + l3 + (v4 ? 12 : 8);
  u32 pseudo = xg_host16((u16)(tcp ? 6 : 17)) + (u32)xg_host16((u16)(end - l4));
  for (u32 i = 0; i < (v4 ? 8u : 32u); i += 2u) pseudo += xg_load16(addresses + i);
  if (xg_load16(frame + field) != xg_ones_fold(pseudo)) return none;
  return {field, end - l4, pseudo};
}

#endif
