// SPDX-License-Identifier: MIT
//
// gpu/stages/compiler.hpp: what a stage's compile.cpp is written with. What it defines is declared in
// gpu/stages/compilers.hpp, which is made of gpu/stages/stages.def:
//
//   emit(stage, to)           appends the stage's body, and all that it leads to, to the image
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
#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/image_words.hpp"
#include "gpu/pipelines.hpp"
#include "gpu/stages/fields.hpp"
#include "gpu/stages/stages.hpp"

namespace xdpgpu::gpu {

// Words an image may have; bounds what hostile rule sets can make a device allocate (512 MiB).
inline constexpr u64 kImageMaxWords = u64{1} << 27;
inline constexpr u64 kGiga = 1'000'000'000;
inline constexpr u64 kDay = 86'400;  // seconds

using Check = Result<void>;

// What a policy is compiled into.
struct Compiled {
  std::vector<u32> image;
  std::vector<xg_rewrite> rewrites;
  std::vector<std::string> backends;  // by rewrite
  std::vector<StateSpec> states;
  std::vector<u32> payload;  // bytes of a packet that its stages may read, by pipeline
  std::array<u64, 2> hash_key{};
};

// Where a stage's body stands.
struct Placed {
  u32 body;
  u64 entries = 0;  // of its table, if it has one
  u32 own = 0;      // end of the words of the body that say which table it is, 0: all do
  u32 record = 0;   // words that each entry has behind the sets
  u32 behind = 0;   // with asks_behind: the word that is told of the stages behind (XG_BEHIND_SENDS)
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

inline bool sends(Action action) { return action == Action::tx || action == Action::redirect; }

}  // namespace xdpgpu::gpu
