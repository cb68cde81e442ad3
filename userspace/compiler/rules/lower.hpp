// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/lower.hpp: from rules to signatures (gpu/signatures.hpp): those that packets alone
// decide, as Suricata 7.0.10 does. That needs no stream, no flow, no application's protocol but DNS over UDP,
// and nothing that is remembered but how often a rule has alerted (thresholds.hpp).
//
// Rules for DNS are for TCP, too, where messages stand in a stream: of those the half that is about UDP is
// decided (Lowered::over_tcp_too).
//
// Suricata looks at more than single packets all the same, and then says something else: it inspects
// fragments once more as the packet that they make, and what is inside of a tunnel instead of its outer
// payload; it says what needs addresses and ports alone once a flow and direction; and it leaves out the
// payload of TLS once that is encrypted, unless it is told not to. tests/unit/compiler_signatures.cpp counts
// these.
#pragma once

#include "gpu/signatures.hpp"
#include "userspace/compiler/rules/rule.hpp"

namespace xdpgpu::rules {

// What of a rule packets alone do not decide in this release.
struct NotYet {
  std::string keyword;  // as rules write it; of a protocol: its name
  std::string why;      // a sentence's end: "content: it is looked for in a stream"
  bool operator==(const NotYet&) const = default;
};

struct Lowered {
  std::optional<gpu::signatures::Signature> signature;
  std::vector<NotYet> not_yet;  // each keyword once, in the rule's order; none where there is a signature
  bool over_tcp_too = false;    // what the rule asks of DNS messages over TCP, the signature does not
};
// The keywords that stand in the way, and of how many rules.
class NotYetCounts {
 public:
  void add(const Lowered& lowered);
  // By what most rules ask for.
  std::vector<std::pair<std::string, u64>> sorted() const;

 private:
  std::vector<std::pair<std::string, u64>> counts_;  // in the order in which they came
};
// priority: of a rule that has none by its own word or its class.
Lowered lower(const Rule& rule, u32 priority = 3);

}  // namespace xdpgpu::rules
