// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/prefix_tree_image.hpp"
#include "gpu/stages/compilers.hpp"
#include "gpu/stages/reputation/device.h"

namespace xdpgpu::gpu {
namespace {

// Of one family, in the order of the lists.
template <class To>
LargeVector<To> prefixes_of(const ReputationSettings& settings) {
  constexpr u8 kFamily = To::kWidth == 32 ? 4 : 6;
  std::size_t count = 0;
  for (const ReputationList& list : settings.lists)
    for (const Prefix& prefix : list.prefixes) count += prefix.family == kFamily ? 1 : 0;
  LargeVector<To> prefixes;
  prefixes.reserve(count);
  for (std::size_t list = 0; list < settings.lists.size(); list++)
    for (const Prefix& prefix : settings.lists[list].prefixes) {
      if (prefix.family != kFamily) continue;
      TreeAddress address{};
      for (u32 i = 0; i < To::kWidth / 8; i++) address[i / 4] |= u32{prefix.address[i]} << (24 - i % 4 * 8);
      prefixes.emplace_back(address, prefix.length, static_cast<u32>(list) + 1);
    }
  return prefixes;
}

u32 sides_of(ReputationSettings::Of of) {
  switch (of) {
    case ReputationSettings::Of::src:
      return XG_REP_SRC;
    case ReputationSettings::Of::dst:
      return XG_REP_DST;
    case ReputationSettings::Of::either:
      return XG_REP_SRC | XG_REP_DST;
  }
  return 0;
}

}  // namespace

Result<Placed> emit(const ReputationSettings& settings, Compiled& to) {
  std::vector<u32>& image = to.image;
  std::vector<u32> body(XG_REP_WORDS, 0);
  body[XG_BODY_CACHE] = settings.cache ? 1 : 0;
  body[XG_BODY_TTL] = settings.cache_ttl_ms;
  body[XG_REP_SIDES] = sides_of(settings.of);
  body[XG_REP_OTHERWISE] = action_word(settings.otherwise, 0, 0);
  body[XG_REP_ACTIONS] = static_cast<u32>(image.size());
  for (u32 i = 0; i < settings.lists.size(); i++)
    image.push_back(action_word(settings.lists[i].action, settings.lists[i].target, i + 1));
  u64 prefixes = 0;
  for (const ReputationList& list : settings.lists) prefixes += list.prefixes.size();
  make_room_for_trees(prefixes, image);
  auto appended =
      append_prefix_tree(prefixes_of<TreePrefix4>(settings), image, &body[XG_REP_V4]).and_then([&] {
        return append_prefix_tree(prefixes_of<TreePrefix6>(settings), image, &body[XG_REP_V6]);
      });
  if (!appended) return tl::unexpected(appended.error());
  const u32 at = to.here();
  image.insert(image.end(), body.begin(), body.end());
  to.points(at + XG_REP_ACTIONS);
  to.tree_at(at + XG_REP_V4);
  to.tree_at(at + XG_REP_V6);
  return Placed{at};
}

std::optional<std::string> sends(const ReputationSettings& stage) {
  const auto list = std::find_if(stage.lists.begin(), stage.lists.end(),
                                 [](const ReputationList& one) { return sends(one.action); });
  if (list == stage.lists.end()) return std::nullopt;
  return fmt::format("list \"{}\"", list->name);
}

bool drops(const ReputationSettings& stage) {
  return stage.otherwise == Action::drop ||
         std::any_of(stage.lists.begin(), stage.lists.end(),
                     [](const ReputationList& one) { return one.action == Action::drop; });
}

void settle(ReputationSettings& stage, const Written& written) { refuse_twice(stage.lists, written); }

std::optional<u32> cached_undecided(const ReputationSettings& stage) {
  return stage.cache ? std::optional(stage.cache_ttl_ms) : std::nullopt;
}

std::string describe(const ReputationSettings& stage, u32 rule, const xg_result*) {
  if (rule == 0 || rule > stage.lists.size()) return " otherwise";
  return fmt::format(" list {}", stage.lists[rule - 1].name);
}

}  // namespace xdpgpu::gpu
