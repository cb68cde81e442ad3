// SPDX-License-Identifier: MIT
//
// bench/prefilter/loop.hpp: the loop of loop.bpf.c, loaded.
#pragma once

#include <memory>
#include <vector>

#include "bench/prefilter/workload.hpp"

struct loop_bpf;

namespace xdpgpu::bench {

// What a run of the loop found: how many packets a rule (the trie) decided, and a sum over which ones
// and by which rule.
struct Found {
  u64 rule_hits = 0, rule_sum = 0, trie_hits = 0, trie_sum = 0;
};

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void set_policy(const policy::Policy& policy);
  void set_packets(const std::vector<prefilter_packet>& packets);
  // The same list for the kernel's LPM trie, and the empty prefix, so that every lookup loads a value.
  void set_trie(u8 family, const std::vector<policy::Prefix>& list);

  // trie: 0, 4 or 6. dependent: each packet's address waits for the last one's result. Goes over all
  // packets `runs` times and returns the least ns a packet.
  double nanoseconds(u8 trie, bool dependent, u32 runs);
  const Found& found() const { return found_; }

 private:
  std::unique_ptr<loop_bpf, void (*)(loop_bpf*)> skeleton_;
  u32 packets_ = 0;
  Found found_;
};

}  // namespace xdpgpu::bench
