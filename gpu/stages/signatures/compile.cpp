// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <string_view>

#include "gpu/best_fit.hpp"
#include "gpu/stages/compilers.hpp"
#include "gpu/stages/hashed_set.hpp"
#include "gpu/stages/signatures/device.h"
#include "gpu/stages/signatures/rule_words.hpp"
#include "gpu/stages/signatures/windows.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu {
namespace {

namespace sig = signatures;

static_assert(XG_SIGNATURES_TRIES == sig::kMostTries && XG_SIGNATURES_VARIABLES >= sig::kMostVariables &&
              XG_SIGNATURES_CHOICES >= sig::kMostTriedAgain &&
              XG_SIGNATURES_MOST_PATTERNS == sig::kMostPatterns && XG_SIGNATURES_DNS_NAME == sig::kMostName &&
              XG_SIGNATURES_DNS_LABELS == sig::kMostLabels);
static_assert(XG_SIGNATURES_DNS_STEPS == kMostDnsSteps && XG_SIGNATURES_MOST_NAMES == kMostDnsNames &&
              XG_SIGNATURES_NAMES_BYTES == kMostDnsNameBytes);
// A pattern and its place have a word, and all that an inspection finds has its own.
static_assert(kMaxSignatures < 1u << 16 && XG_PACKET_MAX <= 1u << 16);
static_assert(2 * kMostWindow < 1u << 16 && XG_SIDE_MOST_PIECES == kMostGaps &&
              XG_SIDE_BYTES - XG_SIDE_FOUND >= XG_SIGNATURES_FOUND_NAMES &&
              XG_SIDE_PIECE + 2 * XG_SIDE_MOST_PIECES <= XG_SIDE_FOUND && XG_SIDE_MOST_MARKS == kMostMarks);
static_assert(XG_STREAM_MOST_NAME == sig::kMostServerName &&
              XG_STREAM_NAME + (1 + XG_STREAM_MOST_NAME + 3) / 4 + 1 <= XG_STREAM_HEAD);
static_assert(XG_HTTP_WORK == kHttpWork && XG_HTTP_COUNT == sig::kRequestParts &&
              sig::kHttpParts - sig::kRequestParts <= XG_HTTP_COUNT && sig::kHttpParts <= 32 &&
              XG_HTTP_MOST_LINES == sig::kMostHttpLines && XG_HTTP_METHODS == std::size(sig::kHttpMethods) &&
              XG_HTTP_NO_FIT == kNoFit && 3 * kMostWindow < 1u << 16);
static_assert(XG_HTTP_HOST == u32(sig::HttpPart::host) && XG_HTTP_RAW_HOST == u32(sig::HttpPart::raw_host) &&
              XG_HTTP_RAW_HOST + XG_HTTP_COOKIES == u32(sig::HttpPart::cookie) &&
              XG_HTTP_CONTENT_LENGTH == u32(sig::HttpPart::content_length) &&
              XG_HTTP_HEADER_NAMES == u32(sig::HttpPart::header_names) &&
              XG_HTTP_REQUEST_BODY == u32(sig::HttpPart::request_body) &&
              XG_HTTP_REQUEST_BODY + 1 == XG_HTTP_COUNT && XG_HTTP_STAT_CODE == XG_HTTP_COUNT);
static_assert(XG_HTTP_STAT_CODE == u32(sig::HttpPart::stat_code) &&
              XG_HTTP_STAT_MSG == u32(sig::HttpPart::stat_msg) &&
              XG_HTTP_ANSWER_PROTOCOL == u32(sig::HttpPart::answer_protocol) &&
              XG_HTTP_RESPONSE_LINE == u32(sig::HttpPart::response_line) &&
              XG_HTTP_SERVER == u32(sig::HttpPart::server) &&
              XG_HTTP_SERVER + XG_HTTP_COOKIES == u32(sig::HttpPart::set_cookie) &&
              XG_HTTP_ANSWER_LENGTH == u32(sig::HttpPart::answer_content_length) &&
              XG_HTTP_ANSWER_HEADER == u32(sig::HttpPart::answer_header) &&
              XG_HTTP_ANSWER_HEADER + XG_HTTP_TO_NAMES == u32(sig::HttpPart::answer_header_names) &&
              XG_HTTP_ANSWER_HEADER + XG_HTTP_TO_BODY == XG_HTTP_RESPONSE_BODY &&
              XG_HTTP_HEADER + XG_HTTP_TO_BODY == XG_HTTP_REQUEST_BODY &&
              XG_HTTP_RESPONSE_BODY == u32(sig::HttpPart::response_body) &&
              XG_HTTP_RESPONSE_BODY + 1 == sig::kHttpParts);
static_assert(XG_HTTP_MOST_AWAITED == sig::kMostAwaited && XG_HTTP_MOST_ASKED == sig::kMostAsked &&
              XG_HTTP_AWAITED + XG_HTTP_MOST_AWAITED < XG_HTTP_HEADS && XG_HTTP_CONNECTS < XG_HTTP_FOUND &&
              XG_HTTP_FOUND + XG_SIGNATURES_FOUND_NAMES <= XG_HTTP_PARTS &&
              XG_HTTP_PARTS + XG_HTTP_COUNT <= XG_HTTP_UNANSWERED && XG_HTTP_UNANSWERED < XG_HTTP_LINES);
static_assert(XG_SIDE_MARK + XG_SIDE_MOST_MARKS * XG_SIDE_MARK_WORDS <= XG_SIDE_END &&
              XG_SIDE_END < XG_SIDE_BYTES);
static_assert(XG_SIGNATURES_FOUND_RULES == XG_INSPECTION_ONES && XG_MAX_ALERTS == XG_INSPECTION_ONES_COUNT &&
              XG_SIGNATURES_FOUND_CONNECTION == XG_INSPECTION_CONNECTION &&
              XG_SIGNATURES_FOUND_RULES + XG_MAX_ALERTS <= XG_SIGNATURES_FOUND_DNS &&
              XG_SIGNATURES_FOUND_NAME_ENDS + XG_SIGNATURES_MOST_NAMES <= XG_SIGNATURES_FOUND_SEEN &&
              XG_SIGNATURES_FOUND_SEEN + XG_SIGNATURES_SEEN <= XG_SIGNATURES_FOUND_NAMES &&
              XG_SIGNATURES_FOUND_NAMES + XG_SIGNATURES_NAMES_BYTES / 4 <= XG_INSPECTION_WORDS);

// ---- DNS messages ----------------------------------------------------------------------------------------

std::vector<u32> words_of(const std::vector<sig::SizeIs>& sizes) {
  std::vector<u32> words;
  for (const sig::SizeIs& size : sizes)
    words.insert(words.end(), {size.bytes.first, size.bytes.last, size.negated ? 1u : 0u});
  return words;
}

xg_hashed hash_of(std::string_view string, const std::array<u64, 2>& key) {
  XG_SIP_BEGIN(key[0], key[1]);
  XG_SIP_WORD(u64{string.size()});
  for (; !string.empty(); string.remove_prefix(std::min(sizeof(u64), string.size()))) {
    u64 word = 0;
    std::memcpy(&word, string.data(), std::min(sizeof(word), string.size()));
    XG_SIP_WORD(word);
  }
  return xg_hashed_end(v0, v1, v2, v3);
}

// Sets of strings, each of which is there once.
class Sets {
 public:
  explicit Sets(Compiled& to) : to_(to) {}
  // Where the set is that is placed.
  u32 at(const sig::SharedStrings& strings) const { return places_.at(strings.set.get()); }
  Check place(const sig::SharedStrings& strings) {
    const auto [known, is_new] = places_.try_emplace(strings.set.get(), to_.here());
    if (!is_new) return {};
    const u64 slots = hashed_slots(strings.set->ends.size());
    const u64 words = to_.image.size() + XG_SIGNATURES_SET + slots * XG_HASHED_SLOT;
    if (words > kImageMaxWords)
      return refuse(
          "with the {} strings of the set \"{}\" its rules need {} MiB of a device's memory, {} are "
          "possible: use fewer",
          strings.set->ends.size(), strings.set->name, words >> 18, kImageMaxWords >> 18);
    for (const u64 key : to_.hash_key) append64(to_.image, key);
    to_.image.insert(to_.image.end(), {static_cast<u32>(slots), 0});
    to_.point_here(known->second + XG_SET_SLOTS + 1);
    const u32 table = to_.here();
    to_.image.resize(words, 0);
    HashedSet made(to_.image, table, static_cast<u32>(slots));
    for (std::size_t i = 0; i < strings.set->ends.size(); i++)
      made.at(hash_of((*strings.set)[i], to_.hash_key)) = 1;
    return {};
  }

 private:
  Compiled& to_;
  std::map<const sig::StringSet*, u32> places_;
};

// -> the sets that a name is asked to be in
u32 place(const std::vector<sig::InSet>& sets, const Sets& placed, Compiled& to) {
  const u32 at = to.here();
  for (const sig::InSet& one : sets) {
    to.points(to.here());
    to.image.insert(to.image.end(), {placed.at(one.strings), one.negated ? 1u : 0u});
  }
  return at;
}

// -> what is asked of a message
u32 place_asks(const sig::Dns& dns, sig::Shared& shared, const Sets& placed, Compiled& to) {
  std::vector<sig::PlacedSteps> steps;
  std::vector<u32> sizes, sets;
  for (const sig::NameIs& name : dns.names) {
    steps.push_back(place(name.steps, shared, to));
    sizes.push_back(shared.at(words_of(name.sizes)));
    sets.push_back(place(name.sets, placed, to));
  }
  const u32 at = to.here();
  to.image.push_back((dns.queries ? XG_ASKS_QUERIES : 0) | (dns.answers ? XG_ASKS_ANSWERS : 0) |
                     static_cast<u32>(dns.operations.size()) << 8 | static_cast<u32>(dns.names.size()) << 16);
  for (const sig::OperationIs& one : dns.operations)
    to.image.push_back(one.operation | (one.negated ? XG_ASKS_NOT : 0));
  for (std::size_t i = 0; i < dns.names.size(); i++) {
    const sig::NameIs& name = dns.names[i];
    to.points(to.here() + XG_NAME_SIZES);
    to.points(to.here() + XG_NAME_STEPS);
    to.points(to.here() + XG_NAME_SETS);
    to.image.insert(
        to.image.end(),
        {sizes[i], static_cast<u32>(name.sizes.size()) | (name.dot_prefix ? XG_NAME_DOT_PREFIX : 0),
         steps[i].at, steps[i].count, sets[i], static_cast<u32>(name.sets.size()),
         static_cast<u32>(name.part)});
  }
  return at;
}

u32 wants_of(const std::vector<sig::Signature>& rules) {
  u32 wants = 0;
  for (const sig::Signature& rule : rules)
    if (rule.dns)
      wants |= XG_DNS_WANTS | (rule.dns->names.empty() ? 0 : XG_DNS_WANTS_NAMES) |
               (reads_answers(rule) ? XG_DNS_WANTS_ANSWERS : 0);
  return wants;
}

// ---- patterns --------------------------------------------------------------------------------------------

// What patterns are looked for in; each has windows of its own. From `part` on: parts of requests.
enum class In : u32 { payloads, names, streams, server_names, part };
constexpr std::size_t kPlaces = static_cast<std::size_t>(In::part) + sig::kHttpParts;

struct Pattern {
  std::string bytes;  // in lower case where nocase
  bool nocase = false;
  u32 in = 0;  // In, and behind In::part the number of the part
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const Pattern&) const = default;
};

// in_streams: of a rule that is asked of these.
std::optional<Pattern> pattern_of(const sig::Signature& rule, bool in_streams) {
  const sig::Content* const content = sig::found_by(rule);
  if (content == nullptr) return std::nullopt;
  const auto place = [&]() -> u32 {
    const u32 buffer = rule.fast_pattern->buffer;
    if (rule.http) return static_cast<u32>(In::part) + static_cast<u32>(rule.http->parts[buffer - 1].part);
    if (in_streams) return static_cast<u32>(buffer != 0 ? In::server_names : In::streams);
    return static_cast<u32>(buffer != 0 ? In::names : In::payloads);
  };
  return Pattern{content->bytes.substr(rule.fast_pattern->first, rule.fast_pattern->length), content->nocase,
                 place()};
}

u32 action_of(const sig::Signature& rule) {
  switch (rule.action) {
    case sig::Action::alert:
      return XG_SIGNATURE_ALERT;
    case sig::Action::pass:
      return XG_SIGNATURE_PASS;
    default:
      return XG_SIGNATURE_DROP;
  }
}

u32 flags_of(const sig::Signature& rule) {
  const sig::Header& header = rule.header;
  u32 flags = action_of(rule) << 8;
  const auto set = [&](bool on, u32 bit) { flags |= on ? bit : 0; };
  set(header.v4, XG_SIGNATURE_V4);
  set(header.v6, XG_SIGNATURE_V6);
  set(header.both_ways, XG_SIGNATURE_BOTH_WAYS);
  set(is_any(header.src), XG_SIGNATURE_ANY_SRC);
  set(is_any(header.dst), XG_SIGNATURE_ANY_DST);
  set(!header.src_ports, XG_SIGNATURE_ANY_SRC_PORT);
  set(!header.dst_ports, XG_SIGNATURE_ANY_DST_PORT);
  set(sig::from_start(rule), XG_SIGNATURE_FROM_START);
  set(sig::negates(rule), XG_SIGNATURE_NEGATES);
  set(sig::body_of(rule) != nullptr, XG_SIGNATURE_BODY);
  set(sig::asks_when_whole(rule), XG_SIGNATURE_WHEN_WHOLE);
  set(sig::asks_for_end(rule), XG_SIGNATURE_AT_END);
  return flags;
}

// A number by which rules are told from others, of the words that they have from `at` on, wherever that is.
u32 version_of(const SignaturesSettings& stage, u32 at, const Compiled& to) {
  std::vector<u32> words(to.image.begin() + at, to.image.end());
  for (const CodeRange& pointers : to.pointers)
    for (u32 i = std::max(pointers.first, at); i < pointers.first + pointers.count; i++)
      if (words[i - at] != 0) words[i - at] -= at;
  for (const sig::Signature& rule : stage.rules.all())
    words.insert(words.end(), {rule.gid, rule.sid, rule.rev, rule.priority, rule.once_a_flow ? 1u : 0u});
  const auto* const bytes = reinterpret_cast<const char*>(words.data());
  return static_cast<u32>(hash_of({bytes, words.size() * sizeof(u32)}, to.hash_key).low);
}

// The body of the part that follows streams; `at`: of the one that inspects packets.
void append_streams(const SignaturesSettings& stage, u32 at, Compiled& to) {
  const u32 body = append_stateful({.entries = stage.streams, .evict = stage.evict}, to.hash_key, to.image);
  std::vector<u32>& image = to.image;
  image.resize(body + XG_STREAMS_WORDS, 0);
  const auto count = static_cast<u32>(stage.rules.all().size());
  const auto ticks = [&](u32 word, u32 ms) {
    const u64 value = u64{ms} * 1'000'000 * XG_TICKS_PER_NS;
    image[body + word] = static_cast<u32>(value);
    image[body + word + 1] = static_cast<u32>(value >> 32);
  };
  image[body + XG_STREAMS_WINDOW] = stage.inspect.window | stage.reads();
  image[body + XG_STREAMS_RULES] = at;
  to.points(body + XG_STREAMS_RULES);
  image[body + XG_STREAMS_DEPTH] = stage.inspect.depth;
  ticks(XG_STREAMS_IDLE, stage.inspect.idle_ms);
  ticks(XG_STREAMS_CLOSED, kClosedMs);
  image[body + XG_STREAMS_MIDSTREAM] = stage.inspect.midstream ? 1 : 0;
  image[body + XG_STREAMS_ON_GAP] = action_word(stage.on_gap, 0, count + 3);
  image[body + XG_STREAMS_ON_ENCODED] = action_word(stage.on_encoded, 0, count + 5);
  image[body + XG_STREAMS_COUNT] = count;
}

// A word that is compared, in lower case.
std::vector<u32> compared(std::string_view word) {
  std::string text(word);
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  std::vector<u32> words = sig::bytes_as_words(text);
  words.insert(words.begin(), static_cast<u32>(text.size()));
  words.resize(XG_HTTP_WORD, 0);
  return words;
}

// Headers whose values are parts, in the parts' order, and the one that says how a body is cut.
constexpr std::array<std::string_view, XG_HTTP_NAMED> kNamedHeaders{
    "host",         "user-agent",      "cookie",           "referer",
    "accept",       "accept-encoding", "accept-language",  "connection",
    "content-type", "content-length",  "transfer-encoding"};
// Of answers; and last the one that says how a body is encoded.
constexpr std::array<std::string_view, XG_HTTP_ANSWER_NAMED> kAnswersHeaders{
    "server",       "location",       "set-cookie",        "connection",
    "content-type", "content-length", "transfer-encoding", "content-encoding"};

// What reading requests and answers takes, of the part that follows streams.
void append_http(u32 body, Compiled& to) {
  to.point_here(body + XG_STREAMS_HTTP_NAMED);
  const auto put = [&](std::string_view word) {
    const auto words = compared(word);
    to.image.insert(to.image.end(), words.begin(), words.end());
  };
  std::for_each(kNamedHeaders.begin(), kNamedHeaders.end(), put);
  std::for_each(std::begin(sig::kHttpMethods), std::end(sig::kHttpMethods), put);
  std::for_each(kAnswersHeaders.begin(), kAnswersHeaders.end(), put);
  to.point_here(body + XG_STREAMS_HTTP_FITS);
  const u32 first = to.here();
  for (const BestFits& some : kBestFits)
    for (std::size_t i = 0; i < some.bytes.size(); i++)
      to.image.push_back((some.first + static_cast<u32>(i)) << 8 | static_cast<u8>(some.bytes[i]));
  to.image[body + XG_STREAMS_HTTP_FITS + 1] = to.here() - first;
}

std::vector<u32> words_of(const std::bitset<256>& protocols) {
  std::vector<u32> words(8, 0);
  for (u32 i = 0; i < 256; i++)
    if (protocols[i]) words[i / 32] |= 1u << i % 32;
  return words;
}

}  // namespace

Check check(const SignaturesSettings& stage) {
  const auto& rules = stage.rules.all();
  if (rules.size() > kMaxSignatures)
    return refuse("it has {} rules, {} are possible: use fewer", rules.size(), kMaxSignatures);
  u32 turn = 0;
  for (const sig::Signature& rule : rules) {
    if (turn_of(rule.action) < turn)
      return refuse(
          "its rules are not in order: those that pass come first, then those that drop, those that reject");
    // One that alerts stands in front of others where a host decides whether they count.
    turn =
        rule.action == sig::Action::alert ? std::max(turn, turn_of(sig::Action::drop)) : turn_of(rule.action);
  }
  if (stage.inspect.window % 64 != 0)
    return refuse("its window of {} bytes is no multiple of 64: take {}", stage.inspect.window,
                  stage.inspect.window / 64 * 64);
  for (const sig::Signature& rule : rules) {
    if (const auto why = sig::beyond_bounds(rule))
      return refuse("its rule {}:{} {}", rule.gid, rule.sid, *why);
    if (rule.http && !stage.inspect.http)
      return refuse("its rule {}:{} asks of HTTP, which \"http\" of \"inspect\" is to read", rule.gid,
                    rule.sid);
    if (rule.http && sig::is_of_answers(rule.http->parts.front().part) && !stage.inspect.answers)
      return refuse("its rule {}:{} asks of answers by HTTP, which \"answers\" of \"inspect\" is to read",
                    rule.gid, rule.sid);
  }
  // What a device numbers a table's words by.
  const u64 words =
      u64{std::bit_ceil(std::max(stage.streams, u32{XG_WAYS}))} * (stage.record_words() + XG_SET_WORDS);
  if (words >> 32 != 0)
    return refuse(
        "with windows of {} bytes its {} streams need {} GiB of a device's memory, 16 are possible: "
        "follow fewer, or take a smaller window",
        stage.inspect.window, stage.streams, words >> 28);
  return {};
}

Result<Placed> emit(const SignaturesSettings& stage, Compiled& to) {
  const auto& rules = stage.rules.all();
  std::vector<u32>& image = to.image;
  const u32 at = to.here();
  const auto count = static_cast<u32>(rules.size());
  image.resize(at + XG_SIGNATURES_WORDS, 0);
  image[at + XG_SIGNATURES_REACH] = payload_bytes(stage);
  image[at + XG_BODY_ROUND] = ~0u;
  image[at + XG_SIGNATURES_WORK] = stage.work;
  image[at + XG_SIGNATURES_LIMIT] = action_word(stage.limit, 0, count + 1);
  image[at + XG_SIGNATURES_DNS] = wants_of(rules);

  to.point_here(at + XG_SIGNATURES_RULES);
  const u32 records = to.here();
  image.resize(records + u64{count} * XG_SIGNATURES_RULE, 0);
  sig::Shared shared(to);
  Sets sets(to);
  std::map<std::vector<u32>, u32> addresses;
  std::map<Pattern, std::vector<u32>> patterns;
  std::vector<u32> always, hello_rules, request_rules, answer_rules;
  bool asks_hellos = false;
  u32 parts = 0;  // of requests and answers, that are asked for
  // Of the patterns in streams, and in requests' and answers' bodies.
  std::size_t longest = 0, longest_of_request = 0, longest_of_answer = 0;
  for (u32 i = 0; i < count; i++) {
    const sig::Signature& rule = rules[i];
    const u32 record = records + i * XG_SIGNATURES_RULE;
    const auto point = [&](u32 word, u32 place) {
      image[record + word] = place;
      to.points(record + word);
    };
    image[record + XG_SIGNATURE_FLAGS] = flags_of(rule);
    point(XG_SIGNATURE_PROTOCOLS, shared.at(words_of(rule.header.protocols)));
    point(XG_SIGNATURE_SRC, place(rule.header.src, shared, addresses, to));
    point(XG_SIGNATURE_DST, place(rule.header.dst, shared, addresses, to));
    point(XG_SIGNATURE_SRC_PORTS, shared.at(words_of(rule.header.src_ports)));
    point(XG_SIGNATURE_DST_PORTS, shared.at(words_of(rule.header.dst_ports)));
    std::vector<u32> conditions;
    for (const sig::Condition& condition : rule.conditions)
      for (const u32 word : words_of(condition)) conditions.push_back(word);
    point(XG_SIGNATURE_CONDITIONS, shared.at(conditions));
    image[record + XG_SIGNATURE_CONDITIONS + 1] = static_cast<u32>(rule.conditions.size());
    const sig::Content* const fast = sig::found_by(rule);
    const bool in_payload = fast != nullptr && rule.fast_pattern->buffer == 0;
    const sig::PlacedSteps steps = place(rule.payload, shared, to, in_payload ? fast : nullptr,
                                         in_payload ? rule.fast_pattern->first : 0);
    point(XG_SIGNATURE_STEPS, steps.at);
    image[record + XG_SIGNATURE_STEPS + 1] = steps.count;
    for (const sig::NameIs& name : sig::names_of(rule))
      for (const sig::InSet& one : name.sets)
        if (auto placed = sets.place(one.strings); !placed) return tl::unexpected(placed.error());
    if (rule.dns) point(XG_SIGNATURE_DNS, place_asks(*rule.dns, shared, sets, to));
    // As a query that has the server's name.
    if (rule.hello)
      point(XG_SIGNATURE_DNS, place_asks({true, false, {}, rule.hello->names}, shared, sets, to));
    if (rule.http) point(XG_SIGNATURE_DNS, place_asks({true, false, {}, rule.http->parts}, shared, sets, to));
    if (rule.where != sig::Where::stream) {
      if (const auto pattern = pattern_of(rule, false))
        patterns[*pattern].push_back(i);
      else
        always.push_back(i);
    }
    if (rule.where == sig::Where::packet || stage.streams == 0) continue;
    asks_hellos = asks_hellos || rule.hello;
    if (rule.http)
      for (const sig::NameIs& part : rule.http->parts) parts |= 1u << static_cast<u32>(part.part);
    const auto pattern = pattern_of(rule, true);
    if (!pattern) {
      const bool of_answers = rule.http && sig::is_of_answers(rule.http->parts.front().part);
      (!rule.http ? hello_rules : of_answers ? answer_rules : request_rules).push_back(i);
      continue;
    }
    patterns[*pattern].push_back(i);
    if (pattern->in == static_cast<u32>(In::streams)) longest = std::max(longest, pattern->bytes.size());
    if (pattern->in == static_cast<u32>(In::part) + XG_HTTP_REQUEST_BODY)
      longest_of_request = std::max(longest_of_request, pattern->bytes.size());
    if (pattern->in == static_cast<u32>(In::part) + XG_HTTP_RESPONSE_BODY)
      longest_of_answer = std::max(longest_of_answer, pattern->bytes.size());
  }

  image[at + XG_SIGNATURES_ALWAYS + 1] = static_cast<u32>(always.size());
  to.point_here(at + XG_SIGNATURES_ALWAYS);
  image.insert(image.end(), always.begin(), always.end());

  std::array<sig::AllWindows, kPlaces> windows;
  u32 searched = 0;  // parts of requests and answers
  to.point_here(at + XG_SIGNATURES_PATTERNS);
  const u32 first = to.here();
  image.resize(first + patterns.size() * XG_SIGNATURES_PATTERN, 0);
  u32 number = 0;
  for (const auto& [pattern, found] : patterns) {
    const std::size_t size = pattern.bytes.size();
    windows[pattern.in].add(pattern.bytes, number);
    if (pattern.in >= static_cast<u32>(In::part)) searched |= 1u << (pattern.in - static_cast<u32>(In::part));
    const u32 record = first + number++ * XG_SIGNATURES_PATTERN;
    image[record + XG_PATTERN_BYTES] = shared.at(sig::bytes_as_words(pattern.bytes));
    to.points(record + XG_PATTERN_BYTES);
    image[record + XG_PATTERN_SIZE] = static_cast<u32>(size) | (pattern.nocase ? XG_PATTERN_NOCASE : 0);
    to.point_here(record + XG_PATTERN_RULES);
    image[record + XG_PATTERN_RULES + 1] = static_cast<u32>(found.size());
    image.insert(image.end(), found.begin(), found.end());
  }
  const auto emit_windows = [&](In in, u32 place, u32 part = 0) {
    return windows[static_cast<u32>(in) + part].emit(place, to);
  };
  u32 fullest = std::max(emit_windows(In::payloads, at + XG_SIGNATURES_WINDOWS),
                         emit_windows(In::names, at + XG_SIGNATURES_NAME_WINDOWS));
  const u32 streams = stage.streams == 0 ? 0 : to.here();
  if (stage.streams != 0) {
    const u32 version = version_of(stage, at, to);
    append_streams(stage, at, to);
    image[streams + XG_STREAMS_LONGEST] = static_cast<u32>(longest);
    image[streams + XG_STREAMS_BODY_LONGEST] = static_cast<u32>(longest_of_request);
    image[streams + XG_STREAMS_ANSWER_LONGEST] = static_cast<u32>(longest_of_answer);
    image[streams + XG_STREAMS_VERSION] = version;
    fullest = std::max({fullest, emit_windows(In::streams, streams + XG_STREAMS_WINDOWS),
                        emit_windows(In::server_names, streams + XG_STREAMS_NAME_WINDOWS)});
    image[streams + XG_STREAMS_HELLOS] = asks_hellos ? 1 : 0;
    const auto put = [&](const std::vector<u32>& some, u32 place) {
      image[streams + place + 1] = static_cast<u32>(some.size());
      to.point_here(streams + place);
      image.insert(image.end(), some.begin(), some.end());
    };
    put(hello_rules, XG_STREAMS_HELLO_RULES);
    image[streams + XG_STREAMS_HTTP] = parts;
    image[streams + XG_STREAMS_HTTP_SEARCHED] = searched;
    to.point_here(streams + XG_STREAMS_HTTP_WINDOWS);
    const u32 each = to.here();
    image.resize(each + (searched != 0 ? sig::kHttpParts * XG_STREAMS_HTTP_WINDOW : 0), 0);
    for (u32 part = 0; part < sig::kHttpParts; part++)
      if ((searched >> part & 1) != 0)
        fullest = std::max(fullest, emit_windows(In::part, each + part * XG_STREAMS_HTTP_WINDOW, part));
    put(request_rules, XG_STREAMS_HTTP_RULES);
    put(answer_rules, XG_STREAMS_ANSWER_RULES);
    if (parts != 0) append_http(streams, to);
  }
  if (fullest > kMostAlike)
    return refuse(
        "{} of its rules' fast patterns have the same bytes in them, or are taken for such, {} may: a packet "
        "full of these bytes would have all of them compared everywhere; name others with fast_pattern, or "
        "use fewer",
        fullest, kMostAlike);
  if (image.size() > kImageMaxWords)
    return refuse("its {} rules need {} MiB of a device's memory, {} are possible: use fewer", count,
                  image.size() >> 18, kImageMaxWords >> 18);
  if (stage.streams == 0) return Placed{at};
  return Placed{.body = streams,
                .entries = u64{image[streams + XG_BODY_SETS]} * XG_WAYS,
                .own = streams + XG_STREAMS_OWN,
                .record = stage.record_words(),
                .inspects = at};
}

bool remembers(const SignaturesSettings& stage) { return stage.streams != 0; }

std::span<const Outcome> outcomes(const SignaturesSettings&) {
  static constexpr std::array<Outcome, XG_STREAM_OUTCOMES> kOutcomes{{{"inspected", XG_STREAM_INSPECTED},
                                                                      {"limit", XG_STREAM_LIMIT},
                                                                      {"changed", XG_STREAM_CHANGED},
                                                                      {"gap", XG_STREAM_GAP},
                                                                      {"dropped", XG_STREAM_DROP},
                                                                      {"encoded", XG_STREAM_ENCODED}}};
  return kOutcomes;
}

u32 payload_bytes(const SignaturesSettings&) { return XG_PACKET_MAX; }

bool drops(const SignaturesSettings& stage) {
  return stage.limit == Action::drop || stage.streams != 0 ||
         std::any_of(stage.rules.all().begin(), stage.rules.all().end(),
                     [](const sig::Signature& rule) { return action_of(rule) == XG_SIGNATURE_DROP; });
}

std::vector<std::string> notes(const SignaturesSettings& stage, const StagePlace& place) {
  std::vector<std::string> notes;
  for (const std::string& note : stage.rules.notes)
    notes.push_back(fmt::format("signatures{}: {}", place.where(), note));
  const auto& rules = stage.rules.all();
  // A stream knows its sides itself; bits are on a connection as `conntrack` has it.
  const auto asks = [&](std::size_t i) {
    const sig::Signature& rule = rules[i];
    const auto is_asked = [](const sig::Condition& one) {
      return std::holds_alternative<sig::ConnectionIs>(one);
    };
    if (rule.where != sig::Where::stream &&
        std::any_of(rule.conditions.begin(), rule.conditions.end(), is_asked))
      return true;
    if (!stage.rules.heads || i >= stage.rules.heads->size()) return false;
    const auto& bits = (*stage.rules.heads)[i].bits;
    return std::any_of(bits.begin(), bits.end(),
                       [](const RuleBits& one) { return one.on == RuleBits::On::connection; });
  };
  if (stage.streams != 0) {
    const u64 sets = std::bit_ceil((stage.streams + XG_WAYS - 1) / XG_WAYS);
    const u64 bytes = (sets * XG_SET_WORDS + sets * XG_WAYS * stage.record_words()) * sizeof(u32);
    notes.push_back(fmt::format("signatures{}: following {} streams takes {} MiB of a device's memory",
                                place.where(), stage.streams, (bytes + (1u << 20) - 1) >> 20));
  }
  std::size_t asking = 0;
  for (std::size_t i = 0; i < rules.size(); i++) asking += asks(i) ? 1 : 0;
  const auto in_front = place.stages.first(place.at);
  if (asking != 0 && std::none_of(in_front.begin(), in_front.end(),
                                  [](const StageSettings& one) { return traits_of(one).connections; }))
    notes.push_back(
        fmt::format("signatures{}: {} of its rules ask for a packet's connection, or for bits on it, and "
                    "there is none: put a stage conntrack in front of it",
                    place.where(), asking));
  return notes;
}

std::string describe(const SignaturesSettings& stage, u32 rule, const xg_result*) {
  const auto text = [](const auto& one) { return fmt::format(" rule {}:{}", one.gid, one.sid); };
  if (rule == 0) return "";
  // Who runs the stage has heads alone.
  const auto& heads = stage.rules.heads;
  const std::size_t count = heads ? heads->size() : stage.rules.all().size();
  if (rule <= count) return heads ? text((*heads)[rule - 1]) : text(stage.rules.all()[rule - 1]);
  switch (rule - count) {
    case 2:
      return " changed";
    case 3:
      return " gap";
    case 4:
      return " dropped";
    case 5:
      return " encoded";
    default:
      return " limit";
  }
}

}  // namespace xdpgpu::gpu
