// SPDX-License-Identifier: MIT
#include "gpu/reference/inner.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <variant>

namespace xdpgpu::gpu::reference {
namespace {

using Bytes = std::span<const u8>;

// Of the frame's first bytes those that inner headers may be read from, and where a header may begin.
constexpr std::size_t kReach = 512;
constexpr std::size_t kLastBegin = kReach - (8 + 60 + 8);

constexpr u16 kAboutHeaders = XG_PKT_IPV4 | XG_PKT_IPV6 | XG_PKT_TCP | XG_PKT_UDP | XG_PKT_ICMP |
                              XG_PKT_SCTP | XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_MALFORMED |
                              XG_PKT_PORTS | XG_PKT_TRACKED;

struct Malformed {};  // or of a kind that is not known
struct NoPayload {};  // a message of the tunnel's own
struct NotIp {};      // a frame of something else

// An IP packet that begins at byte `begin` of the frame.
struct IpPacket {
  xg_metadata headers{};  // flags, protocol and offsets, but for that of its own
  u32 begin = 0;
  Bytes src, dst, ports;
};

u32 number(Bytes bytes, std::size_t at) { return bytes[at] * 256u + bytes[at + 1]; }

// A layer of the packet: what is left of it. Taking more than there is, or can be read, throws Malformed.
class Layer {
 public:
  // bytes: of the frame, from its first one on; [begin, end): the layer's, which may end behind them.
  Layer(Bytes bytes, std::size_t begin, std::size_t end) : bytes_(bytes), begin_(begin), end_(end) {}

  std::size_t begin() const { return begin_; }
  std::size_t left() const { return end_ > begin_ ? end_ - begin_ : 0; }
  bool has(std::size_t count) const {
    return begin_ <= kLastBegin && count <= left() && begin_ + count <= bytes_.size();
  }
  Bytes peek(std::size_t count) const {
    if (!has(count)) throw Malformed();
    return bytes_.subspan(begin_, count);
  }
  Bytes take(std::size_t count) {
    const Bytes taken = peek(count);
    begin_ += count;
    return taken;
  }
  void skip(std::size_t count) { begin_ += count; }
  // The layer is no longer than that, by what its header says.
  void ends_after(std::size_t count) {
    if (count > left()) throw Malformed();
    end_ = begin_ + count;
  }

 private:
  Bytes bytes_;
  std::size_t begin_, end_;
};

bool is_tunnel_port(u32 port) {
  constexpr std::array<u32, 4> kPorts{4789, 6081, 2152, 6080};
  return std::find(kPorts.begin(), kPorts.end(), port) != kPorts.end();
}

// ports: those of the packet, or nothing.
bool has_tunnel(u32 protocol, Bytes ports) {
  switch (protocol) {
    case 4:
    case 41:
    case 47:
      return true;
    case 17:
      return !ports.empty() && is_tunnel_port(number(ports, 2));
    default:
      return false;
  }
}

// ---- IP ------------------------------------------------------------------------------------------------

// The L4 header, at the layer's beginning.
void read_l4(Layer layer, u32 protocol, u32 icmp, IpPacket& packet) {
  struct Kind {
    u32 protocol;
    u32 flag;
    std::size_t header;
  };
  const std::array<Kind, 4> kinds{
      {{6, XG_PKT_TCP, 20}, {17, XG_PKT_UDP, 8}, {132, XG_PKT_SCTP, 12}, {icmp, XG_PKT_ICMP, 8}}};
  const auto kind =
      std::find_if(kinds.begin(), kinds.end(), [&](const Kind& one) { return one.protocol == protocol; });
  const bool fragment = (packet.headers.flags & XG_PKT_FRAGMENT) != 0;
  if (layer.left() == 0) {
    if (kind != kinds.end() && !fragment) throw Malformed();
    return;
  }
  if (layer.begin() > kLastBegin) throw Malformed();
  packet.headers.l4_offset = static_cast<u16>(layer.begin());
  if (kind == kinds.end()) return;
  packet.headers.flags = static_cast<u16>(packet.headers.flags | kind->flag);
  // Fragments go on in others.
  const auto missing = [&] {
    if (!fragment) throw Malformed();
  };
  if (protocol != icmp) {
    if (!layer.has(4)) return missing();
    packet.headers.flags |= XG_PKT_PORTS;
    packet.ports = layer.peek(4);
  }
  if (!layer.has(kind->header)) return missing();
  const Bytes header = layer.peek(kind->header);
  std::size_t length = kind->header;
  if (protocol == 6) {
    length = (header[12] >> 4) * std::size_t{4};
    if (length < 20) throw Malformed();
    if (length > layer.left()) return missing();
  }
  packet.headers.payload_offset = static_cast<u16>(layer.begin() + length);
  if (protocol != 17) return;
  if (number(header, 4) < 8) throw Malformed();
  if (number(header, 4) > layer.left()) missing();
}

IpPacket read_ipv4(Layer layer) {
  IpPacket packet;
  packet.begin = static_cast<u32>(layer.begin());
  const Bytes header = layer.peek(20);
  const std::size_t own = header[0] % 16 * std::size_t{4};
  if (header[0] / 16 != 4 || own < 20) throw Malformed();
  const u32 total = number(header, 2);
  layer.ends_after(total);
  if (total < own) throw Malformed();
  const bool more = (header[6] & 0x20) != 0;
  const u32 offset = number(header, 6) % 8192 * 8;
  packet.headers.flags = XG_PKT_IPV4;
  if (more || offset != 0) packet.headers.flags |= XG_PKT_FRAGMENT;
  packet.headers.protocol = header[9];
  packet.src = header.subspan(12, 4);
  packet.dst = header.subspan(16, 4);
  layer.skip(own);
  if (offset == 0) {
    read_l4(layer, header[9], 1, packet);
    return packet;
  }
  if (offset + total > 65535) throw Malformed();
  packet.headers.flags |= XG_PKT_LATER_FRAGMENT;
  packet.headers.payload_offset = static_cast<u16>(layer.begin());
  return packet;
}

bool is_extension(u32 next) { return next == 0 || next == 43 || next == 44 || next == 51 || next == 60; }

IpPacket read_ipv6(Layer layer) {
  IpPacket packet;
  packet.begin = static_cast<u32>(layer.begin());
  const Bytes header = layer.take(40);
  if (header[0] / 16 != 6) throw Malformed();
  u32 next = header[6];
  const u32 payload = number(header, 4);
  const bool jumbogram = payload == 0 && next == 0;
  if (!jumbogram) layer.ends_after(payload);
  packet.headers.flags = XG_PKT_IPV6;
  packet.src = header.subspan(8, 16);
  packet.dst = header.subspan(24, 16);
  for (int number_of = 0; is_extension(next); number_of++) {
    if (number_of == 8 || (next == 0 && number_of != 0)) throw Malformed();
    const Bytes start = layer.peek(8);
    const u32 kind = next;
    next = start[0];
    if (kind != 44) {
      const std::size_t length =
          kind == 51 ? (start[1] + std::size_t{2}) * 4 : (start[1] + std::size_t{1}) * 8;
      if (length > layer.left()) throw Malformed();
      layer.skip(length);
      continue;
    }
    if ((packet.headers.flags & XG_PKT_FRAGMENT) != 0) throw Malformed();
    layer.skip(8);
    const u32 offset = number(start, 2) / 8 * 8;
    if (offset + layer.left() > 65535) throw Malformed();
    packet.headers.flags |= XG_PKT_FRAGMENT;
    if (offset == 0) continue;
    packet.headers.flags |= XG_PKT_LATER_FRAGMENT;
    packet.headers.protocol = static_cast<u8>(next);
    packet.headers.payload_offset = static_cast<u16>(layer.begin());
    return packet;
  }
  packet.headers.protocol = static_cast<u8>(next);
  read_l4(layer, next, 58, packet);
  return packet;
}

// ---- Tunnels -------------------------------------------------------------------------------------------

using Inside = std::variant<IpPacket, NotIp, NoPayload>;

Inside read_by_type(Layer layer, u32 ether_type);

Inside read_ethernet(Layer layer) {
  u32 type = number(layer.take(14), 12);
  for (int tags = 0; type == 0x8100 || type == 0x88a8 || type == 0x9100; tags++) {
    if (tags == 2) throw Malformed();
    type = number(layer.take(4), 2);
  }
  if (type != 0x0800 && type != 0x86dd) return NotIp();
  return read_by_type(layer, type);
}

Inside read_by_type(Layer layer, u32 ether_type) {
  if (ether_type == 0x6558) return read_ethernet(layer);
  if (ether_type == 0x0800) return read_ipv4(layer);
  if (ether_type == 0x86dd) return read_ipv6(layer);
  throw Malformed();
}

// By its first byte.
Inside read_either(Layer layer) {
  const u32 version = layer.peek(1)[0] / 16;
  return read_by_type(layer, version == 4 ? 0x0800 : version == 6 ? 0x86dd : 0);
}

Inside read_gre(Layer layer) {
  const Bytes header = layer.take(4);
  constexpr u8 kChecksum = 0x80, kKey = 0x20, kSequence = 0x10;
  if ((header[0] & ~(kChecksum | kKey | kSequence)) != 0 || header[1] != 0) throw Malformed();
  for (const u8 flag : {kChecksum, kKey, kSequence})
    if ((header[0] & flag) != 0) layer.skip(4);
  return read_by_type(layer, number(header, 2));
}

Inside read_vxlan(Layer layer) {
  const u8 flags = layer.take(8)[0];
  if (flags != 0x08 && flags != 0x88) throw Malformed();
  return read_ethernet(layer);
}

Inside read_geneve(Layer layer) {
  const Bytes header = layer.take(8);
  if (header[0] >= 0x40) throw Malformed();
  layer.skip(header[0] * std::size_t{4});
  return read_by_type(layer, number(header, 2));
}

Inside read_gtp(Layer layer) {
  const Bytes header = layer.take(8);
  if (header[0] / 16 != 3) throw Malformed();
  if (header[1] != 255) return NoPayload();
  layer.ends_after(number(header, 2));
  if (header[0] % 8 != 0) {
    const Bytes optional = layer.take(4);
    u8 next = (header[0] & 4) != 0 ? optional[3] : u8{0};
    for (int extensions = 0; next != 0; extensions++) {
      if (extensions == 8) throw Malformed();
      const std::size_t length = layer.peek(4)[0] * std::size_t{4};
      if (length == 0) throw Malformed();
      layer.skip(length - 1);
      next = layer.take(1)[0];
    }
  }
  return read_either(layer);
}

Inside read_gue(Layer layer) {
  const Bytes header = layer.peek(4);
  const u32 variant = header[0] / 64;
  if (variant == 1) return read_either(layer);
  if (variant != 0) throw Malformed();
  if ((header[0] & 0x20) != 0) return NoPayload();
  if (number(header, 2) != 0) throw Malformed();
  layer.skip(4 + header[0] % 32 * std::size_t{4});
  return read_by_type(layer, header[1] == 4 ? 0x0800 : header[1] == 41 ? 0x86dd : 0);
}

// What the packet carries, which has a tunnel header.
Inside read_inside(const Packet& packet) {
  const xg_metadata& outer = packet.metadata;
  const u32 l3 = outer.l3_offset;
  if (packet.is(XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_TRACKED | XG_PKT_MALFORMED))
    throw Malformed();
  if (outer.l4_offset == 0) throw Malformed();
  const bool v4 = packet.src.size() == 4;
  std::size_t end = v4 ? l3 + number(packet.frame, l3 + 2) : l3 + 40 + number(packet.frame, l3 + 4);
  Layer layer(packet.frame, outer.l4_offset, end);
  if (outer.protocol == 4) return read_ipv4(layer);
  if (outer.protocol == 41) return read_ipv6(layer);
  if (outer.protocol == 47) return read_gre(layer);
  const Bytes udp = layer.peek(8);
  end = std::min<std::size_t>(end, outer.l4_offset + number(udp, 4));
  layer = Layer(packet.frame, outer.l4_offset + 8u, end);
  switch (number(packet.ports, 2)) {
    case 4789:
      return read_vxlan(layer);
    case 6081:
      return read_geneve(layer);
    case 2152:
      return read_gtp(layer);
    default:
      return read_gue(layer);
  }
}

// Has the packet no headers.
void forget(Packet& packet) {
  packet.metadata.flags = static_cast<u16>(packet.metadata.flags & ~kAboutHeaders);
  packet.metadata.protocol = 0;
  packet.metadata.l4_offset = packet.metadata.payload_offset = 0;
  packet.l3 = 0;
  packet.src = packet.dst = packet.ports = packet.tcp = {};
}

void become(const IpPacket& inner, Packet& packet) {
  forget(packet);
  packet.metadata.flags |= inner.headers.flags;
  packet.metadata.protocol = inner.headers.protocol;
  packet.metadata.l4_offset = inner.headers.l4_offset;
  packet.metadata.payload_offset = inner.headers.payload_offset;
  packet.l3 = inner.begin;
  packet.src = inner.src;
  packet.dst = inner.dst;
  packet.ports = inner.ports;
  if (packet.is(XG_PKT_TCP) && !packet.is(XG_PKT_FRAGMENT))
    packet.tcp = header(packet, packet.metadata.l4_offset, 20);
}

}  // namespace

void look_inside(Packet& packet) {
  if (packet.src.empty() || !has_tunnel(packet.metadata.protocol, packet.ports)) return;
  try {
    const Inside inside = read_inside(packet);
    if (std::holds_alternative<NoPayload>(inside)) return;
    if (std::holds_alternative<NotIp>(inside)) return forget(packet);
    const auto& inner = std::get<IpPacket>(inside);
    if (has_tunnel(inner.headers.protocol, inner.ports)) throw Malformed();
    become(inner, packet);
  } catch (const Malformed&) {
    forget(packet);
    packet.metadata.flags |= XG_PKT_MALFORMED;
  }
}

}  // namespace xdpgpu::gpu::reference
