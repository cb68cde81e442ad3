// SPDX-License-Identifier: MIT
//
// gpu/tree_prefix.hpp: prefixes on their way into a tree, as small as they can be: there may be millions.
#pragma once

#include <array>

#include "maps/types.h"

namespace xdpgpu::gpu {

// An address's words in host order, the most significant one first; of IPv4 one.
using TreeAddress = std::array<u32, 4>;

inline constexpr u32 kTreeMaxValue = (1u << 26) - 1;

// The value is what the prefix stands for, 1 to kTreeMaxValue. Address bits beyond the length are 0.
class TreePrefix4 {
 public:
  static constexpr u32 kWidth = 32;
  TreePrefix4() = default;
  TreePrefix4(const TreeAddress& address, u32 length, u32 value)
      : key_(u64{length == 0 ? 0 : address[0] & ~u32{0} << (32 - length)} << 32 | length << 26 | value) {}

  // Orders by address and length; the rest is the value.
  u64 key() const { return key_; }
  static constexpr u32 kKeyShift = 26;

  TreeAddress address() const { return {static_cast<u32>(key_ >> 32)}; }
  u32 length() const { return static_cast<u32>(key_) >> 26; }
  u32 value() const { return static_cast<u32>(key_) & kTreeMaxValue; }
  // `count` bits of the address from `from` on, count 1 to 31; bits beyond the address are 0.
  u32 bits(u32 from, u32 count) const {
    return from > 31 ? 0 : static_cast<u32>(key_ >> 32) << from >> (32 - count);
  }
  bool same_prefix(const TreePrefix4& other) const { return (key_ ^ other.key_) >> kKeyShift == 0; }
  bool before(const TreePrefix4& other) const { return key_ >> kKeyShift < other.key_ >> kKeyShift; }

 private:
  u64 key_ = 0;
};

class TreePrefix6 {
 public:
  static constexpr u32 kWidth = 128;
  TreePrefix6() = default;
  TreePrefix6(const TreeAddress& address, u32 length, u32 value)
      : high_((u64{address[0]} << 32 | address[1]) & mask(length)),
        low_((u64{address[2]} << 32 | address[3]) & mask(length > 64 ? length - 64 : 0)),
        length_(length),
        value_(value) {}

  u64 high() const { return high_; }
  u64 low() const { return low_; }
  TreeAddress address() const {
    return {static_cast<u32>(high_ >> 32), static_cast<u32>(high_), static_cast<u32>(low_ >> 32),
            static_cast<u32>(low_)};
  }
  u32 length() const { return length_; }
  u32 value() const { return value_; }
  u32 bits(u32 from, u32 count) const {
    const u64 ahead = from < 64    ? high_ << from | (from != 0 ? low_ >> (64 - from) : 0)
                      : from < 128 ? low_ << (from - 64)
                                   : 0;
    return static_cast<u32>(ahead >> (64 - count));
  }
  bool same_prefix(const TreePrefix6& other) const {
    return high_ == other.high_ && low_ == other.low_ && length_ == other.length_;
  }
  bool before(const TreePrefix6& other) const {
    return high_ != other.high_ ? high_ < other.high_
           : low_ != other.low_ ? low_ < other.low_
                                : length_ < other.length_;
  }

 private:
  static u64 mask(u32 length) { return length == 0 ? 0 : length >= 64 ? ~u64{0} : ~u64{0} << (64 - length); }
  u64 high_ = 0, low_ = 0;
  u32 length_ = 0, value_ = 0;
};

}  // namespace xdpgpu::gpu
