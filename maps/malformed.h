/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/malformed.h: what can be wrong with a packet's headers (config/malformed.md says why each matters).
 *
 * A packet is malformed where its transport header cannot be reached, or where its headers contradict each
 * other or the frame's length: whoever reads it behind the rules may find other ports there than the rules
 * did. The first contradiction that the parser meets names the kind. Frames that are not IP, and IP packets
 * of other protocols than TCP, UDP, SCTP and ICMP, have no transport header that could be missed.
 */
#ifndef XDPGPU_MAPS_MALFORMED_H
#define XDPGPU_MAPS_MALFORMED_H

/* xg_packet.malformed. X(name, text) */
#define XG_MALFORMED_KINDS(X)                                                                       \
  X(frame, "the frame ends within its Ethernet header or its tags")                                 \
  X(tags, "more than two VLAN tags")                                                                \
  X(ipv4_header, "an IPv4 header that is cut short, or of another version or an impossible length") \
  X(ipv4_length, "IPv4 says that the packet is longer than the frame, or shorter than its header")  \
  X(ipv6_header, "an IPv6 header that is cut short, or of another version")                         \
  X(ipv6_length, "IPv6 says that the packet is longer than the frame")                              \
  X(extension_count, "more IPv6 extension headers than are walked")                                 \
  X(extension_reach, "IPv6 extension headers that reach farther than is read")                      \
  X(extension_cut, "an IPv6 extension header that is cut short")                                    \
  X(hop_by_hop, "a hop-by-hop header that is not the first one")                                    \
  X(fragment_twice, "a second fragment header")                                                     \
  X(fragment_reach, "a fragment beyond the longest packet there is")                                \
  X(fragment_first, "track: a first fragment without its whole transport header")                   \
  X(fragment_flags, "track: a fragment of TCP where its flags would stand")                         \
  X(fragment_differs, "track: a fragment that differs from its datagram's first one, or overlaps")  \
  X(transport_cut, "a transport header that is cut short, or not there")                            \
  X(tcp_length, "a TCP header of an impossible length")                                             \
  X(udp_length, "a UDP length below its header's, or beyond the packet")

#ifndef XG_GLSL
#define XG_X(name, text) XG_MALFORMED_##name,
enum xg_malformed_kind { XG_MALFORMED_no, XG_MALFORMED_KINDS(XG_X) XG_MALFORMED_END };
#undef XG_X
#define XG_MALFORMED_COUNT ((unsigned)XG_MALFORMED_END - 1u)
#endif

#endif
