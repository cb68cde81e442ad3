// SPDX-License-Identifier: MIT
#include "userspace/control/first_policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace xdpgpu::control {
namespace {

// In the order in which it is to be read.
using Ordered = nlohmann::ordered_json;

constexpr u16 kIgmp = 2;

Ordered services(const char* protocol, const std::vector<u16>& ports) {
  return {
      {"name", fmt::format("{} services", protocol)},
      {"description", fmt::format("What this host listened at when this was written ({}). It is passed in "
                                  "the kernel. Take out what is not for everybody, or give it a \"src\".",
                                  protocol)},
      {"match", {{"proto", protocol}, {"dst_port", ports}}},
      {"action", "pass"}};
}

std::string managers_of(const FirstPolicy& facts) {
  if (facts.managers_named) return "as \"policy init\" was told";
  const auto& uplinks = facts.exposure.uplinks;
  if (uplinks.empty()) return "who was logged in when this was written";
  return fmt::format(
      "the networks on the default route's side ({}), and who was logged in when this was written",
      fmt::join(uplinks, ", "));
}

}  // namespace

std::string first_policy(const FirstPolicy& facts) {
  Ordered policy;
  if (!facts.schema.empty()) policy["$schema"] = facts.schema;
  policy["version"] = 1;
  policy["description"] = fmt::format(
      "A first policy for {}, by \"xdpgpu policy init\": what nobody asked for is dropped. Each part has a "
      "description. The rules are asked in their order; the first that matches decides. While nobody can "
      "look at what goes to the pipeline, it is dropped (\"on_failure\", \"on_overload\"). Try it first: "
      "\"xdpgpu attach IF --audit\" drops nothing, and \"xdpgpu status IF\" says what would have been.",
      facts.host);
  policy["default"] = "drop";
  policy["on_failure"] = "drop";
  policy["on_overload"] = "drop";
  policy["fragments"] = "track";
  policy["management"] = Ordered::array();
  policy["management"].push_back(
      {{"description",
        fmt::format("Who manages this host: {}. It passes ahead of everything, whatever else this policy "
                    "says. Narrow it to the addresses that you manage the host from.",
                    managers_of(facts))},
       {"src", facts.managers},
       {"proto", "tcp"},
       {"dst_port", facts.management_port}});
  policy["lists"]["blocked"] = {
      {"description",
       "Sources to drop. These are such as no wire brings; add your own, or put a \"file\" of "
       "them in the place of \"prefixes\"."},
      {"prefixes", {"127.0.0.0/8", "240.0.0.0/4", "::1/128"}}};
  Ordered rules = Ordered::array();
  rules.push_back({{"name", "blocked"},
                   {"description", "Sources on the list \"blocked\": dropped in the kernel."},
                   {"match", {{"src", "@blocked"}}},
                   {"action", "drop"}});
  if (!facts.exposure.tcp_ports.empty()) rules.push_back(services("tcp", facts.exposure.tcp_ports));
  if (!facts.exposure.udp_ports.empty()) rules.push_back(services("udp", facts.exposure.udp_ports));
  rules.push_back({{"name", "ping and errors, limited"},
                   {"description", "ICMP and IGMP: more than a host needs of one source is dropped."},
                   {"match", {{"proto", {"icmp", "icmpv6", kIgmp}}}},
                   {"limit", {{"per", "src"}, {"pps", 100}, {"burst", 200}}}});
  rules.push_back(
      {{"name", "ping and errors"},
       {"description", "Path MTU discovery, \"unreachable\", ping, and who listens to what group."},
       {"match", {{"proto", {"icmp", "icmpv6", kIgmp}}}},
       {"action", "pass"}});
  rules.push_back({{"name", "no other new connections"},
                   {"description", "A SYN to what is not served is dropped in the kernel."},
                   {"match", {{"proto", "tcp"}, {"tcp_flags", "syn,!ack"}}},
                   {"action", "drop"}});
  rules.push_back({{"name", "established"},
                   {"description", "What is left may be an answer to this host: \"connections\" tells."},
                   {"action", {{"inspect", "connections"}}}});
  policy["rules"] = std::move(rules);
  policy["pipelines"]["connections"] = Ordered::array();
  policy["pipelines"]["connections"].push_back(
      {{"stage", "conntrack"},
       {"description", "Lets in what answers this host, and what belongs to connections that were let in."},
       {"on_new", "drop"},
       {"on_invalid", "drop"}});
  return policy.dump(2) + "\n";
}

}  // namespace xdpgpu::control
