// SPDX-License-Identifier: MIT
#include "userspace/control/last_end.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "maps/control.h"
#include "userspace/control/processes.hpp"
#include "userspace/kernel/trusted.hpp"

namespace xdpgpu::control {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = XG_RUN_ROOT "/ended";
constexpr std::size_t kMost = 64;  // hosts of many network namespaces see many interfaces

// No interface's name is as long as a namespace's.
fs::path file_of(const std::string& ifname, const kernel::names::Scope& scope) {
  return fs::path(kFolder) / (scope.empty() ? ifname : scope + "." + ifname);
}

void remove_the_oldest() {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (const auto& entry : fs::directory_iterator(kFolder, error))
    files.emplace_back(entry.last_write_time(error), entry.path());
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i + kMost < files.size(); i++) fs::remove(files[i].second, error);
}

}  // namespace

void keep_last_end(const std::vector<std::string>& interfaces, const std::string& why, bool left) noexcept
    try {
  for (const char* folder : {XG_RUN_ROOT, kFolder})
    if (mkdir(folder, 0755) == 0) (void)!chmod(folder, 0755);
  if (const auto stands = kernel::stands_by_root(kFolder); !stands || !*stands) return;
  const Json end = as_json(LastEnd{fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr))),
                                   why, left ? std::optional(true) : std::nullopt});
  for (const auto& ifname : interfaces) {
    // Whole or not at all, and never through a link that stands there.
    const fs::path file = file_of(ifname, kernel::names::own_scope()), part = file.string() + "~";
    std::error_code error;
    fs::remove(part, error);
    std::ofstream out(part);
    out << end.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    out.close();
    if (out)
      fs::rename(part, file, error);
    else
      fs::remove(part, error);
  }
  remove_the_oldest();
} catch (const std::exception&) {
  // It is not known then.
}

std::optional<LastEnd> last_end(const std::string& ifname, const kernel::names::Scope& scope) try {
  if (const auto stands = kernel::stands_by_root(kFolder); !stands || !*stands) return std::nullopt;
  std::ifstream file(file_of(ifname, scope));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  LastEnd end;
  read_json(Json::parse(text), end);
  return end;
} catch (const Json::exception&) {
  return std::nullopt;  // there is no file, or it is nothing of ours
}

void forget_last_end(const std::string& ifname) noexcept {
  std::error_code error;
  fs::remove(file_of(ifname, kernel::names::own_scope()), error);
  rmdir(kFolder);
}

std::string last_end_text(const std::optional<LastEnd>& end) {
  return end ? fmt::format("ended on {}: {}", end->at, end->why) : std::string();
}

std::string name_of_process(pid_t process) {
  const auto look = look_at_process(process);
  return look ? fmt::format("process {} ({})", process, look->name) : fmt::format("process {}", process);
}

}  // namespace xdpgpu::control
