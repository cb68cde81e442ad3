// SPDX-License-Identifier: MIT
//
// gpu/stages/load_balance/maglev.hpp: Maglev's consistent hashing (Eisenbud et al., "Maglev: A Fast and
// Reliable Software Network Load Balancer", NSDI 2016, section 3.4): a lookup table in which every backend
// has a share of the entries by its weight, and which changes little beside a backend's own entries when that
// backend comes or goes.
//
// Each backend fills the table along a permutation of its own. Permutation and order of turns hang on the
// backends' names alone, so two tables of the same backends are the same, whatever the order in which they
// are named.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu {

inline constexpr u32 kMinMaglevTable = 251;
inline constexpr u32 kMaxMaglevTable = 1'048'573;  // the largest prime below 2^20
inline constexpr u32 kMaglevTable = 65'537;

bool is_prime(u32 number);

struct MaglevBackend {
  std::string_view name;  // of its own
  u32 weight = 1;         // of turns at filling the table; 0: none
};

// What a backend is known by, whatever other backends there are.
u64 backend_id(std::string_view name);

// Positions in `backends` (at most 65,535, one at least with a weight), `size` of them: a prime. A backend's
// number of entries differs from its share by weight by no more than there are backends.
std::vector<u16> maglev_table(std::span<const MaglevBackend> backends, u32 size);

}  // namespace xdpgpu::gpu
