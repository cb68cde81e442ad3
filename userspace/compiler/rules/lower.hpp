// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/lower.hpp: from rules to signatures (gpu/signatures.hpp): those that packets
// decide, with what a stage `conntrack` says of their connections, as Suricata 7.0.10 does, and those that
// TCP streams do, where these are followed. That needs of what applications say no more than DNS over UDP,
// TLS servers' names and requests and answers by HTTP/1, and nothing that rules remember but bits (bits.hpp)
// and how often they have alerted (thresholds.hpp).
//
// Suricata looks for the contents of a rule for TCP in the stream; of one with a content that has its place
// from the start, in each packet, too; and of one that asks for what a packet has, in packets alone. So says
// the signature. In streams nothing is decided of which a host is to say whether it drops, rejects or passes:
// that would be one packet's, and what it brings comes again.
//
// A regular expression that no automaton decides is for hosts: the signature is what the rule asks for in
// front of it, which holds wherever the rule does.
//
// Rules for DNS are for TCP, too, where messages stand in a stream: of those the half that is about UDP is
// decided (Lowered::over_tcp_too). Of rules for files that HTTP brings either way it is the half that is
// about answers (Lowered::uploads_too).
//
// Suricata looks at more than single packets all the same, and then says something else: it inspects
// fragments once more as the packet that they make, and what is inside of a tunnel instead of its outer
// payload; it says what needs addresses and ports alone once a flow and direction; and it leaves out the
// payload of TLS once that is encrypted, unless it is told not to. tests/unit/compiler_signatures.cpp counts
// these.
#pragma once

#include <memory>
#include <span>

#include "gpu/rule_source.hpp"
#include "userspace/compiler/rules/rule.hpp"

namespace xdpgpu::rules {

// Whether streams are followed, and requests by HTTP are read in them, and answers, too. Where not, rules
// that are looked for there are not decided.
enum class Streams : u8 { none, without_http, with_requests, with_answers };

// What of a rule is not decided in this release.
struct NotYet {
  std::string keyword;  // as rules write it; of a protocol: its name
  std::string why;      // a sentence's end: "content: it is looked for in a stream"
  bool operator==(const NotYet&) const = default;
};

struct Lowered {
  std::optional<gpu::signatures::Signature> signature;
  std::vector<NotYet> not_yet;  // each keyword once, in the rule's order; none where there is a signature
  bool over_tcp_too = false;    // what the rule asks of DNS messages over TCP, the signature does not
  bool uploads_too = false;     // nor what it asks of files that clients send
  std::vector<gpu::RuleBits> bits{};  // that it asks for, or changes
  bool noalert = false;
  bool of_connections = false;  // it needs a stage `conntrack` in front
  // What the rule does; late: once the host knows more than the signature, which alerts (gpu::RuleHead).
  gpu::signatures::Action action = gpu::signatures::Action::alert;
  bool late = false;
  // What hosts are to ask, too; nullptr: nothing. Then the signature asks for less than the rule.
  std::shared_ptr<const gpu::signatures::HostPart> rest{};
  bool lacks_streams = false;  // it would be decided if they were followed
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
// By itself: what it asks of bits may hang on rules that are not decided. priority: of a rule that has none
// by its own word or its class.
Lowered lower(const Rule& rule, Streams streams = Streams::none, u32 priority = 3);
// All that there are, in their order. A rule that asks for a bit is decided only where all that change it
// are; and one that passes what streams say, where no line suppresses it for some.
std::vector<Lowered> lower(std::span<const Rule> rules, Streams streams = Streams::none,
                           std::span<const gpu::Suppression> suppressed = {});
// It passes the rest of a stream, which a host cannot.
bool passes_streams(const Lowered& lowered);

// In which order rules of one action count, as for Suricata: the higher one first. Those that set a bit stand
// in front of those that ask for it; but on addresses it knows of setting by `hostbits` alone, and of asking
// by `xbits` alone (detect-engine-sigorder.c, SCSigGetXbitsType).
std::array<u32, 3> order_by_bits(const Rule& rule);

}  // namespace xdpgpu::rules
