// SPDX-License-Identifier: MIT
#include "gpu/cuda/loaded.hpp"

#include <algorithm>

#include "gpu/pipeline_programs.hpp"

namespace xdpgpu::gpu::cuda {

cudaError_t set_ahead(Loaded& loaded, bool ahead) noexcept {
  loaded.goes_ahead->store(ahead);
  const u32 rounds = ahead ? 0 : loaded.pipelines->image()[XG_IMAGE_ROUNDS_AT];
  return loaded.image.write(XG_IMAGE_ROUNDS_AT * sizeof(u32), &rounds, sizeof(rounds));
}

Result<Loaded> load_pipelines(std::shared_ptr<const Pipelines> pipelines,
                              std::shared_ptr<const Kernels> kernels, States<DeviceMemory>& states,
                              const Stream& stream) {
  const auto& words = pipelines->image();
  const u64 bytes = words.size() * sizeof(u32);
  Loaded loaded;
  auto tables = states.take(*pipelines, [&](const StateSpec& spec) {
    auto table = DeviceMemory::create(spec.words * sizeof(u32), nullptr, stream);
    if (!table || spec.first_words == 0) return table;
    if (const cudaError_t error = table->write((spec.words - spec.first_words) * sizeof(u32),
                                               &words[spec.first], u64{spec.first_words} * sizeof(u32));
        error != cudaSuccess)
      return Result<DeviceMemory>(failure("filling device memory", error));
    return table;
  });
  if (!tables) return tl::unexpected(tables.error());
  auto image = tables->empty() ? DeviceMemory::create(bytes, words.data(), stream)
                               : DeviceMemory::create(bytes + tables->size() * sizeof(u64), nullptr, stream);
  if (!image) return tl::unexpected(image.error());
  if (!tables->empty()) {
    std::vector<u64> addresses;
    for (const auto& table : *tables) addresses.push_back(reinterpret_cast<u64>(table->get()));
    cudaError_t error = image->write(0, words.data(), bytes);
    if (error == cudaSuccess) error = image->write(bytes, addresses.data(), addresses.size() * sizeof(u64));
    if (error != cudaSuccess) return failure("filling device memory", error);
  }
  loaded.pipelines = std::move(pipelines);
  loaded.kernels = std::move(kernels);
  loaded.image = *std::move(image);
  loaded.tables = *std::move(tables);
  loaded.goes_ahead = std::make_shared<std::atomic<bool>>(false);
  const auto programs = program_tables(*loaded.pipelines);
  if (!programs.empty() && programs.size() == loaded.tables.size() &&
      std::all_of(programs.begin(), programs.end(), [](const ProgramTable& one) { return one.counts; }))
    if (const cudaError_t error = set_ahead(loaded, true); error != cudaSuccess)
      return failure("filling device memory", error);
  return loaded;
}

}  // namespace xdpgpu::gpu::cuda
