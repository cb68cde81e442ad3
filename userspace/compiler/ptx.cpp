// SPDX-License-Identifier: MIT
#include "userspace/compiler/ptx.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nvJitLink.h>

#include <array>
#include <utility>

namespace xdpgpu::compiler {
namespace {

struct Linker {
  decltype(&nvJitLinkCreate) create = nullptr;
  decltype(&nvJitLinkAddData) add = nullptr;
  decltype(&nvJitLinkComplete) complete = nullptr;
  decltype(&nvJitLinkGetErrorLogSize) log_size = nullptr;
  decltype(&nvJitLinkGetErrorLog) log = nullptr;
  decltype(&nvJitLinkGetLinkedCubinSize) cubin_size = nullptr;
  decltype(&nvJitLinkGetLinkedCubin) cubin = nullptr;
  decltype(&nvJitLinkDestroy) destroy = nullptr;
  decltype(&nvJitLinkVersion) version = nullptr;
};
Linker linker;
std::string why_not = "nvJitLink was not looked for";

#define XG_TEXT_OF(name) #name
#define XG_NAME_OF(name) XG_TEXT_OF(name)  // the header's macros add the version to a name

// As the system finds it, or where the toolkit was that this was built with.
void* open_linker() {
  const std::string name = fmt::format("libnvJitLink.so.{}", XG_CUDA_MAJOR);
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? library : dlopen((XG_CUDA_LIBRARIES "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

template <class Function>
bool take(void* library, const char* name, Function& to) {
  to = reinterpret_cast<Function>(dlsym(library, name));
  return to != nullptr;
}

std::string log_of(nvJitLinkHandle handle) {
  std::size_t size = 0;
  if (linker.log_size(handle, &size) != NVJITLINK_SUCCESS || size == 0) return "it does not say why";
  std::string log(size, '\0');
  linker.log(handle, log.data());
  log.resize(log.find_last_not_of(std::string_view("\n\0", 2)) + 1);
  return log;
}

tl::expected<std::vector<char>, std::string> link(const std::vector<char>& module,
                                                  const std::string& target) {
  // Its own cache on disk is nobody's to look after.
  std::array options{target.c_str(), "-no-cache"};
  nvJitLinkHandle handle = nullptr;
  if (linker.create(&handle, options.size(), options.data()) != NVJITLINK_SUCCESS)
    return tl::unexpected(
        fmt::format("nvJitLink {} cannot make code for {}", ptx_compiler_version(), target));
  tl::expected<std::vector<char>, std::string> cubin;
  std::size_t size = 0;
  if (linker.add(handle, NVJITLINK_INPUT_FATBIN, module.data(), module.size(), "stages") ==
          NVJITLINK_SUCCESS &&
      linker.complete(handle) == NVJITLINK_SUCCESS && linker.cubin_size(handle, &size) == NVJITLINK_SUCCESS) {
    cubin->resize(size);
    linker.cubin(handle, cubin->data());
  } else {
    cubin = tl::unexpected("nvJitLink: " + log_of(handle));
  }
  linker.destroy(&handle);
  return cubin;
}

}  // namespace

tl::expected<void, std::string> load_ptx_compiler() {
  if (linker.version != nullptr) return {};
  void* const library = open_linker();
  if (library == nullptr) {
    const char* const error = dlerror();
    why_not =
        fmt::format("nvJitLink of CUDA {} is not installed ({}): install libnvjitlink of the CUDA toolkit",
                    XG_CUDA_MAJOR, error != nullptr ? error : "not found");
    return tl::unexpected(why_not);
  }
  const bool whole = take(library, XG_NAME_OF(nvJitLinkCreate), linker.create) &&
                     take(library, XG_NAME_OF(nvJitLinkAddData), linker.add) &&
                     take(library, XG_NAME_OF(nvJitLinkComplete), linker.complete) &&
                     take(library, XG_NAME_OF(nvJitLinkGetErrorLogSize), linker.log_size) &&
                     take(library, XG_NAME_OF(nvJitLinkGetErrorLog), linker.log) &&
                     take(library, XG_NAME_OF(nvJitLinkGetLinkedCubinSize), linker.cubin_size) &&
                     take(library, XG_NAME_OF(nvJitLinkGetLinkedCubin), linker.cubin) &&
                     take(library, XG_NAME_OF(nvJitLinkDestroy), linker.destroy) &&
                     take(library, "nvJitLinkVersion", linker.version);
  if (whole) return {};
  linker = {};
  why_not = "nvJitLink is older than the CUDA toolkit that this was built with: install that toolkit's";
  return tl::unexpected(why_not);
}

std::string ptx_compiler_version() {
  unsigned major = 0, minor = 0;
  if (linker.version == nullptr || linker.version(&major, &minor) != NVJITLINK_SUCCESS) return "";
  return fmt::format("{}.{}", major, minor);
}

tl::expected<gpu::DeviceCode, std::string> compile_ptx(const gpu::DeviceCode& ptx, u32 architecture) {
  if (linker.version == nullptr) return tl::unexpected(why_not);
  gpu::DeviceCode code;
  code.id = fmt::format("made of {} for {}", ptx.id, architecture);
  code.architecture = architecture;
  for (const auto& module : ptx.modules) {
    auto cubin = link(module, fmt::format("-arch=sm_{}", architecture));
    if (!cubin) return tl::unexpected(std::move(cubin.error()));
    code.modules.push_back(*std::move(cubin));
  }
  return code;
}

}  // namespace xdpgpu::compiler
