// SPDX-License-Identifier: MIT
#include "tests/netns/lab/frame.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kTypeIpv4 = 0x0800, kTypeIpv6 = 0x86dd;

class Bytes {
 public:
  Frame data;
  Bytes& u8(unsigned v) {
    data.push_back(static_cast<std::uint8_t>(v));
    return *this;
  }
  Bytes& u16(unsigned v) { return u8(v >> 8).u8(v); }
  Bytes& u32(std::uint32_t v) { return u16(v >> 16).u16(v & 0xffff); }
  Bytes& raw(std::span<const std::uint8_t> bytes) {
    data.insert(data.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes& text(std::string_view bytes) {
    data.insert(data.end(), bytes.begin(), bytes.end());
    return *this;
  }
  void set16(std::size_t at, unsigned v) {
    data[at] = static_cast<std::uint8_t>(v >> 8);
    data[at + 1] = static_cast<std::uint8_t>(v);
  }
};

std::uint32_t sum16(std::span<const std::uint8_t> bytes, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) sum += i % 2 == 0 ? bytes[i] << 8U : bytes[i];
  return sum;
}
std::uint16_t fold(std::uint32_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

bool is_v6(const std::string& address) { return address.find(':') != std::string::npos; }

Frame address_bytes(const std::string& text) {
  Frame bytes(is_v6(text) ? 16 : 4);
  if (inet_pton(is_v6(text) ? AF_INET6 : AF_INET, text.c_str(), bytes.data()) != 1)
    throw Error(fmt::format("{} is not an address", text));
  return bytes;
}

std::uint32_t pseudo_sum(std::span<const std::uint8_t> src, std::span<const std::uint8_t> dst,
                         std::uint8_t protocol, std::size_t length) {
  return sum16(dst, sum16(src)) + protocol + static_cast<std::uint32_t>(length);
}

bool is_v6(const PacketSpec& spec) { return is_v6(spec.src_ip); }

std::uint8_t wire_protocol(const PacketSpec& spec) {
  return spec.protocol == kIcmp && is_v6(spec) ? kIcmp6 : spec.protocol;
}

Frame build_l4(const PacketSpec& spec) {
  const Frame src = address_bytes(spec.src_ip), dst = address_bytes(spec.dst_ip);
  const std::uint8_t protocol = wire_protocol(spec);
  Bytes l4;
  std::size_t checksum_at = 0;
  switch (protocol) {
    case kUdp:
      l4.u16(spec.src_port).u16(spec.dst_port).u16(static_cast<unsigned>(8 + spec.payload.size())).u16(0);
      checksum_at = 6;
      break;
    case kTcp:
      l4.u16(spec.src_port).u16(spec.dst_port).u32(spec.tcp_seq).u32(1).u8(0x50).u8(spec.tcp_flags);
      l4.u16(0xffff).u16(0).u16(0);
      checksum_at = 16;
      break;
    case kIcmp:
    case kIcmp6:
      l4.u8(protocol == kIcmp ? 8 : 128).u8(0).u16(0).u16(spec.src_port).u16(spec.tcp_seq & 0xffff);
      checksum_at = 2;
      break;
    default:
      break;
  }
  l4.text(spec.payload);
  if (checksum_at != 0) {
    const std::uint32_t start = protocol == kIcmp ? 0 : pseudo_sum(src, dst, protocol, l4.data.size());
    std::uint16_t checksum = fold(sum16(l4.data, start));
    if (protocol == kUdp && checksum == 0) checksum = 0xffff;
    if (spec.wrong_l4_checksum) checksum = static_cast<std::uint16_t>(checksum ^ 0x5555U);
    l4.set16(checksum_at, checksum);
  }
  return l4.data;
}

// One packet, or one fragment of it: `offset` in bytes, `more` behind it.
Frame build_ip(const PacketSpec& spec, std::span<const std::uint8_t> l3_payload, std::size_t offset,
               bool more, bool fragmented) {
  Bytes frame;
  frame.raw(spec.dst).raw(spec.src);
  for (const Vlan& tag : spec.vlans) frame.u16(tag.tpid).u16(tag.id);
  frame.u16(is_v6(spec) ? kTypeIpv6 : kTypeIpv4);
  const Frame src = address_bytes(spec.src_ip), dst = address_bytes(spec.dst_ip);
  if (is_v6(spec)) {
    const std::size_t extension = fragmented ? 8 : 0;
    frame.u32(0x60000000).u16(static_cast<unsigned>(l3_payload.size() + extension));
    frame.u8(fragmented ? 44 : wire_protocol(spec)).u8(spec.ttl).raw(src).raw(dst);
    if (fragmented)
      frame.u8(wire_protocol(spec))
          .u8(0)
          .u16(static_cast<unsigned>(offset | (more ? 1U : 0U)))
          .u32(spec.ip_id);
  } else {
    const std::size_t start = frame.data.size();
    frame.u16(0x4500).u16(static_cast<unsigned>(20 + l3_payload.size())).u16(spec.ip_id);
    frame.u16(static_cast<unsigned>(offset / 8 | (more ? 0x2000U : 0U))).u8(spec.ttl).u8(wire_protocol(spec));
    frame.u16(0).raw(src).raw(dst);
    frame.set16(start + 10, fold(sum16(std::span(frame.data).subspan(start))));
  }
  frame.raw(l3_payload);
  if (frame.data.size() < 60) frame.data.resize(60);
  return frame.data;
}

std::uint16_t get16(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint16_t>(bytes[at] << 8U | bytes[at + 1]);
}

std::string address_text(int family, std::span<const std::uint8_t> bytes) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, bytes.data(), text, sizeof(text));
  return text;
}

void parse_l4(Parsed& out, std::span<const std::uint8_t> l4, std::uint32_t pseudo) {
  std::size_t header = 0;
  switch (out.protocol) {
    case kUdp:
      header = 8;
      break;
    case kTcp:
      header = l4.size() >= 20 ? (l4[12] >> 4U) * 4U : 20U;
      break;
    case kIcmp:
    case kIcmp6:
      header = 8;
      break;
    default:
      break;
  }
  if (l4.size() < header) {
    out.checksums_right = false;
    return;
  }
  if (out.protocol == kUdp || out.protocol == kTcp) {
    out.src_port = get16(l4, 0);
    out.dst_port = get16(l4, 2);
  } else if (header != 0) {
    out.src_port = get16(l4, 4);
  }
  out.payload.assign(l4.begin() + static_cast<std::ptrdiff_t>(header), l4.end());
  if (header == 0 || (out.protocol == kUdp && get16(l4, 6) == 0)) return;
  if (fold(sum16(l4, out.protocol == kIcmp ? 0 : pseudo)) != 0) out.checksums_right = false;
}

}  // namespace

Frame build(const PacketSpec& spec) { return build_ip(spec, build_l4(spec), 0, false, false); }

std::vector<Frame> build_fragments(const PacketSpec& spec, std::size_t l3_payload) {
  const Frame l4 = build_l4(spec);
  const std::size_t step = l3_payload / 8 * 8;
  std::vector<Frame> fragments;
  for (std::size_t at = 0; at < l4.size(); at += step) {
    const std::size_t size = std::min(step, l4.size() - at);
    fragments.push_back(build_ip(spec, std::span(l4).subspan(at, size), at, at + size < l4.size(), true));
  }
  return fragments;
}

std::optional<Parsed> parse(std::span<const std::uint8_t> frame) {
  if (frame.size() < 14) return std::nullopt;
  Parsed out;
  std::memcpy(out.dst.data(), frame.data(), 6);
  std::memcpy(out.src.data(), frame.data() + 6, 6);
  std::size_t at = 12;
  while (at + 4 <= frame.size() && (get16(frame, at) == 0x8100 || get16(frame, at) == 0x88a8)) {
    out.vlans.push_back({static_cast<std::uint16_t>(get16(frame, at + 2) & 0xfff), get16(frame, at)});
    at += 4;
  }
  if (at + 2 > frame.size()) return out;
  out.ethertype = get16(frame, at);
  const auto l3 = frame.subspan(at + 2);
  if (out.ethertype == kTypeIpv4 && l3.size() >= 20) {
    const std::size_t header = (l3[0] & 0xfU) * 4U, total = get16(l3, 2);
    if (header < 20 || total < header || total > l3.size()) return out;
    out.src_ip = address_text(AF_INET, l3.subspan(12, 4));
    out.dst_ip = address_text(AF_INET, l3.subspan(16, 4));
    out.protocol = l3[9];
    out.fragment = (get16(l3, 6) & 0x3fffU) != 0;
    out.checksums_right = fold(sum16(l3.first(header))) == 0;
    const auto l4 = l3.subspan(header, total - header);
    if (!out.fragment)
      parse_l4(out, l4, pseudo_sum(l3.subspan(12, 4), l3.subspan(16, 4), out.protocol, l4.size()));
  } else if (out.ethertype == kTypeIpv6 && l3.size() >= 40) {
    const std::size_t length = get16(l3, 4);
    if (length + 40 > l3.size()) return out;
    out.src_ip = address_text(AF_INET6, l3.subspan(8, 16));
    out.dst_ip = address_text(AF_INET6, l3.subspan(24, 16));
    out.protocol = l3[6];
    out.checksums_right = true;
    auto l4 = l3.subspan(40, length);
    if (out.protocol == 44 && l4.size() >= 8) {
      out.fragment = true;
      out.protocol = l4[0];
      return out;
    }
    parse_l4(out, l4, pseudo_sum(l3.subspan(8, 16), l3.subspan(24, 16), out.protocol, l4.size()));
  }
  return out;
}

std::vector<Frame> read_pcap(const std::string& path) {
  char why[PCAP_ERRBUF_SIZE] = {};
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> capture(pcap_open_offline(path.c_str(), why),
                                                               pcap_close);
  if (!capture) throw Error(fmt::format("cannot read the capture {}: {}", path, why));
  const int link = pcap_datalink(capture.get());
  std::size_t head = 0;  // bytes in front of the IP packet, where there is no Ethernet header
  if (link == DLT_NULL)
    head = 4;
  else if (link != DLT_EN10MB && link != DLT_RAW)
    throw Error(fmt::format("{} holds neither Ethernet nor IP packets", path));

  std::vector<Frame> frames;
  pcap_pkthdr* packet = nullptr;
  const u_char* bytes = nullptr;
  int read = 0;
  while ((read = pcap_next_ex(capture.get(), &packet, &bytes)) == 1) {
    if (packet->caplen <= head) continue;
    Frame frame;
    if (link != DLT_EN10MB) {
      const bool v6 = bytes[head] >> 4 == 6;
      frame = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
      for (const int byte : {v6 ? 0x86 : 0x08, v6 ? 0xdd : 0x00})
        frame.push_back(static_cast<std::uint8_t>(byte));
    }
    frame.insert(frame.end(), bytes + head, bytes + packet->caplen);
    frames.push_back(std::move(frame));
  }
  if (read == PCAP_ERROR) throw Error(fmt::format("{} is damaged: {}", path, pcap_geterr(capture.get())));
  return frames;
}

Frame with_macs_swapped(Frame frame) {
  if (frame.size() >= 12) std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
  return frame;
}

}  // namespace xdpgpu::lab
