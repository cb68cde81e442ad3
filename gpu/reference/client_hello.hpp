// SPDX-License-Identifier: MIT
//
// gpu/reference/client_hello.hpp: what a client says first on TLS (gpu/signatures.hpp, "TLS").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace xdpgpu::gpu::reference {

struct ClientHello {
  enum class State : unsigned char { whole, cut, none } state = State::none;
  std::optional<std::string> server_name{};
};
// text: the client's stream, from its first byte on. cut: more of it may make a hello whole.
ClientHello read_client_hello(std::string_view text);

}  // namespace xdpgpu::gpu::reference
