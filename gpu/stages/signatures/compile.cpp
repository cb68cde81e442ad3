// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "gpu/stages/compilers.hpp"
#include "gpu/stages/signatures/device.h"
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
// All that an inspection finds has its words.
static_assert(XG_SIGNATURES_FOUND_RULES == XG_INSPECTION_ONES && XG_MAX_ALERTS == XG_INSPECTION_ONES_COUNT &&
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

std::vector<u32> bytes_as_words(std::string_view bytes) {
  std::vector<u32> words((bytes.size() + 3) / 4, 0);
  for (std::size_t i = 0; i < bytes.size(); i++) words[i / 4] |= u32{static_cast<u8>(bytes[i])} << i % 4 * 8;
  return words;
}

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
  return std::visit(sig::Visitor{[&](const sig::FieldIs& one) -> std::vector<u32> {
                                   return {word(XG_CONDITION_FIELD_IS, one.field) |
                                               (one.negated ? XG_CONDITION_NEGATED : 0),
                                           one.values.first, one.values.last};
                                 },
                                 [&](const sig::TcpFlagsAre& one) -> std::vector<u32> {
                                   return {word(XG_CONDITION_TCP_FLAGS, one.mode),
                                           one.flags | u32{one.mask} << 8,
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
                                 }},
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
      .word(1, shared.at(bytes_as_words(one.bytes)))
      .word(2, one.bytes.size())
      .amount(3, one.offset, XG_STEP_VAR_OFFSET);
  if (one.depth) step.amount(4, *one.depth, XG_STEP_VAR_DEPTH);
  if (one.distance) step.amount(5, *one.distance, XG_STEP_VAR_DISTANCE);
  if (one.within) step.amount(6, *one.within, XG_STEP_VAR_WITHIN);
  return step;
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
                                 }},
                    step);
}

struct PlacedSteps {
  u32 at, count;
};
PlacedSteps place(const std::vector<sig::Step>& steps, Shared& shared, Compiled& to) {
  std::vector<StepWords> words;
  words.reserve(steps.size());
  for (const sig::Step& step : steps) words.push_back(words_of(step, shared));
  const u32 at = to.here();
  for (const StepWords& step : words) {
    if (XG_STEP_KIND(step.words()[0]) == XG_STEP_CONTENT) to.points(to.here() + 1);
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

// -> what is asked of a message
u32 place(const sig::Dns& dns, Shared& shared, Compiled& to) {
  std::vector<PlacedSteps> steps;
  std::vector<u32> sizes;
  for (const sig::NameIs& name : dns.names) {
    steps.push_back(place(name.steps, shared, to));
    sizes.push_back(shared.at(words_of(name.sizes)));
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
    to.image.insert(
        to.image.end(),
        {sizes[i], static_cast<u32>(name.sizes.size()) | (name.dot_prefix ? XG_NAME_DOT_PREFIX : 0),
         steps[i].at, steps[i].count});
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

struct Pattern {
  std::string bytes;  // in lower case where nocase
  bool nocase = false, in_names = false;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const Pattern&) const = default;
};

std::string lower(std::string bytes) {
  for (char& c : bytes)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return bytes;
}

// How often a byte stands in what passes by: more often is more.
u32 commonness(u8 byte) {
  if (byte == 0 || byte == ' ') return 8;
  if (byte >= 'a' && byte <= 'z')
    return std::string_view("etaoinsrhl").find(static_cast<char>(byte)) != std::string_view::npos ? 6 : 4;
  if (byte >= '0' && byte <= '9') return 5;
  if (byte == '/' || byte == '.' || byte == '-' || byte == '\r' || byte == '\n' || byte == ':' ||
      byte == 0xff)
    return 5;
  return byte > 0x20 && byte < 0x7f ? 3 : 2;
}

// Where the rarest window of so many bytes stands in a pattern.
std::size_t rarest(std::string_view bytes, std::size_t size, const std::map<u32, u32>& taken) {
  std::size_t best = 0;
  u32 least = ~0u;
  for (std::size_t at = 0; at + size <= std::min<std::size_t>(bytes.size(), 255); at++) {
    u32 rank = 0, word = 0;
    for (std::size_t i = 0; i < size; i++) {
      rank += commonness(static_cast<u8>(bytes[at + i]));
      word |= u32{static_cast<u8>(bytes[at + i])} << i * 8;
    }
    if (const auto found = taken.find(word); found != taken.end()) rank += std::min(found->second, 8u);
    if (rank < least) {
      least = rank;
      best = at;
    }
  }
  return best;
}

u32 hash_of(u32 window) { return window * 0x9e3779b1u; }

// at: the body's words of these windows, which say how many bits a bucket's number has. window: of an entry.
// Returns how many entries the fullest bucket has: so many patterns are compared at each place of a packet
// that is made for it.
template <class Entry, class Window>
u32 emit_buckets(std::vector<Entry>& entries, Window window, u32 at, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 bits = image[at + XG_WINDOW_BUCKET_BITS];
  const auto bucket = [&](const Entry& entry) { return hash_of(window(entry)) >> (32 - bits); };
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Entry& a, const Entry& b) { return bucket(a) < bucket(b); });
  const u32 buckets = to.here(), first = buckets + (1u << bits) + 1;
  image[at + XG_WINDOW_BUCKETS] = buckets;
  to.points(buckets, (1u << bits) + 1);
  std::size_t next = 0, fullest = 0;
  for (u32 i = 0; i <= 1u << bits; i++) {
    const std::size_t before = next;
    while (next < entries.size() && bucket(entries[next]) < i) next++;
    fullest = std::max(fullest, next - before);
    image.push_back(first + static_cast<u32>(next * std::tuple_size_v<Entry>));
  }
  for (const Entry& entry : entries) image.insert(image.end(), entry.begin(), entry.end());
  return static_cast<u32>(fullest);
}

// The windows of one length: its filter and its buckets.
class Windows {
 public:
  explicit Windows(std::size_t size) : size_(size) {}
  // bytes: in lower case.
  void add(std::string_view bytes, u32 number) {
    const std::size_t at = rarest(bytes, size_, taken_);
    const u32 word = bytes_as_words(bytes.substr(at, size_))[0];
    taken_[word]++;
    entries_.push_back({word, number | static_cast<u32>(at) << 24});
  }
  // at: the body's words of it. Returns how many entries the fullest bucket has: so many patterns are
  // compared at each place of a packet that is made for it.
  u32 emit(u32 at, Compiled& to) {
    to.points(at + XG_WINDOW_FILTER);
    to.points(at + XG_WINDOW_BUCKETS);
    if (entries_.empty()) return 0;
    const auto count = static_cast<u32>(entries_.size());
    const u32 bucket_bits = std::clamp<u32>(static_cast<u32>(std::bit_width(count)), 1, 20);
    const u32 filter_bits = std::clamp<u32>(bucket_bits + 6, 10, 22);
    std::vector<u32>& image = to.image;
    image[at + XG_WINDOW_FILTER_BITS] = filter_bits;
    image[at + XG_WINDOW_BUCKET_BITS] = bucket_bits;
    image[at + XG_WINDOW_FILTER] = to.here();
    image.resize(image.size() + (std::size_t{1} << filter_bits) / 32, 0);
    for (const auto& entry : entries_) {
      const u32 place = hash_of(entry[0]) >> (32 - filter_bits);
      image[image[at + XG_WINDOW_FILTER] + place / 32] |= 1u << place % 32;
    }
    return emit_buckets(
        entries_, [](const Entry& entry) { return entry[0]; }, at, to);
  }

 private:
  using Entry = std::array<u32, XG_SIGNATURES_ENTRY>;

  std::size_t size_;
  std::map<u32, u32> taken_;  // windows, and how often
  std::vector<Entry> entries_;
};

// As so much of what passes by has it, in lower case.
constexpr std::string_view kUsualText =
    "get / http/1.1\r\nhost: www.com\r\nuser-agent: mozilla/5.0 (windows nt 10.0; win64; x64) "
    "applewebkit/537.36 (khtml, like gecko) chrome/ safari/537.36 firefox/ (x11; linux x86_64; rv: "
    "(macintosh; "
    "intel mac os x (compatible; msie \r\naccept: text/html,application/xhtml+xml,application/xml;q=0.9,"
    "image/webp,*/*;q=0.8\r\naccept-language: en-us,en;q=0.5\r\naccept-encoding: gzip, deflate, br\r\n"
    "referer: https://www.\r\ncookie: connection: keep-alive\r\n\r\ncontent-type: "
    "application/x-www-form-urlencoded\r\ncontent-length: cache-control: no-cache\r\npost / http/1.0 200 "
    "ok\r\n"
    "server: apache\r\ndate: .html .php .asp .js .png";

// Windows of three bytes, for a search of many places at a time.
class WideWindows {
 public:
  // bytes: in lower case, three at least.
  void add(std::string_view bytes, u32 number) {
    const std::size_t at = best_place(bytes);
    const u32 window = window_at(bytes, at);
    taken_[window]++;
    const std::size_t more = more_place(bytes, at);
    entries_.push_back({window | static_cast<u32>(more) << 24, number | static_cast<u32>(at) << 24,
                        more == XG_WIDE_NO_MORE ? 0 : bytes_as_words(bytes.substr(more, 4))[0]});
    const auto bit = [&](std::size_t place, u32 first, u32 mask) {
      if (place >= bytes.size()) return ((2u << mask) - 1) << (31 - first - mask);
      return kFirstBit >> (first + (static_cast<u8>(bytes[place]) & mask));
    };
    behind_.push_back({window, bit(at + kBytes, XG_WIDE_BEHIND, XG_WIDE_BEHIND_MASK) |
                                   bit(at + kBytes + 1, XG_WIDE_SECOND, XG_WIDE_SECOND_MASK)});
  }
  // at: the body's words of it.
  void emit(u32 at, Compiled& to) {
    to.points(at + XG_WINDOW_FILTER);
    to.points(at + XG_WINDOW_BUCKETS);
    if (entries_.empty()) return;
    const u32 bits = std::clamp<u32>(static_cast<u32>(std::bit_width(entries_.size())), 1, XG_WIDE_MOST_BITS);
    const u32 words = to.here();
    to.image[at + XG_WINDOW_FILTER] = words;
    to.image[at + XG_WINDOW_FILTER_BITS] = to.image[at + XG_WINDOW_BUCKET_BITS] = bits;
    to.image.resize(words + (std::size_t{1} << bits), 0);
    for (const auto& [window, behind] : behind_) {
      const u32 hash = hash_of(window);
      to.image[words + (hash >> (32 - bits))] |= behind | kFirstBit >> XG_WIDE_HASH(hash, bits);
    }
    const u32 fullest = emit_buckets(
        entries_, [](const Entry& entry) { return entry[0] & 0xffffff; }, at, to);
    if (fullest > kMostAlike) to.image[at + XG_WINDOW_FILTER_BITS] = XG_WIDE_FULL;
  }

 private:
  using Entry = std::array<u32, XG_WIDE_ENTRY>;
  static constexpr std::size_t kBytes = 3, kMost = 5;  // of a window, and with those that have bits
  // What a place is the worse for, as commonness() has it: if all of it is usual text; for each byte that is
  // missing behind it; if so many patterns have its window.
  static constexpr u32 kUsual = 32, kNothing = 12, kMany = 16;
  static constexpr u32 kFirstBit = 0x80000000u;

  // Where it and what is behind it are rarest, of places that not many other patterns have.
  std::size_t best_place(std::string_view bytes) const {
    std::size_t best = 0;
    u32 least = ~0u;
    for (std::size_t at = 0; at + kBytes <= std::min<std::size_t>(bytes.size(), 255); at++) {
      const std::string_view here = bytes.substr(at, kMost);
      u32 rank = static_cast<u32>(kMost - here.size()) * kNothing;
      for (const char c : here) rank += commonness(static_cast<u8>(c));
      if (usual().contains(std::string(here))) rank += kUsual;
      if (const auto taken = taken_.find(window_at(bytes, at));
          taken != taken_.end() && taken->second >= kMany)
        rank += kUsual + taken->second;
      if (rank >= least) continue;
      least = rank;
      best = at;
    }
    return best;
  }
  static u32 window_at(std::string_view bytes, std::size_t at) {
    return bytes_as_words(bytes.substr(at, kBytes))[0];
  }
  // Of its first four bytes and the last ones, those that say more than the window and what is behind it.
  static std::size_t more_place(std::string_view bytes, std::size_t at) {
    if (bytes.size() == kBytes) return XG_WIDE_NO_MORE;
    const std::size_t last = std::min<std::size_t>(bytes.size() - 4, XG_WIDE_NO_MORE - 1);
    return last > at ? last : 0;
  }
  static const std::set<std::string>& usual() {
    static const auto pieces = [] {
      std::set<std::string> all;
      for (std::size_t at = 0; at + kMost <= kUsualText.size(); at++)
        all.emplace(kUsualText.substr(at, kMost));
      return all;
    }();
    return pieces;
  }

  std::map<u32, u32> taken_;  // windows, and how often
  std::vector<Entry> entries_;
  std::vector<std::array<u32, 2>> behind_;  // the window, and bits of its filter's word
};

// Patterns of two bytes, for the same, in eight groups. A group lets all combinations of its patterns' half
// bytes through, so each is to be in the group that lets through least more by it.
class Halves {
 public:
  void add(std::string_view bytes) { pairs_.insert({static_cast<u8>(bytes[0]), static_cast<u8>(bytes[1])}); }
  void emit(u32 at, Compiled& to) const {
    if (pairs_.empty()) return;
    const Groups groups = grouped();
    to.point_here(at);
    for (std::size_t half = 0; half < XG_HALVES; half++) {
      std::string bytes(16, '\0');
      for (u32 i = 0; i < 16; i++)
        for (u32 g = 0; g < groups.size(); g++)
          if (groups[g].has(half, i)) bytes[i] = static_cast<char>(bytes[i] | 1 << g);
      const auto words = bytes_as_words(bytes);
      to.image.insert(to.image.end(), words.begin(), words.end());
    }
  }

 private:
  using Pair = std::array<u8, 2>;
  static constexpr std::size_t kMostCompared = 256;
  static constexpr u32 kRounds = 4;

  class Group {
   public:
    void add(const Pair& pair, int times = 1) {
      for (std::size_t half = 0; half < XG_HALVES; half++) how_many_[half][value(pair, half)] += times;
    }
    bool has(std::size_t half, u32 value) const { return how_many_[half][value] != 0; }
    // How much of text, and of any bytes, it lets through.
    u64 passing() const {
      std::array<u64, 2> of_text{}, of_any{};
      for (std::size_t i = 0; i < 2; i++)
        for (u32 byte = 0; byte < 256; byte++)
          if (has(i * 2, byte & 15) && has(i * 2 + 1, byte >> 4)) {
            if (byte < 'A' || byte > 'Z') of_text[i] += 1u << commonness(static_cast<u8>(byte));
            of_any[i] += kAny;
          }
      return of_text[0] * of_text[1] + of_any[0] * of_any[1];
    }

   private:
    static constexpr u64 kAny = 12;  // of a text's byte, on average
    static u32 value(const Pair& pair, std::size_t half) { return pair[half / 2] >> half % 2 * 4 & 15; }
    std::array<std::array<int, 16>, XG_HALVES> how_many_{};
  };
  using Groups = std::array<Group, 8>;

  static std::size_t best_for(const Pair& pair, const Groups& groups) {
    const auto more = [&](const Group& group) {
      Group with = group;
      with.add(pair);
      return with.passing() - group.passing();
    };
    std::array<u64, 8> of{};
    std::transform(groups.begin(), groups.end(), of.begin(), more);
    return static_cast<std::size_t>(std::min_element(of.begin(), of.end()) - of.begin());
  }
  Groups grouped() const {
    Groups groups;
    const bool few = pairs_.size() <= kMostCompared;
    std::vector<std::size_t> group_of;
    for (const Pair& pair : pairs_) {
      group_of.push_back(few ? best_for(pair, groups) : pair[0] % groups.size());
      groups[group_of.back()].add(pair);
    }
    // With all others in their places some are better off elsewhere.
    for (u32 round = 0; round < kRounds && few; round++) {
      std::size_t i = 0;
      for (const Pair& pair : pairs_) {
        groups[group_of[i]].add(pair, -1);
        group_of[i] = best_for(pair, groups);
        groups[group_of[i++]].add(pair);
      }
    }
    return groups;
  }

  std::set<Pair> pairs_;
};

// The windows of one byte, for the same.
class Singles {
 public:
  void add(u8 byte) {
    char& bits = bytes_[(byte >> 7) * 16 + (byte & 15)];
    bits = static_cast<char>(bits | 1 << (byte >> 4 & 7));
    used_ = true;
  }
  void emit(u32 at, Compiled& to) const {
    if (!used_) return;
    to.point_here(at);
    const auto words = bytes_as_words(bytes_);
    to.image.insert(to.image.end(), words.begin(), words.end());
  }

 private:
  std::string bytes_ = std::string(32, '\0');
  bool used_ = false;
};

// All windows of payloads, or of names.
class AllWindows {
 public:
  void add(const Pattern& pattern, u32 number) {
    const std::string bytes = lower(pattern.bytes);
    const std::size_t size = bytes.size();
    (size >= 4 ? fours_ : size >= 2 ? twos_ : ones_).add(bytes, number);
    if (size >= 3)
      wide_.add(bytes, number);
    else if (size == 2)
      halves_.add(bytes);
    else
      singles_.add(static_cast<u8>(bytes[0]));
  }
  // at: the body's words of them. Returns what emit_buckets() does of those of which there are too many.
  u32 emit(u32 at, Compiled& to) {
    const u32 fullest = std::max({ones_.emit(at, to), twos_.emit(at + XG_SIGNATURES_WINDOW, to),
                                  fours_.emit(at + 2 * XG_SIGNATURES_WINDOW, to)});
    wide_.emit(at + XG_WINDOWS_WIDE, to);
    halves_.emit(at + XG_WINDOWS_HALVES, to);
    singles_.emit(at + XG_WINDOWS_SINGLE, to);
    return fullest;
  }

 private:
  Windows ones_{1}, twos_{2}, fours_{4};
  WideWindows wide_;
  Halves halves_;
  Singles singles_;
};

std::optional<Pattern> pattern_of(const sig::Signature& rule) {
  const sig::Content* const content = sig::found_by(rule);
  if (content == nullptr) return std::nullopt;
  return Pattern{content->bytes.substr(rule.fast_pattern->first, rule.fast_pattern->length), content->nocase,
                 rule.fast_pattern->buffer != 0};
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
  return flags;
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
  if (!std::is_sorted(rules.begin(), rules.end(),
                      [](const auto& a, const auto& b) { return turn_of(a.action) < turn_of(b.action); }))
    return refuse(
        "its rules are not in order: those that pass come first, then those that drop, those that reject");
  for (const sig::Signature& rule : rules)
    if (const auto why = sig::beyond_bounds(rule))
      return refuse("its rule {}:{} {}", rule.gid, rule.sid, *why);
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
  std::map<std::vector<u32>, u32> addresses;
  std::map<Pattern, std::vector<u32>> patterns;
  std::vector<u32> always;
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
    const PlacedSteps steps = place(rule.payload, shared, to);
    point(XG_SIGNATURE_STEPS, steps.at);
    image[record + XG_SIGNATURE_STEPS + 1] = steps.count;
    if (rule.dns) point(XG_SIGNATURE_DNS, place(*rule.dns, shared, to));
    if (const auto pattern = pattern_of(rule))
      patterns[*pattern].push_back(i);
    else
      always.push_back(i);
  }

  image[at + XG_SIGNATURES_ALWAYS + 1] = static_cast<u32>(always.size());
  to.point_here(at + XG_SIGNATURES_ALWAYS);
  image.insert(image.end(), always.begin(), always.end());

  // Of payloads, and of names.
  std::array<AllWindows, 2> windows;
  to.point_here(at + XG_SIGNATURES_PATTERNS);
  const u32 first = to.here();
  image.resize(first + patterns.size() * XG_SIGNATURES_PATTERN, 0);
  u32 number = 0;
  for (const auto& [pattern, found] : patterns) {
    const std::size_t size = pattern.bytes.size();
    windows[pattern.in_names ? 1 : 0].add(pattern, number);
    const u32 record = first + number++ * XG_SIGNATURES_PATTERN;
    image[record + XG_PATTERN_BYTES] = shared.at(bytes_as_words(pattern.bytes));
    to.points(record + XG_PATTERN_BYTES);
    image[record + XG_PATTERN_SIZE] = static_cast<u32>(size) | (pattern.nocase ? XG_PATTERN_NOCASE : 0);
    to.point_here(record + XG_PATTERN_RULES);
    image[record + XG_PATTERN_RULES + 1] = static_cast<u32>(found.size());
    image.insert(image.end(), found.begin(), found.end());
  }
  const u32 fullest = std::max(windows[0].emit(at + XG_SIGNATURES_WINDOWS, to),
                               windows[1].emit(at + XG_SIGNATURES_NAME_WINDOWS, to));
  if (fullest > kMostAlike)
    return refuse(
        "{} of its rules' fast patterns have the same bytes in them, or are taken for such, {} may: a packet "
        "full of these bytes would have all of them compared everywhere; name others with fast_pattern, or "
        "use fewer",
        fullest, kMostAlike);
  if (image.size() > kImageMaxWords)
    return refuse("its {} rules need {} MiB of a device's memory, {} are possible: use fewer", count,
                  image.size() >> 18, kImageMaxWords >> 18);
  return Placed{at};
}

u32 payload_bytes(const SignaturesSettings&) { return XG_PACKET_MAX; }

bool drops(const SignaturesSettings& stage) {
  return stage.limit == Action::drop ||
         std::any_of(stage.rules.all().begin(), stage.rules.all().end(),
                     [](const sig::Signature& rule) { return action_of(rule) == XG_SIGNATURE_DROP; });
}

std::vector<std::string> notes(const SignaturesSettings& stage, const StagePlace& place) {
  std::vector<std::string> notes;
  for (const std::string& note : stage.rules.notes)
    notes.push_back(fmt::format("signatures{}: {}", place.where(), note));
  return notes;
}

std::string describe(const SignaturesSettings& stage, u32 rule, const xg_result*) {
  const auto text = [](const auto& one) { return fmt::format(" rule {}:{}", one.gid, one.sid); };
  if (rule == 0) return "";
  if (stage.rules.heads && rule <= stage.rules.heads->size()) return text((*stage.rules.heads)[rule - 1]);
  if (rule <= stage.rules.all().size()) return text(stage.rules.all()[rule - 1]);
  return " limit";
}

}  // namespace xdpgpu::gpu
