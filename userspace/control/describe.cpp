// SPDX-License-Identifier: MIT
#include "userspace/control/describe.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include "maps/parse.h"

namespace xdpgpu::control {
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
    return fmt::format("stage {} ({}){}", stage, gpu::stage_name(pipeline->stages[stage - 1]),
                       gpu::rule_text(pipeline->stages[stage - 1], rule, result));
  return rule ? fmt::format("stage {} rule {}", stage, rule) : fmt::format("stage {}", stage);
}

}  // namespace xdpgpu::control
