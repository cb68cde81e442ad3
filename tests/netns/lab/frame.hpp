// SPDX-License-Identifier: MIT
//
// tests/netns/lab/frame.hpp: frames built from a few words, and read back.
//
//   auto f = build({.src = a, .dst = b, .vlans = {{10}}, .src_ip = "10.0.0.1", .dst_ip = "10.0.0.2",
//                   .src_port = 1000, .dst_port = 53, .payload = "hello"});
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/netns/lab/link.hpp"

namespace xdpgpu::lab {

using Frame = std::vector<std::uint8_t>;

struct Vlan {
  std::uint16_t id = 0;
  std::uint16_t tpid = 0x8100;
  bool operator==(const Vlan&) const = default;
};

inline constexpr std::uint8_t kIcmp = 1, kTcp = 6, kUdp = 17, kGre = 47, kIcmp6 = 58;
inline constexpr std::uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kPsh = 0x08, kAck = 0x10;

// A packet in words; the family follows from the addresses. All checksums are right unless told
// otherwise. For ICMP: an echo request, src_port is the identifier and tcp_seq the sequence number.
struct PacketSpec {
  Mac src{}, dst{};
  std::vector<Vlan> vlans{};
  std::string src_ip = "10.9.0.2", dst_ip = "10.9.0.1";
  std::uint8_t protocol = kUdp;
  std::uint16_t src_port = 0, dst_port = 0;
  std::uint8_t tcp_flags = kAck;
  std::uint32_t tcp_seq = 0;
  std::string payload{};
  std::uint8_t ttl = 64;
  std::uint16_t ip_id = 0;
  bool wrong_l4_checksum = false;
};
Frame build(const PacketSpec& spec);

// The packet's IP fragments, each with at most `l3_payload` bytes behind its IP header(s) (rounded down
// to a multiple of 8), in order.
std::vector<Frame> build_fragments(const PacketSpec& spec, std::size_t l3_payload);

// What a frame says. Fields that its headers do not carry are empty or 0.
struct Parsed {
  Mac src{}, dst{};
  std::vector<Vlan> vlans;
  std::uint16_t ethertype = 0;  // behind the tags
  std::string src_ip, dst_ip;
  std::uint8_t protocol = 0;
  std::uint16_t src_port = 0, dst_port = 0;
  bool fragment = false;
  bool checksums_right = false;  // IPv4 header and, unless a fragment, TCP, UDP, ICMP
  std::string payload;           // behind the L4 header, without Ethernet padding
};
std::optional<Parsed> parse(std::span<const std::uint8_t> frame);

// The frames of a capture, in order; bare IP packets and those of a loopback interface get an Ethernet
// header. Throws Error.
std::vector<Frame> read_pcap(const std::string& path);

// The frame with its MAC addresses exchanged.
Frame with_macs_swapped(Frame frame);

}  // namespace xdpgpu::lab
