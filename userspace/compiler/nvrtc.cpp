// SPDX-License-Identifier: MIT
#include "userspace/compiler/nvrtc.hpp"

#include <fmt/format.h>
#include <nvrtc.h>

#include <array>

#include "userspace/compiler/cuda_library.hpp"

namespace xdpgpu::compiler {
namespace {

struct Nvrtc {
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcVersion) version = nullptr;
  bool caches = false;   // on disk, unless it is told not to
  bool hurries = false;  // if it is told to
};
Nvrtc nvrtc;
std::string why_not = "NVRTC was not looked for";

constexpr const char* kNoCache = "--no-cache";
// It takes less time for a program, and its code is no slower (bench-programs).
constexpr const char* kHurry = "--Ofast-compile=mid";

std::string first_line_of_log(nvrtcProgram program) {
  std::size_t size = 0;
  if (nvrtc.log_size(program, &size) != NVRTC_SUCCESS || size <= 1) return "it does not say why";
  std::string log(size, '\0');
  nvrtc.log(program, log.data());
  const auto begin = log.find_first_not_of('\n');
  if (begin == std::string::npos) return "it does not say why";
  return log.substr(begin, log.find_first_of(std::string_view("\n\0", 2), begin) - begin);
}

// Of the smallest program, for whichever GPU.
bool compiles_with(const char* option) {
  nvrtcProgram program = nullptr;
  if (nvrtc.create(&program, "__device__ void nothing() {}", "nothing.cu", 0, nullptr, nullptr) !=
      NVRTC_SUCCESS)
    return false;
  std::array options{"-arch=sm_90", "--relocatable-device-code=true", option};
  const bool compiled =
      nvrtc.compile(program, static_cast<int>(options.size()), options.data()) == NVRTC_SUCCESS;
  nvrtc.destroy(&program);
  return compiled;
}

}  // namespace

tl::expected<void, std::string> load_nvrtc() {
  if (nvrtc.version != nullptr) return {};
  const auto refuse = [](std::string why) {
    nvrtc = {};
    why_not = std::move(why);
    return tl::unexpected(why_not);
  };
  const auto library = open_cuda_library("libnvrtc.so");
  if (!library)
    return refuse(
        fmt::format("NVRTC of CUDA {} is not installed ({}): install cuda-nvrtc of the CUDA toolkit",
                    XG_CUDA_MAJOR, library.error()));
  const bool whole =
      take(*library, "nvrtcCreateProgram", nvrtc.create) &&
      take(*library, "nvrtcCompileProgram", nvrtc.compile) &&
      take(*library, "nvrtcGetProgramLogSize", nvrtc.log_size) &&
      take(*library, "nvrtcGetProgramLog", nvrtc.log) &&
      take(*library, "nvrtcGetCUBINSize", nvrtc.cubin_size) && take(*library, "nvrtcGetCUBIN", nvrtc.cubin) &&
      take(*library, "nvrtcDestroyProgram", nvrtc.destroy) && take(*library, "nvrtcVersion", nvrtc.version);
  if (!whole)
    return refuse("NVRTC is older than the CUDA toolkit that this was built with: install that toolkit's");
  // What it compiles first has it load its second library (libnvrtc-builtins).
  nvrtc.caches = compiles_with(kNoCache);
  nvrtc.hurries = compiles_with(kHurry);
  if (!nvrtc.caches && !compiles_with("--std=c++20"))
    return refuse(
        fmt::format("NVRTC {} compiles nothing here: see whether its library libnvrtc-builtins is "
                    "installed beside it",
                    nvrtc_version()));
  return {};
}

std::string nvrtc_version() {
  int major = 0, minor = 0;
  if (nvrtc.version == nullptr || nvrtc.version(&major, &minor) != NVRTC_SUCCESS) return "";
  return fmt::format("{}.{}", major, minor);
}

bool nvrtc_hurries() { return nvrtc.hurries; }

tl::expected<std::vector<char>, std::string> compile_relocatable(
    const std::string& source, std::span<const gpu::programs::Header> headers,
    std::span<const char* const> options, u32 architecture) {
  if (nvrtc.version == nullptr) return tl::unexpected(why_not);
  std::vector<std::string> kept;  // with the zeros that it wants behind them
  kept.reserve(2 * headers.size());
  std::vector<const char*> names, texts;
  for (const auto& header : headers) {
    names.push_back(kept.emplace_back(header.name).c_str());
    texts.push_back(kept.emplace_back(header.text).c_str());
  }
  nvrtcProgram program = nullptr;
  if (nvrtc.create(&program, source.c_str(), "program.cu", static_cast<int>(names.size()), texts.data(),
                   names.data()) != NVRTC_SUCCESS)
    return tl::unexpected(std::string("NVRTC: there is not enough memory for a program"));
  const std::string target = fmt::format("-arch=sm_{}", architecture);
  std::vector<const char*> all{"-std=c++20", "-default-device", target.c_str(),
                               "--relocatable-device-code=true"};
  if (nvrtc.caches) all.push_back(kNoCache);
  if (nvrtc.hurries) all.push_back(kHurry);
  all.insert(all.end(), options.begin(), options.end());
  tl::expected<std::vector<char>, std::string> cubin;
  std::size_t size = 0;
  if (nvrtc.compile(program, static_cast<int>(all.size()), all.data()) == NVRTC_SUCCESS &&
      nvrtc.cubin_size(program, &size) == NVRTC_SUCCESS) {
    cubin->resize(size);
    nvrtc.cubin(program, cubin->data());
  } else {
    cubin = tl::unexpected("NVRTC: " + first_line_of_log(program));
  }
  nvrtc.destroy(&program);
  return cubin;
}

}  // namespace xdpgpu::compiler
