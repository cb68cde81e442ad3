// SPDX-License-Identifier: MIT
//
// tests/netns/control_socket.hpp: the control socket as somebody else's program would use it: one JSON line
// out, one back (userspace/control/protocol.hpp). Quicker than a process a request.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace xdpgpu::lab {

// The answer to a request whose members besides "request" are `arguments`; `files`, contents by name, follow
// it. Throws Error where no answer comes within `timeout`.
nlohmann::json ask(const std::string& ifname, const std::string& request,
                   nlohmann::json arguments = nlohmann::json::object(),
                   const std::map<std::string, std::string>& files = {},
                   std::chrono::milliseconds timeout = std::chrono::seconds(30));

// Clients that connect and give up at once until there is no room for another: a process that is stuck
// (SIGSTOP) keeps them in its socket's queue. How many there were; throws Error where the process takes them.
unsigned fill_queue(const std::string& ifname);

}  // namespace xdpgpu::lab
