// SPDX-License-Identifier: MIT
//
// bench/signatures/vectorscan_absent.cpp: stands in for Vectorscan in a build without it.
#include "bench/signatures/vectorscan.hpp"

namespace xdpgpu::bench {

gpu::Result<std::unique_ptr<Vectorscan>> Vectorscan::compile(const std::vector<SearchedPattern>&) {
  return tl::unexpected(
      std::string("this build has no Vectorscan: build it where libvectorscan-dev is installed"));
}

}  // namespace xdpgpu::bench
