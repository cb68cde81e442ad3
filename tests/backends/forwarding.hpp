// SPDX-License-Identifier: MIT
//
// tests/backends/forwarding.hpp: a device that is another one, but for what a test has it do otherwise.
#pragma once

#include <memory>
#include <utility>

#include "gpu/gpu.hpp"

namespace xdpgpu::tests {

class Forwarding : public gpu::Device {
 public:
  explicit Forwarding(std::unique_ptr<gpu::Device> device) : device_(std::move(device)) {}

  const gpu::DeviceInfo& info() const noexcept override { return device_->info(); }
  gpu::Result<void> register_frames(void* base, u64 bytes, gpu::Frames frames) override {
    return device_->register_frames(base, bytes, frames);
  }
  gpu::Frames frames() const noexcept override { return device_->frames(); }
  gpu::Result<void> load(u32 generation, std::shared_ptr<const gpu::Pipelines> pipelines) override {
    return device_->load(generation, std::move(pipelines));
  }
  std::shared_ptr<const gpu::DeviceCode> code() const override { return device_->code(); }
  gpu::Result<void> read_state(u32 generation, u32 table, u64 first, std::span<u32> words) override {
    return device_->read_state(generation, table, first, words);
  }
  gpu::Result<void> edit_state(u32 generation, u32 table, const Edit& edit) override {
    return device_->edit_state(generation, table, edit);
  }
  gpu::Result<void> change_words(u32 generation, std::span<const gpu::ChangedWords> changes) override {
    return device_->change_words(generation, changes);
  }
  void unload(u32 generation) noexcept override { device_->unload(generation); }
  gpu::Result<bool> publish_flows(const std::vector<gpu::FlowTables>& ports) override {
    return device_->publish_flows(ports);
  }
  gpu::Result<std::unique_ptr<gpu::Queue>> open_queue(const gpu::QueueOptions& options) override {
    return device_->open_queue(options);
  }
  gpu::Result<std::unique_ptr<gpu::Mirror>> open_mirror(const gpu::MirrorOptions& options) override {
    return device_->open_mirror(options);
  }
  bool lost() noexcept override { return device_->lost(); }

 private:
  std::unique_ptr<gpu::Device> device_;
};

}  // namespace xdpgpu::tests
