// SPDX-License-Identifier: MIT
//
// userspace/manual/policy_page.hpp: the page xdpgpu-policy(5), from the texts of config/policy.schema.json
// and of the stages' tables of fields.
#pragma once

#include <string>

namespace xdpgpu::manual {

// schema: policy.schema.json; example: a policy that is shown as it is, in ASCII. Throws std::runtime_error
// where the schema says something that the page would not tell.
std::string policy_page(const std::string& schema, const std::string& example, const std::string& date);

}  // namespace xdpgpu::manual
