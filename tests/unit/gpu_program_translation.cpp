// SPDX-License-Identifier: MIT
//
// Programs that are translated (gpu/program_translation.hpp), compiled by the compiler of the tests and run
// on the CPU: they answer what the reference answers, and seldom ask the interpreter.
#include "gpu/program_translation.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "gpu/program_shards.hpp"
#include "tests/kernel/programs/counting.hpp"
#include "tests/kernel/programs/keyed.hpp"
#include "tests/unit/program_ahead.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words

using Run = void (*)(xg_program_machine&);

std::filesystem::path made_folder() {
  std::string name = std::filesystem::temp_directory_path() / "xdpgpu-translations-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::logic_error("no folder like " + name + " can be made");
  return name;
}
void run_compiler(const std::filesystem::path& folder, const std::string& what) {
  const std::string command =
      fmt::format("cd {} && {} -std=c++20 -O1 -fPIC -DXG_PROGRAM_NEAR=96u -I{} {} 2> log", folder.string(),
                  XG_CXX, XG_SOURCE_FOLDER, what);
  if (std::system(command.c_str()) == 0) return;
  std::ifstream log(folder / "log");
  throw std::logic_error(std::string(std::istreambuf_iterator<char>(log), {}));
}

// What all texts go on with, compiled once. Each library has its own count.
class Interpreter {
 public:
  Interpreter() : folder_(made_folder()) {
    std::ofstream(folder_ / "interpreter.cpp") << R"(#include "gpu/stages/program_code.h"
#include "gpu/stages/program_units.h"
unsigned xg_interpreted = 0;
XG_UNIT void xg_program_interpret(xg_program_machine& m) { xg_interpreted++; xg_program_run(m, 0u); }
XG_UNIT void xg_program_prepare(xg_program_machine& m) { xg_program_start(m, 0u); }
XG_UNIT void xg_program_one(xg_program_machine& m) { xg_program_step(m); }
XG_UNIT void xg_program_go_on(xg_program_machine& m) {
  if (m.frames != 0u && m.fault == 0u) xg_interpreted++;
  xg_program_finish(m);
}
#define xg_program_interpret there_1
#define xg_program_prepare there_2
#define xg_program_one there_3
#define xg_program_go_on there_4
#include "gpu/stages/program_interpreter.h"
)";
    run_compiler(folder_, "-c interpreter.cpp -o interpreter.o");
  }
  ~Interpreter() { std::filesystem::remove_all(folder_); }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  std::string object() const { return folder_ / "interpreter.o"; }

 private:
  std::filesystem::path folder_;
};

// Texts of programs that have the same maps, as one library.
class Library {
 public:
  Library() : folder_(made_folder()) {}
  ~Library() {
    if (library_ != nullptr) dlclose(library_);
    std::filesystem::remove_all(folder_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Its number.
  u32 add(const Image& image) {
    const Decoded decoded{image.code, image.tables};
    const auto text = translated(decoded);
    if (!text) throw std::logic_error(text.error());
    // Behind the headers, which are there once.
    constexpr std::string_view kLast = "#include \"gpu/stages/program_translated.h\"\n";
    const std::size_t at = text->find(kLast) + kLast.size();
    if (names_.empty()) text_ += text->substr(0, at);
    // Of macros each text has its own.
    for (const char* const macro : {"LEAVE", "FORGET", "BEGIN", "GIVE", "ASK"})
      text_ += fmt::format("#undef XG_{}\n", macro);
    for (u32 i = 0; i < 64; ++i) text_ += fmt::format("#undef XG_CALLS_{}\n", i);
    text_ += fmt::format("namespace p{} {{\n{}}}\n", names_.size(), text->substr(at));
    names_.push_back(fmt::format("xg_program_{:016x}", name_of(image.code, image.tables)));
    return static_cast<u32>(names_.size() - 1);
  }
  void compile() {
    std::ofstream(folder_ / "programs.cpp") << text_;
    static const Interpreter interpreter;
    run_compiler(folder_, fmt::format("-shared programs.cpp {} -o programs.so", interpreter.object()));
    library_ = dlopen((folder_ / "programs.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::logic_error(dlerror());
    interpreted_ = static_cast<unsigned*>(dlsym(library_, "xg_interpreted"));
  }
  Run run(u32 number) const { return reinterpret_cast<Run>(dlsym(library_, names_[number].c_str())); }
  // Runs that the interpreter took over.
  u32 interpreted() const { return *interpreted_; }

 private:
  std::filesystem::path folder_;
  std::string text_;
  std::vector<std::string> names_;
  void* library_ = nullptr;
  const unsigned* interpreted_ = nullptr;
};

// Each program by itself, with maps of its own.
struct OfOne {
  std::unique_ptr<DeviceTwins> twins;
  Code code;
  u32 number = 0;
};

// How many of 100 runs were interpreted.
u32 random_programs(const RandomKind& kind, u32 first_seed, u32 programs) {
  const std::vector<Map> maps = random_maps(kind);
  Library library;
  std::vector<OfOne> all;
  for (u32 seed = first_seed; seed < first_seed + programs; ++seed) {
    dataplane::Random random(seed);
    OfOne one{.twins = std::make_unique<DeviceTwins>(maps), .code = random_program(random, kind)};
    one.twins->add(one.code);
    one.number = library.add(one.twins->device().code());
    all.push_back(std::move(one));
  }
  library.compile();
  u32 runs = 0;
  for (OfOne& one : all) {
    dataplane::Random random(one.number);
    one.twins->device().translated = library.run(one.number);
    for (u32 i = 0; i < 12; ++i, ++runs) {
      ProgramPacket packet = random_packet(random, kQueues);
      if (kind.keeps_packet) packet.most_lines = 0;
      if (random() % 4 == 0) packet.most_steps = 1 + random() % 80;
      EXPECT_EQ(one.twins->run(0, packet, true, random() % 9), "")
          << "seed " << first_seed + one.number << "\n"
          << test::text_of(one.code);
      if (testing::Test::HasFailure()) return 100;
    }
  }
  return library.interpreted() * 100 / runs;
}
TEST(ProgramTranslation, AnswersAreTheReferences) {
  // What finds no likely place is the interpreter's.
  EXPECT_LT(random_programs({.arrays_only = true, .keeps_packet = true, .reserves = true}, 0, 40), 30u);
  EXPECT_LT(random_programs({.keeps_packet = true}, 100, 40), 40u);
  EXPECT_LT(random_programs({.reserves = true}, 200, 20), 60u);
}

TEST(ProgramTranslation, CountsAreTheReferences) {
  dataplane::Random random(5);
  const auto below = [&](u32 n) { return random() % n; };
  const std::vector<Map> maps = counted_maps();
  Library library;
  struct One {
    Program program;
    Image image;
    u32 number;
  };
  std::vector<One> all;
  for (u32 i = 0; i < 40; ++i) {
    Program program = program_of(counting_program(below), maps);
    const Taken how = how_taken(program);
    ASSERT_EQ(how.how, Taking::counting);
    Image image =
        programs::image_of(std::span(&program, 1), {.queues = 1, .key = kKey, .counts = &how.counts}).value();
    const u32 number = library.add(image);
    all.push_back({std::move(program), std::move(image), number});
  }
  library.compile();
  u32 runs = 0;
  for (One& one : all) {
    Device device(one.image);
    device.translated = library.run(one.number);
    reference::ProgramMaps expected_maps(maps);
    DeviceState state = device.state();
    fill(maps, state, expected_maps, [&](const Map& map) { return counted_value(below, map); });
    reference::ProgramSet set(expected_maps);
    set.add(one.program.instructions);
    for (u32 i = 0; i < 40; ++i, ++runs) {
      ProgramPacket packet = random_packet(random, 1);
      packet.metadata.clear();
      packet.queue = 0;
      packet.most_lines = 0;
      const ProgramAnswer expected = set.run(0, packet), answer = device.run(0, packet, random() % 9);
      ASSERT_EQ(answer.fault, expected.fault) << test::text_of(one.program.instructions);
      ASSERT_EQ(answer.action, expected.action) << test::text_of(one.program.instructions);
    }
    for (u32 map = 0; map < maps.size(); ++map)
      ASSERT_EQ(contents_of(device.state(), map, maps[map]), contents_of(expected_maps[map]))
          << maps[map].name << "\n"
          << test::text_of(one.program.instructions);
  }
  EXPECT_EQ(library.interpreted(), 0u) << runs;
}

// Those whose packets are ordered by a key find it without a trace, as the interpreter does, and do the same
// by it; deletions and updates are the interpreter's, each by itself.
TEST(ProgramTranslation, KeysAreTheReferences) {
  dataplane::Random random(6);
  const auto below = [&](u32 n) { return random() % n; };
  const std::vector<Map> maps = keyed_maps();
  Library library;
  struct One {
    Program program;
    Image image;
    u32 number;
  };
  std::vector<One> all;
  std::set<u64> known;
  while (all.size() < 24) {
    Program program = program_of(keyed_program(below), maps);
    const Taken how = how_taken(program);
    ASSERT_EQ(how.how, Taking::by_key);
    Image image = programs::image_of(std::span(&program, 1),
                                     {.queues = 1, .key = kKey, .counts = &how.counts, .by_key = true})
                      .value();
    if (!known.insert(name_of(image.code, image.tables)).second) continue;
    const u32 number = library.add(image);
    all.push_back({std::move(program), std::move(image), number});
  }
  library.compile();
  for (One& one : all) {
    Device device(one.image), sought(one.image);
    reference::ProgramMaps expected_maps(maps, &kKey);
    reference::ProgramSet set(expected_maps);
    set.add(one.program.instructions);
    u32 keys = 0;
    for (u32 i = 0; i < 60; ++i) {
      ProgramPacket packet{.bytes = Bytes(60)};
      for (u8& byte : packet.bytes) byte = static_cast<u8>(random() % 3 * 40);
      packet.most_lines = 0;
      // Nothing is changed by it.
      const std::vector<u32> before = device.code().state;
      device.translated = library.run(one.number);
      device.seeks_key = sought.seeks_key = true;
      const auto found = device.run(0, packet, random() % 9), by_interpreter = sought.run(0, packet);
      ASSERT_EQ(found.fault, by_interpreter.fault);
      const bool has_key = found.fault == static_cast<ProgramFault>(XG_PROGRAM_KEY_FOUND);
      if (has_key) {
        ASSERT_EQ(device.machine().key_hash, sought.machine().key_hash);
      }
      keys += has_key;
      ASSERT_EQ(device.code().state, before);
      device.seeks_key = false;
      const ProgramAnswer expected = set.run(0, packet), answer = device.run(0, packet, random() % 9);
      ASSERT_EQ(answer.fault, expected.fault) << test::text_of(one.program.instructions);
      ASSERT_EQ(answer.action, expected.action) << test::text_of(one.program.instructions);
    }
    EXPECT_GT(keys, 20u);
    EXPECT_LT(keys, 60u);
    for (u32 map = 0; map < maps.size(); ++map)
      ASSERT_EQ(contents_of(device.state(), map, maps[map]), contents_of(expected_maps[map]))
          << maps[map].name << "\n"
          << test::text_of(one.program.instructions);
  }
  EXPECT_EQ(library.interpreted(), 0u);
  // And ahead of their turns.
  AheadCounts counts;
  for (One& one : all) {
    reference::ProgramMaps expected_maps(maps, &kKey);
    reference::ProgramSet set(expected_maps);
    set.add(one.program.instructions);
    u32 bits = 32;
    for (const u32 map : how_taken(one.program).keyed) bits = std::min(bits, shards_of(maps[map]).bits);
    for (u32 chunk = 0; chunk < 4; ++chunk) {
      std::vector<ProgramPacket> packets(30);
      for (ProgramPacket& packet : packets) {
        packet.bytes = Bytes(60);
        for (u8& byte : packet.bytes) byte = static_cast<u8>(random() % 3 * 40);
        packet.most_lines = 0;
      }
      const auto answers = run_ahead(one.image, packets, bits, library.run(one.number), random, counts);
      for (u32 i = 0; i < packets.size(); ++i)
        ASSERT_EQ(answers[i], set.run(0, packets[i]).action) << test::text_of(one.program.instructions);
    }
    const DeviceState state(one.image.tables, one.image.state);
    for (u32 map = 0; map < maps.size(); ++map)
      ASSERT_EQ(contents_of(state, map, maps[map]), contents_of(expected_maps[map]))
          << maps[map].name << "\n"
          << test::text_of(one.program.instructions);
  }
  EXPECT_GT(counts.held, 500u);
  EXPECT_GT(counts.again + counts.turned_back, 500u);
}

// A map that a map of maps has, or another one: the look-up is the interpreter's, and nothing else is.
TEST(ProgramTranslation, MapsThatAreFoundAreAskedForAlone) {
  std::vector<Map> maps{map_of("of maps", BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, 4),
                        map_of("inner", BPF_MAP_TYPE_LRU_HASH, 4, 8, 16),
                        map_of("other", BPF_MAP_TYPE_LRU_HASH, 4, 8, 16),
                        map_of("numbers", BPF_MAP_TYPE_ARRAY, 4, 4, 64)};
  maps[0].inner = 1;
  Assembly a;
  // Steps are counted where something loops.
  a(load(BPF_W, r7, r1, 0), move_k(r8, 0)).label("again")(alu_k(BPF_ADD, r8, 1));
  a.to("again", jump_k(BPF_JLT, r8, 3));
  a(load(BPF_B, r2, r7, 0), alu_k(BPF_AND, r2, 3), store(BPF_W, r10, -4, r2), map(r1, 0), move(r2, r10),
    alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_lookup_elem), move(r9, r0));
  a.to("found", jump_k(BPF_JNE, r9, 0));
  a(map(r9, 2));
  a.label("found")(load(BPF_B, r2, r7, 1), alu_k(BPF_AND, r2, 7), store(BPF_W, r10, -4, r2), move(r1, r9),
                   move(r2, r10), alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_lookup_elem));
  a.to("new", jump_k(BPF_JEQ, r0, 0));
  a(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r10, -16, r1)).to("put", always());
  a.label("new")(store_k(BPF_DW, r10, -16, 7));
  a.label("put")(move(r1, r9), move(r2, r10), alu_k(BPF_ADD, r2, -4), move(r3, r10), alu_k(BPF_ADD, r3, -16),
                 move_k(r4, 0), call(BPF_FUNC_map_update_elem));
  a(load(BPF_B, r2, r7, 2), alu_k(BPF_AND, r2, 63), store(BPF_W, r10, -4, r2), map(r1, 3), move(r2, r10),
    alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_lookup_elem));
  a.to("out", jump_k(BPF_JEQ, r0, 0));
  a(load(BPF_W, r1, r0, 0), alu_k(BPF_ADD, r1, 3), store(BPF_W, r0, 0, r1));
  a.label("out")(load(BPF_DW, r0, r10, -16), leave());
  DeviceTwins twins(maps, {map_of("first", BPF_MAP_TYPE_LRU_HASH, 4, 8, 16)});
  twins.add(a.code());
  twins.put_map(0, 1, 0);
  Library library;
  const u32 number = library.add(twins.device().code());
  library.compile();
  twins.device().translated = library.run(number);
  dataplane::Random random(3);
  for (u32 i = 0; i < 300; ++i) {
    ProgramPacket packet = random_packet(random, 1);
    packet.metadata.clear();
    ASSERT_EQ(twins.run(0, packet, i % 50 == 0 || i == 299, random() % 9), "") << i;
  }
  EXPECT_EQ(library.interpreted(), 0u);
}

// bpf_loop, in a function that it calls as well: as often as the packet says, until one says that it is
// enough, with what is not its caller's; and what it is answered where it does not turn.
TEST(ProgramTranslation, LoopsAreTurnedByTheText) {
  const std::vector<Map> maps{map_of("sums", BPF_MAP_TYPE_ARRAY, 4, 8, 4)};
  Assembly a;
  a(load(BPF_W, r7, r1, 0), load(BPF_B, r1, r7, 0), load(BPF_B, r4, r7, 1), alu_k(BPF_RSH, r4, 7),
    move_k(r8, 3), store_k(BPF_DW, r10, -8, 0), store(BPF_DW, r10, -16, r7), move(r3, r10),
    alu_k(BPF_ADD, r3, -16));
  a.function(r2, "turn")(call(BPF_FUNC_loop), move(r9, r0));
  // More than there may be, and none.
  a(move_k(r1, 9'000'000), move_k(r3, 0), move_k(r4, 0)).function(r2, "turn")(call(BPF_FUNC_loop));
  a(alu(BPF_XOR, r9, r0), move_k(r1, 0), move_k(r3, 0), move_k(r4, 0));
  a.function(r2, "turn")(call(BPF_FUNC_loop), alu(BPF_ADD, r9, r0), alu(BPF_ADD, r9, r8));
  a(load(BPF_DW, r1, r10, -8), alu(BPF_ADD, r9, r1), load(BPF_B, r1, r7, 2), alu(BPF_ADD, r9, r1),
    move(r0, r9), leave());
  // The first function: a sum, and another loop of as many turns as there were.
  a.label("turn")(move(r6, r1), move(r7, r2), load(BPF_DW, r8, r7, 8), alu(BPF_ADD, r8, r6),
                  store(BPF_DW, r7, 8, r8), move(r1, r6), alu_k(BPF_AND, r1, 3), move(r3, r7), move_k(r4, 0));
  a.function(r2, "inner")(call(BPF_FUNC_loop), load(BPF_DW, r2, r7, 0), load(BPF_B, r2, r2, 3), move(r3, r0),
                          move_k(r0, 0));
  a.to("enough", jump(BPF_JGT, r6, r2))(leave());
  a.label("enough")(move_k(r0, 1), leave());
  a.label("inner")(store(BPF_DW, r10, -8, r1), map_value(r3, 0, 0), load(BPF_DW, r4, r3, 0),
                   alu_k(BPF_ADD, r4, 5), store(BPF_DW, r3, 0, r4), load(BPF_DW, r5, r2, 8),
                   alu_k(BPF_ADD, r5, 1), store(BPF_DW, r2, 8, r5), load(BPF_DW, r1, r10, -8), move_k(r0, 0));
  a.to("last", jump_k(BPF_JEQ, r1, 1))(leave());
  a.label("last")(move_k(r0, 1), leave());
  std::vector<Map> one_value = maps;
  one_value[0].entries = 1;
  DeviceTwins twins(one_value);
  twins.add(a.code());
  Library library;
  const u32 number = library.add(twins.device().code());
  library.compile();
  twins.device().translated = library.run(number);
  dataplane::Random random(4);
  u32 many = 0, faults = 0;
  for (u32 i = 0; i < 400; ++i) {
    ProgramPacket packet = random_packet(random, 1);
    packet.metadata.clear();
    packet.bytes[0] = static_cast<u8>(random() % 40);
    packet.bytes[1] = static_cast<u8>(random() % 4 == 0 ? 0x80 : 0);
    packet.bytes[3] = static_cast<u8>(random() % 50);
    packet.most_lines = 0;
    if (i % 4 == 3) packet.most_steps = 1 + random() % 600;
    ASSERT_EQ(twins.run(0, packet, true, random() % 9), "") << i;
    faults += twins.answer().fault != ProgramFault::none;
    many += twins.answer().fault == ProgramFault::none && packet.bytes[0] > 20;
  }
  EXPECT_GT(many, 50u);
  EXPECT_GT(faults, 10u);
  // Of those that take too many steps the interpreter says where.
  EXPECT_LE(library.interpreted(), faults);
}

// Programs that go on with each other, as the packet's bytes say, as often as may be; each with a stack of
// its own, a function, and what the one in front of it left in R6 to R9.
TEST(ProgramTranslation, TailsAreInTheText) {
  std::vector<Map> maps{map_of("programs", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 6),
                        map_of("sums", BPF_MAP_TYPE_ARRAY, 4, 8, 1)};
  const auto program = [&](u32 number) {
    Assembly a;
    // The first one of all is called with nothing in them.
    if (number == 0) a(move_k(r8, 0), move_k(r9, 1));
    a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_DW, r2, r10, -8 - static_cast<int>(number) * 16),
      store_k(BPF_DW, r10, -8, 77), alu(BPF_ADD, r8, r2), alu_k(BPF_ADD, r8, static_cast<int>(number) + 1),
      map_value(r2, 1, 0), load(BPF_DW, r3, r2, 0), alu(BPF_ADD, r3, r8), store(BPF_DW, r2, 0, r3));
    if (number == 1) a(load(BPF_B, r2, r7, 20), alu_k(BPF_ADD, r2, 1), store(BPF_B, r7, 20, r2));
    a.call_function("adds");
    a(alu(BPF_ADD, r9, r0), move(r3, r9), alu_k(BPF_AND, r3, 7), move(r4, r7), alu(BPF_ADD, r4, r3),
      load(BPF_B, r3, r4, 0), alu_k(BPF_AND, r3, 7), move(r1, r6), map(r2, 0), call(BPF_FUNC_tail_call),
      move(r0, r8), alu_k(BPF_MUL, r0, 10), alu_k(BPF_ADD, r0, static_cast<int>(number)), leave());
    a.label("adds")(store_k(BPF_W, r10, -4, static_cast<int>(number) + 3), load(BPF_W, r0, r10, -4), leave());
    return a.code();
  };
  DeviceTwins twins(maps);
  for (u32 number = 0; number < 3; ++number) twins.add(program(number));
  for (const auto& [index, to] : {std::pair{0u, 1u}, {1u, 2u}, {2u, 1u}, {4u, 2u}})
    ASSERT_TRUE(twins.update(0, bytes_of(index), bytes_of(to)));
  Library library;
  const u32 number = library.add(twins.device().code());
  library.compile();
  twins.device().translated = library.run(number);
  dataplane::Random random(8);
  u32 many = 0, faults = 0;
  for (u32 i = 0; i < 400; ++i) {
    ProgramPacket packet = random_packet(random, 1);
    packet.metadata.clear();
    packet.bytes.resize(64, 3);
    // Some never end by themselves.
    for (u32 at = 0; at < 8; ++at) packet.bytes[at] = static_cast<u8>(random() % (i % 5 == 0 ? 3 : 6));
    if (i % 8 == 7) packet.most_steps = 1 + random() % 900;
    ASSERT_EQ(twins.run(0, packet, true, random() % 9), "") << i;
    faults += twins.answer().fault != ProgramFault::none;
    many += twins.answer().steps > 33 * 20;
  }
  EXPECT_GT(many, 50u);
  EXPECT_GT(faults, 5u);
  EXPECT_LE(library.interpreted(), faults);
  // The first one again, and one that there is not.
  for (const u32 to : {0u, 9u}) {
    ASSERT_TRUE(twins.update(0, bytes_of(0u), bytes_of(to)));
    for (u32 i = 0; i < 20; ++i) {
      ProgramPacket packet{.bytes = Bytes(64)};
      packet.bytes[i % 8] = static_cast<u8>(i % 3);
      ASSERT_EQ(twins.run(0, packet), "") << to << " " << i;
    }
  }
}

// Packets are written to, and their ends moved, by the text.
TEST(ProgramTranslation, PacketsAreChangedByTheText) {
  struct Case {
    const char* name;
    Code code;
  };
  std::vector<Case> cases;
  const auto add = [&](const char* name, const auto&... parts) {
    Assembly a;
    a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_W, r8, r6, 4));
    a(parts...);
    a(move_k(r0, XDP_TX), leave());
    cases.push_back({name, a.code()});
  };
  add("stores", store_k(BPF_B, r7, 3, 7), store(BPF_DW, r7, 8, r8), load(BPF_DW, r1, r7, 5),
      store(BPF_W, r7, 30, r1), store_k(BPF_H, r7, 63, 0x1234), load(BPF_W, r2, r7, 62),
      store(BPF_DW, r7, 17, r2));
  add("head", move(r1, r6), move_k(r2, -20), call(BPF_FUNC_xdp_adjust_head), load(BPF_W, r7, r6, 0),
      store(BPF_DW, r7, 0, r0), load(BPF_DW, r1, r7, 18), store(BPF_DW, r7, 5, r1), move(r1, r6),
      move_k(r2, 8), call(BPF_FUNC_xdp_adjust_head), load(BPF_W, r7, r6, 0), load(BPF_B, r1, r7, 0),
      store(BPF_B, r7, 1, r1));
  add("tail", move(r1, r6), move_k(r2, -10), call(BPF_FUNC_xdp_adjust_tail), move(r1, r6), move_k(r2, 30),
      call(BPF_FUNC_xdp_adjust_tail), load(BPF_W, r7, r6, 0), load(BPF_DW, r1, r7, 50),
      store(BPF_DW, r7, 40, r1));
  add("metadata", move(r1, r6), move_k(r2, -8), call(BPF_FUNC_xdp_adjust_meta), load(BPF_W, r7, r6, 8),
      store_k(BPF_DW, r7, 0, 77), move(r1, r6), move_k(r2, -4), call(BPF_FUNC_xdp_adjust_head),
      load(BPF_W, r7, r6, 8), load(BPF_DW, r1, r7, 0), load(BPF_W, r7, r6, 0), store(BPF_W, r7, 0, r1));
  add("outside", store_k(BPF_B, r7, 3, 7), store_k(BPF_B, r8, 0, 7));
  add("too far", store_k(BPF_B, r7, 3, 7), move(r1, r6), move_k(r2, -4000), call(BPF_FUNC_xdp_adjust_head),
      load(BPF_W, r7, r6, 0), store(BPF_DW, r7, 0, r0));
  Library library;
  std::vector<OfOne> all;
  for (const Case& one : cases) {
    OfOne made{.twins = std::make_unique<DeviceTwins>(std::vector<Map>()), .code = one.code};
    made.twins->add(one.code);
    made.number = library.add(made.twins->device().code());
    all.push_back(std::move(made));
  }
  library.compile();
  dataplane::Random random(9);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].twins->device().translated = library.run(all[i].number);
    for (u32 turn = 0; turn < 40; ++turn) {
      ProgramPacket packet = random_packet(random, 1);
      packet.bytes.resize(64 + random() % 200, 9);
      packet.most_lines = turn % 10 == 9 ? 0 : turn % 10 == 8 ? 1 : packet.most_lines;
      const std::string difference = all[i].twins->run(0, packet, true, random() % 9);
      // Of what writes to a line too many nobody asks how far it came.
      if (turn % 10 >= 8 && all[i].twins->answer().fault != ProgramFault::none)
        ASSERT_EQ(difference.find("fault"), std::string::npos) << cases[i].name << " " << turn;
      else
        ASSERT_EQ(difference, "") << cases[i].name << " " << turn;
    }
  }
  EXPECT_EQ(library.interpreted(), 0u);
}

// xdp-filter looks a packet up in one map after the other, and counts at one place whichever has it.
TEST(ProgramTranslation, CountsInWhicheverMapIsMet) {
  constexpr u8 kMaps = 6;
  std::vector<Map> maps;
  for (u32 i = 0; i < kMaps; ++i)
    maps.push_back(map_of("map" + std::to_string(i), BPF_MAP_TYPE_HASH, 4, 8, 8));
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_B, r8, r7, 0), alu_k(BPF_AND, r8, 7),
    store(BPF_W, r10, -4, r8));
  for (u32 i = 0; i < maps.size(); ++i) {
    a(map(r1, i), move(r2, r10), alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_lookup_elem));
    a.to("count", jump_k(BPF_JNE, r0, 0));
  }
  a(move_k(r0, XDP_PASS), leave());
  a.label("count")(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 64), store(BPF_DW, r0, 0, r1),
                   move_k(r0, XDP_DROP), leave());
  const Program program = program_of(a.code(), maps);
  const Taken how = how_taken(program);
  ASSERT_EQ(how.how, Taking::counting) << how.why;
  Device device(
      programs::image_of(std::span(&program, 1), {.queues = 1, .key = kKey, .counts = &how.counts}).value());
  Library library;
  const u32 number = library.add(device.code());
  library.compile();
  device.translated = library.run(number);
  // Each has another key, so that each is the first to have some packet; two keys are in none.
  for (u8 map = 0; map < kMaps; ++map) ASSERT_EQ(device.state().update(map, {{map, 0, 0, 0}}, Bytes(8)), 0);
  for (u8 first = 0; first < 24; ++first) {
    const ProgramAnswer answer = device.run(0, {.bytes = Bytes(60, first), .most_lines = 0});
    EXPECT_EQ(answer.fault, ProgramFault::none);
    EXPECT_EQ(answer.action, u32{first % 8 < kMaps ? XDP_DROP : XDP_PASS}) << u32{first};
  }
  // Three packets, 64 each.
  for (u8 map = 0; map < kMaps; ++map)
    EXPECT_EQ(contents_of(device.state(), map, maps[map]),
              (Contents{{{map, 0, 0, 0}, {{0, {192, 0, 0, 0, 0, 0, 0, 0}}}}}));
  EXPECT_EQ(library.interpreted(), 0u);
}

// What a program that no verifier has seen does is the same.
TEST(ProgramTranslation, AnyBytesAreAProgram) {
  dataplane::Random random(10);
  const std::vector<Map> maps{map_of("one", BPF_MAP_TYPE_ARRAY, 4, 16, 1)};
  Library library;
  std::vector<OfOne> all;
  while (all.size() < 300) {
    const Code code = any_code(random);
    if (!image_of(program_of(code, maps))) continue;
    OfOne one{.twins = std::make_unique<DeviceTwins>(maps), .code = code};
    one.twins->add(code);
    one.number = library.add(one.twins->device().code());
    all.push_back(std::move(one));
  }
  library.compile();
  for (OfOne& one : all) {
    one.twins->device().translated = library.run(one.number);
    for (u32 i = 0; i < 3; ++i)
      ASSERT_EQ(one.twins->run(0, random_packet(random, kQueues)), "") << test::text_of(one.code);
  }
}

}  // namespace
}  // namespace xdpgpu::gpu::programs
