// SPDX-License-Identifier: MIT
//
// userspace/control/result.hpp: errors of this folder are one sentence for the operator.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace xdpgpu::control {

template <class T>
using Result = tl::expected<T, std::string>;
using Error = tl::unexpected<std::string>;

}  // namespace xdpgpu::control
