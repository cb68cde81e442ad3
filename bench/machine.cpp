// SPDX-License-Identifier: MIT
#include "bench/machine.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bench/commit.h"

namespace xdpgpu::bench {
namespace {

// The rest of the first line of `file` that begins with `name`, without what separates them.
std::string field(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const auto start = line.find_first_not_of(" \t:=\"", name.size());
    const auto end = line.find_last_not_of(" \t\"");
    return start == std::string::npos ? "" : line.substr(start, end - start + 1);
  }
  return "";
}

nlohmann::json gpus() {
  nlohmann::json found = nlohmann::json::array();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error))
    found.push_back(field(entry.path() / "information", "Model"));
  return found;
}

}  // namespace

nlohmann::json circumstances() {
  utsname host{};
  uname(&host);
  const double bytes = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  return {{"commit", XDPGPU_COMMIT},
          {"trees", nlohmann::json::parse(XDPGPU_TREES)},
          {"date", fmt::format("{:%Y-%m-%dT%H:%MZ}", fmt::gmtime(std::time(nullptr)))},
          {"machine",
           {{"cpu", field("/proc/cpuinfo", "model name")},
            {"cores", std::thread::hardware_concurrency()},
            {"memory_gib", std::lround(bytes / double(1u << 30))},
            {"kernel", host.release},
            {"system", field("/etc/os-release", "PRETTY_NAME")},
            {"gpus", gpus()}}}};
}

bool write_json(const std::string& file, nlohmann::json figures) {
  if (file.empty()) return true;
  figures.update(circumstances());
  std::ofstream out(file);
  out << figures.dump(2) << "\n";
  if (out.flush()) return true;
  fmt::print(stderr, "{} cannot be written\n", file);
  return false;
}

}  // namespace xdpgpu::bench
