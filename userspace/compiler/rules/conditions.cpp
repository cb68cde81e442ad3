// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/conditions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>

namespace xdpgpu::rules {
namespace {

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

constexpr u64 kU8 = 255, kU16 = 65535, kU32 = std::numeric_limits<u32>::max(),
              kU64 = std::numeric_limits<u64>::max();

std::optional<u64> hex_number(std::string_view text, u64 most) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  u64 value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return {};
  return value;
}
// As C writes numbers.
std::optional<u64> any_number(std::string_view text, u64 most) {
  return text.starts_with("0x") || text.starts_with("0X") ? hex_number(text, most) : number(text, most);
}

std::optional<Amount> amount(std::string_view text, std::int64_t least, std::int64_t most) {
  if (const auto found = signed_number(text, least, most)) return Amount(*found);
  if (text.starts_with("0x"))
    if (const auto found = hex_number(text, static_cast<u64>(most)))
      return Amount(static_cast<std::int64_t>(*found));
  if (is_variable(text)) return Amount(std::string(text));
  return {};
}

// "9", "!9", "<9", ">=9", "1<>9" and "1-9" (between them, without them).
std::optional<Range> range(std::string_view text, u64 most) {
  Range made{0, most, false};
  const auto value = [&](std::string_view digits) { return number(trimmed(digits), most); };
  for (const std::string_view between : {"<>", "-"})
    if (const auto at = text.find(between); at != std::string_view::npos && at > 0) {
      const auto first = value(text.substr(0, at)), last = value(text.substr(at + between.size()));
      if (!first || !last || *last <= *first + 1) return {};
      return Range{*first + 1, *last - 1, false};
    }
  const bool equal_too = text.size() > 1 && text[1] == '=';
  const char first = text.empty() ? ' ' : text[0];
  if (first == '<' || first == '>') {
    const auto bound = value(text.substr(equal_too ? 2 : 1));
    if (!bound || (!equal_too && *bound == (first == '<' ? 0 : most))) return {};
    if (first == '<')
      made.most = equal_too ? *bound : *bound - 1;
    else
      made.least = equal_too ? *bound : *bound + 1;
    return made;
  }
  made.negated = first == '!';
  const std::size_t skip = made.negated ? (equal_too ? 2 : 1) : first == '=' ? 1 : 0;
  const auto one = value(text.substr(skip));
  if (!one) return {};
  made.least = made.most = *one;
  return made;
}

template <class T>
struct Choice {
  std::string_view name;
  T value;
};
template <class T, std::size_t N>
std::optional<T> chosen(std::string_view name, const Choice<T> (&choices)[N]) {
  for (const auto& one : choices)
    if (one.name == name) return one.value;
  return {};
}

// A + * or ! in front of letters or behind them, taken off.
TcpFlags::Mode take_mode(std::string_view& text) {
  constexpr Choice<TcpFlags::Mode> kModes[] = {
      {"+", TcpFlags::Mode::all}, {"*", TcpFlags::Mode::any}, {"!", TcpFlags::Mode::none}};
  if (text.empty()) return TcpFlags::Mode::exactly;
  if (const auto mode = chosen(text.substr(0, 1), kModes)) {
    text = trimmed(text.substr(1));
    return *mode;
  }
  if (const auto mode = chosen(text.substr(text.size() - 1), kModes)) {
    text = trimmed(text.substr(0, text.size() - 1));
    return *mode;
  }
  return TcpFlags::Mode::exactly;
}

Result<Value> tcp_flags(std::string_view text) {
  TcpFlags made;
  const auto bits = [](std::string_view letters) -> std::optional<u8> {
    constexpr Choice<u8> kLetters[] = {{"F", 1},  {"S", 2},   {"R", 4},  {"P", 8},   {"A", 16}, {"U", 32},
                                       {"E", 64}, {"C", 128}, {"2", 64}, {"1", 128}, {"0", 0},  {"N", 0}};
    u8 sum = 0;
    if (letters.empty()) return {};
    for (const char& letter : letters) {
      const auto bit = chosen(std::string_view(&letter, 1), kLetters);
      if (!bit) return {};
      sum = static_cast<u8>(sum | *bit);
    }
    return sum;
  };
  const auto parts = at_commas(text);
  std::string_view letters = parts.front();
  made.mode = take_mode(letters);
  const auto flags = bits(letters);
  const auto ignored = parts.size() == 2 ? bits(parts.back()) : std::optional<u8>(0);
  if (!flags || !ignored || parts.size() > 2)
    return wrong(fmt::format("flags {} are none of FSRPAUEC, and 0", text));
  made.flags = *flags;
  made.mask = static_cast<u8>(~*ignored);
  return Value(made);
}

Result<Value> fragment_bits(std::string_view text) {
  FragmentBits made;
  const std::string_view given = text;
  made.mode = take_mode(text);
  for (const char letter : text) {
    if (letter == 'M')
      made.more = true;
    else if (letter == 'D')
      made.dont = true;
    else if (letter == 'R')
      made.reserved = true;
    else
      return wrong(fmt::format("fragbits {} are none of M, D and R", given));
  }
  if (!made.more && !made.dont && !made.reserved) return wrong("fragbits name none of M, D and R");
  return Value(made);
}

Result<Value> ip_protocol(std::string_view text) {
  constexpr Choice<std::string_view> kNames[] = {
      {"icmp", "1"},  {"igmp", "2"},  {"ipip", "4"},   {"tcp", "6"},     {"udp", "17"},       {"ipv6", "41"},
      {"gre", "47"},  {"esp", "50"},  {"ah", "51"},    {"icmpv6", "58"}, {"ipv6-icmp", "58"}, {"eigrp", "88"},
      {"ospf", "89"}, {"pim", "103"}, {"vrrp", "112"}, {"l2tp", "115"},  {"sctp", "132"}};
  std::string written(text);
  const auto letter = std::find_if(written.begin(), written.end(),
                                   [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  const std::string name = in_lower_case({letter, written.end()});
  if (const auto found = chosen(std::string_view(name), kNames))
    written = std::string(written.begin(), letter) + std::string(*found);
  const auto numbers = range(written, kU8);
  if (!numbers) return wrong(fmt::format("ip_proto {} is no protocol's number or name", text));
  return Value(IpProtocol{*numbers});
}

// The words behind a number's bytes and place, which the byte_ options have in common.
Result<bool> number_word(Number& number, std::string_view word) {
  if (word == "relative")
    number.relative = true;
  else if (word == "big")
    number.little_endian = false;
  else if (word == "little")
    number.little_endian = true;
  else if (word == "dce")
    number.dce = true;
  else if (word == "string")
    number.digits = number.digits == Digits::none ? Digits::any : number.digits;
  else if (word == "hex")
    number.digits = Digits::hex;
  else if (word == "dec")
    number.digits = Digits::dec;
  else if (word == "oct")
    number.digits = Digits::oct;
  else if (word.starts_with("bitmask ")) {
    const auto mask = hex_number(trimmed(word.substr(8)), kU32);
    if (!mask || *mask == 0) return wrong(fmt::format("\"{}\" has no mask of 32 bits", word));
    number.mask = static_cast<u32>(*mask);
  } else
    return false;
  return true;
}

constexpr u64 kMostText = 23;  // 64 bits in octal digits
Result<void> check_size(const Number& number, u64 most) {
  const u64 allowed = number.digits == Digits::none ? most : kMostText;
  if (number.bytes == 0 && number.digits == Digits::none)
    return wrong("a number that is no text has no bytes");
  if (number.bytes > allowed)
    return wrong(fmt::format("a number has {} bytes, more than {}", number.bytes, allowed));
  return {};
}

std::optional<u32> multiplier_of(std::string_view word, std::string_view name) {
  if (!word.starts_with(name) || word.size() <= name.size() || word[name.size()] != ' ') return {};
  const auto found = number(trimmed(word.substr(name.size())), kU16);
  if (!found) return {};
  return static_cast<u32>(*found);
}

Result<Value> byte_test(std::string_view text) {
  const auto parts = at_commas(text);
  if (parts.size() < 4) return wrong("byte_test needs bytes, an operator, a value and an offset");
  ByteTest made;
  std::string_view op = parts[1];
  if (op.starts_with('!')) {
    made.negated = true;
    op = trimmed(op.substr(1));
    if (op.empty()) op = "=";
  }
  using Op = ByteTest::Op;
  constexpr Choice<Op> kOps[] = {
      {"<", Op::less},           {">", Op::more}, {"=", Op::equal}, {"<=", Op::less_or_equal},
      {">=", Op::more_or_equal}, {"&", Op::and_}, {"^", Op::or_}};
  const auto bytes = number(parts[0], kMostText);
  const auto found = chosen(op, kOps);
  const auto value = amount(parts[2], 0, static_cast<std::int64_t>(kU32) * 2);
  const auto offset = amount(parts[3], -65535, 65535);
  if (!bytes || !found || !value || !offset)
    return wrong(fmt::format("byte_test {} has no bytes, operator, value and offset", text));
  made.number.bytes = static_cast<u32>(*bytes);
  made.op = *found;
  made.value = *value;
  made.number.offset = *offset;
  for (std::size_t i = 4; i < parts.size(); i++) {
    const auto taken = number_word(made.number, parts[i]);
    if (!taken) return wrong(taken.error());
    if (!*taken) return wrong(fmt::format("byte_test has no \"{}\"", parts[i]));
  }
  if (made.number.digits != Digits::none && std::find(parts.begin(), parts.end(), "string") == parts.end())
    return wrong("byte_test has digits of a number that is no string");
  if (auto checked = check_size(made.number, 8); !checked) return wrong(checked.error());
  return Value(std::move(made));
}

Result<Value> byte_jump(std::string_view text) {
  const auto parts = at_commas(text);
  const auto bytes = number(parts[0], kMostText);
  const auto offset = parts.size() < 2 ? std::nullopt : amount(parts[1], -65535, 65535);
  if (!bytes || !offset) return wrong(fmt::format("byte_jump {} has no bytes and offset", text));
  ByteJump made;
  made.number.bytes = static_cast<u32>(*bytes);
  made.number.offset = *offset;
  for (std::size_t i = 2; i < parts.size(); i++) {
    const auto taken = number_word(made.number, parts[i]);
    if (!taken) return wrong(taken.error());
    if (*taken) continue;
    if (parts[i] == "align")
      made.align = true;
    else if (parts[i] == "from_beginning")
      made.from_beginning = true;
    else if (parts[i] == "from_end")
      made.from_end = true;
    else if (const auto times = multiplier_of(parts[i], "multiplier"); times && *times != 0)
      made.multiplier = *times;
    else if (const auto more = parts[i].starts_with("post_offset ")
                                   ? amount(trimmed(parts[i].substr(12)), -65535, 65535)
                                   : std::nullopt)
      made.post_offset = *more;
    else
      return wrong(fmt::format("byte_jump has no \"{}\"", parts[i]));
  }
  if (made.from_beginning && made.from_end)
    return wrong("byte_jump goes from the beginning and from the end");
  // Without bytes it jumps by its post_offset alone.
  if (auto checked = check_size(made.number, 8); !checked && made.number.bytes != 0)
    return wrong(checked.error());
  return Value(std::move(made));
}

Result<Value> byte_extract(std::string_view text) {
  const auto parts = at_commas(text);
  const auto bytes = number(parts[0], kMostText);
  const auto offset = parts.size() < 3 ? std::nullopt : amount(parts[1], -65535, 65535);
  if (!bytes || *bytes == 0 || !offset || !is_variable(parts[2]))
    return wrong(fmt::format("byte_extract {} has no bytes, offset and variable", text));
  ByteExtract made;
  made.number.bytes = static_cast<u32>(*bytes);
  made.number.offset = *offset;
  made.variable = parts[2];
  for (std::size_t i = 3; i < parts.size(); i++) {
    const auto taken = number_word(made.number, parts[i]);
    if (!taken) return wrong(taken.error());
    if (*taken) continue;
    if (const auto times = multiplier_of(parts[i], "multiplier"); times && *times != 0)
      made.multiplier = *times;
    else if (const auto align = multiplier_of(parts[i], "align"); align && (*align == 2 || *align == 4))
      made.align = *align;
    else
      return wrong(fmt::format("byte_extract has no \"{}\"", parts[i]));
  }
  if (made.number.digits == Digits::any) made.number.digits = Digits::dec;
  if (auto checked = check_size(made.number, 8); !checked) return wrong(checked.error());
  return Value(std::move(made));
}

// "bytes 4, offset 0, oper +, rvalue 10, result name": in any order, or the values alone in this one.
Result<Value> byte_math(std::string_view text) {
  ByteMath made;
  bool has_bytes = false, has_offset = false, has_op = false, has_right = false;
  for (const auto part : at_commas(text)) {
    const auto space = part.find(' ');
    const auto name = part.substr(0, space),
               value = space == std::string_view::npos ? std::string_view() : trimmed(part.substr(space));
    constexpr Choice<char> kOps[] = {{"+", '+'}, {"-", '-'},  {"*", '*'},
                                     {"/", '/'}, {"<<", '<'}, {">>", '>'}};
    if (name == "bytes") {
      const auto bytes = number(value, kMostText);
      has_bytes = bytes && *bytes != 0;
      made.number.bytes = static_cast<u32>(bytes.value_or(0));
    } else if (name == "offset") {
      const auto offset = amount(value, -65535, 65535);
      has_offset = offset.has_value();
      made.number.offset = offset.value_or(Amount());
    } else if (name == "oper") {
      const auto op = chosen(value, kOps);
      has_op = op.has_value();
      made.op = op.value_or('+');
    } else if (name == "rvalue") {
      const auto right = amount(value, 0, static_cast<std::int64_t>(kU32));
      has_right = right.has_value();
      made.right = right.value_or(Amount());
    } else if (name == "result" && is_variable(value)) {
      made.variable = value;
    } else if (name == "endian" || name == "string" || part == "relative" || part == "dce" ||
               name == "bitmask") {
      const auto word = name == "endian" || name == "string" ? value : part;
      const auto taken = number_word(made.number, word);
      if (!taken) return wrong(taken.error());
      if (!*taken) return wrong(fmt::format("byte_math has no \"{}\"", part));
    } else {
      return wrong(fmt::format("byte_math has no \"{}\"", part));
    }
  }
  if (!has_bytes || !has_offset || !has_op || !has_right || made.variable.empty())
    return wrong(fmt::format("byte_math {} has no bytes, offset, oper, rvalue and result", text));
  if (const auto* const by = std::get_if<std::int64_t>(&made.right);
      by != nullptr && *by == 0 && made.op == '/')
    return wrong("byte_math divides by 0");
  if (auto checked = check_size(made.number, 4); !checked) return wrong(checked.error());
  return Value(std::move(made));
}

Result<Value> data_at(std::string_view text) {
  DataAt made;
  const auto parts = at_commas(text);
  std::string_view offset = parts[0];
  if (offset.starts_with('!')) {
    made.negated = true;
    offset = trimmed(offset.substr(1));
  }
  const auto found = amount(offset, 0, 65535);
  if (!found) return wrong(fmt::format("isdataat {} has no offset", text));
  made.offset = *found;
  for (std::size_t i = 1; i < parts.size(); i++)
    if (parts[i] == "relative")
      made.relative = true;
    else if (parts[i] != "rawbytes")
      return wrong(fmt::format("isdataat has no \"{}\"", parts[i]));
  return Value(std::move(made));
}

Result<Value> bits(const Keyword& keyword, std::string_view text) {
  using What = gpu::RuleBits::What;
  using On = gpu::RuleBits::On;
  constexpr Choice<What> kWhat[] = {{"set", What::set},
                                    {"unset", What::unset},
                                    {"toggle", What::toggle},
                                    {"isset", What::is_set},
                                    {"isnotset", What::is_not_set}};
  constexpr Choice<On> kOn[] = {{"ip_src", On::source}, {"ip_dst", On::destination}, {"ip_pair", On::pair}};
  constexpr Choice<On> kHost[] = {{"src", On::source}, {"dst", On::destination}};
  const auto parts = at_commas(text);
  Bits made;
  bool tracked = false;
  if (parts[0] == "noalert") {
    if (parts.size() > 1) return wrong(fmt::format("{}: noalert takes no name", keyword.name));
    return Value(std::move(made));
  }
  made.what = chosen(parts[0], kWhat);
  if (!made.what) return wrong(fmt::format("{} has no \"{}\"", keyword.name, parts[0]));
  made.on = keyword.name == "flowbits" ? On::connection : On::source;
  // Suricata's own, where none is said.
  if (keyword.name != "flowbits") made.seconds = keyword.name == "hostbits" ? 300 : 30;
  if (parts.size() < 2 || parts[1].empty())
    return wrong(fmt::format("{} {} has no name", keyword.name, text));
  for (std::string_view rest = parts[1]; !rest.empty();) {
    const auto bar = rest.find('|');
    const auto name = trimmed(rest.substr(0, bar));
    if (name.empty()) return wrong(fmt::format("{} {} has no name", keyword.name, text));
    made.names.emplace_back(name);
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  if (made.names.size() > 1 && made.what != What::is_set && made.what != What::is_not_set)
    return wrong(fmt::format("{}: one name is set at a time", keyword.name));
  for (std::size_t i = 2; i < parts.size(); i++) {
    const auto space = parts[i].find(' ');
    const auto name = parts[i].substr(0, space),
               value = space == std::string_view::npos ? std::string_view() : trimmed(parts[i].substr(space));
    const auto on = keyword.name == "hostbits" ? chosen(parts[i], kHost)
                    : name == "track"          ? chosen(value, kOn)
                                               : std::nullopt;
    const u64 seconds = name == "expire" ? number(value, kU32).value_or(0) : 0;
    if (keyword.name == "flowbits" || (!on && seconds == 0))
      return wrong(fmt::format("{} has no \"{}\"", keyword.name, parts[i]));
    if (on) made.on = *on;
    if (seconds != 0) made.seconds = static_cast<u32>(seconds);
    tracked = tracked || on;
  }
  if (keyword.name == "xbits" && !tracked) return wrong("xbits has no track");
  return Value(std::move(made));
}

Result<Value> uri_length(std::string_view text) {
  const auto parts = at_commas(text);
  const auto length = range(parts[0], kU16);
  if (!length || parts.size() > 2 || (parts.size() == 2 && parts[1] != "raw" && parts[1] != "norm"))
    return wrong(fmt::format("urilen {} is no length", text));
  return Value(UriLength{*length, parts.size() == 2 && parts[1] == "raw"});
}

Result<Value> stream_size(std::string_view text) {
  using Side = StreamSize::Side;
  constexpr Choice<Side> kSides[] = {
      {"client", Side::client}, {"server", Side::server}, {"both", Side::both}, {"either", Side::either}};
  const auto parts = at_commas(text);
  const auto side = chosen(parts[0], kSides);
  const auto bytes = parts.size() == 3 ? range(fmt::format("{}{}", parts[1], parts[2]), kU32) : std::nullopt;
  if (!side || !bytes) return wrong(fmt::format("stream_size {} is no side, operator and number", text));
  return Value(StreamSize{*side, *bytes});
}

Result<Value> exactly(const Keyword& keyword, std::string_view text, u64 most) {
  Exactly made;
  std::string_view digits = text;
  if (digits.starts_with('!')) {
    made.negated = true;
    digits = trimmed(digits.substr(1));
  }
  if (digits.size() > 1 && digits.starts_with('"') && digits.ends_with('"'))
    digits = trimmed(digits.substr(1, digits.size() - 2));
  const auto value = keyword.name == "tos" && digits.starts_with('x') ? hex_number(digits.substr(1), most)
                                                                      : any_number(digits, most);
  if (!value) return wrong(fmt::format("{} {} is no number up to {}", keyword.name, text, most));
  made.value = *value;
  return Value(made);
}

// Exclamation marks and spaces stand in front of the number.
Result<Value> dns_operation(std::string_view text) {
  const auto first = std::min(text.find_first_not_of(" \t!"), text.size());
  const auto value = number(text.substr(first), kU8);
  if (!value) return wrong(fmt::format("dns.opcode {} is no number up to {}", text, kU8));
  return Value(Exactly{*value, text.substr(0, first).find('!') != std::string_view::npos});
}

}  // namespace

Result<Value> parse_value(const Keyword& keyword, std::string_view text) {
  const auto ranged = [&](u64 most) -> Result<Value> {
    const auto found = range(text, most);
    if (!found)
      return wrong(fmt::format("{} {} is no number up to {}, nor a range", keyword.name, text, most));
    return Value(*found);
  };
  constexpr Choice<u64> kRanges[] = {{"dsize", kU16},    {"ttl", kU8},        {"itype", kU8},
                                     {"icode", kU8},     {"tcp.mss", kU16},   {"icmpv6.mtu", kU32},
                                     {"flow.age", kU32}, {"bsize", kU64 - 1}, {"fragoffset", 8191}};
  constexpr Choice<u64> kExactly[] = {
      {"seq", kU32},        {"tcp.seq", kU32}, {"ack", kU32},      {"tcp.ack", kU32}, {"window", kU16},
      {"tcp.window", kU16}, {"icmp_id", kU16}, {"icmp_seq", kU16}, {"id", kU16},      {"tos", kU8}};
  constexpr std::array kIpOptions{"rr",   "eol",  "nop",   "ts",  "sec",   "esec",
                                  "lsrr", "ssrr", "satid", "any", "lsrre", "cipso"};
  const std::string_view name = keyword.name;
  if (name == "fragoffset" && text.starts_with('!'))
    return wrong("fragoffset is a number, or less or more than one");
  if (const auto most = chosen(name, kRanges)) return ranged(*most);
  if (const auto most = chosen(name, kExactly)) return exactly(keyword, text, *most);
  if (name == "dns.opcode") return dns_operation(text);
  if (name == "flags" || name == "tcp.flags") return tcp_flags(text);
  if (name == "fragbits") return fragment_bits(text);
  if (name == "ip_proto") return ip_protocol(text);
  if (name == "byte_test") return byte_test(text);
  if (name == "byte_jump") return byte_jump(text);
  if (name == "byte_extract") return byte_extract(text);
  if (name == "byte_math") return byte_math(text);
  if (name == "isdataat") return data_at(text);
  if (name == "flowbits" || name == "xbits" || name == "hostbits") return bits(keyword, text);
  if (name == "dataset") return parse_dataset(text);
  if (name == "urilen") return uri_length(text);
  if (name == "stream_size") return stream_size(text);
  if (name == "ipopts") {
    if (std::find(kIpOptions.begin(), kIpOptions.end(), text) == kIpOptions.end())
      return wrong(fmt::format("ipopts has no \"{}\"", text));
    return Value(IpOption{std::string(text)});
  }
  return Value();
}

}  // namespace xdpgpu::rules
