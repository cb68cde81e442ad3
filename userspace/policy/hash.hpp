// SPDX-License-Identifier: MIT
//
// userspace/policy/hash.hpp: a 64-bit hash of a sequence of texts: MurmurHash64A (Austin Appleby, public
// domain), each text seeded with the hash of those before it.
#pragma once

#include <cstring>
#include <string_view>

#include "maps/types.h"

namespace xdpgpu::policy {

// The same on every host of one byte order. Tells policies apart; it is no proof against forgery.
class Hash {
 public:
  // Each text counts with its length, so that moving bytes from one to the next changes the hash.
  void add(std::string_view text) {
    u64 hash = value_ ^ (text.size() * kMultiplier);
    u64 at = 0;
    for (; at + 8 <= text.size(); at += 8) {
      u64 word;
      std::memcpy(&word, text.data() + at, 8);
      hash = (hash ^ mix(word)) * kMultiplier;
    }
    if (at != text.size()) {
      u64 rest = 0;
      std::memcpy(&rest, text.data() + at, text.size() - at);
      hash = (hash ^ rest) * kMultiplier;
    }
    hash = (hash ^ (hash >> 47)) * kMultiplier;
    value_ = hash ^ (hash >> 47);
  }
  u64 value() const { return value_; }

 private:
  static constexpr u64 kMultiplier = 0xc6a4a7935bd1e995ull;
  static u64 mix(u64 word) {
    word *= kMultiplier;
    return (word ^ (word >> 47)) * kMultiplier;
  }
  u64 value_ = 0x78647067;
};

}  // namespace xdpgpu::policy
