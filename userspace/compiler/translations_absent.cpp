// SPDX-License-Identifier: MIT
//
// userspace/compiler/translations_absent.cpp: in a build without CUDA, or whose toolkit had no header of
// NVRTC.
#include "userspace/compiler/translations.hpp"

namespace xdpgpu::compiler {

tl::expected<void, std::string> load_translator() {
  return tl::unexpected(
      std::string("this build makes no code for programs: build it where nvcc, NVRTC and nvJitLink are "
                  "installed"));
}
bool translator_hurries() { return false; }
std::string translator_version() { return {}; }
tl::expected<std::vector<char>, std::string> compile_translation(const std::string&, u32) {
  return tl::unexpected(load_translator().error());
}
tl::expected<gpu::DeviceCode, std::string> Translations::translate(std::span<const gpu::programs::Decoded>,
                                                                   u32) {
  return tl::unexpected(load_translator().error());
}

}  // namespace xdpgpu::compiler
