// SPDX-License-Identifier: MIT
//
// tests/unit/cli_policy_input.cpp: a policy from standard input ("-").
#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

#include "tests/unit/cli_test.hpp"

namespace xdpgpu::test {
namespace {

using testing::HasSubstr;

class CliPolicyInput : public CliTest {
 protected:
  Outcome check(const std::string& text, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"policy", "check", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, "", file("input", text));
  }
};

TEST_F(CliPolicyInput, IsReadToItsEndAndCalledSo) {
  std::string text =
      R"({"version": 1, "default": "drop", "description": ")" + std::string(4000, 'x') + R"(",)";
  text += std::string(300'000, ' ') + R"("management": [{"src": "10.0.0.1"}]})";
  const auto right = check(text);
  EXPECT_EQ(right.status, 0) << right.err;
  EXPECT_THAT(right.out, HasSubstr("(standard input) is right: "));
  EXPECT_EQ(Json::parse(check(text, {"-o", "json"}).out).at("file"), "(standard input)");
  const auto wrong = check("{\"version\": 1,\n \"rules\": 7}");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("(standard input):2:11: /rules: "));
  EXPECT_EQ(check("").status, 2);
}

TEST_F(CliPolicyInput, RelativeFilesStartInTheWorkingDirectory) {
  const std::string text =
      R"({"version": 1, "lists": {"l": {"file": "list.txt"}}, "rules": [{"match": {"src": "@l"}, "action": "drop"}]})";
  file("list.txt", "192.0.2.1\n");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  const auto here = check(text);
  std::filesystem::current_path("/");
  const auto elsewhere = check(text);
  std::filesystem::current_path(before);
  EXPECT_EQ(here.status, 0) << here.err;
  EXPECT_EQ(elsewhere.status, 2);
  EXPECT_THAT(elsewhere.err, HasSubstr("list.txt"));
}

TEST_F(CliPolicyInput, IsBoundedAndNoTerminal) {
  const auto endless = run({"policy", "check", "-"}, "", "/dev/zero");
  EXPECT_EQ(endless.status, 2);
  EXPECT_THAT(endless.err, HasSubstr("standard input is larger than 16 MiB"));
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) GTEST_SKIP() << "no terminal";
  const auto refused = run({"policy", "check", "-"}, "", ptsname(terminal));
  close(terminal);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("which is a terminal: name a file"));
  const auto folder = run({"policy", "check", "-"}, "", "/");
  EXPECT_EQ(folder.status, 2);
  EXPECT_THAT(folder.err, HasSubstr("standard input cannot be read"));
}

TEST_F(CliPolicyInput, IsOneSideOfADiffAndAReplaysPolicy) {
  const std::string policy = R"({"version": 1, "default": "drop"})",
                    same = R"({"default": "drop", "version": 1})";
  const std::string a = file("a.json", policy), input = file("input", same);
  EXPECT_EQ(run({"policy", "diff", a, "-"}, "", input).status, 0);
  EXPECT_EQ(run({"policy", "diff", "-", a}, "", input).status, 0);
  const auto differ = run({"policy", "diff", "-", a}, "", file("other", R"({"version": 1})"));
  EXPECT_EQ(differ.status, 1);
  EXPECT_THAT(differ.out, HasSubstr("between (standard input) and "));
  const std::string capture = XDPGPU_SOURCE_DIR "/tests/data/pcap/vlan.pcap";
  const auto replayed =
      run({"replay", capture, "--device", "cpu", "--no-kernel", "--policy", "-"}, "", input);
  EXPECT_EQ(replayed.status, 0) << replayed.err;
  EXPECT_THAT(replayed.out, HasSubstr("2 drop"));
}

}  // namespace
}  // namespace xdpgpu::test
