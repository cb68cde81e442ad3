// SPDX-License-Identifier: MIT
#include "bench/throughput/forwarders.hpp"

namespace xdpgpu::throughput {

std::unique_ptr<Dut> nfqueue(const Site&) {
  throw lab::Error(
      "libnetfilter-queue-dev was not there when this program was built: sudo deploy/install-deps --tests");
}

}  // namespace xdpgpu::throughput
