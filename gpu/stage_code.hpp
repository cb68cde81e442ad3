// SPDX-License-Identifier: MIT
//
// gpu/stage_code.hpp: a stage as it is compiled, by itself: what it says does not hang on where it comes to
// stand in an image, nor on the stages beside it. So the code of a stage that has not changed is the same as
// before, and is linked again and not compiled again (Pipelines::link).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"
#include "gpu/rule_source.hpp"
#include "gpu/stages/list.hpp"
#include "maps/flow.h"

namespace xdpgpu::gpu {

// Words an image may have; bounds what hostile rule sets can make a device allocate (512 MiB).
inline constexpr u64 kImageMaxWords = u64{1} << 27;
// What code begins at in an image: as many words as a line of a GPU's cache has.
inline constexpr u32 kCodeAlign = 32;

// Where a stage's body stands in its code.
struct Placed {
  u32 body = 0;
  u64 entries = 0;  // of its table, if it has one
  u32 own = 0;      // end of the words of the body that say which table it is, 0: all do
  // Words that each entry has behind the sets: kRecordWords or record_words() of the settings, where they
  // have one.
  u32 record = 0;
  u32 behind = 0;  // with asks_behind: the word that is told of the stages behind (XG_BEHIND_SENDS)
  // Of a stage that inspects packets and has a table in front: the body of the part that inspects.
  u32 inspects = 0;
  bool operator==(const Placed&) const = default;
};

// Words of a stage's code, one behind the other.
struct CodeRange {
  u32 first = 0, count = 0;
  bool operator==(const CodeRange&) const = default;
};

// A word that is to hold a rewrite's number, 0 where there is none left for it.
struct RewriteWord {
  u32 word = 0;
  u32 rewrite = 0;  // of the stage's, from 0
  bool operator==(const RewriteWord&) const = default;
};

struct StageCode {
  std::vector<u32> words;
  std::vector<CodeRange> pointers;  // of them, those that hold the index of another one
  std::vector<RewriteWord> rewrite_words;
  std::vector<xg_rewrite> rewrites;
  std::vector<std::string> backends;  // by rewrite: to which one it leads; empty: to none
  bool needs_rewrites = false;        // it cannot do without
  Placed placed;
  u32 payload = 0;  // bytes of a packet that it may read, from the first one on; 0: headers alone
  std::vector<RuleHead> heads{};          // FileRules::heads
  std::vector<Suppression> suppressed{};  // FileRules::suppressed
  std::vector<std::string> notes{};       // FileRules::notes
};

// Of code that came from elsewhere: whether it can be linked, and the stage then writes nowhere but into its
// table. What it reads by its words is not followed: wrong ones make wrong verdicts, or end the process. Code
// of a stage that runs a program (StageTraits::programs) cannot: a device writes where such words lead. It is
// made where it is linked, of the stage's settings (compile_stage()).
bool is_linkable(const StageSettings& stage, const StageCode& code);

}  // namespace xdpgpu::gpu
