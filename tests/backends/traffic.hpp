// SPDX-License-Identifier: MIT
//
// tests/backends/traffic.hpp: packets in a frame region, as the data plane would hand them to a device:
// random ones, hostile ones, captured ones. The same seed gives the same traffic on every host.
#pragma once

#include <random>
#include <span>
#include <string>
#include <vector>

#include "maps/packet.h"

namespace xdpgpu::tests {

// Random numbers that do not depend on the standard library's distributions.
class Random {
 public:
  explicit Random(u64 seed) : engine_(seed) {}
  u32 below(u32 bound) { return static_cast<u32>(engine_() % bound); }
  u32 between(u32 first, u32 last) { return first + below(last - first + 1); }
  bool one_in(u32 chances) { return below(chances) == 0; }
  u64 bits() { return engine_(); }
  template <class Container>
  auto pick(const Container& values) {
    return values[below(static_cast<u32>(std::size(values)))];
  }

 private:
  std::mt19937_64 engine_;
};

// XDPGPU_TEST_SEED, or a new one each run; printed when it is first asked for.
u64 test_seed();

// Anonymous memory between two inaccessible pages: a device that leaves the region on the CPU crashes.
class FrameRegion {
 public:
  explicit FrameRegion(u64 bytes);
  ~FrameRegion();
  FrameRegion(FrameRegion&& other) noexcept;
  FrameRegion& operator=(FrameRegion&&) = delete;
  FrameRegion(const FrameRegion&) = delete;
  FrameRegion& operator=(const FrameRegion&) = delete;

  u8* base() const { return base_; }
  u64 size() const { return bytes_; }
  std::span<const u8> bytes() const { return {base_, bytes_}; }

 private:
  u8* base_ = nullptr;
  u64 bytes_ = 0;
};

struct Traffic {
  FrameRegion region;
  std::vector<xg_descriptor> descriptors;
};

inline constexpr u32 kGeneration = 7;

// `packets` random packets: VLAN tags, IPv4 with options, IPv6 with extension headers, fragments, TCP, UDP,
// ICMP, SCTP, GRE, ARP, LLDP, truncated and garbled ones, IP packets that end before their frame does, at
// every alignment; metadata by maps/parse.h and router.h: frames for other MAC addresses than their port's,
// and wrong header checksums, are among them. One in eight is hostile: descriptors that leave the region,
// metadata that lies. Their pipelines are below `pipelines`, hostile ones excepted. Addresses and ports come
// from the small pools that policies.hpp draws its rules from.
Traffic random_traffic(Random& random, u32 packets, u32 pipelines);
// Likewise, with frames of frame_of(), of up to 1,000 bytes, in the place of most of them, one of four in two
// buffers.
Traffic with_frames(Random& random, u32 packets, u32 pipelines, std::vector<u8> (*frame_of)(Random&));

// Likewise, three of four of them inside of IPv4 or IPv6 and, some, UDP to ports 6080 and 6081: whole and cut
// off, with each ECN, with outer options and extension headers, in fragments, in headers that contradict each
// other, and with bytes behind them. They lead to 10.0.0.0 to .7 and to 2001:db8:: to ::2.
Traffic tunnels(Random& random, u32 packets, u32 pipelines);

// The captures in `directory`, in order of their names, each packet cut to what fits a chunk.
Traffic captured_traffic(const std::string& directory, u32 pipelines);

// A frame placed at `offset` of the region with its metadata, as the kernel would have parsed it.
xg_descriptor place(const FrameRegion& region, u64 offset, std::span<const u8> frame, u16 pipeline,
                    u32 sequence);

// One well-formed frame, written to the start of a region of its own. router: what its metadata says of it
// (XG_ROUTER_*), whatever stands in the frame.
Traffic single_frame(std::span<const u8> frame, u16 pipeline, u8 router = XG_ROUTER_ALL);

// Packets between a few hosts: TCP with every flag in every state, UDP, ICMP echo, ICMP errors that quote
// such packets, IPv4 and IPv6, whole, cut off and garbled, over and over in both directions, among them some
// of random_traffic(). Their times go on by up to 40 ms, jump by up to an hour, and now and then run
// backwards.
Traffic conversations(Random& random, u32 packets, u32 pipelines);

// Floods of each kind that `ddos` tells, one after the other, to few targets and from one source or
// thousands, with other packets beside them and calm between them, and random_traffic() as above. A flood's
// packets are up to 3 ms apart; between two of them up to 20 s go by, and now and then times run backwards.
Traffic floods(Random& random, u32 packets, u32 pipelines);

enum class Tunnel { ipip, gre, gre_ethernet, vxlan, geneve, geneve_ethernet, gtp, gue_0, gue_1 };

// A frame, or the IP packet in it, inside of a tunnel between 192.0.2.1 and .2 (v4), or fd00::1 and ::2.
// extras: 0 to 7, which of the tunnel header's optional parts are there; one of 16 and more words where it
// has so many. Empty: such a tunnel does not carry it.
std::vector<u8> in_tunnel(Tunnel kind, bool v4, std::span<const u8> frame, u32 extras);
// Has the outer IP header, of no options, and the UDP header say how long the frame is.
void mend_outer_lengths(std::vector<u8>& frame);

// The packets of another stream, most of them inside of tunnels of each kind: whole and cut off, garbled, in
// fragments, one tunnel in the other, in one buffer or in two, with metadata that lie.
Traffic inside_tunnels(Random& random, Traffic from);
Traffic packets_in_tunnels(Random& random, u32 packets, u32 pipelines);  // of random_traffic()

// The pools.
u32 pool_address4(Random& random);                        // as a number, host order
void pool_address6(Random& random, std::span<u8> bytes);  // 16
u16 pool_port(Random& random);
u8 pool_protocol(Random& random);

}  // namespace xdpgpu::tests
