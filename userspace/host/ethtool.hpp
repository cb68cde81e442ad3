// SPDX-License-Identifier: MIT
//
// userspace/host/ethtool.hpp: the ethtool requests that the other files of this folder are made of.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "userspace/host/interface.hpp"

namespace xdpgpu::host::ethtool {

// The driver's name, or nothing where the interface has none.
std::optional<std::string> driver(const std::string& ifname);

// Receive queues as the channels say (combined and receive-only); nothing where the driver has no
// channels to tell of.
std::optional<u32> receive_channels(const std::string& ifname);

// The link's speed in Mbit/s; nothing where the driver does not tell it, or the link is down.
std::optional<u32> speed_mbps(const std::string& ifname);

// All offloads by the kernel's name of them; empty where they cannot be read.
std::map<std::string, Offload> offloads(const std::string& ifname);

}  // namespace xdpgpu::host::ethtool
