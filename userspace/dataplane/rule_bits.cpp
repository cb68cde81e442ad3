// SPDX-License-Identifier: MIT
#include "userspace/dataplane/rule_bits.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "maps/hash.h"
#include "maps/packet.h"
#include "userspace/dataplane/exchange.hpp"
#include "userspace/dataplane/random_key.hpp"

namespace xdpgpu::dataplane {
namespace {

using gpu::signatures::Address;
using On = gpu::RuleBits::On;
using What = gpu::RuleBits::What;

constexpr u64 kSecond = 1'000'000'000;

}  // namespace

RuleBits::RuleBits() : key_(random_key()), sets_(std::make_unique<Set[]>(kEntries / kWays)) {}

u64 RuleBits::hash(const gpu::RuleBits& bits, u64 name, const Ends& ends) const noexcept {
  XG_SIP_BEGIN(key_[0], key_[1]);
  const auto add = [&](const Address& address) {
    u64 words[2];
    std::memcpy(words, address.data(), sizeof(words));
    XG_SIP_WORD(words[0]);
    XG_SIP_WORD(words[1]);
  };
  XG_SIP_WORD(name);
  // The lower end first: both directions are one.
  auto lower = std::pair(ends.src, ends.src_port), upper = std::pair(ends.dst, ends.dst_port);
  if (upper < lower) std::swap(lower, upper);
  const auto kind = bits.on == On::destination ? On::source : bits.on;
  XG_SIP_WORD(static_cast<u64>(kind) | u64{ends.version} << 8);
  switch (bits.on) {
    case On::source:
      add(ends.src);
      break;
    case On::destination:
      add(ends.dst);
      break;
    case On::pair:
    case On::connection:
      add(lower.first);
      add(upper.first);
      break;
  }
  if (bits.on == On::connection) {
    XG_SIP_WORD(ends.protocol | u64{lower.second} << 8 | u64{upper.second} << 24 |
                u64{ends.connection & XG_CONNECTION_BIRTH} << 35);
  }
  XG_SIP_END();
  return v0 ^ v1 ^ v2 ^ v3;
}

bool RuleBits::is_set(u64 found, u64 now_s) noexcept {
  const u64 tag = found | 1;
  for (auto& entry : sets_[(found >> 1) % (kEntries / kWays)].ways) {
    const Wide one = load(entry);
    if (static_cast<u64>(one) != tag) continue;
    if (static_cast<u64>(one >> 64) >= now_s) return true;
    exchange(entry, one, 0);
    return false;
  }
  return false;
}

void RuleBits::put(u64 found, const gpu::RuleBits& bits, u64 now_s) noexcept {
  const u64 tag = found | 1;
  const bool of_connection = bits.on == On::connection;
  const u64 until_s = now_s + (of_connection ? kConnectionSeconds : bits.seconds);
  auto& set = sets_[(found >> 1) % (kEntries / kWays)].ways;
  for (;;) {
    u32 at = 0;
    Wide seen = 0;
    bool is_known = false;
    for (u32 i = 0; i < kWays && !is_known; i++) {
      const Wide entry = load(set[i]);
      is_known = static_cast<u64>(entry) == tag;
      // The rule's own; or the one that ends first, of which an empty one is the first.
      if (i != 0 && !is_known && entry >> 64 >= seen >> 64) continue;
      at = i;
      seen = entry;
    }
    const bool becomes_on = bits.what == What::set || (bits.what == What::toggle && !is_known);
    if (is_known ? bits.what == What::set && !of_connection : !becomes_on) return;
    const Wide next = becomes_on ? Wide{until_s} << 64 | tag : Wide{0};
    // A flood of the same only reads.
    if (next == seen) return;
    const bool lives = static_cast<u64>(seen >> 64) >= now_s && static_cast<u64>(seen) != 0;
    if (!exchange(set[at], seen, next)) continue;
    if (lives && !is_known) forgotten_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
}

bool RuleBits::hold(std::span<const gpu::RuleBits> bits, const Ends& ends, u64 now_ns) noexcept {
  return std::all_of(bits.begin(), bits.end(), [&](const gpu::RuleBits& one) {
    if (!one.asks()) return true;
    if (one.on == On::connection && (ends.connection & XG_CONNECTION_HAS) == 0) return false;
    return std::any_of(one.names.begin(), one.names.end(), [&](u64 name) {
      return is_set(hash(one, name, ends), now_ns / kSecond) == (one.what == What::is_set);
    });
  });
}

void RuleBits::change(std::span<const gpu::RuleBits> bits, const Ends& ends, u64 now_ns) noexcept {
  const u64 now_s = now_ns / kSecond;
  for (const gpu::RuleBits& one : bits) {
    if (one.asks() || one.names.empty()) continue;
    if (one.on == On::connection && (ends.connection & XG_CONNECTION_HAS) == 0) continue;
    put(hash(one, one.names[0], ends), one, now_s);
  }
}

}  // namespace xdpgpu::dataplane
