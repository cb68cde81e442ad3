// SPDX-License-Identifier: MIT
#include "gpu/stages/signatures/stream_reference.hpp"

#include <algorithm>
#include <set>

#include "gpu/reference/client_hello.hpp"
#include "gpu/reference/stage.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu::reference {
namespace {

namespace sig = signatures;

constexpr u8 kFin = 1, kSyn = 2, kRst = 4, kAck = 16;
// The largest window that TCP has (RFC 7323): what is farther ahead nobody takes.
constexpr std::int64_t kReach = (1 << 30) - 1;

bool is_negated(const sig::Step& step) {
  const auto* const content = std::get_if<sig::Content>(&step);
  const auto* const regex = std::get_if<sig::Regex>(&step);
  return (content != nullptr && content->negated) || (regex != nullptr && regex->negated);
}

// The rule without what must not be there.
sig::Signature without_negated(const sig::Signature& rule) {
  sig::Signature made = rule;
  made.payload.clear();
  for (u32 i = 0; i < rule.payload.size(); i++) {
    if (is_negated(rule.payload[i])) continue;
    if (rule.fast_pattern && rule.fast_pattern->buffer == 0 && rule.fast_pattern->step == i)
      made.fast_pattern->step = static_cast<u32>(made.payload.size());
    made.payload.push_back(rule.payload[i]);
  }
  return made;
}

std::span<const u8> bytes_of(std::string_view text) {
  return {reinterpret_cast<const u8*>(text.data()), text.size()};
}

struct Pattern {
  std::string bytes;
  bool nocase = false;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const Pattern&) const = default;
};
Pattern pattern_of(const sig::Signature& rule) {
  const sig::Content& content = *sig::found_by(rule);
  return {content.bytes.substr(rule.fast_pattern->first, rule.fast_pattern->length), content.nocase};
}
bool is_found_by_body(const sig::Signature& rule) {
  return sig::found_by(rule) != nullptr &&
         sig::body_of(rule) == &rule.http->parts[rule.fast_pattern->buffer - 1];
}
// Where it stands first.
std::size_t find(std::string_view text, const Pattern& pattern) {
  const auto at = std::search(text.begin(), text.end(), pattern.bytes.begin(), pattern.bytes.end(),
                              [&](char byte, char wanted) {
                                const bool upper = pattern.nocase && byte >= 'A' && byte <= 'Z';
                                return wanted == (upper ? static_cast<char>(byte + 32) : byte);
                              });
  return at == text.end() ? std::string_view::npos : static_cast<std::size_t>(at - text.begin());
}

u32 big_endian(std::span<const u8> bytes) {
  u32 value = 0;
  for (const u8 byte : bytes.first(4)) value = value << 8 | byte;
  return value;
}

}  // namespace

struct Streams::Segment {
  bool from_upper = false;
  u8 flags = 0;
  u32 sequence = 0, acknowledges = 0;
  std::string_view payload;

  bool has(u8 flag) const { return (flags & flag) != 0; }
  // A SYN, and nothing that ends a connection.
  bool begins() const { return (flags & (kSyn | kRst | kFin)) == kSyn; }
};

// What a packet's bytes make rules do.
struct Streams::Firing {
  u64 work = 0;
  bool too_many = false;  // fast patterns
  bool encoded = false;   // an answer's body is
  std::set<u32> rules;
};

Streams::Streams(const SignaturesSettings& settings, const std::array<u64, 2>& secret)
    : settings_(&settings),
      table_({.entries = settings.streams, .evict = settings.evict}, secret),
      connections_(table_.places()) {
  change(settings);
}

void Streams::change(const SignaturesSettings& settings) {
  settings_ = &settings;
  positives_.clear();
  for (const sig::Signature& rule : settings.rules.all()) positives_.push_back(without_negated(rule));
}

// The block in front of the one that the next byte is of.
u64 Streams::kept_from(const Side& side) const {
  const u64 block = side.next() / settings_->inspect.window;
  return block == 0 ? 0 : (block - 1) * settings_->inspect.window;
}

Streams::Outcome Streams::take(const Packet& packet, SignaturePacket& seen) {
  if (packet.src.empty() || packet.metadata.protocol != 6 || packet.ports.empty() ||
      packet.is(XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_MALFORMED))
    return {};
  const auto tcp = header(packet, packet.metadata.l4_offset, 20);
  if (tcp.empty()) return {};
  const auto who = ends(packet, packet.src, packet.dst, packet.ports.first(2), packet.ports.subspan(2), 6);
  if (!who || !seen.judged) return {};
  const Segment segment{who->from_upper,
                        tcp[13],
                        big_endian(tcp.subspan(4)),
                        big_endian(tcp.subspan(8)),
                        {reinterpret_cast<const char*>(seen.payload.data()), seen.payload.size()}};
  table_.come(who->key, packet.metadata.rx_time_ns * XG_TICKS_PER_NS);
  Entry* entry = table_.find(true);
  const bool is_new = entry == nullptr;
  if (is_new) {
    const bool taken_up =
        settings_->inspect.midstream && !segment.payload.empty() && !segment.has(kSyn) && !segment.has(kRst);
    if (segment.begins() || taken_up) entry = table_.insert(table_.now());
    if (entry == nullptr) return {segment.payload.empty() || segment.has(kRst) ? What::other : What::gap, {}};
  }
  Connection& connection = connections_[table_.place_of(*entry)];
  if (is_new || (segment.begins() && connection.is_over())) {
    connection = {};
    const u32 lower = number(who->key, 32), upper = number(who->key, 34);
    connection.upper_is_client = segment.has(kSyn) ? segment.from_upper != segment.has(kAck) : upper >= lower;
  }
  Outcome outcome = take(connection, segment, seen);
  outcome.passes = connection.passed;
  const u64 ms = segment.payload.empty() && connection.is_over() ? kClosedMs : settings_->inspect.idle_ms;
  entry->deadline = table_.now() + ms * 1'000'000 * XG_TICKS_PER_NS;
  return outcome;
}

Streams::Outcome Streams::take(Connection& connection, const Segment& segment, SignaturePacket& seen) {
  Side& side = connection.sides[segment.from_upper ? 1 : 0];
  Side& other = connection.sides[segment.from_upper ? 0 : 1];
  if (connection.dropped) return {What::dropped, {}};
  if (segment.has(kRst)) {
    if (side.begun && segment.sequence == static_cast<u32>(side.first + side.next())) connection.reset = true;
    return {};
  }
  if (segment.has(kSyn)) {
    if (!segment.begins()) return {};
    if (!side.begun) {
      side = {};
      side.begun = true;
      side.first = segment.sequence + 1;
    }
    if (side.first != segment.sequence + 1) return {};
  }
  if (segment.has(kAck) && other.begun) acknowledge(other, segment.acknowledges);
  const bool answers = segment.from_upper != connection.upper_is_client;
  bool is_end = false;
  if (side.begun && segment.has(kFin)) {
    const u32 ahead = segment.sequence - side.first + static_cast<u32>(segment.payload.size()) -
                      static_cast<u32>(side.next());
    if (!side.end && std::int64_t{ahead} <= kReach) side.end = side.next() + ahead;
    side.over = true;
    is_end = segment.payload.empty() && ahead == 0 && fin_ends(connection, side, answers);
  }
  if ((segment.payload.empty() && !is_end) || connection.passed) return {};
  if (!side.begun) {
    if (!settings_->inspect.midstream) return {What::gap, {}};
    side = {};
    side.begun = true;
    side.first = segment.sequence;
  }
  const bool open = segment.has(kAck) && !segment.has(kSyn);
  seen.connection = XG_CONNECTION_SEEN | XG_CONNECTION_HAS | (answers ? XG_CONNECTION_ANSWERS : 0) |
                    (open ? XG_CONNECTION_ESTABLISHED : 0);
  return payload(connection, side, segment, seen);
}

void Streams::mark(Side& side, u64 position) {
  if (side.marks.size() == kMostMarks) side.marks.erase(side.marks.begin());
  side.marks.push_back(position);
}

bool Streams::has_mark(const Side& side, std::int64_t position) {
  return std::find(side.marks.begin(), side.marks.end(), position) != side.marks.end();
}

bool Streams::reads(bool answers) const {
  return settings_->inspect.http && (!answers || settings_->inspect.answers);
}

bool Streams::fin_ends(const Connection& connection, const Side& side, bool answers) const {
  const u32 asked = asked_parts();
  if (!reads(answers) || (answers ? asked >> sig::kRequestParts : asked) == 0 || side.cut ||
      side.end != side.next())
    return false;
  const HttpMessages& messages = connection.messages[answers ? 1 : 0];
  return (connection.asked[answers ? 1 : 0] && messages.has_body()) || messages.waits_for_end(side.next());
}

// What the side has sent is acknowledged up to this number.
void Streams::acknowledge(Side& side, u32 number) const {
  const auto next = static_cast<std::int64_t>(side.next());
  const std::int64_t up_to = next + static_cast<std::int32_t>(number - side.first - static_cast<u32>(next));
  const bool is_known = up_to <= next || up_to > side.farthest;
  if (is_known || settings_->on_gap == Action::drop || side.next() >= settings_->inspect.depth) {
    side.acknowledged = static_cast<u64>(
        std::max<std::int64_t>(static_cast<std::int64_t>(side.acknowledged), std::min(up_to, next)));
    return;
  }
  Side behind;
  behind.begun = behind.cut = true;
  behind.over = side.over;
  behind.first = number;
  behind.farthest = side.farthest - up_to;
  side = std::move(behind);
}

Streams::Outcome Streams::payload(Connection& connection, Side& side, const Segment& segment,
                                  const SignaturePacket& seen) {
  const auto next = static_cast<std::int64_t>(side.next());
  // Which of the positions that have this number: the one nearest to what comes next.
  const u32 number = segment.sequence + (segment.has(kSyn) ? 1 : 0) - side.first;
  const std::int64_t position = next + static_cast<std::int32_t>(number - static_cast<u32>(next));
  std::string_view bytes = segment.payload;
  if (position >= next && position - next <= kReach)
    side.farthest = std::max(side.farthest, position + static_cast<std::int64_t>(bytes.size()));
  bool gap = false;
  std::int64_t at = position;
  const auto kept = static_cast<std::int64_t>(kept_from(side));
  if (position < next) {
    const auto old = std::min<std::int64_t>(next - position, static_cast<std::int64_t>(bytes.size()));
    const auto front = std::clamp<std::int64_t>(kept - position, 0, old);
    const std::int64_t end = position + front;
    const auto acknowledged = static_cast<std::int64_t>(side.acknowledged);
    gap = front > 0 && end > acknowledged;
    if (gap) {
      const std::int64_t first = std::max(position, acknowledged), last = position + old;
      gap = !has_mark(side, first) || !has_mark(side, last);
      if (!gap && side.text.compare(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first),
                                    bytes.substr(static_cast<std::size_t>(first - position),
                                                 static_cast<std::size_t>(last - first))) != 0)
        return {What::changed, {}};
    }
    if (gap && settings_->on_gap == Action::drop) return {What::gap, {}};
    for (std::int64_t i = front; i < old; i++)
      if (side.text[static_cast<std::size_t>(position + i)] != bytes[static_cast<std::size_t>(i)])
        return {What::changed, {}};
    bytes.remove_prefix(static_cast<std::size_t>(old));
    at += old;
  }
  const auto depth = static_cast<std::int64_t>(settings_->inspect.depth);
  bytes = bytes.substr(0, static_cast<std::size_t>(std::max<std::int64_t>(0, depth - at)));
  Outcome outcome{What::inspected, {}};
  if (!bytes.empty() || segment.payload.empty())
    outcome = put(connection, side, static_cast<u64>(at), bytes, seen);
  if (gap && outcome.what == What::inspected && outcome.fire.empty()) outcome.what = What::gap;
  return outcome;
}

// Bytes that nobody has brought, but for what came early; none: a FIN ends something.
Streams::Outcome Streams::put(Connection& connection, Side& side, u64 position, std::string_view bytes,
                              const SignaturePacket& seen) {
  for (std::size_t i = 0; i < bytes.size(); i++) {
    const auto early = side.early.find(position + i);
    if (early != side.early.end() && early->second != bytes[i]) return {What::changed, {}};
  }
  std::map<u64, char> all = side.early;
  for (std::size_t i = 0; i < bytes.size(); i++) all[position + i] = bytes[i];
  if (position > side.next()) {
    u32 pieces = 0;
    for (auto it = all.begin(); it != all.end(); ++it)
      if (it == all.begin() || std::prev(it)->first + 1 != it->first) pieces++;
    const bool too_far = position + bytes.size() > kept_from(side) + 3 * u64{settings_->inspect.window};
    if (too_far || pieces > kMostGaps) return {What::gap, {}};
    side.early = std::move(all);
    return {What::inspected, {}};
  }
  side.early = std::move(all);
  const u64 end = position + bytes.size();
  Outcome outcome = advance(connection, side, seen);
  if (!bytes.empty()) mark(side, end);
  if (side.next() != end) mark(side, side.next());
  return outcome;
}

// Inspects what has come to be whole.
Streams::Outcome Streams::advance(Connection& connection, Side& side, const SignaturePacket& seen) {
  const u64 window = settings_->inspect.window;
  Firing firing;
  const bool answers = (seen.connection & XG_CONNECTION_ANSWERS) != 0;
  const auto has_next = [&] { return !side.early.empty() && side.early.begin()->first == side.next(); };
  do {
    // Up to a block's end, or the side's.
    const u64 from = kept_from(side), before = side.next() - from;
    bool is_new = false;
    while (has_next() && !(is_new && (side.next() % window == 0 || side.next() == side.end))) {
      is_new = true;
      side.text.push_back(side.early.begin()->second);
      side.early.erase(side.early.begin());
    }
    if (is_new) look(std::string_view(side.text).substr(from), before, from == 0 && !side.cut, seen, firing);
    if (from == 0 && !side.cut && !answers) look_for_hello(connection, side.text, seen, firing);
    if (!side.cut) look_for_messages(connection, side, from, seen, firing);
  } while (has_next());
  if (firing.too_many || firing.work > settings_->work) {
    connection.dropped = settings_->limit == Action::drop;
    connection.asked[answers ? 1 : 0].reset();
    return {What::limit, {}};
  }
  if (firing.encoded && settings_->on_encoded == Action::drop) {
    connection.dropped = true;
    return {What::encoded, {}};
  }
  Outcome outcome{firing.encoded ? What::encoded : What::inspected,
                  {firing.rules.begin(), firing.rules.end()}};
  if (outcome.fire.empty()) return outcome;
  const sig::Action action = settings_->rules.all()[outcome.fire[0]].action;
  connection.passed = action == sig::Action::pass;
  connection.dropped = action != sig::Action::pass && action != sig::Action::alert;
  return outcome;
}

// text: T(e), of which the first `before` bytes are known.
void Streams::look(std::string_view text, std::size_t before, bool from_start, const SignaturePacket& seen,
                   Firing& firing) const {
  const auto& rules = settings_->rules.all();
  std::set<Pattern> patterns;
  for (u32 i = 0; i < rules.size(); i++) {
    const sig::Signature& rule = rules[i];
    if (rule.where == sig::Where::packet || rule.hello || rule.http) continue;
    const Pattern pattern = pattern_of(rule);
    if (find(text, pattern) == std::string_view::npos) continue;
    patterns.insert(pattern);
    if ((!from_start && sig::from_start(rule)) || !applies(rule, seen)) continue;
    if (fires(i, text, before, firing.work)) firing.rules.insert(i);
  }
  firing.too_many = firing.too_many || patterns.size() > sig::kMostPatterns;
}

void Streams::look_for_hello(Connection& connection, std::string_view text, const SignaturePacket& seen,
                             Firing& firing) const {
  const auto& rules = settings_->rules.all();
  const bool asks = std::any_of(rules.begin(), rules.end(),
                                [](const sig::Signature& rule) { return rule.hello.has_value(); });
  if (connection.hello_is_read || !asks) return;
  const ClientHello hello = read_client_hello(text);
  if (hello.state == ClientHello::State::cut && text.size() < u64{2} * settings_->inspect.window) return;
  connection.hello_is_read = true;
  // It is longer than what is kept.
  if (hello.state == ClientHello::State::cut) firing.too_many = true;
  if (!hello.server_name) return;
  const std::string name = "." + *hello.server_name;
  std::set<Pattern> patterns;
  for (u32 i = 0; i < rules.size(); i++) {
    const sig::Signature& rule = rules[i];
    if (!rule.hello) continue;
    if (sig::found_by(rule) != nullptr) {
      const Pattern pattern = pattern_of(rule);
      if (find(name, pattern) == std::string_view::npos) continue;
      patterns.insert(pattern);
    }
    if (applies(rule, seen) && is_named(*rule.hello, *hello.server_name, firing.work)) firing.rules.insert(i);
  }
  firing.too_many = firing.too_many || patterns.size() > sig::kMostPatterns;
}

// What answers are hangs on the requests.
void Streams::look_for_messages(Connection& connection, const Side& side, u64 from,
                                const SignaturePacket& seen, Firing& firing) const {
  const bool answers = (seen.connection & XG_CONNECTION_ANSWERS) != 0;
  const u32 asked = asked_parts();
  if (!reads(answers) || (answers ? asked >> sig::kRequestParts : asked) == 0) return;
  const HttpMessages::Said said = connection.messages[answers ? 1 : 0].go_on(
      side.text, from, settings_->inspect.window, side.end == side.next(), connection.exchange);
  firing.too_many = firing.too_many || said.too_long;
  for (const auto& one : said.read)
    std::visit([&](const auto& what) { look_at(connection, what, seen, firing); }, one);
}

namespace {

// What the parts of a request or an answer take that are asked for (settings.hpp).
std::size_t room_of(const HttpHead& request, u32 asked) {
  using sig::HttpPart;
  const auto asks = [&](HttpPart part) { return (asked >> static_cast<u32>(part) & 1) != 0; };
  const auto bytes = [&](HttpPart part) { return asks(part) && request[part] ? request[part]->size() : 0; };
  std::size_t room = request.line_bytes;
  if (asks(HttpPart::uri) && request[HttpPart::raw_uri]) room += request[HttpPart::raw_uri]->size();
  if (asks(HttpPart::host)) room += request.host_bytes;
  for (u32 part = 0; part < sig::kHttpParts; part++)
    if (asks(HttpPart(part)) || (HttpPart(part) == HttpPart::raw_host && asks(HttpPart::host)))
      room += request.joined_bytes[part];
  return room + bytes(HttpPart::header) + bytes(HttpPart::header_names) + bytes(HttpPart::answer_header) +
         bytes(HttpPart::answer_header_names);
}

bool is_for(const sig::Signature& rule, bool answers) {
  return rule.http && sig::is_of_answers(rule.http->parts.front().part) == answers;
}

}  // namespace

u32 Streams::asked_parts() const {
  u32 asked = 0;
  for (const sig::Signature& rule : settings_->rules.all())
    if (rule.http)
      for (const sig::NameIs& part : rule.http->parts) asked |= 1u << static_cast<u32>(part.part);
  return asked;
}

void Streams::look_at(Connection& connection, const HttpHead& head, const SignaturePacket& seen,
                      Firing& firing) const {
  const bool answers = (seen.connection & XG_CONNECTION_ANSWERS) != 0;
  auto& kept = connection.asked[answers ? 1 : 0];
  firing.work += kHttpWork;
  kept.reset();
  const auto& rules = settings_->rules.all();
  const u32 parts = asked_parts();
  if (room_of(head, parts) > 3 * std::size_t{settings_->inspect.window}) {
    firing.too_many = true;
    return;
  }
  const sig::HttpPart body = answers ? sig::HttpPart::response_body : sig::HttpPart::request_body;
  const bool asks_body = head.has_body && (parts >> static_cast<u32>(body) & 1) != 0;
  firing.encoded = firing.encoded || (answers && asks_body && head.encoded);
  Connection::Asked asked{head, {}, settings_->rules.signatures, settings_->work, settings_->limit};
  std::array<std::set<Pattern>, sig::kHttpParts> patterns;
  for (u32 i = 0; i < rules.size(); i++) {
    const sig::Signature& rule = rules[i];
    if (!is_for(rule, answers)) continue;
    if (sig::found_by(rule) != nullptr) {
      const sig::HttpPart part = rule.http->parts[rule.fast_pattern->buffer - 1].part;
      if (part == body) continue;
      const auto& text = head[part];
      const Pattern pattern = pattern_of(rule);
      if (!text || find((part == sig::HttpPart::host ? "." : "") + *text, pattern) == std::string::npos)
        continue;
      patterns[static_cast<std::size_t>(part)].insert(pattern);
    }
    if (!applies(rule, seen) || !is_asked(*rule.http, head.parts, firing.work)) continue;
    if (sig::body_of(rule) == nullptr)
      firing.rules.insert(i);
    else
      asked.awaited.push_back(i);
  }
  for (const auto& some : patterns) firing.too_many = firing.too_many || some.size() > sig::kMostPatterns;
  firing.too_many = firing.too_many || asked.awaited.size() > sig::kMostAwaited;
  if (asks_body) kept = std::move(asked);
}

void Streams::look_at(Connection& connection, const HttpBody& body, const SignaturePacket& seen,
                      Firing& firing) const {
  const bool answers = (seen.connection & XG_CONNECTION_ANSWERS) != 0;
  auto& kept = connection.asked[answers ? 1 : 0];
  if (!kept) return;
  const Connection::Asked& asked = *kept;
  const auto& rules = settings_->rules.all();
  const bool is_other = asked.rules != settings_->rules.signatures && *asked.rules != rules;
  if (is_other || asked.work != settings_->work || asked.limit != settings_->limit) {
    kept.reset();
    return;
  }
  std::set<Pattern> patterns;
  for (u32 i = 0; i < rules.size(); i++) {
    const sig::Signature& rule = rules[i];
    if (!is_for(rule, answers) || sig::body_of(rule) == nullptr) continue;
    const bool is_found = is_found_by_body(rule);
    if (is_found) {
      const Pattern pattern = pattern_of(rule);
      if (find(body.text, pattern) == std::string_view::npos) continue;
      patterns.insert(pattern);
    } else if (std::find(asked.awaited.begin(), asked.awaited.end(), i) == asked.awaited.end()) {
      continue;
    }
    if (sig::from_start(rule) && body.bytes != body.text.size()) continue;
    if (sig::asks_when_whole(rule) && !body.is_whole && (!body.loses || sig::asks_for_end(rule))) continue;
    if (!applies(rule, seen)) continue;
    if (is_found && !is_asked(*rule.http, asked.head.parts, firing.work)) continue;
    if (fires(rule, body, firing.work)) firing.rules.insert(i);
  }
  firing.too_many = firing.too_many || patterns.size() > sig::kMostPatterns;
}

bool Streams::fires(const sig::Signature& rule, const HttpBody& body, u64& work) const {
  const sig::NameIs& wanted = *sig::body_of(rule);
  const auto holds = [&](std::size_t bytes) {
    return is_in(wanted.steps, bytes_of(std::string_view(body.text).substr(0, bytes)), work);
  };
  if (!sizes_match(wanted, body.bytes) || !holds(body.text.size())) return false;
  if (sig::asks_when_whole(rule) || body.before == 0) return true;
  // It is not there where its pattern is not.
  if (is_found_by_body(rule) &&
      find(std::string_view(body.text).substr(0, body.before), pattern_of(rule)) == std::string_view::npos)
    return true;
  return !holds(body.before);
}

bool Streams::fires(u32 rule, std::string_view text, std::size_t before, u64& work) const {
  const sig::Signature& positive = positives_[rule];
  const Pattern pattern = pattern_of(positive);
  const auto holds = [&](std::size_t bytes) {
    return find(text.substr(0, bytes), pattern) != std::string_view::npos &&
           is_in(positive, bytes_of(text.substr(0, bytes)), work);
  };
  if (!holds(text.size()) || holds(before)) return false;
  if (!sig::negates(settings_->rules.all()[rule])) return true;
  // What holds of so many bytes holds of more: the first that are enough are searched by halves.
  std::size_t not_yet = std::max(before, find(text, pattern) + pattern.bytes.size() - 1),
              enough = text.size();
  while (enough - not_yet > 1) {
    const std::size_t half = not_yet + (enough - not_yet) / 2;
    (holds(half) ? enough : not_yet) = half;
  }
  return is_in(settings_->rules.all()[rule], bytes_of(text.substr(0, enough)), work);
}

}  // namespace xdpgpu::gpu::reference
