// SPDX-License-Identifier: MIT
//
// userspace/control/describe.hpp: records in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/pipelines.hpp"
#include "maps/flow.h"
#include "maps/packet.h"

namespace xdpgpu::control {

// "1 packet", "2 packets"
std::string counted(u64 number, std::string_view noun);
// "pass", "drop", "tx", "redirect", "aborted"
std::string action_name(u32 action);
// "tcp", "udp", "icmp", "icmpv6", "sctp", or the number.
std::string protocol_name(u32 protocol);
// "10.0.0.1", "2001:db8::1"
std::string address_text(const u32 words[4], u32 family);
// "10.0.0.1:1234 > 10.0.0.2:80 tcp vlan 10"; "not IP" where there is no flow. packet_flags: the packet's
// XG_PKT_*; a fragment has no ports, its key holds the identification of its datagram: "fragment id 7".
std::string flow_text(const xg_flow_key& key, u32 packet_flags = 0);
// Who decided: "stage 1 (acl) rule 2 (web)", "end of pipeline web". pipeline: its settings, or nullptr
// where it is not known.
std::string decider_text(u32 verdict, const gpu::PipelineSettings* pipeline, const xg_result* result);

}  // namespace xdpgpu::control
