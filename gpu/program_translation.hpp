// SPDX-License-Identifier: MIT
//
// gpu/program_translation.hpp: XDP programs as the source of a function each, for devices whose compiler is
// at hand: what an instruction says is in the text, and nothing is decoded for a packet. The text is C++ of
// the stages' dialect; CUDA's compiler and g++ read it. What it does for packets that seldom come is not in
// there: it hands such a packet over, as it stands, to the interpreter (gpu/stages/program_code.h), which
// goes on with the same instruction. So both always give one answer.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu {
class Pipelines;
}

namespace xdpgpu::gpu::programs {

// What is translated: words of a set (Image), a program and those that it goes on with. Whatever stands in
// there, translated() reads it or refuses it.
struct Decoded {
  std::vector<u32> code, tables;
  bool operator==(const Decoded&) const = default;
};

// By which a pipeline names the program that it runs (XG_PROGRAM_BODY_NAME): a hash of the words. Of programs
// that are equal in it the text is equal.
u64 name_of(std::span<const u32> code, std::span<const u32> tables);

// The source of `extern "C" void xg_program_<name>(xg_program_machine&)`, the name with 16 digits. It
// includes translation_headers(). The error is a sentence: its words are none of a program, or there is too
// much of it.
tl::expected<std::string, std::string> translated(const Decoded& program);

// The source of xg_program_run_there() (gpu/stages/program_units.h), which runs these and interprets all
// others.
std::string chosen_of(std::span<const u64> names);

// What both sources include, by the names that they include it by: all of it, the standard library's among
// it.
struct Header {
  std::string_view name, text;
};
std::span<const Header> translation_headers();
// The options of CUDA's compiler that go with them: what they are written for, and how many registers a
// thread has in the kernels that a program is linked to.
std::span<const char* const> translation_options();

// The programs that the pipelines' stages run, each once.
std::vector<Decoded> programs_of(const Pipelines& pipelines);

}  // namespace xdpgpu::gpu::programs
