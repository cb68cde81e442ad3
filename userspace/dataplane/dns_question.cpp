// SPDX-License-Identifier: MIT
#include "userspace/dataplane/dns_question.hpp"

namespace xdpgpu::dataplane {
namespace {

u16 number(const u8* at) noexcept { return static_cast<u16>(at[0] << 8 | at[1]); }

}  // namespace

std::optional<DnsQuestion> read_dns_question(const u8* message, u32 bytes) noexcept {
  constexpr u32 kMostLabel = 63, kTypeAndClass = 4;
  if (bytes < kDnsHeader || number(message + 4) != 1) return std::nullopt;
  u32 at = kDnsHeader;
  while (at < bytes && message[at] != 0) {
    if (message[at] > kMostLabel) return std::nullopt;
    at += message[at] + 1u;
    if (at + 1 - kDnsHeader > kMostDnsName) return std::nullopt;
  }
  if (at + 1 + kTypeAndClass > bytes) return std::nullopt;
  return DnsQuestion{.id = number(message),
                     .flags = number(message + 2),
                     .type = number(message + at + 1),
                     .name_at = kDnsHeader,
                     .name_bytes = at + 1 - kDnsHeader};
}

}  // namespace xdpgpu::dataplane
