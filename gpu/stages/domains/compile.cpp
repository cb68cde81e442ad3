// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/domain_names.hpp"
#include "gpu/stages/compilers.hpp"
#include "gpu/stages/domains/device.h"
#include "gpu/stages/domains/names.hpp"

namespace xdpgpu::gpu {
namespace {

bool drops_any(const DomainsSettings& stage) {
  return std::any_of(stage.lists.begin(), stage.lists.end(), [](const DomainList& list) {
    return list.action == Action::drop || list.action == Action::refuse;
  });
}

}  // namespace

Result<Placed> emit(const DomainsSettings& stage, Compiled& to) {
  u64 names = 0;
  for (const DomainList& list : stage.lists) names += list.names.count;
  const u64 slots = hashed_slots(names);
  const u64 words = slots * XG_HASHED_SLOT + 2 * stage.lists.size() + stage.ports.size() + XG_DOMAINS_WORDS;
  if (words > kImageMaxWords)
    return refuse("its {} names need {} MiB of a device's memory, {} are possible: use fewer", names,
                  words >> 18, kImageMaxWords >> 18);
  std::vector<u32>& image = to.image;
  image.reserve(words);
  image.resize(slots * XG_HASHED_SLOT, 0);
  domains::TableWriter table(image, 0, static_cast<u32>(slots), to.hash_key);
  u32 deepest = 0;
  for (u32 i = 0; i < stage.lists.size(); i++)
    each_name(stage.lists[i].names, [&](const DomainEntry& entry) {
      table.add(entry, i + 1);
      deepest = std::max(deepest, labels_of(entry.name));
    });
  table.finish();
  const auto lists = static_cast<u32>(stage.lists.size());
  const u32 at = to.here();
  image.insert(image.end(), {0, 0, 0});
  for (const u64 key : to.hash_key) append64(image, key);
  image.insert(image.end(), {static_cast<u32>(stage.ports.size()), 0, action_word(stage.otherwise, 0, 0),
                             action_word(stage.malformed, 0, lists + 1), action_word(stage.tcp, 0, lists + 2),
                             0, deepest, static_cast<u32>(slots), 0});
  to.points(at + XG_DOMAINS_TABLE);
  to.point_here(at + XG_DOMAINS_PORTS + 1);
  for (const PortRange& range : stage.ports) image.push_back(range.first | u32{range.last} << 16);
  to.point_here(at + XG_DOMAINS_ACTIONS);
  for (u32 i = 0; i < lists; i++)
    image.insert(image.end(), {action_word(stage.lists[i].action, stage.lists[i].target, i + 1),
                               stage.lists[i].action == Action::refuse ? XG_RES_REFUSED : 0u});
  return Placed{at};
}

u32 payload_bytes(const DomainsSettings&) { return XG_DOMAINS_REACH; }

std::optional<std::string> sends(const DomainsSettings& stage) {
  const auto list = std::find_if(stage.lists.begin(), stage.lists.end(),
                                 [](const DomainList& one) { return sends(one.action); });
  if (list == stage.lists.end()) return std::nullopt;
  return fmt::format("list \"{}\"", list->name);
}

bool drops(const DomainsSettings& stage) {
  return drops_any(stage) || stage.otherwise == Action::drop || stage.malformed == Action::drop ||
         stage.tcp == Action::drop;
}

void settle(DomainsSettings& stage, const Written& written) { refuse_twice(stage.lists, written); }

std::string describe(const DomainsSettings& stage, u32 rule, const xg_result*) {
  if (rule == 0) return " otherwise";
  if (rule <= stage.lists.size()) return fmt::format(" list {}", stage.lists[rule - 1].name);
  return rule == stage.lists.size() + 1 ? " malformed" : " tcp";
}

}  // namespace xdpgpu::gpu
