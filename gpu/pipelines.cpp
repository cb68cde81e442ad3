// SPDX-License-Identifier: MIT
#include "gpu/pipelines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "gpu/acl_image.hpp"
#include "gpu/forward_image.hpp"
#include "gpu/image_words.hpp"
#include "gpu/reputation_image.hpp"
#include "gpu/stages/image.h"

namespace xdpgpu::gpu {
namespace {

using Check = Result<void>;

template <class... Args>
tl::unexpected<std::string> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected(fmt::format(format, std::forward<Args>(args)...));
}

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

Check check_ports(const std::vector<PortRange>& ranges) {
  for (const PortRange& range : ranges)
    if (range.first > range.last)
      return refuse("port range {}-{} ends before it begins", range.first, range.last);
  return {};
}

Check check(const AclRule& rule) {
  return check_prefixes(rule.src)
      .and_then([&] { return check_prefixes(rule.dst); })
      .and_then([&] { return check_ports(rule.src_ports); })
      .and_then([&] { return check_ports(rule.dst_ports); })
      .and_then([&] { return check_target(rule.action == AclRule::Action::redirect, rule.target); });
}

// What stands for packets that nothing else decides.
Check check_otherwise(AclRule::Action otherwise) {
  if (otherwise == AclRule::Action::tx || otherwise == AclRule::Action::redirect)
    return refuse("its action for packets that no rule matches must be next, drop or pass");
  return {};
}

Check check(const AclSettings& stage) {
  if (stage.rules.size() > kAclMaxRules)
    return refuse("{} rules are more than the {} it takes: use a prefix list for addresses",
                  stage.rules.size(), kAclMaxRules);
  if (auto checked = check_otherwise(stage.otherwise); !checked) return checked;
  for (std::size_t i = 0; i < stage.rules.size(); i++)
    if (auto checked = check(stage.rules[i]); !checked)
      return refuse("rule {} (\"{}\"): {}", i + 1, stage.rules[i].name, checked.error());
  return {};
}

Check check(const LoadBalanceSettings& stage) {
  if (stage.backends.empty() || stage.backends.size() > 256)
    return refuse("it has {} backends, 1 to 256 are possible", stage.backends.size());
  for (const Backend& backend : stage.backends) {
    if (backend.weight < 1 || backend.weight > 1000)
      return refuse("backend \"{}\" has weight {}, 1 to 1000 is possible", backend.name, backend.weight);
    if (auto checked = check_target(backend.to_port, backend.target); !checked)
      return refuse("backend \"{}\": {}", backend.name, checked.error());
  }
  return {};
}

Check check(const L2fwdSettings& stage) { return check_target(stage.to_port, stage.target); }

Check check(const ReputationSettings& stage) {
  if (stage.lists.empty() || stage.lists.size() > kMaxReputationLists)
    return refuse("it has {} lists, 1 to {} are possible", stage.lists.size(), kMaxReputationLists);
  for (const ReputationList& list : stage.lists) {
    auto checked = check_prefixes(list.prefixes).and_then([&] {
      return check_target(list.action == AclRule::Action::redirect, list.target);
    });
    if (!checked) return refuse("list \"{}\": {}", list.name, checked.error());
  }
  return check_otherwise(stage.otherwise);
}

Check check(const ForwardSettings& stage) {
  if (stage.next_hops.size() > kMaxNextHops)
    return refuse("it has {} next hops, {} are possible", stage.next_hops.size(), kMaxNextHops);
  for (const NextHop& hop : stage.next_hops)
    if (auto checked = check_target(hop.to_port, hop.target); !checked)
      return refuse("next hop \"{}\": {}", hop.name, checked.error());
  for (const Route& route : stage.routes) {
    if (auto checked = check_prefix(route.prefix); !checked) return checked;
    if (route.next_hop >= stage.next_hops.size() && route.next_hop != kRoutePass &&
        route.next_hop != kRouteDrop)
      return refuse("a route leads to next hop {}, there are {}", route.next_hop + 1, stage.next_hops.size());
  }
  return check_otherwise(stage.otherwise);
}

const char* stage_name(const StageSettings& stage) {
  constexpr std::array names{"acl", "load_balance", "l2fwd", "reputation", "forward"};
  static_assert(names.size() == std::variant_size_v<StageSettings>);
  return names[stage.index()];
}

// What a policy is compiled into.
struct Compiled {
  std::vector<u32> image;
  std::vector<xg_rewrite> rewrites;
};

struct Placed {
  u32 kind;
  u32 body;
};

Result<Placed> append(const AclSettings& stage, Compiled& to) {
  auto body = append_acl(stage, to.image);
  if (!body) return tl::unexpected(body.error());
  return Placed{XG_KIND_ACL_BITS, *body};
}

// The number of the rewrite that leads a cached flow to `backend`.
u32 add_rewrite(const Backend& backend, std::vector<xg_rewrite>& rewrites) {
  const u32 number = XG_REWRITE_FIRST + static_cast<u32>(rewrites.size());
  if (number >= XG_REWRITE_HALF) return XG_LB_NO_REWRITE;
  xg_rewrite& rewrite = rewrites.emplace_back();
  rewrite.flags = XG_RES_SET_DST_MAC | XG_REWRITE_SRC_FROM_DST;
  std::copy(backend.mac.begin(), backend.mac.end(), rewrite.dst_mac);
  return number;
}

Result<Placed> append(const LoadBalanceSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 at = static_cast<u32>(image.size());
  image.insert(image.end(),
               {stage.cache ? 1u : 0u, stage.cache_ttl_ms, 0u, static_cast<u32>(stage.backends.size())});
  u32 end = 0;
  for (const Backend& backend : stage.backends) {
    end += backend.weight;
    const auto mac = mac_words(backend.mac);
    image.insert(image.end(), {end, mac[0], mac[1], send_word(backend.to_port, backend.target, 0),
                               stage.cache ? add_rewrite(backend, to.rewrites) : XG_LB_NO_REWRITE});
  }
  image[at + XG_LB_TOTAL] = end;
  return Placed{XG_KIND_LOAD_BALANCE, at};
}

Result<Placed> append(const L2fwdSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 at = static_cast<u32>(image.size());
  image.insert(image.end(),
               {stage.cache ? 1u : 0u, stage.cache_ttl_ms, send_word(stage.to_port, stage.target, 0)});
  return Placed{XG_KIND_L2FWD, at};
}

Result<Placed> append(const ReputationSettings& stage, Compiled& to) {
  auto body = append_reputation(stage, to.image);
  if (!body) return tl::unexpected(body.error());
  return Placed{XG_KIND_REPUTATION, *body};
}

Result<Placed> append(const ForwardSettings& stage, Compiled& to) {
  auto body = append_forward(stage, to.image, to.rewrites);
  if (!body) return tl::unexpected(body.error());
  return Placed{XG_KIND_FORWARD, *body};
}

Result<Compiled> build(const std::vector<PipelineSettings>& settings) {
  const u32 pipelines = static_cast<u32>(settings.size());
  Compiled compiled;
  std::vector<u32>& image = compiled.image;
  image.resize(XG_IMAGE_HEADER + pipelines * 2, 0);
  image[XG_IMAGE_MAGIC_AT] = XG_IMAGE_MAGIC;
  image[XG_IMAGE_PIPELINES_AT] = pipelines;
  image[XG_IMAGE_TABLE_AT] = XG_IMAGE_HEADER;
  for (u32 p = 0; p < pipelines; p++) {
    const PipelineSettings& pipeline = settings[p];
    if (pipeline.stages.size() > XG_MAX_STAGES)
      return refuse("pipeline \"{}\" has {} stages, {} are possible", pipeline.name, pipeline.stages.size(),
                    XG_MAX_STAGES);
    std::vector<u32> stages;
    for (std::size_t s = 0; s < pipeline.stages.size(); s++) {
      const StageSettings& stage = pipeline.stages[s];
      auto placed = std::visit([](const auto& what) { return check(what); }, stage).and_then([&] {
        return std::visit([&](const auto& what) { return append(what, compiled); }, stage);
      });
      if (!placed)
        return refuse("pipeline \"{}\", stage {} ({}): {}", pipeline.name, s + 1, stage_name(stage),
                      placed.error());
      stages.insert(stages.end(), {placed->kind, placed->body});
    }
    image[XG_IMAGE_HEADER + p * 2] = static_cast<u32>(image.size());
    image[XG_IMAGE_HEADER + p * 2 + 1] = static_cast<u32>(pipeline.stages.size());
    image.insert(image.end(), stages.begin(), stages.end());
  }
  image[XG_IMAGE_WORDS_AT] = static_cast<u32>(image.size());
  return compiled;
}

}  // namespace

Result<std::shared_ptr<const Pipelines>> Pipelines::compile(std::vector<PipelineSettings> settings) {
  if (settings.size() > 65535)
    return refuse("a policy has {} pipelines, 65535 are possible", settings.size());
  try {
    auto compiled = build(settings);
    if (!compiled) return tl::unexpected(compiled.error());
    std::shared_ptr<Pipelines> pipelines(new Pipelines);
    pipelines->settings_ = std::move(settings);
    pipelines->image_ = std::move(compiled->image);
    pipelines->rewrites_ = std::move(compiled->rewrites);
    return pipelines;
  } catch (const std::bad_alloc&) {
    return refuse("there is not enough memory to compile the pipelines: free some, or use fewer rules");
  }
}

}  // namespace xdpgpu::gpu
