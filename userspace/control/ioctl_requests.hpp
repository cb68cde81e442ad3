// SPDX-License-Identifier: MIT
//
// userspace/control/ioctl_requests.hpp: which requests of ioctl the data plane may make.
//
// A request is a number of 32 bits: the kernel drops the upper half of what a filter sees of it, so that
// only the lower half is looked at here. Most numbers have a type in their second byte, which names a driver,
// and the request's own number in the first. Those of type 'T' are terminals', and one of them types into
// one: none is admitted, but for FIONBIO, which has that type, means any descriptor, and reaches no driver.
#pragma once

#include <string>
#include <vector>

#include "maps/types.h"
#include "userspace/control/seccomp.hpp"

namespace xdpgpu::control {

// Requests whose bits in `mask` are those of `value`.
struct RequestRule {
  u32 mask;
  u32 value;
};

std::vector<RequestRule> admitted_requests(Drivers drivers);
bool is_admitted(u32 request, Drivers drivers);

// The number and its parts: "0xc0384627 (type 'F', nr 0x27, 56 bytes, both ways)".
std::string describe_request(u32 request);

}  // namespace xdpgpu::control
