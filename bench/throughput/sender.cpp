// SPDX-License-Identifier: MIT
#include "bench/throughput/sender.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace xdpgpu::throughput {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kHeaders = 42;
constexpr double kSlack = 10;  // seconds that it may take to end

// A capture file (pcap, version 2.4) in this machine's byte order.
std::string capture_of(const std::vector<lab::Frame>& frames) {
  std::string file;
  const auto put = [&](u32 word) { file.append(reinterpret_cast<const char*>(&word), sizeof(word)); };
  const u32 header[] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 65535, 1};
  for (const u32 word : header) put(word);
  for (const lab::Frame& frame : frames) {
    put(0);
    put(0);
    put(static_cast<u32>(frame.size()));
    put(static_cast<u32>(frame.size()));
    file.append(reinterpret_cast<const char*>(frame.data()), frame.size());
  }
  return file;
}

// The first number behind `words` in tcpreplay's report.
double said(const std::string& report, const std::string& words) {
  const auto at = report.find(words);
  if (at == std::string::npos)
    throw lab::Error(fmt::format("tcpreplay's report has no \"{}\": {}", words, report));
  return std::strtod(report.c_str() + at + words.size(), nullptr);
}

}  // namespace

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(std::string(path == nullptr ? "" : path) + ":/usr/bin:/usr/sbin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (std::string file = fmt::format("{}/{}", folder, name); access(file.c_str(), X_OK) == 0) return file;
  throw lab::Error(fmt::format("there is no {}: install it (sudo deploy/install-deps --tests)", name));
}

void run_on(int cpu, int niceness) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<std::size_t>(cpu), &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
  if (niceness != 0 && nice(niceness) == -1) errno = 0;  // where it is not allowed: as it is
}

Replay::Replay(const lab::Interface& interface, const std::vector<lab::Frame>& frames)
    : interface_(interface), file_(capture_of(frames), ".pcap"), program_(find_program("tcpreplay")) {}

u32 Replay::number_of(const lab::Frame& frame) const {
  u32 number = ~0U;
  if (frame.size() >= kHeaders + sizeof(number))
    std::memcpy(&number, frame.data() + kHeaders, sizeof(number));
  return number;
}

Sent Replay::send(double rate, double seconds, bool /*seen*/, const Check& check) const {
  run_on(0);
  std::vector<std::string> argv{program_, "--intf1=" + interface_.ifname(), "--preload-pcap", "--loop=0"};
  if (rate > 0) {
    argv.push_back(fmt::format("--pps={:.0f}", rate));
    argv.push_back(fmt::format("--limit={:.0f}", std::max(1.0, rate * seconds)));
  } else {
    argv.emplace_back("--topspeed");
  }
  argv.push_back(file_.path());
  lab::Process process(interface_.ns(), argv);
  const auto start = Clock::now();
  // It ends by itself where it has a rate and holds it. It reports when it is interrupted, too.
  const double enough = rate > 0 ? 1.5 * seconds + 1 : seconds;
  bool interrupted = false;
  int status = -1;
  while ((status = process.wait(10ms)) < 0) {
    check();
    const double passed = std::chrono::duration<double>(Clock::now() - start).count();
    if (passed > enough + kSlack) throw lab::Error("tcpreplay does not end");
    if (passed > enough && !interrupted) process.signal(SIGINT);
    interrupted = passed > enough;
  }
  process.wait_for_end_of_output(1s);
  const std::string report = process.out() + process.err();
  if (status != 0) throw lab::Error(fmt::format("tcpreplay failed ({}): {}", status, report));
  Sent sent;
  // "Successful packets" leaves out the last one when it is interrupted.
  const double refused = said(report, "Retried packets (ENOBUFS):") + said(report, "Failed packets:");
  sent.refused = static_cast<u64>(refused);
  sent.frames = static_cast<u64>(said(report, "Actual:")) + sent.refused;
  // "Actual: N packets (B bytes) sent in S seconds" has hundredths; the rate has more digits.
  const double pps = said(report.substr(std::min(report.size(), report.find("Mbps,"))), "Mbps,");
  sent.seconds = pps > 0 ? static_cast<double>(sent.frames - sent.refused) / pps : said(report, " sent in ");
  return sent;
}

}  // namespace xdpgpu::throughput
