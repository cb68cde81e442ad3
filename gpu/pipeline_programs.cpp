// SPDX-License-Identifier: MIT
#include "gpu/pipeline_programs.hpp"

#include <algorithm>

#include "gpu/image_words.hpp"
#include "gpu/program_translation.hpp"
#include "gpu/stages/program_body.h"
#include "gpu/stages/program_memory.h"

namespace xdpgpu::gpu {
namespace {

// use(kind, body): of each stage that runs a program.
template <class Use>
void each_program(const Pipelines& pipelines, Use use) {
  const std::vector<u32>& image = pipelines.image();
  for (std::size_t p = 0; p < pipelines.settings().size(); ++p) {
    for (std::size_t i = 0; i < pipelines.settings()[p].stages.size(); ++i) {
      const u32 stage = stage_words_at(image, p, i);
      if (traits_of(pipelines.settings()[p].stages[i]).programs) use(image[stage], image[stage + 1]);
    }
  }
}

}  // namespace

std::vector<ProgramTable> program_tables(const Pipelines& pipelines) {
  std::vector<ProgramTable> all;
  const std::vector<u32>& image = pipelines.image();
  each_program(pipelines, [&](u32 kind, u32 body) {
    if (kind < XG_KIND_STATEFUL) return;
    const u32 counts_at = body + XG_PROGRAM_BODY_COUNTS;
    all.push_back({image[body + XG_BODY_STATE], counts_at, image[counts_at] != 0});
  });
  return all;
}

namespace programs {

std::vector<Decoded> programs_of(const Pipelines& pipelines) {
  std::vector<Decoded> all;
  const std::vector<u32>& image = pipelines.image();
  each_program(pipelines, [&](u32, u32 body) {
    const u32* const code = &image[image[body + XG_PROGRAM_BODY_CODE]];
    const u32* const tables = &image[image[body + XG_PROGRAM_BODY_TABLES]];
    Decoded one{
        .code = {code, code + u64{tables[XG_PROGRAM_TABLE_INSTRUCTIONS]} * 4},
        .tables = {tables, tables + tables[XG_PROGRAM_TABLE_FIRST] + tables[XG_PROGRAM_TABLE_PROGRAMS]}};
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(std::move(one));
  });
  return all;
}

}  // namespace programs
}  // namespace xdpgpu::gpu
