// SPDX-License-Identifier: MIT
#include "userspace/control/forked.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace xdpgpu::control {

void close_others(std::vector<int> keep) noexcept {
  std::sort(keep.begin(), keep.end());
  unsigned first = 3;
  for (const int fd : keep) {
    const auto number = static_cast<unsigned>(fd);
    if (number < first) continue;
    if (number > first) syscall(SYS_close_range, first, number - 1, 0);
    first = number + 1;
  }
  syscall(SYS_close_range, first, ~0u, 0);
}

void prefer_for_the_oom_killer(int worse) {
  constexpr const char* kFile = "/proc/self/oom_score_adj";
  constexpr int kMost = 1000;
  int score = 0;
  std::ifstream(kFile) >> score;
  std::ofstream(kFile) << std::min(score + worse, kMost);
}

}  // namespace xdpgpu::control
