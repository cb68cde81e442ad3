// SPDX-License-Identifier: MIT
//
// gpu/prefix_tree_image.hpp: compiles prefixes into the trees of gpu/stages/image.h.
#pragma once

#include <array>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu {

// A prefix and what it stands for.
struct TreePrefix {
  std::array<u32, 4> address{};  // host order, the most significant word first; IPv4 is the first one
  u32 length = 0;                // bits; address bits beyond it do not count
  u32 value = 0;                 // 1 or more, below 2^31
};

// Appends the table of one address family, of `width` bits (32 or 128), and writes the table's XG_TREE_WORDS
// words to `table`. Of equal prefixes the first one in `prefixes` counts. Time and memory grow with their
// number: some 0.2 us and 20 bytes each where they are many. Fails with half a sentence ("its prefixes need
// ...") where the image would grow beyond kImageMaxWords; `image` is then not usable.
Result<void> append_prefix_tree(std::vector<TreePrefix> prefixes, u32 width, std::vector<u32>& image,
                                u32* table);

}  // namespace xdpgpu::gpu
