// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "gpu/rule_grid.hpp"
#include "maps/flow.h"
#include "userspace/policy/address_classes.hpp"
#include "userspace/policy/caching.hpp"
#include "userspace/policy/diversion.hpp"
#include "userspace/policy/index_classes.hpp"
#include "userspace/policy/policy.hpp"
#include "userspace/policy/rates.hpp"
#include "userspace/policy/stage_names.hpp"
#include "userspace/policy/table_stages.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u8 kTcp = 6, kUdp = 17, kIcmp6 = 58;
constexpr u64 kMaxCells = u64{1} << 20;
constexpr u32 kWorstWords = 8;  // to look into, where the most have to be
constexpr u64 kRulesPerLine = sizeof(xg_line) / sizeof(xg_rule);
constexpr u64 kHeadsPerLine = sizeof(xg_line) / sizeof(xg_class_head);
constexpr u64 kIndexesPerLine = sizeof(xg_line) / sizeof(u16);

constexpr std::array<const char*, XG_DIMS> kDimensionNames{
    "source address", "destination address", "source port", "destination port", "protocol", "VLAN"};

u64 lines_for(u64 count, u64 per_line) { return (count + per_line - 1) / per_line; }

std::vector<IndexRange> port_ranges(const std::vector<PortRange>& ports) {
  std::vector<IndexRange> ranges;
  ranges.reserve(ports.size());
  for (const auto& range : ports) ranges.push_back({range.first, range.last});
  return ranges;
}

std::vector<IndexRange> vlan_ranges(const std::vector<VlanRange>& vlans) {
  std::vector<IndexRange> ranges;
  ranges.reserve(vlans.size());
  for (const auto& range : vlans)
    ranges.push_back(range.first == 0 ? IndexRange{XG_VLAN_NONE, XG_VLAN_NONE}
                                      : IndexRange{range.first, range.last});
  return ranges;
}

bool names(const std::vector<u8>& protocols, u8 protocol) {
  return std::find(protocols.begin(), protocols.end(), protocol) != protocols.end();
}

std::vector<IndexRange> l4_ranges(const Match& match) {
  std::vector<IndexRange> ranges;
  auto one = [&](u32 index) { ranges.push_back({index, index}); };
  const auto& protocols = match.protocols;
  if (!match.control.empty()) {
    for (u32 kind : match.control) {
      bool carried = (kind == XG_CONTROL_ND && names(protocols, kIcmp6)) ||
                     (kind == XG_CONTROL_DHCP && names(protocols, kUdp));
      if (!match.tcp_flags_mask && (protocols.empty() || carried)) one(XG_L4_CONTROL + kind);
    }
  } else if (match.tcp_flags_mask) {
    for (u32 flags = 0; flags < 256; ++flags)
      if ((flags & *match.tcp_flags_mask) == match.tcp_flags_value &&
          (protocols.empty() || names(protocols, kTcp))) {
        one(XG_L4_V4_TCP + flags);
        one(XG_L4_V6_TCP + flags);
      }
  } else {
    for (u32 protocol : protocols) {
      one(XG_L4_V4 + protocol);
      one(XG_L4_V6 + protocol);
      if (protocol == kTcp) {
        ranges.push_back({XG_L4_V4_TCP, XG_L4_V4_TCP + 255});
        ranges.push_back({XG_L4_V6_TCP, XG_L4_V6_TCP + 255});
      }
      if (protocol == kIcmp6) one(XG_L4_CONTROL + XG_CONTROL_ND);
      if (protocol == kUdp) one(XG_L4_CONTROL + XG_CONTROL_DHCP);
    }
  }
  return ranges;
}

const std::vector<Prefix>& all_addresses(u8 family) {
  static const std::vector<Prefix> v4{Prefix{4, 0, {}}}, v6{Prefix{6, 0, {}}};
  return family == 4 ? v4 : v6;
}

class Compiler {
 public:
  Compiler(const Policy& policy, std::span<const std::string> ports)
      : policy_(policy),
        ports_(ports),
        diversions_(diversions_of(policy)),
        src_(policy.lists),
        dst_(policy.lists),
        src_port_(XG_PORT_INDEXES),
        dst_port_(XG_PORT_INDEXES),
        l4_(XG_L4_INDEXES),
        vlan_(XG_VLAN_INDEXES) {}

  Result<Tables> run() {
    u64 count = policy_.rules.size() + 2 * policy_.management.size();
    if (count > XG_MAX_RULES)
      return refuse(
          "/rules",
          fmt::format(
              "a policy has room for {} rules; here are {}, and {} management entries that count twice",
              XG_MAX_RULES, policy_.rules.size(), policy_.management.size()));
    if (const auto limits = rules_that(Rule::Action::limit); limits > XG_MAX_LIMIT_RULES)
      return refuse("/rules",
                    fmt::format("a policy has room for {} limits, here are {}", XG_MAX_LIMIT_RULES, limits));
    if (const auto mirrors = rules_that(Rule::Action::mirror); mirrors > XG_MAX_MIRROR_RULES)
      return refuse("/rules", fmt::format("a policy has room for {} rules that mirror, here are {}",
                                          XG_MAX_MIRROR_RULES, mirrors));
    add_rules();
    if (auto added = add_diversions(); !added) return tl::unexpected(std::move(added.error()));
    src_.build(0);
    dst_.build(src_.low_count());
    for (IndexClasses* index : {&src_port_, &dst_port_, &l4_, &vlan_}) index->build();
    for (u32 d = 0; d < XG_DIMS; ++d)
      if (dimensions_[d]->full())
        return refuse("/rules",
                      fmt::format("the rules tell more than {} kinds of {} apart; let lists or wider ranges "
                                  "take the place of some rules",
                                  kMaxClasses, kDimensionNames[d]));
    if (u64{src_.low_count()} + dst_.low_count() > XG_LPM_LOW)
      return refuse("/lists",
                    fmt::format("IPv6 prefixes longer than 64 bits stand in more than {} networks of 64 bits",
                                XG_LPM_LOW));
    write();
    return std::move(tables_);
  }

 private:
  std::ptrdiff_t rules_that(Rule::Action action) const {
    return std::count_if(policy_.rules.begin(), policy_.rules.end(),
                         [&](const Rule& rule) { return rule.action == action; });
  }
  static tl::unexpected<Diagnostics> refuse(std::string pointer, std::string message) {
    return tl::unexpected(Diagnostics{{"", std::move(pointer), 0, 0, std::move(message)}});
  }

  void add_rules() {
    auto& header = tables_.header;
    for (u32 i = 0; i < policy_.management.size(); ++i) {
      for (bool reverse : {false, true}) {
        add_match(static_cast<u32>(rules_.size()), policy_.management[i], reverse);
        add_rule({.action = static_cast<u8>(reverse ? XG_RULE_ANSWER : XG_RULE_MANAGEMENT),
                  .limit_per = 0,
                  .pipeline = 0,
                  .number = i,
                  .interval_ns = 0,
                  .burst_ns = 0,
                  .kept_since = 0,
                  .reserve = 0,
                  .divert_port = 0,
                  .divert_word = 0,
                  .divert_words = 0},
                 fmt::format("management {}{}", i + 1, reverse ? " (replies)" : ""));
      }
    }
    header.management_count = static_cast<u32>(rules_.size());
    for (const Rule& rule : policy_.rules)
      if (rule.action == Rule::Action::inspect) most_important_ = std::max(most_important_, rule.priority);
    for (u32 i = 0; i < policy_.rules.size(); ++i) {
      const Rule& rule = policy_.rules[i];
      add_match(static_cast<u32>(rules_.size()), rule.match, false);
      for (u32 kind : rule.match.control) header.control_named |= 1u << kind;
      add_rule(compiled(rule, i), rule.name);
    }
    header.rule_count = static_cast<u32>(rules_.size());
  }
  void add_rule(const xg_rule& rule, std::string name) {
    rules_.push_back(rule);
    tables_.rule_names.push_back(std::move(name));
  }
  xg_rule compiled(const Rule& rule, u32 number) const {
    xg_rule out{};
    out.number = number;
    switch (rule.action) {
      case Rule::Action::pass:
        out.action = XG_RULE_PASS;
        break;
      case Rule::Action::drop:
        out.action = XG_RULE_DROP;
        break;
      case Rule::Action::inspect:
        out.action = XG_RULE_INSPECT;
        out.pipeline = number_of(rule.pipeline);
        out.reserve = static_cast<u8>(most_important_ - rule.priority);
        break;
      case Rule::Action::mirror:
        out.action = XG_RULE_MIRROR;
        out.pipeline = number_of(rule.pipeline);
        break;
      case Rule::Action::limit: {
        out.action = XG_RULE_LIMIT;
        out.limit_per = static_cast<u8>(rule.limit.per);
        const xg_rate rate = compiled_rate({rule.limit.pps, rule.limit.burst});
        out.interval_ns = rate.interval_ns;
        out.burst_ns = rate.burst_ns;
        break;
      }
    }
    return out;
  }

  u16 number_of(const std::string& pipeline) const {
    const auto at = std::find_if(policy_.pipelines.begin(), policy_.pipelines.end(),
                                 [&](const Pipeline& p) { return p.name == pipeline; });
    return static_cast<u16>(at - policy_.pipelines.begin());
  }

  // What the rules that inspect divert, behind all rules, each pipeline's from a word on.
  Result<void> add_diversions() {
    compiled_ = static_cast<u32>(rules_.size());
    for (const Diversion& one : diversions_) {
      if (one.conditions.empty()) continue;
      const u64 words = lines_for(one.conditions.size(), 64);
      const u32 first = (compiled_ + 63) / 64;
      if (words > XG_DIVERT_WORDS || first + words > XG_RULE_WORDS)
        return refuse(
            fmt::format("/pipelines{}", pointer_token(policy_.pipelines[one.pipeline].name)),
            fmt::format(
                "the rules that are not decided here name {} kinds of addresses, ports and protocols "
                "apart; there is room for {} of them to be sent to {}: disable some of these rules, or take "
                "\"on_unsupported\" out",
                one.conditions.size(),
                std::min<u64>(XG_DIVERT_WORDS, XG_RULE_WORDS - std::min(first, XG_RULE_WORDS)) * 64, one.to));
      for (std::size_t i = 0; i < one.conditions.size(); i++)
        add_match(first * 64 + static_cast<u32>(i), one.conditions[i], false);
      compiled_ = first * 64 + static_cast<u32>(one.conditions.size());
      conditions_ += one.conditions.size();
      const auto port = std::find(ports_.begin(), ports_.end(), one.to);
      for (xg_rule& rule : rules_)
        if (rule.action == XG_RULE_INSPECT && rule.pipeline == one.pipeline) {
          rule.divert_port = port == ports_.end() ? u8{0} : static_cast<u8>(port - ports_.begin());
          rule.divert_word = static_cast<u8>(first);
          rule.divert_words = static_cast<u8>(words);
        }
    }
    return {};
  }

  void add_match(u32 rule, const Match& match, bool reverse) {
    auto address = [&](AddressClasses& classes, const std::vector<Prefix>& prefixes,
                       const std::vector<std::string>& lists, bool carries_family) {
      if (!prefixes.empty() || !lists.empty())
        classes.add(rule, prefixes, lists, match.family);
      else if (match.family && carries_family)
        classes.add(rule, all_addresses(*match.family), {}, std::nullopt);
      else
        classes.add_any(rule);
    };
    auto index = [&](IndexClasses& classes, bool named, std::vector<IndexRange> ranges) {
      if (named)
        classes.add(rule, std::move(ranges));
      else
        classes.add_any(rule);
    };
    bool src_named = !match.src.empty() || !match.src_lists.empty();
    address(reverse ? dst_ : src_, match.src, match.src_lists, true);
    address(reverse ? src_ : dst_, match.dst, match.dst_lists, !src_named);
    index(reverse ? dst_port_ : src_port_, !match.src_ports.empty(), port_ranges(match.src_ports));
    index(reverse ? src_port_ : dst_port_, !match.dst_ports.empty(), port_ranges(match.dst_ports));
    index(l4_, !match.protocols.empty() || match.tcp_flags_mask || !match.control.empty(), l4_ranges(match));
    index(vlan_, !match.vlans.empty(), vlan_ranges(match.vlans));
  }

  void write() {
    auto& header = tables_.header;
    header.default_action = static_cast<u8>(policy_.default_action);
    header.on_failure = static_cast<u8>(policy_.on_failure);
    header.on_overload = static_cast<u8>(policy_.on_overload);
    header.fragments = static_cast<u8>(policy_.fragments);
    header.malformed = static_cast<u8>(policy_.malformed);
    header.feeds_egress = wants_egress(policy_) ? 1 : 0;
    header.routes = asks_router(policy_) ? 1 : 0;
    std::transform(policy_.rates.begin(), policy_.rates.end(), header.rates, compiled_rate);
    // Address space only, until it is used.
    store_.reserve(65536 + (src_.boundary_count() + dst_.boundary_count()) * 2 / 3);
    header.rules_line =
        append(rules_.data(), rules_.size() * sizeof(xg_rule), lines_for(rules_.size(), kRulesPerLine));
    write_classes();
    header.sport_line = write_indexes(src_port_);
    header.dport_line = write_indexes(dst_port_);
    header.l4_line = write_indexes(l4_);
    header.vlan_line = write_indexes(vlan_);
    write_tries();
    note_special_flags();
    tables_.lines = store_.take();
  }
  void note_special_flags() {
    const auto table = l4_.table();
    for (u32 flags = 0; flags < 256; ++flags)
      if (table[XG_L4_V4_TCP + flags] != table[XG_L4_V4_TCP + kOrdinaryTcpFlags] ||
          table[XG_L4_V6_TCP + flags] != table[XG_L4_V6_TCP + kOrdinaryTcpFlags] ||
          stages_tell_apart(policy_, static_cast<u8>(flags)))
        tables_.header.tcp_special[flags / 64] |= 1ull << flags % 64;
  }

  // Returns the first line; there is at least one.
  u32 append(const void* data, u64 bytes, u64 lines) {
    u32 first = store_.add_lines(std::max<u64>(lines, 1));
    if (bytes != 0) std::memcpy(&store_.word(u64{first} * XG_LINE_WORDS), data, bytes);
    return first;
  }

  void write_classes() {
    std::vector<gpu::RuleClasses> all;
    for (const Classes* classes : dimensions_)
      all.push_back({(*classes)[0].word.data(), sizeof(RuleSet) / sizeof(u64), classes->size()});
    gpu::RuleGrid grid = gpu::build_rule_grid(all, compiled_, {kMaxCells, kWorstWords});
    std::vector<xg_class_head> heads;
    for (u32 d = 0; d < XG_DIMS; ++d) {
      const Classes& classes = *dimensions_[d];
      tables_.header.first_row[d] = static_cast<u32>(heads.size());
      if (classes.size() > 1 || !gpu::holds_all(classes[0].word, rules_.size() + conditions_))
        tables_.header.dims |= 1u << d;
      for (u32 id = 0; id < classes.size(); ++id) {
        xg_class_head head{0, grid.coarse[d][id], 0};
        xg_class_row row;
        for (u32 w = 0; w < XG_RULE_WORDS; ++w) {
          row.rules[w] = classes[id].word[w];
          head.aggregate |= u64{row.rules[w] != 0} << w;
        }
        heads.push_back(head);
        tables_.rows.push_back(row);
      }
    }
    tables_.header.heads_line =
        append(heads.data(), heads.size() * sizeof(xg_class_head), lines_for(heads.size(), kHeadsPerLine));
    tables_.header.grid_bits = static_cast<u32>(std::bit_width(grid.cells.size() - 1));
    grid.cells.resize(u64{1} << tables_.header.grid_bits);
    tables_.header.grid_line = append(grid.cells.data(), grid.cells.size() * sizeof(u64),
                                      lines_for(grid.cells.size(), XG_LINE_WORDS));
  }
  u32 write_indexes(const IndexClasses& index) {
    return append(index.table().data(), index.table().size_bytes(),
                  lines_for(index.table().size(), kIndexesPerLine));
  }
  void write_tries() {
    auto& header = tables_.header;
    u32 roots = store_.add_lines(1) * XG_LINE_WORDS;
    header.src4_root = roots;
    header.src6_root = roots + 1;
    header.dst4_root = roots + 2;
    header.dst6_root = roots + 3;
    u64 lows = u64{src_.low_count()} + dst_.low_count();
    header.low_base = store_.add_lines(lines_for(lows, XG_LINE_WORDS) + 1) * XG_LINE_WORDS;
    write_root(header.src4_root, src_.boundaries4());
    write_root(header.dst4_root, dst_.boundaries4());
    write_root(header.src6_root, src_.boundaries6());
    write_root(header.dst6_root, dst_.boundaries6());
    for (u32 i = 0; i < src_.low_count(); ++i) write_root(header.low_base + i, src_.low(i));
    for (u32 i = 0; i < dst_.low_count(); ++i)
      write_root(header.low_base + src_.low_count() + i, dst_.low(i));
  }
  void write_root(u32 at, std::span<const Boundary> boundaries) {
    u64 word = build_trie(store_, boundaries);
    store_.word(at) = word;
  }

  const Policy& policy_;
  const std::span<const std::string> ports_;
  const std::vector<Diversion> diversions_;
  u32 compiled_ = 0;    // behind the last rule or condition
  u64 conditions_ = 0;  // how many there are
  AddressClasses src_, dst_;
  IndexClasses src_port_, dst_port_, l4_, vlan_;
  const std::array<const Classes*, XG_DIMS> dimensions_{&src_.classes(),      &dst_.classes(),
                                                        &src_port_.classes(), &dst_port_.classes(),
                                                        &l4_.classes(),       &vlan_.classes()};
  std::vector<xg_rule> rules_;
  u32 most_important_ = kLeastPriority;  // of the policy's rules
  LineStore store_;
  Tables tables_;
};

}  // namespace

Result<Tables> compile(const Policy& policy, std::span<const std::string> ports) {
  return Compiler(policy, ports).run();
}

}  // namespace xdpgpu::policy
