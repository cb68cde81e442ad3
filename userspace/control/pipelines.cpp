// SPDX-License-Identifier: MIT
#include "userspace/control/pipelines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "userspace/policy/document.hpp"
#include "userspace/policy/routes.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::control {
namespace {

using Problem = tl::unexpected<policy::Diagnostic>;

gpu::Prefix device_prefix(const policy::Prefix& from) {
  gpu::Prefix to;
  to.family = from.family;
  to.length = from.length;
  std::memcpy(to.address.data(), from.address, sizeof(from.address));
  return to;
}

std::vector<gpu::Prefix> device_prefixes(const std::vector<policy::Prefix>& from) {
  std::vector<gpu::Prefix> to;
  to.reserve(from.size());
  for (const auto& prefix : from) to.push_back(device_prefix(prefix));
  return to;
}

std::vector<gpu::PortRange> device_ranges(const std::vector<policy::PortRange>& from) {
  std::vector<gpu::PortRange> to;
  to.reserve(from.size());
  for (const auto& range : from) to.push_back({range.first, range.last});
  return to;
}

class Converter {
 public:
  Converter(const policy::Policy& policy, const std::vector<std::string>& ports, const DownBackends& down)
      : policy_(policy), ports_(ports), down_(down) {}

  tl::expected<gpu::PipelineSettings, policy::Diagnostic> pipeline(const policy::Pipeline& from) {
    gpu::PipelineSettings to;
    to.name = from.name;
    for (std::size_t i = 0; i < from.stages.size(); i++) {
      pointer_ = fmt::format("/pipelines{}/{}", policy::pointer_token(from.name), i);
      auto stage = std::visit([&](const auto& s) { return convert(s); }, from.stages[i]);
      if (!stage) return Problem(stage.error());
      to.stages.push_back(std::move(*stage));
    }
    return to;
  }

 private:
  using StageResult = tl::expected<gpu::StageSettings, policy::Diagnostic>;

  tl::expected<u32, policy::Diagnostic> port(const std::string& name, const std::string& where) const {
    const auto found = std::find(ports_.begin(), ports_.end(), name);
    if (found != ports_.end()) return static_cast<u32>(found - ports_.begin());
    policy::Diagnostic problem;
    problem.pointer = pointer_ + where;
    problem.message = fmt::format("interface \"{}\" is not attached here; attached {}: {}", name,
                                  ports_.size() == 1 ? "is" : "are", fmt::join(ports_, ", "));
    return Problem(std::move(problem));
  }

  static gpu::AclRule::Action action(const std::string& name) {
    using Action = gpu::AclRule::Action;
    if (name == "drop") return Action::drop;
    if (name == "pass") return Action::pass;
    if (name == "tx") return Action::tx;
    if (name == "redirect") return Action::redirect;
    return Action::next;
  }

  StageResult convert(const policy::AclStage& from) const {
    static_assert(policy::kMaxAclRules == gpu::kAclMaxRules);
    gpu::AclSettings to;
    for (std::size_t i = 0; i < from.rules.size(); i++) {
      const auto& rule = from.rules[i];
      gpu::AclRule made;
      made.name = rule.name;
      made.src = device_prefixes(rule.match.src);
      made.dst = device_prefixes(rule.match.dst);
      made.protocols = rule.match.protocols;
      made.src_ports = device_ranges(rule.match.src_ports);
      made.dst_ports = device_ranges(rule.match.dst_ports);
      if (rule.match.tcp_flags_mask)
        made.tcp_flags = gpu::TcpFlags{*rule.match.tcp_flags_mask, rule.match.tcp_flags_value};
      for (const auto& range : rule.match.vlans) made.vlans.push_back({range.first, range.last});
      made.action = action(rule.action);
      if (made.action == gpu::AclRule::Action::redirect) {
        const auto target = port(rule.to, fmt::format("/rules/{}/action/redirect", i));
        if (!target) return Problem(target.error());
        made.target = *target;
      }
      to.rules.push_back(std::move(made));
    }
    to.otherwise = action(from.otherwise);
    to.cache = from.cache_ms.has_value();
    to.cache_ttl_ms = from.cache_ms.value_or(0);
    return to;
  }

  StageResult convert(const policy::LoadBalanceStage& from) const {
    gpu::LoadBalanceSettings to;
    using Algorithm = gpu::LoadBalanceSettings::Algorithm;
    to.algorithm = from.algorithm == "maglev" ? Algorithm::maglev : Algorithm::hash;
    to.table_size = from.table_size;
    to.key = from.key;
    if (from.affinity) {
      using Per = gpu::AffinitySettings::Per;
      to.affinity = {from.affinity->per == "src" ? Per::src : Per::flow, from.affinity->idle_ms,
                     table(from.affinity->table)};
    }
    if (const auto& outer = from.encapsulation) {
      using Type = gpu::EncapsulationSettings::Type;
      auto& made = to.encapsulation.emplace();
      made.type = outer->type == "gue" ? Type::gue : Type::ipip;
      if (outer->source4) made.source4 = device_prefix(*outer->source4);
      if (outer->source6) made.source6 = device_prefix(*outer->source6);
      made.port = outer->port;
      made.mtu = outer->mtu;
      made.hash_key = from.key.value_or(std::array<u64, 2>{});
    }
    for (std::size_t i = 0; i < from.backends.size(); i++) {
      const auto& backend = from.backends[i];
      gpu::Backend made;
      made.name = backend.name;
      made.mac = backend.mac;
      made.weight = backend.weight;
      made.drains = backend.drain;
      if (backend.address) made.address = device_prefix(*backend.address);
      made.down = from.health && backend.address && down_.contains({*backend.address, *from.health});
      made.to_port = !backend.to.empty();
      if (made.to_port) {
        const auto target = port(backend.to, fmt::format("/backends/{}/to", i));
        if (!target) return Problem(target.error());
        made.target = *target;
      }
      to.backends.push_back(std::move(made));
    }
    to.cache = from.cache_ms.has_value();
    to.cache_ttl_ms = from.cache_ms.value_or(0);
    return to;
  }

  StageResult convert(const policy::L2fwdStage& from) const {
    gpu::L2fwdSettings to;
    to.to_port = !from.to.empty();
    if (to.to_port) {
      const auto target = port(from.to, "/to");
      if (!target) return Problem(target.error());
      to.target = *target;
    }
    to.cache = from.cache_ms.has_value();
    to.cache_ttl_ms = from.cache_ms.value_or(0);
    return to;
  }

  StageResult convert(const policy::ReputationStage& from) const {
    gpu::ReputationSettings to;
    using Of = gpu::ReputationSettings::Of;
    to.of = from.of == "src" ? Of::src : from.of == "dst" ? Of::dst : Of::either;
    for (std::size_t i = 0; i < from.lists.size(); i++) {
      const auto& entry = from.lists[i];
      gpu::ReputationList made;
      made.name = entry.list;
      made.prefixes = device_prefixes(policy_.lists.at(entry.list).prefixes);
      made.action = action(entry.action);
      if (made.action == gpu::AclRule::Action::redirect) {
        const auto target = port(entry.to, fmt::format("/lists/{}/action/redirect", i));
        if (!target) return Problem(target.error());
        made.target = *target;
      }
      to.lists.push_back(std::move(made));
    }
    to.otherwise = action(from.otherwise);
    to.cache = from.cache_ms.has_value();
    to.cache_ttl_ms = from.cache_ms.value_or(0);
    return to;
  }

  StageResult convert(const policy::ForwardStage& from) const {
    gpu::ForwardSettings to;
    for (const auto& hop : from.next_hops) {
      gpu::NextHop made;
      made.name = hop.name;
      made.mac = hop.mac;
      made.own_source = hop.src_mac.has_value();
      if (made.own_source) made.source = *hop.src_mac;
      made.to_port = !hop.to.empty();
      if (made.to_port) {
        const auto target = port(hop.to, fmt::format("/next_hops{}/to", policy::pointer_token(hop.name)));
        if (!target) return Problem(target.error());
        made.target = *target;
      }
      made.mtu = hop.mtu.value_or(made.mtu);
      to.next_hops.push_back(std::move(made));
    }
    to.routes.reserve(policy::count_routes(from));
    static_assert(policy::kRoutePass == gpu::kRoutePass && policy::kRouteDrop == gpu::kRouteDrop);
    for (const auto& source : from.routes)
      for (const auto& route : source.routes)
        to.routes.push_back({device_prefix(route.prefix), route.next_hop});
    to.otherwise = action(from.otherwise);
    to.cache = from.cache_ms.has_value();
    to.cache_ttl_ms = from.cache_ms.value_or(0);
    return to;
  }

  static gpu::TableSettings table(const policy::TableSpec& from) {
    using Evict = gpu::TableSettings::Evict;
    constexpr std::array kEvict{Evict::fifo, Evict::lru, Evict::lfu, Evict::random, Evict::refuse};
    static_assert(kEvict.size() == policy::words::kEvict.size());
    const auto word = std::find(policy::words::kEvict.begin(), policy::words::kEvict.end(), from.evict);
    return {from.entries, kEvict[static_cast<std::size_t>(word - policy::words::kEvict.begin())]};
  }

  StageResult convert(const policy::RateLimitStage& from) const {
    gpu::RateLimitSettings to;
    using Per = gpu::RateLimitSettings::Per;
    to.per = from.per == "src" ? Per::src : from.per == "dst" ? Per::dst : Per::flow;
    to.bits4 = from.prefix4;
    to.bits6 = from.prefix6;
    to.packets_per_second = from.pps;
    to.burst_packets = from.burst;
    to.bytes_per_second = from.bytes_per_second;
    to.burst_bytes = from.burst_bytes;
    to.excess = action(from.excess);
    to.table = table(from.table);
    return to;
  }

  StageResult convert(const policy::ConntrackStage& from) const {
    gpu::ConntrackSettings to;
    to.loose = from.loose;
    to.egress = from.egress;
    to.on_new = action(from.on_new);
    to.on_invalid = action(from.on_invalid);
    to.on_untracked = action(from.on_untracked);
    const auto& ms = from.timeouts_ms;
    to.timeouts = {ms[0], ms[1], ms[2], ms[3], ms[4], ms[5], ms[6], ms[7], ms[8], ms[9]};
    to.table = table(from.table);
    return to;
  }

  StageResult convert(const policy::DdosStage& from) const {
    gpu::DdosSettings to;
    using Direction = gpu::DdosSettings::Direction;
    using OnDetect = gpu::DdosSettings::OnDetect;
    static_assert(policy::words::kDdosMetric == gpu::kDdosMetricNames);
    to.direction = from.direction == "in" ? Direction::in : Direction::out;
    to.bits4 = from.prefix4;
    to.bits6 = from.prefix6;
    to.window_ms = from.window_ms;
    to.thresholds = from.thresholds;
    to.release_percent = from.release_percent;
    to.hold_ms = from.hold_ms;
    to.on_detect = from.on_detect == "pass"   ? OnDetect::pass
                   : from.on_detect == "drop" ? OnDetect::drop
                                              : OnDetect::drop_sources;
    to.share_percent = from.share_percent;
    to.cache = from.cache_ms.has_value();
    to.cache_ttl_ms = from.cache_ms.value_or(0);
    to.table = table(from.table);
    return to;
  }

  const policy::Policy& policy_;
  const std::vector<std::string>& ports_;
  const DownBackends& down_;
  std::string pointer_;
};

}  // namespace

tl::expected<std::vector<gpu::PipelineSettings>, policy::Diagnostic> pipeline_settings(
    const policy::Policy& policy, const std::vector<std::string>& ports, const DownBackends& down) {
  Converter converter(policy, ports, down);
  std::vector<gpu::PipelineSettings> settings;
  for (const auto& pipeline : policy.pipelines) {
    auto converted = converter.pipeline(pipeline);
    if (!converted) return Problem(converted.error());
    settings.push_back(std::move(*converted));
  }
  return settings;
}

std::vector<std::string> mentioned_ports(const policy::Policy& policy) {
  std::vector<std::string> names;
  auto mention = [&](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const auto& pipeline : policy.pipelines)
    for (const auto& stage : pipeline.stages) {
      if (const auto* acl = std::get_if<policy::AclStage>(&stage)) {
        for (const auto& rule : acl->rules) mention(rule.to);
      } else if (const auto* balance = std::get_if<policy::LoadBalanceStage>(&stage)) {
        for (const auto& backend : balance->backends) mention(backend.to);
      } else if (const auto* forward = std::get_if<policy::L2fwdStage>(&stage)) {
        mention(forward->to);
      } else if (const auto* reputation = std::get_if<policy::ReputationStage>(&stage)) {
        for (const auto& entry : reputation->lists) mention(entry.to);
      } else if (const auto* router = std::get_if<policy::ForwardStage>(&stage)) {
        for (const auto& hop : router->next_hops) mention(hop.to);
      }
    }
  return names;
}

}  // namespace xdpgpu::control
