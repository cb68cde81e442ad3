// SPDX-License-Identifier: MIT
#include "gpu/domain_names.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace xdpgpu::gpu {
namespace {

bool in_label(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > kMostNameBytes) return false;
  std::size_t label = 0;
  for (const char c : name) {
    if (c == '.' ? label == 0 : !in_label(c)) return false;
    label = c == '.' ? 0 : label + 1;
    if (label > kMostLabelBytes) return false;
  }
  return label != 0;
}

}  // namespace

DomainEntry domain_entry(std::string_view line) {
  if (line.starts_with("*.")) return {line.substr(2), false, true};
  if (line.starts_with('.')) return {line.substr(1), true, true};
  return {line, true, false};
}

bool is_domain_entry(std::string_view line) { return is_name(domain_entry(line).name); }

u32 labels_of(std::string_view name) {
  return static_cast<u32>(std::count(name.begin(), name.end(), '.')) + 1;
}

Result<void> check_names(const DomainNames& names) {
  u64 count = 0;
  std::string_view wrong;
  each_name(names, [&](const DomainEntry& entry) {
    if (wrong.data() == nullptr && !is_name(entry.name)) wrong = entry.name;
    count++;
  });
  if (wrong.data() != nullptr)
    return tl::unexpected(fmt::format("has the name \"{}\", which is none", wrong.substr(0, 80)));
  if (count != names.count || (count != 0 && names.text->back() != '\n'))
    return tl::unexpected(fmt::format("has {} names where {} are said to be", count, names.count));
  return {};
}

}  // namespace xdpgpu::gpu
