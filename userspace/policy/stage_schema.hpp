// SPDX-License-Identifier: MIT
//
// userspace/policy/stage_schema.hpp: what config/ says of the stages, of their tables of fields
// (gpu/stages/fields.hpp): their part of policy.schema.json, and the page stages.md.
//
//   build/release/bin/stage-tables config      writes both anew
//
// A test says when they are out of date.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace xdpgpu::policy {

// The schema with the definitions of today's stages in place of those that it has; everything else stays.
// Fails where `schema` is no JSON.
tl::expected<std::string, std::string> with_stages(std::string_view schema);
// A key of a stage. values, usual: what it may be, and is if it is not said; `so` what is to be written as it
// stands.
struct StageField {
  std::string key;  // "rules[].match.src"
  std::string values, usual, says;
  bool needed = false;
};
struct StageText {
  std::string name, about;
  std::vector<StageField> fields;
};
// The stages in words, in their order.
std::vector<StageText> stage_texts();
// The page: a table for each stage.
std::string stages_page();

}  // namespace xdpgpu::policy
