// SPDX-License-Identifier: MIT
//
// bench/path/tcp.hpp: how fast one TCP connection between two namespaces is.
#pragma once

#include <string>

#include "tests/netns/lab/namespace.hpp"

namespace xdpgpu::bed {

struct Transferred {
  double bytes;       // that the server received
  double gbit_per_s;  // over the time from the first send to the last byte's arrival
};

// Sends zeros from `client` to `address` in `server` for `seconds`. Two threads, one core each. Throws
// lab::Error.
Transferred transfer_tcp(const lab::Namespace& client, const lab::Namespace& server,
                         const std::string& address, double seconds);

}  // namespace xdpgpu::bed
