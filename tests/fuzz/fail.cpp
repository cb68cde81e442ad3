// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/target.hpp"

namespace xdpgpu::fuzz {
namespace {

// FNV-1a: equal inputs make one file.
u64 name_of(Input input) {
  u64 hash = 0xcbf29ce484222325;
  for (const u8 byte : input) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace

void fail(Input input, const std::string& what) {
  const std::string path = fmt::format("fuzz-{:016x}", name_of(input));
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const bool kept = file != nullptr && std::fwrite(input.data(), 1, input.size(), file) == input.size();
  if (file != nullptr) std::fclose(file);
  fmt::print(stderr, "{}\nthe input, {} bytes, is {} {}\n", what, input.size(),
             kept ? "in" : "lost: it could not be written to", path);
  std::abort();
}

}  // namespace xdpgpu::fuzz
