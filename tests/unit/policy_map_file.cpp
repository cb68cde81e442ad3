// SPDX-License-Identifier: MIT
//
// What a map of a program has at first, as a file says it: as bpftool prints it, by numbers, by addresses;
// and what is wrong in such a file, with its place.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>

#include "userspace/policy/map_file.hpp"

namespace xdpgpu::policy {
namespace {

using gpu::programs::Map;
using testing::HasSubstr;
using Bytes = std::vector<u8>;

Map map_of(u32 type, u32 key_bytes, u32 value_bytes, u32 entries = 8) {
  Map map;
  map.name = "ports";
  map.type = type;
  map.key_bytes = key_bytes;
  map.value_bytes = value_bytes;
  map.entries = entries;
  return map;
}
const Map kPorts = map_of(BPF_MAP_TYPE_HASH, 2, 1), kIndexed = map_of(BPF_MAP_TYPE_ARRAY, 4, 8),
          kPrefixes = map_of(BPF_MAP_TYPE_LPM_TRIE, 8, 4), kCounts = map_of(BPF_MAP_TYPE_PERCPU_HASH, 4, 8);

struct Outcome {
  MapEntries entries;
  std::string problems;
};
Outcome read(const Map& map, std::string_view text) {
  static const Node kNode{std::string("m.json"), 0};
  const Place place{&kNode};
  Report report("\"m.json\"", "policy.json");
  Outcome outcome;
  gpu::programs::Program program{.name = "test", .instructions = {}, .maps = {map}, .license = "GPL"};
  std::vector<gpu::ProgramMapContents> contents;
  read_map_file(report, text, "m.json", place, 0, program, contents);
  for (const auto& one : contents)
    outcome.entries.insert(outcome.entries.end(), one.entries.begin(), one.entries.end());
  for (const auto& one : report.take()) outcome.problems += one.sentence() + "\n";
  return outcome;
}
MapEntries entries(const Map& map, std::string_view text) {
  auto [entries, problems] = read(map, text);
  EXPECT_EQ(problems, "");
  return entries;
}
std::string problems(const Map& map, std::string_view text) { return read(map, text).problems; }

TEST(MapFile, IsAsBpftoolPrintsAMap) {
  EXPECT_EQ(entries(kPorts,
                    R"([{"key":["0x35","0x00"],"value":["0x01"]},{"key":["0x0","0xFf"],"value":["0x0a"]}])"),
            (MapEntries{{{0x35, 0}, {1}}, {{0, 0xff}, {10}}}));
  EXPECT_EQ(entries(kCounts, R"([{"key":["0x01","0x02","0x03","0x04"],"values":[
                     {"cpu":0,"value":["0x01","0x00","0x00","0x00","0x00","0x00","0x00","0x00"]},
                     {"cpu":1,"value":["0x01","0x00","0x00","0x00","0x00","0x00","0x00","0x00"]}],
                     "formatted":{"key":67305985,"values":[]}}])"),
            (MapEntries{{{1, 2, 3, 4}, {1, 0, 0, 0, 0, 0, 0, 0}}}));
  EXPECT_TRUE(entries(kPorts, "[]").empty());
}

TEST(MapFile, HasNumbersAsThisHostsProgramsHaveThem) {
  EXPECT_EQ(
      entries(
          kIndexed,
          R"([{"key": 7, "value": 258}, {"key": 0, "value": -1}, {"key": 1, "value": 18446744073709551615}])"),
      (MapEntries{{{7, 0, 0, 0}, {2, 1, 0, 0, 0, 0, 0, 0}},
                  {{0, 0, 0, 0}, Bytes(8, 255)},
                  {{1, 0, 0, 0}, Bytes(8, 255)}}));
  EXPECT_EQ(entries(kPorts, R"([{"key": 13568, "value": [7]}, {"key": -1, "value": -128}])"),
            (MapEntries{{{0, 0x35}, {7}}, {{255, 255}, {128}}}));
  EXPECT_EQ(entries(map_of(BPF_MAP_TYPE_ARRAY, 4, 8), R"([{"key": 0, "value": -9223372036854775808}])")
                .at(0)
                .second,
            (Bytes{0, 0, 0, 0, 0, 0, 0, 128}));
}

TEST(MapFile, HasAddressesAndPrefixesAsKeys) {
  EXPECT_EQ(entries(map_of(BPF_MAP_TYPE_HASH, 4, 1), R"([{"key": "192.0.2.1", "value": 1}])").at(0).first,
            (Bytes{192, 0, 2, 1}));
  EXPECT_EQ(
      entries(map_of(BPF_MAP_TYPE_LRU_HASH, 16, 1), R"([{"key": "2001:db8::1", "value": 1}])").at(0).first,
      (Bytes{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(
      entries(kPrefixes, R"([{"key": "10.0.0.0/8", "value": 1}, {"key": "10.1.2.3", "value": 2}])"),
      (MapEntries{{{8, 0, 0, 0, 10, 0, 0, 0}, {1, 0, 0, 0}}, {{32, 0, 0, 0, 10, 1, 2, 3}, {2, 0, 0, 0}}}));
  EXPECT_EQ(
      entries(map_of(BPF_MAP_TYPE_LPM_TRIE, 20, 1), R"([{"key": "2001:db8::/32", "value": 1}])").at(0).first,
      (Bytes{32, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(MapFile, SaysWhereItIsWrong) {
  struct Case {
    const Map& map;
    const char *text, *why;
  };
  for (const auto& [map, text, why] : std::initializer_list<Case>{
           {kPorts, "[\n {\"key\": 1, \"value\": 2},\n {\"key\": 1, \"value\": 3}]",
            "m.json:3:10: this key is in the file twice"},
           {kPorts, "{}", "must be an array of entries"},
           {kPorts, "[1]", "an entry must be"},
           {kPorts, "[", "m.json:1"},
           {kPorts, R"([{"key": 1}])", "needs \"key\" and one \"value\""},
           {kPorts, R"([{"key": 1, "value": 1, "valeu": 1}])", "an entry has no \"valeu\""},
           {kPorts, R"([{"key": 1, "values": []}])", "is not one of each CPU"},
           {kPorts, R"([{"key": [1], "value": 1}])", "a key of the map ports is of 2 bytes, here are 1"},
           {kPorts, R"([{"key": ["0x1", "x"], "value": 1}])", "a byte is \"0x00\" to \"0xff\""},
           {kPorts, R"([{"key": ["0x1", "0x"], "value": 1}])", "a byte is"},
           {kPorts, R"([{"key": ["0x1", "0x100"], "value": 1}])", "a byte is"},
           {kPorts, R"([{"key": ["0x1", 256], "value": 1}])", "a byte is"},
           {kPorts, R"([{"key": 65536, "value": 1}])",
            "a key of the map ports is of 2 bytes: this number does not fit"},
           {kPorts, R"([{"key": 1, "value": -129}])", "does not fit"},
           {kPorts, R"([{"key": 1, "value": 1.5}])", "or a number, not"},
           {kPorts, R"([{"key": "1.2.3.4", "value": 1}])", "which no IPv4 address is"},
           {kPorts, R"([{"key": "one", "value": 1}])", "a key as text is an address"},
           {kPorts, R"([{"key": 1, "value": {"a": 1}}])",
            "a value of the map ports is an array of 1 byte, or a number, not an object"},
           {kIndexed, R"([{"key": 8, "value": 1}])", "has the indexes 0 to 7, and not 8"},
           {map_of(BPF_MAP_TYPE_HASH, 3, 1), R"([{"key": 8, "value": 1}])", "which no number has"},
           {map_of(BPF_MAP_TYPE_HASH, 4, 1), R"([{"key": "10.0.0.0/8", "value": 1}])",
            "and this is a prefix"},
           {map_of(BPF_MAP_TYPE_HASH, 4, 1, 1), R"([{"key": 1, "value": 1}, {"key": 2, "value": 1}])",
            "has room for 1 entry, here are 2"},
           {kPrefixes, R"([{"key": [33, 0, 0, 0, 1, 2, 3, 4], "value": 1}])",
            "has 32 bits at most, and not 33"},
           {kPrefixes,
            R"([{"key": [8, 0, 0, 0, 10, 2, 3, 4], "value": 1}, {"key": "10.0.0.0/8", "value": 1}])",
            "twice"},
           {kCounts, R"([{"key": 1, "values": [{"cpu": 0, "value": 1}, {"cpu": 1, "value": 2}]}])",
            "are not the same"},
           {kCounts, R"([{"key": 1, "values": []}])", "is an array of one"}}) {
    const Outcome outcome = read(map, text);
    EXPECT_THAT(outcome.problems, HasSubstr(why)) << text;
    EXPECT_LE(outcome.entries.size(), 1u) << text;
  }
}

TEST(MapFile, ThatIsFullOfProblemsNamesSomeOfThem) {
  std::string text = "[";
  for (int i = 0; i < 100'000; i++) text += i == 0 ? "1" : ",1";
  const std::string told = problems(map_of(BPF_MAP_TYPE_HASH, 4, 4, 1 << 20), text + "]");
  EXPECT_THAT(told, HasSubstr("more problems"));
  EXPECT_LT(told.size(), 10'000u);
}

TEST(MapFile, IsForMapsThatBeginWithSomething) {
  for (const Map& map : {kPorts, kIndexed, kPrefixes, kCounts}) EXPECT_EQ(why_no_contents(map), "");
  for (const u32 type :
       {BPF_MAP_TYPE_DEVMAP, BPF_MAP_TYPE_DEVMAP_HASH, BPF_MAP_TYPE_CPUMAP, BPF_MAP_TYPE_ARRAY_OF_MAPS})
    EXPECT_EQ(why_no_contents(map_of(type, 4, 4)), "");
  EXPECT_THAT(why_no_contents(map_of(BPF_MAP_TYPE_STACK, 4, 4)),
              HasSubstr("arrays, hashes, tries, devmaps, cpumaps and arrays of maps"));
  EXPECT_THAT(why_no_contents(map_of(BPF_MAP_TYPE_XSKMAP, 4, 4)), HasSubstr("it stays empty"));
  EXPECT_THAT(why_no_contents(map_of(BPF_MAP_TYPE_PROG_ARRAY, 4, 4)), HasSubstr("is an array of programs"));
  EXPECT_NE(why_no_contents(map_of(BPF_MAP_TYPE_LPM_TRIE, 4, 4)), "");
  EXPECT_NE(why_no_contents(map_of(BPF_MAP_TYPE_ARRAY, 8, 4)), "");
  Map constant = kIndexed;
  constant.constant = true;
  EXPECT_THAT(why_no_contents(constant), HasSubstr("constants"));
}

}  // namespace
}  // namespace xdpgpu::policy
