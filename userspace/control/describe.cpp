// SPDX-License-Identifier: MIT
#include "userspace/control/describe.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "maps/parse.h"

namespace xdpgpu::control {
namespace {

const char* stage_name(const gpu::StageSettings& stage) {
  if (std::holds_alternative<gpu::AclSettings>(stage)) return "acl";
  if (std::holds_alternative<gpu::LoadBalanceSettings>(stage)) return "load_balance";
  if (std::holds_alternative<gpu::ReputationSettings>(stage)) return "reputation";
  if (std::holds_alternative<gpu::ForwardSettings>(stage)) return "forward";
  if (std::holds_alternative<gpu::RateLimitSettings>(stage)) return "rate_limit";
  if (std::holds_alternative<gpu::ConntrackSettings>(stage)) return "conntrack";
  if (std::holds_alternative<gpu::DdosSettings>(stage)) return "ddos";
  return "l2fwd";
}

std::string route_text(const gpu::ForwardSettings& router, u32 rule) {
  if (rule != 0 && rule <= router.next_hops.size())
    return fmt::format(" next hop {}", router.next_hops[rule - 1].name);
  switch (rule) {
    case gpu::forward_rule::kPass:
      return " route to the host";
    case gpu::forward_rule::kDrop:
      return " route to nowhere";
    case gpu::forward_rule::kInvalid:
      return " not to be forwarded";
    case gpu::forward_rule::kTtl:
      return " last hop";
    case gpu::forward_rule::kOptions:
      return " header options";
    case gpu::forward_rule::kMtu:
      return " longer than the MTU";
    case gpu::forward_rule::kForeign:
      return " not addressed to this port";
    case gpu::forward_rule::kChecksum:
      return " wrong header checksum";
    default:
      return " no route";
  }
}

// ", inside of GUE to 192.0.2.1"
std::string inside_text(const gpu::LoadBalanceSettings& balance, u32 backend) {
  const bool gue = balance.encapsulation->type == gpu::EncapsulationSettings::Type::gue;
  const gpu::Prefix& address = balance.backends[backend].address;
  std::array<u32, 4> words{};
  std::memcpy(words.data(), address.address.data(), sizeof(words));
  return fmt::format(", inside of {} to {}", gue ? "GUE" : "IP", address_text(words.data(), address.family));
}

std::string balance_text(const gpu::LoadBalanceSettings& balance, u32 rule, const xg_result* result) {
  if (rule == gpu::balance_rule::kMalformed) return " malformed, so not encapsulated";
  std::string text = " too long to be encapsulated";
  if (result && result->detail < balance.backends.size())
    text += fmt::format(" to backend {}: more than {} bytes", balance.backends[result->detail].name,
                        result->dst_mac[0]);
  return text;
}

std::string stage_detail(const gpu::StageSettings& stage, u32 rule, const xg_result* result) {
  if (const auto* acl = std::get_if<gpu::AclSettings>(&stage)) {
    if (rule == 0) return " otherwise";
    const bool named = rule <= acl->rules.size() && !acl->rules[rule - 1].name.empty();
    return fmt::format(" rule {}{}", rule, named ? " (" + acl->rules[rule - 1].name + ")" : "");
  }
  if (const auto* reputation = std::get_if<gpu::ReputationSettings>(&stage)) {
    if (rule == 0 || rule > reputation->lists.size()) return " otherwise";
    return fmt::format(" list {}", reputation->lists[rule - 1].name);
  }
  if (const auto* router = std::get_if<gpu::ForwardSettings>(&stage)) return route_text(*router, rule);
  if (std::holds_alternative<gpu::RateLimitSettings>(stage)) return " over the limit";
  if (std::holds_alternative<gpu::ConntrackSettings>(stage))
    return rule == gpu::kConntrackNew         ? " new connection"
           : rule == gpu::kConntrackUntracked ? " untracked"
                                              : " invalid";
  if (std::holds_alternative<gpu::DdosSettings>(stage))
    return rule != 0 && rule <= gpu::kDdosMetrics ? fmt::format(" alarm {}", gpu::kDdosMetricNames[rule - 1])
                                                  : "";
  const auto* balance = std::get_if<gpu::LoadBalanceSettings>(&stage);
  if (balance && rule != 0) return balance_text(*balance, rule, result);
  if (balance && result && result->detail < balance->backends.size()) {
    const auto& name = balance->backends[result->detail].name;
    return fmt::format(" backend {}{}{}", result->detail + 1, name.empty() ? "" : " (" + name + ")",
                       balance->encapsulation ? inside_text(*balance, result->detail) : "");
  }
  return "";
}

}  // namespace

std::string counted(u64 number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string action_name(u32 action) {
  switch (action) {
    case XG_DROP:
      return "drop";
    case XG_PASS:
      return "pass";
    case XG_TX:
      return "tx";
    case XG_REDIRECT:
      return "redirect";
    default:
      return "aborted";
  }
}

std::string protocol_name(u32 protocol) {
  switch (protocol) {
    case XG_IPPROTO_TCP:
      return "tcp";
    case XG_IPPROTO_UDP:
      return "udp";
    case XG_IPPROTO_ICMP:
      return "icmp";
    case XG_IPPROTO_ICMPV6:
      return "icmpv6";
    case XG_IPPROTO_SCTP:
      return "sctp";
    default:
      return fmt::format("protocol {}", protocol);
  }
}

std::string address_text(const u32 words[4], u32 family) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family == 6 ? AF_INET6 : AF_INET, words, text, sizeof(text));
  return text;
}

std::string flow_text(const xg_flow_key& key, u32 packet_flags) {
  std::string vlan;
  auto tag = [&](u32 id) {
    if (id) vlan += fmt::format(" vlan {}", id == XG_VLAN_PRIORITY ? 0 : id);
  };
  tag(key.vlan_outer);
  tag(key.vlan_inner);
  if (key.family == 0) return "not IP" + vlan;
  const std::string src = address_text(key.src, key.family);
  const std::string dst = address_text(key.dst, key.family);
  const std::string protocol = protocol_name(key.protocol);
  if (packet_flags & XG_PKT_FRAGMENT)
    return fmt::format("{} > {} {} fragment id {}{}", src, dst, protocol,
                       u32{key.src_port} | u32{key.dst_port} << 16, vlan);
  if (key.protocol == XG_IPPROTO_ICMP || key.protocol == XG_IPPROTO_ICMPV6)
    return fmt::format("{} > {} {} type {}{}{}", src, dst, protocol, key.src_port & 0xff,
                       key.dst_port ? fmt::format(" id {}", xg_host16(key.dst_port)) : "", vlan);
  if (key.src_port == 0 && key.dst_port == 0) return fmt::format("{} > {} {}{}", src, dst, protocol, vlan);
  const char* form = key.family == 6 ? "[{}]:{} > [{}]:{} {}{}" : "{}:{} > {}:{} {}{}";
  return fmt::format(fmt::runtime(form), src, xg_host16(key.src_port), dst, xg_host16(key.dst_port), protocol,
                     vlan);
}

std::string decider_text(u32 verdict, const gpu::PipelineSettings* pipeline, const xg_result* result) {
  const u32 stage = XG_VERDICT_STAGE(verdict);
  const u32 rule = XG_VERDICT_RULE(verdict);
  if (stage == 0) return pipeline ? fmt::format("end of pipeline {}", pipeline->name) : "end of the pipeline";
  if (pipeline && stage <= pipeline->stages.size())
    return fmt::format("stage {} ({}){}", stage, stage_name(pipeline->stages[stage - 1]),
                       stage_detail(pipeline->stages[stage - 1], rule, result));
  return rule ? fmt::format("stage {} rule {}", stage, rule) : fmt::format("stage {}", stage);
}

}  // namespace xdpgpu::control
