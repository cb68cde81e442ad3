// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/cost.hpp"

#include <algorithm>

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;

constexpr double kPayload = 1000, kName = 32, kValues = 256;

bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

// Places that its first byte may have.
double places(const sig::Content& content, double bytes) {
  const bool varies = content.offset.variable || (content.depth && content.depth->variable);
  const double first = varies ? 0 : static_cast<double>(content.offset.constant);
  const double end = varies || !content.depth || content.relative()
                         ? bytes
                         : std::min(bytes, static_cast<double>(content.depth->constant));
  return std::max(0.0, end - first - static_cast<double>(content.bytes.size()) + 1);
}

}  // namespace

double cost_of(const sig::Signature& signature, const sig::HostPart* rest) {
  std::size_t count = signature.payload.size();
  const auto add = [&](const std::vector<sig::NameIs>& names) {
    for (const auto& name : names) count += name.steps.size() + name.sets.size();
  };
  if (signature.dns) add(signature.dns->names);
  if (rest != nullptr) {
    count += rest->payload.size();
    add(rest->names);
  }
  const double steps = std::max<double>(1, static_cast<double>(count));
  const sig::Content* const content = sig::found_by(signature);
  if (content == nullptr) return steps;
  const auto& first = *signature.fast_pattern;
  double chance = places(*content, first.buffer == 0 ? kPayload : kName);
  for (const char c : std::string_view(content->bytes).substr(first.first, first.length))
    chance *= (content->nocase && is_letter(c) ? 2 : 1) / kValues;
  return steps * std::min(chance, 1.0);
}

}  // namespace xdpgpu::rules
