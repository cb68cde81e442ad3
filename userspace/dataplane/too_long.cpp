// SPDX-License-Identifier: MIT
#include "userspace/dataplane/too_long.hpp"

#include <algorithm>
#include <cstring>

#include "maps/encapsulation.h"
#include "userspace/dataplane/answers.hpp"

namespace xdpgpu::dataplane {
namespace {

bool may_be_answered(const u8* frame, u32 length, const xg_metadata& metadata, bool v4) noexcept {
  const u8* const ip = frame + metadata.l3_offset;
  if (metadata.flags & XG_PKT_LATER_FRAGMENT || !is_between_hosts(frame, ip, v4)) return false;
  if (!(metadata.flags & XG_PKT_ICMP)) return true;
  const u8 echo = v4 ? 8 : 128;
  return metadata.l4_offset && metadata.l4_offset < length && frame[metadata.l4_offset] == echo;
}

void swap_macs(u8* frame) noexcept { std::swap_ranges(frame, frame + 6, frame + 6); }

}  // namespace

std::optional<Answer> answer_too_long(u8* frame, u32 length, u32 mtu) noexcept {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
  const bool v4 = !(metadata.flags & XG_PKT_IPV6);
  const u32 l3 = metadata.l3_offset;
  if (!may_be_answered(frame, length, metadata, v4)) return std::nullopt;
  const u32 headers = v4 ? kError4 : kError6;
  const xg_inner inner = xg_inner_packet(frame + l3, v4 ? 4 : 6);
  const u32 quoted = std::min({inner.bytes, length - l3, (v4 ? kMostError4 : kMostError6) - headers});
  std::memmove(frame - headers, frame, l3);
  swap_macs(frame - headers);
  if (v4)
    write_error4(frame + l3, quoted, {.type = 3, .code = 4, .rest = std::min(mtu, 0xffffu)});
  else
    write_error6(frame + l3, quoted, {.type = 2, .code = 0, .rest = mtu});
  return Answer{headers, l3 + headers + quoted};
}

}  // namespace xdpgpu::dataplane
