// SPDX-License-Identifier: MIT
//
// bench/reputation/workload.hpp: lists of prefixes as a feed brings them, files and a policy made of them,
// and frames from addresses in them and beside them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/pages.hpp"
#include "bench/reputation/length_tables.hpp"
#include "bench/umem/queue.hpp"

namespace xdpgpu::bench {

struct WorkloadSettings {
  u32 prefixes = 2'000'000;
  u32 percent6 = 25;  // of the prefixes and of the frames
  bool sorted = false;
  u32 frames = 32768;
};

class Workload {
 public:
  // Writes its files into a new folder. Throws std::runtime_error, a sentence.
  explicit Workload(const WorkloadSettings& settings);
  ~Workload();
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  // A policy whose one pipeline drops what is in the list "feed", of so many prefixes, and passes what the
  // hundredth part as many prefixes of "exceptions", longer ones, take out of it.
  std::string policy_file() const;
  u64 feed_bytes() const { return feed_.size(); }
  // Adds a frame's address, which no list had before, to the feed's file.
  void edit();

  FrameRegion region() const { return {pages_.base(), pages_.bytes(), descriptors_}; }
  // By the lists as they are, in the order of receipt.
  std::vector<u32> verdicts() const;
  // Looks up every frame's address; the sum of the answers.
  u64 look_up_all() const;

 private:
  struct Source {
    u8 family = 4;
    u8 address[16] = {};
  };
  void write_lists(const std::vector<policy::Prefix>& feed, const std::vector<policy::Prefix>& exceptions);
  void write_frames();

  WorkloadSettings settings_;
  std::string folder_, feed_;
  LengthTables tables_;
  std::vector<Source> sources_;  // of the frames
  Pages pages_;
  std::vector<xg_descriptor> descriptors_;
};

}  // namespace xdpgpu::bench
