// SPDX-License-Identifier: MIT
//
// tests/netns/lab/process.hpp: programs run inside a namespace, watched, and ended whatever happens.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/netns/lab/namespace.hpp"

namespace xdpgpu::lab {

// A child in its own process group. Only its network namespace changes, so bpffs, /run and the file
// system are the test's.
class Process {
 public:
  struct Options {
    std::map<std::string, std::string> environment{};  // added to the test's own
    int nice = 0;                                      // added to the test's own; the child alone
    unsigned uid = 0;                                  // and group; 0: the test's own
  };
  // argv[0] is a path. Throws Error.
  Process(const Namespace& ns, std::vector<std::string> argv, const Options& options);
  Process(const Namespace& ns, std::vector<std::string> argv) : Process(ns, std::move(argv), Options{}) {}
  // SIGTERM to the group, SIGKILL after three seconds, reaped.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const noexcept { return pid_; }
  bool alive();
  void signal(int number) const;  // to the process alone
  // Exit status as a shell shows it (128 + signal), or -1 if it still runs after `timeout`.
  int wait(std::chrono::milliseconds timeout);
  // Waits until nobody can write to its outputs any more (a background process may keep them open);
  // false after `timeout`.
  bool wait_for_end_of_output(std::chrono::milliseconds timeout);
  // What it wrote so far.
  std::string out() const;
  std::string err() const;
  // Waits until `ready(stdout)`; false if it ended before or `timeout` passed.
  bool wait_for(const std::function<bool(const std::string&)>& ready, std::chrono::milliseconds timeout);

 private:
  void read_all();
  pid_t pid_ = -1;
  Fd out_pipe_, err_pipe_;
  bool reaped_ = false;
  int status_ = 0;
  mutable std::mutex mutex_;
  std::string out_, err_;
  std::atomic<bool> output_ended_{false};
  std::thread reader_;
};

struct Outcome {
  int status = -1;  // as a shell shows it; -1: killed after `timeout`
  std::string out, err;
};
// Runs to the end.
Outcome run_program(const Namespace& ns, std::vector<std::string> argv,
                    std::chrono::milliseconds timeout = std::chrono::seconds(20),
                    const Process::Options& options = {});

// Processes whose network namespace is `ns`, as "pid name".
std::vector<std::string> processes_in(const Namespace& ns);
// The ids of the direct and indirect children of `pid`.
std::vector<pid_t> descendants(pid_t pid);
std::string process_name(pid_t pid);

}  // namespace xdpgpu::lab
