// SPDX-License-Identifier: MIT
#include "gpu/reference/program_instructions.hpp"

#include <linux/bpf.h>

#include <limits>

namespace xdpgpu::gpu::reference {
namespace {

using programs::Instruction;

template <class To>
u64 extended(u64 value) {
  return static_cast<u64>(std::int64_t{static_cast<To>(value)});
}

// The lower `bits` of it with the order of their bytes turned around.
u64 swapped(u64 value, std::int32_t bits) {
  if (bits == 16) return __builtin_bswap16(static_cast<u16>(value));
  if (bits == 32) return __builtin_bswap32(static_cast<u32>(value));
  return __builtin_bswap64(value);
}

u64 lower(u64 value, std::int32_t bits) { return bits == 64 ? value : value & ((u64{1} << bits) - 1); }

// BPF_END: of the class ALU to little or to big endian, of ALU64 whatever it was.
std::optional<u64> swap(const Instruction& i, u64 value) {
  const bool to_big = BPF_SRC(i.opcode) == BPF_TO_BE, any = BPF_CLASS(i.opcode) == BPF_ALU64;
  if ((i.immediate != 16 && i.immediate != 32 && i.immediate != 64) || i.source != 0 || i.offset != 0)
    return std::nullopt;
  if (any && to_big) return std::nullopt;
  return any || to_big ? swapped(value, i.immediate) : lower(value, i.immediate);
}

// BPF_MOV: all of it, or its lower bits as many as the offset says, with their sign.
std::optional<u64> moved(const Instruction& i, u64 operand) {
  if (i.offset != 0 && BPF_SRC(i.opcode) != BPF_X) return std::nullopt;
  switch (i.offset) {
    case 0:
      return operand;
    case 8:
      return extended<std::int8_t>(operand);
    case 16:
      return extended<std::int16_t>(operand);
    case 32:
      return BPF_CLASS(i.opcode) == BPF_ALU64 ? std::optional(extended<std::int32_t>(operand)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

template <class Signed, class Unsigned>
std::optional<Unsigned> divided(const Instruction& i, Unsigned a, Unsigned b) {
  const bool modulo = BPF_OP(i.opcode) == BPF_MOD;
  if (i.offset != 0 && i.offset != 1) return std::nullopt;
  // By nothing: a quotient is 0, a remainder is all that there was.
  if (b == 0) return modulo ? a : Unsigned{0};
  if (i.offset == 0) return modulo ? a % b : a / b;
  // C++ has no word for the least number divided by -1. It is itself, and leaves nothing.
  if (static_cast<Signed>(b) == -1) return modulo ? Unsigned{0} : Unsigned{0} - a;
  const Signed x = static_cast<Signed>(a), y = static_cast<Signed>(b);
  return static_cast<Unsigned>(modulo ? x % y : x / y);
}

// With numbers of one width, both classes say the same.
template <class Signed, class Unsigned>
std::optional<Unsigned> arithmetic(const Instruction& i, Unsigned a, Unsigned b) {
  constexpr Unsigned kShift = std::numeric_limits<Unsigned>::digits - 1;
  const u8 operation = BPF_OP(i.opcode);
  if (operation == BPF_DIV || operation == BPF_MOD) return divided<Signed, Unsigned>(i, a, b);
  if (i.offset != 0) return std::nullopt;
  switch (operation) {
    case BPF_ADD:
      return a + b;
    case BPF_SUB:
      return a - b;
    case BPF_MUL:
      return a * b;
    case BPF_OR:
      return a | b;
    case BPF_AND:
      return a & b;
    case BPF_LSH:
      return a << (b & kShift);
    case BPF_RSH:
      return a >> (b & kShift);
    case BPF_ARSH:
      return static_cast<Unsigned>(static_cast<Signed>(a) >> (b & kShift));
    case BPF_XOR:
      return a ^ b;
    case BPF_NEG:
      if (BPF_SRC(i.opcode) == BPF_X || i.immediate != 0) return std::nullopt;
      return Unsigned{0} - a;
    default:
      return std::nullopt;
  }
}

template <class Signed, class Unsigned>
std::optional<bool> condition(u8 operation, Unsigned a, Unsigned b) {
  const Signed x = static_cast<Signed>(a), y = static_cast<Signed>(b);
  switch (operation) {
    case BPF_JEQ:
      return a == b;
    case BPF_JGT:
      return a > b;
    case BPF_JGE:
      return a >= b;
    case BPF_JSET:
      return (a & b) != 0;
    case BPF_JNE:
      return a != b;
    case BPF_JSGT:
      return x > y;
    case BPF_JSGE:
      return x >= y;
    case BPF_JLT:
      return a < b;
    case BPF_JLE:
      return a <= b;
    case BPF_JSLT:
      return x < y;
    case BPF_JSLE:
      return x <= y;
    default:
      return std::nullopt;
  }
}

// The register, or the immediate with its sign; the field that is not used has to be 0.
std::optional<u64> operand_of(const Instruction& i, u64 source) {
  if (BPF_SRC(i.opcode) == BPF_X) return i.immediate == 0 ? std::optional(source) : std::nullopt;
  return i.source == 0 ? std::optional(extended<std::int32_t>(static_cast<u32>(i.immediate))) : std::nullopt;
}

}  // namespace

std::optional<u64> computed(const Instruction& i, u64 destination, u64 source) {
  const bool wide = BPF_CLASS(i.opcode) == BPF_ALU64;
  const u8 operation = BPF_OP(i.opcode);
  if (operation == BPF_END) return swap(i, destination);
  const std::optional<u64> operand = operand_of(i, source);
  if (!operand) return std::nullopt;
  std::optional<u64> result;
  if (operation == BPF_MOV)
    result = moved(i, *operand);
  else if (wide)
    result = arithmetic<std::int64_t, u64>(i, destination, *operand);
  else
    result = arithmetic<std::int32_t, u32>(i, static_cast<u32>(destination), static_cast<u32>(*operand));
  // What has 32 bits leaves 0 in the others.
  if (result && !wide) *result = static_cast<u32>(*result);
  return result;
}

std::optional<bool> jumps(const Instruction& i, u64 destination, u64 source) {
  const std::optional<u64> operand = operand_of(i, source);
  if (!operand) return std::nullopt;
  if (BPF_CLASS(i.opcode) == BPF_JMP)
    return condition<std::int64_t, u64>(BPF_OP(i.opcode), destination, *operand);
  return condition<std::int32_t, u32>(BPF_OP(i.opcode), static_cast<u32>(destination),
                                      static_cast<u32>(*operand));
}

std::optional<AtomicResult> atomic(const Instruction& i, u32 bytes, u64 memory, u64 source, u64 r0) {
  const std::int32_t bits = static_cast<std::int32_t>(bytes) * 8;
  AtomicResult result;
  switch (i.immediate & ~BPF_FETCH) {
    case BPF_ADD:
      result.memory = memory + source;
      break;
    case BPF_OR:
      result.memory = memory | source;
      break;
    case BPF_AND:
      result.memory = memory & source;
      break;
    case BPF_XOR:
      result.memory = memory ^ source;
      break;
    case BPF_XCHG & ~BPF_FETCH:
      result.memory = source;
      break;
    case BPF_CMPXCHG & ~BPF_FETCH:
      result.memory = memory == lower(r0, bits) ? source : memory;
      break;
    default:
      return std::nullopt;
  }
  result.memory = lower(result.memory, bits);
  const bool compares = i.immediate == BPF_CMPXCHG;
  if (!compares && (i.immediate == (BPF_XCHG & ~BPF_FETCH) || i.immediate == (BPF_CMPXCHG & ~BPF_FETCH)))
    return std::nullopt;
  // The old value, wherever it goes, has zeros above it.
  if (compares)
    result.r0 = memory;
  else if ((i.immediate & BPF_FETCH) != 0)
    result.source = memory;
  return result;
}

}  // namespace xdpgpu::gpu::reference
