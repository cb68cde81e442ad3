// SPDX-License-Identifier: MIT
#include "bench/throughput/receive_core.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace xdpgpu::throughput {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw lab::Error(fmt::format("cannot {}: {}", what, std::strerror(errno)));
}

// Of all namespaces.
std::vector<int> threads_of(const std::string& name) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "comm");
    std::string line;
    if (std::getline(file, line) && line.starts_with(name))
      found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

void write_threaded(const lab::Interface& interface) {
  interface.ns().run([&] {
    // /sys shows the namespace in which it was mounted: one for this thread alone.
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0)
      fail(fmt::format("mount sysfs for {}", interface.ifname()));
    const std::string path = fmt::format("/sys/class/net/{}/threaded", interface.ifname());
    std::ofstream file(path);
    file << 1;
    if (!file.flush()) fail("write 1 to " + path);
  });
}

}  // namespace

void receive_on(const lab::Interface& interface, const lab::Interface& far_end, int cpu) {
  // What comes from an interface that cuts segments for others goes past NAPI (veth_xmit).
  for (const char* feature : {"tx-tcp-segmentation", "tx-tcp-ecn-segmentation",
                              "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation"})
    far_end.feature(feature, false);
  const std::string name = fmt::format("napi/{}-", interface.ifname());
  const std::vector<int> others = threads_of(name);
  write_threaded(interface);
  std::vector<int> threads = threads_of(name);
  std::erase_if(threads,
                [&](int thread) { return std::find(others.begin(), others.end(), thread) != others.end(); });
  if (threads.empty())
    throw lab::Error(fmt::format("{} has got no thread to receive with", interface.ifname()));
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<std::size_t>(cpu), &cpus);
  const sched_param priority{1};
  for (const int thread : threads)
    if (sched_setaffinity(thread, sizeof(cpus), &cpus) != 0 ||
        sched_setscheduler(thread, SCHED_FIFO, &priority) != 0)
      fail(fmt::format("put the thread that receives for {} on core {}", interface.ifname(), cpu));
}

}  // namespace xdpgpu::throughput
