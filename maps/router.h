/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/router.h: what a router looks at before anything else: is the frame addressed to it, and is the IPv4
 * header as it was sent (RFC 1812 4.2.2.5, 5.2.2)? Looked at once, where the packet is parsed, so that a
 * device and a flow verdict find the answer with the packet (xg_metadata.router). What fails goes to the
 * host's stack, which drops and counts it (PACKET_OTHERHOST, InHdrErrors) or has another use for it: a
 * bridge, a macvlan or a VLAN interface with an address of its own.
 */
#ifndef XDPGPU_MAPS_ROUTER_H
#define XDPGPU_MAPS_ROUTER_H

#include "control.h"
#include "packet.h"
#include "parse.h"

/* The sum of an IPv4 header's 16-bit words in ones' complement, without options; 0xffff: its checksum is
 * right (RFC 1071; the order of the bytes does not matter). */
XG_FN u32 xg_ipv4_header_sum(const u8* ip) {
  const u64 sum =
      (u64)xg_load32(ip) + xg_load32(ip + 4) + xg_load32(ip + 8) + xg_load32(ip + 12) + xg_load32(ip + 16);
  const u32 folded = (u32)(sum & 0xffff) + (u32)(sum >> 16 & 0xffff) + (u32)(sum >> 32);
  return (folded & 0xffff) + (folded >> 16);
}

/* Sets p->router of a packet that xg_parse has read. mac: xg_config.mac of the port that it came in on. */
XG_FN void xg_router_look(const u8* data, const u8* data_end, u64 mac, xg_packet* p) {
  const u8* ip = data + (p->l3_offset & 31);
  XG_OPAQUE(ip);
  p->router = 0;
  if (p->key.family == 0 || !XG_READABLE(data, 14, data_end) || !XG_READABLE(ip, 20, data_end)) return;
  const u32 addressed = mac == (xg_mac_number(data) | XG_MAC_KNOWN) || mac == XG_MAC_ANY;
  const u32 right = p->key.family == 6 || ip[0] != 0x45 || xg_ipv4_header_sum(ip) == 0xffff;
  p->router = (u8)(addressed * XG_ROUTER_ADDRESSED | right * XG_ROUTER_CHECKSUM);
}

#endif
