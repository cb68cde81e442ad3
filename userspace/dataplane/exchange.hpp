// SPDX-License-Identifier: MIT
//
// userspace/dataplane/exchange.hpp: sixteen bytes that several threads read and exchange as a whole, without
// a lock.
#pragma once

#include <bit>

#include "maps/types.h"

namespace xdpgpu::dataplane {

__extension__ typedef unsigned __int128 Wide;

// Both halves as they are; whether they are of the same moment, the exchange says.
inline Wide load(const u64 (&entry)[2]) noexcept {
  return Wide{__atomic_load_n(&entry[1], __ATOMIC_RELAXED)} << 64 |
         __atomic_load_n(&entry[0], __ATOMIC_RELAXED);
}
// std::atomic of so much is a call into a library, which may lock (CMakeLists.txt has the processor's own).
inline bool exchange(u64 (&entry)[2], Wide seen, Wide next) noexcept {
  static_assert(std::endian::native == std::endian::little);
  typedef Wide __attribute__((may_alias)) Whole;
  return __sync_bool_compare_and_swap(reinterpret_cast<Whole*>(&entry[0]), seen, next);
}

}  // namespace xdpgpu::dataplane
