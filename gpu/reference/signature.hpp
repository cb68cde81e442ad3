// SPDX-License-Identifier: MIT
//
// gpu/reference/signature.hpp: whether a signature matches a packet, one after the other: what the right
// answer is. gpu/signatures.hpp says what signatures mean.
//
//   const SignaturePacket seen(packet);
//   for (const auto& signature : signatures)
//     if (matches(signature, seen)) ...
#pragma once

#include <optional>

#include "gpu/reference/dns_message.hpp"
#include "gpu/reference/packet.hpp"
#include "gpu/signatures.hpp"

namespace xdpgpu::gpu::reference {

// What of a packet signatures are about: its outer headers, and its payload.
struct SignaturePacket {
  explicit SignaturePacket(const Packet& packet);
  // Its parts point into its bytes.
  SignaturePacket(SignaturePacket&&) = default;
  SignaturePacket& operator=(SignaturePacket&&) = default;

  // Not of a packet that no signature matches: one that is not IP, a malformed one, one whose IPv4 options
  // contradict their lengths, ICMP in IPv6, protocol 0 with IPv4 options or behind IPv6's own header. What
  // Suricata makes of those depends on where its decoder gives up.
  bool judged = false;
  bool v4 = false;
  bool fragment = false;  // of several
  u8 protocol = 0;        // as signatures::Header has it
  std::vector<u8> bytes;  // the packet's
  u32 ip = 0;             // where its header stands in them
  std::span<const u8> src, dst;
  // The whole header of TCP, UDP, SCTP, ICMP or ICMPv6; none of fragments.
  std::span<const u8> transport;
  std::span<const u8> payload;
  std::optional<u16> src_port, dst_port;
  std::optional<u32> fragment_offset;
  std::bitset<256> ip_options;    // types of those that are there and well-formed
  std::optional<DnsMessage> dns;  // the payload of UDP to or from port 53, which may be none
  u32 connection = 0;             // XG_CONNECTION_*, for whoever knows them to say

 private:
  bool read_options(std::span<const u8> rest);
  void read_fragment();
  u8 read_extensions();
  bool read_payload(std::span<const u8> message);
};

// What looks for expressions.
class ExpressionFinder {
 public:
  enum class Found : u8 { no, yes, limit };  // limit: it is not known, it takes too much
  // In `subject` from byte `from` on, which may be behind the subject's end, where nothing is. at: where it
  // is, from the first byte to the one behind the last, counted from the subject's start.
  virtual Found find(const signatures::Expression& expression, std::span<const u8> subject, u32 from,
                     signatures::Range<u32>& at) noexcept = 0;
  // What stands beside the expressions takes too much: it is not known whether the rest holds.
  virtual void give_up() noexcept = 0;

 protected:
  ~ExpressionFinder() = default;
};

// Whether the rest of a rule holds for a packet that its signature matches.
bool rest_holds(const signatures::HostPart& rest, const SignaturePacket& packet, ExpressionFinder& finder);

bool matches(const signatures::Signature& signature, const SignaturePacket& packet);
// The same, and adds to `work` what it took: each step that is begun costs 1; a content, each time that it is
// looked for, 1, and 1 for each 16 places that are looked at, of that which has the fast pattern those from
// where the first one lets it stand; and where it is longer than four bytes, at each
// place that has the first four, 1 for each 16 bytes of it or part of them. A regular expression, each time
// that it is begun: each byte that is read, and behind it, if another one is, each position that has it and
// branches(), is 1 and 1 for each 32 positions of the automaton or part of them; and each 8 of all these
// cost 1. A set that a name is looked up in costs 1, and 1 for each 16 bytes of the name or part of them.
bool matches(const signatures::Signature& signature, const SignaturePacket& packet, u64& work);

// Whether it is for such packets at all, whatever they say.
bool applies(const signatures::Signature& signature, const SignaturePacket& packet);
// Whether a text, or a payload, has what its payload's steps look for. Adds to `work`, as above.
bool is_in(const signatures::Signature& signature, std::span<const u8> text, u64& work);
// Whether it has what steps look for.
bool is_in(const std::vector<signatures::Step>& steps, std::span<const u8> text, u64& work);

// Whether a server's name is what is asked for. Adds to `work`, as above.
bool is_named(const signatures::Hello& wanted, const std::string& name, u64& work);

// Whether a request has parts as they are asked for, but for its body. Adds to `work`, as above.
bool is_asked(const signatures::Http& wanted,
              const std::array<std::optional<std::string>, signatures::kHttpParts>& parts, u64& work);

// Whether so many bytes are of the sizes that are asked for.
bool sizes_match(const signatures::NameIs& wanted, u64 bytes);

// Whether an expression, negated or not, is in what it is looked for in. Adds to `work` what its bytes cost.
bool is_in(const signatures::Regex& regex, std::span<const u8> subject, u64& work);

}  // namespace xdpgpu::gpu::reference
