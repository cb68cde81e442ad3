// SPDX-License-Identifier: MIT
//
// tests/netns/lab.hpp: a laboratory of hosts in network namespaces: what tests and benches build their
// wires from, with nothing but the kernel (no iproute2, ethtool, ping or tcpdump on the host).
//
//   lab::Namespace near("near"), far("far");
//   lab::Veth wire(near, "n0", far, "f0", {.queues = 2});
//   wire.address("10.9.0.1/24", "10.9.0.2/24");
//   wire.up();
//   EXPECT_EQ(lab::ping(far, "10.9.0.1", {.count = 3}).received, 3);
//
// Everything undoes itself. What cannot be built throws lab::Error with one sentence; what a test looks
// at is returned as a value.
#pragma once

#include "tests/netns/lab/frame.hpp"
#include "tests/netns/lab/kernel_state.hpp"
#include "tests/netns/lab/link.hpp"
#include "tests/netns/lab/namespace.hpp"
#include "tests/netns/lab/process.hpp"
#include "tests/netns/lab/taken_over.hpp"
#include "tests/netns/lab/traffic.hpp"
#include "tests/netns/lab/vlan_shim.hpp"
#include "tests/netns/lab/wire.hpp"
