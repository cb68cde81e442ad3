// SPDX-License-Identifier: MIT
//
// userspace/report/top_views.hpp: what `xdpgpu top` shows: what `status` told twice, as rates.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/report/attaches.hpp"
#include "userspace/report/top_flows.hpp"
#include "userspace/report/top_table.hpp"

namespace xdpgpu::report {

enum class View : unsigned char { verdicts, rules, flows, sources, queues, device };
inline constexpr std::array<std::string_view, 6> kViews{"verdicts", "rules",  "flows",
                                                        "sources",  "queues", "device"};

// What a view needs beside every process's status.
enum class More : unsigned char { nothing, flows, file_rules };
constexpr More more_of(View view) {
  if (view == View::flows || view == View::sources) return More::flows;
  return view == View::rules ? More::file_rules : More::nothing;
}

// All that was told at one time.
struct Look {
  Answers answers;
  More more = More::nothing;  // that was asked for, too
  std::optional<FlowsSeen> flows{};
  // Of the rules in the policies' rule files those that held most often, by network namespace and attach.
  std::map<std::pair<std::string, std::string>, control::FileRulesReport> file_rules{};
};

// Of all attaches together, a second. None: it takes two looks.
struct Rates {
  std::optional<double> seconds{};  // between the looks; of several attaches the longest
  std::optional<double> in{}, pass{}, drop{}, tx{}, redirect{}, error{}, program{}, inspected{};
  static void fields(auto& self, auto& field) {
    field("seconds", self.seconds);
    field("in", self.in);
    field("pass", self.pass);
    field("drop", self.drop);
    field("tx", self.tx);
    field("redirect", self.redirect);
    field("error", self.error);
    field("program", self.program);
    field("inspected", self.inspected);
  }
};
Rates rates_of(const Look* before, const Look& now);

// What should not be so, a few words each: "eth0: BYPASS, everything passes".
std::vector<std::string> warnings_of(const Look& now);

// before: the look before, or nullptr: then nothing has a rate. A process that was started meanwhile has none
// either; of a counter that is smaller than before, what it has counted since it began anew.
Table table_of(View view, const Look* before, const Look& now);

}  // namespace xdpgpu::report
