// SPDX-License-Identifier: MIT
//
// gpu/reference/dns_message.hpp: what signatures are asked of a DNS message (gpu/signatures.hpp says what
// that is), as Suricata 7.0.10's parser reads it (rust/src/dns/parser.rs).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu::reference {

struct DnsMessage {
  // Takes any bytes, and keeps none of them.
  explicit DnsMessage(std::span<const u8> message);

  bool is_dns = false;
  bool is_read = false;  // all that is asked of it; only what is_dns
  bool is_answer = false;
  u8 operation = 0;
  std::vector<std::string> names;  // of a query: its questions', as text; in front of the first empty one
  // What reading took, of the questions and of an answer's records: 1 for each label, pointer and end of a
  // name that was come by, and 1 for each 16 bytes that were compared for a pointer that may be one to
  // itself.
  u64 question_steps = 0, record_steps = 0;
};

}  // namespace xdpgpu::gpu::reference
