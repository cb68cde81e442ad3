// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/conditions.hpp: what options ask of a packet, its payload or its flow, as values.
#pragma once

#include <optional>
#include <variant>

#include "gpu/rule_source.hpp"
#include "userspace/compiler/rules/datasets.hpp"
#include "userspace/compiler/rules/keywords.hpp"
#include "userspace/compiler/rules/pcre.hpp"
#include "userspace/compiler/rules/text.hpp"

namespace xdpgpu::rules {

// A number, or the name of a variable that byte_extract or byte_math makes.
using Amount = std::variant<std::int64_t, std::string>;

// dsize, ttl, itype, bsize, ...: inclusive.
struct Range {
  u64 least = 0, most = ~u64{0};
  bool negated = false;
  bool operator==(const Range&) const = default;
};
struct UriLength {
  Range length;
  bool raw = false;  // as it came, before it is normalized
};
struct StreamSize {
  enum class Side : u8 { client, server, both, either } side = Side::both;
  Range bytes;
};
// Of those under the mask.
struct TcpFlags {
  enum class Mode : u8 { exactly, all, any, none } mode = Mode::exactly;
  u8 flags = 0, mask = 0xff;
};
struct FragmentBits {
  TcpFlags::Mode mode = TcpFlags::Mode::exactly;
  bool reserved = false, dont = false, more = false;
};
// 0 to 255, as its range.
struct IpProtocol {
  Range numbers;
};
struct IpOption {
  std::string name;
};
enum class Digits : u8 { none, hex, dec, oct, any };  // numbers that are written as text; any: as in C
struct Number {
  u32 bytes = 0;  // that it has; as text: at most, 0: as many digits as there are
  Amount offset{};
  bool relative = false, little_endian = false, dce = false;
  Digits digits = Digits::none;
  std::optional<u32> mask;  // its lowest bit comes to the right
};
struct ByteTest {
  enum class Op : u8 { less, more, equal, less_or_equal, more_or_equal, and_, or_ } op = Op::equal;
  bool negated = false;
  Number number;
  Amount value{};
};
struct ByteJump {
  Number number;
  u32 multiplier = 1;
  bool align = false, from_beginning = false, from_end = false;
  Amount post_offset{};
};
struct ByteExtract {
  Number number;
  std::string variable;
  u32 multiplier = 1, align = 1;
};
struct ByteMath {
  Number number;
  char op = '+';  // + - * / and < > for shifts
  Amount right{};
  std::string variable;
};
struct DataAt {
  Amount offset{};
  bool negated = false, relative = false;
};
// flowbits, xbits and hostbits.
struct Bits {
  std::optional<gpu::RuleBits::What> what;  // nothing: noalert
  std::vector<std::string> names;           // several: any of them
  gpu::RuleBits::On on = gpu::RuleBits::On::connection;
  u32 seconds = 0;  // on addresses: until it is forgotten
};
struct Exactly {
  u64 value = 0;
  bool negated = false;
};

// Of a keyword that is not looked into: its text alone.
using Value =
    std::variant<std::monostate, Range, UriLength, StreamSize, TcpFlags, FragmentBits, IpProtocol, IpOption,
                 ByteTest, ByteJump, ByteExtract, ByteMath, DataAt, Bits, Exactly, Regex, Dataset>;
Result<Value> parse_value(const Keyword& keyword, std::string_view text);

}  // namespace xdpgpu::rules
