// SPDX-License-Identifier: MIT
//
// tests/unit/cli_program.cpp: what `program check` says of objects, through the real command, which reads
// them in a process of its own.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "tests/unit/cli_test.hpp"

namespace xdpgpu::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string object(const std::string& name) { return XDPGPU_OBJECTS "/" + name + ".bpf.o"; }

class CliProgram : public CliTest {
 protected:
  static bool root() { return geteuid() == 0; }
};

TEST_F(CliProgram, ThatHasAllItNeedsIsDescribed) {
  const auto text = run({"program", "check", object("everything")});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("everything (section xdp): "));
  EXPECT_THAT(text.out, HasSubstr(" instructions, 3 functions\n"));
  EXPECT_THAT(text.out,
              HasSubstr("Map sources: hash, keys of 4 bytes, values of 8 bytes, 1000 at most; the program "
                        "writes it\n"));
  EXPECT_THAT(text.out,
              HasSubstr("Map .rodata: array, keys of 4 bytes, values of 4 bytes, 1 at most; the program only "
                        "reads it, from one memory with the kernel\n"));
  EXPECT_THAT(text.out, HasSubstr("Needs helpers: map_lookup_elem (2), map_update_elem (1), "));
  EXPECT_THAT(text.out, HasSubstr("Note: map counts is to be shared with others by a pin"));
  EXPECT_THAT(text.out, HasSubstr("Nothing that it needs is missing\n"));
  EXPECT_THAT(text.out, EndsWith(root() ? "The kernel's verifier takes it\n"
                                        : "run it as root to have the kernel asked\n"));
  EXPECT_THAT(text.out, Not(HasSubstr("opcode")));
  const auto json = Json::parse(run({"program", "check", object("everything"), "-o", "json", "-v"}).out);
  EXPECT_EQ(json.at("program"), "everything");
  EXPECT_EQ(json.at("functions"), 3);
  EXPECT_EQ(json.at("maps").size(), 5u);
  EXPECT_EQ(json.at("helpers").at(0),
            (Json{{"name", "map_lookup_elem"}, {"number", 1}, {"times", 2}, {"missing", ""}}));
  EXPECT_TRUE(json.at("missing").empty());
  EXPECT_EQ(json.at("verifier").at("said"), root() ? "takes" : "not asked");
  EXPECT_EQ(json.at("code").size(), json.at("instructions"));
  EXPECT_FALSE(json.contains("error"));
}

TEST_F(CliProgram, ThatNeedsMoreIsRefused) {
  const auto text = run({"program", "check", object("missing")});
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("Missing: helper fib_lookup: "));
  EXPECT_THAT(text.out, HasSubstr("Missing: map type ringbuf: "));
  EXPECT_THAT(text.err, HasSubstr("missing needs what is missing: helper fib_lookup: "));
  const auto json = Json::parse(run({"program", "check", object("missing"), "-o", "json"}).out);
  EXPECT_EQ(json.at("missing").size(), 3u);
  EXPECT_THAT(json.at("error").at("message").get<std::string>(), HasSubstr("fib_lookup"));
}

TEST_F(CliProgram, ThatTheKernelRefusesIsRefusedWithItsWords) {
  if (!root()) GTEST_SKIP() << "the kernel is asked as root: run it with sudo";
  const auto text = run({"program", "check", object("refused")});
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("The kernel's verifier refuses it: "));
  EXPECT_THAT(text.err, HasSubstr("the kernel's verifier refuses reads_beyond: "));
  EXPECT_THAT(text.err, HasSubstr("invalid access to packet"));
}

TEST_F(CliProgram, IsNamedWhereThereAreSeveral) {
  const auto any = run({"program", "check", object("several")});
  EXPECT_EQ(any.status, 1);
  EXPECT_THAT(any.err, HasSubstr("name one by --section: first (section xdp)"));
  const auto one = run({"program", "check", object("several"), "--section", "xdp/second"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("second (section xdp/second): "));
}

TEST_F(CliProgram, IsFittedToTheKernelByItsReader) {
  if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) GTEST_SKIP() << "this kernel does not tell its types";
  EXPECT_EQ(run({"program", "check", object("layouts"), "--section", "headers"}).status, 0);
  EXPECT_EQ(run({"program", "check", object("layouts"), "--section", "moved"}).status, 1);
}

TEST_F(CliProgram, ThatIsNoneIsRefusedInOneSentence) {
  const std::string text = file("text.o", "no object"), empty = file("empty.o", "");
  std::string cut = contents(object("everything"));
  const std::string half = file("half.o", cut.substr(0, cut.size() / 2));
  for (const auto& [path, why] :
       {std::pair{text, "no ELF object"}, {empty, "no ELF object"}, {half, "it "}}) {
    const auto outcome = run({"program", "check", path});
    EXPECT_EQ(outcome.status, 1) << path;
    EXPECT_THAT(outcome.err, HasSubstr(path + ": "));
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    const auto json = run({"program", "check", path, "-o", "json"});
    EXPECT_NE(Json::parse(json.out).at("error").at("message"), "");
  }
  EXPECT_EQ(run({"program", "check"}).status, 2);
  EXPECT_EQ(run({"program"}).status, 2);
  EXPECT_EQ(run({"program", "check", "/no/such.o"}).status, 1);
}

// libbpf does not survive each of these: the command does.
TEST_F(CliProgram, ThatIsDamagedNeverEndsTheCommand) {
  const std::string whole = contents(object("slots"));
  std::mt19937 random(22);
  for (int i = 0; i < 60; i++) {
    std::string bytes = whole;
    for (auto k = 1 + random() % 6; k > 0; k--)
      bytes[random() % bytes.size()] ^= static_cast<char>(1u << random() % 8);
    const auto outcome = run({"program", "check", file("damaged.o", bytes), "--section", "last"});
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 1) << i << ": " << outcome.status << outcome.err;
    if (outcome.status == 1) {
      EXPECT_THAT(outcome.err, HasSubstr("damaged.o: "));
    }
  }
}

}  // namespace
}  // namespace xdpgpu::test
