// SPDX-License-Identifier: MIT
//
// userspace/control/last_end.hpp: how an interface's last attach ended, for whoever finds it not attached and
// for the next attach's status. Of the last few dozen attaches, in /run/xdpgpu/ended, until the next boot.
// Written by the broker, and by a detach that removes what was left; never by the data plane.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "userspace/control/fields.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::control {

// why: "SIGTERM from process 1 (systemd)". left: by order, what the kernel decides by stays for the next
// attach. Where it cannot be written it is not known later.
void keep_last_end(const std::vector<std::string>& interfaces, const std::string& why,
                   bool left = false) noexcept;

struct LastEnd {
  std::string at;   // "2026-11-23 19:00:00 UTC"
  std::string why;  // as above
  std::optional<bool> left{};
  static void fields(auto& self, auto& field) {
    field("at", self.at);
    field("why", self.why);
    field("left", self.left);
  }
};

// Nothing where nothing is known.
std::optional<LastEnd> last_end(const std::string& ifname,
                                const kernel::names::Scope& scope = kernel::names::own_scope());
// What is kept is over: another attach begins.
void forget_last_end(const std::string& ifname) noexcept;

// "ended on ...: ..."; empty where nothing is known.
std::string last_end_text(const std::optional<LastEnd>& end);

// "process 1 (systemd)"; of one that has gone its number alone.
std::string name_of_process(pid_t process);

}  // namespace xdpgpu::control
