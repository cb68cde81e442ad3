// SPDX-License-Identifier: MIT
//
// stage-tables FOLDER: writes what FOLDER (config) says of the stages anew: their part of policy.schema.json,
// and stages.md.
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "userspace/policy/stage_schema.hpp"

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: stage-tables FOLDER\n");
    return 2;
  }
  const std::string folder = arguments[1], schema = folder + "/policy.schema.json";
  std::ifstream in(schema);
  const std::string before{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto after = xdpgpu::policy::with_stages(before);
  if (!in || !after) {
    fmt::print(stderr, "stage-tables: cannot read {}: {}\n", schema,
               in ? after.error() : "name the folder with policy.schema.json");
    return 1;
  }
  std::ofstream out(schema), page(folder + "/stages.md");
  out << *after;
  page << xdpgpu::policy::stages_page();
  out.close();
  page.close();
  if (out && page) return 0;
  fmt::print(stderr, "stage-tables: cannot write to {}: see to it that there is room and that you may\n",
             folder);
  return 1;
}
