// SPDX-License-Identifier: MIT
//
// Not every device runs programs: what they answer is program_test.cpp's to see.
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {

StageTests program_tests() { return {}; }

}  // namespace xdpgpu::tests
