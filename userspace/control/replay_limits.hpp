// SPDX-License-Identifier: MIT
//
// userspace/control/replay_limits.hpp: what the XDP program counts in time, by a capture's clock.
//
//   ReplayLimits   the limits of rules
//   ReplayExempt   management's flows, and the rates of what passes ahead of the rules
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <tuple>

#include "maps/exempt.h"
#include "maps/tables.h"

namespace xdpgpu::control {

// The limits of rules by the capture's clock (GCRA, as bpf/rules.bpf.h counts).
class ReplayLimits {
 public:
  bool conforms(const xg_rule& rule, u32 index, const xg_packet& packet, u64 now_ns) {
    Key key{index, 0, {}};
    const u32* address = rule.limit_per == XG_LIMIT_PER_SRC   ? packet.key.src
                         : rule.limit_per == XG_LIMIT_PER_DST ? packet.key.dst
                                                              : nullptr;
    if (address) {
      std::copy_n(address, 4, std::get<2>(key).begin());
      std::get<1>(key) = packet.key.family;
    }
    const u64 now = now_ns << 8;
    u64& tat = times_.try_emplace(key, now).first->second;
    const auto ahead = static_cast<std::int64_t>(tat - now);
    if (ahead > static_cast<std::int64_t>(rule.burst_ns)) return false;
    tat = (ahead > 0 ? tat : now) + rule.interval_ns;
    return true;
  }

 private:
  using Key = std::tuple<u32, u8, std::array<u32, 4>>;  // rule, family, address
  std::map<Key, u64> times_;
};

// Management's flows and the rates of what passes ahead of the rules, by the capture's clock (as
// bpf/exempt.bpf.h). No sender is known: replay has no host's neighbours.
class ReplayExempt {
 public:
  explicit ReplayExempt(const xg_policy& header) : header_(header) {}

  void note_management(const xg_packet& packet, u64 now_ns) {
    if (!xg_management_kind(&packet, 0)) return;
    flows_[key_of(packet, 0)] = now_ns;
  }
  bool is_answer(const xg_packet& packet, u64 now_ns) {
    if (!xg_management_kind(&packet, 1)) return false;
    const bool tcp = (packet.flags & (XG_PKT_TCP | XG_PKT_FRAGMENT)) == XG_PKT_TCP;
    if (tcp && !xg_management_tcp_answer(packet.tcp_flags)) return false;
    const auto seen = flows_.find(key_of(packet, 1));
    if (seen != flows_.end() && now_ns - seen->second < XG_MANAGEMENT_IDLE_NS) return true;
    return tcp && conforms(XG_RATE_ANSWERS, XG_SHARE_ALL, 1, now_ns);
  }
  bool within_rate(const xg_packet& packet, u64 now_ns) {
    if (packet.control > XG_CONTROL_DHCP) return conforms(packet.control, XG_SHARE_ALL, 1, now_ns);
    if (packet.answer) return conforms(packet.control, XG_SHARE_ANSWERS, 4, now_ns);
    return conforms(packet.control, XG_SHARE_REQUESTS, 2, now_ns);
  }

 private:
  using Key = std::array<u8, sizeof(xg_management_flow)>;
  static Key key_of(const xg_packet& packet, int reverse) {
    xg_management_flow flow;
    xg_management_flow_of(&packet, reverse, &flow);
    return std::bit_cast<Key>(flow);
  }
  bool conforms(u32 kind, u32 share, u64 parts, u64 now_ns) {
    const xg_rate& rate = header_.rates[kind];
    const u64 now = now_ns << 8, less = rate.interval_ns * (parts - 1);
    const u64 burst = rate.burst_ns > less ? rate.burst_ns - less : 0;
    u64& tat = times_[kind][share];
    const auto ahead = static_cast<std::int64_t>(tat - now);
    if (ahead > static_cast<std::int64_t>(burst)) return false;
    tat = (ahead > 0 ? tat : now) + rate.interval_ns * parts;
    return true;
  }

  xg_policy header_;
  std::map<Key, u64> flows_;
  u64 times_[XG_RATES][3]{};
};

}  // namespace xdpgpu::control
