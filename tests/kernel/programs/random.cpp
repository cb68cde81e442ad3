// SPDX-License-Identifier: MIT
#include "tests/kernel/programs/random.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace xdpgpu::test {
namespace {

using dataplane::Random;

enum Maps : u32 { kArray, kPerCpuArray, kData, kHash, kLruHash, kTrie, kPerCpuHash };
constexpr int kDataBytes = 64;
// Of the stack: numbers, then a key, a value, and a loop's turn.
constexpr int kNumbersAt = -128, kKeyAt = -144, kValueAt = -160, kTurnAt = -168;
constexpr int kSizes[]{BPF_B, BPF_H, BPF_W, BPF_DW};

int bytes_of_size(int size) { return size == BPF_B ? 1 : size == BPF_H ? 2 : size == BPF_W ? 4 : 8; }

class Generator {
 public:
  Generator(Random& random, const RandomKind& kind)
      : random_(random),
        version4_(kind.version4),
        arrays_only_(kind.arrays_only),
        keeps_packet_(kind.keeps_packet),
        may_reserve_(kind.reserves) {}

  Code program() {
    may_loop_ = !arrays_only_ && one_in(6);
    a_(move(r6, r1));
    take_packet();
    for (u8 r : {r0, r1, r2, r3, r4, r5, r8, r9}) a_(any_number(r));
    for (int at = kNumbersAt; at < 0; at += 8) a_(store(BPF_DW, r10, at, any()));
    steps(6 + below(14), kDepth);
    a_(move(r0, any()));
    if (below(4) != 0) a_(alu_k(BPF_AND, r0, 7));
    a_(leave());
    if (needs_short_) a_.label("short")(move_k(r0, static_cast<std::int32_t>(random_() % 5)), leave());
    functions();
    return a_.code();
  }

 private:
  static constexpr u32 kDepth = 3;  // of branches in branches

  u32 below(u32 end) { return random_() % end; }
  bool one_in(u32 n) { return below(n) == 0; }
  template <class T, std::size_t n>
  T of(const T (&choices)[n]) {
    return choices[below(n)];
  }
  std::string new_label() { return fmt::format("l{}", labels_++); }

  // A register with a number: those that calls keep more often.
  u8 any() { return of({r0, r1, r2, r3, r4, r5, r8, r9, r8, r9}); }

  std::int32_t immediate() {
    switch (below(5)) {
      case 0:
        return static_cast<std::int32_t>(random_());
      case 1:
        return static_cast<std::int32_t>(below(256));
      case 2:
        return -static_cast<std::int32_t>(below(256));
      case 3:
        return static_cast<std::int32_t>(u32{1} << below(32));
      default:
        return of({0, 1, -1, 0x7fffffff, -0x7fffffff - 1, 0xffff, 0x8000, 0xff});
    }
  }

  Code any_number(u8 r) {
    switch (below(5)) {
      case 0:
        return number(r, u64{random_()} << 32 | random_());
      case 1:
        return {move_k(r, immediate())};
      case 2:
        return {alu32_k(BPF_MOV, r, immediate())};
      default:
        return {packet_load(r)};
    }
  }

  Instruction packet_load(u8 r) {
    const int size = of(kSizes),
              at = static_cast<int>(below(static_cast<u32>(kRandomPacketBytes - bytes_of_size(size) + 1)));
    if (version4_ && size != BPF_DW && one_in(4)) return load_signed(size, r, r7, at);
    return load(size, r, r7, at);
  }

  // R7 and the packet's end are the context's again; R3 and R4 are not numbers any more.
  void take_packet() {
    needs_short_ = true;
    a_(load(BPF_W, r7, r6, 0), load(BPF_W, r3, r6, 4), move(r4, r7), alu_k(BPF_ADD, r4, kRandomPacketBytes));
    a_.to("short", jump(BPF_JGT, r4, r3));
  }

  // What a call does not keep are numbers again. R0 is one already.
  void after_call() {
    for (u8 r : {r1, r2, r3, r4, r5}) a_(any_number(r));
  }

  void steps(u32 count, u32 depth) {
    for (u32 i = 0; i < count; ++i) step(depth);
  }

  void step(u32 depth) {
    switch (below(depth == 0 ? 11 : may_reserve_ ? 26 : 24)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return compute(any(), any());
      case 5:
        return swap();
      case 6:
        return static_cast<void>(a_(packet_load(any())));
      case 7:
        return keeps_packet_ ? swap() : packet_store();
      case 8:
      case 9:
        return stack();
      case 10:
        return data();
      case 11:
      case 12:
      case 13:
        return branch(depth);
      case 14:
        return may_loop_ && depth == kDepth ? bpf_loop() : loop();
      case 15:
        return !may_loop_ || depth == kDepth ? call_one() : swap();
      case 16:
        return packet_at_number();
      case 17:
        return !may_loop_ || depth == kDepth ? given() : swap();
      case 18:
        return checksum();
      case 19:
        return one_in(3) && !keeps_packet_ ? adjust() : length();
      case 20:
      case 21:
        return ask_map();
      case 22:
        return change_map();
      case 23:
        if (may_reserve_) return reserve(depth);
        [[fallthrough]];
      default:
        return may_loop_ && depth == kDepth ? bpf_loop() : compute(any(), any());
    }
  }

  void compute(u8 d, u8 s) {
    const int operation = of({BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_MOD, BPF_OR, BPF_AND, BPF_XOR, BPF_LSH,
                              BPF_RSH, BPF_ARSH, BPF_MOV, BPF_NEG});
    const bool wide = below(2) != 0, is_register = operation != BPF_NEG && below(2) != 0;
    int offset = 0;
    std::int32_t k = operation == BPF_NEG || is_register ? 0 : immediate();
    const bool divides = operation == BPF_DIV || operation == BPF_MOD;
    if (!is_register && divides && k == 0) k = 3;
    if (!is_register && (operation == BPF_LSH || operation == BPF_RSH || operation == BPF_ARSH))
      k &= wide ? 63 : 31;
    if (version4_ && divides && one_in(3)) offset = 1;
    if (version4_ && operation == BPF_MOV && is_register && one_in(2))
      offset = wide ? of({8, 16, 32}) : of({8, 16});
    a_(made((wide ? BPF_ALU64 : BPF_ALU) | operation | (is_register ? BPF_X : BPF_K), d,
            is_register ? s : u8{0}, offset, k));
  }

  void swap() {
    const int bits = of({16, 32, 64});
    if (version4_ && one_in(3)) return static_cast<void>(a_(made(BPF_ALU64 | BPF_END, any(), 0, 0, bits)));
    a_(made(BPF_ALU | BPF_END | of({BPF_TO_LE, BPF_TO_BE}), any(), 0, 0, bits));
  }

  void packet_store() {
    const int size = of(kSizes),
              at = static_cast<int>(below(static_cast<u32>(kRandomPacketBytes - bytes_of_size(size) + 1)));
    if (one_in(3))
      a_(store_k(size, r7, at, immediate()));
    else
      a_(store(size, r7, at, any()));
  }

  int atomic_operation() {
    return of({BPF_ADD, BPF_OR, BPF_AND, BPF_XOR, BPF_ADD | BPF_FETCH, BPF_OR | BPF_FETCH,
               BPF_AND | BPF_FETCH, BPF_XOR | BPF_FETCH, BPF_XCHG, BPF_CMPXCHG});
  }

  // Something with memory of `bytes` from `at` on, relative to a register, by the numbers in one of two
  // others.
  void touch(u8 base, int at, int bytes, u8 s, u8 d) {
    const int size = of(kSizes), each = bytes_of_size(size);
    const int place = at + static_cast<int>(below(static_cast<u32>(bytes / each))) * each;
    switch (below(4)) {
      case 0:
        a_(load(size, d, base, place));
        break;
      case 1:
        a_(store(size, base, place, s));
        break;
      case 2:
        if (each >= 4)
          a_(atomically(size, base == r0 ? of({BPF_ADD, BPF_XOR | BPF_FETCH, BPF_XCHG}) : atomic_operation(),
                        base, place, s));
        else if (version4_)
          a_(load_signed(size, d, base, place));
        break;
      default:
        a_(store_k(size, base, place, immediate()));
    }
  }

  void stack() { touch(r10, kNumbersAt, -kNumbersAt, any(), any()); }

  void data() {
    a_(map_value(r2, kData, 0));
    touch(r2, 0, kDataBytes, of({r0, r1, r3, r8, r9}), of({r0, r1, r3, r8, r9}));
    a_(any_number(r2));
  }

  void branch(u32 depth) {
    const std::string otherwise = new_label(), done = new_label();
    const int operation = of({BPF_JEQ, BPF_JNE, BPF_JGT, BPF_JGE, BPF_JLT, BPF_JLE, BPF_JSGT, BPF_JSGE,
                              BPF_JSLT, BPF_JSLE, BPF_JSET});
    const bool wide = below(2) != 0, is_register = below(2) != 0;
    a_.to(otherwise, made((wide ? BPF_JMP : BPF_JMP32) | operation | (is_register ? BPF_X : BPF_K), any(),
                          is_register ? any() : u8{0}, 0, is_register ? 0 : immediate()));
    steps(1 + below(3), depth - 1);
    if (one_in(2)) {
      a_.to(done, version4_ && one_in(4) ? made(BPF_JMP32 | BPF_JA, 0, 0, 0, 0) : always()).label(otherwise);
      steps(1 + below(3), depth - 1);
      a_.label(done);
    } else {
      a_.label(otherwise);
    }
  }

  void loop() {
    const std::string again = new_label();
    a_(store_k(BPF_DW, r10, kTurnAt, 0)).label(again);
    steps(1 + below(4), 0);
    a_(load(BPF_DW, r5, r10, kTurnAt), alu_k(BPF_ADD, r5, 1), store(BPF_DW, r10, kTurnAt, r5));
    a_.to(again, jump_k(BPF_JLT, r5, static_cast<std::int32_t>(1 + below(7))));
    a_(any_number(r5));
  }

  void call_one() {
    const u32 which = below(3);
    used_[which] = true;
    // The last one gets a part of the stack.
    if (which == 2) a_(move(r1, r10), alu_k(BPF_ADD, r1, kNumbersAt));
    a_.call_function(fmt::format("f{}", which));
    after_call();
  }

  void functions() {
    for (u32 which = 0; which < 3; ++which) {
      // The first one calls the second.
      if (!used_[which] && !(which == 1 && used_[0])) continue;
      a_.label(fmt::format("f{}", which))(move(r0, r2), store(BPF_DW, r10, -8, r3),
                                          store(BPF_DW, r10, -16, r4));
      if (which == 2) {
        for (u32 i = 0; i < 3; ++i) touch(r1, 0, -kNumbersAt, of({r2, r3, r4, r5}), of({r0, r2, r3, r4}));
        a_(move_k(r1, 7));
      }
      for (u32 i = 0; i < 1 + below(5); ++i)
        compute(of({r0, r1, r2, r3, r4, r5}), of({r0, r1, r2, r3, r4, r5}));
      touch(r10, -16, 16, r3, r0);
      if (which == 0) {
        a_(move(r6, r0), move_k(r9, immediate())).call_function("f1");
        a_(alu(BPF_XOR, r0, r6), alu(BPF_ADD, r0, r9));
      }
      a_(leave());
    }
    if (loops_)
      a_.label("turn")(load(BPF_DW, r3, r2, 8), alu(BPF_ADD, r3, r1), alu_k(BPF_MUL, r3, 13),
                       store(BPF_DW, r2, 8, r3), move_k(r0, 0))
          .to("stop", jump_k(BPF_JSGT, r3, immediate()))(leave())
          .label("stop")(move_k(r0, 1), leave());
  }

  void bpf_loop() {
    loops_ = true;
    a_(move(r1, any()), alu_k(BPF_AND, r1, 15)).function(r2, "turn");
    a_(move(r3, r10), alu_k(BPF_ADD, r3, kNumbersAt), move_k(r4, 0), call(BPF_FUNC_loop));
    after_call();
  }

  // Somewhere that a number says; where that is not in the packet, nothing.
  void packet_at_number() {
    const std::string out = new_label();
    const int size = of(kSizes);
    a_(move(r5, of({r0, r1, r2, r8, r9})), alu_k(BPF_AND, r5, of({15, 31, 63, 255})), alu(BPF_ADD, r5, r7),
       move(r4, r5), alu_k(BPF_ADD, r4, 8), load(BPF_W, r3, r6, 4));
    a_.to(out, jump(BPF_JGT, r4, r3));
    if (keeps_packet_ || one_in(2))
      a_(load(size, of({r0, r1, r2, r8, r9}), r5, 0));
    else
      a_(store(size, r5, 8 - bytes_of_size(size), of({r0, r1, r2, r8, r9})));
    a_.label(out);
    for (u8 r : {r3, r4, r5}) a_(any_number(r));
  }

  void given() {
    a_(call(of({BPF_FUNC_ktime_get_ns, BPF_FUNC_get_prandom_u32, BPF_FUNC_get_smp_processor_id})));
    after_call();
  }

  void checksum() {
    a_(move(r5, of({r0, r1, r8, r9})), move(r1, r10), alu_k(BPF_ADD, r1, kNumbersAt), move(r3, r10),
       alu_k(BPF_ADD, r3, -64));
    a_(move_k(r2, static_cast<std::int32_t>(4 * below(17))),
       move_k(r4, static_cast<std::int32_t>(4 * below(17))));
    a_(call(BPF_FUNC_csum_diff));
    for (int i = 0; i < 2; ++i)  // before Linux 6.13 it is not folded
      a_(move(r1, r0), alu_k(BPF_RSH, r1, 16), alu_k(BPF_AND, r0, 0xffff), alu(BPF_ADD, r0, r1));
    after_call();
  }

  void adjust() {
    const int helper = of({BPF_FUNC_xdp_adjust_head, BPF_FUNC_xdp_adjust_tail, BPF_FUNC_xdp_adjust_meta});
    const auto by = static_cast<std::int32_t>(below(80)) - 40;
    a_(move(r1, r6), move_k(r2, helper == BPF_FUNC_xdp_adjust_meta ? by / 10 * 4 : by), call(helper));
    take_packet();
    after_call();
  }

  void length() {
    a_(load(BPF_W, r3, r6, 4), move(r4, r7), alu(BPF_SUB, r3, r4));
    for (u8 r : {r4}) a_(any_number(r));
  }

  struct Asked {
    u32 map;
    int value_bytes;
  };
  // A key, and R1 and R2 for a helper.
  Asked key() {
    constexpr Asked kAll[]{{kArray, 16},  {kPerCpuArray, 16}, {kHash, 16},
                           {kLruHash, 8}, {kTrie, 8},         {kPerCpuHash, 8}};
    const Asked asked = arrays_only_ ? kAll[below(2)] : of(kAll);
    if (asked.map == kTrie) {
      a_(store_k(BPF_W, r10, kKeyAt, static_cast<std::int32_t>(below(34))));
      a_(store(BPF_W, r10, kKeyAt + 4, of({r8, r9})));
      if (one_in(2)) a_(store_k(BPF_W, r10, kKeyAt + 4, static_cast<std::int32_t>(below(4))));
    } else {
      a_(move(r2, of({r8, r9})), alu_k(BPF_AND, r2, 7));
      if (one_in(2)) a_(move_k(r2, static_cast<std::int32_t>(below(10))));
      a_(store(BPF_DW, r10, kKeyAt, r2));
    }
    a_(map(r1, asked.map), move(r2, r10), alu_k(BPF_ADD, r2, kKeyAt));
    return asked;
  }

  void ask_map() {
    const std::string out = new_label();
    const Asked asked = key();
    a_(call(BPF_FUNC_map_lookup_elem)).to(out, jump_k(BPF_JEQ, r0, 0));
    for (u32 i = 0; i < 1 + below(3); ++i) touch(r0, 0, asked.value_bytes, of({r8, r9}), of({r8, r9}));
    a_.label(out)(any_number(r0));
    after_call();
  }

  void change_map() {
    a_(store(BPF_DW, r10, kValueAt, of({r8, r9})), store(BPF_DW, r10, kValueAt + 8, of({r8, r9})));
    key();
    if (!arrays_only_ && one_in(4)) {
      a_(call(BPF_FUNC_map_delete_elem));
    } else {
      a_(move(r3, r10), alu_k(BPF_ADD, r3, kValueAt), move_k(r4, of({0, 0, 0, 1, 2, 3})),
         call(BPF_FUNC_map_update_elem));
    }
    after_call();
  }

  // Where there is one that is put out, no other one may be behind it.
  void reserve(u32 depth) {
    const std::string out = new_label();
    const bool submits = depth == kDepth && one_in(2);
    const u32 bytes = below(XG_EVENT_BYTES + 1);
    a_(map(r1, arrays_only_ ? kHash : kPerCpuHash + 1), move_k(r2, static_cast<std::int32_t>(bytes)),
       move_k(r3, one_in(8) ? 1 : 0), call(BPF_FUNC_ringbuf_reserve));
    a_.to(out, jump_k(BPF_JEQ, r0, 0));
    for (u32 i = 0; i < below(4); ++i)
      if (bytes >= 8) touch(r0, 0, static_cast<int>(bytes), of({r8, r9}), of({r8, r9}));
    a_(move(r1, r0), move_k(r2, static_cast<std::int32_t>(below(3))),
       call(submits ? BPF_FUNC_ringbuf_submit : BPF_FUNC_ringbuf_discard));
    a_.label(out)(any_number(r0));
    after_call();
    if (submits) may_reserve_ = false;
  }

  Random& random_;
  bool version4_, arrays_only_, keeps_packet_, may_reserve_;
  Assembly a_;
  u32 labels_ = 0;
  // Linux 6.18 refuses some programs with bpf_loop and code that nobody comes to ("No program to jit"), and
  // warns of itself. So one with bpf_loop calls functions where the verifier knows that they are called.
  bool may_loop_ = false;
  bool needs_short_ = false, loops_ = false;
  std::array<bool, 3> used_{};
};

}  // namespace

std::vector<Map> random_maps(const RandomKind& kind) {
  std::vector<Map> maps{map_of("array", BPF_MAP_TYPE_ARRAY, 4, 16, 4),
                        map_of("percpu_array", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 16, 2),
                        map_of("data", BPF_MAP_TYPE_ARRAY, 4, kDataBytes, 1)};
  const Map ring = map_of("ring", BPF_MAP_TYPE_RINGBUF, 0, 0, 1 << 18);
  if (kind.arrays_only) {
    if (kind.reserves) maps.push_back(ring);
    return maps;
  }
  maps.push_back(map_of("hash", BPF_MAP_TYPE_HASH, 8, 16, 6));
  maps.push_back(map_of("lru_hash", BPF_MAP_TYPE_LRU_HASH, 4, 8, 1024));
  maps.push_back(map_of("trie", BPF_MAP_TYPE_LPM_TRIE, 8, 8, 8, BPF_F_NO_PREALLOC));
  maps.push_back(map_of("percpu_hash", BPF_MAP_TYPE_PERCPU_HASH, 4, 8, 6));
  if (kind.reserves) maps.push_back(ring);
  return maps;
}

Code random_program(Random& random, const RandomKind& kind) { return Generator(random, kind).program(); }

ProgramPacket random_packet(Random& random, u32 queues) {
  const auto bytes = [&](std::size_t count) {
    Bytes some(count);
    for (u8& byte : some)
      byte = static_cast<u8>(random() % 4 == 0 ? (random() % 2 == 0 ? 0 : 0xff) : random());
    return some;
  };
  ProgramPacket packet;
  packet.bytes = bytes(random() % 8 == 0 ? 14 + random() % 40 : 60 + random() % 100);
  if (random() % 4 == 0) packet.metadata = bytes(random() % 9 * 4);
  packet.queue = random() % 4 == 0 ? random() % queues : 0;
  packet.time_ns = u64{random()} << 32 | random();
  packet.random = random();
  return packet;
}

std::string text_of(const Code& code) {
  std::string text;
  for (std::size_t at = 0; at < code.size(); ++at)
    text += fmt::format("{:4} {:02x} r{} r{} {:+} {:#x}\n", at, code[at].opcode, code[at].destination,
                        code[at].source, code[at].offset, code[at].immediate);
  return text;
}

}  // namespace xdpgpu::test
