// SPDX-License-Identifier: MIT
//
// DPDK's packet classification.
#include <rte_acl.h>

#include "bench/stages/acl_cases.hpp"
#include "bench/stages/dpdk.hpp"

namespace xdpgpu::bench {
namespace {

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
  const std::string name = dpdk_name();
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
  const xg_metadata metadata = metadata_of(frame);
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
  in_bursts(
      base, frames, [&](const u8* frame, u32 i) { keys[i] = key_of(frame); },
      [&](std::size_t first, u32 count) {
        rte_acl_classify(context, data.data(), answers + first, count, 1);
      });
}

}  // namespace

Peer rte_acl_peer(std::shared_ptr<const std::vector<PlainRule>> rules) {
  Peer peer;
  peer.prepare = [rules]() -> gpu::Result<Peer::Decide> {
    if (auto started = start_dpdk(); !started) return tl::unexpected(started.error());
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
