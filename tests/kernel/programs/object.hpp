// SPDX-License-Identifier: MIT
//
// tests/kernel/programs/object.hpp: a program as libbpf makes it of an object, for twins.
#pragma once

#include <algorithm>
#include <string>

#include "tests/kernel/programs/twins.hpp"

namespace xdpgpu::test {

struct Object {
  Code code;
  std::vector<Map> maps;
  u32 map(const std::string& name) const {
    const auto at = std::ranges::find(maps, name, &Map::name);
    return at == maps.end() ? ~0u : static_cast<u32>(at - maps.begin());
  }
};

// The first XDP program of it as it is loaded, its maps by number instead of by descriptor. Throws where
// libbpf or the kernel does not take it.
Object read_object(const std::string& path);

}  // namespace xdpgpu::test
