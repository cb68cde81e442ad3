/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/memory.bpf.h: memory that the programs share with user space and devices: reads, writes and their
 * order.
 */
#ifndef XDPGPU_BPF_MEMORY_H
#define XDPGPU_BPF_MEMORY_H

#define XG_INLINE static __always_inline

/* Reads that the compiler must neither repeat nor merge: somebody else writes there. */
#define XG_READ(x) (*(const volatile typeof(x)*)&(x))
#define XG_WRITE(x, value) (*(volatile typeof(x)*)&(x) = (value))

/* Keeps loads in program order. x86 does so by itself; elsewhere a BPF atomic that returns a value is
 * the only full fence that 6.1 has, so one is spent on a word of the stack. */
#ifdef XG_TARGET_X86
#define XG_READ_FENCE() asm volatile("" ::: "memory")
#else
#define XG_READ_FENCE()                           \
  ({                                              \
    u64 fence_ = 0;                               \
    __sync_fetch_and_add(&fence_, 1);             \
    asm volatile("" : : "r"(&fence_) : "memory"); \
  })
#endif

/* Keeps stores in program order, for whoever looks from another processor. */
#define XG_WRITE_FENCE() XG_READ_FENCE()

#endif
