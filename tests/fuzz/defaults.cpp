// SPDX-License-Identifier: MIT
//
// What a target has that says nothing of its own: no cases, nothing left to judge, nothing left out.
#include "tests/fuzz/target.hpp"

namespace xdpgpu::fuzz {

[[gnu::weak]] std::vector<Bytes> cases() { return {}; }
[[gnu::weak]] void finish() {}
[[gnu::weak]] std::vector<std::string> left_out() { return {}; }

}  // namespace xdpgpu::fuzz
