// SPDX-License-Identifier: MIT
//
// bench/rows.hpp: the rows of a bench whose figures are rates: each measured several times, some held
// against another row of the same run. A figure counts only as its verdicts were checked.
//
//   Rows rows("verdicts");
//   Row& batch = rows.add({.name = "hash, update_batch", .unit = "M/s", .scale = 1e-6});
//   Row& cpu = rows.add({.name = "flow verdicts", .device = "cpu", .unit = "M/s", .scale = 1e-6,
//                        .against = "hash, update_batch", .bar = 50});
//   cpu.runs.push_back(rate);
//   return rows.report(json_file) ? 0 : 1;
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace xdpgpu::bench {

double median(std::vector<double> values);  // 0 of none

struct Row {
  std::string name, device{};
  std::string unit{};
  double scale = 1;         // a run's figure times this is in `unit`
  std::string against{};    // the name of a row: of the same device, else of any
  double against_part = 1;  // the ratio is to this part of it
  double bar = 0;           // that the ratio should reach; 0: none
  double aim = 0;           // that it should reach later; 0: none
  std::string note{};       // printed behind the row
  std::string problem{};    // what the check of the run's verdicts found, if anything
  std::vector<double> runs{};
  std::vector<double> cpu_ns{};  // CPU time a packet, of each run; printed where a row has it

  double median() const { return bench::median(runs); }
};

class Rows {
 public:
  explicit Rows(std::string bench) : json_{{"bench", std::move(bench)}} {}

  // The row stays where it is.
  Row& add(Row row) { return rows_.emplace_back(std::move(row)); }
  // nullptr where there is none.
  const Row* find(const std::string& name, const std::string& device) const;
  // A row that was left out, and why; printed below the table.
  void leave_out(std::string sentence);
  // A setting or figure of the whole run, for the JSON.
  nlohmann::json& operator[](const std::string& key) { return json_[key]; }

  // Prints the table, and writes everything and the circumstances to `json_file`, unless that is empty.
  // True if all verdicts were right; a missed bar is printed as missed, and no error.
  bool report(const std::string& json_file);

 private:
  double ratio(const Row& row) const;

  std::deque<Row> rows_;
  std::vector<std::string> left_out_;
  nlohmann::json json_;
};

}  // namespace xdpgpu::bench
