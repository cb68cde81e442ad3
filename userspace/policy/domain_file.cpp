// SPDX-License-Identifier: MIT
#include "userspace/policy/domain_file.hpp"

#include <fmt/format.h>
#include <idn2.h>

#include <algorithm>
#include <array>
#include <memory>
#include <tl/expected.hpp>
#include <utility>

#include "gpu/domain_names.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr std::string_view kBlank = " \t\r\f\v";

// What a byte of a name becomes; 0: it is none of those that a label has.
constexpr std::array<char, 256> kLabelBytes = [] {
  std::array<char, 256> bytes{};
  for (const char c : {'-', '_'}) bytes[static_cast<u8>(c)] = c;
  for (char c = '0'; c <= '9'; c++) bytes[static_cast<u8>(c)] = c;
  for (char c = 'a'; c <= 'z'; c++) {
    bytes[static_cast<u8>(c)] = c;
    bytes[static_cast<u8>(c - 32)] = c;
  }
  return bytes;
}();

std::string shown(std::string_view entry) {
  std::string text(entry.substr(0, 60));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlank));
  line.remove_prefix(word.size());
  return word;
}

// No top-level domain is a number (RFC 3696).
bool is_address(std::string_view name) {
  if (name.find(':') != std::string_view::npos) return true;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_ascii(char c) { return static_cast<u8>(c) < 128; }

// The error is half a sentence.
tl::expected<std::string, std::string> ascii_form(std::string_view name) {
  // In UTF-8 a character that an ASCII form has a byte for takes four at most.
  if (name.size() > gpu::kMostNameBytes * 4)
    return tl::unexpected(std::string("is longer than a name may be"));
  // The library takes it for the end.
  if (name.find('\0') != std::string_view::npos)
    return tl::unexpected(std::string("has a character that no name has"));
  const std::string text(name);
  char* made = nullptr;
  const int failed = idn2_to_ascii_8z(text.c_str(), &made, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);
  const std::unique_ptr<char, void (*)(void*)> ascii(made, idn2_free);
  if (failed == IDN2_OK) return std::string(ascii.get());
  return tl::unexpected(fmt::format("is not ASCII, and has no ASCII form (IDNA): {}", idn2_strerror(failed)));
}

}  // namespace

std::optional<std::string> DomainReader::add(std::string_view entry) {
  std::string_view name = entry;
  const bool beneath = name.starts_with("*."), both = !beneath && name.starts_with('.');
  name.remove_prefix(beneath ? 2 : both ? 1 : 0);
  if (name.ends_with('.')) name.remove_suffix(1);
  const std::string_view before = beneath ? "*." : both || subdomains_ ? "." : "";
  if (std::all_of(name.begin(), name.end(), is_ascii)) return add_ascii(name, before, entry);
  const auto ascii = ascii_form(name);
  if (ascii) return add_ascii(*ascii, before, entry);
  return report_.full() ? std::string() : fmt::format("\"{}\" {}", shown(entry), ascii.error());
}

std::optional<std::string> DomainReader::add_ascii(std::string_view name, std::string_view before,
                                                   std::string_view entry) {
  const auto wrong = [&](std::string_view why) {
    return report_.full() ? std::string() : fmt::format("\"{}\" {}", shown(entry), why);
  };
  if (name.empty()) return wrong("is no name");
  if (name.size() > gpu::kMostNameBytes)
    return wrong(fmt::format("has {} bytes, and a name 253 at most", name.size()));
  const std::size_t begin = text_.size();
  text_ += before;
  const std::size_t first = text_.size();
  std::size_t label = 0;
  std::string_view why;
  for (const char c : name) {
    const char byte = c == '.' ? c : kLabelBytes[static_cast<u8>(c)];
    label = byte == '.' ? 0 : label + 1;
    if (byte == 0)
      why = "has a character that no name has: letters, digits, '-', '_' and dots";
    else if (label > gpu::kMostLabelBytes)
      why = "has more than 63 characters between two dots";
    else if (byte == '.' && (text_.size() == first || text_.back() == '.'))
      why = "has nothing between two dots";
    if (!why.empty()) break;
    text_ += byte;
  }
  if (why.empty() && name.ends_with('.')) why = "has nothing between two dots";
  if (why.empty() && is_address(name)) why = "is an address: here stand names";
  if (!why.empty()) {
    text_.resize(begin);
    return wrong(why);
  }
  text_ += '\n';
  count_++;
  return std::nullopt;
}

std::optional<std::string> DomainReader::add_line(std::string_view line) {
  std::string_view word = next_word(line), next = next_word(line);
  if (next.empty()) return add(word);
  if (!is_address(word) || !try_prefix(word))
    return report_.full()
               ? std::string()
               : fmt::format("\"{}\" stands behind a name: a list has one name a line", shown(next));
  for (; !next.empty(); next = next_word(line))
    if (auto wrong = add(next)) return wrong;
  return std::nullopt;
}

void DomainReader::read(const Place& place) {
  const auto* text = place.node->as<std::string>();
  if (text == nullptr)
    return report_.at(place, fmt::format("must be a name as a string, is {}", place.node->type_name()));
  if (auto wrong = add(*text)) report_.at(place, *std::move(wrong));
}

void DomainReader::read_file(std::string_view text, const std::string& file, const Place& named_at) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text_.reserve(std::min<u64>(text.size() + text.size() / 8, u64{1} << 30));
  for (u32 number = 1; !text.empty() && count_ <= most_ && !report_.exhausted(); number++) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find_first_of("#;"));
    const auto first = line.find_first_not_of(kBlank);
    if (first == std::string_view::npos) continue;
    auto wrong = add_line(line);
    if (!wrong) continue;
    if (report_.full())
      report_.skip();
    else
      report_.in_list(file, named_at, number, static_cast<u32>(first + 1), *std::move(wrong));
  }
}

tl::expected<std::string, std::string> DomainReader::line_of(std::string_view name, bool subdomains) {
  Report report({}, {});
  DomainReader reader(report, subdomains, 1);
  if (auto wrong = reader.add(name)) return tl::unexpected(*std::move(wrong));
  reader.text_.pop_back();
  return std::move(reader.text_);
}

gpu::DomainNames DomainReader::take() {
  text_.shrink_to_fit();
  return {std::make_shared<const std::string>(std::move(text_)), std::exchange(count_, 0)};
}

}  // namespace xdpgpu::policy
