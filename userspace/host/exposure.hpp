// SPDX-License-Identifier: MIT
//
// userspace/host/exposure.hpp: what strangers can reach of this host, and who manages it: what a first policy
// for it has to know. Of the calling process's network namespace.
#pragma once

#include <string>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::host {

struct Exposure {
  std::vector<std::string> uplinks;   // interfaces that default routes leave by
  std::vector<std::string> networks;  // that these are in, as prefixes; none of one address, none link-local
  // What is listened at on other addresses than the loopback's, in ascending order. Of UDP not the ports that
  // the kernel gives to whoever asks for any, nor DHCP's.
  std::vector<u16> tcp_ports, udp_ports;
  std::vector<u16> udp_unsure;  // of those that it gives so: a client's, or a service's (51820, WireGuard)
  bool forwards = false;        // packets of others
};
// What cannot be read is not there.
Exposure look_at_exposure();

// Addresses of other hosts that somebody is logged in from (utmp), each once. A connection alone, which
// anybody can open, is no login.
std::vector<std::string> logged_in_from();

}  // namespace xdpgpu::host
