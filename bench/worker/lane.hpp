// SPDX-License-Identifier: MIT
//
// bench/worker/lane.hpp: one worker as the engine makes it, and the rings in memory that it works over: two
// ports, of which the first one receives, and the host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/pages.hpp"
#include "bench/worker/rings.hpp"
#include "gpu/pipelines.hpp"
#include "userspace/dataplane/clock.hpp"
#include "userspace/dataplane/worker.hpp"

namespace xdpgpu::bench {

struct LaneOptions {
  u32 first = 0;  // of the worker's frames in the region
  u32 chunks = 8192;
  u32 ring = 2048;
  u32 tx_ring = 2048;  // a full one loses packets: the device may be done with all batches at once
  u32 batch = 256;
  u32 depth = 4;
  dataplane::Closing closing = dataplane::Closing::patient;
  Traffic traffic{};     // its generation is the lane's affair
  bool counted = false;  // how often each frame came and went is kept, for check()
};

class Lane {
 public:
  static constexpr u32 kGeneration = 7;
  // What `stage` is a name of: "l2fwd", or "acl", which lets pass what Traffic::passing is and drops all
  // else.
  static gpu::PipelineSettings pipeline(const std::string& stage);

  // The frames [first, first + chunks) of the region, which outlives it, are this one's. The worker has no
  // queue to a device yet.
  Lane(const LaneOptions& options, u8* region);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  dataplane::Worker& worker() noexcept { return *worker_; }
  MemoryPort& near() noexcept { return near_; }

  // The kernel's part: what is on the TX rings is sent, and up to so many packets come in. Whether any moved.
  bool play(u32 packets) noexcept;
  u64 received() const noexcept { return counters().received; }  // by the worker
  // Whether all that came in is over.
  bool over() const noexcept;
  static constexpr u64 kPatienceNs = 2'000'000'000;  // until everything has to be over
  // Turns without packets, until everything is over; then counts: what is wrong, or nothing. Once, at the
  // end. `turn` is the worker's and the kernel's.
  template <class Turn>
  std::string finish(Turn&& turn);
  // After finish(), where it was counted: whether the verdicts on all packets were `stage`'s.
  std::string check(const std::string& stage) const;

 private:
  struct Map;
  const xg_worker_counters& counters() const noexcept;
  std::unique_ptr<dataplane::PortQueue> make_queue(u32 port, u64 now_ns);
  std::string account();

  LaneOptions options_;
  u8* region_;
  Pages maps_;
  Map* map_;
  MemoryPort near_, far_, host_;
  dataplane::CurrentPolicy policy_;
  std::atomic<const dataplane::CurrentPolicy*> current_{&policy_};
  dataplane::FragmentLogs no_fragments_;
  std::unique_ptr<dataplane::Worker> worker_;
};

template <class Turn>
std::string Lane::finish(Turn&& turn) {
  const u64 end = dataplane::monotonic_ns() + kPatienceNs;
  do {
    turn();
  } while (!over() && dataplane::monotonic_ns() < end);
  turn();  // what it gave out last is sent
  return account();
}

}  // namespace xdpgpu::bench
