// SPDX-License-Identifier: MIT
//
// bench/worker/rates.hpp: packets a second from rings to rings: of one worker and of several, and with the
// few packets a step that NVIDIA's l2fwd-nv takes, by each way in which the device can be driven; and a plain
// kernel that reads the same lines and writes as many results.
#pragma once

#include <string>
#include <vector>

#include "bench/rows.hpp"

namespace xdpgpu::bench {

struct RateSettings {
  std::vector<std::string> devices;  // as WorkersOptions has them
  std::vector<unsigned> workers{1};
  std::vector<int> cores;  // that there are for workers
  int runs = 5;
  double seconds = 0.2;
  bool huge = false;
  std::string only;
};

// What cannot be measured here is left out.
void measure_rates(const RateSettings& settings, Rows& rows);
// After that: the bars for GPUs, as sentences on the standard output and in the JSON.
void judge_rates(const RateSettings& settings, Rows& rows);

}  // namespace xdpgpu::bench
