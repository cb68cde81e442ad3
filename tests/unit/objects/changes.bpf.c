/* SPDX-License-Identifier: MIT
 *
 * A program that changes packets: UDP to port 53 goes back with 20 bytes in front, to port 54 it is passed
 * with its first 60 bytes alone, to port 55 it is cut, too, and dropped. All else is passed as it came.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

enum { kPort = 14 + 20 + 2, kKept = 60, kOuter = 20 };

SEC("xdp")
int changes(struct xdp_md* ctx) {
  unsigned char* data = (unsigned char*)(long)ctx->data;
  void* end = (void*)(long)ctx->data_end;
  if ((void*)(data + kPort + 2) > end || data[kPort]) return XDP_PASS;
  const int length = (int)(ctx->data_end - ctx->data);
  switch (data[kPort + 1]) {
    case 53:
      if (bpf_xdp_adjust_head(ctx, -kOuter)) return XDP_ABORTED;
      data = (unsigned char*)(long)ctx->data;
      end = (void*)(long)ctx->data_end;
      if ((void*)(data + kOuter) > end) return XDP_ABORTED;
      __builtin_memset(data, 2, kOuter);
      return XDP_TX;
    case 54:
      return bpf_xdp_adjust_tail(ctx, kKept - length) ? XDP_ABORTED : XDP_PASS;
    case 55:
      return bpf_xdp_adjust_tail(ctx, kKept - length) ? XDP_ABORTED : XDP_DROP;
  }
  return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
