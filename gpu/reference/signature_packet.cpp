// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/reference/signature.hpp"
#include "gpu/reference/stage.hpp"
#include "maps/parse.h"

namespace xdpgpu::gpu::reference {
namespace {

constexpr u32 kEsp = 50;
constexpr u16 kDns = 53;

// A route's or a timestamp's pointer to its next free place, which counts from 1: one of the places, or
// behind them.
bool points_to_a_place(u32 pointer, u32 first, u32 size, u32 length) {
  return pointer >= first && (pointer - first) % size == 0 && pointer <= length + 1;
}

// An IPv4 option with a length, as it is taken for well-formed: RFC 791, 1108, 2113, 4782.
bool is_well_formed(std::span<const u8> option) {
  const auto length = static_cast<u32>(option.size());
  switch (option[0]) {
    case 7:    // record route
    case 131:  // loose source route
    case 137:  // strict source route
      return length >= 3 && option[2] % 4 == 0 && points_to_a_place(option[2], 4, 4, length);
    case 68:  // timestamp
      return length >= 5 &&
             points_to_a_place(option[2], 5, (option[3] & 15) == 1 || (option[3] & 15) == 3 ? 8 : 4, length);
    case 130:  // security
    case 133:  // extended security
      return length >= 3;
    case 136:  // stream identifier
      return length == 4;
    default:
      return false;
  }
}

// Of a message of ICMP: its header and what belongs to it by its type.
u32 icmp_header(std::span<const u8> message) {
  constexpr u32 kHeader = 8, kTimes = 12;
  const u8 type = message[0];
  u32 length = kHeader;
  if (type == 13 || type == 14) length += kTimes;
  if (type == 9) length += message[4] * message[5] * 4u;
  return length <= message.size() ? length : kHeader;
}

bool is_echo6(std::span<const u8> message) {
  return (message[0] == 128 || message[0] == 129) && message[1] == 0;
}

// Of ICMPv6. Suricata counts four bytes of a message that is no error and no echo as payload, and leaves as
// many at the end out.
std::span<const u8> icmp6_payload(std::span<const u8> message) {
  const u8 type = message[0], code = message[1];
  constexpr u8 kMostCode[] = {0, 6, 0, 1, 2};
  const bool whole = is_echo6(message) || (type >= 1 && type <= 4 && code <= kMostCode[type]);
  if (whole) return message.subspan(8);
  if (message.size() < 12) return {};
  return message.subspan(4, message.size() - 12);
}

// Calls visit(number, place) of each extension header of IPv6, as many as the parser goes by, until it says
// that it has seen enough.
template <class Visit>
void each_extension(std::span<const u8> packet, u32 ip, const Visit& visit) {
  u32 next = packet[ip + 6], headers = 0;
  for (u32 at = ip + 40; at + 8 <= packet.size() && headers <= XG_PARSE_EXTENSIONS; headers++) {
    const bool goes_on = next == XG_IPPROTO_HOPOPTS || next == XG_IPPROTO_ROUTING ||
                         next == XG_IPPROTO_DSTOPTS || next == XG_IPPROTO_AH || next == XG_IPPROTO_FRAGMENT;
    if (!goes_on || visit(next, at)) return;
    const u32 fields = packet[at + 1];
    const u32 length = next == XG_IPPROTO_AH         ? (fields + 2) * 4
                       : next == XG_IPPROTO_FRAGMENT ? 8
                                                     : (fields + 1) * 8;
    next = packet[at];
    at += length;
  }
}

}  // namespace

SignaturePacket::SignaturePacket(const Packet& packet)
    : v4(packet.is(XG_PKT_IPV4)), bytes(first_bytes(packet, XG_PACKET_MAX)), ip(packet.l3) {
  if (packet.src.empty() || packet.is(XG_PKT_MALFORMED)) return;
  const std::span<const u8> all(bytes);
  src = all.subspan(ip + (v4 ? 12 : 8), v4 ? 4 : 16);
  dst = all.subspan(ip + (v4 ? 16 : 24), v4 ? 4 : 16);
  protocol = packet.metadata.protocol;
  const u32 begin = ip + (v4 ? (bytes[ip] & 15) * 4u : 40u);
  const u32 end = ip + (v4 ? number(all, ip + 2) : 40 + number(all, ip + 4));
  if (v4 && (begin < ip + 20 || begin > bytes.size() || !read_options(all.subspan(ip + 20, begin - ip - 20))))
    return;
  read_fragment();
  // Of the last header there is: IPv6's own, or an extension's.
  if (!v4 && protocol == XG_IPPROTO_NONE) protocol = read_extensions();
  const bool more = v4 ? begin > ip + 20 : end > begin;
  if ((protocol == 0 && more) || (protocol == XG_IPPROTO_ICMP && !v4)) return;
  const u32 l4 = packet.metadata.l4_offset != 0 ? packet.metadata.l4_offset : end;
  const u32 there = std::min(end, static_cast<u32>(bytes.size()));
  judged = fragment || read_payload(all.subspan(std::min(l4, there), there - std::min(l4, there)));
}

// False where they cannot be walked.
bool SignaturePacket::read_options(std::span<const u8> rest) {
  while (!rest.empty()) {
    const u8 type = rest[0];
    if (type <= 1) {  // the end, or no operation
      ip_options.set(type);
      if (type == 0) break;
      rest = rest.subspan(1);
      continue;
    }
    if (rest.size() < 2) break;
    if (rest[1] < 2 || rest[1] > rest.size()) return false;
    if (is_well_formed(rest.subspan(0, rest[1]))) ip_options.set(type);
    rest = rest.subspan(rest[1]);
  }
  return true;
}

u8 SignaturePacket::read_extensions() {
  u8 last = 0;
  each_extension(bytes, ip, [&](u32 extension, u32) {
    last = static_cast<u8>(extension);
    return false;
  });
  return last;
}

void SignaturePacket::read_fragment() {
  const std::span<const u8> all(bytes);
  if (v4) {
    const u32 field = number(all, ip + 6);
    fragment = (field & 0x3fff) != 0;
    fragment_offset = field & 0x1fff;
    return;
  }
  each_extension(all, ip, [&](u32 extension, u32 at) {
    if (extension != XG_IPPROTO_FRAGMENT) return false;
    const u32 field = number(all, at + 2);
    fragment = (field & 0xfff9) != 0;
    fragment_offset = field & 0xfff8;
    // What it is a fragment of is not looked at before it is put together.
    if (fragment) protocol = XG_IPPROTO_FRAGMENT;
    return true;
  });
}

// False where the transport header is not whole, or contradicts its length.
bool SignaturePacket::read_payload(std::span<const u8> message) {
  const auto header = [&](std::size_t least) {
    if (message.size() < least) return false;
    transport = message.subspan(0, least);
    return true;
  };
  const auto payload_from = [&](std::size_t begin) {
    payload = message.subspan(begin);
    return true;
  };
  const auto ports = [&] {
    src_port = static_cast<u16>(number(message, 0));
    dst_port = static_cast<u16>(number(message, 2));
  };
  switch (protocol) {
    case XG_IPPROTO_TCP: {
      if (!header(20)) return false;
      ports();
      const std::size_t length = (message[12] >> 4) * 4u;
      return length >= 20 && length <= message.size() && payload_from(length);
    }
    case XG_IPPROTO_UDP: {
      if (!header(8)) return false;
      ports();
      const std::size_t length = number(message, 4);
      if (length < 8 || length > message.size()) return false;
      message = message.subspan(0, length);
      payload = message.subspan(8);
      if (src_port == kDns || dst_port == kDns) dns.emplace(payload);
      return true;
    }
    case XG_IPPROTO_SCTP:
      if (!header(12)) return false;
      ports();
      return payload_from(12);
    case XG_IPPROTO_ICMP:
      return header(8) && payload_from(icmp_header(message));
    case XG_IPPROTO_ICMPV6:
      if (v4) return true;
      if (!header(8)) return false;
      payload = icmp6_payload(message);
      return true;
    case kEsp:
      return message.size() >= 8 && payload_from(8);
    default:
      return true;
  }
}

}  // namespace xdpgpu::gpu::reference
