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

namespace xdpgpu::policy {

// The schema with the definitions of today's stages in place of those that it has; everything else stays.
// Fails where `schema` is no JSON.
tl::expected<std::string, std::string> with_stages(std::string_view schema);
// The page: a table for each stage.
std::string stages_page();

}  // namespace xdpgpu::policy
