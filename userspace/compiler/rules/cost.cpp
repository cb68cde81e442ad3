// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/cost.hpp"

#include <algorithm>
#include <span>

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;

constexpr double kPayload = 1000, kName = 32, kText = 1.5 * 4096, kValues = 256;

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
  const auto add = [&](std::span<const sig::NameIs> names) {
    for (const auto& name : names) count += name.steps.size() + name.sets.size();
  };
  add(sig::names_of(signature));
  if (rest != nullptr) {
    count += rest->payload.size();
    add(rest->names);
  }
  const double steps = std::max<double>(1, static_cast<double>(count));
  const sig::Content* const content = sig::found_by(signature);
  if (content == nullptr) return steps;
  const auto& first = *signature.fast_pattern;
  double of_place = 1;
  for (const char c : std::string_view(content->bytes).substr(first.first, first.length))
    of_place *= (content->nocase && is_letter(c) ? 2 : 1) / kValues;
  const auto in = [&](double bytes) { return steps * std::min(places(*content, bytes) * of_place, 1.0); };
  if (signature.where == sig::Where::packet) return in(first.buffer == 0 ? kPayload : kName);
  return in(kText) + (signature.where == sig::Where::both ? in(kPayload) : 0);
}

}  // namespace xdpgpu::rules
