// SPDX-License-Identifier: MIT
#include "tests/backends/translating.hpp"

#include "gpu/pipelines.hpp"
#include "tests/backends/forwarding.hpp"
#include "userspace/compiler/translations.hpp"

namespace xdpgpu::tests {
namespace {

class Translating final : public Forwarding {
 public:
  using Forwarding::Forwarding;
  gpu::Result<void> load(u32 generation, std::shared_ptr<const gpu::Pipelines> pipelines) override {
    if (pipelines->runs_programs()) {
      static compiler::Translations translations;
      if (auto loaded = compiler::load_translator(); !loaded) return tl::unexpected(loaded.error());
      auto made = translations.translate(gpu::programs::programs_of(*pipelines), code()->architecture);
      if (!made) return tl::unexpected(made.error());
      pipelines =
          gpu::Pipelines::with_code(pipelines, std::make_shared<const gpu::DeviceCode>(*std::move(made)));
    }
    return Forwarding::load(generation, std::move(pipelines));
  }
};

}  // namespace

std::unique_ptr<gpu::Device> translating(std::unique_ptr<gpu::Device> device) {
  return std::make_unique<Translating>(std::move(device));
}

std::vector<Target> translated_targets() {
  std::vector<Target> targets = all_targets();
  std::erase_if(targets, [](const Target& target) { return target.kind != "cuda"; });
  for (Target& target : targets) {
    target.as = "_translated";
    target.made = translating;
  }
  return targets;
}

}  // namespace xdpgpu::tests
