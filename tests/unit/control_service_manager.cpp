// SPDX-License-Identifier: MIT
//
// What a service manager gets to read, and when.
#include "userspace/control/service_manager.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace xdpgpu::control {
namespace {

using namespace std::chrono_literals;

const auto kWell = [] { return true; };
const auto kNotWell = [] { return false; };

class ControlServiceManager : public testing::Test {
 protected:
  void listen(const std::string& name) {
    name_ = name;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (name[0] == '@') address.sun_path[0] = 0;
    const std::size_t size = offsetof(sockaddr_un, sun_path) + name.size() + (name[0] == '@' ? 0 : 1);
    socket_ = kernel::Fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size)),
              0)
        << std::strerror(errno);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  void SetUp() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
    listen(file());
  }
  void TearDown() override { unlink(file().c_str()); }
  static std::string file() { return fmt::format("/tmp/xdpgpu-notify-{}.sock", getpid()); }
  // The next datagram; empty: there is none.
  std::string next() const {
    std::string text(4096, 0);
    const ssize_t length = recv(socket_.get(), text.data(), text.size(), 0);
    text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    return text;
  }

  std::string name_;
  kernel::Fd socket_;
};

TEST_F(ControlServiceManager, IsToldOnceAndOfWhatIsNew) {
  auto manager = ServiceManager::from_environment();
  manager.tell("handles eth0", kWell);
  EXPECT_EQ(next(), "READY=1\nSTATUS=handles eth0\n");
  manager.tell("handles eth0", kWell);
  EXPECT_EQ(next(), "");
  // Of what is said nothing is a line of the protocol's.
  manager.tell("dead\nMAINPID=1", kWell);
  EXPECT_EQ(next(), "STATUS=dead MAINPID=1\n");
  manager.stopping();
  EXPECT_EQ(next(), "STOPPING=1\n");
  manager.tell("handles eth0", kWell);
  EXPECT_EQ(next(), "");
}

TEST_F(ControlServiceManager, MayHaveNoFile) {
  listen(fmt::format("@xdpgpu-notify-{}", getpid()));
  auto manager = ServiceManager::from_environment();
  manager.tell("well", kWell);
  EXPECT_EQ(next(), "READY=1\nSTATUS=well\n");
}

TEST_F(ControlServiceManager, NoChildSpeaksForIt) {
  setenv("WATCHDOG_USEC", "1000000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  const auto manager = ServiceManager::from_environment();
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
    EXPECT_EQ(std::getenv(name), nullptr) << name;
}

TEST_F(ControlServiceManager, ItsWatchdogHearsOfItWhileItIsWell) {
  setenv("WATCHDOG_USEC", "400000", 1);
  auto manager = ServiceManager::from_environment();
  manager.tell("well", kWell);
  EXPECT_EQ(next(), "READY=1\nSTATUS=well\nWATCHDOG=1\n");
  EXPECT_LE(manager.due_in(), 100ms);
  manager.tell("well", kWell);
  EXPECT_EQ(next(), "") << "at once again";
  std::this_thread::sleep_for(120ms);
  manager.tell("well", kNotWell);
  EXPECT_EQ(next(), "") << "what is not well says nothing";
  EXPECT_GT(manager.due_in(), 10ms) << "and is not looked at without a pause";
  std::this_thread::sleep_for(120ms);
  manager.tell("well", kWell);
  EXPECT_EQ(next(), "WATCHDOG=1\n");
}

TEST_F(ControlServiceManager, AnothersWatchdogIsNotItsOwn) {
  setenv("WATCHDOG_USEC", "1000", 1);
  setenv("WATCHDOG_PID", "1", 1);
  auto manager = ServiceManager::from_environment();
  manager.tell("well", kWell);
  EXPECT_EQ(next(), "READY=1\nSTATUS=well\n");
  EXPECT_GE(manager.due_in(), 1min);
}

TEST_F(ControlServiceManager, WhatIsNoNumberIsNoWatchdog) {
  for (const char* wrong : {"", "0", "-1", "1s", "99999999999999999999999", "99999999999999999"}) {
    setenv("NOTIFY_SOCKET", name_.c_str(), 1);
    setenv("WATCHDOG_USEC", wrong, 1);
    auto manager = ServiceManager::from_environment();
    manager.tell("well", kWell);
    EXPECT_EQ(next(), "READY=1\nSTATUS=well\n") << wrong;
    EXPECT_GE(manager.due_in(), 1min) << wrong;
  }
}

// It is told later, and nobody waits for it.
TEST_F(ControlServiceManager, MayBeBusy) {
  auto manager = ServiceManager::from_environment();
  const kernel::Fd other(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  int waiting = 0;
  while (sendto(other.get(), "x", 1, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) == 1)
    ++waiting;
  const auto begun = std::chrono::steady_clock::now();
  manager.tell("well", kWell);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 1s);
  for (int i = 0; i < waiting; i++) EXPECT_EQ(next(), "x");
  EXPECT_EQ(next(), "");
  manager.tell("well", kWell);
  EXPECT_EQ(next(), "READY=1\nSTATUS=well\n");
}

TEST_F(ControlServiceManager, MayNotBeThere) {
  for (const char* name : {"", "relative", "/", "@", "/nowhere/at/all", "/tmp"}) {
    setenv("NOTIFY_SOCKET", name, 1);
    auto manager = ServiceManager::from_environment();
    manager.tell("well", kWell);
    manager.stopping();
    EXPECT_EQ(next(), "") << name;
  }
  setenv("NOTIFY_SOCKET", std::string(500, '/').c_str(), 1);
  auto manager = ServiceManager::from_environment();
  manager.tell("well", kWell);
}

}  // namespace
}  // namespace xdpgpu::control
