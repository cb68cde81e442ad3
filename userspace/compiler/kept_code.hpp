// SPDX-License-Identifier: MIT
//
// userspace/compiler/kept_code.hpp: the cubins of programs, kept for the next start (disk_cache.hpp). Their
// compiler is nobody, and has no files: it reads what is there before it becomes nobody, and sends what it
// makes to its broker, who writes it to the folder. What is in a file is the compiler's word, as all code is
// that it hands over.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "userspace/compiler/artifacts.hpp"
#include "userspace/compiler/disk_cache.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::compiler {

// The compiler's. One thread.
class KeptCode {
 public:
  using Code = std::shared_ptr<const std::vector<char>>;
  // Of all files. Each start of a compiler reads them.
  static constexpr u64 kMost = u64{16} << 20;

  KeptCode() = default;  // there is none, and none is kept
  // socket: a SOCK_SEQPACKET to whoever calls keep_what_came(); it is never waited for.
  KeptCode(const DiskCache& folder, kernel::Fd socket);

  // nullptr: it was not there when this was made. What is found stays longer.
  Code find(const ArtifactId& id) const noexcept;
  // Where there is no room in the socket it is made again next time.
  void keep(const ArtifactId& id, const std::vector<char>& code) const noexcept;

 private:
  std::map<ArtifactId, Code> found_;
  kernel::Fd socket_;
};

// The broker's: writes what has come, and does not wait for more. Whatever comes, a file of the folder's has
// its bytes, and all of them are within its bounds. The error is a sentence: why something is not kept.
tl::expected<void, std::string> keep_what_came(int socket, const DiskCache& folder);

}  // namespace xdpgpu::compiler
