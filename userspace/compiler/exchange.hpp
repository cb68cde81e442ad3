// SPDX-License-Identifier: MIT
//
// userspace/compiler/exchange.hpp: what the data plane and the compiler hand each other, each as one piece of
// sealed memory: an order, with the policy's text and all its files; and the answer, with the artifacts that
// the other side does not have, or why there are none. Whatever stands in such memory is read or refused.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "gpu/device_code.hpp"
#include "gpu/program_translation.hpp"
#include "userspace/compiler/artifacts.hpp"
#include "userspace/compiler/sealed_memory.hpp"

namespace xdpgpu::compiler {

// Bytes that the memory may have: an order is a policy with its files, an answer what is made of them.
inline constexpr u64 kMostOrder = u64{1100} << 20, kMostAnswer = u64{2} << 30;

struct Order {
  PolicySource source;
  Target target;
  std::set<ArtifactId> has;  // what whoever orders has already
};

struct Answer {
  Recipe recipe;
  Artifacts artifacts;  // those that whoever ordered has not
};

Result<kernel::Fd> write_order(const PolicySource& source, const Target& target, const Artifacts& has);
Result<Order> read_order(const SealedMemory& memory);

// had: what does not go along.
Result<kernel::Fd> write_answer(const Made& made, const std::set<ArtifactId>& had);
Result<kernel::Fd> write_answer(const Refusal& refusal);
// The outer error is a sentence about the memory, the inner one is the compiler's.
Result<tl::expected<Answer, Refusal>> read_answer(const SealedMemory& memory);

// Machine code is ordered for one compute capability: what this build has PTX for is compiled. Nothing: the
// memory is another order.
Result<kernel::Fd> write_code_order(u32 architecture);
std::optional<u32> read_code_order(const SealedMemory& memory);

// Machine code that has programs in it (translations.hpp) is ordered with what they decode to, and nothing
// else: no policy's text and no object's bytes.
struct TranslationOrder {
  std::vector<gpu::programs::Decoded> programs;
  u32 architecture = 0;  // the compute capability
};
// Programs of one order; of one program instructions, of which each is four words, and words of its tables.
inline constexpr std::size_t kMostTranslated = 64, kMostTranslatedInstructions = 1'000'000,
                             kMostTranslatedTableWords = 4'000'000;
// The error is a sentence: there are too many, or there is too much of one.
Result<kernel::Fd> write_translation_order(std::span<const gpu::programs::Decoded> programs,
                                           u32 architecture);
// Nothing: the memory is another order, or more than can be ordered.
std::optional<TranslationOrder> read_translation_order(const SealedMemory& memory);

// The answer to either, of a compiler or as it was kept. The outer error is a sentence about the bytes, the
// inner one is the compiler's.
Result<kernel::Fd> write_code_answer(const gpu::DeviceCode& code);
Result<tl::expected<gpu::DeviceCode, Refusal>> read_code_answer(std::span<const std::byte> bytes);

}  // namespace xdpgpu::compiler
