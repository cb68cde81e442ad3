// SPDX-License-Identifier: MIT
//
// userspace/compiler/programs/exchange.hpp: what whoever reads an object hands to whoever loads its program,
// as one piece of sealed memory. Whatever stands in such memory is a program within its bounds, or refused.
#pragma once

#include "userspace/compiler/programs/object.hpp"
#include "userspace/compiler/sealed_memory.hpp"

namespace xdpgpu::programs {

// Bytes that the memory may have.
inline constexpr u64 kMostExchanged = u64{64} << 20;

Result<kernel::Fd> write_program(const ObjectProgram& program);
// Why there is none; other characters than printable ASCII are "?".
Result<kernel::Fd> write_refusal(const std::string& why);
// The outer error is a sentence about the memory, the inner one is the reader's: printable, and of at most
// kMostSentenceBytes.
Result<Result<ObjectProgram>> read_exchanged(std::span<const std::byte> memory);
inline Result<Result<ObjectProgram>> read_exchanged(const compiler::SealedMemory& memory) {
  return read_exchanged(memory.bytes());
}

// The same as bytes: what a policy's files have in the place of an object, so that nobody who gets them reads
// one. The error is a sentence: it is no program within its bounds.
Result<std::string> to_bytes(const ObjectProgram& program);
Result<ObjectProgram> from_bytes(std::string_view bytes);

}  // namespace xdpgpu::programs
