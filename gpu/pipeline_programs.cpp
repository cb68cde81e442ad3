// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/pipelines.hpp"
#include "gpu/program_translation.hpp"
#include "gpu/stages/program/device.h"

namespace xdpgpu::gpu::programs {

std::vector<Decoded> programs_of(const Pipelines& pipelines) {
  std::vector<Decoded> all;
  const std::vector<u32>& image = pipelines.image();
  for (std::size_t p = 0; p < pipelines.settings().size(); ++p) {
    const u32 stages = image[image[XG_IMAGE_TABLE_AT] + p * XG_PIPELINE_WORDS];
    for (std::size_t i = 0; i < pipelines.settings()[p].stages.size(); ++i) {
      if (!std::holds_alternative<ProgramSettings>(pipelines.settings()[p].stages[i])) continue;
      const u32 body = image[stages + i * 2 + 1];
      const u32* const code = &image[image[body + XG_PROGRAM_BODY_CODE]];
      const u32* const tables = &image[image[body + XG_PROGRAM_BODY_TABLES]];
      Decoded one{
          .code = {code, code + u64{tables[XG_PROGRAM_TABLE_INSTRUCTIONS]} * 4},
          .tables = {tables, tables + tables[XG_PROGRAM_TABLE_FIRST] + tables[XG_PROGRAM_TABLE_PROGRAMS]}};
      if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace xdpgpu::gpu::programs
