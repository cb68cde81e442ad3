// SPDX-License-Identifier: MIT
//
// userspace/policy/hash.hpp: FNV-1a, 64 bits (Fowler, Noll, Vo; RFC 9923), over a sequence of texts.
#pragma once

#include <string_view>

#include "maps/types.h"

namespace xdpgpu::policy {

class Hash {
 public:
  // Each text counts with its length, so that moving bytes from one to the next changes the hash.
  void add(std::string_view text) {
    u64 length = text.size();
    for (u32 i = 0; i < 8; ++i) step(static_cast<u8>(length >> (8 * i)));
    for (char c : text) step(static_cast<u8>(c));
  }
  u64 value() const { return value_; }

 private:
  void step(u8 byte) { value_ = (value_ ^ byte) * 0x100000001b3ull; }
  u64 value_ = 0xcbf29ce484222325ull;
};

}  // namespace xdpgpu::policy
