// SPDX-License-Identifier: MIT
//
// userspace/dataplane/worker_state.hpp: what a worker is told, and what it and its halves tell.
#pragma once

#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/engine.hpp"
#include "userspace/dataplane/reassembler.hpp"

namespace xdpgpu::dataplane {

// The policy that packets without metadata are taken to be under.
struct CurrentPolicy {
  u32 generation = 0;
  Engine::PipelineChooser chooser;
  std::vector<u16> fed_by_egress;  // pipelines that are shown what the host sends
  bool default_passes = false;     // packets that no rule decides
  // Where fragments wait for the rest of their datagram: what is done about those of IPv4 that overlap.
  std::optional<Overlapping> reassembles;
};

// What a worker tells the control thread, every few turns.
struct WorkerReport {
  FrameCount frames;
  u64 batches = 0, batch_packets = 0;
  u64 turns = 0;              // that were published
  u64 quiet = 0;              // 1: no packet in hand or under way
  u64 device_failed = 0;      // 1: the device failed; the worker has stopped its heartbeat
  u64 delivers_metadata = 0;  // bit a port
  u64 generation = 0;         // of the policy that the worker has seen in force
  u64 older_under_way = 0;    // 1: of what the host sent, something of an older one may be in a batch
};

struct WorkerOptions {
  u32 index = 0;
  u32 workers = 1;  // that there are
  u32 batch = 1024;
  u32 batches_in_flight = 4;
  u64 max_wait_ns = 50'000;
  u64 spin_ns = 20'000;  // looking on after the last packet, before it sleeps
  u64 beat_timeout_ns = 90'000'000;
  u32 credit_step = 128;  // credits are published at once when so many have come together
  bool split = false;     // a thread of its own retires
  Closing closing = Closing::patient;
  int cpu = -1;         // to be pinned to; -1: not
  int retire_cpu = -1;  // likewise, of the thread that retires; split only
};

// What the half that retires tells the half that feeds. Counts are since the start, of the same moment.
struct Retired {
  u64 batches = 0, packets = 0;  // that came out of batches
  u64 frames = 0;                // likewise
  u64 unparsed = 0;              // packets among them that are to be judged again
  u64 freed = 0;                 // frames given back, or about to be; split only
  u64 sent = 0;                  // frames that the kernel holds to send
  u64 under_way = 0;             // 1: some of the packets have not left
  u64 failed = 0;                // 1: the device failed
  u64 at_ns = 0;                 // the moment
  // When the device answered last, or was given the oldest batch that it has, if that is later; at_ns if it
  // has none; 0 without a device.
  u64 device_ns = 0;
};

// Whether the worker may say that it lives: the device has not failed, and whoever retires has been heard of
// within `timeout_ns`, be it after `now_ns`. No packet waits on a corpse.
inline bool lives(const Retired& retired, u64 now_ns, u64 timeout_ns) noexcept {
  return !retired.failed && now_ns < retired.at_ns + timeout_ns;
}

}  // namespace xdpgpu::dataplane
