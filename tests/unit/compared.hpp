// SPDX-License-Identifier: MIT
//
// tests/unit/compared.hpp: what a test has compared with Suricata's alerts, as a line for tests/signatures.
#pragma once

#include <cstdio>
#include <map>
#include <string>

namespace xdpgpu::test {

using Causes = std::map<std::string, unsigned>;

// The alerts that both have, and by cause those that one has alone.
inline void tell_compared(const std::string& rules, const std::string& captures, std::size_t same,
                          const Causes& suricatas, const Causes& ours) {
  const auto listed = [](const Causes& causes) {
    std::string text;
    for (const auto& [cause, count] : causes)
      text += (text.empty() ? "" : ", ") + cause + " " + std::to_string(count);
    return text.empty() ? std::string("none") : text;
  };
  std::printf("compared\t%s\t%s\t%zu\t%s\t%s\n", rules.c_str(), captures.c_str(), same,
              listed(suricatas).c_str(), listed(ours).c_str());
}

}  // namespace xdpgpu::test
