// SPDX-License-Identifier: MIT
//
// userspace/dataplane/ways.hpp: which way packets go whose verdict wants nothing special done: sorted by it,
// they are retired together.
#pragma once

#include <array>
#include <vector>

#include "maps/packet.h"

namespace xdpgpu::dataplane {

// A way is back to the free list, or out of one of the worker's rings. Each is one action's for the packets
// of one port, so that what goes it together counts as the same. No allocation after construction.
class Ways {
 public:
  static constexpr u8 kDrop = 0;
  static constexpr u8 kFirstRing = 1;  // ring i: kFirstRing + i
  static constexpr u8 kNone = 0xff;    // packets that are looked at one by one
  static constexpr u32 kBlock = 256;   // packets that are sorted at once

  Ways(u32 ports, u32 rings)
      : of_verdict_(ports), lists_((kFirstRing + rings) * kBlock), counts_(kFirstRing + rings) {
    static_assert(kFirstRing + 2 * XG_MAX_PORTS < kNone);
    for (auto& ways : of_verdict_) {
      ways.fill(kNone);
      for (u32 port = 0; port < XG_MAX_PORTS; ++port) ways[word(XG_DROP, port)] = kDrop;
    }
  }

  // What this verdict does with packets that came in on `from`. No two actions may name the same ring there.
  void set(u32 from, u32 action, u32 ring) {
    for (u32 port = 0; port < XG_MAX_PORTS; ++port)
      of_verdict_[from][word(action, port)] = static_cast<u8>(kFirstRing + ring);
  }
  void set_redirect(u32 from, u32 port, u32 ring) {
    of_verdict_[from][word(XG_REDIRECT, port)] = static_cast<u8>(kFirstRing + ring);
  }

  // The way of each verdict word, by its low byte.
  const u8* of(u32 from) const noexcept { return of_verdict_[from].data(); }

  u32 size() const noexcept { return static_cast<u32>(counts_.size()); }
  // A block's packets that go each way, in order, and how many: way w's list begins at w * kBlock. Nothing is
  // in them at first.
  u8* lists() noexcept { return lists_.data(); }
  u32* counts() noexcept { return counts_.data(); }

 private:
  static constexpr u32 word(u32 action, u32 port) { return XG_VERDICT(action, port, 0u, 0u); }
  static_assert(XG_VERDICT(7u, XG_MAX_PORTS - 1, 0u, 0u) == 0xff);

  std::vector<std::array<u8, 256>> of_verdict_;
  std::vector<u8> lists_;
  std::vector<u32> counts_;
};

}  // namespace xdpgpu::dataplane
