// SPDX-License-Identifier: MIT
//
// What is removed is a dead attach's, whatever name is given.
#include "userspace/control/leftovers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <optional>

#include "maps/control.h"
#include "userspace/control/client.hpp"
#include "userspace/control/server.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/pins.hpp"

namespace xdpgpu::control {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

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

// What runs in a child of its own until it is ended.
class Child {
 public:
  explicit Child(const std::function<bool()>& begin) {
    int pipe_fds[2];
    if (pipe(pipe_fds) != 0) return;
    id_ = fork();
    if (id_ == 0) {
      const char ok = begin() ? 1 : 0;
      (void)!write(pipe_fds[1], &ok, 1);
      while (true) pause();
    }
    char ok = 0;
    began_ = read(pipe_fds[0], &ok, 1) == 1 && ok == 1;
    close(pipe_fds[0]);
    close(pipe_fds[1]);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void end() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
    id_ = -1;
  }
  bool began() const { return began_; }
  pid_t id() const { return id_; }

 private:
  pid_t id_ = -1;
  bool began_ = false;
};

TEST_F(ControlLeftovers, NobodyButRootHoldsTheLock) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string root = kernel::names::run_root();
  const bool made =
      std::filesystem::create_directories(root);  // with its parent, in a namespace not the host's
  const Child nobody([&] {
    const int folder = setgid(65534) == 0 && setuid(65534) == 0 ? open(root.c_str(), O_RDONLY) : -1;
    return folder >= 0 && flock(folder, LOCK_EX) == 0 && open(kernel::names::lock().c_str(), O_RDONLY) < 0;
  });
  ASSERT_TRUE(nobody.began());
  {
    const auto lock = RunLock::take(2s);
    ASSERT_TRUE(lock) << lock.error();
    struct stat file {};
    ASSERT_EQ(stat(kernel::names::lock().c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777U, 0600U);
    EXPECT_EQ(file.st_uid, 0U);
  }
  if (made) rmdir(root.c_str());
}

TEST_F(ControlLeftovers, TheControlSocketsAreReachedWhateverTheUmask) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const mode_t before = umask(0077);
  const auto lock = RunLock::take();
  umask(before);
  ASSERT_TRUE(lock) << lock.error();
  struct stat found {};
  ASSERT_EQ(stat(kernel::names::run_root().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0755U);
}

TEST_F(ControlLeftovers, WhoHoldsTheLockIsNamedAndNotWaitedForEver) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  std::optional<RunLock> held;
  Child holder([&] {
    auto lock = RunLock::take();
    if (lock) held.emplace(std::move(*lock));
    return held.has_value();
  });
  ASSERT_TRUE(holder.began());
  const auto refused = RunLock::take(50ms);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("process " + std::to_string(holder.id()) + " holds"), std::string::npos)
      << refused.error();
  holder.end();
  EXPECT_TRUE(RunLock::take()) << "what the dead held";
}

// Each takes the file away, and the folder, too, where nobody else has anything in it.
TEST_F(ControlLeftovers, TheLockHasOneHolderAtATime) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string inside = (victim_ / "inside").string();
  const auto come_and_go = [&] {
    for (int i = 0; i < 50; ++i) {
      const auto lock = RunLock::take();
      if (!lock) return false;
      const int fd = open(inside.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
      if (fd < 0) return false;
      close(fd);
      sched_yield();
      if (unlink(inside.c_str()) != 0) return false;
    }
    return true;
  };
  std::vector<std::future<bool>> holders;
  holders.reserve(16);
  for (int i = 0; i < 16; ++i) holders.push_back(std::async(std::launch::async, come_and_go));
  for (auto& holder : holders) EXPECT_TRUE(holder.get());
}

// Of an attach of several interfaces that died: the next one's process is not theirs.
TEST_F(ControlLeftovers, ADeadAttachsLinksDoNotLeadToTheNextOne) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string first = "xgl" + std::to_string(getpid() % 100000) + "a", second = first + "b";
  const auto lock = RunLock::take();
  ASSERT_TRUE(lock) << lock.error();
  ASSERT_EQ(symlink((first + ".sock").c_str(), kernel::names::socket(second).c_str()), 0);
  EXPECT_EQ(find_process(second), Presence::dead);
  EXPECT_TRUE(remove_leftovers(first, *lock));
  {
    const auto listener = listen_at(kernel::names::socket(first), std::nullopt);
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
