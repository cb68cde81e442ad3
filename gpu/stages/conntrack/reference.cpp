// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <optional>

#include "gpu/reference/ends.hpp"
#include "gpu/stages/references.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu::reference {
namespace {

enum class Class : u32 { untracked, fresh, established, related, invalid, no_place };

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

// An echo's number stands in the place of both ports.
std::optional<Ends> echo(const Packet& packet, Bytes src, Bytes dst, Bytes icmp, u8 protocol) {
  return ends(packet, src, dst, icmp.subspan(4, 2), icmp.subspan(4, 2), protocol);
}

bool is_echo_request(bool v4, u8 type) { return type == (v4 ? 8 : 128); }
bool is_echo_reply(bool v4, u8 type) { return type == (v4 ? 0 : 129); }
bool is_error(bool v4, u8 type) {
  if (!v4) return type >= 1 && type <= 127;
  return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

// What an ICMP error quotes: the beginning of a packet.
std::optional<Ends> quoted(const Packet& packet, Bytes quote, bool v4) {
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
    return ends(packet, src, dst, l4.first(2), l4.subspan(2, 2), protocol);
  if (protocol == (v4 ? kIcmp : kIcmpv6) && (is_echo_request(v4, l4[0]) || is_echo_reply(v4, l4[0])))
    return echo(packet, src, dst, l4, protocol);
  return std::nullopt;
}

// One direction of a TCP connection, as Rooij has it ("Real Stateful TCP Packet Filtering in IP Filter",
// 2001). Numbers are of 32 bits and come round.
struct Side {
  bool seen = false;
  u32 end = 0;      // of what it has sent
  u32 max_end = 0;  // of what the other side has room for
  u32 max_win = 0;  // largest window that it has offered
  bool acked = false;
  u32 max_ack = 0;  // its latest acknowledgement, else the number behind its SYN
  bool scales = false;
  u8 scale = 0;
  bool fin = false;
  bool shown = false;  // it is the host's: the egress program has shown it sending
};

struct Connection {
  State state{};
  bool originator = false;  // the upper end began it
  bool liberal = false;     // windows are not known
  bool waits = false;       // for the host to send a packet of it
  bool unsure = false;      // a table behind may have dropped what began it
  std::array<Side, 2> sides{};
  u32 birth = 0;  // XG_CONNECTION_BIRTH
};

Connection read(const Entry& entry) {
  const u32 word = entry.value[0];
  const auto bit = [&](u32 number) { return (word >> number & 1) != 0; };
  Connection c;
  c.state = static_cast<State>(word & 0xff);
  c.originator = bit(8);
  c.liberal = bit(18);
  c.waits = bit(19);
  c.unsure = bit(20);
  c.birth = entry.record[7];
  for (u32 d = 0; d < 2; d++) {
    Side& side = c.sides[d];
    side.fin = bit(16 + d);
    side.seen = bit(22 + d);
    side.shown = bit(24 + d);
    side.acked = bit(26 + d);
    side.end = entry.value[1 + d];
    side.max_end = entry.record[3 * d];
    side.max_win = entry.record[3 * d + 1];
    side.max_ack = entry.record[3 * d + 2];
    side.scale = entry.record[6] >> 8 * d & 15;
    side.scales = (entry.record[6] >> 8 * d & 16) != 0;
  }
  return c;
}

void write(const Connection& c, Entry& entry) {
  u32 word = static_cast<u32>(c.state);
  const auto set = [&](bool is, u32 number) { word |= is ? 1u << number : 0u; };
  set(c.originator, 8);
  set(c.liberal, 18);
  set(c.waits, 19);
  set(c.unsure, 20);
  entry.record[6] = 0;
  entry.record[7] = c.birth;
  for (u32 d = 0; d < 2; d++) {
    const Side& side = c.sides[d];
    set(side.fin, 16 + d);
    set(side.seen, 22 + d);
    set(side.shown, 24 + d);
    set(side.acked, 26 + d);
    entry.value[1 + d] = side.end;
    entry.record[3 * d] = side.max_end;
    entry.record[3 * d + 1] = side.max_win;
    entry.record[3 * d + 2] = side.max_ack;
    entry.record[6] |= (side.scale | (side.scales ? 16u : 0u)) << 8 * d;
  }
  entry.value[0] = word;
}

// What the packet says, besides its flags.
struct Segment {
  u8 flags = 0;
  u32 seq = 0, ack = 0;
  std::optional<u32> length;  // in sequence numbers; nothing: the IP header does not say
  u32 window = 0;             // as it stands there
  bool scale_known = true;
  std::optional<u8> scale;

  bool has(u8 flag) const { return (flags & flag) != 0; }
  u32 end() const { return seq + *length; }
};

u32 big(Bytes bytes, std::size_t at) {
  return u32{bytes[at]} << 24 | u32{bytes[at + 1]} << 16 | u32{bytes[at + 2]} << 8 | bytes[at + 3];
}
bool past(u32 a, u32 b) { return a != b && a - b < 0x80000000; }
u32 later(u32 a, u32 b) { return past(a, b) ? a : b; }
constexpr u32 kLeastBack = 66'000;

std::optional<u8> scale_option(Bytes options) {
  while (!options.empty() && options[0] != 0) {
    if (options[0] == 1) {
      options = options.subspan(1);
      continue;
    }
    if (options.size() < 2 || options[1] < 2 || options[1] > options.size()) return std::nullopt;
    if (options[0] == 3 && options[1] == 3) return std::min<u8>(options[2], 14);
    options = options.subspan(options[1]);
  }
  return std::nullopt;
}

// Nothing where the packet is none.
std::optional<Segment> segment(const Packet& packet) {
  const u32 l3 = packet.l3, l4 = packet.metadata.l4_offset;
  const Bytes tcp = header(packet, l4, 20);
  if (packet.ports.empty() || tcp.empty()) return std::nullopt;
  Segment s;
  s.flags = tcp[13];
  const int marks = (s.has(kSyn) ? 1 : 0) + (s.has(kFin) ? 1 : 0) + (s.has(kRst) ? 1 : 0);
  const u32 length = (tcp[12] >> 4) * 4u;
  if (marks > 1 || (s.flags & (kSyn | kRst | kAck)) == 0 || length < 20 || l4 < l3) return std::nullopt;
  const bool v4 = packet.src.size() == 4;
  const Bytes ip = packet.frame.subspan(l3);
  const u32 said = v4 ? ip[2] * 256u + ip[3] : ip[4] * 256u + ip[5];
  const u32 total = v4 ? said : said + 40;
  const u32 headers = l4 - l3 + length;
  if (said != 0 && total < headers) return std::nullopt;
  if (said != 0) s.length = total - headers + (s.has(kSyn) || s.has(kFin) ? 1 : 0);
  s.seq = big(tcp, 4);
  s.ack = big(tcp, 8);
  s.window = tcp[14] * 256u + tcp[15];
  if (!s.has(kSyn)) return s;
  const Bytes whole = header(packet, l4, length);
  s.scale_known = !whole.empty();
  if (s.scale_known) s.scale = scale_option(whole.subspan(20));
  return s;
}

// A packet's class, and the connection as it leaves it; none: it is as it was.
struct Step {
  Class what;
  std::optional<Connection> connection;
  bool anew = false;  // it is another connection than the one there was
};

Step begins(State state, bool originator, Class what = Class::fresh) {
  Connection c;
  c.state = state;
  c.originator = originator;
  return {what, c, true};
}

Step tcp_begins(bool from, const Segment& s, bool loose) {
  if (s.has(kSyn) && !s.has(kAck)) return begins(State::syn_sent, from);
  if (!loose) return {Class::invalid, {}};
  if (s.has(kRst)) return {Class::untracked, {}};
  Step step = s.has(kSyn) ? begins(State::syn_received, !from, Class::established)
                          : begins(s.has(kFin) ? State::fin_wait : State::established, from);
  step.connection->sides[from ? 1 : 0].fin = s.has(kFin);
  step.connection->liberal = true;
  return step;
}

// A packet of TCP at its connection.
class Meeting {
 public:
  Meeting(const Connection& c, bool from, const Segment& s, bool loose, bool leaves)
      : c_(c),
        from_(from),
        s_(s),
        loose_(loose),
        leaves_(leaves),
        lenient_(loose || leaves || c.liberal || !s.length) {}

  Step step() const {
    if (s_.has(kRst)) return reset();
    if (s_.has(kSyn) && s_.has(kAck)) return answer();
    if (s_.has(kSyn)) return syn();
    if (c_.state == State::closed || (c_.state == State::syn_sent && !loose_ && !leaves_))
      return {Class::invalid, {}};
    // Who shows what the host sends may be behind.
    if (!lenient_ && !inside()) return {other().shown ? Class::established : Class::invalid, {}};
    if (c_.state == State::time_wait) return {Class::established, {}};
    Connection next = c_;
    if (c_.state == State::syn_sent || (c_.state == State::syn_received && from_ == c_.originator))
      next.state = State::established;
    if (s_.has(kFin)) {
      next.sides[from_ ? 1 : 0].fin = true;
      next.state = next.sides[0].fin && next.sides[1].fin ? State::time_wait : State::fin_wait;
    }
    return {Class::established, next};
  }

 private:
  const Side& own() const { return c_.sides[from_ ? 1 : 0]; }
  const Side& other() const { return c_.sides[from_ ? 0 : 1]; }

  bool inside() const {
    if (!own().seen || !other().seen) return true;
    // What the host sends is shown by another way than the others' packets come.
    const u32 limit = own().max_end + (other().shown ? other().max_win : 0);
    if (past(s_.end(), limit) || past(own().end - other().max_win, s_.seq)) return false;
    if (!s_.has(kAck)) return true;
    const u32 most = other().shown ? later(other().max_end, other().end) : other().end;
    return !past(s_.ack, most) && !past(other().end - std::max(own().max_win, kLeastBack), s_.ack);
  }

  bool acks_syn() const {
    if (!other().seen) return true;
    const u32 first = other().acked ? other().end - kLeastBack : other().max_ack;
    return s_.ack - first <= other().end - first;
  }

  bool closes() const {
    if (!loose_ && other().acked && s_.seq == other().max_ack) return true;
    if (own().seen) return s_.seq == own().end;
    if (!s_.has(kAck) || !other().seen) return false;
    return s_.ack == other().end || (!loose_ && !c_.liberal && acks_syn());
  }

  Step known() const { return {lenient_ || inside() ? Class::established : Class::invalid, {}}; }

  Step reset() const {
    if (c_.state == State::closed) return {Class::established, {}};
    if (leaves_ || closes()) {
      Connection next = c_;
      next.state = State::closed;
      return {Class::established, next};
    }
    if (!lenient_ && c_.state == State::syn_sent) return {Class::invalid, {}};
    return known();
  }

  // The sender begins again.
  Step opened() const {
    Connection next = c_;
    next.state = State::syn_received;
    next.sides[0].fin = next.sides[1].fin = false;
    Side& side = next.sides[from_ ? 1 : 0];
    side.seen = side.acked = false;
    return {Class::established, next};
  }

  Step answer() const {
    if (c_.state == State::closed || (c_.state == State::syn_sent && from_ == c_.originator))
      return {Class::invalid, {}};
    if (c_.state != State::syn_sent && c_.state != State::syn_received) return known();
    return lenient_ || acks_syn() ? opened() : Step{Class::invalid, {}};
  }

  Step syn() const {
    const bool over = c_.state == State::time_wait || c_.state == State::closed;
    if (over || (c_.state == State::syn_sent && from_ == c_.originator)) {
      Step step = begins(State::syn_sent, from_);
      for (u32 d = 0; d < 2; d++) step.connection->sides[d].shown = c_.sides[d].shown;
      return step;
    }
    return c_.state == State::syn_sent ? opened() : known();
  }

  const Connection& c_;
  const bool from_;
  const Segment& s_;
  const bool loose_;
  const bool leaves_;
  const bool lenient_;
};

// What the segment tells of its connection, besides the state.
void learn(Connection& c, bool from, const Segment& s, bool loose, bool leaves) {
  if (loose || !s.length || !s.scale_known) c.liberal = true;
  if (!s.length) return;
  Side& own = c.sides[from ? 1 : 0];
  Side& other = c.sides[from ? 0 : 1];
  if (!loose) {
    if (own.seen && leaves && past(s.seq, own.end + std::max(other.max_win, kLeastBack))) c.liberal = true;
    if (s.has(kSyn)) {
      own.scales = s.scale.has_value();
      own.scale = s.scale.value_or(0);
    }
    const bool scaled = !s.has(kSyn) && own.scales && other.scales;
    const u32 window = std::max(1u, s.window << (scaled ? own.scale : 0));
    if (!own.seen) {
      own.max_win = window;
      own.max_end = s.end() + (other.seen ? other.max_win : 0);
      if (s.has(kSyn)) own.max_ack = s.seq + 1;
    }
    own.max_win = std::max(own.max_win, window);
    if (s.has(kAck)) {
      own.max_ack = own.acked ? later(s.ack, own.max_ack) : s.ack;
      own.acked = true;
      if (other.seen) other.max_end = later(s.ack + window, other.max_end);
    }
  }
  own.end = own.seen ? later(s.end(), own.end) : s.end();
  own.seen = true;
  if (s.has(kAck) && other.seen) other.end = later(s.ack, other.end);
}

// Of what has no handshake. one_way: its state until the other side has sent something.
Step pseudo_goes_on(Connection c, bool from, State one_way) {
  if (from != c.originator) c.state = static_cast<State>(static_cast<u32>(one_way) + 1);
  return {c.state == one_way ? Class::fresh : Class::established, c};
}

constexpr u32 kUnconfirmed = 1u << 19 | 1u << 20;

class Tracker {
 public:
  Tracker(const ConntrackSettings& settings, const Packet& packet, const Behind& behind, Table& table)
      : settings_(settings),
        packet_(packet),
        behind_(behind),
        table_(table),
        leaves_(packet.is(XG_PKT_EGRESS)),
        loose_(settings.loose || leaves_) {}

  Class tcp() {
    const auto s = segment(packet_);
    if (!s) return Class::invalid;
    const auto who = ends(packet_, packet_.src, packet_.dst, packet_.ports.first(2),
                          packet_.ports.subspan(2, 2), packet_.metadata.protocol);
    if (!who) return Class::invalid;
    const bool from = who->from_upper;
    come(*who, false);
    std::optional<Step> step;
    if (stands_) {
      step = Meeting(*known_, from, *s, settings_.loose, leaves_).step();
      if (leaves_ && known_->waits && step->what == Class::invalid) step.reset();
      if (is_shown_late(from, *s)) step = Step{Class::established, {}};
    }
    if (!step) step = tcp_begins(from, *s, loose_);
    // Whoever keeps windows need not know what becomes of what begins nothing.
    const bool asks = settings_.loose || s->has(kSyn);
    return note(*step, from, asks, &*s);
  }

  Class icmp() {
    const bool v4 = packet_.src.size() == 4;
    const Bytes l4 = header(packet_, packet_.metadata.l4_offset, 8);
    if (l4.empty()) return Class::invalid;
    if (is_error(v4, l4[0])) {
      const auto who = quoted(packet_, packet_.frame.subspan(packet_.metadata.l4_offset + 8u), v4);
      if (!who) return Class::invalid;
      come(*who, true);
      if (stands_) return Class::related;
      return loose_ ? Class::untracked : Class::invalid;
    }
    const bool request = is_echo_request(v4, l4[0]);
    if (!request && !is_echo_reply(v4, l4[0])) return Class::untracked;
    const auto who = echo(packet_, packet_.src, packet_.dst, l4, packet_.metadata.protocol);
    if (!who) return Class::invalid;
    const bool from = who->from_upper;
    come(*who, false);
    if (stands_) return note(pseudo_goes_on(*known_, from, State::icmp), from, true, nullptr);
    if (request) return note(begins(State::icmp, from), from, true, nullptr);
    if (!loose_) return Class::invalid;
    return note(begins(State::icmp_replied, !from, Class::established), from, true, nullptr);
  }

  Class others() {
    const bool udp = packet_.is(XG_PKT_UDP);
    if (udp && packet_.ports.empty()) return Class::invalid;
    constexpr std::array<u8, 4> none{};
    const Bytes ports = packet_.ports.empty() ? Bytes(none) : packet_.ports;
    const auto who = ends(packet_, packet_.src, packet_.dst, ports.first(2), ports.subspan(2, 2),
                          packet_.metadata.protocol);
    if (!who) return Class::invalid;
    const bool from = who->from_upper;
    const State one_way = udp ? State::udp : State::other;
    come(*who, false);
    return note(stands_ ? pseudo_goes_on(*known_, from, one_way) : begins(one_way, from), from, true,
                nullptr);
  }

  // Behind one of these: XG_CONNECTION_* of the packet's.
  u32 connection() const { return connection_; }

 private:
  // What waits for the host answers nobody else: only its originator and the host find it.
  void come(const Ends& who, bool reports) {
    from_ = who.from_upper;
    table_.come(who.key, packet_.metadata.rx_time_ns * XG_TICKS_PER_NS);
    entry_ = table_.find(false);
    if (entry_ == nullptr) return;
    known_ = read(*entry_);
    stands_ = !known_->waits || leaves_ || (!reports && who.from_upper == known_->originator);
  }

  // A SYN of the host's from before the end of the connection, which some queue was late to show.
  bool is_shown_late(bool from, const Segment& s) const {
    const Side& own = known_->sides[from ? 1 : 0];
    const bool over = known_->state == State::time_wait || known_->state == State::closed;
    if (!leaves_ || !s.has(kSyn) || s.has(kAck) || !over || !own.seen || past(s.seq + 1, own.end))
      return false;
    const u64 lasts = u64{timeout_ms(settings_.timeouts, known_->state)} * 1'000'000;
    return packet_.metadata.rx_time_ns * XG_TICKS_PER_NS < entry_->deadline - lasts * XG_TICKS_PER_NS;
  }

  Fate fate_of(Class what, bool asks) const {
    if (what == Class::fresh && settings_.on_new == Action::drop) return Fate::dropped;
    if (what == Class::fresh && settings_.on_new == Action::pass) return Fate::to_host;
    return asks ? behind_.fate() : Fate::undecided;
  }

  Class note(const Step& step, bool from, bool asks, const Segment* segment) {
    of(step, segment != nullptr);
    if (!step.connection) return step.what;
    Connection next = *step.connection;
    Side& own = next.sides[from ? 1 : 0];
    if (leaves_) {
      next.waits = next.unsure = false;
      own.shown = true;
    } else {
      const Fate fate = fate_of(step.what, asks);
      const bool passes = fate == Fate::to_host || (fate == Fate::undecided && !behind_.sends());
      // The host's own direction: what it sends of it will be shown.
      const bool shown = known_ && known_->sides[from ? 1 : 0].shown;
      if (fate == Fate::dropped || (settings_.egress && passes && shown)) return step.what;
      if (step.anew) {
        next.waits = settings_.egress && passes;
        next.unsure = !next.waits && fate == Fate::undecided;
      } else {
        if (fate == Fate::sent_on) next.waits = false;
        const bool answered =
            segment != nullptr ? next.sides[from ? 0 : 1].seen : (static_cast<u32>(next.state) & 1) != 0;
        if (answered && from == next.originator) next.unsure = false;
      }
    }
    if (segment != nullptr) learn(next, from, *segment, settings_.loose, leaves_);

    const u64 deadline =
        table_.now() + u64{timeout_ms(settings_.timeouts, next.state)} * 1'000'000 * XG_TICKS_PER_NS;
    if (entry_ == nullptr) {
      entry_ = table_.insert(deadline, kUnconfirmed);
      if (entry_ == nullptr) return Class::no_place;
    } else {
      table_.use(*entry_);
    }
    entry_->deadline = deadline;
    if (step.anew && connection_ != 0) {
      // The time of its first packet, mixed.
      const u64 now = table_.now();
      next.birth = (static_cast<u32>(now) * 0x9e3779b1u + static_cast<u32>(now >> 32) * 0x85ebca6bu) >> 3 &
                   0x1ffffff0u;
      connection_ |= next.birth;
    }
    write(next, *entry_);
    return step.what;
  }

  // What is said of its connection to a stage that inspects.
  void of(const Step& step, bool is_tcp) {
    if (!behind_.inspects() || (step.what != Class::fresh && step.what != Class::established)) return;
    const Connection& c = step.connection ? *step.connection : *known_;
    const bool goes_on = stands_ && !step.anew;
    const bool open =
        is_tcp ? goes_on && known_->state >= State::established : step.what == Class::established;
    connection_ = XG_CONNECTION_HAS | (from_ != c.originator ? XG_CONNECTION_ANSWERS : 0u) |
                  (open ? XG_CONNECTION_ESTABLISHED : 0u) | (goes_on ? known_->birth : 0u);
  }

  const ConntrackSettings& settings_;
  const Packet& packet_;
  const Behind& behind_;
  Table& table_;
  const bool leaves_;
  const bool loose_;  // what the host sends of a connection is so
  Entry* entry_ = nullptr;
  std::optional<Connection> known_;  // of the entry
  bool stands_ = false;              // and the packet may be of it
  bool from_ = false;
  u32 connection_ = 0;
};

// connection: XG_CONNECTION_*.
struct Seen {
  Class what = Class::untracked;
  u32 connection = 0;
};

Seen classify(const ConntrackSettings& settings, const Packet& packet, const Behind& behind, Table& table) {
  if (packet.is(XG_PKT_MALFORMED)) return {Class::invalid};
  if (packet.src.empty() || packet.is(XG_PKT_FRAGMENT) || packet.is(XG_PKT_LATER_FRAGMENT)) return {};
  Tracker tracker(settings, packet, behind, table);
  const Class what = packet.is(XG_PKT_TCP)    ? tracker.tcp()
                     : packet.is(XG_PKT_ICMP) ? tracker.icmp()
                                              : tracker.others();
  return {what, what == Class::no_place ? 0 : tracker.connection()};
}

class Conntrack final : public StageWith<ConntrackSettings> {
 public:
  Conntrack(const ConntrackSettings& settings, const std::array<u64, 2>& secret)
      : StageWith(settings), table_(settings.table, secret) {}
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    const auto [what, connection] = classify(settings(), packet, *place.behind, table_);
    table_.count(static_cast<u32>(what));
    if (place.behind->inspects()) result.detail = connection | XG_CONNECTION_SEEN;
    if (what == Class::fresh) return act(settings().on_new, 0, place.position, kConntrackNew, result);
    if (what == Class::invalid || what == Class::no_place)
      return act(settings().on_invalid, 0, place.position, kConntrackInvalid, result);
    if (what == Class::untracked)
      return act(settings().on_untracked, 0, place.position, kConntrackUntracked, result);
    return false;
  }
  void note_sent(const Packet& packet, const Place& place) override {
    table_.count(static_cast<u32>(classify(settings(), packet, *place.behind, table_).what));
  }
  bool remembers() const override { return true; }
  std::vector<u32> table() const override { return table_.words(true); }

 private:
  Table table_;
};

}  // namespace

std::unique_ptr<Stage> reference_of(const ConntrackSettings& settings, const std::array<u64, 2>& secret) {
  return std::make_unique<Conntrack>(settings, secret);
}

}  // namespace xdpgpu::gpu::reference
