// SPDX-License-Identifier: MIT
//
// Each instruction of RFC 9669 at its edges: the kernel, the reference and what the RFC says are one. What it
// says is written here once more, in numbers wide enough that nothing is lost on the way.
#include <fmt/format.h>

#include <functional>

#include "tests/kernel/programs/twins.hpp"

namespace xdpgpu::test {
namespace {

// Twice as wide as any register. ISO C++ has no such type.
__extension__ using Wide = __int128;
__extension__ using WideUnsigned = unsigned __int128;
using Expected = std::function<u64(u64, u64)>;

constexpr u64 kEdges[]{0,
                       1,
                       2,
                       7,
                       8,
                       31,
                       32,
                       33,
                       63,
                       64,
                       65,
                       0x7f,
                       0x80,
                       0xff,
                       0x7fff,
                       0x8000,
                       0xffff,
                       0x7fffffff,
                       0x80000000,
                       0xffffffff,
                       0x100000000,
                       0x100000001,
                       0x123456789abcdef0,
                       0x7fffffffffffffff,
                       0x8000000000000000,
                       0x8000000080000000,
                       0xfedcba9876543210,
                       0xffffffff80000000,
                       0xfffffffffffffffe,
                       0xffffffffffffffff};
constexpr std::int32_t kImmediates[]{
    0,           1,          2,     7,      31,     32,     33,         63,
    0x7f,        0x80,       0xff,  0x7fff, 0x8000, 0xffff, 0x7fffffff, -0x80000000ll,
    -0x7fffffff, 0x12345678, -0x80, -33,    -2,     -1};

constexpr int kA = 0, kB = 8, kC = 16, kResult = 24, kSource = 32, kR0 = 40, kBytes = 48;

// R8 has the packet's first number, R9 its second one, R0 its third; after `body` R8, R9 and R0 go into it.
Code program_of(const Code& body) {
  Assembly a;
  a(load(BPF_W, r7, r1, 0), load(BPF_W, r3, r1, 4), move(r4, r7), alu_k(BPF_ADD, r4, kBytes));
  a.to("out", jump(BPF_JGT, r4, r3));
  a(load(BPF_DW, r8, r7, kA), load(BPF_DW, r9, r7, kB), load(BPF_DW, r0, r7, kC), body,
    store(BPF_DW, r7, kResult, r8), store(BPF_DW, r7, kSource, r9), store(BPF_DW, r7, kR0, r0));
  a.label("out")(move_k(r0, XDP_PASS), leave());
  return a.code();
}

Bytes packet_of(u64 a, u64 b, u64 c) {
  Bytes packet(kBytes);
  for (std::size_t i = 0; i < 8; ++i) {
    packet[kA + i] = static_cast<u8>(a >> 8 * i);
    packet[kB + i] = static_cast<u8>(b >> 8 * i);
    packet[kC + i] = static_cast<u8>(c >> 8 * i);
  }
  return packet;
}

struct Case {
  std::string name;
  // With the immediate, where it has one. Empty: the verifier takes no such immediate.
  std::function<Code(std::int32_t)> body;
  Expected result;
  bool immediate = false;
  bool version4 = false;  // kernels before 6.6 do not know it
  Expected source = [](u64, u64 b) { return b; };
  // Also of the third number, that R0 has.
  std::function<u64(u64, u64, u64)> r0 = [](u64, u64, u64 c) { return c; };
  std::vector<u64> thirds{0x1122334455667788};
  // Where the result needs all three.
  std::function<u64(u64, u64, u64)> result3 = {};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class InstructionTest : public ProgramTest, public testing::WithParamInterface<Case> {};

TEST_P(InstructionTest, IsTheKernelsAndTheRfcs) {
  const Case& c = GetParam();
  if (c.version4 && !lab::kernel_at_least(6, 6))
    GTEST_SKIP() << "this kernel has no such instruction: Linux 6.6 has";
  Twins twins({});
  const auto check = [&](u32 program, u64 a, u64 b, u64 operand, u64 third) {
    SCOPED_TRACE(fmt::format("{} of {:#x} and {:#x}, R0 {:#x}", c.name, a, operand, third));
    ASSERT_EQ(twins.run(program, {.bytes = packet_of(a, b, third)}), "");
    const Bytes& after = twins.answer().packet;
    ASSERT_EQ(word(after, kResult), c.result3 ? c.result3(a, operand, third) : c.result(a, operand));
    ASSERT_EQ(word(after, kSource), c.source(a, b));
    ASSERT_EQ(word(after, kR0), c.r0(a, b, third));
  };
  const auto add = [&](std::int32_t immediate) {
    const auto program = twins.add(program_of(c.body(immediate)));
    if (!program) ADD_FAILURE() << c.name << " with " << immediate << ": " << twins.refusal();
    return program;
  };
  if (c.immediate) {
    for (std::int32_t k : kImmediates) {
      if (c.body(k).empty()) continue;
      const auto program = add(k);
      if (!program) return;
      for (u64 a : kEdges) check(*program, a, 0x55, static_cast<u64>(std::int64_t{k}), c.thirds[0]);
      if (HasFatalFailure()) return;
    }
    return;
  }
  const auto program = add(0);
  if (!program) return;
  for (u64 a : kEdges)
    for (u64 b : kEdges)
      for (u64 third : c.thirds) {
        check(*program, a, b, b, third);
        if (HasFatalFailure()) return;
      }
}

u64 low(u64 value, int bits) { return bits == 64 ? value : value & ((u64{1} << bits) - 1); }
Wide with_sign(u64 value, int bits) {
  const Wide all = static_cast<Wide>(1) << bits;
  const Wide plain = static_cast<Wide>(low(value, bits));
  return plain >= all / 2 ? plain - all : plain;
}
// In `bits`, and 0 above.
u64 cut(Wide value, int bits) { return low(static_cast<u64>(value), bits); }
Wide power(u64 exponent) { return static_cast<Wide>(1) << exponent; }
// Towards minus infinity, as a shift goes.
Wide floor_of(Wide a, Wide b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

struct Operation {
  std::string name;
  int code;
  int offset;
  std::function<Wide(u64, u64, int)> result;  // of numbers of so many bits
};

const Operation kOperations[]{
    {"add", BPF_ADD, 0, [](u64 a, u64 b, int) { return Wide{a} + Wide{b}; }},
    {"sub", BPF_SUB, 0, [](u64 a, u64 b, int) { return Wide{a} - Wide{b}; }},
    {"mul", BPF_MUL, 0,
     [](u64 a, u64 b, int) { return static_cast<Wide>(static_cast<WideUnsigned>(a) * b); }},
    {"div", BPF_DIV, 0, [](u64 a, u64 b, int) { return b == 0 ? Wide{0} : Wide{a} / Wide{b}; }},
    {"mod", BPF_MOD, 0, [](u64 a, u64 b, int) { return b == 0 ? Wide{a} : Wide{a} % Wide{b}; }},
    {"sdiv", BPF_DIV, 1,
     [](u64 a, u64 b, int bits) { return b == 0 ? Wide{0} : with_sign(a, bits) / with_sign(b, bits); }},
    {"smod", BPF_MOD, 1,
     [](u64 a, u64 b, int bits) { return b == 0 ? Wide{a} : with_sign(a, bits) % with_sign(b, bits); }},
    {"or", BPF_OR, 0, [](u64 a, u64 b, int) { return Wide{a | b}; }},
    {"and", BPF_AND, 0, [](u64 a, u64 b, int) { return Wide{a & b}; }},
    {"xor", BPF_XOR, 0, [](u64 a, u64 b, int) { return Wide{a ^ b}; }},
    {"lsh", BPF_LSH, 0,
     [](u64 a, u64 b, int bits) {
       return static_cast<Wide>(static_cast<WideUnsigned>(a) << (b % static_cast<u64>(bits)));
     }},
    {"rsh", BPF_RSH, 0, [](u64 a, u64 b, int bits) { return Wide{a} / power(b % static_cast<u64>(bits)); }},
    {"arsh", BPF_ARSH, 0,
     [](u64 a, u64 b, int bits) { return floor_of(with_sign(a, bits), power(b % static_cast<u64>(bits))); }},
    {"mov", BPF_MOV, 0, [](u64, u64 b, int) { return Wide{b}; }},
};

bool refused(int operation, std::int32_t k, int bits) {
  const bool divides = operation == BPF_DIV || operation == BPF_MOD;
  const bool shifts = operation == BPF_LSH || operation == BPF_RSH || operation == BPF_ARSH;
  return (divides && k == 0) || (shifts && (k < 0 || k >= bits));
}

std::vector<Case> arithmetic() {
  std::vector<Case> cases;
  for (const Operation& o : kOperations)
    for (int bits : {64, 32})
      for (bool immediate : {false, true}) {
        const int opcode = (bits == 64 ? BPF_ALU64 : BPF_ALU) | o.code | (immediate ? BPF_K : BPF_X);
        cases.push_back(
            {.name = fmt::format("{}{}_{}", o.name, bits, immediate ? "k" : "x"),
             .body =
                 [=](std::int32_t k) {
                   if (immediate && refused(o.code, k, bits)) return Code{};
                   return Code{made(opcode, r8, immediate ? u8{0} : u8{r9}, o.offset, k)};
                 },
             .result = [=](u64 a, u64 b) { return cut(o.result(low(a, bits), low(b, bits), bits), bits); },
             .immediate = immediate,
             .version4 = o.offset != 0});
      }
  for (int bits : {64, 32}) {
    const int opcode = bits == 64 ? BPF_ALU64 : BPF_ALU;
    cases.push_back({.name = fmt::format("neg{}", bits),
                     .body = [=](std::int32_t) { return Code{made(opcode | BPF_NEG, r8, 0, 0, 0)}; },
                     .result = [=](u64 a, u64) { return cut(-Wide{low(a, bits)}, bits); }});
    for (int from : {8, 16, 32})
      if (from < bits)
        cases.push_back(
            {.name = fmt::format("movs{}_{}", bits, from),
             .body = [=](std::int32_t) { return Code{made(opcode | BPF_MOV | BPF_X, r8, r9, from, 0)}; },
             .result = [=](u64, u64 b) { return cut(with_sign(b, from), bits); },
             .version4 = true});
  }
  return cases;
}

u64 turned(u64 value, int bits) {
  u64 result = 0;
  for (int at = 0; at < bits; at += 8) result |= (value >> at & 0xff) << (bits - 8 - at);
  return result;
}

std::vector<Case> swaps() {
  std::vector<Case> cases;
  for (int bits : {16, 32, 64}) {
    cases.push_back(
        {.name = fmt::format("le{}", bits),
         .body = [=](std::int32_t) { return Code{made(BPF_ALU | BPF_END | BPF_TO_LE, r8, 0, 0, bits)}; },
         .result = [=](u64 a, u64) { return low(a, bits); }});
    cases.push_back(
        {.name = fmt::format("be{}", bits),
         .body = [=](std::int32_t) { return Code{made(BPF_ALU | BPF_END | BPF_TO_BE, r8, 0, 0, bits)}; },
         .result = [=](u64 a, u64) { return turned(a, bits); }});
    cases.push_back({.name = fmt::format("bswap{}", bits),
                     .body = [=](std::int32_t) { return Code{made(BPF_ALU64 | BPF_END, r8, 0, 0, bits)}; },
                     .result = [=](u64 a, u64) { return turned(a, bits); },
                     .version4 = true});
  }
  return cases;
}

struct Condition {
  std::string name;
  int code;
  std::function<bool(Wide, Wide)> holds;
  bool is_signed;
};

const Condition kConditions[]{
    {"jeq", BPF_JEQ, [](Wide a, Wide b) { return a == b; }, false},
    {"jne", BPF_JNE, [](Wide a, Wide b) { return a != b; }, false},
    {"jgt", BPF_JGT, [](Wide a, Wide b) { return a > b; }, false},
    {"jge", BPF_JGE, [](Wide a, Wide b) { return a >= b; }, false},
    {"jlt", BPF_JLT, [](Wide a, Wide b) { return a < b; }, false},
    {"jle", BPF_JLE, [](Wide a, Wide b) { return a <= b; }, false},
    {"jset", BPF_JSET, [](Wide a, Wide b) { return (a & b) != 0; }, false},
    {"jsgt", BPF_JSGT, [](Wide a, Wide b) { return a > b; }, true},
    {"jsge", BPF_JSGE, [](Wide a, Wide b) { return a >= b; }, true},
    {"jslt", BPF_JSLT, [](Wide a, Wide b) { return a < b; }, true},
    {"jsle", BPF_JSLE, [](Wide a, Wide b) { return a <= b; }, true},
};

std::vector<Case> conditions() {
  std::vector<Case> cases;
  for (const Condition& c : kConditions)
    for (int bits : {64, 32})
      for (bool immediate : {false, true}) {
        const int opcode = (bits == 64 ? BPF_JMP : BPF_JMP32) | c.code | (immediate ? BPF_K : BPF_X);
        cases.push_back({.name = fmt::format("{}{}_{}", c.name, bits, immediate ? "k" : "x"),
                         .body =
                             [=](std::int32_t k) {
                               return Code{move_k(r5, 1), made(opcode, r8, immediate ? u8{0} : u8{r9}, 1, k),
                                           move_k(r5, 0), move(r8, r5)};
                             },
                         .result =
                             [=](u64 a, u64 b) {
                               if (c.is_signed) return u64{c.holds(with_sign(a, bits), with_sign(b, bits))};
                               return u64{c.holds(Wide{low(a, bits)}, Wide{low(b, bits)})};
                             },
                         .immediate = immediate});
      }
  cases.push_back({.name = "ja",
                   .body =
                       [](std::int32_t) {
                         return Code{jump_k(BPF_JEQ, r9, 0, 2), move_k(r8, 1), always(1), move_k(r8, 2)};
                       },
                   .result = [](u64, u64 b) { return u64{b == 0 ? 2u : 1u}; }});
  cases.push_back({.name = "ja32",
                   .body =
                       [](std::int32_t) {
                         return Code{jump_k(BPF_JEQ, r9, 0, 2), move_k(r8, 1),
                                     made(BPF_JMP32 | BPF_JA, 0, 0, 0, 1), move_k(r8, 2)};
                       },
                   .result = [](u64, u64 b) { return u64{b == 0 ? 2u : 1u}; },
                   .version4 = true});
  // Down, to one further up that has not been, and on.
  cases.push_back(
      {.name = "ja_back",
       .body =
           [](std::int32_t) {
             return Code{always(2), alu_k(BPF_ADD, r8, 1), always(1), always(-3), alu_k(BPF_ADD, r8, 2)};
           },
       .result = [](u64 a, u64) { return a + 3; }});
  return cases;
}

std::vector<Case> loads_and_stores() {
  std::vector<Case> cases;
  constexpr std::pair<int, int> kSizes[]{{BPF_B, 8}, {BPF_H, 16}, {BPF_W, 32}, {BPF_DW, 64}};
  for (const auto& [size, bits] : kSizes)
    for (int at : {-8, -4, -2, -1}) {
      if (bits > -8 * at) continue;
      const int s = size, b = bits;
      // Both numbers above each other: what is not stored or loaded stays.
      const auto with_b_at = [=](u64 a, u64 value) {
        const u64 mask = b == 64 ? ~u64{0} : ((u64{1} << b) - 1) << 8 * (at + 8);
        return (a & ~mask) | (low(value, b) << 8 * (at + 8));
      };
      cases.push_back({.name = fmt::format("ldx{}_{}", b, -at),
                       .body =
                           [=](std::int32_t) {
                             return Code{store(BPF_DW, r10, -8, r9), load(s, r8, r10, at)};
                           },
                       .result = [=](u64, u64 value) { return low(value >> 8 * (at + 8), b); }});
      if (b != 64)
        cases.push_back(
            {.name = fmt::format("ldsx{}_{}", b, -at),
             .body =
                 [=](std::int32_t) {
                   return Code{store(BPF_DW, r10, -8, r9), load_signed(s, r8, r10, at)};
                 },
             .result = [=](u64, u64 value) { return cut(with_sign(value >> 8 * (at + 8), b), 64); },
             .version4 = true});
      cases.push_back(
          {.name = fmt::format("stx{}_{}", b, -at),
           .body =
               [=](std::int32_t) {
                 return Code{store(BPF_DW, r10, -8, r8), store(s, r10, at, r9), load(BPF_DW, r8, r10, -8)};
               },
           .result = with_b_at});
      cases.push_back(
          {.name = fmt::format("st{}_{}", b, -at),
           .body =
               [=](std::int32_t k) {
                 return Code{store(BPF_DW, r10, -8, r8), store_k(s, r10, at, k), load(BPF_DW, r8, r10, -8)};
               },
           .result = with_b_at,
           .immediate = true});
    }
  for (u64 value : kEdges) {
    cases.push_back({.name = fmt::format("lddw_{:x}", value),
                     .body = [=](std::int32_t) { return number(r8, value); },
                     .result = [=](u64, u64) { return value; }});
  }
  return cases;
}

std::vector<Case> atomics() {
  std::vector<Case> cases;
  struct Atomic {
    std::string name;
    int code;
    std::function<u64(u64, u64, u64)> memory;  // what was there, the source, R0
  };
  const Atomic kAtomics[]{
      {"add", BPF_ADD, [](u64 m, u64 s, u64) { return m + s; }},
      {"or", BPF_OR, [](u64 m, u64 s, u64) { return m | s; }},
      {"and", BPF_AND, [](u64 m, u64 s, u64) { return m & s; }},
      {"xor", BPF_XOR, [](u64 m, u64 s, u64) { return m ^ s; }},
      {"xchg", BPF_XCHG, [](u64, u64 s, u64) { return s; }},
      {"cmpxchg", BPF_CMPXCHG, [](u64 m, u64 s, u64 r) { return m == r ? s : m; }},
  };
  for (const Atomic& o : kAtomics)
    for (int bits : {64, 32})
      for (bool fetches : {false, true}) {
        const bool always_fetches = o.code == BPF_XCHG || o.code == BPF_CMPXCHG;
        if (always_fetches && !fetches) continue;
        const int operation = o.code | (fetches ? BPF_FETCH : 0), size = bits == 64 ? BPF_DW : BPF_W;
        const bool compares = o.code == BPF_CMPXCHG;
        Case c{.name = fmt::format("atomic_{}{}{}", o.name, bits, fetches && !always_fetches ? "_fetch" : ""),
               .body =
                   [=](std::int32_t) {
                     return Code{store(BPF_DW, r10, -8, r8), atomically(size, operation, r10, -8, r9),
                                 load(BPF_DW, r8, r10, -8)};
                   },
               .result = {}};
        c.result3 = [=](u64 a, u64 b, u64 third) {
          const u64 above = bits == 64 ? 0 : a & ~u64{0xffffffff};
          return above | low(o.memory(low(a, bits), low(b, bits), low(third, bits)), bits);
        };
        if (fetches && !compares) c.source = [=](u64 a, u64) { return low(a, bits); };
        if (compares) {
          c.r0 = [=](u64 a, u64, u64) { return low(a, bits); };
          c.thirds = {
              0, 1, 0x80000000, 0xffffffff, 0x123456789abcdef0, 0xffffffff9abcdef0, 0xffffffffffffffff};
        }
        cases.push_back(c);
      }
  return cases;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Arithmetic, InstructionTest, testing::ValuesIn(arithmetic()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Swaps, InstructionTest, testing::ValuesIn(swaps()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Conditions, InstructionTest, testing::ValuesIn(conditions()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Memory, InstructionTest, testing::ValuesIn(loads_and_stores()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Atomics, InstructionTest, testing::ValuesIn(atomics()), name_of_case);

}  // namespace
}  // namespace xdpgpu::test
