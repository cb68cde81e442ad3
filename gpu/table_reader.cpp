// SPDX-License-Identifier: MIT
#include "gpu/table_reader.hpp"

#include "gpu/image_words.hpp"

namespace xdpgpu::gpu {

const StageSettings& stage_of(const Pipelines& pipelines, const StateSpec& spec) {
  const auto pipeline = std::find_if(pipelines.settings().begin(), pipelines.settings().end(),
                                     [&](const auto& one) { return one.name == spec.pipeline; });
  return pipeline->stages[spec.stage];
}

TableReader::TableReader(Device& device, u32 generation, const Pipelines& pipelines, u32 number)
    : device_(device),
      generation_(generation),
      number_(number),
      spec_(pipelines.states()[number]),
      stage_(&stage_of(pipelines, spec_)) {}

std::vector<u32> TableReader::words(u64 first, u64 count) {
  std::vector<u32> read(count);
  if (auto done = device_.read_state(generation_, number_, first, read); !done) {
    error_ = done.error();
    std::fill(read.begin(), read.end(), 0);
  }
  return read;
}

u64 TableReader::counter(u32 number) { return word_pair_at(words(u64{number} * 2, 2), 0); }

std::vector<u32> TableReader::entry(u64 place) {
  return words(
      XG_TABLE_HEAD + place / XG_WAYS * XG_SET_WORDS + XG_SET_HEAD + place % XG_WAYS * XG_ENTRY_WORDS,
      XG_ENTRY_WORDS);
}

std::vector<u32> TableReader::record(u64 place, u32 words_each) {
  return words(XG_TABLE_HEAD + sets() * XG_SET_WORDS + place * words_each, words_each);
}

}  // namespace xdpgpu::gpu
