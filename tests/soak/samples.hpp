// SPDX-License-Identifier: MIT
//
// tests/soak/samples.hpp: what a soak looks like over time: every few seconds the memory of broker and data
// plane, who has the frames, how full the rings are, and how many packets were sent and came to an end.
//
//   Sampler sampler(5s);
//   {
//     Watch watch(sampler, attach_pid, wires);  // a life, from here
//     ...
//   }                                           // to here
//   report["samples"] = sampler.json();         // bench/plot draws it
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/netns/lab.hpp"

namespace xdpgpu::soak {

// It has a thread of its own, which throws nothing: what cannot be had at that moment is null in the sample.
class Sampler {
 public:
  explicit Sampler(std::chrono::milliseconds every);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // While it is held no sample is taken, and none holds a connection.
  std::unique_lock<std::mutex> pause() { return std::unique_lock(mutex_); }
  std::size_t taken() const;
  // Seconds between two, columns by name and unit, and a row a sample.
  nlohmann::json json() const;

 private:
  friend class Watch;
  void loop();
  void take();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  const std::chrono::milliseconds every_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool ended_ = false;
  // The life that is watched; 0: none.
  pid_t pid_ = 0;
  std::vector<const lab::Veth*> wires_;
  std::vector<std::uint64_t> sent_before_;
  std::uint64_t accounted_before_ = 0;
  std::size_t life_ = 0;
  nlohmann::json rows_ = nlohmann::json::array();
  std::thread thread_;
};

// A life, as long as it is to be looked at. `pid` is the attach process's, the ends a() of the wires are
// attached.
class Watch {
 public:
  Watch(Sampler& sampler, pid_t pid, std::vector<const lab::Veth*> wires);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Sampler& sampler_;
};

// Of a process its own memory, in KiB: what it maps of the kernel's tables is the kernel's. 0: it is gone.
std::int64_t own_memory_kib(pid_t pid);

}  // namespace xdpgpu::soak
