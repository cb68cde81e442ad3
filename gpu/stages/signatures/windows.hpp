// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/windows.hpp: the tables in the image by which fast patterns are found in payloads and
// names (layout.h). Each pattern is known by a window, the rarest of its own; those of one, two and four
// bytes are every device's, and those of three bytes, with the tables for shorter patterns, the search's that
// looks at many places at a time (search_avx2.hpp).
//
//   AllWindows windows;
//   windows.add(pattern, number);        // of each pattern
//   windows.emit(at, to);                // at: the words of XG_SIGNATURES_WINDOWS
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "gpu/stages/compilers.hpp"
#include "gpu/stages/signatures/layout.h"

namespace xdpgpu::gpu::signatures {

inline std::vector<u32> bytes_as_words(std::string_view bytes) {
  std::vector<u32> words((bytes.size() + 3) / 4, 0);
  for (std::size_t i = 0; i < bytes.size(); i++) words[i / 4] |= u32{static_cast<u8>(bytes[i])} << i % 4 * 8;
  return words;
}

inline std::string lower(std::string bytes) {
  for (char& c : bytes)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  return bytes;
}

// How often a byte stands in what passes by: more often is more.
inline u32 commonness(u8 byte) {
  if (byte == 0 || byte == ' ') return 8;
  if (byte >= 'a' && byte <= 'z')
    return std::string_view("etaoinsrhl").find(static_cast<char>(byte)) != std::string_view::npos ? 6 : 4;
  if (byte >= '0' && byte <= '9') return 5;
  if (byte == '/' || byte == '.' || byte == '-' || byte == '\r' || byte == '\n' || byte == ':' ||
      byte == 0xff)
    return 5;
  return byte > 0x20 && byte < 0x7f ? 3 : 2;
}

// As so much of what passes by has it, in lower case.
inline constexpr std::string_view kUsualText =
    "get / http/1.1\r\nhost: www.com\r\nuser-agent: mozilla/5.0 (windows nt 10.0; win64; x64) "
    "applewebkit/537.36 (khtml, like gecko) chrome/ safari/537.36 firefox/ (x11; linux x86_64; rv: "
    "(macintosh; "
    "intel mac os x (compatible; msie \r\naccept: text/html,application/xhtml+xml,application/xml;q=0.9,"
    "image/webp,*/*;q=0.8\r\naccept-language: en-us,en;q=0.5\r\naccept-encoding: gzip, deflate, br\r\n"
    "referer: https://www.\r\ncookie: connection: keep-alive\r\n\r\ncontent-type: "
    "application/x-www-form-urlencoded\r\ncontent-length: cache-control: no-cache\r\npost / http/1.0 200 "
    "ok\r\n"
    "server: apache\r\ndate: .html .php .asp .js .png";

// What a window is the worse for, as commonness() has it, if all of it is usual text.
inline constexpr u32 kUsual = 32;

// Where the rarest window of so many bytes stands in a pattern.
inline std::size_t rarest(std::string_view bytes, std::size_t size, const std::map<u32, u32>& taken) {
  std::size_t best = 0;
  u32 least = ~0u;
  for (std::size_t at = 0; at + size <= std::min<std::size_t>(bytes.size(), 255); at++) {
    u32 rank = 0, word = 0;
    for (std::size_t i = 0; i < size; i++) {
      rank += commonness(static_cast<u8>(bytes[at + i]));
      word |= u32{static_cast<u8>(bytes[at + i])} << i * 8;
    }
    if (const auto found = taken.find(word); found != taken.end()) rank += std::min(found->second, 8u);
    if (kUsualText.find(bytes.substr(at, size)) != std::string_view::npos) rank += kUsual;
    if (rank < least) {
      least = rank;
      best = at;
    }
  }
  return best;
}

inline u32 hash_of(u32 window) { return window * 0x9e3779b1u; }

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
  // What a place is the worse for, as commonness() has it: for each byte that is missing behind it; if so
  // many patterns have its window.
  static constexpr u32 kNothing = 12, kMany = 16;
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
  void add(const std::string& pattern, u32 number) {
    const std::string bytes = lower(pattern);
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

}  // namespace xdpgpu::gpu::signatures
