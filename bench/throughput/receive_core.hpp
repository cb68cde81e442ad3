// SPDX-License-Identifier: MIT
//
// bench/throughput/receive_core.hpp: on which core an interface receives.
#pragma once

#include "tests/netns/lab.hpp"

namespace xdpgpu::throughput {

// What comes in on the interface, which is a veth with GRO, is received on a core of its own: by a thread of
// the kernel (threaded NAPI) that goes before programs there, as a network card's interrupts do. Without
// this, veth receives on the core of who sends. Until the interface goes. Throws lab::Error.
void receive_on(const lab::Interface& interface, const lab::Interface& far_end, int cpu);

}  // namespace xdpgpu::throughput
