// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/bits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "maps/hash.h"

namespace xdpgpu::rules {
namespace {

using gpu::RuleBits;
using On = RuleBits::On;
using What = RuleBits::What;

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

}  // namespace

RuleBits bits_of(const Bits& bits) {
  constexpr u32 kXbits = 30, kHostbits = 300;  // Suricata's own, where none is said
  RuleBits made;
  switch (bits.what) {
    case Bits::Do::set:
      made.what = What::set;
      break;
    case Bits::Do::unset:
      made.what = What::unset;
      break;
    case Bits::Do::toggle:
      made.what = What::toggle;
      break;
    case Bits::Do::is_not_set:
      made.what = What::is_not_set;
      break;
    case Bits::Do::is_set:
    case Bits::Do::no_alert:
      break;
  }
  switch (bits.of) {
    case Bits::Of::flow:
      break;
    case Bits::Of::src:
      made.on = On::source;
      break;
    case Bits::Of::dst:
      made.on = On::destination;
      break;
    case Bits::Of::pair:
      made.on = On::pair;
      break;
  }
  for (const auto& name : bits.names) made.names.push_back(hash_of(name));
  const u32 usual = bits.is_hostbits ? kHostbits : kXbits;
  if (made.on != On::connection) made.seconds = bits.seconds != 0 ? bits.seconds : usual;
  return made;
}

std::optional<std::string> not_followed(gpu::signatures::Action action, std::span<const RuleBits> bits) {
  using Does = gpu::signatures::Action;
  if (bits.empty() || action == Does::alert) return {};
  if (action == Does::pass) return "whether it passes what it sets bits of is not known in time";
  if (std::any_of(bits.begin(), bits.end(), [](const RuleBits& one) { return one.asks(); }))
    return "a bit would decide what it drops";
  return {};
}

void settle_bits(std::span<const Rule> rules, std::span<Lowered> lowered) {
  using Bit = std::pair<u32, u64>;
  // Of each bit, a rule that changes it and is not decided.
  std::map<Bit, const Rule*> open;
  const auto add = [&](const Rule& rule) {
    for (const Condition& condition : rule.conditions) {
      const auto* const bits = std::get_if<Bits>(&condition.value);
      if (bits == nullptr || bits->what == Bits::Do::no_alert) continue;
      const RuleBits one = bits_of(*bits);
      if (!one.asks()) open.emplace(Bit{kind_of(one.on), one.names[0]}, &rule);
    }
  };
  for (std::size_t i = 0; i < rules.size(); i++)
    if (!lowered[i].signature) add(rules[i]);
  if (open.empty()) return;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < rules.size(); i++) {
      if (!lowered[i].signature) continue;
      for (const RuleBits& bits : lowered[i].bits) {
        if (!bits.asks()) continue;
        const auto by = std::find_if(bits.names.begin(), bits.names.end(), [&](u64 name) {
          return open.contains(Bit{kind_of(bits.on), name});
        });
        if (by == bits.names.end()) continue;
        const Rule& other = *open.at(Bit{kind_of(bits.on), *by});
        Lowered not_decided;
        not_decided.not_yet.push_back(
            {bits.on == On::connection ? "flowbits" : "xbits",
             fmt::format("rule {}:{} changes the bit, and is not decided", other.gid, other.sid)});
        lowered[i] = std::move(not_decided);
        add(rules[i]);
        changed = true;
        break;
      }
    }
  }
}

std::array<u32, 3> order_by_bits(const Rule& rule) {
  std::array<bool, 3> asks{}, changes{};
  for (const Condition& condition : rule.conditions) {
    const auto* const bits = std::get_if<Bits>(&condition.value);
    if (bits == nullptr || bits->what == Bits::Do::no_alert) continue;
    const RuleBits one = bits_of(*bits);
    const u32 kind = kind_of(one.on);
    if (kind != 0 && bits->is_hostbits == one.asks()) continue;
    (one.asks() ? asks : changes)[kind] = true;
  }
  std::array<u32, 3> order{};
  for (u32 kind = 0; kind < order.size(); kind++)
    order[kind] = changes[kind] ? (asks[kind] ? 2 : 3) : asks[kind] ? 1 : 0;
  return order;
}

}  // namespace xdpgpu::rules
