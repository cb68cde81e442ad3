// SPDX-License-Identifier: MIT
#include <algorithm>
#include <set>
#include <tuple>

#include "gpu/reference/signature.hpp"
#include "gpu/reference/stage.hpp"
#include "gpu/stages/references.hpp"
#include "gpu/stages/signatures/stream_reference.hpp"

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
  Signatures(const SignaturesSettings& settings, const std::array<u64, 2>& secret) : StageWith(settings) {
    if (settings.streams != 0) streams_.emplace(settings, secret);
  }
  void change(const StageSettings& settings) override {
    StageWith::change(settings);
    if (streams_) streams_->change(std::get<SignaturesSettings>(settings));
  }
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    SignaturePacket seen(packet);
    std::vector<u32> fired;
    if (streams_)
      if (const auto decided = follow(packet, seen, place, result, fired)) return *decided;
    return decide_packet(seen, place, result, std::move(fired));
  }
  bool inspects() const override { return true; }
  bool remembers() const override { return streams_.has_value(); }
  std::vector<u32> table() const override { return streams_->table().words(); }

 private:
  // Whether the packet is decided, by what streams are, or goes on, as a rule has passed its connection.
  // Nothing: its rules are to be asked; fired: those that fire with it.
  std::optional<bool> follow(const Packet& packet, SignaturePacket& seen, const Place& place,
                             xg_result& result, std::vector<u32>& fired) {
    using What = Streams::What;
    const auto [what, fire, passes] = streams_->take(packet, seen);
    if (what != What::other) streams_->table().count(static_cast<u32>(what));
    const auto count = static_cast<u32>(settings().rules.all().size());
    fired = fire;
    const auto decided = [&](Action action, u32 rule) {
      return act(action, 0, place.position, count + rule, result);
    };
    if ((what == What::limit && decided(settings().limit, 1)) ||
        (what == What::changed && decided(Action::drop, 2)) ||
        (what == What::gap && decided(settings().on_gap, 3)) ||
        (what == What::dropped && decided(Action::drop, 4)) ||
        (what == What::encoded && fire.empty() && decided(settings().on_encoded, 5)))
      return true;
    return passes ? std::optional(false) : std::nullopt;
  }

  // fired: rules that hold beside those that do for the packet.
  bool decide_packet(SignaturePacket& seen, const Place& place, xg_result& result, std::vector<u32> fired) {
    // As long as nobody decides.
    seen.connection = result.detail;
    const auto& rules = settings().rules.all();
    std::vector<u32> hold;
    std::set<std::tuple<std::string, bool, bool>> patterns;  // nocase, in names
    u64 work = 0;
    for (u32 i = 0; i < rules.size(); i++) {
      const sig::Signature& rule = rules[i];
      if (rule.where == sig::Where::stream) continue;
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
    hold.insert(hold.end(), fired.begin(), fired.end());
    std::sort(hold.begin(), hold.end());
    hold.erase(std::unique(hold.begin(), hold.end()), hold.end());
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

  std::optional<Streams> streams_;
};

}  // namespace

std::unique_ptr<Stage> reference_of(const SignaturesSettings& settings, const std::array<u64, 2>& secret) {
  return std::make_unique<Signatures>(settings, secret);
}

}  // namespace xdpgpu::gpu::reference
