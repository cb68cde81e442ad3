// SPDX-License-Identifier: MIT
//
// gpu/cuda/slots_view.hpp: a queue's slots as a kernel knows them that finds out which one it has when it
// runs. Addresses of the device.
#pragma once

#include "gpu/cuda/kernel.hpp"
#include "gpu/stages/view.h"

namespace xdpgpu::gpu::cuda {

struct SlotsView {
  xg_words frames{};
  u64 frames_bytes = 0;          // of the region, or of one slot's staging buffer
  u64 frames_stride = 0;         // between the slots' staging buffers; 0: all read the region
  xg_descriptors descriptors{};  // of slot 0; the other slots' behind it
  xg_results results{};          // likewise
  xg_quads edits{};              // likewise
  xg_quads adjusts{};            // likewise
  xg_quads alerts{};             // likewise
  xg_quads patches{};            // likewise
  xg_quads events{};             // likewise
  u32 capacity = 0;              // packets in a slot
  Flows flows;
  Scratch scratch;
};

// The batch of a slot.
XG_FN xg_batch batch_of(const SlotsView& slots, u32 slot, u64 image, u32 count, u32 generation) {
  xg_batch batch{};
  batch.frames.v =
      reinterpret_cast<xg_word*>(reinterpret_cast<u8*>(slots.frames.v) + slot * slots.frames_stride);
  batch.frames_bytes = slots.frames_bytes;
  batch.descriptors.v = slots.descriptors.v + u64{slot} * slots.capacity;
  batch.results.v = slots.results.v + u64{slot} * slots.capacity;
  batch.edits.v = slots.edits.v + u64{slot} * slots.capacity;
  batch.adjusts.v = slots.adjusts.v + u64{slot} * slots.capacity;
  batch.alerts.v = slots.alerts.v + u64{slot} * slots.capacity * (sizeof(xg_alerts) / sizeof(xg_quad));
  batch.patches.v = slots.patches.v + u64{slot} * slots.capacity * (sizeof(xg_patch) / sizeof(xg_quad));
  batch.events.v = slots.events.v + u64{slot} * slots.capacity * (sizeof(xg_event) / sizeof(xg_quad));
  batch.image.v = reinterpret_cast<xg_word*>(image);
  batch.count = count;
  batch.generation = generation;
  return batch;
}

}  // namespace xdpgpu::gpu::cuda
