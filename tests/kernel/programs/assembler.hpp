// SPDX-License-Identifier: MIT
//
// tests/kernel/programs/assembler.hpp: programs written in the test: a function an instruction, and jumps by
// name.
//
//   Assembly a;
//   a(load(BPF_W, r2, r1, 0));
//   a.to("out", jump_k(BPF_JEQ, r2, 0));
//   a(move_k(r0, XDP_DROP), leave());
//   a.label("out")(move_k(r0, XDP_PASS), leave());
//   run(a.code());
#pragma once

#include <linux/bpf.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/programs.hpp"

namespace xdpgpu::test {

using gpu::programs::Instruction;
using Code = std::vector<Instruction>;

enum Register : u8 { r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10 };

inline Instruction made(int opcode, u8 destination, u8 source, int offset, std::int32_t immediate) {
  return {static_cast<u8>(opcode), destination, source, static_cast<std::int16_t>(offset), immediate};
}

// operation: BPF_ADD and so on. _k: with an immediate instead of a register. 32: of the class ALU.
inline Instruction alu(int operation, u8 d, u8 s) { return made(BPF_ALU64 | operation | BPF_X, d, s, 0, 0); }
inline Instruction alu_k(int operation, u8 d, std::int32_t k) {
  return made(BPF_ALU64 | operation, d, 0, 0, k);
}
inline Instruction alu32(int operation, u8 d, u8 s) { return made(BPF_ALU | operation | BPF_X, d, s, 0, 0); }
inline Instruction alu32_k(int operation, u8 d, std::int32_t k) {
  return made(BPF_ALU | operation, d, 0, 0, k);
}
inline Instruction move(u8 d, u8 s) { return alu(BPF_MOV, d, s); }
inline Instruction move_k(u8 d, std::int32_t k) { return alu_k(BPF_MOV, d, k); }

// size: BPF_B, BPF_H, BPF_W, BPF_DW.
inline Instruction load(int size, u8 d, u8 s, int at) { return made(BPF_LDX | BPF_MEM | size, d, s, at, 0); }
inline Instruction load_signed(int size, u8 d, u8 s, int at) {
  return made(BPF_LDX | 0x80 | size, d, s, at, 0);
}
inline Instruction store(int size, u8 d, int at, u8 s) { return made(BPF_STX | BPF_MEM | size, d, s, at, 0); }
inline Instruction store_k(int size, u8 d, int at, std::int32_t k) {
  return made(BPF_ST | BPF_MEM | size, d, 0, at, k);
}
// operation: BPF_ADD | BPF_FETCH and so on.
inline Instruction atomically(int size, int operation, u8 d, int at, u8 s) {
  return made(BPF_STX | BPF_ATOMIC | size, d, s, at, operation);
}

inline Instruction jump(int operation, u8 d, u8 s, int by = 0) {
  return made(BPF_JMP | operation | BPF_X, d, s, by, 0);
}
inline Instruction jump_k(int operation, u8 d, std::int32_t k, int by = 0) {
  return made(BPF_JMP | operation, d, 0, by, k);
}
inline Instruction jump32(int operation, u8 d, u8 s, int by = 0) {
  return made(BPF_JMP32 | operation | BPF_X, d, s, by, 0);
}
inline Instruction jump32_k(int operation, u8 d, std::int32_t k, int by = 0) {
  return made(BPF_JMP32 | operation, d, 0, by, k);
}
inline Instruction always(int by = 0) { return made(BPF_JMP | BPF_JA, 0, 0, by, 0); }
inline Instruction call(int helper) { return made(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }
inline Instruction leave() { return made(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

// Of two instructions each.
inline Code two(u8 d, u8 source, u32 first, u32 second) {
  return {made(BPF_LD | BPF_IMM | BPF_DW, d, source, 0, static_cast<std::int32_t>(first)),
          made(0, 0, 0, 0, static_cast<std::int32_t>(second))};
}
inline Code number(u8 d, u64 value) {
  return two(d, 0, static_cast<u32>(value), static_cast<u32>(value >> 32));
}
inline Code map(u8 d, u32 number) { return two(d, BPF_PSEUDO_MAP_IDX, number, 0); }
inline Code map_value(u8 d, u32 number, u32 at) { return two(d, BPF_PSEUDO_MAP_IDX_VALUE, number, at); }

class Assembly {
 public:
  template <class... Parts>
  Assembly& operator()(const Parts&... parts) {
    (add(parts), ...);
    return *this;
  }
  Assembly& label(const std::string& name) {
    labels_[name] = code_.size();
    return *this;
  }
  // A jump there.
  Assembly& to(const std::string& name, const Instruction& instruction) {
    uses_[code_.size()] = name;
    return (*this)(instruction);
  }
  Assembly& call_function(const std::string& name) {
    return to(name, made(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, 0));
  }
  // A pointer to the function that begins there.
  Assembly& function(u8 d, const std::string& name) {
    uses_[code_.size()] = name;
    return (*this)(two(d, BPF_PSEUDO_FUNC, 0, 0));
  }

  Code code() const {
    Code code = code_;
    for (const auto& [at, name] : uses_) {
      const auto label = labels_.find(name);
      if (label == labels_.end()) throw std::logic_error("no label " + name);
      const auto by = static_cast<std::int32_t>(label->second) - static_cast<std::int32_t>(at) - 1;
      Instruction& i = code[at];
      const bool in_immediate = i.opcode == (BPF_JMP | BPF_CALL) || i.opcode == (BPF_JMP32 | BPF_JA) ||
                                BPF_CLASS(i.opcode) == BPF_LD;
      if (in_immediate)
        i.immediate = by;
      else
        i.offset = static_cast<std::int16_t>(by);
    }
    return code;
  }

 private:
  void add(const Instruction& instruction) { code_.push_back(instruction); }
  void add(const Code& code) { code_.insert(code_.end(), code.begin(), code.end()); }

  Code code_;
  std::map<std::string, std::size_t> labels_;
  std::map<std::size_t, std::string> uses_;
};

}  // namespace xdpgpu::test
