// SPDX-License-Identifier: MIT
#include "bench/rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/machine.hpp"

namespace xdpgpu::bench {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

const Row* Rows::find(const std::string& name, const std::string& device) const {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const Row& row) { return row.name == name && row.device == device; });
  return found == rows_.end() ? nullptr : &*found;
}

void Rows::leave_out(std::string sentence) {
  if (std::find(left_out_.begin(), left_out_.end(), sentence) == left_out_.end())
    left_out_.push_back(std::move(sentence));
}

double Rows::ratio(const Row& row) const {
  const Row* other = nullptr;
  for (const Row& one : rows_)
    if (one.name == row.against && (other == nullptr || one.device == row.device)) other = &one;
  const double base = other == nullptr ? 0 : other->median() * row.against_part;
  return base > 0 ? row.median() / base : 0;
}

bool Rows::report(const std::string& json_file) {
  bool good = true;
  std::size_t wide = 24;
  for (const Row& row : rows_) wide = std::max(wide, row.name.size() + 2);
  const bool timed =
      std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return !row.cpu_ns.empty(); });
  const int cpu_wide = timed ? 12 : 0;
  fmt::print("{:<{}}{:<17}{:>18}{:>{}}{:>9}{:>8}  {}\n", "row", wide, "device", "median",
             timed ? "ns/packet" : "", cpu_wide, "ratio", "bar", "verdicts");
  for (const Row& row : rows_) {
    const double held = row.against.empty() ? 0 : ratio(row);
    const bool met = held >= row.bar;
    good &= row.problem.empty();
    std::string verdicts = !row.problem.empty()            ? "WRONG: " + row.problem
                           : row.bar > 0 && !met           ? "right, bar MISSED"
                           : row.aim > 0 && held < row.aim ? fmt::format("right, aim {:.2f} missed", row.aim)
                                                           : "right";
    if (!row.note.empty()) verdicts += "; " + row.note;
    fmt::print("{:<{}}{:<17}{:>18}{:>{}}{:>9}{:>8}  {}\n", row.name, wide, row.device,
               fmt::format("{:.3f} {}", row.median() * row.scale, row.unit),
               row.cpu_ns.empty() ? "" : fmt::format("{:.0f}", bench::median(row.cpu_ns)), cpu_wide,
               row.against.empty() ? "" : fmt::format("{:.2f}", held),
               row.bar > 0 ? fmt::format("{:.2f}", row.bar) : "", verdicts);
    nlohmann::json entry{{"row", row.name},       {"device", row.device},   {"unit", row.unit},
                         {"scale", row.scale},    {"median", row.median()}, {"runs", row.runs},
                         {"problem", row.problem}};
    if (!row.cpu_ns.empty()) entry["cpu_ns_a_packet"] = bench::median(row.cpu_ns);
    if (!row.note.empty()) entry["note"] = row.note;
    if (!row.against.empty()) entry.update({{"against", row.against}, {"ratio", held}});
    if (row.bar > 0) entry.update({{"bar", row.bar}, {"met", met}});
    if (row.aim > 0) entry.update({{"aim", row.aim}, {"aim_met", held >= row.aim}});
    json_["rows"].push_back(entry);
  }
  if (!left_out_.empty()) fmt::print("\n");
  for (const std::string& sentence : left_out_) fmt::print("left out: {}\n", sentence);
  if (!left_out_.empty()) json_["left_out"] = left_out_;
  return write_json(json_file, json_) && good;
}

}  // namespace xdpgpu::bench
