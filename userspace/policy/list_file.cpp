// SPDX-License-Identifier: MIT
#include "userspace/policy/list_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "userspace/policy/prefix_scan.hpp"
#include "userspace/policy/rule_line.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr std::string_view kBlank = " \t\r\f\v";
constexpr u64 kLongestLine = 1u << 20;  // rules may name many addresses

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

const char* skip_blanks(const char* at, const char* end) {
  while (at != end && (*at == ' ' || (*at >= '\t' && *at <= '\r' && *at != '\n'))) ++at;
  return at;
}

bool ends_entry(const char* at, const char* end) {
  return at == end || *at == '\n' || *at == '#' || *at == ';';
}

// The next newline from `at` on, or the end.
const char* end_of_line(const char* at, const char* end) {
  const auto* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<u64>(end - at)));
  return newline != nullptr ? newline : end;
}

class ListReader {
 public:
  ListReader(Report& report, const std::string& file, const Place& named_at, std::vector<Prefix>& into)
      : report_(report), file_(file), named_at_(named_at), into_(into) {}

  void read(std::string_view text) {
    const char* at = text.data();
    const char* const end = at + text.size();
    for (u32 number = 1; at != end; ++number) {
      const char* const start = at;
      at = skip_blanks(at, end);
      if (!ends_entry(at, end)) {
        Prefix prefix;
        const char* const behind = scan_prefix(at, end, prefix);
        if (behind != nullptr) at = skip_blanks(behind, end);
        if (behind != nullptr && ends_entry(at, end))
          into_.push_back(prefix);
        else
          unusual({start, static_cast<u64>(end_of_line(at, end) - start)}, number);
        if (into_.size() > kMaxPrefixes || report_.exhausted()) return;  // the caller counts, and refuses
      }
      if (at != end && *at != '\n') at = end_of_line(at, end);
      if (at != end) ++at;
    }
  }

 private:
  // A line that holds something other than a prefix as most are written.
  void unusual(std::string_view line, u32 number) {
    if (line.size() > kLongestLine)
      return report_.in_list(
          file_, named_at_, number, 1,
          fmt::format("the line is longer than {} KiB; a list has one prefix a line", kLongestLine >> 10));
    line = line.substr(0, line.find_first_of("#;"));
    const auto first = line.find_first_not_of(kBlank);
    const std::string_view entry = line.substr(first, line.find_last_not_of(kBlank) - first + 1);
    std::optional<std::string> wrong;
    if (is_rule_line(entry))
      wrong = read_rule_line(entry, into_);
    else if (auto prefix = try_prefix(entry))
      into_.push_back(*prefix);
    else if (report_.full())
      report_.skip();
    else
      wrong = read_prefix(entry.substr(0, 60)).error();
    if (wrong)
      report_.in_list(file_, named_at_, number, static_cast<u32>(first + 1), printable(*std::move(wrong)));
  }

  Report& report_;
  const std::string& file_;
  const Place& named_at_;
  std::vector<Prefix>& into_;
};

}  // namespace

void read_list_file(Report& report, std::string_view text, const std::string& file, const Place& named_at,
                    std::vector<Prefix>& into) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  into.reserve(
      std::min<u64>(static_cast<u64>(std::count(text.begin(), text.end(), '\n')) + 1, kMaxPrefixes + 1));
  ListReader(report, file, named_at, into).read(text);
}

}  // namespace xdpgpu::policy
