// SPDX-License-Identifier: MIT
//
// tests/unit/compiler_program_object.cpp: ELF objects in, relocated programs out; what those need; and what
// the kernel's verifier says of them.
#include "tests/unit/compiler_program_object.hpp"

#include <bpf/btf.h>
#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <linux/bpf.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <tuple>

#include "gpu/program_counts.hpp"

#include "userspace/compiler/programs/elf.hpp"
#include "userspace/compiler/programs/layouts.hpp"
#include "userspace/compiler/programs/needs.hpp"
#include "userspace/kernel/verifier.hpp"

namespace xdpgpu::test {
namespace {

using namespace programs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Map* map_named(const Program& program, const std::string& name) {
  for (const Map& map : program.maps)
    if (map.name == name) return &map;
  return nullptr;
}

std::vector<std::string> names_of(const std::vector<Need>& needs) {
  std::vector<std::string> names;
  names.reserve(needs.size());
  for (const Need& one : needs) names.push_back(one.name);
  return names;
}

// By name.
MapUse use_of(const ObjectProgram& object, const std::string& name) {
  const auto uses = map_uses(object.program);
  for (std::size_t i = 0; i < uses.size(); i++)
    if (object.program.maps[i].name == name) return uses[i];
  ADD_FAILURE() << "there is no map " << name;
  return MapUse::unknown;
}

// ---- what is read ------------------------------------------------------------------------------------

TEST(ProgramObject, HasItsMapsVariablesAndFunctions) {
  const auto object = read_object(object_bytes("everything"));
  ASSERT_TRUE(object) << object.error();
  const Program& program = object->program;
  EXPECT_EQ(program.name, "everything");
  EXPECT_EQ(program.license, "Dual MIT/GPL");
  EXPECT_EQ(object->section, "xdp");
  EXPECT_FALSE(object->fragments);
  // The entry, and what it calls and has called.
  EXPECT_EQ(function_starts(program).size(), 3u);
  // One that no instruction names is left out.
  ASSERT_EQ(program.maps.size(), 5u);
  EXPECT_EQ(map_named(program, "nobody_asks"), nullptr);
  const Map* const sources = map_named(program, "sources");
  ASSERT_NE(sources, nullptr);
  EXPECT_EQ(*sources, (Map{.name = "sources",
                           .type = BPF_MAP_TYPE_HASH,
                           .key_bytes = 4,
                           .value_bytes = 8,
                           .entries = 1000,
                           .contents = {}}));
  const Map* const constants = map_named(program, ".rodata");
  ASSERT_NE(constants, nullptr);
  EXPECT_EQ(constants->contents, (std::vector<u8>{14, 0, 0, 0}));
  EXPECT_NE(constants->flags & BPF_F_RDONLY_PROG, 0u);
  for (const Map& map : program.maps) EXPECT_EQ(map.constant, map.name == ".rodata") << map.name;
  const Map* const data = map_named(program, ".data");
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->contents, (std::vector<u8>{7, 0, 0, 0, 0, 0, 0, 0}));
  const Map* const zeros = map_named(program, ".bss");
  ASSERT_NE(zeros, nullptr);
  EXPECT_TRUE(zeros->contents.empty());
  EXPECT_THAT(object->notes, ElementsAre(HasSubstr("map counts is to be shared with others by a pin")));
}

TEST(ProgramObject, SaysWhatItNeeds) {
  const auto object = read_object(object_bytes("everything"));
  ASSERT_TRUE(object) << object.error();
  const Needs needs = needs_of(*object);
  EXPECT_TRUE(needs.met());
  EXPECT_THAT(names_of(needs.helpers),
              ElementsAre("map_lookup_elem", "map_update_elem", "get_prandom_u32", "loop"));
  EXPECT_THAT(names_of(needs.map_types), ElementsAre("hash", "array", "percpu_array"));
  EXPECT_THAT(names_of(needs.kinds), testing::IsSupersetOf({"addresses of functions", "atomic operations",
                                                            "calls of functions", "jumps backwards"}));
  for (const char* const name : {"sources", "counts", ".data", ".bss"})
    EXPECT_EQ(use_of(*object, name), MapUse::writes) << name;
  EXPECT_EQ(use_of(*object, ".rodata"), MapUse::reads);
}

TEST(ProgramObject, OfSeveralIsTheOneThatIsNamed) {
  const std::string bytes = object_bytes("several");
  const auto any = read_object(bytes);
  ASSERT_FALSE(any);
  EXPECT_THAT(any.error(), HasSubstr("several XDP programs: name one by its section: first (section xdp)"));
  EXPECT_THAT(any.error(), Not(HasSubstr("for_tc")));
  for (const auto& [name, program] : {std::pair{"first", "first"},
                                      {"xdp", "first"},
                                      {"xdp/second", "second"},
                                      {"xdp.frags", "long_packets"}}) {
    const auto one = read_object(bytes, name);
    ASSERT_TRUE(one) << one.error();
    EXPECT_EQ(one->program.name, program);
    EXPECT_EQ(one->fragments, std::string(name) == "xdp.frags");
  }
  for (const auto& [name, why] : {std::pair{"for_tc", "is no XDP program, but one of the type sched_cls"},
                                  {"for_a_devmap", "for the entries of a map"},
                                  {"third", "no program or section third; it has first (section xdp), "}}) {
    const auto refused = read_object(bytes, name);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error(), HasSubstr(why));
  }
}

TEST(ProgramObject, HasWhatMapsOfMapsHaveInThem) {
  const auto object = read_object(object_bytes("several"), "second");
  ASSERT_TRUE(object) << object.error();
  ASSERT_EQ(object->program.maps.size(), 2u);
  EXPECT_EQ(object->program.maps[0].name, "tables");
  EXPECT_EQ(object->program.maps[0].inner, 1);
  EXPECT_EQ(object->program.maps[1].name, "tables.inner");
  EXPECT_EQ(object->program.maps[1].entries, 8u);
  // What is found in the outer one is written to.
  EXPECT_EQ(use_of(*object, "tables"), MapUse::reads);
  EXPECT_EQ(use_of(*object, "tables.inner"), MapUse::writes);
  EXPECT_TRUE(needs_of(*object).met());
}

TEST(ProgramObject, SaysWhatMapsBeginWith) {
  const std::string bytes = object_bytes("slots");
  const auto calls = read_object(bytes, "first");
  ASSERT_TRUE(calls) << calls.error();
  EXPECT_THAT(calls->slots, ElementsAre(Slot{0, 2, "last"}));
  ASSERT_EQ(calls->program.tails.size(), 1u);
  EXPECT_EQ(calls->program.tails[0].name, "last");
  EXPECT_FALSE(calls->program.tails[0].instructions.empty());
  EXPECT_TRUE(needs_of(*calls).met());
  const auto looks = read_object(bytes, "table");
  ASSERT_TRUE(looks) << looks.error();
  EXPECT_THAT(looks->slots, ElementsAre(Slot{1, 1, "one"}));
  // No instruction names that one.
  ASSERT_EQ(looks->program.maps.size(), 3u);
  EXPECT_TRUE(looks->program.tails.empty()) << "it comes to none";
  EXPECT_EQ(looks->program.maps[0].name, "one");
  EXPECT_EQ(looks->program.maps[1].name, "tables");
  EXPECT_EQ(looks->program.maps[1].inner, 2);
  EXPECT_TRUE(needs_of(*looks).met());
  // That is the object's only program that names neither.
  const auto last = read_object(bytes, "last");
  ASSERT_TRUE(last) << last.error();
  EXPECT_THAT(last->slots, IsEmpty());
  EXPECT_TRUE(needs_of(*last).met());
}

TEST(ProgramObject, ThatAsksTheKernelIsRefused) {
  const std::string calls = object_bytes("extern");
  const auto asks = read_object(calls, "asks_the_kernel");
  ASSERT_FALSE(asks);
  EXPECT_THAT(asks.error(), HasSubstr("kfuncs"));
  EXPECT_THAT(asks.error(), HasSubstr("bpf_xdp_metadata_rx_hash"));
  EXPECT_TRUE(read_object(calls, "asks_nobody"));
  const auto how = read_object(object_bytes("kconfig"));
  ASSERT_FALSE(how);
  EXPECT_THAT(how.error(), HasSubstr("CONFIG_HZ"));
}

TEST(ProgramObject, IsFittedToTheKernelWhereNothingIsElsewhere) {
  const std::string bytes = object_bytes("layouts");
  const auto headers = read_object(bytes, "headers");
  if (access("/sys/kernel/btf/vmlinux", R_OK) == 0) {
    ASSERT_TRUE(headers) << headers.error();
    // The packet's end, where the kernel has it.
    const auto& all = headers->program.instructions;
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Instruction& one) {
      return one.opcode == (BPF_LDX | BPF_MEM | BPF_W) && one.source == 1 && one.offset == 4;
    }));
  }
  for (const auto& [name, why] : {std::pair{"moved", "has its member tot_len elsewhere or not at all"},
                                  {"strange", "elsewhere or not at all"},
                                  {"asks_where", "only a kernel that it is loaded into can say"}}) {
    const auto refused = read_object(bytes, name);
    ASSERT_FALSE(refused) << name;
    EXPECT_THAT(refused.error(), HasSubstr("CO-RE"));
    if (access("/sys/kernel/btf/vmlinux", R_OK) == 0) {
      EXPECT_THAT(refused.error(), HasSubstr(why));
    }
  }
  const auto nobody_tells = read_program(std::as_bytes(std::span(bytes)), {.name = "headers"});
  ASSERT_FALSE(nobody_tells);
  EXPECT_THAT(nobody_tells.error(), HasSubstr("this kernel does not tell its types"));
}

// Of functions that have the same name, as static ones may, it is the one in the program's section.
TEST(ProgramObject, IsFittedByTheFunctionInItsSection) {
  const std::string bytes = object_bytes("layouts");
  auto elf = read_elf(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(elf) << elf.error();
  const auto moved = std::find_if(elf->functions.begin(), elf->functions.end(),
                                  [](const auto& one) { return one.name == "moved"; });
  ASSERT_NE(moved, elf->functions.end());
  const std::string section = moved->section;
  ElfObject::Function other = *moved;
  other.section = "other";
  elf->functions.insert(elf->functions.begin(), other);
  const std::unique_ptr<btf, void (*)(btf*)> types(btf__parse_elf(XDPGPU_OBJECTS "/layouts.bpf.o", nullptr),
                                                   btf__free);
  ASSERT_NE(types, nullptr);
  EXPECT_FALSE(check_layouts(*elf, types.get(), section, "moved", {}));
  EXPECT_FALSE(check_layouts(*elf, types.get(), "a third", "moved", {}));
}

TEST(ProgramObject, SaysWhatIsMissing) {
  const auto object = read_object(object_bytes("missing"));
  ASSERT_TRUE(object) << object.error();
  const Needs needs = needs_of(*object);
  EXPECT_FALSE(needs.met());
  ASSERT_THAT(names_of(needs.helpers), ElementsAre("map_push_elem", "jiffies64"));
  for (const Need& one : needs.helpers) EXPECT_FALSE(one.missing.empty()) << one.name;
  ASSERT_THAT(names_of(needs.map_types), ElementsAre("queue"));
  EXPECT_FALSE(needs.map_types[0].missing.empty());
}

TEST(ProgramObject, OfDebianIsReadAndNeedsNothingThatIsMissing) {
  const auto paths = debian_objects();
  if (paths.empty()) GTEST_SKIP() << "xdp-filter's objects are not here: install xdp-tools";
  EXPECT_EQ(paths.size(), 10u);
  for (const auto& path : paths) {
    SCOPED_TRACE(path);
    const auto object = read_object(file_contents(path));
    ASSERT_TRUE(object) << object.error();
    EXPECT_TRUE(needs_of(*object).met());
    const Map* const counts = map_named(object->program, "xdp_stats_map");
    ASSERT_NE(counts, nullptr);
    EXPECT_EQ(counts->type, u32{BPF_MAP_TYPE_PERCPU_ARRAY});
    EXPECT_EQ(use_of(*object, "xdp_stats_map"), MapUse::writes);
  }
}

// Its flags stand below its counters, in one word.
TEST(ProgramObject, OfDebianOnlyCounts) {
  const auto paths = debian_objects();
  if (paths.empty()) GTEST_SKIP() << "xdp-filter's objects are not here: install xdp-tools";
  for (const auto& path : paths) {
    SCOPED_TRACE(path);
    const auto object = read_object(file_contents(path));
    ASSERT_TRUE(object) << object.error();
    const auto taken = gpu::programs::how_taken(object->program);
    EXPECT_EQ(taken.how, gpu::programs::Taking::counting) << taken.why;
    EXPECT_GE(taken.counts.stores.size(), 2u);
  }
}

// ---- what the kernel says ----------------------------------------------------------------------------

class ProgramVerifier : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "the kernel is asked as root: run it with sudo";
  }
  static kernel::Verdict verdict_of(const std::string& bytes, const std::string& name = "") {
    const auto object = read_object(bytes, name);
    if (!object) {
      ADD_FAILURE() << object.error();
      return {};
    }
    return kernel::verify(object->program, object->fragments);
  }
};
constexpr auto kTakes = kernel::Verdict::Said::takes, kRefuses = kernel::Verdict::Said::refuses;

TEST_F(ProgramVerifier, TakesWhatIsRelocated) {
  for (const auto& [object, program] : {std::pair{"everything", ""},
                                        {"several", "first"},
                                        {"several", "second"},
                                        {"several", "long_packets"},
                                        {"slots", "first"},
                                        {"slots", "table"},
                                        {"layouts", "headers"}}) {
    SCOPED_TRACE(fmt::format("{} {}", object, program));
    const auto verdict = verdict_of(object_bytes(object), program);
    EXPECT_EQ(verdict.said, kTakes) << verdict.why;
  }
}

TEST_F(ProgramVerifier, TakesDebians) {
  const auto paths = debian_objects();
  if (paths.empty()) GTEST_SKIP() << "xdp-filter's objects are not here: install xdp-tools";
  for (const auto& path : paths) {
    const auto verdict = verdict_of(file_contents(path));
    EXPECT_EQ(verdict.said, kTakes) << path << ": " << verdict.why;
  }
}

TEST_F(ProgramVerifier, RefusesWithItsReason) {
  const auto verdict = verdict_of(object_bytes("refused"));
  EXPECT_EQ(verdict.said, kRefuses);
  EXPECT_THAT(verdict.why, HasSubstr("invalid access to packet"));
  EXPECT_THAT(verdict.why, Not(HasSubstr("\n")));
  EXPECT_THAT(verdict.why, Not(HasSubstr("processed ")));
}

// A branch that constants rule out is not looked at: they are in the map, and it is frozen.
TEST_F(ProgramVerifier, KnowsConstants) {
  auto object = read_object(object_bytes("constants"));
  ASSERT_TRUE(object) << object.error();
  EXPECT_EQ(kernel::verify(object->program, false).said, kTakes);
  for (Map& map : object->program.maps) map.contents.clear();
  EXPECT_EQ(kernel::verify(object->program, false).said, kRefuses);
}

// A value of 8 bytes is looked up, with the key 0; where it is not zero, the stack is read beyond its begin.
Program reads_where_not_zero(const Map& map) {
  return {.name = "p",
          .instructions =
              {{.opcode = BPF_ST | BPF_MEM | BPF_W, .destination = 10, .offset = -4},
               {.opcode = BPF_ALU64 | BPF_MOV | BPF_X, .destination = 2, .source = 10},
               // NOLINTNEXTLINE(misc-redundant-expression): two of the three are 0
               {.opcode = BPF_ALU64 | BPF_ADD | BPF_K, .destination = 2, .immediate = -4},
               {.opcode = BPF_LD | BPF_IMM | BPF_DW, .destination = 1, .source = BPF_PSEUDO_MAP_IDX},
               {},
               {.opcode = BPF_JMP | BPF_CALL, .immediate = BPF_FUNC_map_lookup_elem},
               {.opcode = BPF_JMP | BPF_JEQ | BPF_K, .offset = 3},
               {.opcode = BPF_LDX | BPF_MEM | BPF_W, .destination = 1},
               {.opcode = BPF_JMP | BPF_JEQ | BPF_K, .destination = 1, .offset = 1},
               {.opcode = BPF_LDX | BPF_MEM | BPF_DW, .destination = 1, .source = 10, .offset = -8000},
               {.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .immediate = 2},
               {.opcode = BPF_JMP | BPF_EXIT}},
          .maps = {map},
          .license = "GPL"};
}
const Map kOnlyRead{.name = "a",
                    .type = BPF_MAP_TYPE_ARRAY,
                    .key_bytes = 4,
                    .value_bytes = 8,
                    .entries = 1,
                    .flags = BPF_F_RDONLY_PROG,
                    .contents = {}};

// libbpf does not freeze what programs only read, and so the kernel does not rely on what is in it.
TEST_F(ProgramVerifier, RefusesWhatOnlyConstantsWouldAllow) {
  for (const u32 entries : {1u, 4u}) {
    Map map = kOnlyRead;
    map.entries = entries;
    Program program = reads_where_not_zero(map);
    ASSERT_TRUE(check(program));
    const auto verdict = kernel::verify(program, false);
    EXPECT_EQ(verdict.said, kRefuses);
    EXPECT_THAT(verdict.why, HasSubstr("invalid read from stack")) << entries;
    program.instructions[9] = {.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .destination = 1};
    const auto harmless = kernel::verify(program, false);
    EXPECT_EQ(harmless.said, kTakes) << entries << ": " << harmless.why;
  }
}

// A map that nobody may fill in is refused with EPERM: not because of who asks.
TEST_F(ProgramVerifier, IsAskedWhateverAnObjectWants) {
  Map map = kOnlyRead;
  map.flags |= BPF_F_RDONLY;
  map.constant = true;
  map.contents = {1};
  const auto verdict = kernel::verify(reads_where_not_zero(map), false);
  EXPECT_EQ(verdict.said, kRefuses);
  EXPECT_THAT(verdict.why, HasSubstr("what the map a begins with"));
}

TEST_F(ProgramVerifier, MakesMapsOfTheTypesThatAreNotMissing) {
  int made = 0;
  for (u32 type = 0; type < 64; type++) {
    ObjectProgram object;
    object.program = {.name = "p",
                      .instructions = {{.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .immediate = 2},
                                       {.opcode = BPF_JMP | BPF_EXIT}},
                      .maps = {Map{.name = "m", .type = type, .entries = 1, .contents = {}}},
                      .license = "GPL"};
    const bool is_made = kernel::verify(object.program, false).said != kernel::Verdict::Said::unaskable;
    EXPECT_EQ(needs_of(object).map_types.at(0).missing.empty(), is_made) << type;
    made += is_made;
  }
  EXPECT_EQ(made, 14);
  const auto queue = verdict_of(object_bytes("missing"));
  EXPECT_EQ(queue.said, kernel::Verdict::Said::unaskable);
  EXPECT_THAT(queue.why, HasSubstr("(queue)"));
}

// Time and memory of the kernel's: by what it allocates, of which values may be little.
TEST_F(ProgramVerifier, IsAskedForMapsOfSoMuchAlone) {
  const auto said = [](const Map& map) {
    Program program = reads_where_not_zero(map);
    program.instructions = {{.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .immediate = 2},
                            {.opcode = BPF_JMP | BPF_EXIT}};
    EXPECT_TRUE(check(program));
    return kernel::verify(program, false);
  };
  // A byte has eight.
  const auto array = said({.name = "m",
                           .type = BPF_MAP_TYPE_ARRAY,
                           .key_bytes = 4,
                           .value_bytes = 1,
                           .entries = 200'000'000,
                           .contents = {}});
  EXPECT_EQ(array.said, kernel::Verdict::Said::unaskable);
  EXPECT_THAT(array.why, HasSubstr("its maps take 1525 MiB"));
  const auto each = said({.name = "m",
                          .type = BPF_MAP_TYPE_PERCPU_ARRAY,
                          .key_bytes = 4,
                          .value_bytes = 1,
                          .entries = 6'000'000,
                          .contents = {}});
  EXPECT_EQ(each.said, kernel::Verdict::Said::unaskable);
  EXPECT_THAT(each.why, HasSubstr("its maps of each processor have "));
  // Of these it is not asked how many there are.
  for (const u32 type : {BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_DEVMAP, BPF_MAP_TYPE_PROG_ARRAY}) {
    const auto few = said({.name = "m",
                           .type = type,
                           .key_bytes = 4,
                           .value_bytes = 4,
                           .entries = 100'000'000,
                           .contents = {}});
    EXPECT_EQ(few.said, kTakes) << type << ": " << few.why;
  }
}

// An array of each CPU's has its size on each of them.
TEST_F(ProgramVerifier, IsNotAskedAboutMapsThatAreTooLarge) {
  if (sysconf(_SC_NPROCESSORS_CONF) < 2)
    GTEST_SKIP() << "there is one processor: maps are as large as they say";
  auto object = read_object(object_bytes("everything"));
  ASSERT_TRUE(object) << object.error();
  for (Map& map : object->program.maps)
    if (map.name == "counts") map.value_bytes = 1000, map.entries = 1'000'000;
  ASSERT_TRUE(check(object->program));
  const auto verdict = kernel::verify(object->program, false);
  EXPECT_EQ(verdict.said, kernel::Verdict::Said::unaskable);
  EXPECT_THAT(verdict.why, HasSubstr("give them fewer entries"));
}

TEST_F(ProgramVerifier, LeavesNothing) {
  const auto open = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = open();
  (void)verdict_of(object_bytes("everything"));
  (void)verdict_of(object_bytes("refused"));
  EXPECT_EQ(open(), before);
}

// ---- what is hostile ---------------------------------------------------------------------------------

// None of them is what a sanitizer ends a process with.
constexpr int kIsAnError = 51, kIsAProgram = 52, kIsWrong = 53;

#if defined(XDPGPU_SANITIZED)
constexpr int kRuns = 200;
constexpr std::size_t kStep = 11;
#else
constexpr int kRuns = 1000;
constexpr std::size_t kStep = 3;
#endif

// In a process of its own: libbpf does not survive every damaged object, and that is an error, too. What is
// our own survives them all: the part of it that comes before libbpf is looked at here as well.
int outcome_of(const std::string& bytes, const std::string& program = "") {
  (void)read_elf(std::as_bytes(std::span(bytes)));
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    alarm(20);
    const auto object = read_object(bytes, program);
    if (!object) _exit(object.error().empty() ? kIsWrong : kIsAnError);
    (void)needs_of(*object);
    _exit(check(object->program) ? kIsAProgram : kIsWrong);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? kIsWrong : kIsAnError;
  const int said = WEXITSTATUS(status);
  return said == kIsAProgram || said == kIsAnError ? said : kIsWrong;
}

TEST(HostileObject, OfAnyLengthIsRefused) {
  const std::string whole = object_bytes("everything");
  ASSERT_EQ(outcome_of(whole), kIsAProgram);
  for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 300)
    EXPECT_EQ(outcome_of(whole.substr(0, length)), kIsAnError) << length;
}

TEST(HostileObject, WithOtherBytesIsRefusedOrAProgramWithinItsBounds) {
  std::mt19937 random(20);
  int programs = 0, errors = 0;
  for (const auto& [name, program] :
       {std::pair{"everything", ""}, {"slots", "first"}, {"several", "second"}, {"layouts", "headers"}}) {
    const std::string whole = object_bytes(name);
    // Of the one that is fitted to the kernel, each run reads all of the kernel's types.
    const int runs = std::string(name) == "layouts" ? kRuns / 10 : kRuns;
    for (int i = 0; i < runs; i++) {
      std::string bytes = whole;
      for (auto k = 1 + random() % 4; k > 0; k--)
        bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
      const int outcome = outcome_of(bytes, program);
      ASSERT_NE(outcome, kIsWrong) << name << ", " << i;
      (outcome == kIsAProgram ? programs : errors)++;
    }
  }
  EXPECT_GT(programs, 100);
  EXPECT_GT(errors, 100);
}

// The tables that everything else is found by.
TEST(HostileObject, WithAnotherHeaderIsRefusedOrAProgramWithinItsBounds) {
  const std::string whole = object_bytes("extern");
  Elf64_Ehdr header{};
  std::memcpy(&header, whole.data(), sizeof(header));
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < sizeof(header); i++) places.push_back(i);
  for (std::size_t i = 0; i < header.e_shnum * sizeof(Elf64_Shdr); i += kStep)
    places.push_back(header.e_shoff + i);
  for (const std::size_t place : places) {
    std::string bytes = whole;
    bytes.at(place) ^= static_cast<char>(0xff);
    ASSERT_NE(outcome_of(bytes, "asks_nobody"), kIsWrong) << place;
  }
}

template <class T>
void put(std::string& bytes, std::size_t place, T value) {
  std::memcpy(bytes.data() + place, &value, sizeof(value));
}

TEST(HostileObject, OfAnotherMachineOrKindSaysSo) {
  const std::string whole = object_bytes("everything");
  const auto refused = [](const std::string& bytes) {
    const auto object = read_object(bytes);
    return object ? std::string("taken") : object.error();
  };
  std::string bytes = whole;
  put(bytes, offsetof(Elf64_Ehdr, e_machine), Elf64_Half{EM_X86_64});
  EXPECT_THAT(refused(bytes), HasSubstr("is for another machine (number 62)"));
  bytes = whole;
  bytes[EI_DATA] = ELFDATA2MSB;
  EXPECT_THAT(refused(bytes), HasSubstr("other byte order"));
  bytes = whole;
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_THAT(refused(bytes), HasSubstr("no ELF object of 64 bits"));
  bytes = whole;
  put(bytes, offsetof(Elf64_Ehdr, e_type), Elf64_Half{ET_EXEC});
  EXPECT_THAT(refused(bytes), HasSubstr("no object as compilers make them"));
  EXPECT_THAT(refused("#!/bin/sh\n"), HasSubstr("no ELF object"));
  EXPECT_THAT(refused(""), HasSubstr("no ELF object"));
  EXPECT_THAT(refused(std::string(kMostObjectBytes + 1, '\0')), HasSubstr("more than 16 MiB"));
}

// More sections than a header can count: the first section's size says how many.
TEST(HostileObject, ThatClaimsAMillionSectionsIsRefused) {
  std::string bytes = object_bytes("everything");
  Elf64_Ehdr header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  put(bytes, offsetof(Elf64_Ehdr, e_shnum), Elf64_Half{0});
  put(bytes, header.e_shoff + offsetof(Elf64_Shdr, sh_size), Elf64_Xword{1'000'000});
  EXPECT_EQ(outcome_of(bytes), kIsAnError);
  // That are in the object, too.
  bytes.resize(header.e_shoff + 200'000 * sizeof(Elf64_Shdr));
  put(bytes, header.e_shoff + offsetof(Elf64_Shdr, sh_size), Elf64_Xword{200'000});
  EXPECT_EQ(outcome_of(bytes), kIsAnError);
  const auto object = read_object(bytes);
  ASSERT_FALSE(object);
  EXPECT_THAT(object.error(), HasSubstr("has 200000 sections"));
}

// Of a section's header, by the section's name.
template <class T>
void put_in_header(std::string& bytes, const std::string& section, std::size_t member, T value) {
  Elf64_Ehdr header{};
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto at = [&](std::size_t i) {
    Elf64_Shdr one{};
    std::memcpy(&one, bytes.data() + header.e_shoff + i * sizeof(one), sizeof(one));
    return one;
  };
  const u64 names = at(header.e_shstrndx).sh_offset;
  for (std::size_t i = 0; i < header.e_shnum; i++)
    if (section == bytes.data() + names + at(i).sh_name)
      return put(bytes, header.e_shoff + i * sizeof(Elf64_Shdr) + member, value);
  ADD_FAILURE() << "there is no section " << section;
}

// Zeros take no room in an object; sections in one another take it once.
TEST(HostileObject, ThatIsLargerThanItsBytesIsRefused) {
  for (const u64 size : {kMostZeroBytes + 1, u64{1} << 40, ~u64{0}}) {
    std::string bytes = object_bytes("everything");
    put_in_header(bytes, ".bss", offsetof(Elf64_Shdr, sh_size), Elf64_Xword{size});
    const auto object = read_object(bytes);
    ASSERT_FALSE(object);
    EXPECT_THAT(object.error(), HasSubstr("has more than 8 MiB of zeros"));
  }
  std::string bytes = object_bytes("everything");
  for (const char* const section : {"license", ".data", ".rodata", "xdp"}) {
    put_in_header(bytes, section, offsetof(Elf64_Shdr, sh_offset), Elf64_Off{0});
    put_in_header(bytes, section, offsetof(Elf64_Shdr, sh_size), Elf64_Xword{bytes.size()});
  }
  const auto object = read_object(bytes);
  ASSERT_FALSE(object);
  EXPECT_THAT(object.error(), HasSubstr("sections that lie in one another"));
}

// Names stand in reports.
TEST(HostileObject, WithNamesThatAreNoneIsRefused) {
  for (const auto& [name, object, program] : {std::tuple{"reads_beyond", "refused", ""},
                                              {"sources", "everything", ""},
                                              {"counts", "everything", ""}}) {
    for (const char evil : {'\n', '\x1b', '\x7f', '\xe2'}) {
      std::string bytes = object_bytes(object), other = name;
      other[3] = evil;
      for (auto at = bytes.find(name); at != std::string::npos; at = bytes.find(name, at))
        bytes.replace(at, other.size(), other);
      const auto read = read_object(bytes, program);
      ASSERT_FALSE(read) << name;
      EXPECT_THAT(read.error(), HasSubstr("not of printable ASCII")) << name;
    }
  }
}

// Each relocation, moved to where nothing is.
TEST(HostileObject, WithARelocationBeyondTheEndIsRefused) {
  const std::string whole = object_bytes("slots");
  ASSERT_EQ(outcome_of(whole, "first"), kIsAProgram);
  Elf64_Ehdr header{};
  std::memcpy(&header, whole.data(), sizeof(header));
  int moved = 0;
  for (std::size_t i = 0; i < header.e_shnum; i++) {
    Elf64_Shdr section{};
    std::memcpy(&section, whole.data() + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_REL) continue;
    Elf64_Shdr of{};
    std::memcpy(&of, whole.data() + header.e_shoff + section.sh_info * sizeof(of), sizeof(of));
    // Of code, and of maps.
    if ((of.sh_flags & (SHF_EXECINSTR | SHF_WRITE)) == 0) continue;
    for (u64 k = 0; k < section.sh_size / sizeof(Elf64_Rel); k++) {
      std::string bytes = whole;
      put(bytes, section.sh_offset + k * sizeof(Elf64_Rel), u64{0x7fffffff8});
      for (const char* const program : {"first", "table"})
        EXPECT_EQ(outcome_of(bytes, program), kIsAnError) << i << ", " << k;
      moved++;
    }
  }
  EXPECT_GE(moved, 4);
}

// ---- the bounds of values ----------------------------------------------------------------------------

constexpr u8 kMove = BPF_ALU64 | BPF_MOV | BPF_K, kExit = BPF_JMP | BPF_EXIT,
             kLoad = BPF_LD | BPF_IMM | BPF_DW, kCall = BPF_JMP | BPF_CALL, kJump = BPF_JMP | BPF_JA;

std::string wrong(std::vector<Instruction> instructions, std::vector<Map> maps = {}) {
  const Program program{"p", std::move(instructions), std::move(maps), "GPL"};
  const auto right = check(program);
  return right ? "" : right.error();
}

TEST(ProgramBounds, HoldForEachInstruction) {
  const Map array{.name = "a",
                  .type = BPF_MAP_TYPE_ARRAY,
                  .key_bytes = 4,
                  .value_bytes = 8,
                  .entries = 1,
                  .contents = {}};
  const Instruction exit{.opcode = kExit}, half{};
  EXPECT_EQ(wrong({{.opcode = kMove}, exit}), "");
  EXPECT_THAT(wrong({}), HasSubstr("no instructions"));
  EXPECT_THAT(wrong({{.opcode = kMove, .destination = 11}, exit}), HasSubstr("a register that there is not"));
  EXPECT_THAT(wrong({{.opcode = kMove, .destination = 10}, exit}), HasSubstr("frame pointer"));
  EXPECT_THAT(wrong({{.opcode = kMove}}), HasSubstr("has no end"));
  EXPECT_THAT(wrong({{.opcode = 0xff}, exit}), HasSubstr("none that RFC 9669 has"));
  EXPECT_THAT(wrong({{.opcode = 0xe5}, exit}), HasSubstr("none that RFC 9669 has"));
  EXPECT_THAT(wrong({{.opcode = BPF_LD | BPF_ABS | BPF_W}, exit}), HasSubstr("none that XDP programs have"));
  // Constants.
  EXPECT_EQ(wrong({{.opcode = kLoad}, half, exit}), "");
  EXPECT_THAT(wrong({exit, {.opcode = kLoad}}), HasSubstr("no second half"));
  EXPECT_THAT(wrong({{.opcode = kLoad}, exit}), HasSubstr("second half that is none"));
  EXPECT_EQ(wrong({{.opcode = kLoad, .source = BPF_PSEUDO_MAP_IDX}, half, exit}, {array}), "");
  EXPECT_THAT(wrong({{.opcode = kLoad, .source = BPF_PSEUDO_MAP_IDX, .immediate = 1}, half, exit}, {array}),
              HasSubstr("a map that there is not"));
  EXPECT_THAT(wrong({{.opcode = kLoad, .source = BPF_PSEUDO_MAP_IDX, .immediate = -1}, half, exit}, {array}),
              HasSubstr("a map that there is not"));
  EXPECT_EQ(wrong({{.opcode = kLoad, .source = BPF_PSEUDO_MAP_IDX_VALUE}, {.immediate = 7}, exit}, {array}),
            "");
  EXPECT_THAT(wrong({{.opcode = kLoad, .source = BPF_PSEUDO_MAP_IDX_VALUE}, {.immediate = 8}, exit}, {array}),
              HasSubstr("beyond its map's value"));
  EXPECT_THAT(wrong({{.opcode = kLoad, .source = BPF_PSEUDO_MAP_FD}, half, exit}, {array}),
              HasSubstr("not known here"));
  // Jumps and calls.
  EXPECT_EQ(wrong({{.opcode = kJump}, exit}), "");
  EXPECT_THAT(wrong({{.opcode = kJump, .offset = 1}, exit}), HasSubstr("jumps out of the program"));
  EXPECT_THAT(wrong({{.opcode = kJump, .offset = -2}, exit}), HasSubstr("jumps out of the program"));
  EXPECT_THAT(wrong({{.opcode = BPF_JMP32 | BPF_JA, .immediate = 0x7fffffff}, exit}),
              HasSubstr("jumps out of the program"));
  EXPECT_THAT(wrong({{.opcode = kJump, .offset = 1}, {.opcode = kLoad}, half, exit}),
              HasSubstr("jumps into"));
  EXPECT_EQ(wrong({{.opcode = kCall, .source = BPF_PSEUDO_CALL, .immediate = 1}, exit, exit}), "");
  EXPECT_THAT(wrong({{.opcode = kCall, .source = BPF_PSEUDO_CALL, .immediate = 2}, exit, exit}),
              HasSubstr("not in the program"));
  EXPECT_THAT(wrong({{.opcode = kCall, .source = BPF_PSEUDO_CALL, .immediate = 2},
                     exit,
                     {.opcode = kLoad},
                     half,
                     exit}),
              HasSubstr("begins within"));
  EXPECT_THAT(wrong({{.opcode = kCall, .source = BPF_PSEUDO_CALL, .immediate = 2},
                     {.opcode = kJump, .offset = 1},
                     exit,
                     exit}),
              HasSubstr("jumps out of its function"));
  EXPECT_THAT(wrong({{.opcode = kCall, .source = BPF_PSEUDO_KFUNC_CALL, .immediate = 1}, exit}),
              HasSubstr("kfunc"));
  EXPECT_THAT(wrong({{.opcode = kCall, .immediate = -1}, exit}), HasSubstr("a helper that there is not"));
}

TEST(ProgramBounds, HoldForEachMap) {
  const std::vector<Instruction> exits{{.opcode = kExit}};
  const Map array{.name = "a",
                  .type = BPF_MAP_TYPE_ARRAY,
                  .key_bytes = 4,
                  .value_bytes = 8,
                  .entries = 2,
                  .contents = {}};
  const auto with = [&](const auto& change) {
    Map map = array;
    change(map);
    return wrong(exits, {map});
  };
  EXPECT_EQ(with([](Map&) {}), "");
  EXPECT_EQ(with([](Map& map) { map.contents.resize(16); }), "");
  EXPECT_THAT(with([](Map& map) { map.contents.resize(17); }), HasSubstr("more than it can have"));
  EXPECT_THAT(with([](Map& map) { map.key_bytes = 513; }), HasSubstr("keys"));
  EXPECT_THAT(with([](Map& map) { map.entries = 0xffffffff; }), HasSubstr("beyond 1 GiB"));
  EXPECT_THAT(with([](Map& map) { map.value_bytes = 0xffffffff; }), HasSubstr("values"));
  EXPECT_THAT(with([](Map& map) { map.key_bytes = map.value_bytes = 0, map.entries = 0xffffffff; }),
              HasSubstr("beyond 1 GiB"));
  EXPECT_THAT(with([](Map& map) { map.inner = 0; }), HasSubstr("what maps are in it"));
  EXPECT_THAT(with([](Map& map) { map.type = BPF_MAP_TYPE_ARRAY_OF_MAPS; }),
              HasSubstr("what maps are in it"));
  EXPECT_THAT(with([](Map& map) { map.type = BPF_MAP_TYPE_ARRAY_OF_MAPS, map.inner = 1; }),
              HasSubstr("one that there is not"));
  EXPECT_THAT(with([](Map& map) { map.type = BPF_MAP_TYPE_ARRAY_OF_MAPS, map.inner = 0; }),
              HasSubstr("maps of maps"));
  for (const std::string& name : {std::string("a\0b", 3), std::string("a\nb"), std::string("\xe2\x80\xae"),
                                  std::string("\x7f"), std::string(257, 'a')})
    EXPECT_THAT(with([&](Map& map) { map.name = name; }), HasSubstr("a map has a name that is"));
  EXPECT_EQ(with([](Map& map) { map.name = std::string(256, '~'); }), "");
  // What it begins with.
  EXPECT_THAT(with([](Map& map) { map.type = BPF_MAP_TYPE_HASH, map.contents = {1}; }),
              HasSubstr("is no array"));
  EXPECT_EQ(with([](Map& map) { map.entries = 100'000, map.contents.resize(8 * 65'536); }), "");
  EXPECT_THAT(with([](Map& map) { map.entries = 100'000, map.contents.resize(8 * 65'536 + 1); }),
              HasSubstr("more than 65536 values"));
  EXPECT_EQ(with([](Map& map) { map.entries = 1, map.flags = BPF_F_RDONLY_PROG, map.constant = true; }), "");
  EXPECT_THAT(with([](Map& map) { map.flags = BPF_F_RDONLY_PROG, map.constant = true; }),
              HasSubstr("one of constants"));
  EXPECT_THAT(with([](Map& map) { map.entries = 1, map.constant = true; }), HasSubstr("one of constants"));
  EXPECT_EQ(wrong(exits, std::vector<Map>(64, array)), "");
  EXPECT_THAT(wrong(exits, std::vector<Map>(65, array)), HasSubstr("65 maps"));
  EXPECT_THAT(wrong(std::vector<Instruction>(1'000'001, {.opcode = kExit})),
              HasSubstr("1000001 instructions"));
}

// ---- what is done to maps ----------------------------------------------------------------------------

MapUse use(std::vector<Instruction> instructions) {
  const Map hash{
      .name = "h", .type = BPF_MAP_TYPE_HASH, .key_bytes = 4, .value_bytes = 8, .entries = 9, .contents = {}};
  const Program program{"p", std::move(instructions), {hash}, "GPL"};
  const auto right = check(program);
  EXPECT_TRUE(right) << right.error();
  return map_uses(program).at(0);
}

TEST(MapUses, FollowWhatIsLookedUp) {
  const Instruction map{.opcode = kLoad, .destination = 1, .source = BPF_PSEUDO_MAP_IDX}, half{},
      lookup{.opcode = kCall, .immediate = BPF_FUNC_map_lookup_elem}, exit{.opcode = kExit};
  const auto store = [](u8 to, u8 from, std::int16_t offset = 0) {
    return Instruction{
        .opcode = BPF_STX | BPF_MEM | BPF_DW, .destination = to, .source = from, .offset = offset};
  };
  const auto load = [](u8 to, u8 from, std::int16_t offset = 0) {
    return Instruction{
        .opcode = BPF_LDX | BPF_MEM | BPF_DW, .destination = to, .source = from, .offset = offset};
  };
  const Instruction call{.opcode = kCall, .source = BPF_PSEUDO_CALL, .immediate = 1};
  EXPECT_EQ(use({map, half, exit}), MapUse::names);
  EXPECT_EQ(use({map, half, lookup, exit}), MapUse::reads);
  EXPECT_EQ(use({map, half, lookup, load(1, 0), exit}), MapUse::reads);
  EXPECT_EQ(use({map, half, lookup, store(0, 1), exit}), MapUse::writes);
  // Through the stack, by another address of it, ...
  EXPECT_EQ(use({map, half, lookup, store(10, 0, -8), load(3, 10, -8), store(3, 1), exit}), MapUse::writes);
  // ... through a function's argument and its result, ...
  EXPECT_EQ(use({map,
                 half,
                 lookup,
                 {.opcode = BPF_ALU64 | BPF_MOV | BPF_X, .destination = 1, .source = 0},
                 call,
                 exit,
                 store(1, 1),
                 exit}),
            MapUse::writes);
  EXPECT_EQ(use({{.opcode = kCall, .source = BPF_PSEUDO_CALL, .immediate = 2},
                 store(0, 1),
                 exit,
                 map,
                 half,
                 lookup,
                 exit}),
            MapUse::writes);
  // ... through a caller's stack, ...
  EXPECT_EQ(use({map,
                 half,
                 lookup,
                 store(10, 0, -8),
                 {.opcode = BPF_ALU64 | BPF_MOV | BPF_X, .destination = 1, .source = 10},
                 call,
                 exit,
                 load(3, 1, -8),
                 store(3, 1),
                 exit}),
            MapUse::writes);
  // ... around a loop, and by what is not known.
  EXPECT_EQ(use({store(7, 1),
                 map,
                 half,
                 lookup,
                 {.opcode = BPF_ALU64 | BPF_MOV | BPF_X, .destination = 7, .source = 0},
                 {.opcode = BPF_JMP | BPF_JEQ | BPF_K, .offset = -6},
                 exit}),
            MapUse::writes);
  EXPECT_EQ(use({map,
                 half,
                 lookup,
                 {.opcode = BPF_ALU64 | BPF_MOV | BPF_X, .destination = 2, .source = 0},
                 {.opcode = kCall, .immediate = BPF_FUNC_fib_lookup},
                 exit}),
            MapUse::writes);
  EXPECT_EQ(use({map, half, {.opcode = kCall, .immediate = BPF_FUNC_map_delete_elem}, exit}), MapUse::writes);
}

// Compilers keep many addresses on the stack, and one that is read is not written because another one is.
TEST(MapUses, PlacesOnTheStackAreToldApart) {
  const Instruction map{.opcode = kLoad, .destination = 1, .source = BPF_PSEUDO_MAP_IDX}, half{},
      lookup{.opcode = kCall, .immediate = BPF_FUNC_map_lookup_elem}, exit{.opcode = kExit};
  const auto store = [](u8 to, u8 from, std::int16_t offset = 0, int size = BPF_DW) {
    return Instruction{.opcode = static_cast<u8>(BPF_STX | BPF_MEM | size),
                       .destination = to,
                       .source = from,
                       .offset = offset};
  };
  const auto load = [](u8 to, u8 from, std::int16_t offset = 0, int size = BPF_DW) {
    return Instruction{.opcode = static_cast<u8>(BPF_LDX | BPF_MEM | size),
                       .destination = to,
                       .source = from,
                       .offset = offset};
  };
  const auto move = [](u8 to, u8 from) {
    return Instruction{.opcode = BPF_ALU64 | BPF_MOV | BPF_X, .destination = to, .source = from};
  };
  EXPECT_EQ(use({map, half, lookup, store(10, 0, -8), load(3, 10, -16), store(3, 1), exit}), MapUse::reads);
  EXPECT_EQ(use({map, half, lookup, store(10, 0, -8), store(10, 2, -8), load(3, 10, -8), store(3, 1), exit}),
            MapUse::reads);
  // What comes out of a packet, or of a map, is no address.
  EXPECT_EQ(use({move(6, 1), map, half, lookup, store(10, 0, -8), load(3, 6, 0, BPF_W), store(3, 1), exit}),
            MapUse::reads);
  EXPECT_EQ(use({map, half, lookup, store(10, 0, -8), load(3, 0), store(3, 1), exit}), MapUse::reads);
  // A part of the place, and one that meets two of them, leave what was there.
  EXPECT_EQ(
      use({map, half, lookup, store(10, 0, -8), store(10, 2, -8, BPF_W), load(3, 10, -8), store(3, 1), exit}),
      MapUse::writes);
  EXPECT_EQ(use({map, half, lookup, store(10, 0, -8), store(10, 2, -12), load(3, 10, -8), store(3, 1), exit}),
            MapUse::writes);
  // By one of two ways.
  EXPECT_EQ(use({map,
                 half,
                 lookup,
                 store(10, 2, -8),
                 {.opcode = BPF_JMP | BPF_JEQ | BPF_K, .offset = 1},
                 store(10, 0, -8),
                 load(3, 10, -8),
                 store(3, 1),
                 exit}),
            MapUse::writes);
  // By another address of the stack, there and back.
  const Instruction below{
      .opcode = BPF_ALU64 | BPF_SUB | BPF_K, .destination = 2, .offset = 0, .immediate = 8};
  EXPECT_EQ(use({map, half, lookup, move(2, 10), below, store(2, 0), load(3, 10, -8), store(3, 1), exit}),
            MapUse::writes);
  EXPECT_EQ(use({map, half, lookup, store(10, 0, -8), move(2, 10), below, load(3, 2), store(3, 1), exit}),
            MapUse::writes);
  EXPECT_EQ(use({map, half, lookup, move(2, 10), below, store(10, 2, -16), store(10, 0, -8), load(4, 10, -16),
                 load(3, 4), store(3, 1), exit}),
            MapUse::writes);
}

// One that takes too long to be followed is followed as if all places were one.
TEST(MapUses, LargeProgramsAreFollowedInBoundedTime) {
  const Instruction map{.opcode = kLoad, .destination = 1, .source = BPF_PSEUDO_MAP_IDX}, half{},
      lookup{.opcode = kCall, .immediate = BPF_FUNC_map_lookup_elem}, exit{.opcode = kExit};
  std::vector<Instruction> all;
  for (int i = 0; i < 12'000; i++) {
    for (const Instruction& one : {map, half, lookup}) all.push_back(one);
    const auto place = static_cast<std::int16_t>(-8 * (1 + i % 64));
    all.push_back({.opcode = BPF_STX | BPF_MEM | BPF_DW, .destination = 10, .source = 0, .offset = place});
    all.push_back(
        {.opcode = BPF_JMP | BPF_JEQ | BPF_K, .offset = static_cast<std::int16_t>(i > 300 ? -1200 : 0)});
  }
  all.push_back(exit);
  EXPECT_EQ(use(all), MapUse::reads);
  all.insert(all.end() - 1, {.opcode = BPF_STX | BPF_MEM | BPF_DW, .destination = 0, .source = 1});
  EXPECT_EQ(use(all), MapUse::writes);
}

}  // namespace
}  // namespace xdpgpu::test
