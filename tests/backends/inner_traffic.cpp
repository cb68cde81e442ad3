// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

#include "maps/parse.h"
#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {
namespace {

using Bytes = std::vector<u8>;

void put(Bytes& to, std::initializer_list<u32> bytes) {
  for (const u32 byte : bytes) to.push_back(static_cast<u8>(byte));
}
void put(Bytes& to, std::span<const u8> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }
void put16(Bytes& to, u32 value) { put(to, {value >> 8, value}); }
void set16(Bytes& in, std::size_t at, std::size_t value) {
  in[at] = static_cast<u8>(value >> 8);
  in[at + 1] = static_cast<u8>(value);
}
u32 get16(std::span<const u8> from, std::size_t at) { return from[at] * 256u + from[at + 1]; }

bool is_udp(Tunnel kind) {
  return kind != Tunnel::ipip && kind != Tunnel::gre && kind != Tunnel::gre_ethernet;
}
u32 port_of(Tunnel kind) {
  if (kind == Tunnel::vxlan) return 4789;
  if (kind == Tunnel::geneve || kind == Tunnel::geneve_ethernet) return 6081;
  return kind == Tunnel::gtp ? 2152 : 6080;
}

// extras: bits, for checksum, key and sequence number.
Bytes gre_header(u32 ether_type, u32 extras) {
  Bytes header;
  put(header, {(extras & 1) << 7 | (extras & 2) << 4 | (extras & 4) << 2, 0});
  put16(header, ether_type);
  for (u32 bit = 0; bit < 3; bit++)
    if ((extras >> bit & 1) != 0) put(header, {1, 2, 3, bit});
  return header;
}

// extras: words of options, of those in eights.
Bytes geneve_header(u32 ether_type, u32 extras) {
  Bytes header;
  put(header, {extras * 8, 0});
  put16(header, ether_type);
  put(header, {0, 0, 7, 0});
  header.resize(header.size() + extras * std::size_t{32}, 0x11);
  return header;
}

// extras: bits, for sequence number, N-PDU number, extension headers.
Bytes gtp_header(std::size_t payload, u32 extras) {
  Bytes header;
  const u32 bits = (extras & 1) << 1 | (extras & 2) >> 1 | (extras & 4);
  put(header, {0x30 | bits, 255, 0, 0, 1, 2, 3, 4});
  if (bits != 0) put(header, {0, 9, 0, (extras & 4) != 0 ? 0x85u : 0u});
  if ((extras & 4) != 0) put(header, {1, 0, 9, 0x40, 2, 1, 1, 1, 1, 1, 1, 0});
  set16(header, 2, header.size() - 8 + payload);
  return header;
}

// extras: words behind the header.
Bytes gue_header(u32 protocol, u32 extras) {
  Bytes header;
  put(header, {extras, protocol, 0, 0});
  header.resize(header.size() + extras * std::size_t{4}, 0x22);
  return header;
}

constexpr std::array<Tunnel, 9> kTunnels{Tunnel::ipip,  Tunnel::gre,    Tunnel::gre_ethernet,
                                         Tunnel::vxlan, Tunnel::geneve, Tunnel::geneve_ethernet,
                                         Tunnel::gtp,   Tunnel::gue_0,  Tunnel::gue_1};

// A tunnel with one thing or another that is wrong with it, mostly none.
Bytes random_tunnel(Random& random, std::span<const u8> frame) {
  const bool v4 = random.one_in(2);
  Bytes made = in_tunnel(random.pick(kTunnels), v4, frame, random.below(8));
  if (made.empty()) return made;
  if (random.one_in(24)) {
    const Bytes again = in_tunnel(random.pick(kTunnels), random.one_in(2), made, random.below(2));
    if (!again.empty() && again.size() < 1600) made = again;
  }
  // The first bytes are outer headers, then comes the tunnel's, then what is inside.
  if (random.one_in(6)) {
    const u32 last = std::min<u32>(static_cast<u32>(made.size()), 160) - 1;
    u8& byte = made[random.between(14, last)];
    byte = static_cast<u8>(byte ^ 1u << random.below(8));
  }
  if (random.one_in(24)) made[20] = random.pick(std::array<u8, 3>{0x20, 0x00, 0x40});  // IPv4: fragments
  if (random.one_in(12)) {
    // Cut off, with outer lengths that agree, mostly.
    made.resize(random.between(14, static_cast<u32>(made.size())));
    if (!random.one_in(4)) mend_outer_lengths(made);
  }
  if (random.one_in(6)) made.resize(made.size() + random.below(24), 0x5a);
  return made;
}

}  // namespace

void mend_outer_lengths(std::vector<u8>& frame) {
  if (frame.size() < 34) return;
  const bool v4 = get16(frame, 12) == 0x0800;
  const std::size_t l4 = v4 ? 34 : 54;
  set16(frame, v4 ? 16 : 18, frame.size() - (v4 ? 14 : l4));
  const u8 protocol = frame[v4 ? 23 : 20];
  if (protocol == 17 && frame.size() >= l4 + 8) set16(frame, l4 + 4, frame.size() - l4);
}

std::vector<u8> in_tunnel(Tunnel kind, bool v4, std::span<const u8> frame, u32 extras) {
  // Where the inner IP header stands.
  std::size_t l3 = 14;
  while (frame.size() >= l3 && xg_is_vlan(get16(frame, l3 - 2)) != 0) l3 += 4;
  if (frame.size() < l3) return {};
  const u32 type = get16(frame, l3 - 2);
  const bool ethernet =
      kind == Tunnel::gre_ethernet || kind == Tunnel::vxlan || kind == Tunnel::geneve_ethernet;
  if (!ethernet && type != 0x0800 && type != 0x86dd) return {};
  const std::span<const u8> inside = ethernet ? frame : frame.subspan(l3);
  const u32 inner_protocol = type == 0x0800 ? 4 : 41;

  Bytes header;
  if (kind == Tunnel::gre) header = gre_header(type, extras);
  if (kind == Tunnel::gre_ethernet) header = gre_header(0x6558, extras);
  if (kind == Tunnel::vxlan) put(header, {(extras & 1) != 0 ? 0x88u : 0x08u, 0, 0, 5, 0, 0, 9, 0});
  if (kind == Tunnel::geneve) header = geneve_header(type, extras);
  if (kind == Tunnel::geneve_ethernet) header = geneve_header(0x6558, extras);
  if (kind == Tunnel::gtp) header = gtp_header(inside.size(), extras);
  if (kind == Tunnel::gue_0) header = gue_header(inner_protocol, extras);

  const u32 protocol = is_udp(kind) ? 17 : kind == Tunnel::ipip ? inner_protocol : 47;
  Bytes made{0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2};
  put16(made, v4 ? 0x0800 : 0x86dd);
  if (v4) {
    put(made, {0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2});
  } else {
    put(made, {0x60, 0, 0, 0, 0, 0, protocol, 64});
    for (const u32 last : {1u, 2u}) put(made, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
  }
  if (is_udp(kind)) {
    put16(made, 0xc001);
    put16(made, port_of(kind));
    put(made, {0, 0, 0, 0});
  }
  put(made, header);
  put(made, inside);
  mend_outer_lengths(made);
  return made;
}

Traffic inside_tunnels(Random& random, Traffic from) {
  Traffic traffic{std::move(from.region), {}};
  for (std::size_t i = 0; i < from.descriptors.size(); i++) {
    xg_descriptor descriptor = from.descriptors[i];
    traffic.descriptors.push_back(descriptor);
    // Of hostile traffic, too: what descriptors and metadata say is there as it was.
    if (random.one_in(8) || descriptor.length < 14 || descriptor.length > 1300 ||
        descriptor.offset % XG_CHUNK_SIZE < XG_FRAME_DATA || descriptor.offset / XG_CHUNK_SIZE != i ||
        descriptor.offset % XG_CHUNK_SIZE + descriptor.length > XG_CHUNK_SIZE)
      continue;
    u8* const at = traffic.region.base() + descriptor.offset;
    const Bytes frame = random_tunnel(random, std::span<const u8>(at, descriptor.length));
    const u64 chunk_end = (i + 1) * u64{XG_CHUNK_SIZE};
    if (frame.size() < 14 || descriptor.offset + frame.size() > chunk_end) continue;
    std::memcpy(at, frame.data(), frame.size());
    // Of two buffers, one of eight: cut anywhere in the headers, and read by the first one.
    const auto length = static_cast<u32>(frame.size());
    const bool cut = random.one_in(8) && length > 40;
    descriptor.length = cut ? random.between(14, std::min(length - 1, 300u)) : length;
    xg_packet packet;
    xg_parse_part(at, at + descriptor.length, length, static_cast<u8>(i % 3), &packet);
    xg_metadata metadata;
    std::memcpy(&metadata, at - XG_METADATA_SIZE, sizeof(metadata));
    const u16 kept = metadata.flags & XG_PKT_EGRESS;
    const u8 router = metadata.router;
    xg_metadata_from(&metadata, &packet, metadata.flow_hash);
    metadata.flags |= kept;
    metadata.router = router;
    std::memcpy(at - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    // Flags, offsets and protocol that lie.
    if (random.one_in(24)) {
      u8& byte = (at - XG_METADATA_SIZE)[random.pick(std::array<u32, 6>{20, 21, 22, 24, 25, 30})];
      byte = static_cast<u8>(byte ^ 1u << random.below(8));
    }
    descriptor.flags = cut ? XG_DESC_MORE : descriptor.flags & ~XG_DESC_MORE;
    traffic.descriptors.back() = descriptor;
    if (cut)
      traffic.descriptors.push_back({descriptor.offset + descriptor.length, length - descriptor.length, 0});
  }
  return traffic;
}

Traffic packets_in_tunnels(Random& random, u32 packets, u32 pipelines) {
  Traffic traffic = random_traffic(random, packets, pipelines);
  return inside_tunnels(random, std::move(traffic));
}

}  // namespace xdpgpu::tests
