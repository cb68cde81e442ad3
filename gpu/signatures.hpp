// SPDX-License-Identifier: MIT
//
// gpu/signatures.hpp: rules of intrusion detection systems that a packet by itself decides, as plain values,
// with the meaning that Suricata 7.0.10 gives them (https://docs.suricata.io/en/suricata-7.0.10/rules/).
// userspace/compiler/rules makes them of rule files; gpu/reference/signature.hpp decides by one. No stage
// does yet.
//
// A signature matches a packet where its header, all of its conditions, and its payload steps do.
//
// Steps are inspected in their order, from a position in the payload that is 0 at first. Each one that
// matches hands on to the next: a content, a byte_jump, a byte_extract and a byte_math leave the position
// behind what they found. Relative steps start from there. A step that does not match goes back to the
// nearest content in front of it, which then looks for its next occurrence, one byte behind the start of the
// last, if a later step is relative to it (Content::tried_again). Otherwise the whole payload does not match:
//
//   * once a step behind a content has failed that is not tried again;
//   * once a content that is not relative, and not negated, is not there.
//
// Variables keep what a try that failed has put into them.
//
// kMostTries bounds this: each step that is begun counts, and the one with this number ends the inspection
// without a match (Suricata's inspection-recursion-limit).
#pragma once

#include <array>
#include <bitset>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu::signatures {

inline constexpr u32 kMostTries = 3000;
// Values that byte_extract and byte_math of one signature may keep.
inline constexpr u32 kMostVariables = 16;

// Of one signature.
inline constexpr u32 kMostTriedAgain = 32;  // contents that are
inline constexpr u32 kMostContent = 8192;   // bytes of one
// Different fast patterns of all of a stage's signatures that may stand in one payload.
inline constexpr u32 kMostPatterns = 48;

enum class Action : u8 { alert, pass, drop, reject, reject_dst, reject_both };

// ---- the packet's header -------------------------------------------------------------------------------

// Network order; IPv4 in the first four bytes, the others 0.
using Address = std::array<u8, 16>;
// Inclusive.
template <class T>
struct Range {
  T first{}, last{};
  bool operator==(const Range&) const = default;
};
// By first one; none overlaps or touches another. What a rule leaves out is not in them.
template <class T>
using Ranges = std::vector<Range<T>>;

struct Addresses {
  Ranges<Address> v4, v6;
  bool operator==(const Addresses&) const = default;
};

// For which packets it is. Ports in host order; nothing: any, and packets that have none. Fragments have no
// ports, nor have packets of other protocols than TCP, UDP and SCTP.
struct Header {
  std::bitset<256> protocols;  // of IP; behind IPv6 extension headers; 44 for fragments of IPv6
  bool v4 = true, v6 = true;   // IP versions
  Addresses src, dst;
  std::optional<Ranges<u16>> src_ports, dst_ports;
  bool both_ways = false;  // <>: source and destination may change places
  bool operator==(const Header&) const = default;
};

// ---- conditions on the packet --------------------------------------------------------------------------

// What is not there is in no range, nor outside of one.
enum class Field : u8 {
  payload_bytes,    // dsize; 0 where there is none
  ttl,              // or hop limit
  tos,              // IPv4 alone
  ip_id,            // IPv4 alone
  fragment_offset,  // IPv4: in units of 8 bytes; IPv6: in bytes, where there is a fragment header
  icmp_type,        // ICMP or ICMPv6
  icmp_code,
  icmp_id,   // of types that have one
  icmp_seq,  // likewise
  tcp_seq,
  tcp_ack,
  tcp_window,
};
struct FieldIs {
  Field field = Field::payload_bytes;
  Range<u32> values;
  bool negated = false;
  bool operator==(const FieldIs&) const = default;
};

// exactly: those and no others; all: at least those; any: one of those; not_all: not all of those.
enum class Bits : u8 { exactly, all, any, not_all };
struct TcpFlagsAre {
  Bits mode = Bits::exactly;
  u8 flags = 0, mask = 0xff;  // flags outside of the mask may be what they are
  // Where there is more than 0 in one, the packet has at least one of its flags, whatever the mode: for a
  // rule that names SYN, RST or FIN Suricata skips packets with none of these, or, if it is found by no
  // content, packets without SYN; and so for URG, ECE and CWR.
  std::array<u8, 2> some_of{};
  bool operator==(const TcpFlagsAre&) const = default;
};
// Of IPv4. all: at least those, and another one.
struct FragmentBitsAre {
  Bits mode = Bits::exactly;
  u8 bits = 0;  // 4: reserved, 2: don't fragment, 1: more fragments
  bool operator==(const FragmentBitsAre&) const = default;
};
// An IPv4 option of this type is there, and well-formed.
struct IpOptionIs {
  u8 type = 0;
  bool operator==(const IpOptionIs&) const = default;
};
struct SameAddresses {
  bool operator==(const SameAddresses&) const = default;
};
using Condition = std::variant<FieldIs, TcpFlagsAre, FragmentBitsAre, IpOptionIs, SameAddresses>;

// ---- payload steps -------------------------------------------------------------------------------------
//
// The payload is what stands behind the headers of TCP, UDP, SCTP, ICMP, ICMPv6 and ESP, as long as the IP
// and the UDP header say. Fragments have none. Numbers of bytes and positions that do not fit count modulo
// 2^32, as they do in Suricata.

// A constant, or what a variable has.
struct Amount {
  std::int64_t constant = 0;
  std::optional<u8> variable{};
  bool operator==(const Amount&) const = default;
};

// A content stands where all of these let it. Where offset, depth or distance is a variable, the place for
// its end is counted from the first byte that it may have. Of a negated one with `ends` the first occurrence
// counts alone, and is taken for the payload's end where its own, from the payload's start, is the number of
// bytes that the content may stand in.
struct Content {
  std::string bytes;  // in lower case where nocase
  bool negated = false, nocase = false;
  bool ends = false;              // at the payload's last byte
  Amount offset{};                // first byte that it may have, from the payload's start
  std::optional<Amount> depth{};  // first byte behind it, from the payload's start; if relative, the position
  std::optional<Amount> distance;  // first byte that it may have, from the position
  std::optional<Amount> within;    // first byte behind it, from the position and distance
  bool tried_again = false;
  bool operator==(const Content&) const = default;

  bool relative() const { return distance || within; }
};

struct Number {
  u8 bytes = 0;  // as text: at most
  Amount offset{};
  bool relative = false, little_endian = false;
  // As text: its base, 0: as C writes numbers. Nothing: as bytes.
  std::optional<u8> base{};
  bool operator==(const Number&) const = default;
};
// Of the bits that the mask has, the lowest one of which comes to the right.
using Mask = std::optional<u32>;

struct ByteTest {
  enum class Op : u8 { less, more, equal, less_or_equal, more_or_equal, common_bits, differs } op = Op::equal;
  bool negated = false;
  Number number;
  Mask mask;
  Amount value;
  bool operator==(const ByteTest&) const = default;
};
// A jump to in front of the payload is one to its start; one to behind its end does not match.
struct ByteJump {
  enum class From : u8 { number, start, end } from = From::number;
  Number number;
  u32 multiplier = 1;
  bool align = false;  // up to a multiple of 4
  std::int32_t post_offset = 0;
  bool operator==(const ByteJump&) const = default;
};
struct ByteExtract {
  Number number;
  u32 multiplier = 1, align = 1;
  u8 variable = 0;
  bool operator==(const ByteExtract&) const = default;
};
struct ByteMath {
  enum class Op : u8 { add, subtract, multiply, divide, shift_left, shift_right } op = Op::add;
  Number number;
  Mask mask;  // of the result
  Amount right;
  u8 variable = 0;
  bool operator==(const ByteMath&) const = default;
};
struct DataAt {
  Amount offset;
  bool relative = false, negated = false;
  bool operator==(const DataAt&) const = default;
};
using Step = std::variant<Content, ByteTest, ByteJump, ByteExtract, ByteMath, DataAt>;

// The content that is looked for first, in the payloads of all packets: a step, and its bytes that are.
struct FastPattern {
  u32 step = 0, first = 0, length = 0;
  bool operator==(const FastPattern&) const = default;
};

struct Signature {
  u32 gid = 1, sid = 0, rev = 0;
  Action action = Action::alert;
  u32 priority = 3;
  Header header;
  std::vector<Condition> conditions;
  std::vector<Step> payload;
  std::optional<FastPattern> fast_pattern;
  // It asks for addresses, ports and protocols alone: Suricata alerts once a flow and direction.
  bool once_a_flow = false;
  bool operator==(const Signature&) const = default;
};

// The content that its fast pattern is of, where that has to be in a payload for it to match; nullptr: there
// is none, or it is one that may not be there.
const Content* found_by(const Signature& signature);

// Why no device takes it, as a sentence's end; nothing: they do.
std::optional<std::string> why_not(const Signature& signature);

}  // namespace xdpgpu::gpu::signatures
