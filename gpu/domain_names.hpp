// SPDX-License-Identifier: MIT
//
// gpu/domain_names.hpp: names of domains as lists have them (DomainNames), a line each:
//
//   example.com     that name
//   .example.com    that name, and all names beneath it
//   *.example.com   all names beneath it
//
// A name has one to 127 labels with a dot between them, 253 bytes in all; a label has 1 to 63 letters in
// lower case, digits, '-' and '_'. Names in other alphabets stand there in their ASCII form (RFC 5891:
// "xn--..."); userspace/policy/domain_file.hpp takes them in it.
#pragma once

#include <algorithm>
#include <string_view>

#include "gpu/gpu.hpp"
#include "gpu/stages/values.hpp"

namespace xdpgpu::gpu {

inline constexpr std::size_t kMostNameBytes = 253, kMostLabelBytes = 63;

// What a line stands for.
struct DomainEntry {
  std::string_view name;
  bool itself = false, beneath = false;
};
// Of a line without its end.
DomainEntry domain_entry(std::string_view line);
// Whether it is one as said above.
bool is_domain_entry(std::string_view line);

// Calls use(entry) for each, in their order.
template <class Use>
void each_name(const DomainNames& names, Use&& use) {
  if (!names.text) return;
  for (std::string_view rest = *names.text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    use(domain_entry(line));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
}

u32 labels_of(std::string_view name);

// Whether the text is as said above, and has so many lines. The error is half a sentence.
Result<void> check_names(const DomainNames& names);

}  // namespace xdpgpu::gpu
