// SPDX-License-Identifier: MIT
//
// tests/unit/compiler_program_object.hpp: the objects of tests/unit/objects, compiled, and Debian's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "userspace/compiler/programs/object.hpp"

namespace xdpgpu::test {

inline std::string file_contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline std::string object_bytes(const std::string& name) {
  return file_contents(XDPGPU_OBJECTS "/" + name + ".bpf.o");
}

inline programs::Result<programs::ObjectProgram> read_object(const std::string& bytes,
                                                             const std::string& program = "") {
  const auto kernel_types = [] {
    const std::string types = file_contents("/sys/kernel/btf/vmlinux");
    const auto all = std::as_bytes(std::span(types));
    return std::vector<std::byte>(all.begin(), all.end());
  };
  return programs::read_program(std::as_bytes(std::span(bytes)), {.name = program}, kernel_types);
}

// xdp-filter's, of all its modes; none where xdp-tools are not installed.
inline std::vector<std::string> debian_objects() {
  std::vector<std::string> paths;
  for (const char* const folder :
       {"/usr/lib/x86_64-linux-gnu/bpf", "/usr/lib/aarch64-linux-gnu/bpf", "/usr/lib/bpf"}) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none))
      if (entry.path().filename().string().starts_with("xdpfilt_")) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace xdpgpu::test
