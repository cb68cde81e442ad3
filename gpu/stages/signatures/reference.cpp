// SPDX-License-Identifier: MIT
#include <algorithm>
#include <set>

#include "gpu/reference/signature.hpp"
#include "gpu/reference/stage.hpp"
#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

namespace sig = signatures;

bool is_there(std::string_view pattern, bool nocase, std::span<const u8> payload) {
  return std::search(payload.begin(), payload.end(), pattern.begin(), pattern.end(),
                     [&](u8 byte, char wanted) {
                       const bool upper = nocase && byte >= 'A' && byte <= 'Z';
                       return static_cast<u8>(wanted) == (upper ? byte + 32 : byte);
                     }) != payload.end();
}

class Signatures final : public StageWith<SignaturesSettings> {
 public:
  using StageWith::StageWith;
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    const SignaturePacket seen(packet);
    const auto& rules = settings().rules.all();
    std::vector<u32> hold;
    std::set<std::pair<std::string, bool>> patterns;
    u64 work = 0;
    for (u32 i = 0; i < rules.size(); i++) {
      const sig::Signature& rule = rules[i];
      if (const sig::Content* const content = sig::found_by(rule)) {
        const std::string pattern =
            content->bytes.substr(rule.fast_pattern->first, rule.fast_pattern->length);
        if (!is_there(pattern, content->nocase, seen.payload)) continue;
        patterns.emplace(pattern, content->nocase);
      }
      if (matches(rule, seen, work)) hold.push_back(i);
    }
    const auto all = static_cast<u32>(rules.size());
    if (work > settings().work || patterns.size() > sig::kMostPatterns)
      return act(settings().limit, 0, place.position, all + 1, result);
    if (hold.empty() || rules[hold[0]].action == sig::Action::pass) return false;
    result.flags |= XG_RES_ALERTS;
    place.alerts->count = static_cast<u16>(std::min<std::size_t>(hold.size(), XG_MAX_ALERTS) |
                                           (hold.size() > XG_MAX_ALERTS ? XG_ALERTS_MORE : 0));
    for (u32 i = 0; i < std::min<std::size_t>(hold.size(), XG_MAX_ALERTS); i++)
      place.alerts->rules[i] = static_cast<u16>(hold[i]);
    if (rules[hold[0]].action == sig::Action::alert) return false;
    return act(Action::drop, 0, place.position, hold[0] + 1, result);
  }
  bool inspects() const override { return true; }
};

}  // namespace

std::unique_ptr<Stage> reference_of(const SignaturesSettings& settings, const std::array<u64, 2>&) {
  return std::make_unique<Signatures>(settings);
}

}  // namespace xdpgpu::gpu::reference
