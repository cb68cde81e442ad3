// SPDX-License-Identifier: MIT
#include "userspace/policy/list_file.hpp"

#include <algorithm>
#include <cstring>

#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr std::string_view kBlank = " \t\r\f\v";

std::string printable(std::string_view text) {
  std::string shown(text.substr(0, 60));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

}  // namespace

void read_list_file(Report& report, std::string_view text, const std::string& file, const Place& named_at,
                    std::vector<Prefix>& into) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  into.reserve(
      std::min<u64>(static_cast<u64>(std::count(text.begin(), text.end(), '\n')) + 1, kMaxPrefixes + 1));
  const char* at = text.data();
  const char* end = at + text.size();
  for (u32 line = 1; at < end; ++line) {
    const auto* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<u64>(end - at)));
    std::string_view entry(at, static_cast<u64>((newline != nullptr ? newline : end) - at));
    at = newline != nullptr ? newline + 1 : end;
    entry = entry.substr(0, entry.find_first_of("#;"));
    auto first = entry.find_first_not_of(kBlank);
    if (first == std::string_view::npos) continue;
    entry = entry.substr(first, entry.find_last_not_of(kBlank) - first + 1);
    if (auto prefix = try_prefix(entry)) {
      into.push_back(*prefix);
    } else if (report.full()) {
      report.skip();
    } else {
      std::string shown = printable(entry);
      report.in_list(file, named_at, line, static_cast<u32>(first + 1), read_prefix(shown).error());
    }
    if (into.size() > kMaxPrefixes) return;  // the caller counts, and refuses
  }
}

}  // namespace xdpgpu::policy
