// SPDX-License-Identifier: MIT
#include "gpu/stages/compiler.hpp"

#include <bit>
#include <utility>

#include "gpu/stages/table.h"

namespace xdpgpu::gpu {

Check check_target(bool used, u32 target) {
  if (used && target >= XG_MAX_PORTS)
    return refuse("target port {} is out of range: a verdict names ports 0 to {}", target, XG_MAX_PORTS - 1);
  return {};
}

Check check_prefix(const Prefix& prefix) {
  if (prefix.family != 4 && prefix.family != 6)
    return refuse("address family {} is not 4 or 6", prefix.family);
  if (const u32 most = prefix.family == 4 ? 32 : 128; prefix.length > most)
    return refuse("prefix length {} is more than {}", prefix.length, most);
  return {};
}

Check check_prefixes(const std::vector<Prefix>& prefixes) {
  for (const Prefix& prefix : prefixes)
    if (auto checked = check_prefix(prefix); !checked) return checked;
  return {};
}

void Compiled::rewritten(const std::vector<u32>& words, const xg_rewrite& rewrite, std::string backend) {
  for (const u32 word : words) rewrite_words.push_back({word, static_cast<u32>(rewrites.size())});
  rewrites.push_back(rewrite);
  backends.push_back(std::move(backend));
}

void append64(std::vector<u32>& image, u64 value) {
  image.insert(image.end(), {static_cast<u32>(value), static_cast<u32>(value >> 32)});
}

u32 append_stateful(const TableSettings& table, const std::array<u64, 2>& hash_key, std::vector<u32>& image) {
  const u32 at = static_cast<u32>(image.size());
  const u32 sets = std::bit_ceil((table.entries + XG_WAYS - 1) / XG_WAYS);
  image.insert(image.end(), {0, 0, 0, 0, sets, static_cast<u32>(table.evict)});
  for (const u64 key : hash_key) append64(image, key);
  static_assert(static_cast<u32>(TableSettings::Evict::refuse) == XG_EVICT_REFUSE);
  return at;
}

u32 action_word(Action action, u32 target, u32 rule) {
  switch (action) {
    case Action::next:
      return XG_NEXT;
    case Action::drop:
    case Action::refuse:
      return XG_VERDICT(XG_DROP, 0u, 0u, rule);
    case Action::pass:
      return XG_VERDICT(XG_PASS, 0u, 0u, rule);
    case Action::tx:
      return XG_VERDICT(XG_TX, 0u, 0u, rule);
    case Action::redirect:
      return XG_VERDICT(XG_REDIRECT, target, 0u, rule);
  }
  return XG_ABORTED;
}

}  // namespace xdpgpu::gpu
