// SPDX-License-Identifier: MIT
//
// bench/signatures/patterns.hpp: patterns of real rules, topped up by made-up ones, the signatures that look
// for nothing else, and a plain search for them that shares nothing with a device.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpu/signatures.hpp"

namespace xdpgpu::bench {

struct SearchedPattern {
  std::string bytes;  // in lower case where nocase
  bool nocase = false;
  bool operator==(const SearchedPattern&) const = default;
};

// The rule files in tests/data of the tree or bundle that this program runs from, by name; none: they are not
// there.
std::vector<std::filesystem::path> usual_rule_files();
// The contents that rules are found by, each once, in the rules' order. What of a file is no rule is left
// out. Throws std::runtime_error, a sentence, where a file cannot be read.
std::vector<SearchedPattern> patterns_of_rules(const std::vector<std::filesystem::path>& files);

struct Patterns {
  std::vector<SearchedPattern> all;
  u32 from_rules = 0;  // the others are made up
};
// `count` different ones. real: which have the first right; where there are more, some from everywhere in
// them. Those that are made up have the real ones' lengths, from four bytes on, and look like paths, names
// and bytes. The same ones every time.
Patterns choose_patterns(const std::vector<SearchedPattern>& real, u32 count);

// A signature for each, in their order: it alerts on whatever packet has the pattern in its payload.
std::vector<gpu::signatures::Signature> signatures_of(const std::vector<SearchedPattern>& patterns);

// Where patterns stand in a text: by their first four bytes in a hash table, the shorter ones one by one.
class PlainSearch {
 public:
  // The patterns outlive it.
  explicit PlainSearch(const std::vector<SearchedPattern>& patterns);
  // In the text's order.
  void each(std::string_view text, const std::function<void(u32 pattern, std::size_t at)>& found) const;
  // The patterns' numbers, in order, each once.
  std::vector<u32> all_in(std::string_view text) const;

 private:
  bool is_at(u32 pattern, std::string_view text, std::size_t at) const;

  const std::vector<SearchedPattern>& patterns_;
  std::vector<bool> may_be_;  // by a hash of four bytes
  std::unordered_map<u32, std::vector<u32>> by_four_;
  std::array<std::vector<u32>, 256> shorter_;  // by the first byte
};

}  // namespace xdpgpu::bench
