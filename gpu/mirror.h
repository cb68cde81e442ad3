// SPDX-License-Identifier: MIT
//
// gpu/mirror.h: the consumer's side of a ring of mirrored packets (maps/mirror.h), for g++ and nvcc.
//
//   MirrorRing ring = mirror_ring(port, port_index, cpu);     // starts behind what stands there
//   while (const xg_mirror_record* record = mirror_next(ring)) {
//     const xg_result result = mirror_decide(record, image of its generation);
//     if (mirror_caches(record, result, port.queues)) publish under record->key in shard record->queue;
//     ring.next++;
//   }
//   mirror_consumed(ring);
//
// A record is the consumer's until it is consumed: it is read in place. What it says is not trusted: the
// packet's headers are looked for in the captured bytes alone.
#pragma once

#include "gpu/gpu.hpp"
#include "gpu/stages/pipeline.h"

namespace xdpgpu::gpu {

struct MirrorRing {
  const xg_mirror_record* records;  // of this ring
  xg_mirror_state* state;
  u32 mask;  // slots - 1
  u32 port;
  u64 next;  // number of the record to be taken next
};

XG_FN u64 mirror_load(const u64* at) {
#ifdef __CUDA_ARCH__
  u64 value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
#else
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
#endif
}

XG_FN void mirror_store(u64* at, u64 value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
#else
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
#endif
}

// The ring has been consumed up to `next`.
XG_FN void mirror_consumed(const MirrorRing& ring) { mirror_store(&ring.state->consumed, ring.next); }

// Ring `cpu` of a port, consumed up to its head: what was mirrored before is not looked at.
XG_FN MirrorRing mirror_ring(const MirrorPort& port, u32 port_index, u32 cpu) {
  MirrorRing ring = {port.records + u64{cpu} * port.slots, port.states + cpu, port.slots - 1, port_index,
                     mirror_load(&port.states[cpu].head)};
  mirror_consumed(ring);
  return ring;
}

// The record to be taken next, or nullptr while it has not come.
XG_FN const xg_mirror_record* mirror_next(const MirrorRing& ring) {
  const xg_mirror_record* record = ring.records + (ring.next & ring.mask);
  return mirror_load(&record->ticket) == ring.next + 1 ? record : nullptr;
}

// The record as a batch of one packet. descriptor: to be written, and to outlive the batch; image: the
// pipelines of the record's generation.
XG_FN xg_batch mirror_batch(const xg_mirror_record* record, const u32* image, xg_descriptor* descriptor) {
  const u32 captured = record->captured < XG_MIRROR_BYTES ? record->captured : XG_MIRROR_BYTES;
  *descriptor = {offsetof(xg_mirror_record, packet), captured, 0};
  xg_batch batch = {};
  // The stages only read; their handles have no const.
  batch.frames.v = reinterpret_cast<xg_word*>(const_cast<xg_mirror_record*>(record));
  batch.frames_bytes = offsetof(xg_mirror_record, key);
  batch.descriptors.v = descriptor;
  batch.image.v = const_cast<xg_word*>(reinterpret_cast<const xg_word*>(image));
  batch.count = 1;
  batch.generation = record->metadata.generation;
  return batch;
}

// What the packet's pipeline says, which has no tables; XG_ABORTED where it cannot judge.
XG_FN xg_result mirror_decide(const xg_mirror_record* record, const u32* image) {
  xg_descriptor descriptor;
  const xg_batch batch = mirror_batch(record, image, &descriptor);
  xg_view seen;
  return xg_decide(batch, 0, seen);
}

// Is the answer one to remember for the flow? The other actions come of no pipeline that a policy may
// mirror to.
XG_FN bool mirror_caches(const xg_mirror_record* record, const xg_result& result, u32 queues) {
  const u32 action = XG_VERDICT_ACTION(result.verdict);
  return (result.flags & XG_RES_CACHE) != 0 && (action == XG_DROP || action == XG_PASS) &&
         record->queue < queues;
}

}  // namespace xdpgpu::gpu
