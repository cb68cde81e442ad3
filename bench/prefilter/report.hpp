// SPDX-License-Identifier: MIT
//
// bench/prefilter/report.hpp: the figures of a run: rows, and bars they are held against.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace xdpgpu::bench {

// Prints as it goes, and keeps all for the JSON file.
class Report {
 public:
  void section(const std::string& title) { fmt::print("\n{}\n", title); }
  // ns: a packet's time. note: what was checked, or what it is next to.
  void row(const std::string& name, double ns, const std::string& note) {
    fmt::print("  {:<58} {:>9.1f} ns  {}\n", name, ns, note);
    json_["rows"].push_back({{"name", name}, {"ns", ns}, {"note", note}});
  }
  // at_least: the ratio must not be below the bar; else not above.
  void bar(const std::string& name, double ratio, double bar, bool at_least) {
    const bool met = at_least ? ratio >= bar : ratio <= bar;
    fmt::print("  {:<58} {:>8.2f} x  bar {} {:.1f} x: {}\n", name, ratio, at_least ? ">=" : "<=", bar,
               met ? "met" : "MISSED");
    json_["bars"].push_back(
        {{"name", name}, {"ratio", ratio}, {"bar", bar}, {"at_least", at_least}, {"met", met}});
  }
  void wrong(const std::string& what) {
    fmt::print("  WRONG: {}\n", what);
    json_["wrong"].push_back(what);
  }
  bool right() const { return !json_.contains("wrong"); }
  const nlohmann::json& json() const { return json_; }

 private:
  nlohmann::json json_{{"bench", "prefilter"}};
};

}  // namespace xdpgpu::bench
