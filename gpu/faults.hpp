// SPDX-License-Identifier: MIT
//
// gpu/faults.hpp: a device that breaks when it is told to, for tests of what happens then: all of it is the
// real device, but for what the fault takes away.
//
//   fail:N     the batches from number N on, counted over all queues from 1, come back failed
//   refuse:N   they are not taken: submit() says that the device has failed
//   hang:N     they never come back; what they write is scribbled over for as long as somebody asks
//   lose:N     they are not taken, nor are policies: the device is lost, before batch or policy number N,
//              counted together
//   die:N      the process dies as it hands over batch number N, as by a packet that a stage cannot take
//
// `xdpgpu attach` obeys it in the environment variable XDPGPU_FAULT, and says so.
#pragma once

#include <memory>
#include <string_view>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu {

// The device without queues yet. Fails where the fault is none of the above, with a sentence.
Result<std::unique_ptr<Device>> with_fault(std::unique_ptr<Device> device, std::string_view fault);

}  // namespace xdpgpu::gpu
