// SPDX-License-Identifier: MIT
//
// userspace/report/top_looker.hpp: what `xdpgpu top` asks the attached processes for.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "userspace/report/top_flows.hpp"
#include "userspace/report/top_views.hpp"

namespace xdpgpu::report {

// One thread at a time. Each look takes of a process its status and, where flows are wanted, the counts of
// one part of one port's table (FlowWatch) and some 200 flows, or 200 of the rules in rule files: no more,
// however much traffic there is.
class Looker {
 public:
  // ifname: of the process that attached it, in the caller's network namespace. Empty: of every one;
  // only_here: of those in the caller's network namespace alone.
  Looker(std::string ifname, bool only_here) : ifname_(std::move(ifname)), only_here_(only_here) {}

  // Waits for a process that does not answer as long as control::ask() does.
  Look look(More more);

 private:
  void look_at_flows(const Answers& answers);
  static void look_at_file_rules(Look& look);
  double now_s() const;

  std::string ifname_;
  bool only_here_;
  FlowWatch watch_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace xdpgpu::report
