// SPDX-License-Identifier: MIT
//
// gpu/program_bits.hpp: what is known of a number of a program's, bit by bit, and of what instructions make
// of it. Of gpu/program_counts.cpp. The arithmetic of bits that are known is the kernel's (tnum, kernel/bpf).
#pragma once

#include <algorithm>
#include <bit>

#include "maps/types.h"

namespace xdpgpu::gpu::programs {

using i64 = std::int64_t;

struct Bits {
  u64 value = 0;  // of the bits that are known; 0 where they are not
  u64 mask = 0;   // bits that are not known
  u64 shaky = 0;  // of these, the ones that may hang on counts
  bool operator==(const Bits&) const = default;

  static Bits known(u64 value) { return {value, 0, 0}; }
  static Bits unknown(u64 shaky = 0) { return {0, ~u64{0}, shaky}; }
  u64 most() const { return value | mask; }
};

// From the lowest of these bits on to the highest there is.
inline u64 upwards(u64 bits) { return bits == 0 ? 0 : ~((bits & (0 - bits)) - 1); }

inline Bits met_bits(const Bits& a, const Bits& b) {
  const u64 mask = (a.value ^ b.value) | a.mask | b.mask;
  return {a.value & ~mask, mask, a.shaky | b.shaky};
}
inline Bits add_bits(const Bits& a, const Bits& b) {
  const u64 sum = a.value + b.value;
  const u64 mask = ((sum + a.mask + b.mask) ^ sum) | a.mask | b.mask;
  return {sum & ~mask, mask, upwards(a.shaky | b.shaky) & mask};
}
inline Bits sub_bits(const Bits& a, const Bits& b) {
  const u64 rest = a.value - b.value;
  const u64 mask = ((rest + a.mask) ^ (rest - b.mask)) | a.mask | b.mask;
  return {rest & ~mask, mask, upwards(a.shaky | b.shaky) & mask};
}
inline Bits and_bits(const Bits& a, const Bits& b) {
  const u64 value = a.value & b.value, mask = a.most() & b.most() & ~value;
  return {value, mask, ((a.shaky & b.most()) | (b.shaky & a.most())) & mask};
}
inline Bits or_bits(const Bits& a, const Bits& b) {
  const u64 value = a.value | b.value, mask = (a.mask | b.mask) & ~value;
  return {value, mask, (a.shaky | b.shaky) & mask};
}
inline Bits xor_bits(const Bits& a, const Bits& b) {
  const u64 mask = a.mask | b.mask;
  return {(a.value ^ b.value) & ~mask, mask, a.shaky | b.shaky};
}
inline Bits mul_bits(const Bits& a, const Bits& b) {
  if (a.mask == 0 && b.mask == 0) return Bits::known(a.value * b.value);
  if (a.most() == 0 || b.most() == 0) return Bits::known(0);
  u64 mask = ~u64{0};
  const auto width = std::bit_width(a.most()) + std::bit_width(b.most());
  if (width < 64) mask = (u64{1} << width) - 1;
  const int zeros = std::countr_zero(a.most()) + std::countr_zero(b.most());
  mask = zeros < 64 ? mask >> zeros << zeros : 0;
  return {0, mask, upwards(a.shaky | b.shaky) & mask};
}

// Of the lowest `bits`, 1 to 64; the others are 0.
inline Bits cut_bits(const Bits& a, u32 bits) {
  const u64 all = bits >= 64 ? ~u64{0} : (u64{1} << bits) - 1;
  return {a.value & all, a.mask & all, a.shaky & all};
}
inline u64 with_sign(u64 of, u32 bits) {
  return static_cast<u64>(static_cast<i64>(of << (64 - bits)) >> (64 - bits));
}
inline Bits signed_bits(const Bits& a, u32 bits) {
  if (bits >= 64) return a;
  return {with_sign(a.value, bits), with_sign(a.mask, bits), with_sign(a.shaky, bits)};
}
inline Bits swapped_bits(const Bits& a, u32 bits) {
  const auto swapped = [&](u64 of) { return __builtin_bswap64(of) >> (64 - bits); };
  return {swapped(a.value), swapped(a.mask), swapped(a.shaky)};
}

// By a number that is known, 0 to 63.
inline Bits left_bits(const Bits& a, u32 by) { return {a.value << by, a.mask << by, a.shaky << by}; }
inline Bits right_bits(const Bits& a, u32 by) { return {a.value >> by, a.mask >> by, a.shaky >> by}; }
inline Bits right_bits_with_sign(const Bits& a, u32 by, u32 bits) {
  const Bits wide = signed_bits(a, bits);
  const auto shifted = [&](u64 of) { return static_cast<u64>(static_cast<i64>(of) >> by); };
  return {shifted(wide.value), shifted(wide.mask), shifted(wide.shaky)};
}
// shift: one of these, of a number of `bits`, 32 or 64.
template <class Shift>
Bits shifted_bits(const Bits& a, const Bits& by, u32 bits, Shift shift) {
  const u64 counts = bits - 1;
  if ((by.shaky & counts) != 0) return Bits::unknown(~u64{0});
  const u64 least = by.value & counts;
  Bits all = shift(a, static_cast<u32>(least), bits);
  for (u64 one = 0; one < bits; ++one)
    if ((one & ~by.mask) == least) all = met_bits(all, shift(a, static_cast<u32>(one), bits));
  return all;
}

// Those bits of `mask` are another number's.
inline Bits put_bits(const Bits& a, const Bits& b, u64 mask) {
  const auto put = [&](u64 of, u64 other) { return (of & ~mask) | (other & mask); };
  return {put(a.value, b.value), put(a.mask, b.mask), put(a.shaky, b.shaky)};
}

}  // namespace xdpgpu::gpu::programs
