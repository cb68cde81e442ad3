// SPDX-License-Identifier: MIT
//
// gpu/staging.hpp: frames for a device that does not read the region: each packet's metadata and as much
// of its frame as the stages read, packed one behind the other in a staging buffer, with descriptors that
// point there. The stages give the same answers on both.
//
// That is its headers, and where its pipeline has stages that read payload, so many bytes as they said
// (Pipelines::payload_bytes), of all of its buffers.
#pragma once

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

// Bytes of staging buffer that a batch of `capacity` packets needs at most; a multiple of 4096.
u64 staging_bytes(u32 capacity);

// Packs the frames that descriptors[0..count) name in the region [frames, frames + frames_bytes), of packets
// that `pipelines` are to judge. `staging` has staging_bytes(count) bytes and is 16-aligned; `staged` has
// room for `count`. Returns how many bytes of `staging` are used. A descriptor that names no frame in the
// region is staged as one that names none in the staging buffer either; the bytes behind the used ones are
// never looked at, though a staged frame's length may reach into them.
u64 stage_frames(const void* frames, u64 frames_bytes, const xg_descriptor* descriptors, u32 count,
                 const Pipelines& pipelines, void* staging, xg_descriptor* staged) noexcept;

}  // namespace xdpgpu::gpu
