// SPDX-License-Identifier: MIT
//
// Machine code of programs: how it is ordered, and that its compiler makes what can be linked. What comes of
// real programs is for tests/backends, on a GPU.
#include "userspace/compiler/translations.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <linux/bpf.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "gpu/pipelines.hpp"
#include "gpu/stages/stages.hpp"
#include "userspace/compiler/compiler.hpp"

namespace xdpgpu::compiler {
namespace {

using gpu::programs::Decoded;
using testing::HasSubstr;

constexpr u16 kCuda = 190;  // e_machine

std::vector<Decoded> some_programs() {
  return {{{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10}}, {{}, {}}, {{11, 12, 13, 14}, {}}};
}

SealedMemory mapped(const kernel::Fd& memory) { return SealedMemory::map(memory, kMostOrder).value(); }

kernel::Fd memory_of(std::span<const std::byte> bytes) {
  MemoryWriter to("test");
  to.write(bytes);
  return to.seal().value();
}

TEST(CompilerTranslations, AreOrderedWithWhatProgramsDecodeTo) {
  const auto written = write_translation_order(some_programs(), 90).value();
  const auto read = read_translation_order(mapped(written));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->architecture, 90u);
  EXPECT_EQ(read->programs, some_programs());
  const auto none = read_translation_order(mapped(write_translation_order({}, 120).value()));
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->programs.empty());
}

TEST(CompilerTranslations, AnOrderIsToldFromOthers) {
  const auto order = mapped(write_translation_order(some_programs(), 90).value());
  EXPECT_EQ(read_code_order(order), std::nullopt);
  EXPECT_FALSE(read_order(order));
  for (const auto& other : {write_code_order(90).value(), write_order(pass_everything(), {}, {}).value()})
    EXPECT_FALSE(read_translation_order(mapped(other)));
}

TEST(CompilerTranslations, AnOrderIsWholeOrNone) {
  const auto written = write_translation_order(some_programs(), 90).value();
  const auto order = mapped(written);
  const auto bytes = order.bytes();
  for (std::size_t i = 0; i < bytes.size(); i++)
    EXPECT_FALSE(read_translation_order(mapped(memory_of(bytes.first(i))))) << i << " bytes";
  std::vector<std::byte> more(bytes.begin(), bytes.end());
  more.emplace_back();
  EXPECT_FALSE(read_translation_order(mapped(memory_of(more))));
}

TEST(CompilerTranslations, TooMuchIsNotOrdered) {
  std::vector<Decoded> many(kMostTranslated);
  EXPECT_TRUE(read_translation_order(mapped(write_translation_order(many, 90).value())));
  many.emplace_back();
  EXPECT_THAT(write_translation_order(many, 90).error(), HasSubstr("at most 64"));
  std::vector<Decoded> longest(1);
  longest[0].code.resize(4 * kMostTranslatedInstructions);
  longest[0].tables.resize(kMostTranslatedTableWords);
  EXPECT_TRUE(read_translation_order(mapped(write_translation_order(longest, 90).value())));
  for (auto* const words : {&longest[0].code, &longest[0].tables}) {
    words->push_back(0);
    EXPECT_THAT(write_translation_order(longest, 90).error(), HasSubstr("more than 1000000 instructions"));
    words->pop_back();
  }
}

// As somebody writes it who does not keep to that.
TEST(CompilerTranslations, TooMuchIsNotRead) {
  const u64 kind = MemoryReader(mapped(write_translation_order({}, 90).value()).bytes()).value<u64>();
  for (const auto& [count, words] : {std::pair{u64{kMostTranslated} + 1, std::size_t{1}},
                                     {u64{1}, 4 * kMostTranslatedInstructions + 1},
                                     {~u64{0}, std::size_t{0}}}) {
    MemoryWriter to("test");
    to.value(kind);
    to.value(u32{90});
    to.value(count);
    for (u64 i = 0; i < count && i <= kMostTranslated; i++) {
      to.array(std::vector<u32>(words));
      to.array(std::vector<u32>());
    }
    EXPECT_FALSE(read_translation_order(mapped(to.seal().value()))) << count << " of " << words;
  }
}

// Of a GPU that this build has nothing to link to, or where nothing is loaded: a sentence.
TEST(CompilerTranslations, ThatCannotBeMadeAreASentence) {
  Compiler compiler(Takes::orders_for_code);
  const auto answer = compiler.answer(write_translation_order(some_programs(), 1).value());
  ASSERT_TRUE(answer) << answer.error();
  const auto memory = SealedMemory::map(*answer, kMostAnswer).value();
  EXPECT_NE(read_code_answer(memory.bytes()).value().error().sentence, "");
}

TEST(CompilerTranslations, WhoMakesThemReadsNoPolicy) {
  const auto policy = write_order(pass_everything(), {}, {}).value();
  EXPECT_TRUE(Compiler().answer(policy));
  EXPECT_FALSE(Compiler(Takes::orders_for_code).answer(policy));
}

TEST(CompilerTranslations, OfASourceCanBeLinked) {
  if (const auto loaded = load_translator(); !loaded) GTEST_SKIP() << loaded.error();
  const u64 name = 0x0123456789abcdef;
  const std::string source = gpu::programs::chosen_of(std::span(&name, 1));
  for (const u32 architecture : {80u, 90u}) {
    const auto cubin = compile_translation(source, architecture);
    ASSERT_TRUE(cubin) << cubin.error();
    Elf64_Ehdr head{};
    ASSERT_GT(cubin->size(), sizeof(head));
    std::memcpy(&head, cubin->data(), sizeof(head));
    EXPECT_EQ(std::memcmp(head.e_ident, ELFMAG, SELFMAG), 0);
    EXPECT_EQ(head.e_machine, kCuda);
    EXPECT_EQ(head.e_type, ET_REL);
    EXPECT_NE(std::string_view(cubin->data(), cubin->size()).find("xg_program_0123456789abcdef"),
              std::string_view::npos);
  }
}

// One that refused the word for it would take twice as long, and nobody would see why.
TEST(CompilerTranslations, TheCompilerHurriesWhereItCan) {
  if (const auto loaded = load_translator(); !loaded) GTEST_SKIP() << loaded.error();
  if (std::stoi(translator_version()) < 13) GTEST_SKIP() << "NVRTC " << translator_version() << " cannot";
  EXPECT_TRUE(translator_hurries());
}

// One that has no code but returns.
Decoded smallest_program() {
  gpu::programs::Program program;
  program.name = "passes";
  program.license = "GPL";
  program.instructions = {{.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .destination = 0, .immediate = 2},
                          {.opcode = BPF_JMP | BPF_EXIT}};
  const auto stage = gpu::stage_with(std::make_shared<const gpu::programs::Program>(program)).value();
  const auto pipelines = gpu::Pipelines::compile({{.name = "p", .stages = {stage}, .inner = false}}).value();
  return gpu::programs::programs_of(*pipelines).at(0);
}
// What one compiler has made is found by the next one, which makes nothing.
TEST(CompilerTranslations, AreKeptForTheNextCompiler) {
  if (const auto loaded = load_translator(); !loaded) GTEST_SKIP() << loaded.error();
  u32 architecture = 0;
  for (const u32 known : {75u, 80u, 86u, 89u, 90u, 100u, 120u})
    if (gpu::linkable_code(known)) architecture = known;
  if (architecture == 0) GTEST_SKIP() << "this build has no machine code to link programs to";
  std::string home = testing::TempDir() + "xdpgpu-translations-XXXXXX";
  ASSERT_NE(mkdtemp(home.data()), nullptr);
  const auto folder = DiskCache::open(home + "/cache").value();
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  const kernel::Fd broker(fds[0]), compiler(fds[1]);
  const std::vector<Decoded> programs{smallest_program()};
  const auto translated = [&] {
    return Translations(KeptCode(folder, kernel::Fd(dup(compiler.get())))).translate(programs, architecture);
  };
  const auto first = translated();
  ASSERT_TRUE(first) << first.error();
  ASSERT_TRUE(keep_what_came(broker.get(), folder));
  ASSERT_EQ(folder.ids().size(), 1u);
  const auto second = translated();
  ASSERT_TRUE(second) << second.error();
  EXPECT_EQ(second->id, first->id);
  EXPECT_EQ(second->modules, first->modules);
  char note[64];
  EXPECT_EQ(recv(broker.get(), note, sizeof(note), MSG_DONTWAIT), 36) << "it says that it has used it";
  EXPECT_LT(recv(broker.get(), note, sizeof(note), MSG_DONTWAIT), 0) << "and sends nothing to be kept";
  std::filesystem::remove_all(home);
}

TEST(CompilerTranslations, WhatIsWrongWithASourceIsOneLine) {
  if (const auto loaded = load_translator(); !loaded) GTEST_SKIP() << loaded.error();
  const auto none = compile_translation("void f() {\n  one;\n  two;\n}\n", 90);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error(), HasSubstr("NVRTC: program.cu(2): error: "));
  EXPECT_EQ(none.error().find('\n'), std::string::npos) << none.error();
  EXPECT_THAT(compile_translation("", 1).error(), HasSubstr("NVRTC: "));
}

}  // namespace
}  // namespace xdpgpu::compiler
