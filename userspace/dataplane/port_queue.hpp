// SPDX-License-Identifier: MIT
//
// userspace/dataplane/port_queue.hpp: everything a worker has of one port: the queue's sockets, its
// part of the port's maps, and what it has learnt.
#pragma once

#include <algorithm>
#include <memory>

#include "gpu/flow_table.hpp"
#include "maps/control.h"
#include "maps/metrics.h"
#include "userspace/dataplane/credits.hpp"
#include "userspace/dataplane/engine.hpp"
#include "userspace/dataplane/lost.hpp"
#include "userspace/dataplane/metadata.hpp"
#include "userspace/dataplane/socket.hpp"

namespace xdpgpu::dataplane {

// The settings of a port that retirement looks at.
struct PortTraits {
  bool repair_checksums = false;
  bool cache_transmit = false;
};

// Owned by one worker once that runs; the maps' memory outlives it. Where two threads of the worker share it,
// the one that retires has `flows`, the transmitters, and what says how packets ended; both have `covered`;
// `published_retired` goes to the other one while no packet is under way; all else is of the one that feeds.
struct PortQueue {
  u32 port = 0, queue = 0;
  PortTraits traits;
  u32 packet_buffers = 1;            // that a packet has at most
  bool busy_poll = false;            // the worker runs the driver itself
  std::unique_ptr<Socket> socket;    // the port's own queue
  std::unique_ptr<Socket> reinject;  // its reinjection pair
  xg_config* config = nullptr;
  xg_queue_state* state = nullptr;
  xg_worker_counters* counters = nullptr;
  xg_queue_metrics* metrics = nullptr;
  const xg_rewrite* rewrites = nullptr;  // XG_REWRITE_ENTRIES, the XDP program's own

  gpu::FlowTable flows;
  MetadataProbe metadata;
  Credits credits;
  u32 next_sequence = 0;  // of a packet without metadata
  u32 published_granted = 0, published_retired = 0;
  // 1: in front of some of the worker's frames something else than the XDP program's metadata may have stood.
  u32 covered = 0;
  // As last seen in the queue's state, and up to which sequence packets are looked at one by one for it.
  u32 exceptions_seen = 0, look_until = 0;
  bool looking = false;
  u32 dropping = 0;  // kContinued: the rest of a packet of too many buffers is to come, and to go
  // Frames that are not a received packet's first: put into batches since the start, and come out of them (of
  // the thread that retires).
  u64 later_batched = 0, later_unbatched = 0;
  // Received, and waiting for the rest of their datagram: packets, and their frames.
  u32 waiting_packets = 0, waiting_frames = 0;

  // Packets admitted by the XDP program so far.
  u32 admitted() const noexcept { return __atomic_load_n(&state->admitted, __ATOMIC_ACQUIRE); }
  // Whether some of the packets that have been received, `next` being the sequence of the first of them, may
  // be such as the worker has to look at itself (xg_queue_state.exceptions). To be asked once they are on the
  // ring.
  bool looks_at_each(u32 next) noexcept {
    const u32 exceptions = __atomic_load_n(&state->exceptions, __ATOMIC_ACQUIRE);
    if (exceptions != exceptions_seen) [[unlikely]] {
      exceptions_seen = exceptions;
      look_until = admitted();
      looking = true;
    }
    looking = looking && static_cast<std::int32_t>(look_until - next) > 0;
    return looking;
  }
  void publish_retired(u32 sequence) noexcept {
    if (sequence == published_retired) return;
    published_retired = sequence;
    __atomic_store_n(&state->retired, sequence, __ATOMIC_RELEASE);
  }
  // By either thread, before the frame can be free again; the other one knows as it gets it back.
  void cover() noexcept { __atomic_store_n(&covered, 1u, __ATOMIC_RELAXED); }
  bool is_covered() const noexcept { return __atomic_load_n(&covered, __ATOMIC_RELAXED) != 0; }
  // If they have grown by `step` since the last time.
  void publish_credits(u32 step) noexcept {
    const u32 granted = credits.granted(socket->receiver.received(), socket->receiver.held());
    if (granted - published_granted < step) return;
    published_granted = granted;
    __atomic_store_n(&state->granted, granted, __ATOMIC_RELEASE);
  }
  // Packets that the XDP program may still send.
  u32 credits_left() const noexcept {
    const auto left = static_cast<std::int32_t>(published_granted - admitted());
    return left > 0 ? static_cast<u32>(left) : 0;
  }
  // Packets of this port that are in a batch: taken, in no other counter yet, and not waiting. For the thread
  // that retires: another one may receive, and drop, meanwhile.
  u64 in_batches() const noexcept {
    const xg_worker_counters& c = *counters;
    const u64 elsewhere = packets_over(c) + __atomic_load_n(&waiting_packets, __ATOMIC_RELAXED);
    const u64 received = __atomic_load_n(&c.received, __ATOMIC_RELAXED);
    return received - std::min(received, elsewhere);
  }
  void publish_waiting(u32 packets, u32 frames) noexcept {
    __atomic_store_n(&waiting_packets, packets, __ATOMIC_RELAXED);
    __atomic_store_n(&waiting_frames, frames, __ATOMIC_RELAXED);
  }
  // Before their batch can be over.
  void batch_later(u32 frames) noexcept {
    __atomic_store_n(&later_batched, later_batched + frames, __ATOMIC_RELAXED);
  }
  u64 frames_in_batches() const noexcept {
    return in_batches() + __atomic_load_n(&later_batched, __ATOMIC_RELAXED) - later_unbatched;
  }
  // now_ns 0: there is no worker any more.
  void publish_beat(u64 now_ns, u64 device_ns) noexcept {
    __atomic_store_n(&state->device_beat_ns, device_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&state->beat_ns, now_ns, __ATOMIC_RELEASE);
  }
};

}  // namespace xdpgpu::dataplane
