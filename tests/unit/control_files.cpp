// SPDX-License-Identifier: MIT
//
// What the data plane may open, put on real processes of ours that try the rest.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "userspace/control/file_access.hpp"

namespace xdpgpu::control {
namespace {

class ControlFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!host::landlock().limits_files()) GTEST_SKIP() << host::landlock().why;
  }
};

constexpr int kNotLimited = 200;

// What comes of `act` in a child that is limited, as root, whom nothing else keeps out: 0 or an errno.
int limited(const std::vector<bool>& drivers, const std::function<long()>& act) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (const bool driver : drivers)
      if (!limit_files(driver)) _exit(kNotLimited);
    errno = 0;
    _exit(act() < 0 ? errno : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int opened(const std::vector<bool>& drivers, const std::string& path, int flags) {
  return limited(drivers, [&] { return open(path.c_str(), flags | O_CLOEXEC, 0600); });
}

TEST_F(ControlFiles, WithoutADriverNothingIsWrittenAndLittleRead) {
  for (const char* path : {"/etc/passwd", "/usr/bin", "/", "/dev/null", "/dev/ptmx", "/proc/1/status", "/tmp",
                           "/proc/self/root/etc/passwd", "/proc/sys/kernel/hostname"})
    EXPECT_EQ(opened({false}, path, O_RDONLY), EACCES) << path;
  for (const char* path :
       {"/dev/null", "/proc/self/mem", "/proc/self/comm", "/dev/ptmx", "/proc/sys/vm/swappiness"})
    EXPECT_EQ(opened({false}, path, O_RDWR), EACCES) << path;
  const std::string made = "/tmp/xdpgpu-unit-made-" + std::to_string(getpid());
  EXPECT_EQ(opened({false}, made, O_WRONLY | O_CREAT), EACCES);
  EXPECT_EQ(limited({false}, [&] { return mkdir(made.c_str(), 0700); }), EACCES);
  EXPECT_EQ(limited({false}, [&] { return symlink("/etc/shadow", made.c_str()); }), EACCES);
  EXPECT_EQ(limited({false}, [] { return execl("/bin/true", "true", nullptr); }), EACCES);
  EXPECT_NE(access(made.c_str(), F_OK), 0);
  for (const char* path :
       {"/proc/self/stat", "/proc/cpuinfo", "/proc/sys/vm/overcommit_memory", "/proc/self/fd"})
    EXPECT_EQ(opened({false}, path, O_RDONLY), 0) << path;
}

TEST_F(ControlFiles, ADriverHasItsPartsAndItsDevicesAlone) {
  for (const char* path : {"/usr/lib", "/sys/devices", "/proc/cpuinfo", "/dev/null", "/proc/filesystems"})
    EXPECT_EQ(opened({true}, path, O_RDONLY), 0) << path;
  EXPECT_EQ(opened({true}, "/dev/null", O_RDWR), 0);
  for (const char* path : {"/etc/passwd", "/", "/dev/ptmx", "/dev/tty", "/tmp", "/dev/shm", "/proc/1/status"})
    EXPECT_EQ(opened({true}, path, O_RDONLY), EACCES) << path;
  for (const char* path : {"/dev/ptmx", "/dev/urandom", "/proc/self/mem", "/usr/lib/os-release"})
    EXPECT_EQ(opened({true}, path, O_WRONLY), EACCES) << path;
  EXPECT_EQ(opened({true}, "/dev/shm/xdpgpu-unit", O_RDWR | O_CREAT), EACCES);
  EXPECT_EQ(limited({true}, [] { return execl("/bin/true", "true", nullptr); }), EACCES);
}

TEST_F(ControlFiles, OtherDevicesAreAskedNothing) {
  if (!host::landlock().limits_device_requests()) GTEST_SKIP() << "Linux 6.10 and later";
  constexpr unsigned long kEntropy = 0x80045200;  // RNDGETENTCNT: harmless, and for all
  const auto asked = [] {
    int bits = 0;
    return ioctl(open("/dev/urandom", O_RDONLY | O_CLOEXEC), kEntropy, &bits);
  };
  EXPECT_EQ(asked(), 0);
  EXPECT_EQ(limited({true}, asked), EACCES);
}

TEST_F(ControlFiles, IsLimitedFurtherAndForThreadsToo) {
  EXPECT_EQ(opened({true, false}, "/usr/lib", O_RDONLY), EACCES);
  EXPECT_EQ(opened({true, false}, "/proc/cpuinfo", O_RDONLY), 0);
  EXPECT_EQ(opened({false, true}, "/usr/lib", O_RDONLY), EACCES) << "never wider";
  EXPECT_EQ(limited({false},
                    [] {
                      long error = 0;
                      std::thread([&] { error = open("/etc/passwd", O_RDONLY) < 0 ? errno : 0; }).join();
                      errno = static_cast<int>(error);
                      return -1L;
                    }),
            EACCES);
}

// As drivers make them: with every signal blocked, and asleep or at work.
TEST_F(ControlFiles, HoldsForThreadsThatWereThereBefore) {
  EXPECT_EQ(limited({},
                    [] {
                      std::atomic<int> ready = 0, step = 0, opened = 0;
                      std::vector<std::thread> threads;
                      threads.reserve(8);
                      for (int i = 0; i < 8; i++)
                        threads.emplace_back([&, i] {
                          sigset_t all;
                          sigfillset(&all);
                          pthread_sigmask(SIG_SETMASK, &all, nullptr);
                          ready++;
                          while (step == 0)
                            if (i % 2 == 0) usleep(100000);
                          if (open("/etc/passwd", O_RDONLY) >= 0) opened++;
                          if (open("/proc/self/stat", O_RDONLY) < 0) opened += 100;
                        });
                      while (ready < 8) usleep(1000);
                      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                      const auto limits = limit_files(false);
                      step = 1;
                      for (auto& thread : threads) thread.join();
                      // And what glibc does by the same signal still works.
                      std::thread([] { usleep(1000); }).join();
                      if (!limits || limits->threads_left_out != 0) opened = 99;
                      errno = opened;
                      return opened == 0 ? 0L : -1L;
                    }),
            0);
}

}  // namespace
}  // namespace xdpgpu::control
