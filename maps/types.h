/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/types.h: the base types of the records that kernel, CPU and GPU share.
 *
 * One header, four compilers: clang -target bpf (C), g++/clang++ (C++), nvcc (CUDA) and glslc
 * (GLSL, with XG_GLSL defined by the shader's entry file). Every other header in maps/ uses only what
 * is declared here, so a record is written once:
 *
 *     XG_RECORD(xg_descriptor) { u64 offset; u32 length; u32 flags; };
 *     XG_ASSERT_SIZE(xg_descriptor, 16);
 */
#ifndef XDPGPU_MAPS_TYPES_H
#define XDPGPU_MAPS_TYPES_H

#ifdef XG_GLSL

/* The entry file enables GL_EXT_shader_explicit_arithmetic_types_int8/int16/int64,
 * GL_EXT_scalar_block_layout and GL_EXT_buffer_reference. Load narrow fields and widen at the load:
 * u32(h.v[i].field). */
#define u8 uint8_t
#define u16 uint16_t
#define u32 uint
#define u64 uint64_t
#define XG_RECORD(name) struct name
#define XG_ASSERT_SIZE(name, bytes)
#define XG_ASSERT_OFFSET(name, field, bytes)
#define XG_FN

#else

#ifdef __bpf__
#include <linux/types.h>
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
#elif defined(__cplusplus)
#include <cstddef>
#include <cstdint>
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
#else
#error "maps/ is read by BPF C, C++, CUDA and GLSL"
#endif

#define XG_RECORD(name)     \
  typedef struct name name; \
  struct name
#ifdef __cplusplus
#define XG_ASSERT_SIZE(name, bytes) static_assert(sizeof(name) == (bytes), #name " changed its size")
#define XG_ASSERT_OFFSET(name, field, bytes) \
  static_assert(offsetof(name, field) == (bytes), #name "." #field " moved")
#else
#define XG_ASSERT_SIZE(name, bytes) _Static_assert(sizeof(name) == (bytes), #name " changed its size")
#define XG_ASSERT_OFFSET(name, field, bytes) \
  _Static_assert(__builtin_offsetof(name, field) == (bytes), #name "." #field " moved")
#endif

/* In front of each function that maps/ defines. */
#ifdef __CUDACC__
#define XG_FN static inline __host__ __device__ __attribute__((always_inline))
#else
#define XG_FN static inline __attribute__((always_inline))
#endif

#endif /* XG_GLSL */
#endif
