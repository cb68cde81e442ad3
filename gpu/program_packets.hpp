// SPDX-License-Identifier: MIT
//
// gpu/program_packets.hpp: what a program does to its packet, and puts out for it, found before it runs, as
// far as it is plain.
#pragma once

#include <optional>
#include <string>

#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

struct PacketChange {
  u32 instruction = 0;
  std::string what;  // "calls bpf_xdp_adjust_head"
};
// The first instruction that moves the packet's head or tail, or that stores to it by a register that holds
// nothing else; nothing: none is plain, and a store may still turn out to be one.
std::optional<PacketChange> change_of_packet(const Program& program);

// The first instruction that puts something out for a packet (bpf_perf_event_output, bpf_ringbuf_output,
// bpf_ringbuf_reserve),
// and of which helper it is a call; nothing: none does.
std::optional<PacketChange> output_of(const Program& program);

// The first one that does so, or reserves it, for more bytes than a packet has room for (XG_EVENT_BYTES),
// where it is plain how many: the program is answered as if a ring were full.
std::optional<PacketChange> too_long_output_of(const Program& program);

// The first one that sends its packet out of several interfaces (bpf_redirect_map with BPF_F_BROADCAST),
// where that is plain.
std::optional<PacketChange> broadcast_of(const Program& program);

// Whether it redirects to interfaces: by their numbers, or by a map of them.
bool redirects_to_interfaces(const Program& program);

}  // namespace xdpgpu::gpu::programs
