// SPDX-License-Identifier: MIT
//
// userspace/dataplane/dns_question.hpp: the question of a DNS message (RFC 1035, 4.1), for those who tell of
// it. A stranger wrote it.
#pragma once

#include <optional>

#include "maps/types.h"

namespace xdpgpu::dataplane {

inline constexpr u32 kDnsHeader = 12, kMostDnsName = 255;  // bytes

struct DnsQuestion {
  u16 id = 0, flags = 0;  // of the header, host order
  u16 type = 0;           // host order
  u32 name_at = 0;        // of the message: the name's first length
  u32 name_bytes = 0;     // with the zero at its end
};

// Of a message of which `bytes` bytes are there. Nothing where it has not exactly one question, whole and
// without compression: what the stage `domains` takes for malformed, or for a message without a name. Reads
// at most kDnsHeader + kMostDnsName + 4 bytes.
std::optional<DnsQuestion> read_dns_question(const u8* message, u32 bytes) noexcept;

}  // namespace xdpgpu::dataplane
