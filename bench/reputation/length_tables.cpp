// SPDX-License-Identifier: MIT
#include "bench/reputation/length_tables.hpp"

#include <bit>

namespace xdpgpu::bench {
namespace {

struct Halves {
  u64 high = 0, low = 0;
};

Halves halves_of(u8 family, const u8* address) {
  Halves halves;
  for (u32 i = 0; i < (family == 4 ? 4u : 8u); ++i) halves.high |= u64{address[i]} << (56 - 8 * i);
  for (u32 i = 8; family == 6 && i < 16; ++i) halves.low |= u64{address[i]} << (120 - 8 * i);
  return halves;
}

u64 mask_of(u32 length) { return length == 0 ? 0 : length >= 64 ? ~u64{0} : ~u64{0} << (64 - length); }

u32 kind_of(u8 family, u32 length) { return u32{family} << 8 | length; }

}  // namespace

LengthTables::LengthTables(u64 prefixes) : entries_(std::bit_ceil(prefixes * 2 + 2)) {}

const LengthTables::Entry& LengthTables::slot(u64 high, u64 low, u32 kind) const {
  u64 hash = (high ^ std::rotl(low, 29) ^ kind) * 0x9e3779b97f4a7c15;
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93;
  for (u64 at = hash >> 20;; ++at) {
    const Entry& entry = entries_[at & (entries_.size() - 1)];
    if (entry.kind == 0 || (entry.kind == kind && entry.high == high && entry.low == low)) return entry;
  }
}

void LengthTables::add(const policy::Prefix& prefix, u32 list) {
  const Halves halves = halves_of(prefix.family, prefix.address);
  const u32 kind = kind_of(prefix.family, prefix.length);
  Entry& entry = entries_[static_cast<u64>(&slot(halves.high, halves.low, kind) - entries_.data())];
  if (entry.kind == 0) entry = {halves.high, halves.low, kind, list};
  lengths_[prefix.family == 6].set(prefix.length);
}

u32 LengthTables::find(u8 family, const u8* address) const {
  const Halves halves = halves_of(family, address);
  const auto& lengths = lengths_[family == 6];
  for (u32 length = (family == 4 ? 32 : 128) + 1; length-- != 0;) {
    if (!lengths.test(length)) continue;
    const u64 low = length > 64 ? halves.low & mask_of(length - 64) : 0;
    const Entry& entry = slot(halves.high & mask_of(length), low, kind_of(family, length));
    if (entry.kind != 0) return entry.list;
  }
  return 0;
}

}  // namespace xdpgpu::bench
