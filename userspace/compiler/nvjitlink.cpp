// SPDX-License-Identifier: MIT
#include "userspace/compiler/nvjitlink.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <nvJitLink.h>

#include <array>
#include <string_view>

#include "userspace/compiler/cuda_library.hpp"

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

std::string log_of(nvJitLinkHandle handle) {
  std::size_t size = 0;
  if (linker.log_size(handle, &size) != NVJITLINK_SUCCESS || size == 0) return "it does not say why";
  std::string log(size, '\0');
  linker.log(handle, log.data());
  log.resize(log.find_last_not_of(std::string_view("\n\0", 2)) + 1);
  return log;
}

nvJitLinkInputType type_of(std::span<const char> bytes) {
  return std::string_view(bytes.data(), bytes.size()).starts_with(ELFMAG) ? NVJITLINK_INPUT_CUBIN
                                                                          : NVJITLINK_INPUT_FATBIN;
}

}  // namespace

tl::expected<void, std::string> load_linker() {
  if (linker.version != nullptr) return {};
  const auto library = open_cuda_library("libnvJitLink.so");
  if (!library) {
    why_not =
        fmt::format("nvJitLink of CUDA {} is not installed ({}): install libnvjitlink of the CUDA toolkit",
                    XG_CUDA_MAJOR, library.error());
    return tl::unexpected(why_not);
  }
  const bool whole = take(*library, XG_NAME_OF(nvJitLinkCreate), linker.create) &&
                     take(*library, XG_NAME_OF(nvJitLinkAddData), linker.add) &&
                     take(*library, XG_NAME_OF(nvJitLinkComplete), linker.complete) &&
                     take(*library, XG_NAME_OF(nvJitLinkGetErrorLogSize), linker.log_size) &&
                     take(*library, XG_NAME_OF(nvJitLinkGetErrorLog), linker.log) &&
                     take(*library, XG_NAME_OF(nvJitLinkGetLinkedCubinSize), linker.cubin_size) &&
                     take(*library, XG_NAME_OF(nvJitLinkGetLinkedCubin), linker.cubin) &&
                     take(*library, XG_NAME_OF(nvJitLinkDestroy), linker.destroy) &&
                     take(*library, "nvJitLinkVersion", linker.version);
  if (whole) return {};
  linker = {};
  why_not = "nvJitLink is older than the CUDA toolkit that this was built with: install that toolkit's";
  return tl::unexpected(why_not);
}

std::string linker_version() {
  unsigned major = 0, minor = 0;
  if (linker.version == nullptr || linker.version(&major, &minor) != NVJITLINK_SUCCESS) return "";
  return fmt::format("{}.{}", major, minor);
}

tl::expected<std::vector<char>, std::string> link_code(std::span<const LinkInput> inputs, u32 architecture) {
  if (linker.version == nullptr) return tl::unexpected(why_not);
  const std::string target = fmt::format("-arch=sm_{}", architecture);
  // Its own cache on disk is nobody's to look after.
  std::array options{target.c_str(), "-no-cache"};
  nvJitLinkHandle handle = nullptr;
  if (linker.create(&handle, options.size(), options.data()) != NVJITLINK_SUCCESS)
    return tl::unexpected(fmt::format("nvJitLink {} cannot make code for {}", linker_version(), target));
  bool good = true;
  for (const auto& input : inputs)
    good = good && linker.add(handle, type_of(input.bytes), input.bytes.data(), input.bytes.size(),
                              input.name.c_str()) == NVJITLINK_SUCCESS;
  tl::expected<std::vector<char>, std::string> cubin;
  std::size_t size = 0;
  if (good && linker.complete(handle) == NVJITLINK_SUCCESS &&
      linker.cubin_size(handle, &size) == NVJITLINK_SUCCESS) {
    cubin->resize(size);
    linker.cubin(handle, cubin->data());
  } else {
    cubin = tl::unexpected("nvJitLink: " + log_of(handle));
  }
  linker.destroy(&handle);
  return cubin;
}

}  // namespace xdpgpu::compiler
