// SPDX-License-Identifier: MIT
//
// DPDK's packet classification on one core. As an application would, it takes each packet's fields from the
// frame to where the library wants them, and has a burst of packets classified at once.
#include <fmt/format.h>
#include <rte_acl.h>
#include <rte_eal.h>
#include <rte_errno.h>

#include <cstring>

#include "bench/stages/acl_cases.hpp"
#include "maps/packet.h"

namespace xdpgpu::bench {
namespace {

constexpr u32 kBurst = 64;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of its tables

struct Key {
  u8 protocol;
  u8 reserved[3];
  u32 src, dst;            // network order
  u16 src_port, dst_port;  // likewise
  u8 tcp_flags;
  u8 reserved2;
  u16 vlan;  // network order
};
static_assert(sizeof(Key) == 20);

constexpr u32 kFields = 8;
RTE_ACL_RULE_DEF(Rule, kFields);

constexpr rte_acl_field_def field(u8 type, u8 size, u8 index, u8 input, std::size_t offset) {
  return {type, size, index, input, static_cast<uint32_t>(offset)};
}
// Groups of four bytes, behind one of one byte.
constexpr std::array<rte_acl_field_def, kFields> kDefinition{
    field(RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, offsetof(Key, protocol)),
    field(RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, offsetof(Key, src)),
    field(RTE_ACL_FIELD_TYPE_MASK, 4, 2, 2, offsetof(Key, dst)),
    field(RTE_ACL_FIELD_TYPE_RANGE, 2, 3, 3, offsetof(Key, src_port)),
    field(RTE_ACL_FIELD_TYPE_RANGE, 2, 4, 3, offsetof(Key, dst_port)),
    field(RTE_ACL_FIELD_TYPE_BITMASK, 1, 5, 4, offsetof(Key, tcp_flags)),
    field(RTE_ACL_FIELD_TYPE_BITMASK, 1, 6, 4, offsetof(Key, reserved2)),
    field(RTE_ACL_FIELD_TYPE_BITMASK, 2, 7, 4, offsetof(Key, vlan))};

bool start_dpdk() {
  static const bool started = [] {
    std::vector<std::string> words{"bench-stages", "--no-huge", "--no-pci",   "--no-telemetry",
                                   "-l",           "0",         "-m",         "4096",
                                   "--log-level",  "1",         "--no-shconf"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    return rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) >= 0;
  }();
  return started;
}

struct Free {
  void operator()(rte_acl_ctx* context) const { rte_acl_free(context); }
};
using Context = std::unique_ptr<rte_acl_ctx, Free>;

Rule rule_of(const PlainRule& from, u32 number, u32 count) {
  Rule rule{};
  rule.data.category_mask = 1;
  rule.data.priority = static_cast<int32_t>(count - number);
  rule.data.userdata = number + 1;
  const auto prefix_length = [](u32 mask) { return static_cast<u32>(__builtin_popcount(mask)); };
  rule.field[0].value.u8 = from.protocol, rule.field[0].mask_range.u8 = from.protocol_mask;
  rule.field[1].value.u32 = from.src, rule.field[1].mask_range.u32 = prefix_length(from.src_mask);
  rule.field[2].value.u32 = from.dst, rule.field[2].mask_range.u32 = prefix_length(from.dst_mask);
  rule.field[3].value.u16 = from.src_first, rule.field[3].mask_range.u16 = from.src_last;
  rule.field[4].value.u16 = from.dst_first, rule.field[4].mask_range.u16 = from.dst_last;
  rule.field[5].value.u8 = from.flags, rule.field[5].mask_range.u8 = from.flags_mask;
  rule.field[7].value.u16 = from.vlan, rule.field[7].mask_range.u16 = from.vlan_mask;
  return rule;
}

gpu::Result<Context> build(const std::vector<PlainRule>& rules) {
  static u32 made = 0;
  const std::string name = fmt::format("bench{}", made++);
  rte_acl_param parameters{};
  parameters.name = name.c_str();
  parameters.socket_id = SOCKET_ID_ANY;
  parameters.rule_size = RTE_ACL_RULE_SZ(kFields);
  parameters.max_rule_num = static_cast<u32>(rules.size());
  Context context(rte_acl_create(&parameters));
  const auto failed = [&](const char* what) {
    return tl::unexpected(
        fmt::format("DPDK could not {} {} rules: {}", what, rules.size(), rte_strerror(rte_errno)));
  };
  if (context == nullptr) return failed("make room for");
  for (u32 i = 0; i < rules.size(); ++i) {
    const Rule rule = rule_of(rules[i], i, static_cast<u32>(rules.size()));
    if (rte_acl_add_rules(context.get(), reinterpret_cast<const rte_acl_rule*>(&rule), 1) != 0)
      return failed("take");
  }
  rte_acl_config config{};
  config.num_categories = 1;
  config.num_fields = kFields;
  config.max_size = kMostBytes;
  std::copy(kDefinition.begin(), kDefinition.end(), config.defs);
  if (const int result = rte_acl_build(context.get(), &config); result != 0)
    return tl::unexpected(fmt::format("DPDK could not build tables of {} rules in {} MiB: {}", rules.size(),
                                      kMostBytes >> 20, rte_strerror(-result)));
  return context;
}

Key key_of(const u8* frame) {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - sizeof(metadata), sizeof(metadata));
  Key key{};
  key.protocol = metadata.protocol;
  std::memcpy(&key.src, frame + metadata.l3_offset + 12, 8);
  std::memcpy(&key.src_port, frame + metadata.l4_offset, 4);
  if ((metadata.flags & XG_PKT_TCP) != 0) key.tcp_flags = frame[metadata.l4_offset + 13];
  if ((metadata.flags & XG_PKT_VLAN) != 0) std::memcpy(&key.vlan, frame + 14, 2);
  return key;
}

void classify(const rte_acl_ctx* context, const u8* base, std::span<const xg_descriptor> frames,
              u32* answers) {
  std::array<Key, kBurst> keys;
  std::array<const u8*, kBurst> data;
  for (u32 i = 0; i < kBurst; ++i) data[i] = reinterpret_cast<const u8*>(&keys[i]);
  for (std::size_t first = 0; first < frames.size(); first += kBurst) {
    const u32 count = static_cast<u32>(std::min<std::size_t>(kBurst, frames.size() - first));
    for (u32 i = 0; i < count; ++i) {
      if (first + i + kBurst < frames.size())
        __builtin_prefetch(base + frames[first + i + kBurst].offset - XG_METADATA_SIZE);
      keys[i] = key_of(base + frames[first + i].offset);
    }
    rte_acl_classify(context, data.data(), answers + first, count, 1);
  }
}

}  // namespace

Peer rte_acl_peer(std::shared_ptr<const std::vector<PlainRule>> rules) {
  Peer peer;
  peer.prepare = [rules]() -> gpu::Result<Peer::Decide> {
    if (!start_dpdk()) return tl::unexpected(fmt::format("DPDK does not start: {}", rte_strerror(rte_errno)));
    auto context = build(*rules);
    if (!context) return tl::unexpected(context.error());
    return [kept = std::shared_ptr<rte_acl_ctx>(std::move(*context))](
               const u8* base, std::span<const xg_descriptor> frames, u32* answers) {
      classify(kept.get(), base, frames, answers);
    };
  };
  return peer;
}

}  // namespace xdpgpu::bench
