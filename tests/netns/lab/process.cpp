// SPDX-License-Identifier: MIT
#include "tests/netns/lab/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

extern char** environ;

namespace xdpgpu::lab {
namespace {

using Clock = std::chrono::steady_clock;

int shell_status(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::pair<Fd, Fd> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) < 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  return {Fd(ends[0]), Fd(ends[1])};
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.push_back(std::stoi(name));
  }
  return pids;
}

// Field 4 of /proc/PID/stat; the name before it may contain anything, so it is looked for behind the
// last parenthesis.
pid_t parent_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');  // nothing, where it ends meanwhile
  const auto close = text.rfind(')');
  if (close == std::string::npos) return -1;
  std::istringstream rest(text.substr(close + 1));
  char state = 0;
  pid_t parent = -1;
  rest >> state >> parent;
  return state == 'Z' ? -1 : parent;
}

}  // namespace

Process::Process(const Namespace& ns, std::vector<std::string> argv, const Options& options) {
  auto [out_read, out_write] = make_pipe();
  auto [err_read, err_write] = make_pipe();

  // Everything that allocates happens before the fork: other threads may hold the allocator's lock.
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (auto& argument : argv) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** v = environ; *v != nullptr; ++v) {
    const std::string variable(*v);
    if (!options.environment.contains(variable.substr(0, variable.find('=')))) variables.push_back(variable);
  }
  for (const auto& [name, value] : options.environment)
    variables.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (auto& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);

  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw Error(fmt::format("cannot start {}: {}", argv[0], std::strerror(errno)));
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(out_write.get(), STDOUT_FILENO);
    dup2(err_write.get(), STDERR_FILENO);
    if (setns(ns.fd(), CLONE_NEWNET) < 0) _exit(126);
    if (options.nice != 0) setpriority(PRIO_PROCESS, 0, options.nice);
    if (options.uid != 0 && (setgroups(0, nullptr) < 0 || setgid(options.uid) < 0 || setuid(options.uid) < 0))
      _exit(126);
    execve(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  setpgid(pid_, pid_);
  out_pipe_ = std::move(out_read);
  err_pipe_ = std::move(err_read);
  reader_ = std::thread([this] { read_all(); });
}

Process::~Process() {
  if (alive()) {
    kill(pid_, SIGTERM);
    wait(std::chrono::seconds(3));
  }
  kill(-pid_, SIGKILL);
  if (!reaped_) {
    waitpid(pid_, &status_, 0);
    reaped_ = true;
  }
  if (reader_.joinable()) reader_.join();
}

void Process::read_all() {
  std::array<pollfd, 2> pipes{pollfd{out_pipe_.get(), POLLIN, 0}, pollfd{err_pipe_.get(), POLLIN, 0}};
  std::array<std::string*, 2> sinks{&out_, &err_};
  std::array<char, 4096> buffer{};
  while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
    if (poll(pipes.data(), pipes.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (pipes[i].fd < 0 || pipes[i].revents == 0) continue;
      const ssize_t length = read(pipes[i].fd, buffer.data(), buffer.size());
      if (length <= 0) {
        pipes[i].fd = -1;
        continue;
      }
      const std::lock_guard lock(mutex_);
      sinks[i]->append(buffer.data(), static_cast<std::size_t>(length));
    }
  }
  output_ended_ = true;
}

bool Process::wait_for_end_of_output(std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  while (!output_ended_) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool Process::alive() {
  if (reaped_) return false;
  if (waitpid(pid_, &status_, WNOHANG) == pid_) reaped_ = true;
  return !reaped_;
}

void Process::signal(int number) const {
  if (!reaped_) kill(pid_, number);
}

int Process::wait(std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  while (alive()) {
    if (Clock::now() >= end) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return shell_status(status_);
}

std::string Process::out() const {
  const std::lock_guard lock(mutex_);
  return out_;
}
std::string Process::err() const {
  const std::lock_guard lock(mutex_);
  return err_;
}

bool Process::wait_for(const std::function<bool(const std::string&)>& ready,
                       std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  while (Clock::now() < end) {
    const bool was_alive = alive();
    if (ready(out())) return true;
    if (!was_alive) {
      wait_for_end_of_output(std::chrono::seconds(2));
      return ready(out());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

Outcome run_program(const Namespace& ns, std::vector<std::string> argv, std::chrono::milliseconds timeout,
                    const Process::Options& options) {
  Outcome outcome;
  auto process = std::make_unique<Process>(ns, std::move(argv), options);
  outcome.status = process->wait(timeout);
  if (outcome.status == -1) process->signal(SIGKILL);
  // A daemon that it left in the background closes its own copies of the pipes.
  process->wait_for_end_of_output(std::chrono::seconds(2));
  outcome.out = process->out();
  outcome.err = process->err();
  return outcome;
}

std::string process_name(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

std::vector<std::string> processes_in(const Namespace& ns) {
  std::vector<std::string> result;
  for (const pid_t pid : all_processes()) {
    struct stat info {};
    if (stat(fmt::format("/proc/{}/ns/net", pid).c_str(), &info) == 0 && info.st_ino == ns.inode())
      result.push_back(fmt::format("{} {}", pid, process_name(pid)));
  }
  return result;
}

std::vector<pid_t> descendants(pid_t pid) {
  std::vector<pid_t> result{pid};
  const std::vector<pid_t> all = all_processes();
  for (std::size_t i = 0; i < result.size(); ++i)
    for (const pid_t candidate : all)
      if (parent_of(candidate) == result[i]) result.push_back(candidate);
  result.erase(result.begin());
  return result;
}

}  // namespace xdpgpu::lab
