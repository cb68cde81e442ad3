// SPDX-License-Identifier: MIT
//
// gpu/prefix_tree_image.hpp: compiles prefixes into the trees of gpu/stages/image.h.
#pragma once

#include "gpu/gpu.hpp"
#include "gpu/large_vector.hpp"
#include "gpu/tree_prefix.hpp"

namespace xdpgpu::gpu {

// Makes room in the image for trees of so many prefixes together; of address space, as memory is taken when
// it is written to. Not needed, but it saves growing step by step.
void make_room_for_trees(u64 prefixes, std::vector<u32>& image);

// Appends the table of one address family, and writes the table's XG_TREE_WORDS words to `table`. Of equal
// prefixes the first one in `prefixes` counts. Time and memory grow with their number: some 0.1 us and 40
// bytes each where they are many. Fails with half a sentence ("its prefixes need ...") where the image would
// grow beyond kImageMaxWords; `image` is then not usable.
Result<void> append_prefix_tree(LargeVector<TreePrefix4> prefixes, std::vector<u32>& image, u32* table);
Result<void> append_prefix_tree(LargeVector<TreePrefix6> prefixes, std::vector<u32>& image, u32* table);

}  // namespace xdpgpu::gpu
