// SPDX-License-Identifier: MIT
//
// gpu/states.hpp: the tables of a device's pipelines, handed on from generation to generation. A table lives
// as long as a generation that has it; the next one that has a table of the same identity takes the same
// memory, with what is in it.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

// Memory: the device's own, movable. From one thread at a time.
template <class Memory>
class States {
 public:
  using Held = std::vector<std::shared_ptr<Memory>>;

  // The tables of `pipelines`, in their order: those that live, and new ones by make(spec), which returns a
  // Result<Memory> of spec.words words, as the spec says they are at first. Fails without effect.
  template <class Make>
  Result<Held> take(const Pipelines& pipelines, Make make) {
    std::erase_if(tables_, [](const auto& table) { return table.second.expired(); });
    Held held;
    for (const StateSpec& spec : pipelines.states()) {
      std::weak_ptr<Memory>& known = tables_[spec.identity];
      std::shared_ptr<Memory> table = known.lock();
      if (table == nullptr) {
        Result<Memory> made = make(spec);
        if (!made)
          return tl::unexpected(
              fmt::format("there is no memory for the {} entries of pipeline \"{}\", stage {}: {}",
                          spec.entries, spec.pipeline, spec.stage + 1, made.error()));
        table = std::make_shared<Memory>(*std::move(made));
        known = table;
      }
      held.push_back(std::move(table));
    }
    return held;
  }

 private:
  std::unordered_map<std::string, std::weak_ptr<Memory>> tables_;  // by identity
};

}  // namespace xdpgpu::gpu
