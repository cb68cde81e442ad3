// SPDX-License-Identifier: MIT
#include "bench/signatures/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <stdexcept>

#include "userspace/compiler/rules/load.hpp"

namespace xdpgpu::bench {
namespace {

namespace sig = gpu::signatures;

constexpr std::size_t kLongest = 255, kLeastMadeUp = 4, kUsualLength = 14;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }
std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return lower(c); });
  return text;
}

// Of so many bytes: any bytes, or like a path, a header's value or a name. Few of them stand in another.
std::string made_up(std::mt19937_64& random, std::size_t length) {
  static constexpr std::string_view kLetters = "eatoinsrhldcumfpgwybvkxjqzETSAM0123456789";
  const u64 like = random() % 10;
  const std::string_view between = like < 6 ? "/=&?-_" : ".-";
  std::string text;
  while (text.size() < length) {
    const u64 next = random();
    if (like == 0)
      text.push_back(static_cast<char>(next));
    else if (next % 8 == 0)
      text.push_back(between[(next >> 8) % between.size()]);
    else
      text.push_back(kLetters[(next >> 8) % kLetters.size()]);
  }
  return text;
}

sig::Addresses any_address() {
  sig::Address v4{}, v6{};
  std::fill_n(v4.begin(), 4, u8{0xff});
  v6.fill(0xff);
  return {{{sig::Address{}, v4}}, {{sig::Address{}, v6}}};
}

u32 four_at(std::string_view text, std::size_t at) {
  u32 word = 0;
  for (std::size_t i = 0; i < 4; i++) word = word << 8 | static_cast<u8>(lower(text[at + i]));
  return word;
}
constexpr u32 kHashBits = 22;
u32 hash_of(u32 word) { return (word ^ word >> 15) * 0x85ebca6bu >> (32 - kHashBits); }

}  // namespace

std::vector<std::filesystem::path> usual_rule_files() {
  std::error_code none;
  const auto bin = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  std::vector<std::filesystem::path> files;
  for (const auto& root : {bin / "..", bin / "../../.."}) {
    for (const auto& entry : std::filesystem::directory_iterator(root / "tests/data/rules", none))
      if (entry.path().extension() == ".rules") files.push_back(entry.path());
    if (!files.empty()) break;
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<SearchedPattern> patterns_of_rules(const std::vector<std::filesystem::path>& files) {
  std::vector<rules::RuleFile> read;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(fmt::format("{}: {}", path.string(), std::strerror(errno)));
    read.push_back(
        {path.filename(), {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}});
  }
  std::vector<SearchedPattern> patterns;
  std::set<std::pair<std::string, bool>> known;
  for (const rules::Rule& rule : rules::load_rules(read, rules::usual_variables(), {}).rules) {
    if (!rule.fast_pattern) continue;
    const rules::Match& match = rule.buffers[rule.fast_pattern->buffer].matches[rule.fast_pattern->match];
    const auto* const content = std::get_if<rules::Content>(&match);
    if (content == nullptr || content->negated) continue;
    std::string bytes = content->bytes;
    if (content->chop) bytes = bytes.substr(content->chop->first, content->chop->second);
    if (content->nocase) bytes = lower(std::move(bytes));
    if (bytes.empty() || bytes.size() > kLongest || !known.emplace(bytes, content->nocase).second) continue;
    patterns.push_back({std::move(bytes), content->nocase});
  }
  return patterns;
}

Patterns choose_patterns(const std::vector<SearchedPattern>& real, u32 count) {
  std::mt19937_64 random(20261126);
  Patterns chosen;
  const std::size_t taken = std::min<std::size_t>(real.size(), count);
  for (std::size_t i = 0; i < taken; i++) chosen.all.push_back(real[i * real.size() / taken]);
  chosen.from_rules = static_cast<u32>(taken);
  std::set<std::pair<std::string, bool>> known;
  for (const SearchedPattern& one : chosen.all) known.emplace(one.bytes, one.nocase);
  while (chosen.all.size() < count) {
    const SearchedPattern like = taken == 0
                                     ? SearchedPattern{std::string(kUsualLength, ' '), random() % 2 == 0}
                                     : chosen.all[random() % taken];
    if (like.bytes.size() < kLeastMadeUp) continue;
    SearchedPattern one{made_up(random, like.bytes.size()), like.nocase};
    if (one.nocase) one.bytes = lower(std::move(one.bytes));
    if (known.emplace(one.bytes, one.nocase).second) chosen.all.push_back(std::move(one));
  }
  return chosen;
}

std::vector<sig::Signature> signatures_of(const std::vector<SearchedPattern>& patterns) {
  std::vector<sig::Signature> signatures;
  signatures.reserve(patterns.size());
  sig::Header any;
  any.protocols.set();
  any.src = any.dst = any_address();
  for (const SearchedPattern& pattern : patterns) {
    sig::Signature& made = signatures.emplace_back();
    made.sid = static_cast<u32>(signatures.size());
    made.rev = 1;
    made.header = any;
    sig::Content content;
    content.bytes = pattern.bytes;
    content.nocase = pattern.nocase;
    made.payload.emplace_back(std::move(content));
    made.fast_pattern = sig::FastPattern{0, 0, static_cast<u32>(pattern.bytes.size()), 0};
  }
  return signatures;
}

PlainSearch::PlainSearch(const std::vector<SearchedPattern>& patterns)
    : patterns_(patterns), may_be_(std::size_t{1} << kHashBits) {
  for (u32 i = 0; i < patterns.size(); i++) {
    const std::string& bytes = patterns[i].bytes;
    if (bytes.size() < 4) {
      shorter_[static_cast<u8>(lower(bytes[0]))].push_back(i);
      continue;
    }
    const u32 word = four_at(bytes, 0);
    by_four_[word].push_back(i);
    may_be_[hash_of(word)] = true;
  }
}

bool PlainSearch::is_at(u32 pattern, std::string_view text, std::size_t at) const {
  const auto& [bytes, nocase] = patterns_[pattern];
  if (text.size() - at < bytes.size()) return false;
  const std::string_view here = text.substr(at, bytes.size());
  return nocase ? std::equal(here.begin(), here.end(), bytes.begin(),
                             [](char a, char b) { return lower(a) == b; })
                : here == bytes;
}

void PlainSearch::each(std::string_view text,
                       const std::function<void(u32 pattern, std::size_t at)>& found) const {
  for (std::size_t at = 0; at < text.size(); at++) {
    for (const u32 pattern : shorter_[static_cast<u8>(lower(text[at]))])
      if (is_at(pattern, text, at)) found(pattern, at);
    if (text.size() - at < 4) continue;
    const u32 word = four_at(text, at);
    if (!may_be_[hash_of(word)]) continue;
    const auto known = by_four_.find(word);
    if (known == by_four_.end()) continue;
    for (const u32 pattern : known->second)
      if (is_at(pattern, text, at)) found(pattern, at);
  }
}

std::vector<u32> PlainSearch::all_in(std::string_view text) const {
  std::vector<u32> numbers;
  each(text, [&](u32 pattern, std::size_t) { numbers.push_back(pattern); });
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace xdpgpu::bench
