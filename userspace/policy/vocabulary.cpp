// SPDX-License-Identifier: MIT
#include "userspace/policy/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xdpgpu::policy {
namespace {

u64 edit_distance(std::string_view a, std::string_view b) {
  std::vector<u64> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (u64 j = 0; j <= b.size(); ++j) last[j] = j;
  for (u64 i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (u64 j = 1; j <= b.size(); ++j) {
      u64 differs = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + differs});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<u32> find_word(Words among, std::string_view word) {
  auto at = std::find(among.begin(), among.end(), word);
  if (at == among.end()) return std::nullopt;
  return static_cast<u32>(at - among.begin());
}

std::string_view nearest(Words among, std::string_view word) {
  if (word.size() > 64) return {};
  std::string_view best;
  u64 best_distance = ~0ull;
  for (auto candidate : among)
    if (u64 d = edit_distance(candidate, word); d < best_distance) best = candidate, best_distance = d;
  return best_distance * 2 <= std::max(best.size(), word.size()) ? best : std::string_view{};
}

std::string suggestion(Words among, std::string_view word) {
  if (auto near = nearest(among, word); !near.empty()) return fmt::format("; did you mean \"{}\"?", near);
  if (among.empty() || among.size() > 20) return {};
  return fmt::format("; known here: {}", fmt::join(among, ", "));
}

std::string quoted_list(Words among) {
  std::string list;
  for (u64 i = 0; i < among.size(); ++i)
    list += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 == among.size() ? " or " : ", ", among[i]);
  return list;
}

}  // namespace xdpgpu::policy
