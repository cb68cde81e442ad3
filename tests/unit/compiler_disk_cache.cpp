// SPDX-License-Identifier: MIT
//
// What is kept for the next start: found again byte for byte, or not at all.
#include "userspace/compiler/disk_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "userspace/compiler/exchange.hpp"

namespace xdpgpu::compiler {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CompilerDiskCache : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "xdpgpu-cache-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    home_ = name;
    folder_ = home_ / "cache";
  }
  void TearDown() override { fs::remove_all(home_); }

  DiskCache cache(u64 most = DiskCache::kMost) { return DiskCache::open(folder_, most).value(); }
  // The only file there is.
  fs::path file() const { return fs::directory_iterator(folder_)->path(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  static ArtifactId id(u8 number) {
    ArtifactId made{};
    made[3] = number;
    return made;
  }
  static std::vector<std::byte> content(std::size_t size, u8 seed = 1) {
    std::vector<std::byte> made(size);
    for (std::size_t i = 0; i < size; i++) made[i] = static_cast<std::byte>(i * 7 + seed);
    return made;
  }

  fs::path home_, folder_;
};

TEST_F(CompilerDiskCache, WhatIsKeptIsFoundByTheNextProcess) {
  ASSERT_TRUE(cache().keep(id(1), content(5000)));
  ASSERT_TRUE(cache().keep(id(2), content(0)));
  EXPECT_EQ(cache().find(id(1)), content(5000));
  EXPECT_EQ(cache().find(id(2)), content(0));
  EXPECT_EQ(cache().find(id(3)), std::nullopt);
  ASSERT_TRUE(cache().keep(id(1), content(300, 9)));
  EXPECT_EQ(cache().find(id(1)), content(300, 9)) << "the last one counts";
  EXPECT_EQ(files(), 2u) << "nothing is left of the writing";
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(file()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// Each byte of the file.
TEST_F(CompilerDiskCache, WhatIsNotWholeIsNotFound) {
  ASSERT_TRUE(cache().keep(id(1), content(40)));
  const fs::path file = this->file();
  std::string whole(fs::file_size(file), '\0');
  std::ifstream(file, std::ios::binary).read(whole.data(), static_cast<std::streamsize>(whole.size()));
  const auto write = [&](const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; };
  for (std::size_t i = 0; i < whole.size(); i++) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    write(changed);
    EXPECT_EQ(cache().find(id(1)), std::nullopt) << "byte " << i;
    write(whole.substr(0, i));
    EXPECT_EQ(cache().find(id(1)), std::nullopt) << i << " bytes";
  }
  write(whole + '\0');
  EXPECT_EQ(cache().find(id(1)), std::nullopt);
  write(whole);
  EXPECT_EQ(cache().find(id(1)), content(40));
}

TEST_F(CompilerDiskCache, AnothersFileUnderItsNameIsNotFound) {
  ASSERT_TRUE(cache().keep(id(1), content(40)));
  const fs::path file = this->file();
  ASSERT_TRUE(cache().keep(id(2), content(50)));
  fs::path other;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path() != file) other = entry.path();
  fs::rename(file, other);
  EXPECT_EQ(cache().find(id(2)), std::nullopt) << "it is the content of something else";
  EXPECT_EQ(cache().find(id(1)), std::nullopt);
}

TEST_F(CompilerDiskCache, WhatSomebodyElseCanChangeIsNotFound) {
  ASSERT_TRUE(cache().keep(id(1), content(40)));
  const fs::path file = this->file(), aside = home_ / "aside";
  for (const auto writer : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(file, writer, fs::perm_options::add);
    EXPECT_EQ(cache().find(id(1)), std::nullopt);
    fs::permissions(file, writer, fs::perm_options::remove);
  }
  EXPECT_EQ(cache().find(id(1)), content(40));
  fs::create_hard_link(file, aside);
  EXPECT_EQ(cache().find(id(1)), std::nullopt) << "it has another name";
  fs::remove(file);
  fs::create_symlink(aside, file);
  EXPECT_EQ(cache().find(id(1)), std::nullopt) << "it is a link";
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(cache().find(id(1)), std::nullopt) << "and nobody waits for a pipe";
  if (geteuid() != 0) return;
  fs::remove(file);
  fs::rename(aside, file);
  ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
  EXPECT_EQ(cache().find(id(1)), std::nullopt) << "it is somebody else's";
}

TEST_F(CompilerDiskCache, NothingIsKeptWhereSomebodyElseCanWrite) {
  (void)cache();
  fs::permissions(folder_, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(DiskCache::open(folder_).error(), HasSubstr("somebody else can write"));
  fs::remove(folder_);
  fs::create_directory(home_ / "real");
  fs::create_directory_symlink(home_ / "real", folder_);
  EXPECT_THAT(DiskCache::open(folder_).error(), HasSubstr("cannot be opened"));
  EXPECT_THAT(DiskCache::open(home_ / "not there" / "cache").error(), HasSubstr("cannot be made"));
}

TEST_F(CompilerDiskCache, WhatWasUsedLongestAgoMakesRoom) {
  const DiskCache small = cache(3000);
  for (u8 number = 1; number <= 3; number++) {
    ASSERT_TRUE(small.keep(id(number), content(800, number)));
    usleep(20'000);
  }
  EXPECT_TRUE(small.find(id(1)));  // now the last one used
  ASSERT_TRUE(small.keep(id(4), content(800, 4)));
  EXPECT_EQ(small.find(id(2)), std::nullopt);
  EXPECT_TRUE(small.find(id(1)));
  EXPECT_TRUE(small.find(id(3)));
  EXPECT_TRUE(small.find(id(4)));
  EXPECT_THAT(small.keep(id(5), content(3000)).error(), HasSubstr("more than"));
  EXPECT_EQ(files(), 3u) << "what does not fit pushes nothing out";
  std::ofstream(folder_ / "left by a writer that was killed") << std::string(2000, 'x');
  fs::last_write_time(folder_ / "left by a writer that was killed",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(small.keep(id(6), content(200, 6)));
  EXPECT_FALSE(fs::exists(folder_ / "left by a writer that was killed"));
  EXPECT_TRUE(small.find(id(4)));
}

// ---- what is kept there ------------------------------------------------------------------------------

gpu::DeviceCode some_code() {
  gpu::DeviceCode code;
  code.id = "made of something for 120";
  code.architecture = 120;
  for (const std::size_t size : {3000u, 0u, 77u}) code.modules.emplace_back(size, static_cast<char>(size));
  return code;
}

std::vector<std::byte> bytes_of(const kernel::Fd& memory) {
  const auto mapped = SealedMemory::map(memory, kMostAnswer).value();
  return {mapped.bytes().begin(), mapped.bytes().end()};
}

TEST(CompilerCode, GoesFromOneProcessToAnother) {
  const auto code = some_code();
  const auto bytes = bytes_of(write_code_answer(code).value());
  const auto read = read_code_answer(bytes).value().value();
  EXPECT_EQ(read.id, code.id);
  EXPECT_EQ(read.architecture, code.architecture);
  EXPECT_EQ(read.modules, code.modules);
  for (std::size_t i = 0; i < bytes.size(); i++)
    EXPECT_FALSE(read_code_answer(std::span(bytes).first(i))) << i << " bytes";
  const auto refused = bytes_of(write_answer(Refusal{.sentence = "it is not installed"}).value());
  EXPECT_EQ(read_code_answer(refused).value().error().sentence, "it is not installed");
}

TEST(CompilerCode, OrdersAreToldApart) {
  const auto order = SealedMemory::map(write_code_order(120).value(), kMostOrder).value();
  EXPECT_EQ(read_code_order(order), 120u);
  EXPECT_FALSE(read_order(order));
  const auto other = SealedMemory::map(write_order(pass_everything(), {}, {}).value(), kMostOrder).value();
  EXPECT_EQ(read_code_order(other), std::nullopt);
}

}  // namespace
}  // namespace xdpgpu::compiler
