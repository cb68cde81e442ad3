// SPDX-License-Identifier: MIT
#include "gpu/signatures.hpp"

#include <algorithm>

namespace xdpgpu::gpu::signatures {
namespace {

constexpr u32 kMostSteps = 64, kMostConditions = 32;
// Bytes of a number, and of one that is written as text.
constexpr u32 kMostBytes = 8, kMostDigits = 32;

bool known(const Amount& amount) { return !amount.variable || *amount.variable < kMostVariables; }
bool known(const std::optional<Amount>& amount) { return !amount || known(*amount); }
bool possible(const Number& number) {
  return known(number.offset) && number.bytes <= (number.base ? kMostDigits : kMostBytes);
}
bool possible(const Mask& mask) { return !mask || *mask != 0; }

bool possible(const Content& content) {
  return !content.bytes.empty() && content.bytes.size() <= kMostContent && known(content.offset) &&
         known(content.depth) && known(content.distance) && known(content.within);
}
bool possible(const ByteTest& test) {
  return possible(test.number) && possible(test.mask) && known(test.value);
}
bool possible(const ByteJump& jump) { return possible(jump.number); }
bool possible(const ByteExtract& extract) {
  return possible(extract.number) && extract.align != 0 && extract.variable < kMostVariables;
}
bool possible(const ByteMath& math) {
  return possible(math.number) && possible(math.mask) && known(math.right) && math.variable < kMostVariables;
}
bool possible(const DataAt& at) { return known(at.offset); }

bool has_its_fast_pattern(const Signature& signature) {
  if (!signature.fast_pattern) return true;
  const FastPattern& pattern = *signature.fast_pattern;
  if (pattern.step >= signature.payload.size()) return false;
  const auto* const content = std::get_if<Content>(&signature.payload[pattern.step]);
  return content != nullptr && pattern.length != 0 && pattern.first < content->bytes.size() &&
         pattern.length <= content->bytes.size() - pattern.first;
}

}  // namespace

const Content* found_by(const Signature& signature) {
  if (!signature.fast_pattern) return nullptr;
  const auto& content = std::get<Content>(signature.payload[signature.fast_pattern->step]);
  return content.negated ? nullptr : &content;
}

std::optional<std::string> why_not(const Signature& signature) {
  if (signature.payload.size() > kMostSteps) return "has more than 64 steps: use fewer contents and tests";
  if (signature.conditions.size() > kMostConditions)
    return "has more than 32 conditions on headers: use fewer";
  const auto tried_again =
      std::count_if(signature.payload.begin(), signature.payload.end(), [](const Step& step) {
        const auto* const content = std::get_if<Content>(&step);
        return content != nullptr && content->tried_again;
      });
  if (tried_again > kMostTriedAgain)
    return "has more than 32 contents that others are relative to: use fewer";
  for (const Step& step : signature.payload)
    if (!std::visit([](const auto& one) { return possible(one); }, step))
      return "has a step with a length, a mask or a variable that no device takes";
  if (!has_its_fast_pattern(signature)) return "has a fast pattern that is in none of its contents";
  return std::nullopt;
}

}  // namespace xdpgpu::gpu::signatures
