// SPDX-License-Identifier: MIT
//
// What a policy says of an XDP program and its maps' first contents, as whoever gets its files reads them:
// the program as it was handed on, and never an object.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "gpu/stages/stages.hpp"
#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

using testing::HasSubstr;

std::string object(const std::string& name) {
  std::ifstream file(XDPGPU_OBJECTS "/" + name + ".bpf.o", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
// As it is read where objects are (control::object_reader()), but in this process.
tl::expected<std::string, std::string> read_object(std::string_view object, const std::string& section) {
  const auto program = programs::read_program(std::as_bytes(std::span(object)), section);
  if (!program) return tl::unexpected(program.error());
  return programs::to_bytes(*program);
}
FileContents with(const std::string& name, FileContents files = {}) {
  const auto program = read_object(object(name), "");
  EXPECT_TRUE(program) << program.error();
  if (program) files[program_key("f.o", "")] = *program;
  return files;
}

std::string text_of(const std::string& more) {
  return R"({"version": 1, "pipelines": {"own": [{"stage": "program", "object": "f.o")" + more + "}]}}";
}
Result<Policy> read(FileContents files, const std::string& more = "", u64 longest = ~u64{0}) {
  return parse(text_of(more), "p", read_files_of(std::move(files)), longest);
}
std::string problems(FileContents files, const std::string& more = "") {
  const auto policy = read(std::move(files), more);
  std::string all;
  if (!policy)
    for (const auto& one : policy.error()) all += one.sentence() + "\n";
  return all;
}
const gpu::StageSettings& stage_of(const Policy& policy) { return policy.pipelines.at(0).stages.at(0); }

TEST(Programs, AreTakenAsTheyWereHandedOn) {
  const auto policy = read(with("everything"));
  ASSERT_TRUE(policy) << problems(with("everything"));
  const auto named = gpu::program_of(stage_of(*policy));
  ASSERT_TRUE(named);
  EXPECT_EQ(named->object, "f.o");
  EXPECT_EQ(named->section, "");
  ASSERT_NE(named->program, nullptr);
  const std::string bytes = object("everything");
  const auto whole = programs::read_program(std::as_bytes(std::span(bytes)), "");
  ASSERT_TRUE(whole);
  EXPECT_EQ(*named->program, whole->program);
  EXPECT_EQ(policy->hash, read(with("everything"))->hash);
  EXPECT_NE(policy->hash, read(with("constants"))->hash) << "another program is another policy";
}

TEST(Programs, AreReadWhateverTheLongestFileMayBe) {
  const auto policy = read(with("everything"), "", 0);
  ASSERT_TRUE(policy);
  EXPECT_NE(gpu::program_of(stage_of(*policy))->program, nullptr);
}

// Whoever links a program makes its maps' memory, and has read no list for it.
TEST(Programs, HaveTheirMapsFilesWholeWhateverTheLongestFileMayBe) {
  const std::string maps = R"(, "maps": {"sources": {"file": "m.json"}})";
  const FileContents files = with("everything", {{"m.json", R"([{"key": 1, "value": 2}])"}});
  const auto whole = read(files, maps), outline = read(files, maps, 0);
  ASSERT_TRUE(whole && outline);
  EXPECT_EQ(stage_of(*whole), stage_of(*outline));
  EXPECT_NE(stage_of(*whole), stage_of(*read(with("everything"))));
}

TEST(Programs, CountWithTheirMapsFilesForThePolicysHash) {
  const std::string maps = R"(, "maps": {"sources": {"file": "m.json"}})";
  const auto one = read(with("everything", {{"m.json", R"([{"key": 1, "value": 2}])"}}), maps);
  const auto other = read(with("everything", {{"m.json", R"([{"key": 1, "value": 3}])"}}), maps);
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->hash, other->hash);
  EXPECT_NE(stage_of(*one), stage_of(*other));
}

TEST(Programs, ThatAreWrongAreNamedByTheirPlace) {
  EXPECT_EQ(problems({}), "p:1:69: /pipelines/own/0/object: the object f.o did not come with the policy\n");
  for (const std::string bytes : {"", "x",
                                  "\x7f"
                                  "ELF and more"})
    EXPECT_THAT(problems({{program_key("f.o", ""), bytes}}),
                HasSubstr("/pipelines/own/0/object: f.o: what it handed over is not whole"));
  auto cut = with("everything");
  cut.begin()->second.resize(cut.begin()->second.size() / 2);
  EXPECT_THAT(problems(cut), HasSubstr("is not whole"));
  EXPECT_THAT(problems(with("missing")),
              HasSubstr("/pipelines/own/0/object: missing needs what is missing: helper fib_lookup: "));
}

TEST(Programs, ThatWereDamagedOnTheirWayAreRefusedOrPrograms) {
  const auto whole = with("everything");
  for (std::size_t at = 0; at < whole.begin()->second.size(); at += 7) {
    auto damaged = whole;
    damaged.begin()->second[at] = static_cast<char>(damaged.begin()->second[at] ^ (1 << at % 8));
    (void)read(damaged);
  }
}

TEST(Programs, HaveFirstContentsForMapsThatTheyHave) {
  const FileContents file{{"m.json", "[\n {\"key\": 1, \"value\": \"x\"}]"}};
  EXPECT_THAT(
      problems(with("everything", file), R"(, "maps": {"sources": {"file": "m.json"}})"),
      HasSubstr(
          "m.json:2:22: /pipelines/own/0/maps/sources/file: a value of the map sources is an array of 8 "
          "bytes, or a number, not a string"));
  EXPECT_THAT(
      problems(with("everything", file), R"(, "maps": {"source": {"file": "m.json"}})"),
      HasSubstr(
          "/pipelines/own/0/maps/source: the program everything of f.o has no map source; those that can "
          "begin with something are "));
  EXPECT_THAT(problems(with("everything", file), R"(, "maps": {".rodata": {"file": "m.json"}})"),
              HasSubstr("the map .rodata is one of constants"));
  EXPECT_THAT(
      problems(with("everything"), R"(, "maps": {"sources": {"file": "none.json"}})"),
      HasSubstr("/pipelines/own/0/maps/sources/file: the file none.json did not come with the policy"));
  EXPECT_THAT(problems(with("everything"), R"(, "maps": {"sources": {}})"), HasSubstr("file"));
}

TEST(Programs, AreReadFromObjectsByWhomeverReadsFiles) {
  std::string folder = "/tmp/xdpgpu-programs-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/f.o", std::ios::binary) << object("several");
  const auto sentences = [](const Result<Policy>& policy) {
    return policy ? std::string() : policy.error().at(0).sentence();
  };
  const std::string one = text_of(R"(, "section": "xdp/second")"), any = text_of("");
  FileContents sent;
  const auto collected = parse(one, "p", collect_files_from(folder, sent, kMaxFilesBytes, read_object));
  ASSERT_TRUE(collected) << sentences(collected);
  EXPECT_EQ(gpu::program_of(stage_of(*collected))->program, nullptr)
      << "what is in it is for who compiles it";
  ASSERT_EQ(sent.size(), 1u) << "and the object stays";
  EXPECT_EQ(sent.begin()->first, program_key("f.o", "xdp/second"));
  const auto read = parse(one, "p", read_files_of(sent));
  ASSERT_TRUE(read) << sentences(read);
  EXPECT_EQ(gpu::program_of(stage_of(*read))->program->name, "second");
  EXPECT_THAT(sentences(parse(any, "p", read_files_from(folder, read_object))),
              HasSubstr("/pipelines/own/0/object: f.o: it has several XDP programs: name one"));
  EXPECT_THAT(sentences(parse(text_of(R"(, "section": "none")"), "p", read_files_from(folder, read_object))),
              HasSubstr("f.o: it has no program or section none; it has first (section xdp), "));
  EXPECT_THAT(sentences(parse(one, "p", read_files_from(folder))), HasSubstr("no object is read here"));
  EXPECT_THAT(sentences(parse(one, "p", read_files_from("/none", read_object))), HasSubstr("cannot open"));
  std::remove((folder + "/f.o").c_str());
  rmdir(folder.c_str());
}

}  // namespace
}  // namespace xdpgpu::policy
