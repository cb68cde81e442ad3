// SPDX-License-Identifier: MIT
#include "userspace/control/decide.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::control {
namespace {

using dataplane::kKernelCounters;

Decision as(u32 what, u32 passed, u32 dropped) {
  return {what == XG_DO_DROP ? dropped : passed, -1, 0, {}, false};
}

Decision decide_default(const policy::Tables& tables) {
  return as(tables.header.default_action, XG_KERNEL_pass_default, XG_KERNEL_drop_default);
}

Decision inspect(const xg_rule& rule, u32 index) {
  return {XG_KERNEL_inspected, static_cast<int>(index), rule.pipeline, {}, false};
}

// Of the conditions that stand behind the rules, by the matches: does the packet meet one of this rule's?
bool diverts(const xg_rule& rule, const std::vector<u32>& matches, const xg_packet& packet) {
  return packet.key.port != rule.divert_port && std::any_of(matches.begin(), matches.end(), [&](u32 index) {
           const u32 word = index / 64;
           return word >= rule.divert_word && word < u32{rule.divert_word} + rule.divert_words;
         });
}

bool is_fragment(const xg_packet& packet) { return (packet.flags & XG_PKT_FRAGMENT) != 0; }
bool is_malformed(const xg_packet& packet) { return (packet.flags & XG_PKT_MALFORMED) != 0; }

// May a pipeline see it?
bool may_inspect(const xg_policy& header, const xg_packet& packet) {
  return (!is_fragment(packet) || header.fragments == XG_DO_INSPECT) &&
         (!is_malformed(packet) || header.malformed == XG_DO_INSPECT);
}

// What no rule passed or dropped, and no pipeline sees.
Decision decide_rest(const policy::Tables& tables, const xg_packet& packet) {
  const xg_policy& header = tables.header;
  if (is_fragment(packet) && header.fragments != XG_DO_INSPECT)
    return as(header.fragments, XG_KERNEL_pass_fragment, XG_KERNEL_drop_fragment);
  if (is_malformed(packet) && !is_fragment(packet) && header.malformed == XG_DO_PASS)
    return {XG_KERNEL_pass_malformed, -1, 0, {}, false};
  return decide_default(tables);
}

}  // namespace

policy::PacketFacts facts_of(const xg_packet& packet, u32 control_named) {
  policy::PacketFacts facts;
  const xg_flow_key& key = packet.key;
  facts.family = key.family;
  std::memcpy(facts.src, key.src, sizeof(facts.src));
  std::memcpy(facts.dst, key.dst, sizeof(facts.dst));
  if ((packet.flags & XG_PKT_PORTS) && !(packet.flags & XG_PKT_FRAGMENT)) {
    facts.src_port = xg_host16(key.src_port);
    facts.dst_port = xg_host16(key.dst_port);
  }
  const bool named = packet.control != XG_CONTROL_NONE && (control_named >> packet.control & 1) != 0;
  facts.l4 = named ? XG_L4_CONTROL + packet.control : u32{packet.l4_index};
  facts.vlan = key.vlan_outer ? u32{key.vlan_outer} : XG_VLAN_NONE;
  return facts;
}

xg_rule rule_at(const policy::Tables& tables, u32 index) {
  xg_rule rule{};
  const u64 at = u64{tables.header.rules_line} + index / 2;
  if (at >= tables.lines.size()) return rule;
  const auto& line = tables.lines[at];
  std::memcpy(&rule, &line.word[index % 2 * 4], sizeof(rule));
  return rule;
}

namespace {

// What the rules say; notes in `on_the_way` those that mirror the packet, and whether it is no answer.
Decision walk(const policy::Tables& tables, const xg_packet& packet, const Conforms& conforms,
              const WithinRate& within_rate, Decision& on_the_way) {
  const xg_policy& header = tables.header;
  if (is_malformed(packet) && header.malformed == XG_DO_DROP)
    return {XG_KERNEL_drop_malformed, -1, 0, {}, false};
  if (packet.control != XG_CONTROL_NONE && (header.control_named >> packet.control & 1) == 0 &&
      within_rate(packet))
    return {XG_KERNEL_pass_control, -1, 0, {}, false};
  if (header.rule_count > 0) {
    const auto matches = policy::classify(tables, facts_of(packet, header.control_named));
    for (const u32 index : matches) {
      if (index >= header.rule_count) break;  // no rules
      const xg_rule rule = rule_at(tables, index);
      switch (rule.action) {
        case XG_RULE_LIMIT:
          if (!conforms(rule, index, packet))
            return {XG_KERNEL_drop_limit, static_cast<int>(index), 0, {}, false};
          continue;
        case XG_RULE_MIRROR:
          if (may_inspect(header, packet)) on_the_way.mirrors.push_back(index);
          continue;
        case XG_RULE_PASS:
          return {XG_KERNEL_pass_rule, static_cast<int>(index), 0, {}, false};
        case XG_RULE_DROP:
          return {XG_KERNEL_drop_rule, static_cast<int>(index), 0, {}, false};
        case XG_RULE_ANSWER:
          if (on_the_way.no_answer || !conforms(rule, index, packet)) {
            on_the_way.no_answer = true;
            continue;
          }
          [[fallthrough]];
        case XG_RULE_MANAGEMENT:
          if (is_malformed(packet)) continue;
          return {XG_KERNEL_pass_management, static_cast<int>(index), 0, {}, false};
        default:
          if (!may_inspect(header, packet)) return decide_rest(tables, packet);
          if (diverts(rule, matches, packet))
            return {XG_KERNEL_redirect_rule, static_cast<int>(index), rule.pipeline, {}, false};
          return inspect(rule, index);
      }
    }
  }
  return decide_rest(tables, packet);
}

}  // namespace

Decision decide(const policy::Tables& tables, const xg_packet& packet, const Conforms& conforms,
                const WithinRate& within_rate) {
  Decision on_the_way;
  Decision decision = walk(tables, packet, conforms, within_rate, on_the_way);
  decision.mirrors = std::move(on_the_way.mirrors);
  decision.no_answer = on_the_way.no_answer;
  return decision;
}

u32 action_of(u32 reason) {
  if (reason >= kKernelCounters.size()) return XG_ABORTED;
  switch (kKernelCounters[reason].outcome) {
    case XG_OUTCOME_pass:
      return XG_PASS;
    case XG_OUTCOME_drop:
      return XG_DROP;
    case XG_OUTCOME_tx:
      return XG_TX;
    case XG_OUTCOME_redirect:
      return XG_REDIRECT;
    default:
      return XG_ABORTED;
  }
}

const char* reason_text(u32 reason) {
  return reason < kKernelCounters.size() ? kKernelCounters[reason].words : "unknown reason";
}
const char* reason_name(u32 reason) {
  return reason < kKernelCounters.size() ? kKernelCounters[reason].name : "unknown";
}

}  // namespace xdpgpu::control
