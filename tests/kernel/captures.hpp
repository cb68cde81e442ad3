// SPDX-License-Identifier: MIT
//
// tests/kernel/captures.hpp: the Ethernet frames of a capture file. (A file of its own, as libpcap and
// linux/bpf.h both define struct bpf_insn.)
#pragma once

#include <filesystem>
#include <vector>

#include "tests/kernel/frame.hpp"

namespace xdpgpu::test {

// Where they are: $XDPGPU_TEST_CAPTURES (where a bundle runs, the sources are not), else in the sources.
std::filesystem::path capture_directory();

// Throws where the file cannot be read; empty where its link type is not Ethernet.
std::vector<Frame> read_capture(const std::filesystem::path& path);

}  // namespace xdpgpu::test
