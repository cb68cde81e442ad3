/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_operations.h: what single instructions of an XDP program compute (RFC 9669): numbers in,
 * numbers out. Of gpu/stages/program_code.h.
 */
#ifndef XDPGPU_STAGES_PROGRAM_OPERATIONS_H
#define XDPGPU_STAGES_PROGRAM_OPERATIONS_H

#include "gpu/stages/program_numbers.h"

/* A number of `bits` with its sign. */
XG_FN u64 xg_program_signed(u64 x, u32 bits) {
  if (bits == 64u) return x;
  const u64 sign = u64(1) << (bits - 1u);
  const u64 lower = x & ((sign << 1) - u64(1));
  return (lower ^ sign) - sign;
}
XG_FN u64 xg_program_cut(u64 x, u32 bits) { return bits == 64u ? x : x & ((u64(1) << bits) - u64(1)); }

XG_FN u64 xg_program_swapped(u64 x, u32 bits) {
  const u64 all = (u64(xg_swap32(u32(x & u64(0xffffffffu)))) << 32) | u64(xg_swap32(u32(x >> 32)));
  return all >> (64u - bits);
}

/* a / b or a % b; is_signed: both have `bits`, with their signs. */
XG_FN u64 xg_program_divided(u64 a, u64 b, bool modulo, bool is_signed, u32 bits) {
  if (b == u64(0)) return modulo ? a : u64(0);
  if (!is_signed) return modulo ? a % b : a / b;
  const u64 sign = u64(1) << 63;
  u64 x = xg_program_signed(a, bits), y = xg_program_signed(b, bits);
  const bool x_less = (x & sign) != u64(0), y_less = (y & sign) != u64(0);
  if (x_less) x = u64(0) - x;
  if (y_less) y = u64(0) - y;
  u64 result = modulo ? x % y : x / y;
  if (modulo ? x_less : x_less != y_less) result = u64(0) - result;
  return result;
}

XG_FN u64 xg_program_computed(u32 operation, u32 flags, u32 what, u64 d, u64 s) {
  const bool narrow = (flags & XG_PROGRAM_32) != 0u;
  const u32 bits = narrow ? 32u : 64u;
  const u64 a = xg_program_cut(d, bits), b = xg_program_cut(s, bits);
  const u32 shift = u32(b & u64(bits - 1u));
  u64 result = b;
  if (operation == XG_PROGRAM_ADD) result = a + b;
  if (operation == XG_PROGRAM_SUB) result = a - b;
  if (operation == XG_PROGRAM_MUL) result = a * b;
  if (operation == XG_PROGRAM_DIV || operation == XG_PROGRAM_MOD)
    result = xg_program_divided(a, b, operation == XG_PROGRAM_MOD, (flags & XG_PROGRAM_SIGNED) != 0u, bits);
  if (operation == XG_PROGRAM_OR) result = a | b;
  if (operation == XG_PROGRAM_AND) result = a & b;
  if (operation == XG_PROGRAM_XOR) result = a ^ b;
  if (operation == XG_PROGRAM_LSH) result = a << shift;
  if (operation == XG_PROGRAM_RSH) result = a >> shift;
  if (operation == XG_PROGRAM_ARSH) {
    const u64 wide = xg_program_signed(a, bits);
    const u64 above = (wide >> 63) != u64(0) && shift != 0u ? ~(~u64(0) >> shift) : u64(0);
    result = (wide >> shift) | above;
  }
  if (operation == XG_PROGRAM_MOV) result = xg_program_signed(b, what);
  if (operation == XG_PROGRAM_NEG) result = u64(0) - a;
  if (operation == XG_PROGRAM_SWAP) return xg_program_swapped(d, what);
  if (operation == XG_PROGRAM_CUT) return xg_program_cut(d, what);
  return xg_program_cut(result, bits);
}

XG_FN bool xg_program_holds(u32 operation, u32 flags, u64 d, u64 s) {
  const u32 bits = (flags & XG_PROGRAM_32) != 0u ? 32u : 64u;
  const u64 a = xg_program_cut(d, bits), b = xg_program_cut(s, bits);
  /* With the sign's bit turned over, numbers with signs have the order of those without. */
  const u64 x = a ^ (u64(1) << (bits - 1u)), y = b ^ (u64(1) << (bits - 1u));
  if (operation == XG_PROGRAM_JEQ) return a == b;
  if (operation == XG_PROGRAM_JNE) return a != b;
  if (operation == XG_PROGRAM_JGT) return a > b;
  if (operation == XG_PROGRAM_JGE) return a >= b;
  if (operation == XG_PROGRAM_JLT) return a < b;
  if (operation == XG_PROGRAM_JLE) return a <= b;
  if (operation == XG_PROGRAM_JSET) return (a & b) != u64(0);
  if (operation == XG_PROGRAM_JSGT) return x > y;
  if (operation == XG_PROGRAM_JSGE) return x >= y;
  if (operation == XG_PROGRAM_JSLT) return x < y;
  if (operation == XG_PROGRAM_JSLE) return x <= y;
  return true;
}

/* RFC 9669, 5.3: what memory becomes. */
XG_FN u64 xg_program_changed(u32 operation, u64 memory, u64 source, u64 compared) {
  const u32 what = operation & 0xf0u;
  if (what == 0xe0u) return source;
  if (what == 0xf0u) return memory == compared ? source : memory;
  if (what == 0x40u) return memory | source;
  if (what == 0x50u) return memory & source;
  if (what == 0xa0u) return memory ^ source;
  return memory + source;
}

#endif
