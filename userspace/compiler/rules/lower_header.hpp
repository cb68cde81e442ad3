// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/lower_header.hpp: what stands in front of a rule's options, as a signature has it.
#pragma once

#include "gpu/signatures.hpp"
#include "userspace/compiler/rules/header.hpp"

namespace xdpgpu::rules {

// Of a protocol that is no application's but DNS, over UDP, nor "pkthdr". What is left out is taken out.
gpu::signatures::Addresses lower_addresses(const Addresses& addresses);
gpu::signatures::Header lower_header(const Header& header);

}  // namespace xdpgpu::rules
