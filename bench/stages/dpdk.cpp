// SPDX-License-Identifier: MIT
#include "bench/stages/dpdk.hpp"

namespace xdpgpu::bench {

gpu::Result<void> start_dpdk() {
  static const bool started = [] {
    std::vector<std::string> words{"bench-stages", "--no-huge", "--no-pci",   "--no-telemetry",
                                   "-l",           "0",         "-m",         "4096",
                                   "--log-level",  "1",         "--no-shconf"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    return rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) >= 0;
  }();
  if (!started) return tl::unexpected(fmt::format("DPDK does not start: {}", rte_strerror(rte_errno)));
  return {};
}

std::string dpdk_name() {
  static u32 made = 0;
  return fmt::format("bench{}", made++);
}

}  // namespace xdpgpu::bench
