// SPDX-License-Identifier: MIT
//
// userspace/compiler/cuda_library.hpp: a library of the CUDA toolkit, loaded where it is installed. For files
// that are built with XG_CUDA_MAJOR and XG_CUDA_LIBRARIES: the toolkit's version, and where it had its
// libraries.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>

namespace xdpgpu::compiler {

// As the system finds it, or where the toolkit was that this was built with; for the process's life. The
// error is what the dynamic linker says.
inline tl::expected<void*, std::string> open_cuda_library(const std::string& name) {
  const std::string versioned = fmt::format("{}.{}", name, XG_CUDA_MAJOR);
  for (const auto& path : {versioned, XG_CUDA_LIBRARIES "/" + versioned})
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const char* const error = dlerror();
  return tl::unexpected(std::string(error != nullptr ? error : "not found"));
}

template <class Function>
bool take(void* library, const char* name, Function& to) {
  to = reinterpret_cast<Function>(dlsym(library, name));
  return to != nullptr;
}

}  // namespace xdpgpu::compiler
