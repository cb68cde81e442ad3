// SPDX-License-Identifier: MIT
#include <algorithm>
#include <set>
#include <tuple>

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

bool stands_in(const sig::Signature& rule, std::string_view pattern, bool nocase,
               const SignaturePacket& packet) {
  if (rule.fast_pattern->buffer == 0) return is_there(pattern, nocase, packet.payload);
  return packet.dns &&
         std::any_of(packet.dns->names.begin(), packet.dns->names.end(), [&](const std::string& name) {
           const std::string text = "." + name;
           return is_there(pattern, nocase, {reinterpret_cast<const u8*>(text.data()), text.size()});
         });
}

// Whether its DNS message takes more to read, or has more of names, than there is room for.
bool is_too_long(const std::vector<sig::Signature>& rules, const SignaturePacket& packet) {
  const auto one_of = [&](auto asks) { return std::any_of(rules.begin(), rules.end(), asks); };
  if (!packet.dns || !one_of([](const sig::Signature& rule) { return rule.dns.has_value(); })) return false;
  const DnsMessage& message = *packet.dns;
  const u64 steps = message.question_steps + (one_of(reads_answers) ? message.record_steps : 0);
  if (steps > kMostDnsSteps) return true;
  if (!one_of([](const sig::Signature& rule) { return rule.dns && !rule.dns->names.empty(); })) return false;
  std::size_t bytes = 0;
  for (const std::string& name : message.names) bytes += 1 + name.size();
  return message.names.size() > kMostDnsNames || bytes > kMostDnsNameBytes;
}

class Signatures final : public StageWith<SignaturesSettings> {
 public:
  using StageWith::StageWith;
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    SignaturePacket seen(packet);
    // As long as nobody decides.
    seen.connection = result.detail;
    const auto& rules = settings().rules.all();
    std::vector<u32> hold;
    std::set<std::tuple<std::string, bool, bool>> patterns;  // nocase, in names
    u64 work = 0;
    for (u32 i = 0; i < rules.size(); i++) {
      const sig::Signature& rule = rules[i];
      if (const sig::Content* const content = sig::found_by(rule)) {
        const std::string pattern =
            content->bytes.substr(rule.fast_pattern->first, rule.fast_pattern->length);
        if (!stands_in(rule, pattern, content->nocase, seen)) continue;
        patterns.emplace(pattern, content->nocase, rule.fast_pattern->buffer != 0);
      }
      if (matches(rule, seen, work)) hold.push_back(i);
    }
    const auto all = static_cast<u32>(rules.size());
    if (work > settings().work || patterns.size() > sig::kMostPatterns || is_too_long(rules, seen))
      return act(settings().limit, 0, place.position, all + 1, result);
    if (hold.empty() || rules[hold[0]].action == sig::Action::pass) return false;
    result.flags |= XG_RES_ALERTS;
    place.alerts->count = static_cast<u16>(std::min<std::size_t>(hold.size(), XG_MAX_ALERTS) |
                                           (hold.size() > XG_MAX_ALERTS ? XG_ALERTS_MORE : 0));
    place.alerts->connection = seen.connection;
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
