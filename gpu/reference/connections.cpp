// SPDX-License-Identifier: MIT
#include "gpu/reference/connections.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "gpu/stages/table.h"

namespace xdpgpu::gpu::reference {
namespace {

using Bytes = std::span<const u8>;

constexpr u8 kTcp = 6, kUdp = 17, kSctp = 132, kIcmp = 1, kIcmpv6 = 58;
constexpr u8 kFin = 1, kSyn = 2, kRst = 4, kAck = 16;

// In the order in which entries count them.
enum class State : u32 {
  syn_sent,
  syn_received,
  established,
  fin_wait,
  time_wait,
  closed,
  udp,
  udp_replied,
  icmp,
  icmp_replied,
  other,
  other_replied
};

u32 timeout_ms(const ConntrackSettings::Timeouts& t, State state) {
  switch (state) {
    case State::syn_sent:
      return t.syn_sent;
    case State::syn_received:
      return t.syn_received;
    case State::established:
      return t.established;
    case State::fin_wait:
      return t.fin_wait;
    case State::time_wait:
      return t.time_wait;
    case State::closed:
      return t.closed;
    case State::udp:
      return t.udp;
    case State::udp_replied:
      return t.udp_replied;
    case State::icmp:
    case State::icmp_replied:
      return t.icmp;
    case State::other:
    case State::other_replied:
      break;
  }
  return t.other;
}

// Whose packet it is, and which way it goes: false from the lower end to the upper one.
struct Ends {
  Key key{};
  bool from_upper = false;
};

// Addresses compare as words of the packet, ports likewise, both read as little-endian numbers.
template <class Number>
Number little(Bytes bytes) {
  Number number = 0;
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

Ends ends(Bytes src, Bytes dst, Bytes src_port, Bytes dst_port, u8 protocol) {
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
  std::copy(src.begin(), src.end(), found.key.begin());
  std::copy(dst.begin(), dst.end(), found.key.begin() + 16);
  std::copy_n(src_port.begin(), 2, found.key.begin() + 32);
  std::copy_n(dst_port.begin(), 2, found.key.begin() + 34);
  found.key[36] = src.size() == 4 ? 4 : 6;
  found.key[37] = protocol;
  return found;
}

// An echo's number stands in the place of both ports.
Ends echo(Bytes src, Bytes dst, Bytes icmp, u8 protocol) {
  return ends(src, dst, icmp.subspan(4, 2), icmp.subspan(4, 2), protocol);
}

bool is_echo_request(bool v4, u8 type) { return type == (v4 ? 8 : 128); }
bool is_echo_reply(bool v4, u8 type) { return type == (v4 ? 0 : 129); }
bool is_error(bool v4, u8 type) {
  if (!v4) return type >= 1 && type <= 127;
  return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

// What an ICMP error quotes: the beginning of a packet.
std::optional<Ends> quoted(Bytes quote, bool v4) {
  if (quote.size() < (v4 ? 20u : 40u) || quote[0] >> 4 != (v4 ? 4 : 6)) return std::nullopt;
  const std::size_t header = v4 ? (quote[0] & 15u) * 4u : 40u;
  if (header < 20) return std::nullopt;
  const bool later_fragment = v4 && ((quote[6] & 0x1f) != 0 || quote[7] != 0);
  if (later_fragment || quote.size() < header + 8) return std::nullopt;
  const u8 protocol = v4 ? quote[9] : quote[6];
  const Bytes src = v4 ? quote.subspan(12, 4) : quote.subspan(8, 16);
  const Bytes dst = v4 ? quote.subspan(16, 4) : quote.subspan(24, 16);
  const Bytes l4 = quote.subspan(header);
  if (protocol == kTcp || protocol == kUdp || protocol == kSctp)
    return ends(src, dst, l4.first(2), l4.subspan(2, 2), protocol);
  if (protocol == (v4 ? kIcmp : kIcmpv6) && (is_echo_request(v4, l4[0]) || is_echo_reply(v4, l4[0])))
    return echo(src, dst, l4, protocol);
  return std::nullopt;
}

struct Connection {
  State state;
  bool originator;  // the upper end began it
  bool fin[2] = {false, false};
};

Connection read(const Entry& entry) {
  const u32 word = entry.value[0];
  return {
      static_cast<State>(word & 0xff), (word >> 8 & 1) != 0, {(word >> 16 & 1) != 0, (word >> 17 & 1) != 0}};
}
u32 write(const Connection& c) {
  return static_cast<u32>(c.state) | (c.originator ? 1u : 0u) << 8 | (c.fin[0] ? 1u : 0u) << 16 |
         (c.fin[1] ? 1u : 0u) << 17;
}

// A packet's class, and the connection as it leaves it; none: it is as it was.
struct Step {
  Class what;
  std::optional<Connection> connection;
};

Step tcp_begins(bool from, u8 flags, bool loose) {
  if ((flags & (kSyn | kAck)) == kSyn) return {Class::fresh, Connection{State::syn_sent, from}};
  if (!loose) return {Class::invalid, {}};
  if ((flags & kRst) != 0) return {Class::untracked, {}};
  if ((flags & kSyn) != 0) return {Class::established, Connection{State::syn_received, !from}};
  Connection taken_up{State::established, from};
  if ((flags & kFin) != 0) {
    taken_up.state = State::fin_wait;
    taken_up.fin[from ? 1 : 0] = true;
  }
  return {Class::fresh, taken_up};
}

Step tcp_goes_on(Connection c, bool from, u8 flags, bool loose) {
  const bool by_originator = from == c.originator;
  if ((flags & kRst) != 0) {
    if (c.state == State::closed) return {Class::established, {}};
    c.state = State::closed;
    return {Class::established, c};
  }
  if ((flags & kSyn) != 0 && (flags & kAck) != 0) {
    if (c.state == State::closed || (c.state == State::syn_sent && by_originator))
      return {Class::invalid, {}};
    if (c.state == State::syn_sent || c.state == State::syn_received)
      return {Class::established, Connection{State::syn_received, c.originator}};
    return {Class::established, {}};
  }
  if ((flags & kSyn) != 0) {
    if (c.state == State::time_wait || c.state == State::closed)
      return {Class::fresh, Connection{State::syn_sent, from}};
    if (c.state == State::syn_sent && by_originator)
      return {Class::fresh, Connection{State::syn_sent, c.originator}};
    if (c.state == State::syn_sent)
      return {Class::established, Connection{State::syn_received, c.originator}};
    return {Class::established, {}};
  }
  if (c.state == State::closed) return {Class::invalid, {}};
  if (c.state == State::syn_sent && !loose) return {Class::invalid, {}};
  if (c.state == State::time_wait) return {Class::established, {}};
  if (c.state == State::syn_sent || (c.state == State::syn_received && by_originator))
    c.state = State::established;
  if ((flags & kFin) != 0) {
    c.fin[from ? 1 : 0] = true;
    c.state = c.fin[0] && c.fin[1] ? State::time_wait : State::fin_wait;
  }
  return {Class::established, c};
}

// Of what has no handshake. one_way: its state until the other side has sent something.
Step pseudo_goes_on(Connection c, bool from, State one_way) {
  if (from != c.originator) c.state = static_cast<State>(static_cast<u32>(one_way) + 1);
  return {c.state == one_way ? Class::fresh : Class::established, c};
}

class Tracker {
 public:
  Tracker(const ConntrackSettings& settings, const Packet& packet, Table& table)
      : settings_(settings),
        packet_(packet),
        table_(table),
        loose_(settings.loose || packet.is(XG_PKT_EGRESS)) {}

  Class tcp() {
    const Bytes l4 = header(packet_, packet_.metadata.l4_offset, 14);
    if (packet_.ports.empty() || l4.empty()) return Class::invalid;
    const u8 flags = l4[13];
    const int marks = ((flags & kSyn) != 0) + ((flags & kFin) != 0) + ((flags & kRst) != 0);
    if (marks > 1 || (flags & (kSyn | kRst | kAck)) == 0) return Class::invalid;
    const Ends who = ends(packet_.src, packet_.dst, packet_.ports.first(2), packet_.ports.subspan(2, 2),
                          packet_.metadata.protocol);
    Entry* const entry = come(who, true);
    return note(entry, entry == nullptr ? tcp_begins(who.from_upper, flags, loose_)
                                        : tcp_goes_on(read(*entry), who.from_upper, flags, loose_));
  }

  Class icmp() {
    const bool v4 = packet_.src.size() == 4;
    const Bytes l4 = header(packet_, packet_.metadata.l4_offset, 8);
    if (l4.empty()) return Class::invalid;
    if (is_error(v4, l4[0])) {
      const auto who = quoted(packet_.frame.subspan(packet_.metadata.l4_offset + 8u), v4);
      if (!who) return Class::invalid;
      if (come(*who, false) != nullptr) return Class::related;
      return loose_ ? Class::untracked : Class::invalid;
    }
    const bool request = is_echo_request(v4, l4[0]);
    if (!request && !is_echo_reply(v4, l4[0])) return Class::untracked;
    const Ends who = echo(packet_.src, packet_.dst, l4, packet_.metadata.protocol);
    Entry* const entry = come(who, true);
    if (entry != nullptr) return note(entry, pseudo_goes_on(read(*entry), who.from_upper, State::icmp));
    if (request) return note(entry, {Class::fresh, Connection{State::icmp, who.from_upper}});
    if (!loose_) return Class::invalid;
    return note(entry, {Class::established, Connection{State::icmp_replied, !who.from_upper}});
  }

  Class others() {
    const bool udp = packet_.is(XG_PKT_UDP);
    if (udp && packet_.ports.empty()) return Class::invalid;
    constexpr std::array<u8, 4> none{};
    const Bytes ports = packet_.ports.empty() ? Bytes(none) : packet_.ports;
    const Ends who =
        ends(packet_.src, packet_.dst, ports.first(2), ports.subspan(2, 2), packet_.metadata.protocol);
    const State one_way = udp ? State::udp : State::other;
    Entry* const entry = come(who, true);
    return note(entry, entry == nullptr ? Step{Class::fresh, Connection{one_way, who.from_upper}}
                                        : pseudo_goes_on(read(*entry), who.from_upper, one_way));
  }

 private:
  Entry* come(const Ends& who, bool uses) {
    table_.come(who.key, packet_.metadata.rx_time_ns * XG_TICKS_PER_NS);
    return table_.find(uses);
  }

  // entry: nullptr if there is none.
  Class note(Entry* entry, const Step& step) {
    if (!step.connection) return step.what;
    const u64 ms = timeout_ms(settings_.timeouts, step.connection->state);
    const u64 deadline = table_.now() + ms * 1'000'000 * XG_TICKS_PER_NS;
    if (entry == nullptr) entry = table_.insert(deadline);
    if (entry == nullptr) return Class::no_place;
    entry->deadline = deadline;
    entry->value[0] = write(*step.connection);
    return step.what;
  }

  const ConntrackSettings& settings_;
  const Packet& packet_;
  Table& table_;
  const bool loose_;  // what the host sends of a connection is so
};

}  // namespace

Class classify(const ConntrackSettings& settings, const Packet& packet, Table& table) {
  if (packet.is(XG_PKT_MALFORMED)) return Class::invalid;
  if (packet.src.empty() || packet.is(XG_PKT_FRAGMENT) || packet.is(XG_PKT_LATER_FRAGMENT))
    return Class::untracked;
  Tracker tracker(settings, packet, table);
  if (packet.is(XG_PKT_TCP)) return tracker.tcp();
  if (packet.is(XG_PKT_ICMP)) return tracker.icmp();
  return tracker.others();
}

}  // namespace xdpgpu::gpu::reference
