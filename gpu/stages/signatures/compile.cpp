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
              XG_STREAM_NAME + (1 + XG_STREAM_MOST_NAME + 3) / 4 + 1 <= XG_STREAM_HTTP_SEEN &&
              XG_STREAM_HTTP_LINES < XG_STREAM_HEAD);
static_assert(XG_HTTP_WORK == kHttpWork && XG_HTTP_COUNT == sig::kHttpParts &&
              XG_HTTP_MOST_LINES == sig::kMostHttpLines && XG_HTTP_METHODS == std::size(sig::kHttpMethods) &&
              XG_HTTP_NO_FIT == kNoFit && 3 * kMostWindow < 1u << 16);
static_assert(XG_HTTP_HOST == u32(sig::HttpPart::host) && XG_HTTP_RAW_HOST == u32(sig::HttpPart::raw_host) &&
              XG_HTTP_COOKIE == u32(sig::HttpPart::cookie) &&
              XG_HTTP_CONTENT_LENGTH == u32(sig::HttpPart::content_length) &&
              XG_HTTP_HEADER_NAMES == u32(sig::HttpPart::header_names));
static_assert(XG_SIGNATURES_FOUND_RULES == XG_INSPECTION_ONES && XG_MAX_ALERTS == XG_INSPECTION_ONES_COUNT &&
              XG_SIGNATURES_FOUND_CONNECTION == XG_INSPECTION_CONNECTION &&
              XG_SIGNATURES_FOUND_RULES + XG_MAX_ALERTS <= XG_SIGNATURES_FOUND_DNS &&
              XG_SIGNATURES_FOUND_NAME_ENDS + XG_SIGNATURES_MOST_NAMES <= XG_SIGNATURES_FOUND_SEEN &&
              XG_SIGNATURES_FOUND_SEEN + XG_SIGNATURES_SEEN <= XG_SIGNATURES_FOUND_NAMES &&
              XG_SIGNATURES_FOUND_NAMES + XG_SIGNATURES_NAMES_BYTES / 4 <= XG_INSPECTION_WORDS);

// ---- words that many rules share -------------------------------------------------------------------------

// Pieces of the image, each there once.
class Shared {
 public:
  explicit Shared(Compiled& to) : to_(to) {}
  u32 at(const std::vector<u32>& words) {
    const auto [found, is_new] = places_.try_emplace(words, to_.here());
    if (is_new) to_.image.insert(to_.image.end(), words.begin(), words.end());
    return found->second;
  }

 private:
  Compiled& to_;
  std::map<std::vector<u32>, u32> places_;
};

u32 big_endian(const sig::Address& address, std::size_t word) {
  u32 value = 0;
  for (std::size_t i = 0; i < 4; i++) value = value << 8 | address[word * 4 + i];
  return value;
}

std::vector<u32> words_of(const sig::Ranges<sig::Address>& ranges, std::size_t each) {
  std::vector<u32> words;
  for (const auto& range : ranges)
    for (const sig::Address* address : {&range.first, &range.last})
      for (std::size_t i = 0; i < each; i++) words.push_back(big_endian(*address, i));
  return words;
}

// Kind, mask and value.
std::vector<u32> words_of(const sig::ConnectionIs& is) {
  using Way = sig::ConnectionIs::Way;
  u32 mask = XG_CONNECTION_SEEN, value = XG_CONNECTION_SEEN;
  if (is.way != Way::any) {
    mask |= XG_CONNECTION_HAS | XG_CONNECTION_ANSWERS;
    value |= XG_CONNECTION_HAS | (is.way == Way::to_client ? XG_CONNECTION_ANSWERS : 0);
  }
  if (is.established) mask |= XG_CONNECTION_ESTABLISHED;
  if (is.established.value_or(false)) value |= XG_CONNECTION_ESTABLISHED;
  return {XG_CONDITION_CONNECTION, mask, value};
}

// -> addresses
u32 place(const sig::Addresses& addresses, Shared& shared, std::map<std::vector<u32>, u32>& heads,
          Compiled& to) {
  const u32 v4 = shared.at(words_of(addresses.v4, 1)), v6 = shared.at(words_of(addresses.v6, 4));
  const std::vector<u32> head{static_cast<u32>(addresses.v4.size()), v4,
                              static_cast<u32>(addresses.v6.size()), v6};
  const auto [found, is_new] = heads.try_emplace(head, to.here());
  if (is_new) {
    to.image.insert(to.image.end(), head.begin(), head.end());
    to.points(found->second + 1);
    to.points(found->second + 3);
  }
  return found->second;
}

bool is_all(const sig::Ranges<sig::Address>& ranges, std::size_t bytes) {
  if (ranges.size() != 1) return false;
  const auto all = [&](const sig::Address& address, u8 value) {
    return std::all_of(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(bytes),
                       [&](u8 byte) { return byte == value; });
  };
  return all(ranges[0].first, 0) && all(ranges[0].last, 0xff);
}
bool is_any(const sig::Addresses& addresses) { return is_all(addresses.v4, 4) && is_all(addresses.v6, 16); }

std::vector<u32> words_of(const std::optional<sig::Ranges<u16>>& ports) {
  if (!ports) return {0};
  std::vector<u32> words{static_cast<u32>(ports->size())};
  for (const auto& range : *ports) words.push_back(range.first | u32{range.last} << 16);
  return words;
}

// ---- conditions and steps --------------------------------------------------------------------------------

std::vector<u32> words_of(const sig::Condition& condition) {
  const auto word = [](u32 kind, auto argument) { return kind | static_cast<u32>(argument) << 8; };
  return std::visit(
      sig::Visitor{[&](const sig::FieldIs& one) -> std::vector<u32> {
                     return {
                         word(XG_CONDITION_FIELD_IS, one.field) | (one.negated ? XG_CONDITION_NEGATED : 0),
                         one.values.first, one.values.last};
                   },
                   [&](const sig::TcpFlagsAre& one) -> std::vector<u32> {
                     return {word(XG_CONDITION_TCP_FLAGS, one.mode), one.flags | u32{one.mask} << 8,
                             one.some_of[0] | u32{one.some_of[1]} << 8};
                   },
                   [&](const sig::FragmentBitsAre& one) -> std::vector<u32> {
                     return {word(XG_CONDITION_FRAGMENT_BITS, one.mode), one.bits, 0};
                   },
                   [&](const sig::IpOptionIs& one) -> std::vector<u32> {
                     return {word(XG_CONDITION_IP_OPTION, one.type), 0, 0};
                   },
                   [&](const sig::SameAddresses&) -> std::vector<u32> {
                     return {XG_CONDITION_SAME_ADDRESSES, 0, 0};
                   },
                   [&](const sig::ConnectionIs& one) -> std::vector<u32> { return words_of(one); }},
      condition);
}

// A step's words, with what is common to them.
class StepWords {
 public:
  explicit StepWords(u32 kind) { words_[0] = kind; }
  StepWords& flag(bool on, u32 bit) {
    if (on) words_[0] |= bit;
    return *this;
  }
  StepWords& argument(auto value) {
    words_[0] |= static_cast<u32>(value) << 24;
    return *this;
  }
  StepWords& word(u32 at, u64 value) {
    words_[at] = static_cast<u32>(value);
    return *this;
  }
  // Its low word, or its variable.
  StepWords& amount(u32 at, const sig::Amount& amount, u32 variable) {
    flag(amount.variable.has_value(), variable);
    return word(at, amount.variable ? *amount.variable : static_cast<u64>(amount.constant));
  }
  StepWords& value(const sig::Amount& amount) {
    if (!amount.variable) word(5, static_cast<u64>(amount.constant) >> 32);
    return this->amount(4, amount, XG_STEP_VAR_VALUE);
  }
  StepWords& number(const sig::Number& number) {
    flag(number.relative, XG_STEP_RELATIVE);
    word(1, number.bytes | (number.base ? XG_NUMBER_TEXT | u32{*number.base} << 8 : 0) |
                (number.little_endian ? XG_NUMBER_LITTLE : 0));
    return amount(2, number.offset, XG_STEP_VAR_OFFSET);
  }
  StepWords& mask(const sig::Mask& mask) {
    flag(mask.has_value(), XG_STEP_MASK);
    return word(3, mask.value_or(0));
  }
  const std::array<u32, XG_SIGNATURES_STEP>& words() const { return words_; }

 private:
  std::array<u32, XG_SIGNATURES_STEP> words_{};
};

StepWords words_of(const sig::Content& one, Shared& shared) {
  StepWords step(XG_STEP_CONTENT);
  step.flag(one.negated, XG_STEP_NEGATED)
      .flag(one.nocase, XG_STEP_NOCASE)
      .flag(one.ends, XG_STEP_ENDS)
      .flag(one.depth.has_value(), XG_STEP_DEPTH)
      .flag(one.distance.has_value(), XG_STEP_DISTANCE)
      .flag(one.within.has_value(), XG_STEP_WITHIN)
      .flag(one.tried_again, XG_STEP_TRIED_AGAIN)
      .word(1, shared.at(sig::bytes_as_words(one.bytes)))
      .word(2, one.bytes.size())
      .amount(3, one.offset, XG_STEP_VAR_OFFSET);
  if (one.depth) step.amount(4, *one.depth, XG_STEP_VAR_DEPTH);
  if (one.distance) step.amount(5, *one.distance, XG_STEP_VAR_DISTANCE);
  if (one.within) step.amount(6, *one.within, XG_STEP_VAR_WITHIN);
  return step;
}

static_assert(sig::kMostPositions == XG_REGEX_MOST_WORDS * 32);

// Of a regular expression, its automaton. Bytes that the same positions have are of one set.
std::vector<u32> automaton_of(const sig::Regex& regex) {
  const std::size_t count = regex.positions.size();
  const auto words = static_cast<u32>((count + 31) / 32);
  std::vector<u32> made{words | (regex.empty ? XG_REGEX_EMPTY : 0) |
                        (regex.empty_at_end ? XG_REGEX_EMPTY_AT_END : 0) | static_cast<u32>(count) << 16};
  std::vector<sig::Positions> sets;
  for (std::size_t byte = 0; byte < 256; byte++) {
    sig::Positions have;
    for (std::size_t i = 0; i < count; i++) have[i] = regex.sets[regex.positions[i]][byte];
    const auto known = std::find(sets.begin(), sets.end(), have);
    if (byte % 4 == 0) made.push_back(0);
    made.back() |= static_cast<u32>(known - sets.begin()) << byte % 4 * 8;
    if (known == sets.end()) sets.push_back(have);
  }
  const auto row = [&](const sig::Positions& some) {
    for (u32 w = 0; w < words; w++)
      made.push_back(static_cast<u32>((some >> w * 32 & sig::Positions(~u32{0})).to_ulong()));
  };
  sig::Positions next, self, branches;
  for (std::size_t i = 0; i < count; i++) {
    next[i] = i + 1 < count && regex.follow[i][i + 1];
    self[i] = regex.follow[i][i];
    branches[i] = sig::branches(regex, i);
  }
  for (const sig::Positions& some :
       {regex.first, regex.again, regex.last, regex.last_at_end, next, self, branches})
    row(some);
  for (const sig::Positions& some : regex.follow) row(some);
  for (const sig::Positions& some : sets) row(some);
  return made;
}

StepWords words_of(const sig::Step& step, Shared& shared) {
  return std::visit(sig::Visitor{[&](const sig::Content& one) { return words_of(one, shared); },
                                 [](const sig::ByteTest& one) {
                                   return StepWords(XG_STEP_TEST)
                                       .flag(one.negated, XG_STEP_NEGATED)
                                       .argument(one.op)
                                       .number(one.number)
                                       .mask(one.mask)
                                       .value(one.value);
                                 },
                                 [](const sig::ByteJump& one) {
                                   return StepWords(XG_STEP_JUMP)
                                       .flag(one.align, XG_STEP_ALIGN)
                                       .argument(one.from)
                                       .number(one.number)
                                       .word(3, one.multiplier)
                                       .value({one.post_offset, {}});
                                 },
                                 [](const sig::ByteExtract& one) {
                                   return StepWords(XG_STEP_EXTRACT)
                                       .number(one.number)
                                       .word(3, one.multiplier)
                                       .value({one.align, {}})
                                       .word(6, one.variable);
                                 },
                                 [](const sig::ByteMath& one) {
                                   return StepWords(XG_STEP_MATH)
                                       .argument(one.op)
                                       .number(one.number)
                                       .mask(one.mask)
                                       .value(one.right)
                                       .word(6, one.variable);
                                 },
                                 [](const sig::DataAt& one) {
                                   return StepWords(XG_STEP_DATA_AT)
                                       .flag(one.negated, XG_STEP_NEGATED)
                                       .flag(one.relative, XG_STEP_RELATIVE)
                                       .value(one.offset);
                                 },
                                 [&](const sig::Regex& one) {
                                   return StepWords(XG_STEP_REGEX)
                                       .flag(one.negated, XG_STEP_NEGATED)
                                       .flag(one.relative, XG_STEP_RELATIVE)
                                       .word(1, shared.at(automaton_of(one)));
                                 },
                                 // check() refuses it.
                                 [](const sig::Expression&) { return StepWords(XG_STEP_DATA_AT); }},
                    step);
}

struct PlacedSteps {
  u32 at, count;
};
// fast: the content that has the rule's fast pattern, from that one's byte `at` on.
PlacedSteps place(const std::vector<sig::Step>& steps, Shared& shared, Compiled& to,
                  const sig::Content* fast = nullptr, u32 at_byte = 0) {
  std::vector<StepWords> words;
  words.reserve(steps.size());
  for (const sig::Step& step : steps) {
    words.push_back(words_of(step, shared));
    if (fast != nullptr && std::get_if<sig::Content>(&step) == fast)
      words.back().flag(true, XG_STEP_FAST).word(7, at_byte);
  }
  const u32 at = to.here();
  for (const StepWords& step : words) {
    const u32 kind = XG_STEP_KIND(step.words()[0]);
    if (kind == XG_STEP_CONTENT || kind == XG_STEP_REGEX) to.points(to.here() + 1);
    to.image.insert(to.image.end(), step.words().begin(), step.words().end());
  }
  return {at, static_cast<u32>(words.size())};
}

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
u32 place_asks(const sig::Dns& dns, Shared& shared, const Sets& placed, Compiled& to) {
  std::vector<PlacedSteps> steps;
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
  return flags;
}

// Which patterns have which numbers.
u32 version_of(const std::map<Pattern, std::vector<u32>>& patterns, const std::array<u64, 2>& key) {
  std::string all;
  for (const auto& [pattern, found] : patterns)
    all += fmt::format("{}{} {} {}", pattern.nocase ? 'n' : '-', pattern.in, pattern.bytes.size(),
                       pattern.bytes);
  const xg_hashed hash = hash_of(all, key);
  return static_cast<u32>(hash.low);
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
  image[body + XG_STREAMS_WINDOW] = stage.inspect.window | (stage.inspect.http ? XG_STREAMS_READS_HTTP : 0);
  image[body + XG_STREAMS_RULES] = at;
  to.points(body + XG_STREAMS_RULES);
  image[body + XG_STREAMS_DEPTH] = stage.inspect.depth;
  ticks(XG_STREAMS_IDLE, stage.inspect.idle_ms);
  ticks(XG_STREAMS_CLOSED, kClosedMs);
  image[body + XG_STREAMS_MIDSTREAM] = stage.inspect.midstream ? 1 : 0;
  image[body + XG_STREAMS_ON_GAP] = action_word(stage.on_gap, 0, count + 3);
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

// What reading requests takes, of the part that follows streams.
void append_http(u32 body, Compiled& to) {
  to.point_here(body + XG_STREAMS_HTTP_NAMED);
  const auto put = [&](std::string_view word) {
    const auto words = compared(word);
    to.image.insert(to.image.end(), words.begin(), words.end());
  };
  std::for_each(kNamedHeaders.begin(), kNamedHeaders.end(), put);
  std::for_each(std::begin(sig::kHttpMethods), std::end(sig::kHttpMethods), put);
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
      return refuse("its rule {}:{} asks of requests by HTTP, which \"http\" of \"inspect\" is to read",
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
  Shared shared(to);
  Sets sets(to);
  std::map<std::vector<u32>, u32> addresses;
  std::map<Pattern, std::vector<u32>> patterns;
  std::vector<u32> always, hello_rules, http_rules;
  bool asks_hellos = false;
  u32 parts = 0;            // of requests, that are asked for
  std::size_t longest = 0;  // of the patterns in streams
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
    const PlacedSteps steps = place(rule.payload, shared, to, in_payload ? fast : nullptr,
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
      (rule.http ? http_rules : hello_rules).push_back(i);
      continue;
    }
    patterns[*pattern].push_back(i);
    if (pattern->in == static_cast<u32>(In::streams)) longest = std::max(longest, pattern->bytes.size());
  }

  image[at + XG_SIGNATURES_ALWAYS + 1] = static_cast<u32>(always.size());
  to.point_here(at + XG_SIGNATURES_ALWAYS);
  image.insert(image.end(), always.begin(), always.end());

  std::array<sig::AllWindows, kPlaces> windows;
  u32 searched = 0;  // parts of requests
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
    append_streams(stage, at, to);
    image[streams + XG_STREAMS_LONGEST] = static_cast<u32>(longest);
    image[streams + XG_STREAMS_VERSION] = version_of(patterns, to.hash_key);
    fullest = std::max({fullest, emit_windows(In::streams, streams + XG_STREAMS_WINDOWS),
                        emit_windows(In::server_names, streams + XG_STREAMS_NAME_WINDOWS)});
    image[streams + XG_STREAMS_HELLOS] = asks_hellos ? 1 : 0;
    image[streams + XG_STREAMS_HELLO_RULES + 1] = static_cast<u32>(hello_rules.size());
    to.point_here(streams + XG_STREAMS_HELLO_RULES);
    image.insert(image.end(), hello_rules.begin(), hello_rules.end());
    image[streams + XG_STREAMS_HTTP] = parts;
    image[streams + XG_STREAMS_HTTP_SEARCHED] = searched;
    to.point_here(streams + XG_STREAMS_HTTP_WINDOWS);
    const u32 each = to.here();
    image.resize(each + (searched != 0 ? sig::kHttpParts * XG_STREAMS_HTTP_WINDOW : 0), 0);
    for (u32 part = 0; part < sig::kHttpParts; part++)
      if ((searched >> part & 1) != 0)
        fullest = std::max(fullest, emit_windows(In::part, each + part * XG_STREAMS_HTTP_WINDOW, part));
    image[streams + XG_STREAMS_HTTP_RULES + 1] = static_cast<u32>(http_rules.size());
    to.point_here(streams + XG_STREAMS_HTTP_RULES);
    image.insert(image.end(), http_rules.begin(), http_rules.end());
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
                                                                      {"dropped", XG_STREAM_DROP}}};
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
    default:
      return " limit";
  }
}

}  // namespace xdpgpu::gpu
