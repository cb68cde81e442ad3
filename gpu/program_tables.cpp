// SPDX-License-Identifier: MIT
#include "gpu/program_tables.hpp"

#include "gpu/image_words.hpp"
#include "gpu/stages/program_body.h"
#include "gpu/stages/program_memory.h"

namespace xdpgpu::gpu {

std::vector<ProgramMapsPlace> program_maps_places(const Pipelines& pipelines) {
  std::vector<ProgramMapsPlace> all;
  const std::vector<u32>& image = pipelines.image();
  for (u32 p = 0; p < pipelines.settings().size(); ++p) {
    for (u32 s = 0; s < pipelines.settings()[p].stages.size(); ++s) {
      if (!traits_of(pipelines.settings()[p].stages[s]).programs) continue;
      const u32 stage = stage_words_at(image, p, s), kind = image[stage], body = image[stage + 1];
      const u32 tables = image[body + XG_PROGRAM_BODY_TABLES], state = image[body + XG_PROGRAM_BODY_STATE];
      const u32* const head = &image[tables];
      ProgramMapsPlace place{
          .pipeline = p,
          .stage = s,
          .first = state,
          .words = tables - state,
          .tables = {head, head + head[XG_PROGRAM_TABLE_FIRST] + head[XG_PROGRAM_TABLE_PROGRAMS]}};
      if (kind >= XG_KIND_STATEFUL) {
        const StateSpec& spec = pipelines.states()[image[body + XG_BODY_STATE]];
        place.table = image[body + XG_BODY_STATE];
        place.first = spec.words - spec.first_words;
        place.words = spec.first_words;
      }
      all.push_back(place);
    }
  }
  return all;
}

}  // namespace xdpgpu::gpu
