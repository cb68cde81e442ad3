/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/dialect.h: what a stage is written in, so that g++ (C++), nvcc (CUDA) and glslc (GLSL)
 * all compile the same text.
 *
 *     XG_FN u32 xg_sum(xg_words w, u32 count) { ... w.v[i] ... }
 *
 * Common subset: u32 and u64 arithmetic (narrow fields are widened at the load), structs, arrays of
 * constant size, loops. No pointers or references (XG_INOUT instead), recursion, enum, typedef, union,
 * goto, static, float; no names that GLSL reserves (filter, sample, buffer, common, active, input,
 * output, half, patch, shared, flat, precise, resource). Shift counts are below 32, divisors are
 * checked. Barriers and subgroup operations belong to a device's entry file.
 *
 * XG_IN(T)                       a parameter that a function which is not inlined only reads: no copy is made
 * XG_ARRAY(name, T, alignment)   a typed handle of memory, read and written as handle.v[i]: a pointer
 *                                in C++ and CUDA, a buffer_reference block in GLSL
 * XG_ARRAY_SHARED(name, T, al.)  the same for memory that invocations write while others read it
 * XG_AT(name, handle, bytes)     the same kind of handle, `bytes` (u64) further on
 * XG_HANDLE(name, address)       the handle of what stands at a u64 address
 * XG_WORDS_OF(state, index)      an xg_state's words from an index on as xg_words, to be read: what others
 *                                wrote in front of a barrier, and who reads, is there
 * XG_IS_THERE(handle)            whether the handle has an address, which may be 0
 * XG_ADD(handle, index, n)       handle.v[index] += n as one step, for u32; what it was before
 * XG_ADD64(state, index, n)      adds a u64 to what stands in two words of an xg_state, low and high, so that
 *                                no addition is lost; index is even, and the memory's address a multiple of 8
 * XG_ROLLED                      in front of a loop: its text once, however few its rounds are
 * XG_LOOK(state, index)          a word of an xg_state to which others may add meanwhile
 * XG_MIN(handle, index, n)       handle.v[index] = the smaller one of it and n, likewise; what it was before
 * XG_SWAP_IF(handle, i, is, n)   handle.v[i] = n if it is `is`, likewise; what it was before
 * XG_COUNT(state, index)         counts what stands in two words of a table, low and high, up by one; index
 *                                is even, and the table's address a multiple of 8. On the CPU it counts in
 *                                xg_state.counts, where that is there
 * XG_SELDOM                      instead of XG_FN: a function that few packets need, out of the others' way
 * XG_LOWEST_BIT(x)               number of the lowest set bit; x is not 0
 * XG_BITS_SET(x)                 how many bits are set
 * XG_QUAD(a, b, c, d)            an xg_quad: four words that are stored in one piece
 * XG_FOUR_OF(quad, words)        puts an xg_quad's words into an array of four
 * XG_UNALIGNED(handle, i, shift) the four bytes that stand `shift` bytes, 0 to 3, behind handle.v[i]
 *
 * XG_AVX2                        of C++ for x86-64 alone: in the place of XG_SELDOM, a function that takes
 *                                AVX2; XG_HAS_AVX2 says whether it may be called
 */
#ifndef XDPGPU_STAGES_DIALECT_H
#define XDPGPU_STAGES_DIALECT_H

#ifdef XG_GLSL
/* glslang takes any `.length` for the array method. */
#define length xg_length
#endif
#include "maps/packet.h"

#ifdef XG_GLSL

#define XG_INOUT(T) inout T
#define XG_IN(T) T
#define XG_ARRAY(name, T, alignment) \
  layout(buffer_reference, scalar, buffer_reference_align = alignment) buffer name { T v[]; };
#define XG_ARRAY_SHARED(name, T, alignment) \
  layout(buffer_reference, scalar, buffer_reference_align = alignment) coherent buffer name { T v[]; };
#define XG_AT(name, handle, bytes) name(u64(handle) + (bytes))
#define XG_HANDLE(name, address) name(address)
#define XG_WORDS_OF(state, index) xg_words(u64(state) + u64((index)*4u))
#define XG_IS_THERE(handle) (u64(handle) != u64(0))
#define XG_ADD(handle, index, n) atomicAdd((handle).v[index], (n))
#define XG_ADD64(handle, index, n)                                                       \
  {                                                                                      \
    u32 at_low = (index);                                                                \
    u32 by_low = u32((n)&u64(0xffffffffu));                                              \
    u32 by_high = u32((n) >> 32) + (XG_ADD(handle, at_low, by_low) > ~by_low ? 1u : 0u); \
    if (by_high != 0u) XG_ADD(handle, at_low + 1u, by_high);                             \
  }
#define XG_LOOK(handle, index) (handle).v[index]
#define XG_MIN(handle, index, n) atomicMin((handle).v[index], (n))
#define XG_SWAP_IF(handle, index, is, n) atomicCompSwap((handle).v[index], (is), (n))
#define XG_LOWEST_BIT(x) u32(findLSB(x))
#define XG_BITS_SET(x) u32(bitCount(x))
/* Of the last byte's word: where all four are in one, the same. No count of 32 bits. */
#define XG_UNALIGNED(handle, index, shift) \
  (((handle).v[index] >> ((shift)*8u)) |   \
   (((handle).v[(index) + (((shift) + 3u) >> 2)] << 1u) << (31u - (shift)*8u)))
#define XG_WORD u32
#define XG_SELDOM XG_FN
#define XG_ROLLED
#define xg_quad uvec4
#define XG_QUAD(a, b, c, d) uvec4((a), (b), (c), (d))
#define XG_FOUR_OF(quad, words) \
  {                             \
    (words)[0] = (quad).x;      \
    (words)[1] = (quad).y;      \
    (words)[2] = (quad).z;      \
    (words)[3] = (quad).w;      \
  }

#else

#define XG_INOUT(T) T&
#define XG_IN(T) const T&
#define XG_ARRAY(name, T, alignment) \
  struct name {                      \
    T* v;                            \
  };
template <class Handle>
XG_FN Handle xg_at(Handle handle, u64 bytes) {
  return {reinterpret_cast<decltype(handle.v)>(reinterpret_cast<u8*>(handle.v) + bytes)};
}
#define XG_AT(name, handle, bytes) xg_at((handle), (bytes))
#define XG_ARRAY_SHARED(name, T, alignment) XG_ARRAY(name, T, alignment)
template <class Handle>
XG_FN Handle xg_handle(u64 address) {
  return {reinterpret_cast<decltype(Handle::v)>(address)};
}
#define XG_HANDLE(name, address) xg_handle<name>(address)
#define XG_WORDS_OF(state, index) (xg_words{reinterpret_cast<xg_word*>((state).v + (index))})
#define XG_IS_THERE(handle) ((handle).v != nullptr)
#ifdef __CUDA_ARCH__
#define XG_LOWEST_BIT(x) (u32(__ffs(int(x))) - 1u)
#define XG_BITS_SET(x) u32(__popc(x))
#define XG_UNALIGNED(handle, index, shift) \
  __funnelshift_r((handle).v[index], (handle).v[(index) + (((shift) + 3u) >> 2)], (shift)*8u)
#define XG_ADD(handle, index, n) atomicAdd(&(handle).v[index], (n))
/* Counters that most packets share are one word for most threads of a warp: these add together, for a few
 * such words; the others by themselves. */
static __device__ __attribute__((noinline, unused)) void xg_add64_together(u32* word, u64 n) {
  const auto at = reinterpret_cast<unsigned long long*>(word);
#if __CUDA_ARCH__ >= 800
  constexpr u64 kSmall = u64(1) << 26; /* the sum of a warp's has 32 bits */
  u32 lanes = __activemask(), lower;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
  for (u32 words = 0u; words < 3u; words++) {
    const int first = __ffs(int(lanes)) - 1;
    const bool same = __shfl_sync(lanes, reinterpret_cast<unsigned long long>(at), first) ==
                      reinterpret_cast<unsigned long long>(at);
    const u32 peers = __ballot_sync(lanes, same);
    if (same) {
      if (__all_sync(peers, n < kSmall)) {
        const u32 sum = __reduce_add_sync(peers, u32(n));
        if ((peers & lower) == 0u) atomicAdd(at, static_cast<unsigned long long>(sum));
        return;
      }
      break;
    }
    lanes &= ~peers;
  }
#endif
  atomicAdd(at, static_cast<unsigned long long>(n));
}
#define XG_ADD64(handle, index, n) xg_add64_together(&(handle).v[index], (n))
#define XG_LOOK(handle, index) (handle).v[index]
#define XG_MIN(handle, index, n) atomicMin(&(handle).v[index], (n))
#define XG_SWAP_IF(handle, index, is, n) atomicCAS(&(handle).v[index], (is), (n))
/* Millions of additions to one word wait for each other: so threads of a warp that count the same at a time
 * add together. */
__device__ inline void xg_count_together(u32* at) {
  const u32 same = __match_any_sync(__activemask(), reinterpret_cast<unsigned long long>(at));
  u32 lower;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
  if ((same & lower) == 0u) atomicAdd(reinterpret_cast<unsigned long long*>(at), __popc(same));
}
#define XG_COUNT(handle, index) xg_count_together(&(handle).v[index])
#else
#define XG_LOWEST_BIT(x) u32(__builtin_ctz(x))
#define XG_BITS_SET(x) u32(__builtin_popcount(x))
#define XG_ADD(handle, index, n) __atomic_fetch_add(&(handle).v[index], (n), __ATOMIC_RELAXED)
typedef u64 __attribute__((__may_alias__)) xg_word_of_64;
#define XG_ADD64(handle, index, n) \
  __atomic_fetch_add(reinterpret_cast<xg_word_of_64*>(&(handle).v[index]), (n), __ATOMIC_RELAXED)
#define XG_LOOK(handle, index) __atomic_load_n(&(handle).v[index], __ATOMIC_RELAXED)
/* Of words that one thread has. */
template <class Handle>
XG_FN u32 xg_min(Handle handle, u32 index, u32 n) {
  u32 before = handle.v[index];
  if (n < before) handle.v[index] = n;
  return before;
}
template <class Handle>
XG_FN u32 xg_swap_if(Handle handle, u32 index, u32 is, u32 n) {
  u32 before = handle.v[index];
  if (before == is) handle.v[index] = n;
  return before;
}
#define XG_MIN(handle, index, n) xg_min((handle), (index), (n))
#define XG_SWAP_IF(handle, index, is, n) xg_swap_if((handle), (index), (is), (n))
template <class Handle>
XG_FN u32 xg_unaligned(Handle handle, u32 index, u32 shift) {
  u32 word;
  __builtin_memcpy(&word, reinterpret_cast<const u8*>(handle.v + index) + shift, sizeof(word));
  return word;
}
#define XG_UNALIGNED(handle, index, shift) xg_unaligned((handle), (index), (shift))
#endif
/* Frames are written as bytes and read as words. */
typedef u32 __attribute__((__may_alias__)) xg_word;
#ifdef __CUDACC__
#define XG_ROLLED _Pragma("unroll 1")
#define XG_SELDOM static __host__ __device__ __attribute__((noinline, unused))
#else
#define XG_ROLLED
#define XG_SELDOM [[maybe_unused]] static __attribute__((noinline))
#endif
#define XG_WORD xg_word
/* A GPU sends it over the bus as one, and those of neighbouring packets together. Records are written so. */
struct __attribute__((__may_alias__, __aligned__(16))) xg_quad {
  u32 a, b, c, d;
};
#define XG_QUAD(w0, w1, w2, w3) (xg_quad{(w0), (w1), (w2), (w3)})
#define XG_FOUR_OF(quad, words) \
  {                             \
    (words)[0] = (quad).a;      \
    (words)[1] = (quad).b;      \
    (words)[2] = (quad).c;      \
    (words)[3] = (quad).d;      \
  }

#endif

#if !defined(XG_GLSL) && !defined(__CUDACC__)
/* Cores that add to the same words wait for each other at every packet. */
struct xg_state {
  u32* v;
  u32* counts = nullptr; /* by half of the index; nullptr: in the table itself */
};
typedef u64 __attribute__((__may_alias__)) xg_count_word;
XG_FN void xg_add_count(u32* pair, u64 count) {
  __atomic_fetch_add(reinterpret_cast<xg_count_word*>(pair), count, __ATOMIC_RELAXED);
}
#define XG_COUNT(state, index)             \
  {                                        \
    if ((state).counts != nullptr)         \
      (state).counts[(index) / 2u] += 1u;  \
    else                                   \
      xg_add_count(&(state).v[index], 1u); \
  }
#elif !defined(XG_COUNT)
#define XG_COUNT(handle, index)                                                         \
  {                                                                                     \
    u32 at_index = (index);                                                             \
    if (XG_ADD(handle, at_index, 1u) == 0xffffffffu) XG_ADD(handle, at_index + 1u, 1u); \
  }
#endif

#if defined(__x86_64__) && !defined(XG_GLSL) && !defined(__CUDACC__)
#include "gpu/stages/avx2.hpp"
#define XG_AVX2 [[maybe_unused]] static __attribute__((noinline, target("avx2")))
#define XG_HAS_AVX2 (xdpgpu::gpu::kHasAvx2)
#endif

XG_ARRAY(xg_words, XG_WORD, 4)
XG_ARRAY(xg_descriptors, xg_descriptor, 8)
XG_ARRAY(xg_results, xg_result, 4)
XG_ARRAY(xg_quads, xg_quad, 16)
#if defined(XG_GLSL) || defined(__CUDACC__)
XG_ARRAY_SHARED(xg_state, u32, 4)
#endif

XG_FN u32 xg_swap32(u32 x) { return (x << 24) | ((x & 0xff00u) << 8) | ((x >> 8) & 0xff00u) | (x >> 24); }

#endif
