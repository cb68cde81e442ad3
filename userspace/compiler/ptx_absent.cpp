// SPDX-License-Identifier: MIT
//
// userspace/compiler/ptx_absent.cpp: in a build without CUDA.
#include "userspace/compiler/ptx.hpp"

namespace xdpgpu::compiler {

tl::expected<void, std::string> load_ptx_compiler() {
  return tl::unexpected(std::string("this build has no CUDA device, and makes no code for one"));
}
std::string ptx_compiler_version() { return ""; }
tl::expected<gpu::DeviceCode, std::string> compile_ptx(const gpu::DeviceCode&, u32) {
  return tl::unexpected(load_ptx_compiler().error());
}

}  // namespace xdpgpu::compiler
