// SPDX-License-Identifier: MIT
//
// Policies and lists that nobody wrote for good: too many, too long, too deep. Each is refused with a few
// sentences of a screen's width, in the time that reading it takes, and what is behind it is not looked at.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "maps/tables.h"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// Of the processor's time, sanitizers and a busy machine allowed for. What is asked here took minutes, or as
// much memory as there was.
constexpr double kPatience_s = 10;
// Name, place and message.
constexpr std::size_t kLongestSentence = 2048;

std::string repeated(const std::string& piece, u32 count, const std::string& between = ",") {
  std::string all;
  all.reserve((piece.size() + between.size()) * count);
  for (u32 i = 0; i < count; ++i) {
    if (i != 0) all += between;
    all += piece;
  }
  return all;
}

// Members "k0", "k1", ... of an object, with the same value each.
std::string members(u32 count, const std::string& value) {
  std::string all;
  for (u32 i = 0; i < count; ++i) all += fmt::format("{}\"k{}\":{}", i == 0 ? "" : ",", i, value);
  return all;
}

// The first problem's sentence; nothing where there is none.
std::string refusal(std::string_view text, const FileReader& files = read_files_of({})) {
  const std::clock_t start = std::clock();
  const auto policy = parse(text, "p.json", files);
  EXPECT_LT(double(std::clock() - start) / CLOCKS_PER_SEC, kPatience_s);
  if (policy) return "";
  EXPECT_LE(policy.error().size(), kMaxDiagnostics + 1);
  for (const auto& one : policy.error()) EXPECT_LE(one.sentence().size(), kLongestSentence);
  return policy.error().front().sentence();
}

std::string rule(const std::string& body) { return R"({"version":1,"rules":[)" + body + "]}"; }
std::string pipeline(const std::string& body) { return R"({"version":1,"pipelines":{"p":[)" + body + "]}}"; }
std::string in_match(const std::string& key, const std::string& items) {
  return rule(R"({"action":"drop","match":{")" + key + "\":[" + items + "]}}");
}

TEST(Numbers, ThatAreNoneOfTheirKindAreRefusedAtTheirPlace) {
  const auto pps = [](const std::string& number) {
    return refusal(rule(R"({"limit":{"pps":)" + number + "}}"));
  };
  for (const char* number : {"1e999", "-1e999", "1e400000000"})
    EXPECT_EQ(pps(number), "p.json:1:39: /rules/0/limit/pps: the number that stands here is too large");
  for (const char* number :
       {"18446744073709551616", "18446744073709551615", "-1", "-0", "0", "1.5", "1.0", "1e2"})
    EXPECT_EQ(pps(number), "p.json:1:39: /rules/0/limit/pps: must be a whole number from 1 to 1000000000");
  EXPECT_THAT(pps(std::string(1'000'000, '9')), HasSubstr("is too large"));
  for (const char* number : {"NaN", "Infinity", "0x10", "+1", "01", ".5", "1_000"})
    EXPECT_THAT(pps(number), HasSubstr("is not JSON")) << number;
}

TEST(Keys, ThatStandTwiceAreRefusedHoweverManyThereAre) {
  for (const u32 others : {0u, 1u, 15u, 16u, 17u, 1000u}) {
    SCOPED_TRACE(others);
    const std::string between = others == 0 ? "" : members(others, "1") + ",";
    EXPECT_THAT(refusal("{\"version\":1," + between + "\n\"version\":1}"),
                HasSubstr("p.json:2:1: /version: the key \"version\" appears twice"));
    EXPECT_THAT(refusal("{" + between + "\"z\":1,\n \"z\":1}"), HasSubstr("p.json:2:2: /z: the key \"z\""));
  }
  EXPECT_THAT(refusal("{" + repeated("\"version\":1", 500'000) + "}"), HasSubstr("appears twice"));
}

// nlohmann's parser ends where it reads a zero byte, so that what is behind it would not count.
TEST(ZeroBytes, HideNothing) {
  using namespace std::string_literals;
  EXPECT_THAT(refusal("{\"version\":1}\n\0{\"default\":\"drop\"}"s),
              HasSubstr("p.json:2:1: this is not JSON: a zero"));
  EXPECT_THAT(refusal("{\"version\":1}\0"s), HasSubstr("a zero byte"));
  EXPECT_THAT(refusal("\xff\xfe{\0}\0"s), HasSubstr("UTF-8"));
  const char* listed = R"({"version":1,"lists":{"a":{"file":"l"}}})";
  EXPECT_THAT(refusal(listed, read_files_of({{"l", "1.2.3.4\0\n"s}})),
              HasSubstr("l:1:1: /lists/a/file: \"1.2.3.4?\" is no address"));
  EXPECT_THAT(refusal(listed, read_files_of({{"l", "::\n\0"s}})), HasSubstr("l:2:1: /lists/a/file: \"?\""));
}

TEST(Sentences, AreNoLongerThanAScreen) {
  const std::string long_one(8'000'000, 'k');
  const std::string found = refusal("{\"" + long_one + "\":1}");
  EXPECT_THAT(found, HasSubstr("unknown key \"kkk"));
  EXPECT_THAT(found, HasSubstr("k[...]k")) << "its middle is left out";
  EXPECT_THAT(found, HasSubstr("known here")) << "and what helps is not";
  EXPECT_THAT(refusal("{\"" + long_one + "\":1,\"" + long_one + "\":1}"), HasSubstr("keep one"));
  EXPECT_THAT(refusal(R"({"version":1,"default":")" + long_one + "\"}"), HasSubstr("\"pass\" or \"drop\""));
  EXPECT_THAT(refusal(R"({"version":1,"default":")" + long_one), HasSubstr("missing closing quote"));
  EXPECT_THAT(refusal(R"({"version":1,"default":")" + long_one + "\xff\"}"), HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(refusal(rule(R"({"action":"drop","match":{"src":"@)" + long_one + "\"}}")),
              HasSubstr("there is no list"));
}

TEST(Sentences, BringNothingToTheTerminalThatItActsUpon) {
  // A C1 control, an override of the direction of writing; what is only foreign stays.
  const std::string found = refusal(
      "{\"version\":1,\"\xc2\x9b"
      "31m\xe2\x80\xae\xc3\xbc\xe4\xb8\xad\":1}");
  EXPECT_THAT(found, HasSubstr("unknown key \"??31m???\xc3\xbc\xe4\xb8\xad\""));
  EXPECT_THAT(refusal("{\"version\":1,\"a\xff\":1}"), Not(HasSubstr("\xff")));
}

TEST(Floods, OfWrongThingsAreCountedAndNotWorded) {
  constexpr u32 kMany = 400'000;
  EXPECT_THAT(refusal("{" + members(8192, "1") + "}"), HasSubstr("unknown key \"k0\""));
  EXPECT_THAT(refusal(in_match("control", repeated("\"x\"", kMany))), HasSubstr("is not known here"));
  EXPECT_THAT(refusal(in_match("proto", repeated("\"tcq\"", kMany))), HasSubstr("did you mean \"tcp\"?"));
  EXPECT_THAT(refusal(in_match("src", repeated("\"@x\"", kMany))), HasSubstr("there is no list"));
  EXPECT_THAT(refusal(pipeline(R"({"stage":"forward","next_hops":{)" +
                               members(4000, R"({"mac":"52:54:00:00:00:01"})") + R"(},"routes":[)" +
                               repeated(R"({"prefix":"::/0","next_hop":"x"})", 100'000) + "]}")),
              HasSubstr("there is no next hop \"x\""));
}

TEST(Floods, OfBadLinesEndTheReading) {
  const FileReader files = read_files_of({{"l", repeated("x", 3'000'000, "\n")}});
  const auto list = parse(R"({"version":1,"lists":{"a":{"file":"l"},"b":{"file":"l"}}})", "p", files);
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().back().message, "and at least 1000000 more problems");
  EXPECT_THAT(refusal(pipeline(R"({"stage":"forward","next_hops":{"up":{"mac":"52:54:00:00:00:01"}},
                                   "routes":[{"file":"r"}]})"),
                      read_files_of({{"r", repeated("::", 3'000'000, "\n")}})),
              HasSubstr("a route is a prefix and the name of a next hop"));
}

// More than there is room for is refused by its number, and none of it is read.
TEST(Counts, AreLookedAtFirst) {
  EXPECT_EQ(refusal(rule(repeated(R"({"acton":1})", 500'000))),
            "p.json:1:22: /rules: a policy has room for 4096 rules; here are 500000: let lists take the "
            "place of some");
  EXPECT_THAT(refusal(R"({"version":1,"management":[)" + repeated("1", 500'000) + "]}"),
              HasSubstr("/management: a policy has room for 2048 management entries"));
  EXPECT_THAT(refusal(R"({"version":1,"lists":{)" + members(4097, "[]") + "}}"),
              HasSubstr("/lists: a policy has room for 4096 lists, here are 4097"));
  EXPECT_EQ(refusal(R"({"version":1,"lists":{)" + members(4096, "[]") + "}}"), "");
  EXPECT_THAT(refusal(R"({"version":1,"pipelines":{)" + members(8192, "1") + "}}"),
              HasSubstr("at most 1024 pipelines, here are 8192"));
  EXPECT_THAT(refusal(pipeline(repeated("1", 500'000))), HasSubstr("1 to 62 stages"));
  EXPECT_THAT(refusal(pipeline(R"({"stage":"acl","rules":[)" + repeated("1", 300'000) + "]}")),
              HasSubstr("0 to 16384 can stand here, here are 300000"));
  EXPECT_THAT(refusal(pipeline(R"({"stage":"load_balance","backends":[)" + repeated("1", 500'000) + "]}")),
              HasSubstr("1 to 256 can stand here"));
  EXPECT_THAT(
      refusal(pipeline(R"({"stage":"forward","routes":[],"next_hops":{)" + members(8192, "1") + "}}")),
      HasSubstr("1 to 4096 can stand here, here are 8192"));
  EXPECT_EQ(refusal(R"({"version":1,"lists":{)" + members(300'000, "[]") + "}}"),
            "p.json:1:89025: /lists: this object has more than 8192 keys, and none has room for so many; put "
            "long lists into files");
  EXPECT_THAT(refusal(R"({"version":1,"compute":{"devices":[)" + repeated("\"cpu\"", 500'000) + "]}}"),
              HasSubstr("at most 64"));
  EXPECT_THAT(refusal("[" + repeated("1", 2'000'001) + "]"),
              HasSubstr("more than 2000000 values; put long lists into files"));
}

TEST(Counts, OfPrefixesEndTheReading) {
  const std::string list = repeated("::", 2'100'000, "\n");
  // The third would be refused for its lines.
  EXPECT_THAT(refusal(R"({"version":1,"lists":{"a":{"file":"l"},"b":{"file":"l"},"c":{"file":"bad"}}})",
                      read_files_of({{"l", list}, {"bad", "x"}})),
              HasSubstr("more prefixes than the 4000000"));
}

TEST(Lines, AreBounded) {
  const auto listed = [](const std::string& list) {
    return refusal(R"({"version":1,"lists":{"a":{"file":"l"}}})", read_files_of({{"l", list}}));
  };
  for (const std::string& line : {std::string(100u << 20, 'x'), std::string(2u << 20, '\0'),
                                  "alert ip [" + repeated("::", 9'000'000) + "] any -> any any (msg:\"x\";)"})
    EXPECT_THAT(listed("::\n" + line), HasSubstr("l:2:1: /lists/a/file: the line is longer than 1024 KiB"));
  EXPECT_EQ(listed("#" + std::string(2u << 20, 'x') + "\n::1 ;" + std::string(2u << 20, 'x')), "");
  EXPECT_EQ(listed("alert ip [" + repeated("::", 100'000) + "] any -> any any (msg:\"x\";)"), "");
}

// A line costs as much as is in it, and one without anything next to nothing.
TEST(Lines, ThatAreBlankAreSkipped) {
#if defined(XDPGPU_SANITIZED)
  GTEST_SKIP() << "the sanitizers look at each byte";
#endif
  const auto seconds = [](const std::string& policy, std::string file) {
    const FileReader files = read_files_of({{"f", std::move(file)}});
    const std::clock_t start = std::clock();
    EXPECT_TRUE(parse(policy, "p", files));
    return double(std::clock() - start) / CLOCKS_PER_SEC;
  };
  constexpr u32 kBytes = 32u << 20;
  const std::string list = R"({"version":1,"lists":{"a":{"file":"f"}}})";
  const std::string routes = pipeline(R"({"stage":"forward","next_hops":{"up":{"mac":"52:54:00:00:00:01"}},
                                          "routes":[{"file":"f"}]})");
  for (const auto& policy : {list, routes}) {
    const auto one_line = [&] { return seconds(policy, std::string(kBytes, ' ')); };
    EXPECT_LT(seconds(policy, std::string(kBytes, '\n')), 4 * std::max(one_line(), one_line())) << policy;
  }
}

class LimitedFiles : public testing::Test {
 protected:
  LimitedFiles() {
    std::string pattern = fs::temp_directory_path() / "xdpgpu-limits-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    std::ofstream(directory_ / "file") << "::\n";
  }
  ~LimitedFiles() override { fs::remove_all(directory_); }
  fs::path directory_;
};

TEST_F(LimitedFiles, AreBoundedTogether) {
  constexpr u64 kMiB = 1 << 20;
  fs::resize_file(directory_ / "file", kMiB);  // sparse
  // The file by another name each time.
  const auto lists = [](u32 count) {
    std::string all;
    for (u32 i = 0; i < count; ++i)
      all += fmt::format(R"({}"l{}":{{"file":"{}file"}})", i == 0 ? "" : ",", i, repeated("./", i, ""));
    return R"({"version":1,"lists":{)" + all + "}}";
  };
  FileContents contents;
  EXPECT_EQ(refusal(lists(4), collect_files_from(directory_, contents, 4 * kMiB)), "");
  contents.clear();
  EXPECT_THAT(
      refusal(lists(5), collect_files_from(directory_, contents, 4 * kMiB)),
      HasSubstr("/lists/l4/file: with ././././file, the files that the policy names have more than 4 MiB "
                "together"));
  EXPECT_EQ(contents.size(), 4u) << "no more is kept";
}

TEST(NamedFiles, CountAsOftenAsTheyAreNamed) {
  std::string all;
  for (u32 i = 0; i < 65; ++i) all += fmt::format(R"({}"l{}":{{"file":"comment"}})", i == 0 ? "" : ",", i);
  EXPECT_THAT(
      refusal(R"({"version":1,"lists":{)" + all + "}}",
              read_files_of({{"comment", "#" + std::string((16u << 20) - 1, 'x')}})),
      HasSubstr("/lists/l64/file: with comment, the files that the policy names have more than 1024 MiB"));
}

TEST_F(LimitedFiles, OneThatGrowsIsReadNoFurtherThanItMay) {
  constexpr u64 kMiB = 1 << 20;
  const fs::path file = directory_ / "file";
  tl::expected<std::string, std::string> text;
  // Where the machine has other things to do the file may have grown too late.
  for (int attempt = 0; text && attempt < 50; ++attempt) {
    fs::resize_file(file, kMaxTextBytes - kMiB);
    std::atomic<bool> reading = false;
    std::thread grower([&] {
      while (!reading) std::this_thread::yield();
      for (u64 size = kMaxTextBytes; size < 16 * kMaxTextBytes; size += kMiB) fs::resize_file(file, size);
    });
    reading = true;
    text = read_policy_text(file);
    grower.join();
    if (text) {
      EXPECT_LE(text->size(), kMaxTextBytes);
    }
  }
  ASSERT_FALSE(text) << text->size() << " bytes were read";
  EXPECT_THAT(text.error(),
              HasSubstr("is larger than 16 MiB, the most that is read; put long lists into files"));
}

}  // namespace
}  // namespace xdpgpu::policy
