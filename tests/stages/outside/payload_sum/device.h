/* SPDX-License-Identifier: MIT
 *
 * tests/stages/outside/payload_sum/device.h: `payload_sum`, every byte of a packet by loads of each width.
 */
#ifndef XDPGPU_TESTS_PAYLOAD_SUM_DEVICE_H
#define XDPGPU_TESTS_PAYLOAD_SUM_DEVICE_H

#include "gpu/stages/payload.h"

/* The body. */
#define XG_PAYLOAD_SUM_BYTES 2u
#define XG_PAYLOAD_SUM_FROM 3u /* 1: from the payload */
#define XG_PAYLOAD_SUM_MASK 4u
#define XG_PAYLOAD_SUM_VALUE 5u
#define XG_PAYLOAD_SUM_OTHERWISE 6u /* action word */

XG_FN u32 xg_payload_sum_decide(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  xg_payload_cursor c = xg_payload_of(b, p, b.image.v[body + XG_PAYLOAD_SUM_BYTES]);
  u32 begin = b.image.v[body + XG_PAYLOAD_SUM_FROM] != 0u ? xg_payload_start(c, p) : 0u;
  u32 sum = 0u;
  for (u32 at = begin; at < c.end; at += 7u) {
    sum = sum * 31u + xg_payload8(b, c, at);
    sum += xg_payload16(b, c, at + 1u);
    sum += xg_payload32(b, c, at + 3u);
  }
  sum = sum * 31u + xg_payload32(b, c, begin);
  sum = sum * 31u + xg_payload32(b, c, c.end - 2u);
  sum = sum * 31u + xg_payload32(b, c, 0xfffffffeu);
  u32 action = b.image.v[body + XG_PAYLOAD_SUM_OTHERWISE];
  if ((sum & b.image.v[body + XG_PAYLOAD_SUM_MASK]) == b.image.v[body + XG_PAYLOAD_SUM_VALUE])
    action = XG_VERDICT(XG_DROP, 0u, 0u, 1u);
  if (action != XG_NEXT) r.detail = sum;
  return action;
}

#endif
