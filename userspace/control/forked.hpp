// SPDX-License-Identifier: MIT
//
// userspace/control/forked.hpp: what a process does first that was forked to be less than its parent.
#pragma once

#include <vector>

namespace xdpgpu::control {

// Closes every descriptor but standard ones and `keep`.
void close_others(std::vector<int> keep) noexcept;
// Has the kernel take it before others where memory is short, by so much (proc(5), oom_score_adj).
void prefer_for_the_oom_killer(int worse);

}  // namespace xdpgpu::control
