// SPDX-License-Identifier: MIT
//
// bench/path/tcp.hpp: how fast one TCP connection between two namespaces is.
#pragma once

#include <string>

#include "tests/netns/lab/namespace.hpp"

namespace xdpgpu::bed {

// Sends zeros from `client` to `address` in `server` for `seconds` and returns Gbit/s as the server
// received them. Two threads, one core each. Throws lab::Error.
double tcp_gbit_per_s(const lab::Namespace& client, const lab::Namespace& server, const std::string& address,
                      double seconds);

}  // namespace xdpgpu::bed
