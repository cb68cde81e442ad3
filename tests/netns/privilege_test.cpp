// SPDX-License-Identifier: MIT
//
// tests/netns/privilege_test.cpp: how little the process that sees the packets may do.
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/netns/on_the_wire.hpp"
#include "tests/netns/process_status.hpp"

namespace xdpgpu::lab {
namespace {

class Privilege : public OnOneWire {
 protected:
  Privilege() { config_ = {.queues = 2, .mode = "split"}; }
};

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";

// XDPGPU_SECCOMP for the programs that are started while it lives.
class Seccomp {
 public:
  explicit Seccomp(const char* mode) { setenv("XDPGPU_SECCOMP", mode, 1); }
  ~Seccomp() { unsetenv("XDPGPU_SECCOMP"); }
  Seccomp(const Seccomp&) = delete;
  Seccomp& operator=(const Seccomp&) = delete;
};

// /proc/.../status, by name.
TEST_F(Privilege, NoThreadOfTheDataPlaneHoldsAny) {
  attach(inspect_all(kPass));
  // A device may compile for its first batch.
  EXPECT_TRUE(eventually([&] { return ping(*left_, "10.9.0.1", {.count = 1}).received == 1; }, 10s));
  std::size_t threads = 0;
  std::set<std::string> names;
  const auto tasks = fmt::format("/proc/{}/task", attached_->data_plane());
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    SCOPED_TRACE(task.path());
    const auto status = status_of(task.path());
    expect_no_privileges(status);
    names.insert(status.at("Name"));
    threads++;
  }
  EXPECT_TRUE(names.contains("xdpgpu-0")) << "threads have names";
  EXPECT_GT(threads, 4U) << "two workers' two threads, and the first";
}

TEST_F(Privilege, WhatTheFilterKillsIsToldApart) {
  attach(inspect_all(kPass));
  kill(attached_->data_plane(), SIGSYS);  // as the kernel does
  const auto said = [&] { return attached_->process().err(); };
  EXPECT_TRUE(eventually([&] { return said().find("system-call filter") != std::string::npos; }, 10s))
      << said();
  EXPECT_TRUE(eventually([&] { return said().find("is back") != std::string::npos; }, 20s)) << said();
  EXPECT_TRUE(eventually(
      [&] { return ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received == 1; }, 10s));
}

TEST_F(Privilege, AWrongWordForTheFilterIsRefused) {
  const Seccomp seccomp("on");
  const Outcome outcome = product(*host_, {"attach", host_port().ifname(), "--pass-all"});
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_NE(outcome.err.find("XDPGPU_SECCOMP is \"on\""), std::string::npos) << outcome.err;
}

// ---- the broker ------------------------------------------------------------------------------------

// A copy of the descriptor by which the data plane speaks to its broker.
Fd channel_of(pid_t data_plane) {
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, data_plane, 0)));
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", data_plane))) {
    Fd fd(static_cast<int>(
        syscall(SYS_pidfd_getfd, process.get(), std::stoi(entry.path().filename().string()), 0)));
    int type = 0;
    socklen_t length = sizeof(type);
    sockaddr_storage peer{};
    socklen_t peer_length = sizeof(peer);
    // The CUDA driver listens at a socket of this type, too.
    if (getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_SEQPACKET &&
        getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0)
      return fd;
  }
  return Fd();
}

TEST_F(Privilege, ADataPlaneThatAsksForWhatItMayNotIsEnded) {
  struct Message {
    std::uint32_t magic, type, a, b;
    char text[496] = {};
  };
  constexpr std::uint32_t kMagic = 0x78677067;
  for (const auto& message : {Message{kMagic, 2, 0, 0},         // maps installed that were not made
                              Message{kMagic, 1, 1u << 31, 1},  // maps beyond all bounds
                              Message{kMagic, 3, 0, 0},         // ready, once more
                              Message{kMagic + 1, 5, 1, 0}}) {  // anything
    SCOPED_TRACE(message.type);
    attach(inspect_all(kPass));
    const pid_t before = attached_->data_plane();
    const Fd channel = channel_of(before);
    ASSERT_TRUE(channel) << "no channel found";
    ASSERT_EQ(send(channel.get(), &message, sizeof(message), MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof(message)));
    const auto said = [&] { return attached_->process().err(); };
    EXPECT_TRUE(eventually([&] { return said().find("what it never does") != std::string::npos; }, 10s))
        << said();
    EXPECT_TRUE(eventually([&] { return said().find("is back") != std::string::npos; }, 20s)) << said();
    EXPECT_NE(kill(before, 0), 0) << "it lives on";
    EXPECT_NE(xdp_link_id(host_port()), 0U) << "nothing opens";
    attached_.reset();
  }
}

// ---- the control socket ----------------------------------------------------------------------------

std::string control_socket(const std::string& ifname) { return run_file(ifname, "sock"); }

Fd connect_to(const std::string& path) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

TEST_F(Privilege, BadClientsHurtNeitherPacketsNorOthers) {
  attach(inspect_udp(7000, R"({"stage": "l2fwd"})"));
  const std::string path = control_socket(host_port().ifname());
  Sniffer left(left_port());
  std::atomic<bool> stop{false};
  std::uint64_t sent = 0;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    Sender sender(left_port());
    const auto frames = many_flows(7000, 50, 1);
    while (!stop) {
      sender.send_paced(frames, 2000);
      sent += frames.size();
    }
  });
  // Silent ones, more than there are places for.
  std::vector<Fd> silent;
  for (int i = 0; i < 40; ++i) {
    silent.push_back(connect_to(path));
    EXPECT_GT(send(silent.back().get(), "{\"request\"", 10, MSG_NOSIGNAL), 0);
  }
  // One that sends a byte now and then, one without an end, and ones that send nonsense and go.
  threads.emplace_back([&] {
    const Fd slow = connect_to(path);
    while (!stop && send(slow.get(), "x", 1, MSG_NOSIGNAL) == 1) std::this_thread::sleep_for(10ms);
  });
  threads.emplace_back([&] {
    const std::string part(1 << 20, 'x');
    const Fd endless = connect_to(path);
    while (!stop && send(endless.get(), part.data(), part.size(), MSG_NOSIGNAL) > 0) continue;
  });
  threads.emplace_back([&] {
    while (!stop) {
      (void)send(connect_to(path).get(), "[[[[\n\xff\0{}", 10, MSG_NOSIGNAL);
      std::this_thread::sleep_for(5ms);
    }
  });
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = product(*host_, {"status", host_port().ifname()});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(attached_->apply(inspect_udp(7000, R"({"stage": "l2fwd"})")).status, 0);
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(left.take(sent, 5000ms, udp_to(7000)).size(), sent);
  EXPECT_EQ(attached_->detach().status, 0);
}

TEST_F(Privilege, TheNamedGroupMayAskAndOthersMayNot) {
  constexpr unsigned kDaemon = 1, kNobody = 65534;  // on each Debian and Ubuntu, with groups of that name
  attach(inspect_all(kPass), {"--control-group", "daemon"});
  const std::string name = host_port().ifname();
  struct stat info {};
  ASSERT_EQ(stat(control_socket(name).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0660U);
  EXPECT_EQ(info.st_gid, kDaemon);
  // Where who has no rights may read it, too.
  const TemporaryFile copy("");
  std::filesystem::copy_file(product_path(), copy.path(), std::filesystem::copy_options::overwrite_existing);
  chmod(copy.path().c_str(), 0755);
  const auto status_as = [&](unsigned uid) {
    return run_program(*host_, {copy.path(), "status", name}, 20s, {.uid = uid});
  };
  const Outcome member = status_as(kDaemon);
  EXPECT_EQ(member.status, 0) << member.err;
  const Outcome stranger = status_as(kNobody);
  EXPECT_EQ(stranger.status, 1) << stranger.out;
  EXPECT_NE(stranger.err.find("member of the group"), std::string::npos) << stranger.err;
  attached_.reset();
  const Outcome outcome = product(*host_, {"attach", name, "--pass-all", "--control-group", "no-such-group"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("groupadd --system no-such-group"), std::string::npos) << outcome.err;
}

// ---- pins --------------------------------------------------------------------------------------------

TEST_F(Privilege, PinsAreRootsAlone) {
  attach(inspect_all(kPass));
  const std::filesystem::path folder = Pins::directory(host_port().ifname());
  struct stat info {};
  for (const auto& path : {folder.parent_path(), folder}) {
    ASSERT_EQ(stat(path.c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_mode & 07777U, 0700U) << path;
  }
  for (const auto& pin : std::filesystem::directory_iterator(folder)) {
    ASSERT_EQ(stat(pin.path().c_str(), &info), 0) << pin;
    EXPECT_EQ(info.st_mode & 07077U, 0U) << pin;
    EXPECT_EQ(info.st_uid, 0U) << pin;
  }
}

// On a BPF filesystem of its own, where the root folder is there already.
TEST_F(Privilege, ARootFolderOfSomebodyElsesIsRefusedAndAnOpenOneClosed) {
  const auto attach_with_root = [&](const std::string& owner) {
    const std::string script = fmt::format(
        "mount -t bpf bpf /sys/fs/bpf && mkdir -m 0755 {0} {0}/kept && chown {1} {0} && {2} attach {3} "
        "--pass-all --device {4} "
        "--daemon && "
        "stat -c "
        "mode=%a {0} && {2} detach {3}",
        XG_PIN_ROOT, owner, product_path(), host_port().ifname(), device_under_test());
    return run_program(*host_, {"/usr/bin/unshare", "--mount", "/bin/sh", "-c", script});
  };
  const Outcome refused = attach_with_root("65534");
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_NE(refused.err.find("is not root's"), std::string::npos) << refused.err;
  const Outcome closed = attach_with_root("0");
  EXPECT_EQ(closed.status, 0) << closed.err;
  EXPECT_NE(closed.out.find("mode=700"), std::string::npos) << closed.out;
  const std::vector<std::string> links{host_port().ifname(), host_second().ifname()};
  EXPECT_TRUE(eventually([&] { return leftovers(*host_, links).empty(); }));
}

}  // namespace
}  // namespace xdpgpu::lab
