// SPDX-License-Identifier: MIT
//
// userspace/report/top_views.hpp: what `xdpgpu top` shows: what `status` told twice, as rates.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/report/attaches.hpp"
#include "userspace/report/top_flows.hpp"
#include "userspace/report/top_table.hpp"

namespace xdpgpu::report {

enum class View : unsigned char { verdicts, rules, flows, sources, queues, device };
inline constexpr std::array<std::string_view, 6> kViews{"verdicts", "rules",  "flows",
                                                        "sources",  "queues", "device"};

// All that was told at one time. Flows are there where they were asked for.
struct Look {
  Answers answers;
  std::optional<FlowsSeen> flows{};
};

// Of all attaches together, a second. None: it takes two looks.
struct Rates {
  std::optional<double> seconds{};  // between the looks; of several attaches the longest
  std::optional<double> in{}, pass{}, drop{}, tx{}, redirect{}, error{}, program{}, inspected{};
};
Rates rates_of(const Look* before, const Look& now);

// What should not be so, a few words each: "eth0: BYPASS, everything passes".
std::vector<std::string> warnings_of(const Look& now);

// before: the look before, or nullptr: then nothing has a rate. A process that was started meanwhile has none
// either; of a counter that is smaller than before, what it has counted since it began anew.
Table table_of(View view, const Look* before, const Look& now);

}  // namespace xdpgpu::report
