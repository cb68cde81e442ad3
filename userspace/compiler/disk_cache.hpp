// SPDX-License-Identifier: MIT
//
// userspace/compiler/disk_cache.hpp: what took long to make, kept for the next start: files in a folder that
// is root's alone, each found by the hash of all that its content is made of (inputs.hpp). A file that is not
// its writer's own work, byte for byte, is none: what is loaded by it decides packets.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "userspace/compiler/artifacts.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::compiler {

class DiskCache {
 public:
  // Bytes of all files; those that were used longest ago go first.
  static constexpr u64 kMost = u64{256} << 20;

  // Makes the folder, where it is not there. The error is a sentence: it cannot be made, or somebody else
  // than the process's user owns it or can write there.
  static tl::expected<DiskCache, std::string> open(const std::string& folder, u64 most = kMost);

  // now: what is found was used, and stays longer.
  enum class Use { none, now };
  // Nothing: it is not there, or not whole, or not ours.
  std::optional<std::vector<std::byte>> find(const ArtifactId& id, Use use = Use::now) const;
  // Of all files that are named as one is.
  std::vector<ArtifactId> ids() const;
  // Whole, or not at all: a file is written under another name first.
  tl::expected<void, std::string> keep(const ArtifactId& id, std::span<const std::byte> content) const;

 private:
  DiskCache(std::string folder, kernel::Fd fd, u64 most)
      : name_(std::move(folder)), folder_(std::move(fd)), most_(most) {}
  void make_room(u64 bytes) const;

  std::string name_;
  kernel::Fd folder_;
  u64 most_;
};

}  // namespace xdpgpu::compiler
