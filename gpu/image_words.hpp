// SPDX-License-Identifier: MIT
//
// gpu/image_words.hpp: values as the words of an image (gpu/stages/image.h) or of a table
// (gpu/stages/table.h).
#pragma once

#include <array>
#include <span>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

// As xg_set_edit() takes them (gpu/stages/view.h).
inline std::array<u32, 2> mac_words(const Mac& mac) {
  std::array<u32, 2> words{};
  for (u32 i = 0; i < mac.size(); i++) words[i / 4] |= u32{mac[i]} << i % 4 * 8;
  return words;
}

// The action word that sends a frame to a port, or back where it came from.
inline u32 send_word(bool to_port, u32 target, u32 rule) {
  return to_port ? XG_VERDICT(XG_REDIRECT, target, 0u, rule) : XG_VERDICT(XG_TX, 0u, 0u, rule);
}

// Where the words of a pipeline's stage stand, its kind and its body: of one with two places those of the
// first.
inline u32 stage_words_at(std::span<const u32> image, std::size_t pipeline, std::size_t stage) {
  const u32 at = image[XG_IMAGE_TABLE_AT] + static_cast<u32>(pipeline) * XG_PIPELINE_WORDS;
  const bool is_behind = stage > image[at + XG_PIPELINE_TWICE];
  return image[at] + 2 * (static_cast<u32>(stage) + (is_behind ? 1 : 0));
}

// Two words, low and high.
inline u64 word_pair_at(std::span<const u32> words, u64 at) { return words[at] | u64{words[at + 1]} << 32; }

}  // namespace xdpgpu::gpu
