// SPDX-License-Identifier: MIT
//
// Paths that others had a hand in.
#include "userspace/kernel/trusted.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace xdpgpu::kernel {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uid_t kStranger = 65534;

class KernelTrusted : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    char name[] = "/tmp/xdpgpu-trusted-XXXXXX";  // in a folder that all may write, and sticky
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    fs::create_directory(root_ / "pins");
    std::ofstream(root_ / "pins" / "map") << "pin";
    ASSERT_EQ(chmod((root_ / "pins").c_str(), 0700), 0);
    ASSERT_EQ(chmod(pin().c_str(), 0600), 0);
  }
  void TearDown() override {
    if (!root_.empty()) fs::remove_all(root_);
  }
  std::string pin() const { return root_ / "pins" / "map"; }
  std::string why() const {
    const auto stands = stands_by_root(pin());
    return stands ? "trusted" : stands.error();
  }
  fs::path root_;
};

TEST_F(KernelTrusted, RootsOwnIsAndWhatIsNotThereIsNot) {
  EXPECT_TRUE(stands_by_root(pin()).value());
  EXPECT_FALSE(stands_by_root(root_ / "pins" / "other").value());
  EXPECT_FALSE(stands_by_root(root_ / "other" / "map").value());
}

TEST_F(KernelTrusted, NothingThatOthersCanExchangeIs) {
  ASSERT_EQ(chmod((root_ / "pins").c_str(), 0777), 0);
  EXPECT_THAT(why(), HasSubstr("can be written by others"));
  ASSERT_EQ(chmod((root_ / "pins").c_str(), 01777), 0);
  EXPECT_EQ(why(), "trusted") << "others may add something, and not touch root's";
  ASSERT_EQ(chmod((root_ / "pins").c_str(), 0770), 0);
  ASSERT_EQ(chown((root_ / "pins").c_str(), 0, kStranger), 0);
  EXPECT_THAT(why(), HasSubstr("can be written by others")) << "the group's members";
  ASSERT_EQ(chown((root_ / "pins").c_str(), kStranger, 0), 0);
  EXPECT_THAT(why(), HasSubstr("not root's, but user 65534's"));
  ASSERT_EQ(chown((root_ / "pins").c_str(), 0, 0), 0);
  ASSERT_EQ(chown(pin().c_str(), kStranger, 0), 0);
  EXPECT_THAT(why(), HasSubstr("not root's"));
  ASSERT_EQ(chown(pin().c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(pin().c_str(), 0666), 0);
  EXPECT_THAT(why(), HasSubstr("can be written by others"));
  EXPECT_TRUE(stands_by_root(pin(), true).value());
}

TEST_F(KernelTrusted, NoSymbolicLinkIsFollowed) {
  fs::rename(root_ / "pins", root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", root_ / "pins");
  EXPECT_THAT(why(), HasSubstr("symbolic link"));
  fs::remove(root_ / "pins");
  fs::rename(root_ / "elsewhere", root_ / "pins");
  fs::remove(pin());
  fs::create_symlink("/etc/passwd", pin());
  EXPECT_THAT(why(), HasSubstr("symbolic link"));
}

}  // namespace
}  // namespace xdpgpu::kernel
