// SPDX-License-Identifier: MIT
//
// gpu/reference/inner.hpp: what is inside of a packet's tunnel: the reference for gpu/stages/inner.h, which
// says what that is.
#pragma once

#include "gpu/reference/packet.hpp"

namespace xdpgpu::gpu::reference {

// Makes of a packet, read by its outer headers, what the stages of a pipeline with "inner" see. `outer`
// stays.
void look_inside(Packet& packet);

}  // namespace xdpgpu::gpu::reference
