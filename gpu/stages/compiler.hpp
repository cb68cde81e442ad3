// SPDX-License-Identifier: MIT
//
// gpu/stages/compiler.hpp: what a stage's compile.cpp is written with. What it defines is declared in
// gpu/stages/compilers.hpp, which is made of gpu/stages/stages.def:
//
//   emit(stage, to)           appends the stage's body, and all that it leads to, to its code, and says which
//                             words are indexes or numbers of rewrites
//   describe(stage, rule, result)
//                             " rule 3 (web)": what a verdict's rule means, for people; "": nothing
//
// And by its traits:
//
//   check(stage)              checks: half a sentence where what the settings say does not hang together: "it
//   has
//                             no threshold: give it one". Each field is what its table of fields says
//                             (field_checks.hpp)
//   outcomes(stage)           remembers: names of what becomes of packets, as tables count them
//   remembers(stage)          remembers and decides: which of the two it does
//   drops(stage)              drops: some packet is dropped
//   sends(stage)              sends: what of it sends packets on past the host's stack, "rule \"x\""; "": all
//                             of it; nothing: it does not
//   cached_undecided(stage)   by_flow: for how many milliseconds what it lets go on may be remembered, 0:
//                             while the generation lives; nothing: not at all
//   sees_egress(stage)        egress
//   payload_bytes(stage)      reads_payload: how many bytes of each packet it may read, from the first on,
//                             XG_PACKET_MAX at most; 0: headers alone
//   loosen(stage, body)       loosens: its table is lost, so that it has to take up what it does not know;
//                             false: it does so anyway
//   settle(stage, written)    settles: what follows from what a policy says and does not say, and what of it
//                             contradicts itself (gpu/stages/fields.hpp)
//   rules_of(stage)           rules (gpu/stages/stages.hpp has this one, and those below)
//   notes(stage, place)       notes
//   alarm_reader(stage)       alarms
//   event_reader(stage)       flow_events
//   outer_mtus(stage)         encapsulates
//   health_checks(stage)      checks_health, as has set_down(stage, is_down)
//   has_name(stage, at, list, entry)
//                             names: whether one of its lists has the entry, as it was compiled; nothing: it
//                             has no such list
//   changed_names(stage, at, changes)
//                             names: its words of the image's changes (gpu/stages/changes.h), from the first
//                             one on: as many as it is to be told
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/domain_names.hpp"
#include "gpu/image_words.hpp"
#include "gpu/pipelines.hpp"
#include "gpu/stage_code.hpp"
#include "gpu/stages/fields.hpp"
#include "gpu/stages/image.h"
#include "gpu/stages/stages.hpp"

namespace xdpgpu::gpu {

inline constexpr u64 kGiga = 1'000'000'000;
inline constexpr u64 kDay = 86'400;  // seconds

using Check = Result<void>;

// Where a stage's body stands that was compiled and linked.
struct NamesPlace {
  std::span<const u32> image;
  u32 body = 0;
};

// What a stage is emitted into: its code, and what it is hashed with.
struct Compiled {
  std::vector<u32> image;             // StageCode::words
  std::vector<CodeRange> pointers{};  // as are the others
  std::vector<RewriteWord> rewrite_words{};
  std::vector<xg_rewrite> rewrites{};
  std::vector<std::string> backends{};
  bool needs_rewrites = false;
  std::array<u64, 2> hash_key{};

  u32 here() const { return static_cast<u32>(image.size()); }
  // The word says where what is appended next begins.
  void point_here(u32 word) {
    image[word] = here();
    points(word);
  }
  // The words say where others are.
  void points(u32 first, u32 count = 1) { pointers.push_back({first, count}); }
  // The table of a prefix tree stands here.
  void tree_at(u32 table) { points(table + XG_TREE_ENTRIES, XG_TREE_WORDS - XG_TREE_ENTRIES); }
  // The words are the number of the rewrite, which is a new one.
  void rewritten(const std::vector<u32>& words, const xg_rewrite& rewrite, std::string backend = {});
};

// What becomes of a packet at a table: counted at XG_TABLE_OWN + number.
struct Outcome {
  std::string_view name;
  u32 number;
};

template <class... Args>
tl::unexpected<std::string> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected(fmt::format(format, std::forward<Args>(args)...));
}

// used: the verdict names `target`.
Check check_target(bool used, u32 target);
Check check_prefix(const Prefix& prefix);
Check check_prefixes(const std::vector<Prefix>& prefixes);

void append64(std::vector<u32>& image, u64 value);
// The first words of the body of a stage with a table, which is not cached. Which table, and its round, is
// filled in when the pipeline is known. -> where the body begins.
u32 append_stateful(const TableSettings& table, const std::array<u64, 2>& hash_key, std::vector<u32>& image);

// The verdict word without its stage that an action stands for (gpu/stages/image.h).
u32 action_word(Action action, u32 target, u32 rule);

// Settles "lists", of which each has its name: none may stand there twice.
template <class Lists>
void refuse_twice(const Lists& lists, const Written& written) {
  written.each("lists", lists.size(), [&](std::size_t i, const Written& list) {
    const auto here = lists.begin() + static_cast<std::ptrdiff_t>(i);
    if (!here->name.empty() &&
        std::any_of(lists.begin(), here, [&](const auto& other) { return other.name == here->name; }))
      list.refuse("list",
                  fmt::format("list \"{}\" stands here twice, and the first time decides; name each once",
                              here->name));
  });
}

inline bool sends(Action action) { return action == Action::tx || action == Action::redirect; }

}  // namespace xdpgpu::gpu
