// SPDX-License-Identifier: MIT
#include "bench/path/threads.hpp"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

namespace xdpgpu::bed {
namespace {

// What pthread_getcpuclockid gives, for a thread known by its number alone: bits 0-1: 2, the scheduler's
// clock; bit 2: of a thread (linux/posix-timers.h).
clockid_t clock_of(int thread) { return static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3 | 6u); }

}  // namespace

std::vector<int> threads_named(std::string_view prefix) {
  std::vector<int> threads;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name.starts_with(prefix))
      threads.push_back(std::stoi(task.path().filename().string()));
  }
  return threads;
}

u64 cpu_ns_of_threads(std::string_view prefix) {
  u64 sum = 0;
  for (const int thread : threads_named(prefix)) {
    timespec used{};
    if (clock_gettime(clock_of(thread), &used) != 0) continue;
    sum += static_cast<u64>(used.tv_sec) * 1'000'000'000 + static_cast<u64>(used.tv_nsec);
  }
  return sum;
}

}  // namespace xdpgpu::bed
