// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace xdpgpu::dataplane {

// The error is one sentence for the operator.
template <class T>
using Result = tl::expected<T, std::string>;

}  // namespace xdpgpu::dataplane
