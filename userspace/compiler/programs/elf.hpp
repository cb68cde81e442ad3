// SPDX-License-Identifier: MIT
//
// userspace/compiler/programs/elf.hpp: what libbpf does not tell of an ELF object.
#pragma once

#include <cstddef>
#include <span>

#include "userspace/compiler/programs/check.hpp"

namespace xdpgpu::programs {

// Of all its sections of zeros together (.bss), which take no room in an object and much where it is read.
inline constexpr u64 kMostZeroBytes = u64{8} << 20;

struct ElfObject {
  // A place in the section .maps in which an address is to stand: of a program, or of another map.
  struct Pointer {
    u64 at;  // bytes from the section's begin
    std::string to;
  };
  std::vector<Pointer> pointers;
  // The object without those: libbpf would want to fill such places by calls of the kernel.
  std::vector<std::byte> bytes;
  struct Function {
    std::string name, section;
    u64 begin, end;  // bytes from the section's begin
  };
  std::vector<Function> functions;
  std::vector<std::string> undefined;    // names of what is to be found elsewhere
  std::vector<std::byte> types_of_code;  // the section .BTF.ext
  std::string license;
};

// The error says what is wrong with the object, behind "it ...".
Result<ElfObject> read_elf(std::span<const std::byte> object);

}  // namespace xdpgpu::programs
