// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/prefix_tree_image.hpp"
#include "gpu/stages/compilers.hpp"
#include "gpu/stages/forward/device.h"

namespace xdpgpu::gpu {
namespace {

static_assert(forward_rule::kPass == XG_FWD_RULE_PASS && forward_rule::kDrop == XG_FWD_RULE_DROP &&
              forward_rule::kInvalid == XG_FWD_RULE_INVALID && forward_rule::kTtl == XG_FWD_RULE_TTL &&
              forward_rule::kOptions == XG_FWD_RULE_OPTIONS && forward_rule::kMtu == XG_FWD_RULE_MTU &&
              forward_rule::kForeign == XG_FWD_RULE_FOREIGN &&
              forward_rule::kChecksum == XG_FWD_RULE_CHECKSUM);
static_assert(kMaxNextHops < forward_rule::kPass && forward_rule::kChecksum <= XG_MAX_STAGE_RULES);

// Behind the next hops stand the two other ways that a route may lead.
u32 value_of(const Route& route, u32 next_hops) {
  if (route.next_hop == kRoutePass) return next_hops + 1;
  if (route.next_hop == kRouteDrop) return next_hops + 2;
  return route.next_hop + 1;
}

template <class To>
LargeVector<To> prefixes_of(const ForwardSettings& settings) {
  constexpr u8 kFamily = To::kWidth == 32 ? 4 : 6;
  const auto next_hops = static_cast<u32>(settings.next_hops.size());
  LargeVector<To> prefixes;
  prefixes.reserve(static_cast<std::size_t>(
      std::count_if(settings.routes.begin(), settings.routes.end(),
                    [](const Route& route) { return route.prefix.family == kFamily; })));
  for (const Route& route : settings.routes) {
    if (route.prefix.family != kFamily) continue;
    TreeAddress address{};
    for (u32 i = 0; i < To::kWidth / 8; i++)
      address[i / 4] |= u32{route.prefix.address[i]} << (24 - i % 4 * 8);
    prefixes.emplace_back(address, route.prefix.length, value_of(route, next_hops));
  }
  return prefixes;
}

xg_rewrite rewrite_of(const NextHop& hop) {
  xg_rewrite rewrite{};
  rewrite.flags = XG_REWRITE_DST_MAC | XG_REWRITE_FORWARD |
                  (hop.own_source ? XG_REWRITE_SRC_MAC : XG_REWRITE_SRC_FROM_DST);
  std::copy(hop.mac.begin(), hop.mac.end(), rewrite.dst_mac);
  std::copy(hop.source.begin(), hop.source.end(), rewrite.src_mac);
  rewrite.mtu = hop.mtu;
  return rewrite;
}

void append_hop(std::vector<u32>& image, u32 action, const NextHop& hop) {
  const auto dst = mac_words(hop.mac), src = mac_words(hop.source);
  image.insert(image.end(), {action, dst[0], dst[1], src[0], src[1], hop.own_source ? 1u : 0u, hop.mtu,
                             XG_FWD_NO_REWRITE});
}

}  // namespace

Check check(const ForwardSettings& stage) {
  for (const Route& route : stage.routes)
    if (route.next_hop >= stage.next_hops.size() && route.next_hop != kRoutePass &&
        route.next_hop != kRouteDrop)
      return refuse("a route leads to next hop {}, there are {}", route.next_hop + 1, stage.next_hops.size());
  return {};
}

Result<Placed> emit(const ForwardSettings& settings, Compiled& to) {
  std::vector<u32>& image = to.image;
  std::vector<u32> body(XG_FWD_WORDS, 0);
  body[XG_BODY_CACHE] = settings.cache ? 1 : 0;
  body[XG_BODY_TTL] = settings.cache_ttl_ms;
  body[XG_FWD_OTHERWISE] = action_word(settings.otherwise, 0, 0);
  body[XG_FWD_HOPS] = static_cast<u32>(image.size());
  for (u32 i = 0; i < settings.next_hops.size(); i++) {
    const NextHop& hop = settings.next_hops[i];
    if (settings.cache) to.rewritten({to.here() + XG_FWD_REWRITE}, rewrite_of(hop));
    append_hop(image, send_word(hop.to_port, hop.target, i + 1), hop);
  }
  append_hop(image, action_word(Action::pass, 0, XG_FWD_RULE_PASS), {});
  append_hop(image, action_word(Action::drop, 0, XG_FWD_RULE_DROP), {});
  make_room_for_trees(settings.routes.size(), image);
  auto appended =
      append_prefix_tree(prefixes_of<TreePrefix4>(settings), image, &body[XG_FWD_V4]).and_then([&] {
        return append_prefix_tree(prefixes_of<TreePrefix6>(settings), image, &body[XG_FWD_V6]);
      });
  if (!appended) return tl::unexpected(appended.error());
  const u32 at = to.here();
  image.insert(image.end(), body.begin(), body.end());
  to.points(at + XG_FWD_HOPS);
  to.tree_at(at + XG_FWD_V4);
  to.tree_at(at + XG_FWD_V6);
  return Placed{at};
}

std::optional<std::string> sends(const ForwardSettings&) { return ""; }

bool drops(const ForwardSettings& stage) {
  return stage.otherwise == Action::drop ||
         std::any_of(stage.routes.begin(), stage.routes.end(),
                     [](const Route& route) { return route.next_hop == kRouteDrop; });
}

void settle(ForwardSettings& stage, const Written& written) {
  written.each("next_hops", stage.next_hops.size(), [&](std::size_t i, const Written& hop) {
    const std::string& name = stage.next_hops[i].name;
    if (name == "pass" || name == "drop")
      hop.refuse(
          "",
          fmt::format("a next hop cannot be named \"{}\": routes to it lead to the host, or nowhere", name));
  });
}

std::vector<std::string> notes(const ForwardSettings& stage, const StagePlace& place) {
  std::vector<std::string> found;
  for (const RouteSource& source : stage.sources)
    if (source.count == 0 && !source.file.empty())
      found.push_back(fmt::format("no route stands in {}{}; fetch the file again, or look at what is in it",
                                  source.file, place.where()));
  return found;
}

std::string describe(const ForwardSettings& stage, u32 rule, const xg_result*) {
  if (rule != 0 && rule <= stage.next_hops.size())
    return fmt::format(" next hop {}", stage.next_hops[rule - 1].name);
  switch (rule) {
    case forward_rule::kPass:
      return " route to the host";
    case forward_rule::kDrop:
      return " route to nowhere";
    case forward_rule::kInvalid:
      return " not to be forwarded";
    case forward_rule::kTtl:
      return " last hop";
    case forward_rule::kOptions:
      return " header options";
    case forward_rule::kMtu:
      return " longer than the MTU";
    case forward_rule::kForeign:
      return " not addressed to this port";
    case forward_rule::kChecksum:
      return " wrong header checksum";
    default:
      return " no route";
  }
}

}  // namespace xdpgpu::gpu
