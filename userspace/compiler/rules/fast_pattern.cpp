// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/fast_pattern.hpp"

#include <array>

namespace xdpgpu::rules {
namespace {

// What an application says is preferred to bare payload; in what is decoded from it no patterns are looked
// for.
unsigned rank(const Buffer& buffer) { return buffer.name == "payload" ? 1 : 0; }
// Of equals, what nearly every message has comes last.
bool is_everywhere(const Buffer& buffer) { return buffer.name == "http_method"; }
bool is_searched(const Buffer& buffer) { return buffer.name != "base64_data"; }

bool is_letter(u8 byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }
bool is_printable(u8 byte) { return byte >= 0x20 && byte < 0x7f; }

// The rarer its bytes are in traffic, and the more of them differ, the more.
unsigned strength(const std::string& bytes) {
  constexpr unsigned kLetter = 3, kCommon = 4, kRare = 6, kAgain = 1;
  std::array<bool, 256> seen{};
  unsigned sum = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<u8>(c);
    if (seen[byte])
      sum += kAgain;
    else if (is_letter(byte))
      sum += kLetter;
    else
      sum += is_printable(byte) || byte == 0x00 || byte == 0x01 || byte == 0xff ? kCommon : kRare;
    seen[byte] = true;
  }
  return sum;
}

template <class Visit>
void each_content(const std::vector<Buffer>& buffers, Visit visit) {
  for (u32 b = 0; b < buffers.size(); b++)
    if (is_searched(buffers[b]))
      for (u32 m = 0; m < buffers[b].matches.size(); m++)
        if (const auto* content = std::get_if<Content>(&buffers[b].matches[m]))
          visit(Rule::FastPattern{b, m}, *content);
}

}  // namespace

std::optional<Rule::FastPattern> choose_fast_pattern(const std::vector<Buffer>& buffers) {
  std::optional<Rule::FastPattern> chosen;
  bool any_positive = false;
  each_content(buffers, [&](const auto& place, const Content& content) {
    any_positive = any_positive || !content.negated;
    if (content.fast_pattern && !chosen) chosen = place;
  });
  if (chosen) return chosen;
  const Content* best = nullptr;
  unsigned best_rank = 0;
  each_content(buffers, [&](const auto& place, const Content& content) {
    if (any_positive && content.negated) return;
    const unsigned own = rank(buffers[place.buffer]);
    const auto better = [&] {
      if (best == nullptr) return true;
      if (own != best_rank) return own < best_rank;
      if (content.bytes.size() != best->bytes.size()) return content.bytes.size() > best->bytes.size();
      if (const unsigned mine = strength(content.bytes), its = strength(best->bytes); mine != its)
        return mine > its;
      return is_everywhere(buffers[chosen->buffer]) && !is_everywhere(buffers[place.buffer]);
    };
    if (!better()) return;
    chosen = place;
    best = &content;
    best_rank = own;
  });
  return chosen;
}

}  // namespace xdpgpu::rules
