// SPDX-License-Identifier: MIT
//
// userspace/dataplane/egress_feed.hpp: a worker's look at what the host sends (maps/egress.h): it puts the
// headers into its batches, ahead of the packets that it receives, for the pipelines that follow connections.
//
// The answer to a packet may be received on any queue. So what may begin a connection (a SYN, and anything
// but TCP) is taken by every worker: its own queue to the device keeps it ahead of the answer, whoever gets
// that. All else is taken by one worker, told by the flow. A stage that has seen a packet already makes
// nothing new of it, and what the host sends is never dropped by one.
#pragma once

#include <atomic>
#include <vector>

#include "maps/egress.h"
#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/port_queue.hpp"
#include "userspace/dataplane/worker_state.hpp"

namespace xdpgpu::dataplane {

// One port's logs, as its maps are mapped; outlive the workers.
struct EgressLogs {
  const xg_egress_record* records = nullptr;  // logs * XG_EGRESS_SLOTS
  const xg_egress_head* heads = nullptr;      // logs
  u32 logs = 0;
  const xg_config* config = nullptr;
};

// Of the thread that feeds. No allocation after construction.
class EgressFeed {
 public:
  // ports: of the process, by index. accounts[port]: the queue of the worker's at which what left by the port
  // is counted. The log is looked at from here on: what stands there is not.
  EgressFeed(std::vector<EgressLogs> ports, std::vector<PortQueue*> accounts, u32 worker, u32 workers,
             u8* region, FreeList& free, const std::atomic<const CurrentPolicy*>& policy);

  void use(Batcher& batcher) noexcept { batcher_ = &batcher; }

  // Takes what stands in the logs by now. False: not all of it, for want of a frame or of room with the
  // device; nothing that was received later may go ahead. *any: set if something was taken.
  bool take(u64 now_ns, bool* any) noexcept {
    const CurrentPolicy* policy = policy_.load(std::memory_order_acquire);
    if (policy != policy_seen_) change(policy);
    if (!feeds_) return true;
    bool all = true;
    for (Log& log : logs_) {
      const u64 head = __atomic_load_n(&log.head->head, __ATOMIC_ACQUIRE);
      if (log.next != head) all = all && take(log, head, now_ns, any);
    }
    return all;
  }

  // Whether something came lately: then who sleeps for long may miss some.
  bool flows(u64 now_ns) const noexcept { return feeds_ && now_ns < taken_ns_ + kLatelyNs; }

  // The newest generation that was seen in force, and how many frames had been put into batches by then: once
  // these have come out, none of an older one is under way from here.
  u32 generation() const noexcept { return policy_seen_ ? policy_seen_->generation : 0; }
  u64 frames_before() const noexcept { return frames_before_; }

 private:
  struct Log {
    const xg_egress_record* records;
    const xg_egress_head* head;
    const xg_config* config;
    PortQueue* account;
    u8 port;
    u64 next;      // number of the record to be taken next
    u32 done = 0;  // pipelines that have it already
  };
  static constexpr u64 kLatelyNs = 100'000'000;
  void change(const CurrentPolicy* policy) noexcept;
  bool take(Log& log, u64 head, u64 now_ns, bool* any) noexcept;
  bool show(Log& log, const xg_egress_record& record, u64 now_ns) noexcept;

  std::vector<Log> logs_;
  u32 worker_, workers_;
  u8* region_;
  FreeList& free_;
  const std::atomic<const CurrentPolicy*>& policy_;
  const CurrentPolicy* policy_seen_ = nullptr;
  bool feeds_ = false;
  u64 frames_before_ = 0;
  u64 taken_ns_ = 0;
  Batcher* batcher_ = nullptr;
};

}  // namespace xdpgpu::dataplane
