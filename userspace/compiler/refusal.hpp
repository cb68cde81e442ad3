// SPDX-License-Identifier: MIT
//
// userspace/compiler/refusal.hpp: why a policy was not taken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace xdpgpu::compiler {

// What is wrong with a policy, in its parts; where they are not known they are empty. Lines and columns count
// from 1.
struct Problem {
  std::string message;
  std::optional<std::string> file{}, pointer{};
  std::optional<std::uint64_t> line{}, column{};
  static void fields(auto& self, auto& field) {
    field("message", self.message);
    field("file", self.file);
    field("pointer", self.pointer);
    field("line", self.line);
    field("column", self.column);
  }
};
using Problems = std::vector<Problem>;

// Why something was refused: one sentence, and of a policy every problem found: as a sentence, and in its
// parts.
struct Refusal {
  std::string sentence;
  std::vector<std::string> diagnostics{};
  Problems problems{};
  static void fields(auto& self, auto& field) {
    field("sentence", self.sentence);
    field("diagnostics", self.diagnostics);
    field("problems", self.problems);
  }
};

}  // namespace xdpgpu::compiler
