// SPDX-License-Identifier: MIT
#include "userspace/control/fragment_track.hpp"

#include <cstring>

namespace xdpgpu::control {
namespace {

constexpr u32 kGeneration = 1;

// Of a first fragment, in the table.
u32 fate_of(u32 reason) {
  if (reason == XG_KERNEL_inspected) return XG_FATE_INSPECT;
  if (reason == XG_KERNEL_redirect_rule) return XG_FATE_DIVERT;
  return action_of(reason) == XG_PASS ? XG_FATE_PASS : XG_FATE_DROP;
}

}  // namespace

u32 FragmentTrack::begin(std::span<const u8> frame, xg_packet& packet, u64 now_ns) {
  outlived_ = false;
  packet.rule = XG_FRAGMENT_NO_RULE;
  if (packet.flags & XG_PKT_MALFORMED) return XG_FATE_UNKNOWN;  // let on by the policy
  const bool later = packet.flags & XG_PKT_LATER_FRAGMENT;
  if (xg_fragment_hides(&packet)) return XG_FATE_MALFORMED;
  u32 fate = XG_FATE_FIRST;
  if (later || packet.fragment_more) {
    auto& entries = buckets_[xg_fragment_bucket_of(&packet.key, 0, 0)].entries;
    for (xg_datagram& entry : entries)
      if (entry.generation != 0 && !xg_fragment_lives(&entry, now_ns) &&
          std::memcmp(&entry.key, &packet.key, sizeof(entry.key)) == 0) {
        entry = {};
        outlived_ = true;
      }
    const u64 header = xg_fragment_header(frame.data(), frame.data() + frame.size(), &packet, 0, 0);
    fate = later ? xg_fragment_later(entries, &packet.key, kGeneration, now_ns, packet.fragment_offset,
                                     &packet.rule)
                 : xg_fragment_first(entries, &packet.key, kGeneration, now_ns, header, packet.fragment_end);
  }
  if (later) packet.flags |= XG_PKT_TRACKED;
  if (fate == XG_FATE_FIRST) xg_track_first(&packet);
  if (fate == XG_FATE_MALFORMED) xg_parse_malformed(&packet, XG_MALFORMED_fragment_differs);
  return fate;
}

Decision FragmentTrack::decide(const policy::Tables& tables, std::span<const u8> frame, xg_packet& packet,
                               u64 now_ns, const Conforms& conforms, const WithinRate& within_rate) {
  outlived_ = false;
  const xg_policy& header = tables.header;
  const bool refused = packet.flags & XG_PKT_MALFORMED && header.malformed == XG_DO_DROP;
  if (refused || !(packet.flags & XG_PKT_FRAGMENT) || header.fragments != XG_DO_TRACK)
    return control::decide(tables, packet, conforms, within_rate);
  u32 fate = begin(frame, packet, now_ns);
  if (fate == XG_FATE_MALFORMED && header.malformed != XG_DO_DROP) fate = XG_FATE_UNKNOWN;
  Decision decision;
  decision.rule = packet.rule < header.rule_count ? packet.rule : -1;
  switch (fate) {
    case XG_FATE_FIRST: {
      decision = control::decide(tables, packet, conforms, within_rate);
      if (!packet.fragment_more) return decision;
      xg_flow_key key;
      xg_fragment_key(&packet, &key);
      const u32 rule = decision.rule < 0 ? XG_FRAGMENT_NO_RULE : static_cast<u32>(decision.rule);
      xg_fragment_decide(buckets_[xg_fragment_bucket_of(&key, 0, 0)].entries, &key, kGeneration, now_ns,
                         fate_of(decision.reason), rule);
      return decision;
    }
    case XG_FATE_MALFORMED:
      decision.reason = XG_KERNEL_drop_malformed;
      break;
    case XG_FATE_INSPECT:
      decision.reason = XG_KERNEL_inspected;
      decision.pipeline = rule_at(tables, packet.rule).pipeline;
      break;
    case XG_FATE_DIVERT:
      decision.reason = XG_KERNEL_redirect_rule;
      break;
    case XG_FATE_PASS:
      decision.reason = XG_KERNEL_pass_fragment;
      break;
    case XG_FATE_DROP:
      decision.reason = XG_KERNEL_drop_fragment;
      break;
    default:
      decision.reason = header.default_action == XG_DO_DROP ? XG_KERNEL_drop_default : XG_KERNEL_pass_default;
  }
  return decision;
}

}  // namespace xdpgpu::control
