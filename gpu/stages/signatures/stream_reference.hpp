// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/stream_reference.hpp: rules that are asked of what TCP connections say, one packet
// after the other: what the right answer is. gpu/signatures.hpp ("streams") and
// gpu/stages/signatures/settings.hpp say what that is. All of a stream that has come is kept here.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/reference/ends.hpp"
#include "gpu/reference/http_messages.hpp"
#include "gpu/reference/signature.hpp"
#include "gpu/stages/list.hpp"

namespace xdpgpu::gpu::reference {

class Streams {
 public:
  // What comes of a packet; in the order in which tables count it.
  enum class What : u32 { inspected, limit, changed, gap, dropped, encoded, other };
  struct Outcome {
    What what = What::other;
    std::vector<u32> fire;  // positions of the rules that fire with it, in their order
    bool passes = false;    // a rule has passed its connection
  };

  // settings: outlive this, or until the next change().
  Streams(const SignaturesSettings& settings, const std::array<u64, 2>& secret);
  void change(const SignaturesSettings& settings);
  // The packets in their order. seen: the packet; its connection is said to be the stream's.
  Outcome take(const Packet& packet, SignaturePacket& seen);
  Table& table() { return table_; }
  const Table& table() const { return table_; }

 private:
  struct Side {
    bool begun = false, over = false, cut = false;
    u32 first = 0;              // sequence number of byte 0
    std::string text;           // from byte 0 on, as far as it is whole
    std::map<u64, char> early;  // by position
    u64 acknowledged = 0;
    std::int64_t farthest = 0;  // the end of what it has sent
    std::optional<u64> end{};   // what its FIN says
    std::vector<u64> marks{0};  // places up to which it was whole where a packet ended
    u64 next() const { return text.size(); }
  };
  struct Connection {
    bool upper_is_client = false, dropped = false, passed = false, reset = false;
    bool hello_is_read = false;  // or there is none
    // The client's, and the server's.
    std::array<HttpMessages, 2> messages{HttpMessages(HttpMessages::Of::client),
                                         HttpMessages(HttpMessages::Of::server)};
    HttpExchange exchange;
    // The request or answer whose head was read last, as long as its body is asked for.
    struct Asked {
      HttpHead head;
      std::vector<u32> awaited;  // rules that match its head, and are found by no content of its body
      std::shared_ptr<const std::vector<signatures::Signature>> rules;  // that its head was asked by
      u32 work = 0;                                                     // and how much they could take
      Action limit = Action::next;
    };
    std::array<std::optional<Asked>, 2> asked;
    std::array<Side, 2> sides;
    bool is_over() const { return reset || (sides[0].over && sides[1].over); }
  };
  struct Segment;
  struct Firing;

  static void mark(Side& side, u64 position);
  static bool has_mark(const Side& side, std::int64_t position);
  void acknowledge(Side& side, u32 number) const;

  Outcome take(Connection& connection, const Segment& segment, SignaturePacket& seen);
  // Whether a FIN without a payload ends a body, or an answer's line. answers: the side is the server's.
  bool fin_ends(const Connection& connection, const Side& side, bool answers) const;
  bool reads(bool answers) const;
  Outcome payload(Connection& connection, Side& side, const Segment& segment, const SignaturePacket& seen);
  Outcome put(Connection& connection, Side& side, u64 position, std::string_view bytes,
              const SignaturePacket& seen);
  Outcome advance(Connection& connection, Side& side, const SignaturePacket& seen);
  void look(std::string_view text, std::size_t before, bool from_start, const SignaturePacket& seen,
            Firing& firing) const;
  // text: what the client has said.
  void look_for_hello(Connection& connection, std::string_view text, const SignaturePacket& seen,
                      Firing& firing) const;
  // from: the side's first byte that is kept.
  void look_for_messages(Connection& connection, const Side& side, u64 from, const SignaturePacket& seen,
                         Firing& firing) const;
  void look_at(Connection& connection, const HttpHead& head, const SignaturePacket& seen,
               Firing& firing) const;
  void look_at(Connection& connection, const HttpBody& body, const SignaturePacket& seen,
               Firing& firing) const;
  bool fires(const signatures::Signature& rule, const HttpBody& body, u64& work) const;
  u32 asked_parts() const;
  bool fires(u32 rule, std::string_view text, std::size_t before, u64& work) const;
  u64 kept_from(const Side& side) const;

  const SignaturesSettings* settings_;
  std::vector<signatures::Signature> positives_;  // each rule without the steps that are negated
  Table table_;
  std::vector<Connection> connections_;  // by their entries' places
};

}  // namespace xdpgpu::gpu::reference
