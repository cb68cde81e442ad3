// SPDX-License-Identifier: MIT
#include "userspace/dataplane/alert_rules.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "maps/hash.h"
#include "maps/parse.h"
#include "userspace/dataplane/exchange.hpp"
#include "userspace/dataplane/random_key.hpp"

namespace xdpgpu::dataplane {
namespace {

using gpu::AlertLimit;
using gpu::RuleHead;
using gpu::Suppression;
using gpu::signatures::Address;
using gpu::signatures::Range;

// An entry: 48 bits of a hash, 52 of its window's end in microseconds, 28 of the matches in it. No entry is
// 0.
constexpr u32 kEndAt = 28, kTagAt = 80;
constexpr u64 kLatest = (u64{1} << (kTagAt - kEndAt)) - 1;
static_assert(gpu::kMostAlertCount == (u32{1} << kEndAt) - 1);

struct Window {
  u64 tag = 0, until_us = 0;
  u32 count = 0;
};
Window window_of(Wide entry) noexcept {
  return {static_cast<u64>(entry >> kTagAt), static_cast<u64>(entry >> kEndAt) & kLatest,
          static_cast<u32>(entry) & gpu::kMostAlertCount};
}
Wide entry_of(const Window& window) noexcept {
  return Wide{window.tag} << kTagAt | Wide{window.until_us} << kEndAt | window.count;
}

// What a match makes of its window, and what comes of it. A window in which further matches change nothing
// any more is left as it is, so that a flood only reads.
struct Step {
  Match match = Match::nothing;
  bool changes = true;
};
Match told_if(bool is_told) noexcept { return is_told ? Match::told : Match::nothing; }
Step step(const AlertLimit& limit, Window& window, u64 now_us, bool is_known) noexcept {
  using Type = AlertLimit::Type;
  const u32 most = limit.count;
  if (limit.type == Type::threshold && most == 1) return {Match::told, false};
  if (!is_known || now_us > window.until_us) {
    window.until_us = std::min(now_us + u64{limit.seconds} * 1'000'000, kLatest);
    window.count = 1;
    return {told_if(limit.type == Type::limit || (limit.type == Type::both && most == 1)), true};
  }
  const bool is_full = window.count >= gpu::kMostAlertCount;
  switch (limit.type) {
    case Type::limit:
      if (window.count >= most) return {Match::silent, false};
      window.count++;
      return {Match::told, true};
    case Type::both:
      if (window.count >= most) return {Match::silent, false};
      window.count++;
      return {told_if(window.count == most), true};
    case Type::threshold:
      window.count = window.count + 1 >= most ? 0 : window.count + 1;
      return {told_if(window.count == 0), true};
    case Type::detection_filter:
      if (window.count > most) return {Match::told, false};
      if (!is_full) window.count++;
      return {told_if(window.count > most), !is_full};
    case Type::none:
      break;
  }
  return {Match::told, false};
}

bool is_in(const gpu::signatures::Ranges<Address>& ranges, const Address& address) noexcept {
  const auto behind =
      std::upper_bound(ranges.begin(), ranges.end(), address,
                       [](const Address& one, const Range<Address>& range) { return one < range.first; });
  return behind != ranges.begin() && address <= std::prev(behind)->last;
}

// Of packets from or for whom a rule is suppressed it is silent, and not counted. One that is suppressed for
// anybody is counted, and told of nobody.
enum class Suppressed : u8 { no, untold, silent };

bool is_about(const Suppression& line, const Ends& ends) noexcept {
  const auto& ranges = ends.version == 4 ? line.addresses.v4 : line.addresses.v6;
  return (line.whose != Suppression::Whose::destination && is_in(ranges, ends.src)) ||
         (line.whose != Suppression::Whose::source && is_in(ranges, ends.dst));
}

Suppressed suppressed(const std::vector<Suppression>& lines, const RuleHead& rule,
                      const Ends& ends) noexcept {
  const auto less = [](const auto& one, const auto& other) {
    return std::pair(one.gid, one.sid) < std::pair(other.gid, other.sid);
  };
  Suppressed found = Suppressed::no;
  for (const auto& [gid, sid] : {std::pair(0u, 0u), std::pair(rule.gid, 0u), std::pair(rule.gid, rule.sid)}) {
    const Suppression wanted{.gid = gid, .sid = sid, .addresses = {}};
    const auto [first, last] = std::equal_range(lines.begin(), lines.end(), wanted, less);
    for (auto line = first; line != last; ++line) {
      if (line->whose == Suppression::Whose::anybody)
        found = Suppressed::untold;
      else if (is_about(*line, ends))
        return Suppressed::silent;
    }
  }
  return found;
}

u32 rejects_of(gpu::signatures::Action action) noexcept {
  using Action = gpu::signatures::Action;
  switch (action) {
    case Action::reject:
      return XG_RES_REJECT_SENDER;
    case Action::reject_dst:
      return XG_RES_REJECT_RECEIVER;
    case Action::reject_both:
      return XG_RES_REJECT_SENDER | XG_RES_REJECT_RECEIVER;
    default:
      return 0;
  }
}

}  // namespace

Ends ends_of(const u8* frame, u32 length, const xg_metadata& metadata, u32 connection) noexcept {
  Ends ends;
  ends.protocol = metadata.protocol;
  ends.connection = connection;
  if (const u32 l4 = metadata.l4_offset; metadata.flags & XG_PKT_PORTS && l4 + 4 <= length) {
    ends.src_port = xg_load16(frame + l4);
    ends.dst_port = xg_load16(frame + l4 + 2);
  }
  const u32 l3 = metadata.l3_offset;
  const auto addresses = [&](u8 version, u32 at, u32 bytes) {
    if (l3 + at + 2 * bytes > length) return;
    ends.version = version;
    std::memcpy(ends.src.data(), frame + l3 + at, bytes);
    std::memcpy(ends.dst.data(), frame + l3 + at + bytes, bytes);
  };
  if (l3 == 0 || l3 >= length) return ends;
  if (frame[l3] >> 4 == 4) addresses(4, 12, 4);
  if (frame[l3] >> 4 == 6) addresses(6, 8, 16);
  return ends;
}

// ---- what is counted ------------------------------------------------------------------------------------

AlertCounts::AlertCounts() : key_(random_key()), sets_(std::make_unique<Set[]>(kEntries / kWays)) {}

u64 AlertCounts::hash(const RuleHead& rule, const Ends& ends) const noexcept {
  using Track = AlertLimit::Track;
  XG_SIP_BEGIN(key_[0], key_[1]);
  XG_SIP_WORD(rule.gid | u64{rule.sid} << 32);
  const u64 version = rule.limit.track == Track::by_rule ? 0 : ends.version;
  XG_SIP_WORD(static_cast<u64>(rule.limit.track) | version << 8);
  const auto add = [&](const Address& address) {
    u64 words[2];
    std::memcpy(words, address.data(), sizeof(words));
    XG_SIP_WORD(words[0]);
    XG_SIP_WORD(words[1]);
  };
  const bool by_both = rule.limit.track == Track::by_both;
  if (rule.limit.track == Track::by_src) add(ends.src);
  if (rule.limit.track == Track::by_dst) add(ends.dst);
  if (by_both) add(std::min(ends.src, ends.dst));
  if (by_both) add(std::max(ends.src, ends.dst));
  XG_SIP_END();
  return v0 ^ v1 ^ v2 ^ v3;
}

Match AlertCounts::count(const RuleHead& rule, const Ends& ends, u64 now_ns) noexcept {
  const u64 found = hash(rule, ends), now_us = std::min(now_ns / 1000, kLatest);
  const u64 tag = found >> 16 | 1;
  auto& set = sets_[found % (kEntries / kWays)].ways;
  for (;;) {
    u32 at = 0;
    Wide seen = 0;
    Window window;
    // The rule's own; or the one that ends first, of which an empty one is the first.
    for (u32 i = 0; i < kWays; i++) {
      const Wide entry = load(set[i]);
      const Window one = window_of(entry);
      if (i == 0 || one.tag == tag || one.until_us < window.until_us) {
        at = i;
        seen = entry;
        window = one;
      }
      if (one.tag == tag) break;
    }
    const bool is_known = window.tag == tag;
    const bool makes_room = !is_known && window.until_us >= now_us && window.tag != 0;
    window.tag = tag;
    const Step what = step(rule.limit, window, now_us, is_known);
    if (!what.changes) return what.match;
    if (!exchange(set[at], seen, entry_of(window))) continue;
    if (makes_room) forgotten_.fetch_add(1, std::memory_order_relaxed);
    return what.match;
  }
}

// ---- what rules say -------------------------------------------------------------------------------------

void AlertRules::Reader::wait() const noexcept {
  const u64 turn = turn_.load(std::memory_order_seq_cst);
  while (turn & 1 && turn_.load(std::memory_order_acquire) == turn) std::this_thread::yield();
}

void AlertRules::set(Policies policies, std::span<const Reader* const> readers) {
  const auto some = [&](auto has) {
    return std::any_of(policies.begin(), policies.end(), [&](const Policy& policy) {
      return std::any_of(policy.pipelines.begin(), policy.pipelines.end(), has);
    });
  };
  const bool counts = some([](const Pipeline& pipeline) { return pipeline.decided != nullptr; });
  const bool is_empty = !counts && !some([](const Pipeline& pipeline) { return pipeline.rules != nullptr; });
  counts_verdicts_.store(counts, std::memory_order_relaxed);
  auto next = is_empty ? nullptr : std::make_unique<const Policies>(std::move(policies));
  policies_.store(next.get(), std::memory_order_seq_cst);
  for (const Reader* reader : readers) reader->wait();
  owned_ = std::move(next);
}

void AlertRules::count_verdict(const Policies& policies, const xg_metadata& metadata, u32 verdict,
                               std::size_t worker) noexcept {
  const u32 stage = XG_VERDICT_STAGE(verdict), rule = XG_VERDICT_RULE(verdict);
  const Pipeline* const pipeline = find(policies, metadata.generation, metadata.pipeline);
  if (pipeline == nullptr || !pipeline->decided || (pipeline->counted >> stage & 1) == 0 ||
      rule >= kCountedRules)
    return;
  pipeline->decided->add(worker, decided_at(stage, rule));
}

const AlertRules::Pipeline* AlertRules::find(const Policies& policies, u32 generation,
                                             u16 pipeline) noexcept {
  const auto of = std::find_if(policies.rbegin(), policies.rend(),
                               [&](const Policy& policy) { return policy.generation == generation; });
  return of == policies.rend() || pipeline >= of->pipelines.size() ? nullptr : &of->pipelines[pipeline];
}

bool AlertRules::has_bits(const RuleHead& rule, const Ends& ends, u64 now_ns) noexcept {
  if (rule.bits.empty()) return true;
  if (!bits_.hold(rule.bits, ends, now_ns)) return false;
  bits_.change(rule.bits, ends, now_ns);
  return true;
}

Match AlertRules::match(const Pipeline& pipeline, const RuleHead& rule, const Ends& ends, u64 now_ns,
                        bool& is_untold) noexcept {
  const auto how = pipeline.suppressed ? suppressed(*pipeline.suppressed, rule, ends) : Suppressed::no;
  is_untold = how == Suppressed::untold;
  if (how == Suppressed::silent) return Match::silent;
  return rule.limit.type == AlertLimit::Type::none ? Match::told : counts_.count(rule, ends, now_ns);
}

AlertRules::Decided AlertRules::decide(const Pipeline& pipeline, const xg_alerts& hold, const Ends& ends,
                                       u64 now_ns, std::size_t worker, Rests rests) noexcept {
  Decided decided;
  decided.told.connection = hold.connection;
  const u32 count = named(hold);
  const std::size_t all = pipeline.rules ? pipeline.rules->size() : 0;
  bool all_late = count != 0, may_drop = false, may_pass = false, has_passed = false;
  for (u32 i = 0; i < count; i++) {
    const u16 number = hold.rules[i];
    if (number >= all) {
      all_late = false;
      if (!has_passed) decided.told.rules[decided.told.count++] = number;
      continue;
    }
    const RuleHead& rule = (*pipeline.rules)[number];
    all_late = all_late && rule.late;
    const bool passes = rule.action == gpu::signatures::Action::pass;
    if (rule.late && (rests.unasked >> i & 1) != 0) (passes ? may_pass : may_drop) = true;
    if (((rests.refused | rests.unasked) >> i & 1) != 0) continue;
    if (!has_bits(rule, ends, now_ns) || has_passed) continue;
    if (pipeline.matches) pipeline.matches->add(worker, number);
    bool is_untold = false;
    const Match what = match(pipeline, rule, ends, now_ns, is_untold);
    // What is silent does not pass, other than it drops.
    if (passes) {
      has_passed = what == Match::told;
      continue;
    }
    if (what != Match::nothing && rule.action != gpu::signatures::Action::alert) {
      if (decided.drops == 0) decided.drops = number + 1u;
      if (pipeline.answers) decided.rejects |= rejects_of(rule.action);
    }
    if (rule.noalert) continue;
    if (what == Match::told && !is_untold)
      decided.told.rules[decided.told.count++] = number;
    else
      decided.limited++;
  }
  if (has_passed) return decided;
  // Behind those that are all late there may be one that drops it, if there is one.
  if (all_late && hold.count & XG_ALERTS_MORE && hold.rules[count - 1] + 1u < pipeline.drops_end)
    may_drop = true;
  if (decided.drops == 0 && may_drop && pipeline.limit_drops) decided.drops = static_cast<u32>(all) + 1;
  if (may_pass && !pipeline.limit_drops) decided.drops = decided.rejects = 0;
  if (decided.told.count != 0) decided.told.count |= hold.count & XG_ALERTS_MORE;
  return decided;
}

bool AlertRules::asks(const Pipeline& pipeline, const xg_alerts& hold, u32 at) noexcept {
  const u16 rule = hold.rules[at];
  return pipeline.rules && rule < pipeline.rules->size() && (*pipeline.rules)[rule].rest != nullptr;
}

u32 AlertRules::asking(const Pipeline& pipeline, const xg_alerts& hold) noexcept {
  u32 all = 0;
  const u32 count = named(hold);
  for (u32 i = 0; i < count; i++)
    if (asks(pipeline, hold, i)) all |= 1u << i;
  return all;
}

bool AlertRules::asks(const Pipeline& pipeline, const xg_alerts& hold) noexcept {
  return asking(pipeline, hold) != 0;
}

}  // namespace xdpgpu::dataplane
