// SPDX-License-Identifier: MIT
#include "bench/link/toolchain.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nvJitLink.h>
#include <nvrtc.h>

#include <array>

namespace xdpgpu::bench::link {
namespace {

#define XG_TEXT_OF(name) #name
#define XG_NAME_OF(name) XG_TEXT_OF(name)  // of what a header's macro makes of it

struct Toolchain {
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
  decltype(&nvrtcGetLTOIRSize) lto_size = nullptr;
  decltype(&nvrtcGetLTOIR) lto = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvJitLinkCreate) link_create = nullptr;
  decltype(&nvJitLinkAddData) link_add = nullptr;
  decltype(&nvJitLinkComplete) link_complete = nullptr;
  decltype(&nvJitLinkGetErrorLogSize) link_log_size = nullptr;
  decltype(&nvJitLinkGetErrorLog) link_log = nullptr;
  decltype(&nvJitLinkGetLinkedCubinSize) link_cubin_size = nullptr;
  decltype(&nvJitLinkGetLinkedCubin) link_cubin = nullptr;
  decltype(&nvJitLinkDestroy) link_destroy = nullptr;
};
Toolchain tools;

// As the system finds it, or where the toolkit was that this was built with.
Result<void*> open(const std::vector<std::string>& names) {
  for (const auto& name : names)
    for (const std::string& path : {name, XG_CUDA_LIBRARIES "/" + name})
      if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return tl::unexpected(fmt::format("{} is not installed: {}", names.front(), dlerror()));
}

template <class Function>
bool take(void* library, const char* name, Function& to) {
  to = reinterpret_cast<Function>(dlsym(library, name));
  return to != nullptr;
}

}  // namespace

Result<void> load_toolchain() {
  const auto nvrtc = open({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  if (!nvrtc) return tl::unexpected(nvrtc.error());
  const auto linker = open({"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"});
  if (!linker) return tl::unexpected(linker.error());
  const bool whole =
      take(*nvrtc, "nvrtcCreateProgram", tools.create) &&
      take(*nvrtc, "nvrtcCompileProgram", tools.compile) &&
      take(*nvrtc, "nvrtcGetProgramLogSize", tools.log_size) &&
      take(*nvrtc, "nvrtcGetProgramLog", tools.log) && take(*nvrtc, "nvrtcGetCUBINSize", tools.cubin_size) &&
      take(*nvrtc, "nvrtcGetCUBIN", tools.cubin) && take(*nvrtc, "nvrtcGetLTOIRSize", tools.lto_size) &&
      take(*nvrtc, "nvrtcGetLTOIR", tools.lto) && take(*nvrtc, "nvrtcDestroyProgram", tools.destroy) &&
      take(*linker, XG_NAME_OF(nvJitLinkCreate), tools.link_create) &&
      take(*linker, XG_NAME_OF(nvJitLinkAddData), tools.link_add) &&
      take(*linker, XG_NAME_OF(nvJitLinkComplete), tools.link_complete) &&
      take(*linker, XG_NAME_OF(nvJitLinkGetErrorLogSize), tools.link_log_size) &&
      take(*linker, XG_NAME_OF(nvJitLinkGetErrorLog), tools.link_log) &&
      take(*linker, XG_NAME_OF(nvJitLinkGetLinkedCubinSize), tools.link_cubin_size) &&
      take(*linker, XG_NAME_OF(nvJitLinkGetLinkedCubin), tools.link_cubin) &&
      take(*linker, XG_NAME_OF(nvJitLinkDestroy), tools.link_destroy);
  if (!whole)
    return tl::unexpected(std::string("NVRTC or nvJitLink is of another version than this was built with"));
  return {};
}

Result<Code> compile(const std::string& source, const std::string& architecture, Form form,
                     const std::vector<std::string>& options,
                     const std::map<std::string, std::string>& headers) {
  std::vector<const char*> names, texts;
  for (const auto& [name, text] : headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  nvrtcProgram program = nullptr;
  if (tools.create(&program, source.c_str(), "function.cu", static_cast<int>(names.size()), texts.data(),
                   names.data()) != NVRTC_SUCCESS)
    return tl::unexpected(std::string("NVRTC takes no program"));
  const std::string target = "--gpu-architecture=sm_" + architecture;
  std::vector<const char*> all{target.c_str(), "--relocatable-device-code=true", "--std=c++20", "--no-cache"};
  if (form == Form::lto) all.push_back("--dlink-time-opt");
  for (const auto& option : options) all.push_back(option.c_str());
  Result<Code> code = Code();
  if (tools.compile(program, static_cast<int>(all.size()), all.data()) != NVRTC_SUCCESS) {
    std::size_t size = 0;
    tools.log_size(program, &size);
    std::string log(size, '\0');
    tools.log(program, log.data());
    code = tl::unexpected("NVRTC: " + log);
  } else {
    std::size_t size = 0;
    (form == Form::lto ? tools.lto_size : tools.cubin_size)(program, &size);
    code->resize(size);
    (form == Form::lto ? tools.lto : tools.cubin)(program, code->data());
  }
  tools.destroy(&program);
  return code;
}

Result<Code> link(const std::vector<std::pair<std::string_view, Form>>& parts,
                  const std::string& architecture, Form form) {
  const std::string target = "-arch=sm_" + architecture;
  // Else what was linked before comes from a cache on disk.
  std::vector<const char*> options{target.c_str(), "-no-cache"};
  if (form == Form::lto) options.push_back("-lto");
  nvJitLinkHandle linker = nullptr;
  if (tools.link_create(&linker, static_cast<u_int32_t>(options.size()), options.data()) != NVJITLINK_SUCCESS)
    return tl::unexpected(std::string("nvJitLink takes no order"));
  bool good = true;
  int number = 0;
  for (const auto& [part, of] : parts) {
    const std::string name = fmt::format("part {}", ++number);
    // What nvcc makes of the intermediate code is a fat binary, which begins with 0xba55ed50.
    const bool fat = part.starts_with("\x50\xed\x55\xba");
    const nvJitLinkInputType type = fat               ? NVJITLINK_INPUT_FATBIN
                                    : of == Form::lto ? NVJITLINK_INPUT_LTOIR
                                                      : NVJITLINK_INPUT_CUBIN;
    good = good && tools.link_add(linker, type, part.data(), part.size(), name.c_str()) == NVJITLINK_SUCCESS;
  }
  good = good && tools.link_complete(linker) == NVJITLINK_SUCCESS;
  Result<Code> code = Code();
  std::size_t size = 0;
  if (good && tools.link_cubin_size(linker, &size) == NVJITLINK_SUCCESS) {
    code->resize(size);
    tools.link_cubin(linker, code->data());
  } else {
    tools.link_log_size(linker, &size);
    std::string log(size, '\0');
    tools.link_log(linker, log.data());
    code = tl::unexpected("nvJitLink: " + log);
  }
  tools.link_destroy(&linker);
  return code;
}

}  // namespace xdpgpu::bench::link
