// SPDX-License-Identifier: MIT
//
// bench/signatures/vectorscan.hpp: the same patterns in Vectorscan (the library of Hyperscan's interface that
// Debian has), as Suricata has them in Hyperscan: block mode, each pattern told once a payload. In a build
// without it, compile() fails with that sentence.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/signatures/patterns.hpp"
#include "gpu/gpu.hpp"

namespace xdpgpu::bench {

// Of one thread.
class Searcher {
 public:
  virtual ~Searcher() = default;
  // How many patterns stand in it. Fails where the library does: ~0.
  virtual u64 count(std::span<const u8> payload) noexcept = 0;
  // Their numbers, in order.
  virtual std::vector<u32> all_in(std::span<const u8> payload) = 0;
};

class Vectorscan {
 public:
  static gpu::Result<std::unique_ptr<Vectorscan>> compile(const std::vector<SearchedPattern>& patterns);
  virtual ~Vectorscan() = default;
  virtual u64 bytes() const = 0;  // of its database
  virtual std::string version() const = 0;
  // It outlives the searcher. From any thread.
  virtual gpu::Result<std::unique_ptr<Searcher>> searcher() const = 0;
};

}  // namespace xdpgpu::bench
