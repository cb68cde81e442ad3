// SPDX-License-Identifier: MIT
//
// userspace/policy/trie.hpp: builds the interval tries of maps/tables.h.
//
// A cell of the trie is a range of keys that share their leading bits, with the boundaries inside of it.
// Up to seven boundaries become a leaf of one line. More are cut: by the next bits of the key where that
// spreads them well (one word read a level), else at five keys of equal rank (one line more), so that
// no input makes the trie deep or large: a level leaves at most a sixth of a cell's boundaries, or what one
// word more ends, and the words grow with the number of boundaries. n boundaries are at most 1 + log6(n)
// words deep: XG_LPM_MAX_DEPTH is enough for 60 million.
#pragma once

#include <span>
#include <vector>

#include "maps/tables.h"

namespace xdpgpu::policy {

// From `key` on (up to the next boundary's key) the value holds.
struct Boundary {
  u64 key;
  u32 value;
};

// Lines being filled. Word index = line * 8 + word.
class LineStore {
 public:
  u32 line_count() const { return static_cast<u32>(lines_.size()); }
  u32 add_lines(u64 count);  // index of the first
  // Consecutive words: within one line where count <= 8, from a line's start where more.
  u32 add_words(u64 count);
  u64& word(u64 index) { return lines_[index / XG_LINE_WORDS].word[index % XG_LINE_WORDS]; }
  void reserve(u64 lines) { lines_.reserve(lines); }
  std::vector<xg_line> take() { return std::move(lines_); }

 private:
  std::vector<xg_line> lines_;
  std::vector<u32> open_[XG_LINE_WORDS];  // lines with that many words left
};

// Writes the trie of the boundaries (ascending keys, the first 0) and gives its root word, which the
// caller stores where it likes. Throws std::length_error if a walk could not reach all of them.
u64 build_trie(LineStore& store, std::span<const Boundary> boundaries);

}  // namespace xdpgpu::policy
