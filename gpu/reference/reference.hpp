// SPDX-License-Identifier: MIT
//
// gpu/reference/reference.hpp: the sequential reference: what the right answer is. Plain C++ over the
// stages' settings, one packet after the other, written for the reader and shared with no device: the
// conformance suite (tests/backends) compares every device with it, byte for byte.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu::reference {

struct Edits {
  std::span<xg_edit> edits;
  std::span<xg_adjust> adjusts;
  std::span<xg_alerts> alerts{};
  std::span<xg_patch> patches{};
  std::span<xg_event> events{};
};

// Answers streams of packets, and remembers what stages remember from one to the next.
class Judge {
 public:
  explicit Judge(std::vector<PipelineSettings> settings, const CompileOptions& options = {});
  ~Judge();
  Judge(Judge&&) noexcept;

  // Answers descriptors[i] in results[i], of packets of `generation`. `region` is the frame region. Results
  // mean what gpu/gpu.hpp and gpu/pipelines.hpp say. edits: as many records, or none where nobody asks for
  // them; all zero where the packet's result does not name them.
  void decide(std::span<const u8> region, std::span<const xg_descriptor> descriptors, u32 generation,
              std::span<xg_result> results, Edits edits = {});
  // Judges by other settings from here on, whose stages have the same tables at the same places.
  void change(std::vector<PipelineSettings> settings);
  // The stages' tables in the order of Pipelines::states(), each word for word as a device has it.
  std::vector<std::vector<u32>> tables() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One stream, with tables that are empty at first.
void decide(std::span<const u8> region, std::span<const xg_descriptor> descriptors, u32 generation,
            const std::vector<PipelineSettings>& settings, std::span<xg_result> results, Edits edits = {});

}  // namespace xdpgpu::gpu::reference
