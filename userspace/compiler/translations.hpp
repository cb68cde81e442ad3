// SPDX-License-Identifier: MIT
//
// userspace/compiler/translations.hpp: machine code that has XDP programs in it: each one's instructions
// become CUDA C++ (gpu/program_translation.hpp), that becomes a cubin (nvrtc.hpp), and the cubins are linked
// to the kernels of this build (nvjitlink.hpp).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "gpu/device_code.hpp"
#include "gpu/program_translation.hpp"
#include "userspace/compiler/artifacts.hpp"
#include "userspace/compiler/kept_code.hpp"

namespace xdpgpu::compiler {

// Loads compiler and linker, for the process's life. Afterwards they ask the kernel for nothing but memory.
// The error is a sentence: what is not installed.
tl::expected<void, std::string> load_translator();

// Whether the compiler that is loaded takes less time than it could, as it was told; not every version does.
bool translator_hurries();
// "13.0": of that compiler; empty: none is loaded.
std::string translator_version();

// A source that includes translation_headers(), as a cubin to be linked. The error is a sentence.
tl::expected<std::vector<char>, std::string> compile_translation(const std::string& source, u32 architecture);

// Remembers the cubins of its last order, so that one for nearly the same programs compiles nearly nothing.
// So does one for programs whose cubins are kept.
class Translations {
 public:
  explicit Translations(KeptCode kept = {}) : kept_(std::move(kept)) {}
  // Code for a GPU of that compute capability, behind load_translator(). Takes its time. The error is a
  // sentence.
  tl::expected<gpu::DeviceCode, std::string> translate(std::span<const gpu::programs::Decoded> programs,
                                                       u32 architecture);

 private:
  tl::expected<KeptCode::Code, std::string> cubin_of(const std::string& source, u32 architecture,
                                                     const ArtifactId& id) const;

  KeptCode kept_;
  std::map<ArtifactId, KeptCode::Code> cubins_;
};

}  // namespace xdpgpu::compiler
