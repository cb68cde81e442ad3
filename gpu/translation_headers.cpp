// SPDX-License-Identifier: MIT
#include <iterator>

#include "gpu/program_translation.hpp"

namespace xdpgpu::gpu::programs {
namespace {

// Of the standard library the stages take no more, and a compiler at run time may have none of it.
constexpr Header kHeaders[] = {
    // Where fields stand was looked at when this was built: NVRTC has no offsetof.
    {"cstddef",
     "struct xg_any { template <class T> constexpr bool operator==(T) const { return true; } };\n"
     "#define offsetof(type, field) xg_any{}\n"},
    {"cstdint",
     "namespace std {\n"
     "using int8_t = signed char;\nusing int16_t = short;\nusing int32_t = int;\nusing int64_t = long;\n"
     "using uint8_t = unsigned char;\nusing uint16_t = unsigned short;\nusing uint32_t = unsigned int;\n"
     "using uint64_t = unsigned long;\nusing uintptr_t = unsigned long;\n}\n"},
    // As files that stand beside them include them.
    {"types.h", "#include \"maps/types.h\"\n"},
    {"packet.h", "#include \"maps/packet.h\"\n"},
    {"flow.h", "#include \"maps/flow.h\"\n"},
#include "translation_headers.inc"
};

// As gpu/cuda/cuda.cmake has it of kernels that run programs, and what is linked to them.
constexpr const char* kOptions[] = {"-DXG_PROGRAM_LINES=4u", "-DXG_PROGRAM_NEAR=96u", "--maxrregcount=80"};

}  // namespace

std::span<const Header> translation_headers() { return kHeaders; }
std::span<const char* const> translation_options() { return kOptions; }

}  // namespace xdpgpu::gpu::programs
