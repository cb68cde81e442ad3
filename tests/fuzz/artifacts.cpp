// SPDX-License-Identifier: MIT
//
// What a compiler that is somebody else's hands to a data plane. The answer to an order for a policy with
// every kind of stage, changed in places that the input says, or the input itself: it is refused by a
// sentence, or a policy can be put together of it that can be shown, and asked about packets. Where a program
// jumps and what it writes is not in the answer: of pipelines of programs alone devices get what they always
// get.
#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <filesystem>

#include "tests/fuzz/target.hpp"
#include "userspace/compiler/compiler.hpp"
#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/dataplane/host_rules.hpp"
#include "userspace/policy/classify.hpp"

namespace xdpgpu::fuzz {
namespace {

constexpr std::array<u64, 2> kKey{0x0123456789abcdefull, 0xfedcba9876543210ull};

// An answer, and what was ordered.
struct Specimen {
  compiler::PolicySource source;
  policy::Policy outline;
  compiler::Target target;
  std::string answer;
  std::vector<u32> image{};  // for devices, of programs alone; empty: there are other stages
};

std::string content(const kernel::Fd& memory) {
  const auto sealed = compiler::SealedMemory::map(memory, compiler::kMostAnswer).value();
  return {reinterpret_cast<const char*>(sealed.bytes().data()), sealed.bytes().size()};
}

kernel::Fd memory_of(std::string_view bytes) {
  compiler::MemoryWriter to("fuzz");
  to.write(bytes);
  return std::move(to.seal().value());
}

// Of a policy whose rules ask hosts, too.
compiler::PolicySource with_expressions() {
  return {"~.json",
          R"({"version": 1, "pipelines": {"p": [{"stage": "signatures", "rules": ["a.rules"]}]}})",
          {{"a.rules",
            "alert udp any any -> any any (content:\"a\"; byte_extract:1,0,n; pcre:\"/(b)\\1/R\"; "
            "content:\"c\"; within:9; byte_test:1,=,n,0,relative; sid:1;)\n"
            "alert dns any any -> any any (dns.query; bsize:<9; pcre:\"/(b)\\1/\"; sid:2;)\n"}}};
}

// Of programs alone: one looks its map up, which begins with something; one changes it.
std::string program_with_map(u32 helper) {
  programs::ObjectProgram object;
  object.section = "xdp";
  object.program.name = "specimen";
  object.program.license = "GPL";
  object.program.maps = {{.name = "seen",
                          .type = BPF_MAP_TYPE_HASH,
                          .key_bytes = 4,
                          .value_bytes = 8,
                          .entries = 8,
                          .contents = {}}};
  constexpr u8 kMove = BPF_ALU64 | BPF_MOV, kAdd = BPF_ALU64 | BPF_ADD;
  object.program.instructions = {
      {.opcode = BPF_ST | BPF_MEM | BPF_DW, .destination = 10, .offset = -8, .immediate = 7},
      {.opcode = BPF_LD | BPF_IMM | BPF_DW, .destination = 1, .source = BPF_PSEUDO_MAP_IDX},
      {},
      {.opcode = kMove | BPF_X, .destination = 2, .source = 10},
      {.opcode = kAdd | BPF_K, .destination = 2, .immediate = -8},
      {.opcode = kMove | BPF_X, .destination = 3, .source = 2},
      {.opcode = kMove | BPF_K, .destination = 4},
      {.opcode = BPF_JMP | BPF_CALL, .immediate = static_cast<std::int32_t>(helper)},
      {.opcode = kMove | BPF_K, .destination = 0, .immediate = 2},
      {.opcode = BPF_JMP | BPF_EXIT}};
  return programs::to_bytes(object).value();
}
compiler::PolicySource with_programs() {
  return {"~programs.json",
          R"({"version": 1, "pipelines": {"p": [
                {"stage": "program", "object": "a.o", "maps": {"seen": {"file": "seen.json"}}},
                {"stage": "program", "object": "b.o"}]}})",
          {{policy::program_key("a.o", {}), program_with_map(BPF_FUNC_map_lookup_elem)},
           {policy::program_key("b.o", {}), program_with_map(BPF_FUNC_map_update_elem)},
           {"seen.json", R"([{"key": 7, "value": 1}, {"key": 8, "value": 2}])"}}};
}

// A datagram to port 53, in whose payload something of everything is.
std::vector<u8> packet() {
  const std::string_view payload("\0\1\1\0\0\1\0\0\0\0\0\0\4abbc\0\0\1\0\1", 22);
  std::vector<u8> frame{2, 0, 0,  0, 0, 1,   2, 0, 0, 0,   0, 2, 8, 0,    0x45, 0, 0,  50, 0,  1, 0,
                        0, 9, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0x20, 0,    0, 53, 0,  30, 0, 0};
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

// The examples, by their order, and one of its own; those whose interfaces' names are written in them get
// those.
const std::vector<Specimen>& specimens() {
  static const std::vector<Specimen> all = [] {
    std::vector<Specimen> made;
    const std::filesystem::path examples = XDPGPU_SOURCE_DIR "/config/examples";
    std::vector<compiler::PolicySource> sources{with_expressions(), with_programs()};
    for (const auto& entry : std::filesystem::directory_iterator(examples)) {
      if (entry.path().extension() != ".json") continue;
      if (auto source = compiler::read_policy(entry.path())) sources.push_back(*std::move(source));
    }
    for (const compiler::PolicySource& source : sources) {
      const auto whole = compiler::compile_policy_anywhere(source, "eth0", 1);
      if (!whole) continue;
      Specimen one{source, compiler::outline(source).value(), {whole->ports, {}, kKey}, {}};
      compiler::Compiler compiler;
      const auto order = compiler::write_order(one.source, one.target, {});
      const auto answered = compiler.answer(order.value()).value();
      one.answer = content(answered);
      if (one.source.file == with_programs().file) {
        const auto read =
            compiler::read_answer(compiler::SealedMemory::map(answered, compiler::kMostAnswer).value())
                .value();
        one.image = compiler::assemble(one.source, one.outline, one.target, read->recipe, read->artifacts)
                        .value()
                        .pipelines->image();
      }
      made.push_back(std::move(one));
    }
    std::sort(made.begin(), made.end(),
              [](const auto& a, const auto& b) { return a.source.file < b.source.file; });
    return made;
  }();
  return all;
}

// A GPU's code, as it comes from a compiler or from what was kept.
void read_code(Input input, std::string_view bytes) {
  const auto read = compiler::read_code_answer(std::as_bytes(std::span(bytes)));
  if (!read && read.error().empty()) fail(input, "code is refused without a reason");
  if (read && *read && (*read)->modules.empty()) fail(input, "code without a module is taken");
}

// Programs that code is ordered for, as whoever makes it gets them.
void read_translation(Input input, const std::string& bytes) {
  const auto memory = compiler::SealedMemory::map(memory_of(bytes), compiler::kMostOrder).value();
  const auto order = compiler::read_translation_order(memory);
  if (!order) return;
  const auto again = compiler::write_translation_order(order->programs, order->architecture);
  if (!again || content(*again) != bytes) fail(input, "an order for code is not what was written");
}

void put_together(Input input, const Specimen& one, const std::string& bytes) {
  const auto read =
      compiler::read_answer(compiler::SealedMemory::map(memory_of(bytes), compiler::kMostAnswer).value());
  if (!read && read.error().empty()) fail(input, "an answer is refused without a reason");
  if (!read || !*read) return;
  const auto whole =
      compiler::assemble(one.source, one.outline, one.target, (*read)->recipe, (*read)->artifacts);
  if (!whole && whole.error().empty()) fail(input, "artifacts are refused without a reason");
  if (!whole) return;
  if (!one.image.empty() && whole->pipelines->image() != one.image)
    fail(input, "an answer changes what a device follows of a program");
  if (policy::to_json(whole->policy).empty()) fail(input, "it cannot be shown");
  if (whole->policy.hash != one.outline.hash) fail(input, "it has another hash");
  for (u32 i = 0; i < 64; i++) {
    policy::PacketFacts facts{};
    facts.family = i % 2 == 0 ? 4 : 6;
    for (std::size_t k = 0; k < sizeof(facts.src); k++) {
      facts.src[k] = static_cast<u8>(i * 31 + k * 7);
      facts.dst[k] = static_cast<u8>(i * 13 + k * 5);
    }
    facts.src_port = static_cast<u16>(i * 997);
    facts.dst_port = static_cast<u16>(i * 1009);
    facts.l4 = i % 4;
    (void)policy::classify(whole->tables, facts);
  }
  static dataplane::ExpressionScratch scratch;
  for (const auto& pipeline : whole->pipelines->settings())
    for (const auto& stage : pipeline.stages)
      if (const auto* const rules = gpu::file_rules(stage); rules != nullptr && rules->heads)
        for (const gpu::RuleHead& head : *rules->heads)
          if (head.rest) (void)dataplane::holds(*head.rest, packet(), scratch);
}

}  // namespace

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < specimens().size(); i++) {
    all.push_back({static_cast<u8>(i)});
    Bytes changed{static_cast<u8>(i)};
    for (u8 k = 0; k < 10; k++) changed.insert(changed.end(), {k, 0, 0, static_cast<u8>(1u << k % 8)});
    all.push_back(std::move(changed));
  }
  return all;
}

std::vector<Bytes> cases() {
  gpu::DeviceCode code{"code", 90, {std::vector<char>(100, 'a'), {}, std::vector<char>(7, 'b')}};
  const std::array<gpu::programs::Decoded, 2> programs{
      {{{1, 2, 3, 4, 5, 6, 7, 8}, {9}}, {{10, 11, 12, 13}, {}}}};
  std::vector<Bytes> all;
  for (const auto& memory :
       {compiler::write_code_answer(code).value(), compiler::write_translation_order(programs, 90).value()}) {
    const std::string bytes = content(memory);
    Bytes whole{255};
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    all.push_back(whole);
    for (std::size_t i = 1; i < whole.size(); i++) {
      all.emplace_back(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(i));
      all.push_back(whole);
      all.back()[i] ^= 0x81;
    }
  }
  return all;
}

}  // namespace xdpgpu::fuzz

// The first byte names the answer; 255: the input is one. Then, of four bytes each: where a byte is changed
// (24 bits, of the answer's length), and how.
extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
  using namespace xdpgpu;
  using namespace xdpgpu::fuzz;
  if (size == 0) return 0;
  const Input input(data, size);
  const Specimen& one = specimens()[data[0] % specimens().size()];
  if (data[0] == 255) {
    const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    put_together(input, one, bytes);
    read_code(input, bytes);
    read_translation(input, bytes);
    return 0;
  }
  std::string bytes = one.answer;
  for (std::size_t at = 1; at + 4 <= size; at += 4) {
    const u32 where = data[at] | u32{data[at + 1]} << 8 | u32{data[at + 2]} << 16;
    bytes[where % bytes.size()] ^= static_cast<char>(data[at + 3]);
  }
  put_together(input, one, bytes);
  return 0;
}
