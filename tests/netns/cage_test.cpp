// SPDX-License-Identifier: MIT
//
// tests/netns/cage_test.cpp: what the data plane reaches of its host when somebody else's code runs in it.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kBounce = R"({"stage": "l2fwd", "cache": true})";

// A variable of the programs that are started while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// The rest of the line behind `beginning`.
std::string line_after(const std::string& said, const std::string& beginning) {
  const auto at = said.find(beginning);
  if (at == std::string::npos) return "(nothing)";
  return said.substr(at + beginning.size(), said.find('\n', at) - at - beginning.size());
}

class Cage : public OnTheWire {
 protected:
  // What it said of its system calls, printed for who looks for what drivers ask for.
  void expect_nothing_beyond_the_filter() {
    EXPECT_EQ(attached_->detach().status, 0);
    const std::string said = attached_->process().err();
    const std::string device = device_under_test();
    const std::string used = line_after(said, "used of what the filter lets through by request or path: ");
    const std::string asked = line_after(said, "asked for beyond the filter: ");
    fmt::print("{}, {}: lets through by request or path: {}\n", device, config_.mode, used);
    fmt::print("{}, {}: asked for beyond the filter: {}\n", device, config_.mode, asked);
    EXPECT_EQ(asked, "none") << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, Cage,
                         testing::Values(Config{false, 2, "inline"}, Config{false, 2, "split"},
                                         Config{false, 1, "persistent"}, Config{false, 2, "graph"}),
                         config_name);

// A run of everything, in which nothing is refused, so that all that would have been is told.
TEST_P(Cage, TheFilterLacksNothing) {
  const Variable record("XDPGPU_SECCOMP", "record");
  attach(inspect_udp(7000, kBounce));
  Sniffer left(left_port());
  const auto frames = many_flows(7000, 200, 2);
  Sender(left_port()).send_paced(frames, 5000);
  EXPECT_EQ(left.take(frames.size(), 5000ms, udp_to(7000)).size(), frames.size());
  EXPECT_EQ(attached_->apply(inspect_all(kPass)).status, 0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U);
  EXPECT_FALSE(attached_->status().empty());
  const std::string& name = host_port().ifname();
  EXPECT_EQ(product(*host_, {"flows", "list", name}).status, 0);
  EXPECT_EQ(product(*host_, {"flows", "flush", name}).status, 0);
  EXPECT_EQ(product(*host_, {"bypass", "on", name}).status, 0);
  std::this_thread::sleep_for(1200ms);  // the interface and its MTU are looked at
  expect_nothing_beyond_the_filter();
}

// The driver opens its device again, within the filter.
TEST_P(Cage, TheFilterLacksNothingForADeviceThatComesBack) {
  if (config_.mode != "split") GTEST_SKIP() << "once is enough";
  const Variable record("XDPGPU_SECCOMP", "record"), fault("XDPGPU_FAULT", "fail:5");
  attach(inspect_udp(7000, kBounce, R"("compute": {"retry": "100ms"})"));
  Sniffer left(left_port());
  const auto frames = many_flows(7000, 200, 2);
  Sender(left_port()).send_paced(frames, 1000);  // in five batches at least, however slow the worker
  EXPECT_TRUE(eventually(
      [&] { return attached_->process().err().find("decides again, after ") != std::string::npos; }, 30s));
  Sender(left_port()).send_paced(frames, 5000);
  // What a device that broke had in hand is decided again; one of software compiles anew first.
  EXPECT_EQ(left.take(2 * frames.size(), 20s, udp_to(7000)).size(), 2 * frames.size());
  expect_nothing_beyond_the_filter();
}

// ---- the terminal ----------------------------------------------------------------------------------

// `xdpgpu attach` in the foreground of a terminal of its own, as somebody who typed it has it.
class AtTerminal {
 public:
  AtTerminal(const Namespace& ns, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {product_path(), "attach"});
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int master = -1;
    pid_ = forkpty(&master, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      if (setns(ns.fd(), CLONE_NEWNET) == 0) execv(argv[0], argv.data());
      _exit(127);
    }
    master_ = Fd(master);
  }
  ~AtTerminal() {
    if (wait(0ms) >= 0) return;
    kill(pid_, SIGTERM);
    type('\x11');
    if (wait(10s) >= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;

  pid_t pid() const { return pid_; }
  std::string name() const { return ptsname(master_.get()); }
  pid_t data_plane() const {
    const auto children = but_for_the_compiler(pid_);
    return children.size() == 1 ? children.front() : -1;
  }
  void type(char key) const { EXPECT_EQ(write(master_.get(), &key, 1), 1); }
  // All that the terminal was told until now.
  const std::string& shown() {
    for (pollfd news{master_.get(), POLLIN, 0}; poll(&news, 1, 0) > 0;) {
      char buffer[4096];
      const ssize_t length = read(master_.get(), buffer, sizeof(buffer));
      if (length <= 0) break;
      shown_.append(buffer, static_cast<std::size_t>(length));
    }
    return shown_;
  }
  bool shows(const std::string& text, std::chrono::milliseconds within) {
    return eventually([&] { return shown().find(text) != std::string::npos; }, within);
  }
  // As a shell shows it, or -1.
  int wait(std::chrono::milliseconds within) {
    if (!ended_)
      eventually(
          [&] {
            int status = 0;
            shown();
            if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
            ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            return true;
          },
          within);
    shown();
    return ended_.value_or(-1);
  }

 private:
  pid_t pid_ = -1;
  Fd master_;
  std::string shown_;
  std::optional<int> ended_;
};

class Terminal : public OnOneWire {
 protected:
  void start(const std::string& policy) {
    policy_ = std::make_unique<TemporaryFile>(policy);
    attach_ = std::make_unique<AtTerminal>(
        *host_, std::vector<std::string>{host_port().ifname(), "--policy", policy_->path(), "--mode", "copy",
                                         "--device", device_under_test()});
    ASSERT_TRUE(eventually([&] { return status() == 0; }, 30s)) << attach_->shown();
    ASSERT_GT(attach_->data_plane(), 0);
  }
  void TearDown() override {
    attach_.reset();
    OnOneWire::TearDown();
  }
  int status() const { return product(*host_, {"status", host_port().ifname()}).status; }
  // Of /proc/PID/stat, counted from 1 as in proc(5); from 4 on.
  static long stat_field(pid_t pid, int number) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::istringstream rest(text.substr(text.rfind(')') + 4));
    long value = -1;
    for (int i = 4; i <= number; ++i) rest >> value;
    return value;
  }

  std::unique_ptr<TemporaryFile> policy_;
  std::unique_ptr<AtTerminal> attach_;
};

TEST_F(Terminal, IsTheBrokersAlone) {
  start(inspect_all(kPass));
  const pid_t data_plane = attach_->data_plane();
  EXPECT_EQ(stat_field(data_plane, 6), data_plane) << "its session";
  EXPECT_EQ(stat_field(data_plane, 7), 0) << "its controlling terminal";
  EXPECT_NE(stat_field(attach_->pid(), 7), 0) << "the broker's";
  std::size_t terminals = 0;
  std::vector<unsigned> descriptors;
  for (const auto& fd : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", data_plane))) {
    const std::string number = fd.path().filename(), link = std::filesystem::read_symlink(fd.path());
    descriptors.push_back(static_cast<unsigned>(std::stoi(number)));
    const bool is_terminal = link.starts_with("/dev/pts/") || link.starts_with("/dev/tty");
    EXPECT_FALSE(is_terminal) << number << " is " << link;
    terminals += is_terminal ? 1 : 0;
  }
  EXPECT_EQ(terminals, 0U);
  EXPECT_GT(descriptors.size(), 10U);
  {
    // What an intruder would type there.
    TakenOver intruder(data_plane);
    const auto key = intruder.place("x");
    for (const unsigned fd : descriptors)
      EXPECT_EQ(intruder.call(SYS_ioctl, {fd, TIOCSTI, key}), -EPERM) << fd;
    // Nor can it get one: not by asking for it, and not by opening it.
    for (const std::string& path : {std::string("/dev/tty"), attach_->name()})
      for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR}) {
        intruder.forget();
        EXPECT_LT(intruder.call(SYS_openat, {static_cast<std::uint64_t>(AT_FDCWD), intruder.place(path),
                                             static_cast<std::uint64_t>(flags)}),
                  0)
            << path << " " << flags;
      }
    EXPECT_LT(intruder.call(SYS_setsid, {}), 0);
  }
  EXPECT_EQ(status(), 0) << "it went on";
}

TEST_F(Terminal, SaysAllAndEndsInOrderOnControlC) {
  start(inspect_all(kPass));
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U);
  EXPECT_TRUE(attach_->shows("\r\033[K", 3s)) << "a summary that replaces the last one: " << attach_->shown();
  attach_->type('\x03');
  EXPECT_EQ(attach_->wait(15s), 0) << attach_->shown();
  EXPECT_NE(attach_->shown().find("2 packets in: 2 passed"), std::string::npos) << attach_->shown();
}

// Control-S, and nobody to release it: packets, questions and policies do not wait for it.
TEST_F(Terminal, HoldsNobodyUpWhenItIsStopped) {
  start(inspect_udp(7000, kBounce));
  attach_->type('\x13');
  std::this_thread::sleep_for(2500ms);  // two summaries
  const auto stopped_at = attach_->shown().size();
  Sniffer left(left_port());
  const auto frames = many_flows(7000, 50, 2);
  for (int i = 0; i < 3; ++i) {
    Sender(left_port()).send_paced(frames, 5000);
    EXPECT_EQ(left.take(frames.size(), 3000ms, udp_to(7000)).size(), frames.size());
    EXPECT_EQ(status(), 0);
    const TemporaryFile file(inspect_udp(7000, kBounce));
    EXPECT_EQ(product(*host_, {"policy", "apply", host_port().ifname(), file.path()}).status, 0);
  }
  EXPECT_LE(attach_->shown().size(), stopped_at + 1) << "the terminal was not stopped";
  attach_->type('\x11');
  EXPECT_TRUE(eventually([&] { return attach_->shown().size() > stopped_at + 1; }, 5s));
  attach_->type('\x13');
  EXPECT_EQ(product(*host_, {"detach", host_port().ifname()}).status, 0);
  EXPECT_EQ(attach_->wait(15s), 0) << "what nobody takes is left out";
}

// ---- files -----------------------------------------------------------------------------------------

class Files : public OnOneWire {
 protected:
  Files() { config_ = {.queues = 2, .mode = "split"}; }
  void SetUp() override {
    constexpr unsigned kAskForVersion = 1;
    if (syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskForVersion) < 1)
      GTEST_SKIP() << "no Landlock on this kernel";
    OnOneWire::SetUp();
  }
  // A thread that computes is taken when it waits again.
  static std::unique_ptr<TakenOver> take(pid_t thread) {
    for (int i = 0; i < 200; ++i) {
      try {
        return std::make_unique<TakenOver>(thread);
      } catch (const Error&) {
        std::this_thread::sleep_for(5ms);
      }
    }
    return nullptr;
  }
};

TEST_F(Files, AreOutOfReach) {
  attach(inspect_all(kPass));
  EXPECT_TRUE(eventually([&] { return ping(*left_, "10.9.0.1", {.count = 1}).received == 1; }, 10s));
  EXPECT_EQ(attached_->status().at("cage").at("files"), "limited");
  const pid_t data_plane = attached_->data_plane();
  const bool driver = !device_under_test().starts_with("cpu");
  uid_t user = 0;
  std::ifstream status(fmt::format("/proc/{}/status", data_plane));
  for (std::string word; status >> word;)
    if (word == "Uid:") status >> user;
  ASSERT_NE(user, 0U);

  const TemporaryFile readable("for all to read"), own("for its user alone");
  ASSERT_EQ(chown(own.path().c_str(), user, user), 0);
  ASSERT_EQ(chmod(own.path().c_str(), 0600), 0);
  std::string folder = "/tmp/xdpgpu-netns-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  const std::string made = folder + "/made";

  std::size_t threads = 0;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", data_plane))) {
    const auto intruder = take(std::stoi(task.path().filename()));
    if (!intruder) continue;  // it computes without a pause
    SCOPED_TRACE(task.path());
    threads++;
    const auto path_call = [&](long number, const std::string& path, std::uint64_t a = 0,
                               std::uint64_t b = 0) {
      intruder->forget();
      return intruder->call(number, {static_cast<std::uint64_t>(AT_FDCWD), intruder->place(path), a, b});
    };
    for (const std::string& path :
         {own.path(), readable.path(), folder, std::string("/tmp"), std::string("/"),
          std::string("/etc/passwd"), std::string("/proc/self/root/etc/passwd"),
          std::string("/proc/1/status"), std::string("/var/log"), std::string("/dev/ptmx"),
          std::string("/sys/fs/bpf"), std::string("/sys/kernel/debug"), product_path()})
      EXPECT_EQ(path_call(SYS_openat, path, O_RDONLY), -EACCES) << path;
    for (const std::string& path : {own.path(), made, std::string("/dev/ptmx"), std::string("/proc/self/mem"),
                                    std::string("/dev/shm/xdpgpu-no")})
      for (const std::uint64_t flags :
           {O_WRONLY, O_RDWR, O_WRONLY | O_CREAT, O_RDWR | O_CREAT | O_EXCL, O_WRONLY | O_TRUNC})
        EXPECT_LT(path_call(SYS_openat, path, flags, 0600), 0) << path << " " << flags;
    EXPECT_LT(path_call(SYS_openat, folder, O_TMPFILE | O_RDWR, 0600), 0);
    EXPECT_LT(path_call(SYS_mkdirat, made, 0700), 0);
    EXPECT_LT(path_call(SYS_mknodat, made, S_IFIFO | 0600), 0);
    EXPECT_LT(path_call(SYS_unlinkat, own.path()), 0);
    intruder->forget();
    EXPECT_LT(intruder->call(SYS_symlinkat, {intruder->place("/etc/shadow"),
                                             static_cast<std::uint64_t>(AT_FDCWD), intruder->place(made)}),
              0);
    intruder->forget();
    EXPECT_LT(intruder->call(SYS_renameat, {static_cast<std::uint64_t>(AT_FDCWD), intruder->place(own.path()),
                                            static_cast<std::uint64_t>(AT_FDCWD), intruder->place(made)}),
              0);
    intruder->forget();
    EXPECT_LT(intruder->call(SYS_truncate, {intruder->place(own.path()), 0}), 0);
    if (!driver) {
      EXPECT_LT(path_call(SYS_openat, "/dev/null", O_RDWR), 0);
      EXPECT_EQ(path_call(SYS_openat, "/usr/bin", O_RDONLY), -EACCES);
    }
    for (const char* path : {"/proc/cpuinfo", "/proc/self/stat"}) {
      const long fd = path_call(SYS_openat, path, O_RDONLY);
      EXPECT_GE(fd, 0) << path;
      EXPECT_EQ(intruder->call(SYS_close, {static_cast<std::uint64_t>(fd)}), 0);
    }
  }
  EXPECT_GT(threads, 2U);
  EXPECT_FALSE(std::filesystem::exists(made));
  std::filesystem::remove_all(folder);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U) << "it went on";
  EXPECT_EQ(attached_->detach().status, 0);
}

}  // namespace
}  // namespace xdpgpu::lab
