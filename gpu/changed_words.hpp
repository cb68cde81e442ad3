// SPDX-License-Identifier: MIT
//
// gpu/changed_words.hpp: which words of a copy were changed, in few pieces, to be written back.
#pragma once

#include <algorithm>
#include <span>

#include "maps/types.h"

namespace xdpgpu::gpu {

// A piece costs a device some microseconds, as much as so many words that it would have taken with another.
inline constexpr u64 kWordsAPiece = 4'096;

// change(first, count): the pieces that cover all words of `after` that are not those of `before`, which is
// as long; in their order, with fewer than kWordsAPiece equal words in a row. At most one piece for each
// kWordsAPiece words, and one more. Each is asked for before the next one is looked for.
template <class Change>
void each_change(std::span<const u32> before, std::span<const u32> after, Change change) {
  const auto next = [&](u64 at) {
    const auto from = before.begin() + static_cast<std::ptrdiff_t>(at);
    return static_cast<u64>(
        std::mismatch(from, before.end(), after.begin() + static_cast<std::ptrdiff_t>(at)).first -
        before.begin());
  };
  for (u64 first = next(0); first < before.size();) {
    u64 end = first + 1, different = next(end);
    while (different < before.size() && different - end < kWordsAPiece) {
      end = different + 1;
      different = next(end);
    }
    change(first, end - first);
    first = different;
  }
}

}  // namespace xdpgpu::gpu
