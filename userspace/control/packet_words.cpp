// SPDX-License-Identifier: MIT
#include "userspace/control/packet_words.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <span>
#include <string_view>

#include "userspace/dataplane/checksum.hpp"
#include "userspace/policy/values.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::control {
namespace {

using Bytes = std::vector<u8>;
using Mac = std::array<u8, 6>;

constexpr u32 kTcp = 6, kUdp = 17, kIcmp = 1, kIcmpv6 = 58, kSctp = 132, kArp = 0x10000;
constexpr std::size_t kMostIp = 65535;
constexpr u16 kMoreFragments = 0x2000, kDontFragment = 0x4000;

// What the words say; numbers by their option's name.
struct Said {
  std::vector<u16> vlans;
  u32 protocol = 0;  // or kArp
  int family = AF_INET;
  std::array<u8, 16> src{}, dst{};
  u16 src_port = 0, dst_port = 0;
  u8 tcp_flags = 0;
  bool no_flags = false, dont_fragment = false, reply = false;
  std::optional<u8> icmp_type;
  std::map<std::string, u64, std::less<>> numbers;
  std::optional<std::string> name;  // that a DNS query asks for
  Mac src_mac{2, 0, 0, 0, 0, 1}, dst_mac{2, 0, 0, 0, 0, 2};
  bool dst_mac_said = false;

  u64 number(std::string_view option, u64 otherwise) const {
    const auto at = numbers.find(option);
    return at == numbers.end() ? otherwise : at->second;
  }
  bool has_ports() const { return protocol == kTcp || protocol == kUdp || protocol == kSctp; }
  bool is_icmp() const { return protocol == kIcmp || protocol == kIcmpv6; }
  u32 address_bytes() const { return family == AF_INET ? 4 : 16; }
};

struct NumberOption {
  std::string_view name;
  u64 most;
  bool (*fits)(const Said& said);
};
bool for_all(const Said& said) { return said.protocol != kArp; }
bool for_tcp(const Said& said) { return said.protocol == kTcp; }
bool for_icmp(const Said& said) { return said.is_icmp(); }
bool for_dns(const Said& said) { return said.name.has_value(); }
constexpr std::array kNumbers{NumberOption{"length", kMostIp, for_all},
                              NumberOption{"ttl", 255, for_all},
                              NumberOption{"tos", 255, for_all},
                              NumberOption{"seq", 0xffffffff, for_tcp},
                              NumberOption{"ack-seq", 0xffffffff, for_tcp},
                              NumberOption{"window", 65535, for_tcp},
                              NumberOption{"type", 255, for_icmp},
                              NumberOption{"code", 255, for_icmp},
                              NumberOption{"echo-id", 65535, for_icmp},
                              NumberOption{"echo-seq", 65535, for_icmp},
                              NumberOption{"query-type", 65535, for_dns}};

struct IcmpName {
  std::string_view name;
  u8 v4, v6;
};
constexpr std::array kIcmpNames{IcmpName{"echo-request", 8, 128}, IcmpName{"echo-reply", 0, 129},
                                IcmpName{"unreachable", 3, 1}, IcmpName{"time-exceeded", 11, 3}};

std::optional<u64> number_in(std::string_view text, u64 most) {
  u64 number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || number > most)
    return std::nullopt;
  return number;
}

class WordReader {
 public:
  explicit WordReader(const std::string& words) : words_(split(words)) {}

  Result<Said> read() {
    while (more() && words_[at_] == "vlan") {
      take();
      const auto id = number_in(take(), 4095);
      if (!id || said_.vlans.size() == 2)
        return Error(std::string("\"vlan\" is followed by a number from 0 to 4095, twice at most"));
      said_.vlans.push_back(static_cast<u16>(*id));
    }
    if (auto read = read_protocol(); !read) return Error(read.error());
    if (auto read = read_ends(); !read) return Error(read.error());
    while (more())
      if (auto read = read_option(); !read) return Error(read.error());
    return check();
  }

 private:
  static std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      if (end > at) words.emplace_back(text, at, end - at);
      at = end + 1;
    }
    return words;
  }
  bool more() const { return at_ < words_.size(); }
  std::string take() { return more() ? words_[at_++] : std::string(); }

  Result<void> read_protocol() {
    const std::string word = take();
    if (word == "arp") {
      said_.protocol = kArp;
      return {};
    }
    const bool by_number = word == "proto";
    const auto number = by_number ? number_in(take(), 255) : std::nullopt;
    const auto named = by_number ? std::nullopt : policy::find_protocol(word);
    if (!number && !named)
      return Error(
          fmt::format("a packet begins with its protocol (tcp, udp, icmp, icmpv6, sctp, gre, arp, ..., "
                      "or \"proto\" and a number), behind any \"vlan N\"; \"{}\" is none",
                      by_number ? "proto" : word));
    said_.protocol = number ? static_cast<u32>(*number) : u32{*named};
    return {};
  }

  // "192.0.2.1:80", "[2001:db8::1]:80", or without a port.
  Result<void> read_end(const std::string& word, std::array<u8, 16>& address, u16& port, int& family) {
    std::string host = word, number;
    if (word.starts_with('[')) {
      const auto close = word.find(']');
      host = word.substr(1, close == word.npos ? word.npos : close - 1);
      if (close != word.npos && close + 1 < word.size() && word[close + 1] == ':')
        number = word.substr(close + 2);
      else if (close == word.npos || close + 1 != word.size())
        host.clear();
    } else if (std::count(word.begin(), word.end(), ':') == 1) {
      host = word.substr(0, word.find(':'));
      number = word.substr(word.find(':') + 1);
    }
    if (inet_pton(AF_INET, host.c_str(), address.data()) == 1)
      family = AF_INET;
    else if (inet_pton(AF_INET6, host.c_str(), address.data()) == 1)
      family = AF_INET6;
    else
      return Error(
          fmt::format("\"{}\" is no address: it must be like 192.0.2.1:80, [2001:db8::1]:80, or "
                      "without a port",
                      word));
    if (said_.has_ports()) {
      const auto read = number_in(number, 65535);
      if (!read) return Error(fmt::format("\"{}\" needs a port from 0 to 65535, as in {}:80", word, host));
      port = static_cast<u16>(*read);
    } else if (!number.empty() || word.ends_with(':')) {
      return Error(fmt::format("\"{}\" has a port, and this protocol has none", word));
    }
    return {};
  }

  Result<void> read_ends() {
    const std::string from = take(), arrow = take(), to = take();
    if (arrow != ">" || to.empty())
      return Error(std::string("behind the protocol stands where from and where to: SOURCE > DESTINATION"));
    int other = AF_INET;
    if (auto read = read_end(from, said_.src, said_.src_port, said_.family); !read) return read;
    if (auto read = read_end(to, said_.dst, said_.dst_port, other); !read) return read;
    if (other != said_.family)
      return Error(fmt::format("{} and {} are addresses of two kinds, IPv4 and IPv6", from, to));
    // As everybody says it.
    if (said_.protocol == kIcmp && said_.family == AF_INET6) said_.protocol = kIcmpv6;
    if (said_.protocol == kArp && said_.family != AF_INET)
      return Error(std::string("ARP asks for IPv4 addresses"));
    return {};
  }

  Result<void> read_option() {
    const std::string word = take();
    if (const auto flag = policy::find_word(policy::words::kTcpFlags, word); flag && for_tcp(said_)) {
      said_.tcp_flags = static_cast<u8>(said_.tcp_flags | 1u << *flag);
      return {};
    }
    if (word == "no-flags" && for_tcp(said_)) {
      said_.no_flags = true;
      return {};
    }
    if (word == "df" && said_.family == AF_INET && for_all(said_)) {
      said_.dont_fragment = true;
      return {};
    }
    if (word == "reply" && said_.protocol == kArp) {
      said_.reply = true;
      return {};
    }
    if (word == "dns" && (said_.protocol == kUdp || said_.protocol == kTcp)) {
      said_.name = take();
      return said_.name->empty() ? Error(std::string("\"dns\" is followed by the name that is asked for"))
                                 : Result<void>{};
    }
    if (word == "src-mac" || word == "dst-mac") {
      const auto mac = policy::read_mac(take());
      if (!mac) return Error(fmt::format("{}: {}", word, mac.error()));
      (word == "src-mac" ? said_.src_mac : said_.dst_mac) = *mac;
      said_.dst_mac_said = said_.dst_mac_said || word == "dst-mac";
      return {};
    }
    for (const auto& icmp : kIcmpNames)
      if (word == icmp.name && for_icmp(said_)) {
        said_.icmp_type = said_.protocol == kIcmp ? icmp.v4 : icmp.v6;
        return {};
      }
    return read_number(word);
  }

  Result<void> read_number(const std::string& word) {
    for (const auto& option : kNumbers) {
      if (word != option.name || !option.fits(said_)) continue;
      const auto number = number_in(take(), option.most);
      if (!number)
        return Error(fmt::format("\"{}\" is followed by a number from 0 to {}", word, option.most));
      said_.numbers[word] = *number;
      return {};
    }
    return Error(fmt::format("\"{}\" is nothing that such a packet can have{}", word,
                             word == "vlan" ? ": VLANs stand ahead of the protocol" : ""));
  }

  Result<Said> check() {
    if (said_.no_flags && said_.tcp_flags != 0)
      return Error(std::string("\"no-flags\" and a flag contradict each other"));
    if (said_.name && said_.numbers.contains("length"))
      return Error(std::string("\"dns\" and \"length\" both say what the payload is"));
    if (said_.icmp_type && said_.numbers.contains("type"))
      return Error(std::string("the ICMP type is said twice"));
    return std::move(said_);
  }

  const std::vector<std::string> words_;
  std::size_t at_ = 0;
  Said said_;
};

void put16(Bytes& bytes, u64 value) {
  bytes.push_back(static_cast<u8>(value >> 8));
  bytes.push_back(static_cast<u8>(value));
}
void put32(Bytes& bytes, u64 value) {
  put16(bytes, value >> 16 & 0xffff);
  put16(bytes, value & 0xffff);
}
template <class Part>
void put(Bytes& bytes, const Part& part) {
  bytes.insert(bytes.end(), part.begin(), part.end());
}

// The checksum of `bytes` at `at`, where zeros stand, with a pseudo-header in front.
void put_checksum(Bytes& bytes, std::size_t at, Bytes pseudo = {}, bool never_zero = false) {
  put(pseudo, bytes);
  if (pseudo.size() % 2 != 0) pseudo.push_back(0);
  u16 sum = static_cast<u16>(~dataplane::ones_sum(pseudo.data(), static_cast<u32>(pseudo.size())));
  if (sum == 0 && never_zero) sum = 0xffff;
  std::memcpy(&bytes[at], &sum, sizeof(sum));
}

Bytes pseudo_header(const Said& said, std::size_t length) {
  Bytes pseudo(said.src.begin(), said.src.begin() + said.address_bytes());
  pseudo.insert(pseudo.end(), said.dst.begin(), said.dst.begin() + said.address_bytes());
  if (said.family == AF_INET) {
    put16(pseudo, said.protocol);
    put16(pseudo, length);
  } else {
    put32(pseudo, length);
    put32(pseudo, said.protocol);
  }
  return pseudo;
}

// A query for one name, with its length in front over TCP.
Result<Bytes> dns_query(const Said& said) {
  Bytes query;
  put16(query, 0x1234);
  put16(query, 0x0100);  // recursion desired
  for (const u32 count : {1, 0, 0, 0}) put16(query, count);
  const std::string_view name = *said.name;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    if (end == at || end - at > 63)
      return Error(fmt::format("\"{}\" is no name: its labels have 1 to 63 characters", name.substr(0, 80)));
    query.push_back(static_cast<u8>(end - at));
    put(query, name.substr(at, end - at));
    at = end + 1;
  }
  query.push_back(0);
  if (query.size() - 12 > 255)
    return Error(fmt::format("\"{}...\" is longer than a name can be", name.substr(0, 80)));
  put16(query, said.number("query-type", 1));
  put16(query, 1);
  if (said.protocol != kTcp) return query;
  Bytes framed;
  put16(framed, query.size());
  put(framed, query);
  return framed;
}

// The transport header and what is behind it.
Bytes transport(const Said& said, const Bytes& payload) {
  Bytes bytes;
  if (said.has_ports()) {
    put16(bytes, said.src_port);
    put16(bytes, said.dst_port);
  }
  if (said.protocol == kTcp) {
    constexpr u8 kAck = 0x10;
    const u8 flags = said.no_flags || said.tcp_flags != 0 ? said.tcp_flags : kAck;
    put32(bytes, said.number("seq", 1));
    put32(bytes, said.number("ack-seq", flags & kAck ? 1 : 0));
    bytes.push_back(0x50);
    bytes.push_back(flags);
    put16(bytes, said.number("window", 64240));
    put32(bytes, 0);
  } else if (said.protocol == kUdp) {
    put16(bytes, 8 + payload.size());
    put16(bytes, 0);
  } else if (said.protocol == kSctp) {
    put32(bytes, 1);  // verification tag
    put32(bytes, 0);
    // A DATA chunk: a packet has one at least.
    put16(bytes, 3);
    put16(bytes, 16 + payload.size());
    for (const u32 word : {1, 0, 0}) put32(bytes, word);
  } else if (said.is_icmp()) {
    const u8 echo = said.protocol == kIcmp ? 8 : 128;
    bytes.push_back(static_cast<u8>(said.number("type", said.icmp_type.value_or(echo))));
    bytes.push_back(static_cast<u8>(said.number("code", 0)));
    put16(bytes, 0);
    put16(bytes, said.number("echo-id", 1));
    put16(bytes, said.number("echo-seq", 1));
  }
  put(bytes, payload);
  if (said.protocol == kTcp) put_checksum(bytes, 16, pseudo_header(said, bytes.size()));
  if (said.protocol == kUdp) put_checksum(bytes, 6, pseudo_header(said, bytes.size()), true);
  if (said.protocol == kIcmpv6) put_checksum(bytes, 2, pseudo_header(said, bytes.size()));
  if (said.protocol == kIcmp) put_checksum(bytes, 2);
  return bytes;
}

Bytes ethernet(const Said& said, u16 type) {
  Bytes frame;
  put(frame, said.dst_mac);
  put(frame, said.src_mac);
  for (std::size_t i = 0; i < said.vlans.size(); i++) {
    put16(frame, i == 0 && said.vlans.size() == 2 ? 0x88a8 : 0x8100);
    put16(frame, said.vlans[i]);
  }
  put16(frame, type);
  return frame;
}

Bytes arp(Said said) {
  if (!said.dst_mac_said && !said.reply) said.dst_mac.fill(0xff);
  Bytes frame = ethernet(said, 0x0806);
  for (const u32 word : {0x0001, 0x0800, 0x0604}) put16(frame, word);
  put16(frame, said.reply ? 2 : 1);
  put(frame, said.src_mac);
  frame.insert(frame.end(), said.src.begin(), said.src.begin() + 4);
  put(frame, said.reply ? said.dst_mac : Mac{});
  frame.insert(frame.end(), said.dst.begin(), said.dst.begin() + 4);
  return frame;
}

struct Piece {
  std::size_t at = 0, bytes = 0;  // of what is behind the IP header
  bool last = true, whole = true;
};

Bytes ipv4(const Said& said, const Bytes& behind, const Piece& piece) {
  Bytes header{0x45, static_cast<u8>(said.number("tos", 0))};
  put16(header, 20 + piece.bytes);
  put16(header, 0x1234);
  put16(header, (piece.last ? 0 : kMoreFragments) | (said.dont_fragment ? kDontFragment : 0) | piece.at / 8);
  header.push_back(static_cast<u8>(said.number("ttl", 64)));
  header.push_back(static_cast<u8>(said.protocol));
  put16(header, 0);
  header.insert(header.end(), said.src.begin(), said.src.begin() + 4);
  header.insert(header.end(), said.dst.begin(), said.dst.begin() + 4);
  put_checksum(header, 10);
  Bytes frame = ethernet(said, 0x0800);
  put(frame, header);
  put(frame, std::span(behind).subspan(piece.at, piece.bytes));
  return frame;
}

Bytes ipv6(const Said& said, const Bytes& behind, const Piece& piece) {
  Bytes frame = ethernet(said, 0x86dd);
  put32(frame, 6u << 28 | said.number("tos", 0) << 20);
  put16(frame, piece.bytes + (piece.whole ? 0 : 8));
  frame.push_back(static_cast<u8>(piece.whole ? said.protocol : 44));
  frame.push_back(static_cast<u8>(said.number("ttl", 64)));
  put(frame, said.src);
  put(frame, said.dst);
  if (!piece.whole) {
    put16(frame, said.protocol << 8);
    put16(frame, piece.at | (piece.last ? 0 : 1));
    put32(frame, 0x1234);
  }
  put(frame, std::span(behind).subspan(piece.at, piece.bytes));
  return frame;
}

}  // namespace

Result<Frames> frames_of(const PacketWords& packet) {
  const auto said = WordReader(packet.words).read();
  if (!said) return Error(said.error());
  if (said->protocol == kArp) {
    if (packet.payload || packet.mtu != 0) return Error(std::string("an ARP packet has no payload"));
    return Frames{arp(*said)};
  }
  Bytes payload(said->number("length", 0));
  if (packet.payload) {
    if (said->name || said->numbers.contains("length"))
      return Error(std::string("the words say already what the payload is"));
    payload.assign(packet.payload->begin(), packet.payload->end());
  } else if (said->name) {
    auto query = dns_query(*said);
    if (!query) return Error(query.error());
    payload = std::move(*query);
  }
  const Bytes behind = transport(*said, payload);
  const bool is_ipv4 = said->family == AF_INET;
  const std::size_t header = is_ipv4 ? 20 : 40;
  if (behind.size() + (is_ipv4 ? header : 0) > kMostIp)
    return Error(fmt::format("the packet is longer than the {} bytes that IP has room for", kMostIp));
  const bool whole = packet.mtu == 0 || header + behind.size() <= packet.mtu;
  if (!whole && said->dont_fragment)
    return Error(std::string("\"df\" and an \"mtu\" that is less than the packet contradict each other"));
  const std::size_t room = whole ? behind.size() : (packet.mtu - header - (is_ipv4 ? 0 : 8)) / 8 * 8;
  if (!whole && (packet.mtu < header + 16 || room == 0))
    return Error(fmt::format("an \"mtu\" of {} bytes has no room for a fragment", packet.mtu));
  Frames frames;
  for (std::size_t at = 0; at < behind.size() || frames.empty(); at += room) {
    const Piece piece{at, std::min(room, behind.size() - at), at + room >= behind.size(), whole};
    frames.push_back(is_ipv4 ? ipv4(*said, behind, piece) : ipv6(*said, behind, piece));
  }
  return frames;
}

Result<std::vector<u8>> bytes_of_hex(const std::string& text) {
  std::string digits;
  for (const char c : text)
    if (c != ' ' && c != ':') digits += c;
  std::vector<u8> bytes;
  if (digits.size() % 2 != 0) return Error(std::string("an odd number of hexadecimal digits makes no bytes"));
  for (std::size_t at = 0; at < digits.size(); at += 2) {
    u8 byte = 0;
    const char* const end = digits.data() + at + 2;
    const auto [read, error] = std::from_chars(digits.data() + at, end, byte, 16);
    if (error != std::errc() || read != end)
      return Error(fmt::format("\"{}\" are no two hexadecimal digits", digits.substr(at, 2)));
    bytes.push_back(byte);
  }
  return bytes;
}

}  // namespace xdpgpu::control
