// SPDX-License-Identifier: MIT
#include "gpu/reference/ends.hpp"

#include <algorithm>
#include <cstring>

namespace xdpgpu::gpu::reference {
namespace {

using Bytes = std::span<const u8>;

// Addresses compare as words of the packet, ports likewise, both read as little-endian numbers.
template <class Number>
Number little(Bytes bytes) {
  Number number = 0;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

// IPv4 addresses as IPv6's ::ffff:0:0/96.
void put_address(std::span<u8> to, Bytes address) {
  if (address.size() == 4) to[10] = to[11] = 0xff;
  std::copy(address.begin(), address.end(), to.end() - static_cast<std::ptrdiff_t>(address.size()));
}

bool is_mapped(Bytes address) {
  return address.size() == 16 &&
         std::all_of(address.begin(), address.begin() + 10, [](u8 b) { return b == 0; }) &&
         address[10] == 0xff && address[11] == 0xff;
}

// The ids of the frame's one or two tags.
std::array<u16, 2> vlans_of(const Packet& packet) {
  std::array<u16, 2> ids{};
  const Bytes outer = header(packet, 14, 4);
  if (!packet.is(XG_PKT_VLAN) || outer.empty()) return ids;
  ids[0] = static_cast<u16>((outer[0] << 8 | outer[1]) & 0xfff);
  const int next = outer[2] << 8 | outer[3];
  const Bytes inner = header(packet, 18, 2);
  if ((next == 0x8100 || next == 0x88a8 || next == 0x9100) && !inner.empty())
    ids[1] = static_cast<u16>((inner[0] << 8 | inner[1]) & 0xfff);
  return ids;
}

}  // namespace

std::optional<Ends> ends(const Packet& packet, Bytes src, Bytes dst, Bytes src_port, Bytes dst_port,
                         u8 protocol) {
  if (is_mapped(src) || is_mapped(dst)) return std::nullopt;
  Ends found;
  int order = 0;
  for (std::size_t at = 0; at < src.size() && order == 0; at += 4) {
    const u32 a = little<u32>(src.subspan(at)), b = little<u32>(dst.subspan(at));
    order = a < b ? -1 : a > b ? 1 : 0;
  }
  if (order == 0 && little<u16>(src_port) > little<u16>(dst_port)) order = 1;
  found.from_upper = order > 0;
  if (found.from_upper) {
    std::swap(src, dst);
    std::swap(src_port, dst_port);
  }
  put_address(std::span(found.key).first(16), src);
  put_address(std::span(found.key).subspan(16, 16), dst);
  std::copy_n(src_port.begin(), 2, found.key.begin() + 32);
  std::copy_n(dst_port.begin(), 2, found.key.begin() + 34);
  found.key[36] = protocol;
  const auto vlans = vlans_of(packet);
  const u32 both = vlans[0] | u32{vlans[1]} << 12;
  for (u32 i = 0; i < 3; i++) found.key[37 + i] = static_cast<u8>(both >> 8 * i);
  return found;
}

}  // namespace xdpgpu::gpu::reference
