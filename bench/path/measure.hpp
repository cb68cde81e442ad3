// SPDX-License-Identifier: MIT
//
// bench/path/measure.hpp: one run of each row of bench/path, on veth pairs of this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/path/bare.hpp"
#include "bench/path/bed.hpp"
#include "tests/netns/lab.hpp"

namespace xdpgpu::bed {

struct Settings {
  std::vector<std::string> devices{"cpu"};
  u32 queues = 1;  // more than 1: also that many queues, each with a worker and a sender of its own
  int repeats = 3;
  double seconds = 1;
  u32 flows = 64;
  u32 payload = 18;  // bytes of UDP payload: 60-byte frames
  std::string json;
};

struct Run {
  double rate = 0;      // packets a second, or Gbit/s
  double cpu_ns = 0;    // a packet, of the thread or threads that receive; 0: not measured
  std::string problem;  // what the check of verdicts found, if anything
};

// Throws lab::Error.
class PathLab {
 public:
  explicit PathLab(const Settings& settings);

  Run bare(BareLoop::Action action);
  // DROP, or l2fwd; `device`: "cuda", or "cuda/persistent" for one driven by a kernel that stays.
  Run pipeline(bool forwards, const std::string& device, u32 queues);
  // gro: of the interface, and of the pair through which packets are passed.
  Run tcp_plain(bool gro);
  Run tcp_pipeline(const std::string& device, bool gro);

 private:
  // A wire and what is sent over it, by queue of its far end.
  struct Wire {
    std::unique_ptr<lab::Veth> veth;
    std::vector<std::vector<lab::Frame>> frames;
  };
  using Count = std::function<u64()>;

  Wire lay(const char* near, const char* far, u32 queues) const;
  void drive(const Wire& wire, bool forwards, const char* threads, const Count& count, Run& run) const;
  static void check_swapped(const Wire& wire, std::string& problem);
  static void check_accounts(Bed& bed, bool forwards, std::string& problem);

  const Settings& settings_;
  lab::Namespace near_, far_;
  Wire one_, many_;  // of one queue; of settings.queues
  int worker_cpu_;
};

}  // namespace xdpgpu::bed
