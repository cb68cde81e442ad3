// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/lower_payload.hpp: what a rule asks of the payload, or of a name in a DNS message
// or a part of a request or an answer by HTTP, as steps of a signature.
#pragma once

#include "userspace/compiler/rules/lower.hpp"

namespace xdpgpu::rules {

// Its numbers, as far as 32 bits have room.
gpu::signatures::Range<u32> range_of(const Range& range);

struct LoweredPayload {
  // What a device is to ask. Where not all of it can, up to the first expression that none has, and whether
  // the contents behind it are there at all.
  std::vector<gpu::signatures::Step> steps;
  // All of it, where a device cannot ask all: what a host is to ask (gpu::signatures::HostPart).
  std::vector<gpu::signatures::Step> rest;
  std::vector<gpu::signatures::SizeIs> sizes;                // of a name
  std::vector<gpu::signatures::SizeIs> raw_sizes;            // of a URI as it came, beside the normalized one
  std::vector<gpu::signatures::InSet> sets;                  // likewise
  std::optional<gpu::signatures::FastPattern> fast_pattern;  // its buffer is left open
  bool matches_nothing = true;                               // all steps may match in a payload of no bytes
  std::vector<NotYet> not_yet;
};
// A buffer that is a part of a request, or of an answer, by HTTP, if it is one.
std::optional<gpu::signatures::HttpPart> http_part_of(std::string_view buffer, bool of_answers);
// buffer: one of the rule's, "payload", "dns_query", "tls.sni", or a part of a request or an answer.
LoweredPayload lower_payload(const Rule& rule, const Buffer& buffer);

}  // namespace xdpgpu::rules
