// SPDX-License-Identifier: MIT
//
// userspace/policy/stage_writer.hpp: a pipeline's stage as JSON, by the stage's table of fields
// (gpu/stages/fields.hpp).
#pragma once

#include <nlohmann/json.hpp>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// What read_stage makes the same stage of: every setting that counts written out.
nlohmann::ordered_json write_stage(const Stage& stage, const std::string& description);

// A number of bytes: a string where write_bytes() has a unit.
nlohmann::ordered_json write_size(u64 bytes);

// Values of conditions: one stands alone, several in an array.
nlohmann::ordered_json one_or_more(nlohmann::ordered_json values);
nlohmann::ordered_json write_protocols(const std::vector<u8>& protocols);
nlohmann::ordered_json write_port_range(u16 first, u16 last);
nlohmann::ordered_json write_vlan_range(u16 first, u16 last);

}  // namespace xdpgpu::policy
