// SPDX-License-Identifier: MIT
//
// userspace/report/metrics.hpp: what `status` tells, as metrics for Prometheus. config/metrics.md lists them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "userspace/control/status_report.hpp"
#include "userspace/report/exposition.hpp"

namespace xdpgpu::report {

// A process that has attached interfaces; `name`: the first of them.
struct Attach {
  std::string name;
  std::string netns;                            // empty: the host's own
  std::optional<control::StatusReport> status;  // none: it does not answer
};

// What the attach is told by: `first`, and its network namespace if that is not the host's own.
inline Labels labels_of(const Attach& attach, Label first) {
  Labels labels{first};
  if (!attach.netns.empty()) labels.add({{"netns", attach.netns}});
  return labels;
}

// Of rules, lists, targets and the like there may be thousands. The first ones, by how much they count, have
// series of their own; the others are one, "(others)", and xdpgpu_series_left_out says how many they are.
struct Limits {
  std::size_t series = 200;  // of a family that is about the policy's names
};

// All of them. Takes values, asks nobody.
std::string metrics_text(std::span<const Attach> attaches, Syntax syntax, const Limits& limits = {});

// Upper bounds of the classic histograms: seconds, packets. At most 24 buckets each, +Inf included.
std::span<const double> time_bounds();
std::span<const double> batch_bounds();

}  // namespace xdpgpu::report
