// SPDX-License-Identifier: MIT
#include "userspace/policy/caching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "userspace/policy/table_stages.hpp"

namespace xdpgpu::policy {
namespace {

constexpr std::size_t kMostCompared = 512;  // prefixes of one side
constexpr u8 kTcp = 6;

bool overlap(const Prefix& a, const Prefix& b) {
  if (a.family != b.family) return false;
  const u32 bits = std::min(a.length, b.length), bytes = bits / 8, rest = bits % 8;
  if (std::memcmp(a.address, b.address, bytes) != 0) return false;
  return rest == 0 || ((a.address[bytes] ^ b.address[bytes]) >> (8 - rest)) == 0;
}

bool overlap(const PortRange& a, const PortRange& b) { return a.first <= b.last && b.first <= a.last; }
bool overlap(const VlanRange& a, const VlanRange& b) { return a.first <= b.last && b.first <= a.last; }

template <class T>
bool any_overlap(const std::vector<T>& a, const std::vector<T>& b) {
  return std::any_of(a.begin(), a.end(), [&](const T& one) {
    return std::any_of(b.begin(), b.end(), [&](const T& other) { return overlap(one, other); });
  });
}

template <class T>
bool any_common(const std::vector<T>& a, const std::vector<T>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const T& one) { return std::find(b.begin(), b.end(), one) != b.end(); });
}

// The prefixes of one side of a match; nothing where there are too many to compare.
std::optional<std::vector<Prefix>> prefixes_of(const Policy& policy, const std::vector<Prefix>& written,
                                               const std::vector<std::string>& lists) {
  std::vector<Prefix> all = written;
  for (const auto& name : lists) {
    const auto list = policy.lists.find(name);
    if (list == policy.lists.end()) continue;
    if (all.size() + list->second.prefixes.size() > kMostCompared) return std::nullopt;
    all.insert(all.end(), list->second.prefixes.begin(), list->second.prefixes.end());
  }
  return all;
}

bool addresses_overlap(const Policy& policy, const std::vector<Prefix>& a,
                       const std::vector<std::string>& a_lists, const std::vector<Prefix>& b,
                       const std::vector<std::string>& b_lists) {
  if ((a.empty() && a_lists.empty()) || (b.empty() && b_lists.empty())) return true;
  const auto left = prefixes_of(policy, a, a_lists), right = prefixes_of(policy, b, b_lists);
  return !left || !right || any_overlap(*left, *right);
}

std::vector<u8> protocols_of(const Match& match) {
  return match.tcp_flags_mask ? std::vector<u8>{kTcp} : match.protocols;
}

bool matches_flags(const Match& match, u8 flags) {
  return !match.tcp_flags_mask || (flags & *match.tcp_flags_mask) == match.tcp_flags_value;
}
bool matches_ordinary(const Match& match) { return matches_flags(match, kOrdinaryTcpFlags); }

// Whether `found` says true of one of the rules of the pipeline's stages that ask for TCP flags.
template <class F>
bool any_flags_rule(const Pipeline& pipeline, F&& found) {
  for (u64 i = 0; i < pipeline.stages.size(); ++i)
    for (const gpu::StageRule& rule : gpu::rules_of(pipeline.stages[i]))
      if (rule.conditions.tcp_flags && found(i, rule)) return true;
  return false;
}
bool matches_flags(const gpu::TcpFlags& asked, u8 flags) { return (flags & asked.mask) == asked.value; }

}  // namespace

bool may_both_match(const Policy& policy, const Match& a, const Match& b) {
  if (a.family && b.family && *a.family != *b.family) return false;
  const auto one = protocols_of(a), other = protocols_of(b);
  if (!one.empty() && !other.empty() && !any_common(one, other)) return false;
  if (!a.vlans.empty() && !b.vlans.empty() && !any_overlap(a.vlans, b.vlans)) return false;
  if (!a.src_ports.empty() && !b.src_ports.empty() && !any_overlap(a.src_ports, b.src_ports)) return false;
  if (!a.dst_ports.empty() && !b.dst_ports.empty() && !any_overlap(a.dst_ports, b.dst_ports)) return false;
  return addresses_overlap(policy, a.src, a.src_lists, b.src, b.src_lists) &&
         addresses_overlap(policy, a.dst, a.dst_lists, b.dst, b.dst_lists);
}

bool caches(const Pipeline& pipeline) {
  return std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                     [](const Stage& stage) { return gpu::cache_of(stage).has_value(); });
}

std::optional<std::string> flags_asked_in(const Pipeline& pipeline) {
  std::optional<std::string> where;
  any_flags_rule(pipeline, [&](u64 stage, const gpu::StageRule& rule) {
    where = fmt::format("{}, rule \"{}\"", stage_text(pipeline, stage), rule.name);
    return true;
  });
  return where;
}

bool stages_tell_apart(const Policy& policy, u8 flags) {
  return std::any_of(policy.pipelines.begin(), policy.pipelines.end(), [&](const Pipeline& pipeline) {
    return caches(pipeline) && any_flags_rule(pipeline, [&](u64, const gpu::StageRule& rule) {
             return matches_flags(*rule.conditions.tcp_flags, flags) !=
                    matches_flags(*rule.conditions.tcp_flags, kOrdinaryTcpFlags);
           });
  });
}

std::optional<u32> watcher_ahead_of_cache(const Policy& policy, u32 rule) {
  const Match& match = policy.rules[rule].match;
  if (!matches_ordinary(match)) return std::nullopt;  // its packets are not cached
  for (u32 i = 0; i < rule; ++i) {
    const Rule& ahead = policy.rules[i];
    const bool watches = ahead.action == Rule::Action::limit || ahead.action == Rule::Action::mirror;
    if (watches && matches_ordinary(ahead.match) && may_both_match(policy, ahead.match, match)) return i;
  }
  return std::nullopt;
}

}  // namespace xdpgpu::policy
