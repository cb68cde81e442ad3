// SPDX-License-Identifier: MIT
//
// tests/stages/dns_queries.hpp: lists of names, and queries for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/stages/domains/settings.hpp"

namespace xdpgpu::tests {

// A list of these lines, for the stage `domains`.
inline gpu::DomainList list_of(const std::string& name, const std::string& lines,
                               gpu::Action action = gpu::Action::drop) {
  const auto count = static_cast<u64>(std::count(lines.begin(), lines.end(), '\n'));
  return {name, {std::make_shared<const std::string>(lines), count}, action, 0};
}

// A query for it, by UDP over IPv4 from 192.0.2.1 to port 53.
inline std::vector<u8> query(const std::string& name) {
  std::vector<u8> dns{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    dns.push_back(static_cast<u8>(end - at));
    dns.insert(dns.end(), name.begin() + static_cast<std::ptrdiff_t>(at),
               name.begin() + static_cast<std::ptrdiff_t>(end));
    at = end + 1;
  }
  dns.insert(dns.end(), {0, 0, 1, 0, 1});
  std::vector<u8> frame(12, 2);
  const auto udp = static_cast<u8>(8 + dns.size()), ip = static_cast<u8>(20 + udp);
  frame.insert(frame.end(), {8, 0, 0x45, 0, 0, ip, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2});
  frame.insert(frame.end(), {0x30, 0x39, 0, 53, 0, udp, 0, 0});
  frame.insert(frame.end(), dns.begin(), dns.end());
  return frame;
}

}  // namespace xdpgpu::tests
