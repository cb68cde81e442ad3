// SPDX-License-Identifier: MIT
//
// tests/stages/stream_traffic.hpp: TCP connections as no network should have them.
#pragma once

#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {

// A few connections at a time, of IPv4 and IPv6, with VLAN tags, each of one pipeline: what both sides say, a
// few kilobytes of the letters that random rules look for, in segments of up to 1,400 bytes, in one buffer or
// two: in order and not, again, cut otherwise, with other bytes, beyond what is missing, and far away; with
// data on a SYN; half of them begin with a TLS ClientHello, more or less, and a third are HTTP; SYN, FIN and
// RST where they belong and where they do not. Numbers come round. Packets that the host sends, and some of
// random_traffic(), are among them.
Traffic streams(Random& random, u32 packets, u32 pipelines);
// The same in segments of up to 500 bytes, of which software Vulkan inspects each to its end.
Traffic short_streams(Random& random, u32 packets, u32 pipelines);

}  // namespace xdpgpu::tests
