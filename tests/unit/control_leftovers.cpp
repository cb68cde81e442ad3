// SPDX-License-Identifier: MIT
//
// What is removed is a dead attach's, whatever name is given.
#include "userspace/control/leftovers.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "maps/control.h"
#include "userspace/control/client.hpp"
#include "userspace/control/server.hpp"
#include "userspace/kernel/pins.hpp"

namespace xdpgpu::control {
namespace {

namespace fs = std::filesystem;

class ControlLeftovers : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/xdpgpu-leftovers-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    victim_ = name;
    std::ofstream(victim_ / "kept") << "kept";
  }
  void TearDown() override { fs::remove_all(victim_); }
  fs::path victim_;
};

TEST_F(ControlLeftovers, OnlyAnInterfacesNameNamesSomethingToRemove) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  // The folder that a path out of it starts from must be there for the path to lead anywhere.
  if (mkdir(XG_PIN_ROOT, 0700) != 0 && errno != EEXIST) GTEST_SKIP() << "cannot make " << XG_PIN_ROOT;
  const std::string out = "../../../.." + victim_.string();
  ASSERT_TRUE(fs::exists(fs::path(XG_PIN_ROOT) / out / "kept"));
  const auto lock = RunLock::take();
  ASSERT_TRUE(lock) << lock.error();
  // No more of such names here: where this fails, "" or ".." would take other people's pins along.
  EXPECT_FALSE(remove_leftovers(out, *lock));
  EXPECT_FALSE(remove_leftovers("sixteen-letters!", *lock));
  kernel::remove_pins(out);
  EXPECT_TRUE(fs::exists(victim_ / "kept"));
  rmdir(XG_PIN_ROOT);  // only if nobody has pins
}

// Of an attach of several interfaces that died: the next one's process is not theirs.
TEST_F(ControlLeftovers, ADeadAttachsLinksDoNotLeadToTheNextOne) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string first = "xgl" + std::to_string(getpid() % 100000) + "a", second = first + "b";
  const auto lock = RunLock::take();
  ASSERT_TRUE(lock) << lock.error();
  ASSERT_EQ(symlink((first + ".sock").c_str(), socket_path(second).c_str()), 0);
  EXPECT_EQ(find_process(second), Presence::dead);
  EXPECT_TRUE(remove_leftovers(first, *lock));
  {
    const auto listener = listen_at(socket_path(first), std::nullopt);
    ASSERT_TRUE(listener) << listener.error();
    EXPECT_EQ(find_process(first), Presence::running);
    EXPECT_EQ(find_process(second), Presence::dead) << "and there is something to be cleaned up";
  }
  for (const auto& name : {first, second}) {
    const auto removed = remove_leftovers(name, *lock);
    ASSERT_TRUE(removed) << removed.error();
    EXPECT_EQ(*removed, std::vector<std::string>{"control socket"});
  }
}

}  // namespace
}  // namespace xdpgpu::control
