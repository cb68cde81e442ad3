// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

// 1 + the number of the list with the longest prefix that holds the address; 0: none has it.
u32 reputation_of(const ReputationSettings& settings, std::span<const u8> address) {
  u32 list = 0;
  int longest = -1;
  for (std::size_t i = 0; i < settings.lists.size(); i++)
    for (const Prefix& prefix : settings.lists[i].prefixes)
      if (contains(prefix, address) && prefix.length > longest) {
        longest = prefix.length;
        list = static_cast<u32>(i) + 1;
      }
  return list;
}

class Reputation final : public StageWith<ReputationSettings> {
 public:
  using StageWith::StageWith;
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    u32 list = 0;
    if (!packet.src.empty()) {
      if (settings().of != ReputationSettings::Of::dst) list = reputation_of(settings(), packet.src);
      if (settings().of != ReputationSettings::Of::src && list == 0)
        list = reputation_of(settings(), packet.dst);
    }
    Action action = settings().otherwise;
    u32 target = 0;
    if (list != 0) {
      action = settings().lists[list - 1].action;
      target = settings().lists[list - 1].target;
    }
    if (!act(action, target, place.position, list, result)) return false;
    set_cache(settings().cache, settings().cache_ttl_ms, packet, XG_REWRITE_NONE, result);
    return true;
  }
  bool may_send() const override {
    return std::any_of(settings().lists.begin(), settings().lists.end(),
                       [](const ReputationList& list) { return sends(list.action); });
  }
  std::optional<u32> cached_undecided() const override {
    return settings().cache ? std::optional(settings().cache_ttl_ms) : std::nullopt;
  }
};

}  // namespace

std::unique_ptr<Stage> reference_of(const ReputationSettings& settings, const std::array<u64, 2>&) {
  return std::make_unique<Reputation>(settings);
}

}  // namespace xdpgpu::gpu::reference
