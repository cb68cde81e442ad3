// SPDX-License-Identifier: MIT
//
// The search of the stage `signatures`, portable and by AVX2, against a plain one: random and adversarial
// payloads that end at a page that must not be read, in one buffer and in several, at all alignments.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "gpu/pipelines.hpp"
#include "gpu/stages/pipeline.h"

namespace xdpgpu::gpu {
namespace {

namespace sig = signatures;

constexpr u32 kPage = 4096, kMostBuffers = 4, kLongest = 3000;

class Random {
 public:
  explicit Random(u64 seed) : engine_(seed) {}
  u32 below(u32 bound) { return static_cast<u32>(engine_() % bound); }
  u32 between(u32 first, u32 last) { return first + below(last - first + 1); }
  bool one_in(u32 n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

struct Pattern {
  std::string bytes;  // in lower case where nocase
  bool nocase = false;

  bool stands_at(const std::string& text, std::size_t at) const {
    return text.size() - at >= bytes.size() &&
           std::equal(bytes.begin(), bytes.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                      [&](char wanted, char here) { return (nocase ? lower(here) : here) == wanted; });
  }
  bool operator<(const Pattern& other) const {
    return std::pair(bytes, nocase) < std::pair(other.bytes, other.nocase);
  }
};

// Two pages a buffer, and one behind that nobody may read.
class Buffers {
 public:
  Buffers() {
    memory_ =
        static_cast<u8*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    for (u32 i = 0; i < kMostBuffers; i++)
      mprotect(memory_ + u64{3} * i * kPage + u64{2} * kPage, kPage, PROT_NONE);
  }
  ~Buffers() { munmap(memory_, kBytes); }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // The packet in pieces, each at the end of its buffer but for `gap` bytes.
  xg_batch place(const std::string& packet, std::vector<u32> cuts, u32 gap) {
    cuts.push_back(static_cast<u32>(packet.size()));
    descriptors_.clear();
    u32 from = 0;
    for (const u32 to : cuts) {
      const u64 end = (3 * descriptors_.size() + 2) * kPage - gap, bytes = to - from;
      std::memcpy(memory_ + end - bytes, packet.data() + from, bytes);
      descriptors_.push_back({end - bytes, static_cast<u32>(bytes), XG_DESC_MORE});
      from = to;
    }
    descriptors_.back().flags = 0;
    xg_batch batch{};
    batch.frames.v = reinterpret_cast<xg_word*>(memory_);
    batch.frames_bytes = kBytes;
    batch.descriptors.v = descriptors_.data();
    batch.count = static_cast<u32>(descriptors_.size());
    return batch;
  }
  xg_payload_cursor cursor(const xg_batch& batch, u32 bytes) const {
    xg_payload_cursor c{};
    c.at = descriptors_[0].offset;
    c.bytes = descriptors_[0].length;
    c.second = descriptors_.size() > 1 ? 1 : 0;
    c.end = bytes;
    xg_payload_enter(batch, c.at, 0, c.bytes, c.second, c);
    return c;
  }

 private:
  static constexpr u64 kBytes = u64{3} * kPage * kMostBuffers;
  u8* memory_ = nullptr;
  std::vector<xg_descriptor> descriptors_;
};

std::vector<u32> random_cuts(Random& random, u32 bytes) {
  std::vector<u32> cuts;
  for (u32 i = random.below(kMostBuffers); i > 0 && bytes > 1; i--)
    cuts.push_back(random.between(1, bytes - 1));
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

struct Found {
  std::map<u32, u32> patterns;  // by their places in the stage's order: where each stands first
  bool over = false;
  bool operator==(const Found&) const = default;
};

class Search {
 public:
  explicit Search(const std::set<Pattern>& patterns) : patterns_(patterns.begin(), patterns.end()) {
    SignaturesSettings stage;
    std::vector<sig::Signature> rules;
    for (const Pattern& pattern : patterns_) {
      by_first_[static_cast<u8>(lower(pattern.bytes[0]))].push_back(static_cast<u32>(rules.size()));
      sig::Signature& rule = rules.emplace_back();
      rule.sid = static_cast<u32>(rules.size());
      sig::Content content;
      content.bytes = pattern.bytes;
      content.nocase = pattern.nocase;
      rule.payload.emplace_back(std::move(content));
      rule.fast_pattern = sig::FastPattern{0, 0, static_cast<u32>(pattern.bytes.size()), 0};
    }
    stage.rules.signatures = std::make_shared<const std::vector<sig::Signature>>(std::move(rules));
    auto compiled = Pipelines::compile({{"main", {stage}}});
    if (!compiled) throw std::runtime_error(compiled.error());
    pipelines_ = *std::move(compiled);
    const auto& image = pipelines_->image();
    body_ = image[image[image[XG_IMAGE_TABLE_AT]] + 1];
  }

  Found plainly(const std::string& text) const {
    Found found;
    for (std::size_t at = 0; at < text.size(); at++)
      for (const u32 i : by_first_[static_cast<u8>(lower(text[at]))])
        if (patterns_[i].stands_at(text, at)) found.patterns.emplace(i, at);
    return cut(found, found.patterns.size() > sig::kMostPatterns);
  }
  bool is_full() const {
    return pipelines_->image()[body_ + XG_SIGNATURES_WINDOWS + XG_WINDOWS_WIDE + XG_WINDOW_FILTER_BITS] ==
           XG_WIDE_FULL;
  }
  // In the packet's bytes from `first` to `end`. search: one of both.
  template <class Do>
  Found with(Do search, xg_batch batch, xg_payload_cursor c, u32 first, u32 end) const {
    batch.image.v = const_cast<xg_word*>(pipelines_->image().data());
    std::array<u32, XG_INSPECTION_WORDS> words{};
    const xg_state f{words.data()};
    xg_begin_inspection(f, 0, 0, 1);
    search(batch, body_, body_ + XG_SIGNATURES_WINDOWS, c, first, end, f);
    Found found;
    for (u32 i = 0; i < XG_SIGNATURES_SEEN; i++)
      if (const u32 seen = words[XG_SIGNATURES_FOUND_SEEN + i]; seen != 0)
        found.patterns.emplace(XG_SIGNATURES_SEEN_PATTERN(seen) - 1, XG_SIGNATURES_SEEN_AT(seen));
    return cut(found, words[XG_SIGNATURES_FOUND_OVER] != 0);
  }
  const std::vector<Pattern>& patterns() const { return patterns_; }

 private:
  // Behind the bound it does not count which ones were found.
  static Found cut(Found found, bool over) {
    if (over) found.patterns.clear();
    found.over = over;
    return found;
  }

  std::vector<Pattern> patterns_;
  std::array<std::vector<u32>, 256> by_first_;  // their numbers, by the first byte in lower case
  std::shared_ptr<const Pipelines> pipelines_;
  u32 body_ = 0;
};

constexpr auto kPortable = [](xg_batch b, u32 body, u32 windows, xg_payload_cursor c, u32 first, u32 end,
                              xg_state f) { xg_signatures_search(b, body, windows, c, first, end, f, 0, 1); };

class SignaturesSearch : public testing::Test {
 protected:
  // The packet's bytes from `first` on, in all ways.
  void check(const Search& search, const std::string& packet, u32 first, const std::vector<u32>& cuts,
             u32 gap) {
    const auto end = static_cast<u32>(packet.size());
    const Found right = search.plainly(packet.substr(first));
    const xg_batch batch = buffers_.place(packet, cuts, gap);
    const xg_payload_cursor c = buffers_.cursor(batch, end);
    const std::string where = "of " + std::to_string(packet.size()) + " bytes from " + std::to_string(first) +
                              " on, in " + std::to_string(cuts.size() + 1) + " buffers";
    EXPECT_EQ(search.with(kPortable, batch, c, first, end), right) << where;
    how_many_ += right.patterns.size();
    over_ += right.over ? 1 : 0;
#ifdef XG_AVX2
    if (__builtin_cpu_supports("avx2") != 0) {
      EXPECT_EQ(search.with(xg_signatures_search_avx2, batch, c, first, end), right) << where;
    }
#endif
  }

  Buffers buffers_;
  u64 how_many_ = 0, over_ = 0;
};

std::string any_bytes(Random& random, u32 count) {
  std::string bytes(count, 0);
  for (char& c : bytes) c = static_cast<char>(random.below(256));
  return bytes;
}
std::string some_of(Random& random, std::string_view letters, u32 count) {
  std::string bytes(count, 0);
  for (char& c : bytes) c = letters[random.below(static_cast<u32>(letters.size()))];
  return bytes;
}

Pattern pattern_of(Random& random, std::string bytes) {
  Pattern pattern{std::move(bytes), random.one_in(2)};
  if (pattern.nocase)
    std::transform(pattern.bytes.begin(), pattern.bytes.end(), pattern.bytes.begin(), lower);
  return pattern;
}

// Parts of patterns, whole ones, in other letters, and bytes between.
std::string made_of(Random& random, const std::vector<Pattern>& patterns, u32 bytes) {
  std::string text;
  while (text.size() < bytes) {
    std::string piece = patterns[random.below(static_cast<u32>(patterns.size()))].bytes;
    if (random.one_in(2)) piece.erase(random.one_in(2) ? 0 : piece.size() - 1, 1);
    for (char& c : piece)
      if (c >= 'a' && c <= 'z' && random.one_in(4)) c = static_cast<char>(c - ('a' - 'A'));
    text += piece;
    if (random.one_in(2)) text += any_bytes(random, random.below(8));
  }
  text.resize(bytes);
  return text;
}

TEST_F(SignaturesSearch, PayloadsOfAllLengths) {
  Random random(1);
  std::set<Pattern> patterns;
  for (u32 size = 1; size <= 40; size++)
    for (u32 i = 0; i < (size == 1 ? 3 : 12); i++)
      patterns.insert(pattern_of(
          random, random.one_in(2) ? any_bytes(random, size) : some_of(random, "abcXYZ/ .0", size)));
  const Search search(patterns);
  for (u32 bytes = 0; bytes <= kLongest; bytes += bytes < 200 ? 1 : random.between(1, 19)) {
    const std::string text =
        random.one_in(4) ? any_bytes(random, bytes) : made_of(random, search.patterns(), bytes);
    const u32 first = random.below(std::min(bytes, 64u) + 1);
    check(search, text, first, {}, random.below(8));
    check(search, text, first, {}, 0);
    check(search, text, first, random_cuts(random, bytes), random.below(2) * random.below(8));
  }
  EXPECT_FALSE(search.is_full());
  EXPECT_GT(how_many_, 1000u);
  EXPECT_GT(over_, 10u);
}

// A pattern of each length at each place in front of the end, and not quite there behind it.
TEST_F(SignaturesSearch, PatternsAtTheEnds) {
  Random random(2);
  for (u32 size = 1; size <= 9; size++)
    for (const bool nocase : {false, true}) {
      const Search search({{some_of(random, "abcxyz", size), nocase}});
      const std::string& pattern = search.patterns()[0].bytes;
      for (u32 bytes = size; bytes <= 100; bytes++)
        for (const u32 at : {0u, bytes - size, random.below(bytes - size + 1)}) {
          std::string text(bytes, '.');
          text.replace(at, size, pattern);
          if (random.one_in(2)) text[at] = static_cast<char>(text[at] - 32);
          check(search, text, 0, {}, 0);
          check(search, text, at, {}, at % 5);
          check(search, text.substr(0, bytes - 1), 0, {}, 0);
          if (bytes > 1) check(search, text, 0, {std::min(at + size / 2 + 1, bytes - 1)}, 0);
        }
    }
  EXPECT_GT(how_many_, 1000u);
}

// More short ones than are compared with each other when they are put in groups, all single bytes, and many
// of one window.
TEST_F(SignaturesSearch, MoreOfAKindThanAreUsual) {
  Random random(3);
  std::set<Pattern> pairs, singles, alike;
  while (pairs.size() < 2000) pairs.insert(pattern_of(random, any_bytes(random, random.between(2, 3))));
  for (u32 byte = 0; byte < 256; byte++) singles.insert({std::string(1, static_cast<char>(byte)), false});
  for (char c = 'a'; c <= 'z'; c++) singles.insert({std::string(1, c), true});
  while (alike.size() < 60)
    alike.insert(pattern_of(
        random, some_of(random, "ab", random.below(4)) + "~~~~~" + some_of(random, "ab", random.below(9))));
  for (const auto& patterns : {pairs, singles, alike}) {
    const Search search(patterns);
    for (u32 i = 0; i < 400; i++) {
      const u32 bytes = random.below(random.one_in(4) ? kLongest : 60);
      const std::string text = random.one_in(3)   ? any_bytes(random, bytes)
                               : random.one_in(2) ? some_of(random, "abAB~0", bytes)
                                                  : made_of(random, search.patterns(), bytes);
      check(search, text, 0, random_cuts(random, bytes), 0);
    }
  }
  EXPECT_GT(how_many_, 1000u);
  EXPECT_GT(over_, 100u);
}

// Their first three bytes are of one bucket, as nobody would choose them: more than are compared at one
// place.
TEST_F(SignaturesSearch, MoreInOneBucketThanAreCompared) {
  Random random(5);
  std::set<Pattern> patterns;
  for (u32 window = 0x616161; patterns.size() < 100; window++) {
    if (window * 0x9e3779b1u >> 25 != 77) continue;
    std::string bytes(4, static_cast<char>(random.below(256)));
    std::memcpy(bytes.data(), &window, 3);
    patterns.insert({bytes, false});
  }
  const Search search(patterns);
  EXPECT_TRUE(search.is_full());
  for (u32 i = 0; i < 100; i++)
    check(search, made_of(random, search.patterns(), 1 + random.below(200)), 0, {}, 0);
  EXPECT_GT(how_many_, 100u);
}

// One content of a rule: the same place, for the same work.
TEST_F(SignaturesSearch, FindsAContentForTheSameWork) {
#ifdef XG_AVX2
  if (__builtin_cpu_supports("avx2") == 0) GTEST_SKIP() << "this processor has no AVX2";
  Random random(4);
  u32 found = 0, far = 0;
  for (u32 i = 0; i < 60'000; i++) {
    const u32 bytes = random.one_in(3) ? random.between(1, 80) : random.between(1, kLongest);
    const u32 header = random.below(40);
    const std::string text = some_of(random, random.one_in(2) ? "aAb" : "abcdefgh", header + bytes);
    std::string content = some_of(random, random.one_in(2) ? "aAb" : "abcdefgh", random.between(1, 12));
    if (random.one_in(2) && bytes > content.size())
      content = text.substr(header + random.below(bytes - static_cast<u32>(content.size())), content.size());
    const bool nocase = random.one_in(2);
    if (nocase) std::transform(content.begin(), content.end(), content.begin(), lower);
    std::vector<u32> image(XG_SIGNATURES_STEP + (content.size() + 3) / 4);
    image[0] = XG_STEP_CONTENT | (nocase ? XG_STEP_NOCASE : 0) | (random.one_in(8) ? XG_STEP_ENDS : 0);
    image[1] = XG_SIGNATURES_STEP;
    image[2] = static_cast<u32>(content.size());
    std::memcpy(image.data() + XG_SIGNATURES_STEP, content.data(), content.size());
    xg_batch batch =
        buffers_.place(text, random.one_in(3) ? random_cuts(random, header + bytes) : std::vector<u32>(),
                       random.below(2) * random.below(4));
    batch.image.v = image.data();
    const u32 first = random.below(random.one_in(2) ? 1 : bytes + 2);
    const u32 end = random.one_in(2) ? bytes : random.below(bytes + 1);
    xg_signatures_inspection one{}, other{};
    one.payload = other.payload = header;
    one.bytes = other.bytes = bytes;
    xg_payload_cursor c = buffers_.cursor(batch, header + bytes), d = c;
    const u32 right = xg_signatures_find(batch, 0, c, one, first, end);
    ASSERT_EQ(xg_signatures_find_avx2(batch, 0, d, other, first, end), right) << i;
    ASSERT_EQ(other.work, one.work) << i;
    found += right != ~0u ? 1 : 0;
    far += right != ~0u && right > first + 64 ? 1 : 0;
  }
  EXPECT_GT(found, 1000u);
  EXPECT_GT(far, 100u);
#else
  GTEST_SKIP() << "it is not compiled for x86-64";
#endif
}

}  // namespace
}  // namespace xdpgpu::gpu
