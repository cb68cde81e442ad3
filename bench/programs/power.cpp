// SPDX-License-Identifier: MIT
#include "bench/programs/power.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "bench/rows.hpp"

extern char** environ;

namespace xdpgpu::bench {
namespace {

// CUDA_VISIBLE_DEVICES numbers the GPUs anew.
std::string name_of(u32 gpu) {
  const char* const said = std::getenv("CUDA_VISIBLE_DEVICES");
  if (said == nullptr || *said == '\0') return std::to_string(gpu);
  std::string_view visible = said;
  for (u32 i = 0; i < gpu && visible.find(',') != visible.npos; ++i)
    visible.remove_prefix(visible.find(',') + 1);
  return std::string(visible.substr(0, visible.find(',')));
}

// Watts now.
gpu::Result<double> ask(const std::string& gpu) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return tl::unexpected(fmt::format("no pipe to nvidia-smi: {}", std::strerror(errno)));
  std::string program = "nvidia-smi", which = "--id=" + gpu, query = "--query-gpu=power.draw",
              format = "--format=csv,noheader,nounits";
  char* const arguments[] = {program.data(), which.data(), query.data(), format.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  if (error == 0) {
    char some[256];
    for (ssize_t got; (got = read(ends[0], some, sizeof(some))) > 0;)
      text.append(some, static_cast<std::size_t>(got));
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  }
  close(ends[0]);
  if (error != 0) return tl::unexpected(fmt::format("nvidia-smi: {}", std::strerror(error)));
  text.erase(0, text.find_first_not_of(" \n"));
  double watts = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), watts);
  if (wrong != std::errc() || watts <= 0)
    return tl::unexpected(fmt::format("nvidia-smi does not say what GPU {} draws: \"{}\"", gpu,
                                      text.substr(0, text.find('\n'))));
  return watts;
}

}  // namespace

gpu::Result<std::unique_ptr<PowerMeter>> PowerMeter::start(u32 gpu) {
  const std::string name = name_of(gpu);
  if (auto now = ask(name); !now) return tl::unexpected(now.error());
  return std::unique_ptr<PowerMeter>(new PowerMeter(name));
}

PowerMeter::PowerMeter(std::string gpu) : gpu_(std::move(gpu)), thread_([this] { ask_on(); }) {}

PowerMeter::~PowerMeter() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

void PowerMeter::ask_on() {
  constexpr auto kPause = std::chrono::milliseconds(50);
  while (!ends_) {
    if (const auto now = ask(gpu_)) watts_.push_back(*now);
    std::this_thread::sleep_for(kPause);
  }
}

gpu::Result<double> PowerMeter::stop() {
  ends_ = true;
  thread_.join();
  if (watts_.empty()) return tl::unexpected(fmt::format("nvidia-smi said nothing of GPU {}", gpu_));
  return median({watts_.begin() + static_cast<std::ptrdiff_t>(watts_.size() / 2), watts_.end()});
}

}  // namespace xdpgpu::bench
