// SPDX-License-Identifier: MIT
//
// userspace/dataplane/fragments.hpp: a followed datagram's later fragments (XG_PKT_TRACKED) get the result of
// its first one, on whichever queue they came.
//
//   FragmentLog     what the first fragments of one worker came to; it writes, all workers read
//   FragmentFates   of one worker: notes the first ones of a batch, and gives the later ones their results
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "maps/flow.h"
#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/port_queue.hpp"

namespace xdpgpu::dataplane {

// What a device says of a packet, but for its xg_patch: no other packet gets that.
struct Decision {
  xg_result result{};
  xg_edit edit{};
  xg_adjust adjust{};
};
// Of the packet that begins at descriptor `at` of a batch that is over; records are as they are where its
// result names them, else zero.
Decision decision_at(const gpu::Slot& slot, u32 at) noexcept;
// A first fragment's.
struct FirstResult : Decision {
  u32 ip_bytes = 0;  // of its IP packet
};

// frame: its own, its metadata in front of it.
FirstResult first_result(const Decision& decision, const u8* frame) noexcept;
// A whole datagram's, for each of the fragments that it was made of: none of them is longer.
FirstResult result_of_whole(const Decision& decision) noexcept;
// The result of a later fragment that stands at `frame`, its metadata in front of it: its first one's, with
// the TTL and checksum of its own header. It drops what has no hop left, what would be longer inside of outer
// headers than the first one, what has no packet of its own inside, and what belongs to a first one that a
// program has changed (XG_RES_PATCH), as nobody can say what that makes of the rest; it passes what no router
// sends on (maps/router.h) to the host's stack. Never cached.
Decision result_of_later(const FirstResult& first, const u8* frame) noexcept;

// Bounded per source and in time, as the kernel's table is (maps/fragments.h). One thread notes; any finds,
// and at worst misses what is just being noted. No allocation after construction.
class FragmentLog {
 public:
  FragmentLog();
  ~FragmentLog();
  // key: with the identification in its ports. bucket_hash: of the key's source, the same in find().
  void note(const xg_flow_key& key, u32 bucket_hash, u32 generation, u64 now_ns,
            const FirstResult& first) noexcept;
  std::optional<FirstResult> find(const xg_flow_key& key, u32 bucket_hash, u32 generation,
                                  u64 now_ns) const noexcept;

 private:
  struct Entry;
  struct Bucket;
  std::unique_ptr<Bucket[]> buckets_;
};

// The logs of all workers, by their index.
using FragmentLogs = std::vector<std::unique_ptr<FragmentLog>>;

class FragmentFates {
 public:
  // own: this worker's place among the logs, which outlive it.
  FragmentFates(u8* region, std::vector<PortQueue*> queues, const FragmentLogs& logs, u32 own)
      : region_(region), queues_(std::move(queues)), logs_(logs), own_(own) {}

  // Of a batch that is decided and has followed fragments. False: a later one's first one may still be under
  // way at another worker, and the batch is to be shown again. That is at most kWaitNs for a batch, and a
  // tenth of the time in all; then the policy's default decides.
  bool settle(Batch& batch, u64 now_ns) noexcept;

  static constexpr u64 kWaitNs = 1'000'000;

 private:
  bool may_wait(u64 now_ns) noexcept;
  void note_first(const Batch& batch, u32 at, u64 now_ns) noexcept;
  std::optional<FirstResult> find(const Batch& batch, u32 at, u64 now_ns) const noexcept;

  u8* region_;
  std::vector<PortQueue*> queues_;
  const FragmentLogs& logs_;
  u32 own_;
  u64 waits_since_ns_ = 0;  // of the batch under way; 0: it does not wait
  u64 window_ns_ = 0;       // when the time began in which waited_ns_ counts
  u64 waited_ns_ = 0;
};

}  // namespace xdpgpu::dataplane
