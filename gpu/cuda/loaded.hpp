// SPDX-License-Identifier: MIT
//
// gpu/cuda/loaded.hpp: a loaded generation: its image, with the addresses of its tables right behind it, and
// these, and the kernels that read it.
#pragma once

#include <atomic>
#include <memory>

#include "gpu/cuda/kernel.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/memory.hpp"
#include "gpu/stages/image.h"
#include "gpu/states.hpp"

namespace xdpgpu::gpu::cuda {

struct Loaded {
  std::shared_ptr<const Pipelines> pipelines;
  std::shared_ptr<const Kernels> kernels;  // that decide its batches
  DeviceMemory image;
  States<DeviceMemory>::Held tables;
  // All tables are those of programs that count, and whose packets wait for no others. In the image's own
  // words there are no rounds then, and each batch is decided as one without tables.
  std::shared_ptr<std::atomic<bool>> goes_ahead;

  Tables has() const noexcept {
    if (tables.empty() || goes_ahead->load(std::memory_order_relaxed)) return Tables::none;
    return pipelines->image()[XG_IMAGE_CROWDED_AT] != 0 ? Tables::crowded : Tables::some;
  }
  bool inspects() const noexcept { return pipelines->inspects(); }
  void abandon() noexcept {
    image.abandon();
    kernels->abandon();
    for (const auto& table : tables) table->abandon();
  }
};

// Whether the image's packets go ahead of the tables, from the next batch on.
cudaError_t set_ahead(Loaded& loaded, bool ahead) noexcept;

// Takes the tables that `states` has. Fails without effect.
Result<Loaded> load_pipelines(std::shared_ptr<const Pipelines> pipelines,
                              std::shared_ptr<const Kernels> kernels, States<DeviceMemory>& states,
                              const Stream& stream);

}  // namespace xdpgpu::gpu::cuda
