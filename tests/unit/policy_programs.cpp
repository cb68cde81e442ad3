// SPDX-License-Identifier: MIT
//
// What a policy says of an XDP program and its maps' first contents, as whoever gets its files reads them:
// the program as it was handed on, and never an object.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "gpu/stages/stages.hpp"
#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/policy/kernel_programs.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

using testing::HasSubstr;

std::string object(const std::string& name) {
  std::ifstream file(XDPGPU_OBJECTS "/" + name + ".bpf.o", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
// As it is read where objects are (control::object_reader()), but in this process.
tl::expected<std::string, std::string> read_object(std::string_view object, const programs::Choice& which) {
  const auto program = programs::read_program(std::as_bytes(std::span(object)), which);
  if (!program) return tl::unexpected(program.error());
  return programs::to_bytes(*program);
}
FileContents with(const std::string& name, FileContents files = {}, const programs::Choice& which = {}) {
  const auto program = read_object(object(name), which);
  EXPECT_TRUE(program) << program.error();
  if (program) files[program_key("f.o", which)] = *program;
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
  const auto whole = programs::read_program(std::as_bytes(std::span(bytes)), {});
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
    EXPECT_THAT(problems({{program_key("f.o", {}), bytes}}),
                HasSubstr("/pipelines/own/0/object: f.o: what it handed over is not whole"));
  auto cut = with("everything");
  cut.begin()->second.resize(cut.begin()->second.size() / 2);
  EXPECT_THAT(problems(cut), HasSubstr("is not whole"));
  EXPECT_THAT(problems(with("missing")),
              HasSubstr("/pipelines/own/0/object: missing needs what is missing: helper map_push_elem: "));
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

// Keys and values, one after the other.
std::string bytes_of(const gpu::ProgramMapContents& contents) {
  std::string text = std::to_string(contents.map) + ":";
  for (const auto& [key, value] : contents.entries) {
    for (const auto* const bytes : {&key, &value}) {
      text += " ";
      for (const u8 byte : *bytes)
        text += "0123456789abcdef"[byte >> 4], text += "0123456789abcdef"[byte & 15];
    }
  }
  return text;
}
// Of all maps of the stage's program.
std::string contents_of(const gpu::StageSettings& stage) {
  return std::visit(
      [](const auto& settings) {
        std::string text;
        if constexpr (requires { settings.contents; })
          if (settings.contents)
            for (const auto& one : *settings.contents) text += bytes_of(one) + "\n";
        return text;
      },
      stage);
}

// Maps one, tables, tables.inner: the object says that the second one has the first one.
TEST(Programs, HaveMapsInMapsAsObjectsAndFilesSay) {
  const auto maps_of = [](const std::string& file) {
    const auto policy =
        read(with("slots", {{"m.json", file}}, {.name = "table"}),
             R"(, "section": "table")" +
                 std::string(file.empty() ? "" : R"(, "maps": {"tables": {"file": "m.json"}})"));
    EXPECT_TRUE(policy) << policy.error()[0].sentence();
    if (!policy) return std::string();
    std::string text;
    for (const auto& map : gpu::program_of(stage_of(*policy))->program->maps) text += map.name + " ";
    return text + "\n" + contents_of(stage_of(*policy));
  };
  EXPECT_EQ(maps_of(""), "one tables tables.inner \n1: 01000000 00000000\n");
  EXPECT_EQ(maps_of(R"([{"key": 0, "value": "one"}])"), "one tables tables.inner \n1: 00000000 00000000\n");
  EXPECT_EQ(maps_of(R"([{"key": 1, "value": [{"key": 5, "value": 258}]}, {"key": 0, "value": []}])"),
            "one tables tables.inner tables[1] tables[0] \n3: 05000000 0201000000000000\n4:\n"
            "1: 01000000 03000000 00000000 04000000\n");
}

TEST(Programs, HaveProgramsInMapsAsObjectsSay) {
  const auto policy = read(with("slots", {}, {.name = "first"}), R"(, "section": "first")");
  ASSERT_TRUE(policy) << policy.error()[0].sentence();
  const auto program = gpu::program_of(stage_of(*policy))->program;
  ASSERT_EQ(program->tails.size(), 1u);
  EXPECT_EQ(contents_of(stage_of(*policy)), "0: 02000000 01000000\n");
}

// Program first goes on with whatever the map next has, in which the object puts nothing.
TEST(Programs, HaveThoseProgramsInMapsThatThePolicyNames) {
  const std::string more = R"(, "section": "first", "maps": {"next": {"programs": [
      {"index": 3, "program": "second"}, {"index": 1, "program": "first"}]}})";
  const programs::Choice which{.name = "first", .slots = {{"next", 3, "second"}, {"next", 1, "first"}}};
  const auto policy = read(with("several", {}, which), more);
  ASSERT_TRUE(policy) << policy.error()[0].sentence();
  const auto program = gpu::program_of(stage_of(*policy))->program;
  ASSERT_EQ(program->tails.size(), 1u);
  EXPECT_EQ(program->tails[0].name, "second");
  std::vector<std::string> maps;
  for (const auto& map : program->maps) maps.push_back(map.name);
  EXPECT_THAT(maps, testing::UnorderedElementsAre("next", "tables", "tables.inner"))
      << "with those that its tails name";
  EXPECT_THAT(contents_of(stage_of(*policy)), HasSubstr("03000000 01000000"));
  EXPECT_THAT(contents_of(stage_of(*policy)), HasSubstr("01000000 00000000"));
  EXPECT_NE(policy->hash, read(with("several", {}, {.name = "first"}), R"(, "section": "first")")->hash);
  EXPECT_THAT(problems(with("several", {}, {.name = "first"}), more),
              HasSubstr("did not come with the policy"))
      << "the program is another one without them";
}
// In the place of what the object says, where the policy says something.
TEST(Programs, HaveNoneOfTheObjectsProgramsInMapsThatThePolicyFills) {
  const programs::Choice which{.name = "first", .slots = {{"next", 0, "first"}}};
  const auto read_so =
      programs::read_program(std::as_bytes(std::span(std::string_view(object("slots")))), which);
  ASSERT_TRUE(read_so) << read_so.error();
  EXPECT_TRUE(read_so->program.tails.empty());
  ASSERT_EQ(read_so->slots.size(), 1u);
  EXPECT_EQ(read_so->slots[0].slot, 0u);
}
TEST(Programs, SayWhatIsWrongWithProgramsForMaps) {
  const auto why = [](const std::string& name, std::vector<programs::NamedSlot> slots) {
    const auto program = read_object(object(name), {.name = "first", .slots = std::move(slots)});
    return program ? std::string() : program.error();
  };
  EXPECT_EQ(why("several", {{"nexts", 0, "second"}}), "it has no map nexts");
  EXPECT_EQ(why("several", {{"tables", 0, "second"}}),
            "its map tables is no array of programs, and has none");
  EXPECT_EQ(why("several", {{"next", 4, "second"}}), "its map next has the indexes 0 to 3, and not 4");
  EXPECT_THAT(why("several", {{"next", 0, "third"}}),
              HasSubstr("it has no XDP program third for its map next; it has first (section xdp), second"));
  EXPECT_THAT(why("several", {{"next", 0, "for_tc"}}), HasSubstr("it has no XDP program for_tc"));
  EXPECT_THAT(why("several", {{"next", 0, "for_a_devmap"}}), HasSubstr("it has no XDP program for_a_devmap"));
  EXPECT_EQ(why("several", {{"next", 2, "second"}, {"next", 2, "first"}}),
            "index 2 of its map next is to be two programs");
  EXPECT_THAT(problems(with("several", {{"m.json", "[]"}}, {.name = "first"}),
                       R"(, "section": "first", "maps": {"next": {"file": "m.json"}})"),
              HasSubstr("the map next is an array of programs, and has no file: give \"programs\""));
  EXPECT_THAT(
      problems(with("several", {}, {.name = "first"}), R"(, "section": "first", "maps": {"next": {}})"),
      HasSubstr("/pipelines/own/0/maps/next: says nothing of the map"));
  EXPECT_THAT(problems(with("several", {}, {.name = "first"}),
                       R"(, "section": "first", "maps": {"next": {"programs": []}})"),
              HasSubstr("/pipelines/own/0/maps/next: says nothing of the map"));
}

TEST(Programs, SayWhoWinsWhereBothWrite) {
  for (const char* who : {"kernel", "device"})
    EXPECT_EQ(problems(with("kept", {}, {.name = "noting"}),
                       fmt::format(R"(, "section": "noting", "maps": {{"last": {{"wins": "{}"}}}})", who)),
              "")
        << who;
  EXPECT_THAT(problems(with("kept", {}, {.name = "noting"}),
                       R"(, "section": "noting", "maps": {"last": {"wins": "nobody"}})"),
              HasSubstr("/maps/last/wins"));
  EXPECT_THAT(problems(with("several", {}, {.name = "first"}),
                       R"(, "section": "first", "maps": {"next": {"wins": "kernel"}})"),
              HasSubstr("the map next is the device's alone, and nobody else writes to it"));
}

TEST(Programs, SayWhatIsWrongWithMapsInMaps) {
  const auto why = [](const std::string& file) {
    return problems(with("slots", {{"m.json", file}}, {.name = "table"}),
                    R"(, "section": "table", "maps": {"tables": {"file": "m.json"}})");
  };
  EXPECT_THAT(why(R"([{"key": 2, "value": "one"}])"), HasSubstr("has the indexes 0 to 1, and not 2"));
  EXPECT_THAT(
      why(R"([{"key": 1, "value": "two"}])"),
      HasSubstr("m.json:1:22: /pipelines/own/0/maps/tables/file: the program table names no map two"));
  EXPECT_THAT(why(R"([{"key": 1, "value": 7}])"),
              HasSubstr("is the name of a map of the program's, or an array of entries that a map of its own "
                        "has, not a number"));
  EXPECT_THAT(why(R"([{"key": 1, "value": [{"key": 8, "value": 1}]}])"),
              HasSubstr("m.json:1:31: /pipelines/own/0/maps/tables/file: the map tables[1] has the indexes 0 "
                        "to 7, and not 8"));
  EXPECT_THAT(why(R"([{"key": 1, "value": [{"key": 1, "value": [[]]}]}])"), HasSubstr("here are 1"));
}

TEST(Programs, HaveInterfacesInDevmaps) {
  const auto ports_of = [](const std::string& file) {
    const std::string maps = R"(, "maps": {"ports": {"file": "m.json"}},
                                "interfaces": [{"interface": "eth1", "ifindex": 7}])";
    const auto policy = read(with("ports", {{"m.json", file}}), maps);
    return policy ? contents_of(stage_of(*policy)) : problems(with("ports", {{"m.json", file}}), maps);
  };
  EXPECT_EQ(ports_of(R"([{"key": 3, "value": 7}])"), "0: 03000000 07000000\n");
  EXPECT_THAT(ports_of(R"([{"key": 3, "value": 0}])"),
              HasSubstr("a value of the map ports is an interface's number, from 1 on, and nothing more"));
  EXPECT_THAT(ports_of(R"([{"key": 8, "value": 7}])"), HasSubstr("has the indexes 0 to 7, and not 8"));
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
  EXPECT_EQ(sent.begin()->first, program_key("f.o", {.name = "xdp/second"}));
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

std::string in_kernel(const std::string& stages, const std::string& members) {
  return R"({"version": 1, "pipelines": {"own": )" + stages + "}, " + members + "}";
}
const std::string kInKernel = R"({"stage": "program", "object": "f.o", "where": "kernel")";
const std::string kInspects = R"("rules": [{"action": {"inspect": "own"}}])";
std::string problems_of(const std::string& text, FileContents files) {
  const auto policy = parse(text, "p", read_files_of(std::move(files)));
  std::string all;
  if (!policy)
    for (const auto& one : policy.error()) all += one.sentence() + "\n";
  return all;
}

TEST(Programs, RunWhereThePolicySays) {
  const auto on_device = read(with("changes")), stays = read(with("changes"), R"(, "where": "device")");
  ASSERT_TRUE(on_device && stays) << problems(with("changes"));
  EXPECT_FALSE(runs_in_kernel(on_device->pipelines.at(0)));
  EXPECT_FALSE(runs_in_kernel(stays->pipelines.at(0)));
  const auto moved = read(with("changes"), R"(, "where": "kernel")");
  ASSERT_TRUE(moved) << problems(with("changes"), R"(, "where": "kernel")");
  EXPECT_EQ(kernel_pipelines(*moved), std::vector<u16>{0});
  EXPECT_EQ(names_in_kernel(*moved), std::vector<std::string>{"own"});
  EXPECT_NE(moved->pipelines, stays->pipelines);
  EXPECT_THAT(to_json(*moved), HasSubstr(R"("where": "kernel")"));
  // What would mean something else there, or get at more.
  EXPECT_THAT(problems(with("router"), R"(, "where": "kernel")"),
              HasSubstr("/where: its program router may not call "));
  EXPECT_THAT(problems(with("syns"), R"(, "where": "kernel")"),
              HasSubstr("/where: its map syns takes what it puts out for the log"));
  EXPECT_THAT(problems(with("changes"), R"(, "where": "here")"), HasSubstr("/where: "));
}

TEST(Programs, InTheKernelAreAlone) {
  const auto files = with("changes");
  EXPECT_EQ(problems_of(in_kernel("[" + kInKernel + "}]", kInspects), files), "");
  EXPECT_THAT(
      problems_of(in_kernel("[" + kInKernel + R"(}, {"stage": "l2fwd"}])", kInspects), files),
      HasSubstr("/pipelines/own/0/where: a program that runs in the kernel is its pipeline's only stage"));
  EXPECT_THAT(
      problems_of(in_kernel(R"([{"stage": "acl", "rules": []}, )" + kInKernel + "}]", kInspects), files),
      HasSubstr("/pipelines/own/1/where: "));
  EXPECT_THAT(
      problems_of(in_kernel("[" + kInKernel + "}]", R"("rules": [{"action": {"mirror": "own"}}])"), files),
      HasSubstr("but a mirrored packet goes on; inspect with this one"));
  EXPECT_THAT(problems_of(in_kernel(R"({"inner": true, "stages": [)" + kInKernel + "}]}", kInspects), files),
              HasSubstr("outermost headers"));
}

TEST(Programs, InTheKernelHaveNoFateToShare) {
  const auto said = [files = with("changes")](const char* fragments) {
    return problems_of(in_kernel(fmt::format("[{}}}]", kInKernel),
                                 fmt::format(R"({}, "fragments": "{}")", kInspects, fragments)),
                       files);
  };
  for (const char* const what : {"drop", "pass", "inspect"}) EXPECT_EQ(said(what), "");
  for (const char* const what : {"track", "reassemble"})
    EXPECT_THAT(said(what), HasSubstr("/fragments: the program of pipeline \"own\" runs in the kernel"));
}

TEST(Programs, InTheKernelAreBoundedInNumber) {
  const auto text_with = [](u32 count) {
    std::string pipelines;
    for (u32 i = 0; i < count; i++)
      pipelines += (i == 0 ? "\"p" : ", \"p") + std::to_string(i) + "\": [" + kInKernel + "}]";
    return R"({"version": 1, "pipelines": {)" + pipelines + "}}";
  };
  EXPECT_EQ(problems_of(text_with(XG_MAX_PROGRAMS), with("changes")), "");
  EXPECT_THAT(problems_of(text_with(XG_MAX_PROGRAMS + 1), with("changes")),
              HasSubstr("room for 16 programs that run in the kernel, here are 17"));
}

TEST(Programs, RulesLeadToThemInTheKernelAlone) {
  const auto policy = parse(
      R"({"version": 1, "management": [{"dst_port": 22}],
          "pipelines": {"far": [{"stage": "l2fwd"}], "own": [)" +
          kInKernel + R"(}]},
          "rules": [{"match": {"dst_port": 1}, "action": {"inspect": "far"}},
                    {"match": {"dst_port": 2}, "action": {"inspect": "own"}},
                    {"match": {"dst_port": 3}, "action": "drop"}]})",
      "p", read_files_of(with("changes")));
  ASSERT_TRUE(policy) << policy.error().at(0).sentence();
  auto tables = compile(*policy);
  ASSERT_TRUE(tables);
  const auto rules = [&] {
    std::string all;
    for (u32 i = 0; i < tables->header.rule_count; i++) {
      xg_rule rule;
      std::memcpy(&rule,
                  reinterpret_cast<const u8*>(&tables->lines[tables->header.rules_line]) + i * sizeof(rule),
                  sizeof(rule));
      all += std::to_string(rule.action) + "/" + std::to_string(rule.pipeline) + " ";
    }
    return all;
  };
  EXPECT_EQ(rules(), "4/0 6/0 2/0 2/1 1/0 ") << "as compiled they inspect";
  lead_to_programs(tables->header, tables->lines.data(), kernel_pipelines(*policy));
  EXPECT_EQ(rules(), "4/0 6/0 2/0 7/0 1/0 ");
}

}  // namespace
}  // namespace xdpgpu::policy
