// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/bits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "maps/hash.h"

namespace xdpgpu::rules {
namespace {

using gpu::RuleBits;
using On = RuleBits::On;

// Where a bit's name is the same one.
u32 kind_of(On on) { return on == On::connection ? 0 : on == On::pair ? 2 : 1; }

u64 hash_of(std::string_view name) {
  XG_SIP_BEGIN(u64{0x7864706770755f62}, u64{0x6974735f6e616d65});
  for (std::size_t at = 0; at < name.size(); at += 8) {
    u64 word = 0;
    std::copy_n(name.begin() + static_cast<std::ptrdiff_t>(at), std::min<std::size_t>(8, name.size() - at),
                reinterpret_cast<char*>(&word));
    XG_SIP_WORD(word);
  }
  XG_SIP_WORD(u64{name.size()});
  XG_SIP_END();
  return v0 ^ v1 ^ v2 ^ v3;
}

// What a rule asks of bits, or does to them, and by which keyword.
template <class Visit>
void each_bits(const Rule& rule, const Visit& visit) {
  for (const Condition& condition : rule.conditions)
    if (const auto* const bits = std::get_if<Bits>(&condition.value); bits != nullptr && bits->what)
      visit(condition.keyword->name, bits_of(*bits));
}

}  // namespace

RuleBits bits_of(const Bits& bits) {
  RuleBits made{.what = *bits.what, .on = bits.on, .seconds = bits.seconds};
  for (const auto& name : bits.names) made.names.push_back(hash_of(name));
  return made;
}

void settle_bits(std::span<const Rule> rules, std::span<Lowered> lowered) {
  using Bit = std::pair<u32, u64>;
  struct Asks {
    std::size_t rule;
    std::string_view keyword;
  };
  std::map<Bit, std::vector<Asks>> asked_by;
  for (std::size_t i = 0; i < rules.size(); i++)
    if (lowered[i].signature)
      each_bits(rules[i], [&](std::string_view keyword, const RuleBits& bits) {
        if (bits.asks())
          for (const u64 name : bits.names) asked_by[{kind_of(bits.on), name}].push_back({i, keyword});
      });
  if (asked_by.empty()) return;
  std::vector<std::size_t> open;  // not decided, and looked at
  for (std::size_t i = 0; i < rules.size(); i++)
    if (!lowered[i].signature) open.push_back(i);
  for (std::size_t at = 0; at < open.size(); at++) {
    const Rule& by = rules[open[at]];
    each_bits(by, [&](std::string_view, const RuleBits& bits) {
      if (bits.asks()) return;
      const auto found = asked_by.find({kind_of(bits.on), bits.names[0]});
      if (found == asked_by.end()) return;
      for (const auto& [rule, keyword] : found->second) {
        if (!lowered[rule].signature) continue;
        lowered[rule] = {};
        lowered[rule].not_yet.push_back(
            {std::string(keyword),
             fmt::format("rule {}:{} changes the bit, and is not decided", by.gid, by.sid)});
        open.push_back(rule);
      }
      asked_by.erase(found);
    });
  }
}

std::array<u32, 3> order_by_bits(const Rule& rule) {
  std::array<bool, 3> asks{}, changes{};
  each_bits(rule, [&](std::string_view keyword, const RuleBits& one) {
    const u32 kind = kind_of(one.on);
    if (kind != 0 && (keyword == "hostbits") == one.asks()) return;
    (one.asks() ? asks : changes)[kind] = true;
  });
  std::array<u32, 3> order{};
  for (u32 kind = 0; kind < order.size(); kind++)
    order[kind] = changes[kind] ? (asks[kind] ? 2 : 3) : asks[kind] ? 1 : 0;
  return order;
}

}  // namespace xdpgpu::rules
