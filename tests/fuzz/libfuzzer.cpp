// SPDX-License-Identifier: MIT
//
// A target under libFuzzer. XDPGPU_FUZZ_SEEDS=DIR writes the inputs to begin with there, and ends.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/fuzz/target.hpp"

// Software Vulkan leaks a little for each device. (The name is AddressSanitizer's.)
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() { return "leak:libvulkan_lvp.so"; }

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  using namespace xdpgpu::fuzz;
  if (const char* directory = std::getenv("XDPGPU_FUZZ_SEEDS")) {
    u32 number = 0;
    for (const Bytes& seed : seeds())
      std::ofstream(fmt::format("{}/seed-{:03}", directory, number++), std::ios::binary)
          .write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
    std::exit(number > 0 ? 0 : 1);
  }
  for (const std::string& what : left_out()) fmt::print(stderr, "left out: {}\n", what);
  // Registered after what the target keeps, and so called before that goes.
  LLVMFuzzerTestOneInput(nullptr, 0);
  std::atexit(finish);
  return 0;
}
