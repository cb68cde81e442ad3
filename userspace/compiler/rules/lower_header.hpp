// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/lower_header.hpp: what stands in front of a rule's options, as a signature has it.
#pragma once

#include <span>

#include "gpu/signatures.hpp"
#include "userspace/compiler/rules/header.hpp"

namespace xdpgpu::rules {

// What is left out is taken out.
gpu::signatures::Addresses lower_addresses(const Addresses& addresses);
// Those that are in one of them.
gpu::signatures::Addresses united(std::span<const gpu::signatures::Addresses> some);
// Of a protocol that is no application's but DNS, over UDP, nor "pkthdr".
gpu::signatures::Header lower_header(const Header& header);

}  // namespace xdpgpu::rules
