// SPDX-License-Identifier: MIT
//
// Which files a policy may name, and how those that cannot be read are refused: at once, and with a reason.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern = fs::temp_directory_path() / "xdpgpu-files-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    fs::create_directory(directory_ / "lists");
    std::ofstream(directory_ / "lists/good.txt") << "192.0.2.1\n";
  }
  ~Files() override { fs::remove_all(directory_); }
  std::string refusal(const std::string& path) {
    auto content = read_files_from(directory_)(path);
    EXPECT_FALSE(content) << path;
    return content ? "" : content.error();
  }
  fs::path directory_;
};

TEST_F(Files, AreFoundFromThePolicysDirectory) {
  auto reader = read_files_from(directory_);
  EXPECT_EQ(*reader("lists/good.txt").value(), "192.0.2.1\n");
  EXPECT_EQ(*reader("./lists/../lists/good.txt").value(), "192.0.2.1\n");
  EXPECT_EQ(*reader((directory_ / "lists/good.txt").string()).value(), "192.0.2.1\n");
}

TEST_F(Files, SymbolicLinksToFilesAreFollowed) {
  fs::create_symlink("good.txt", directory_ / "lists/link.txt");
  EXPECT_EQ(*read_files_from(directory_)("lists/link.txt").value(), "192.0.2.1\n");
  fs::create_symlink("nowhere", directory_ / "dangling");
  EXPECT_THAT(refusal("dangling"), HasSubstr("No such file"));
  fs::create_symlink("loop", directory_ / "loop");
  EXPECT_THAT(refusal("loop"), HasSubstr("Too many levels"));
}

TEST_F(Files, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal("fifo"), HasSubstr("is a FIFO; a regular file is needed"));
  EXPECT_THAT(refusal("lists"), HasSubstr("is a directory"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("is a device"));
  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, (directory_ / "socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(refusal("socket"), HasSubstr("cannot open"));
  close(listener);
}

TEST_F(Files, MissingOnesAndOddPathsAreRefused) {
  EXPECT_THAT(refusal("lists/none.txt"), HasSubstr("lists/none.txt: No such file"));
  EXPECT_THAT(refusal(std::string("lists/good.txt\0x", 16)), HasSubstr("zero byte"));
  EXPECT_THAT(refusal(std::string(10'000, 'a')), HasSubstr("name too long"));
}

TEST_F(Files, SizesAreBounded) {
  fs::path big = directory_ / "big";
  std::ofstream(big) << "x";
  fs::resize_file(big, kMaxFileBytes + 1);  // sparse
  EXPECT_THAT(refusal("big"), HasSubstr("larger than 256 MiB"));
  EXPECT_THAT(read_policy_text(big).error(), HasSubstr("larger than 16 MiB"));
}

TEST_F(Files, AFileThatSaysItIsEmptyIsReadAllTheSame) {
  auto content = read_files_from("/proc/self")("status");  // st_size is 0
  ASSERT_TRUE(content);
  EXPECT_THAT(**content, HasSubstr("Name:"));
}

TEST_F(Files, WhatOneReaderCollectsAnotherGives) {
  const char* text =
      R"({"version": 1, "lists": {"a": {"file": "lists/good.txt"}, "b": {"file": "lists/good.txt"}}})";
  FileContents sent;
  auto empty = parse(text, "p", collect_files_from(directory_, sent));
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->lists.at("a").prefixes.empty());
  auto here = parse(text, "p", read_files_from(directory_));
  ASSERT_TRUE(here);
  EXPECT_THAT(sent, testing::ElementsAre(testing::Pair("lists/good.txt", "192.0.2.1\n")));
  auto there = parse(text, "p", read_files_of(sent));
  ASSERT_TRUE(there);
  EXPECT_EQ(here->hash, there->hash);
  EXPECT_EQ(here->lists, there->lists);
}

TEST_F(Files, OfAPatternAreThoseThatAreLikeIt) {
  for (const char* name : {"b.rules", "a.rules", ".hidden.rules", "c.txt", "[x].rules"})
    std::ofstream(directory_ / "lists" / name) << "# " << name << "\n";
  const auto names = [&](const std::string& pattern, const FileReader& reader) {
    const auto list = reader.list(pattern);
    return list ? fmt::format("{}", fmt::join(*list, " ")) : list.error();
  };
  const FileReader here = read_files_from(directory_);
  FileContents contents{
      {"lists/sub/d.rules", ""},   {"lists/b.rules", ""},   {"lists/a.rules", ""}, {"lists/c.txt", ""},
      {"lists/.hidden.rules", ""}, {"lists/[x].rules", ""}, {"e.rules", ""}};
  const FileReader sent = read_files_of(contents);
  for (const FileReader* reader : {&here, &sent}) {
    EXPECT_EQ(names("lists/*.rules", *reader), "lists/[x].rules lists/a.rules lists/b.rules");
    EXPECT_EQ(names("lists/[a-c].*", *reader), "lists/a.rules lists/b.rules lists/c.txt");
    EXPECT_EQ(names("lists/?.txt", *reader), "lists/c.txt");
    EXPECT_THAT(names("lists/*.none", *reader), HasSubstr("no file is like *.none"));
    EXPECT_THAT(names("l*/a.rules", *reader), testing::Not(HasSubstr("lists/a.rules")));
  }
  EXPECT_EQ(names("*.rules", sent), "e.rules");
  EXPECT_THAT(names("none/*", here), HasSubstr("cannot open"));
  std::filesystem::create_directory(directory_ / "many");
  for (u32 i = 0; i <= kMaxPatternFiles; i++) std::ofstream(directory_ / "many" / std::to_string(i)) << "";
  EXPECT_THAT(names("many/*", here), HasSubstr("more than 4096 files are like many/*"));
}

TEST_F(Files, AnUnreadableListIsAProblemOfThePolicy) {
  ASSERT_EQ(mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  auto policy =
      parse(R"({"version": 1, "lists": {"a": {"file": "fifo"}}})", "p.json", read_files_from(directory_));
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error()[0].pointer, "/lists/a/file");
  EXPECT_THAT(policy.error()[0].message, HasSubstr("is a FIFO"));
}

}  // namespace
}  // namespace xdpgpu::policy
