/* SPDX-License-Identifier: MIT
 *
 * A program that asks how the kernel was configured.
 */
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>

extern int CONFIG_HZ __kconfig;

SEC("xdp")
int asks_how(struct xdp_md* ctx) { return CONFIG_HZ == 250 ? XDP_DROP : XDP_PASS; }

char LICENSE[] SEC("license") = "GPL";
