// SPDX-License-Identifier: MIT
//
// userspace/kernel/names.hpp: under which names an attach's pins, control socket, notes and lock are found.
// Interfaces' names are a network namespace's, so each namespace has folders of its own:
//
//   /sys/fs/bpf/xdpgpu/eth0/                     /run/xdpgpu/eth0.sock            in the host's
//   /sys/fs/bpf/xdpgpu/netns-4026532177-4101/eth0/   /run/xdpgpu/netns-4026532177-4101/eth0.sock   in another
//
// Nothing here looks whether anything is there, or makes it.
#pragma once

#include <string>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::kernel::names {

// A network namespace as these names have it. Empty: the host's initial one. Another one's is
// "netns-INODE-COOKIE": the inode that "lsns -t net" and /proc/PID/ns/net show, which is used again once the
// namespace is gone, and with it the cookie (SO_NETNS_COOKIE), which never is while the host runs. So nothing
// that is found under it was another namespace's.
using Scope = std::string;

struct NetNamespace {
  u64 inode = 0, cookie = 0;
  bool initial = false;  // the host's first one
  Scope scope;
};
// The process's. Found out at the first call and kept: a process that changes its namespace does so before.
const NetNamespace& own();
inline const Scope& own_scope() { return own().scope; }
// What a command that is told to the operator says after its verb: "eth0", or "eth0 --netns blue" where that
// is how he named the namespace (or has to: without it another eth0 would be meant).
std::string operand(const std::string& ifname, const Scope& scope = own_scope());
// How he did; for main alone, ahead of everything else.
void remember_netns(const std::string& name);
// How he did, or empty.
const std::string& remembered_netns();

// Those that something of other namespaces is left or in use under, by their folders; maybe the initial
// one's.
std::vector<Scope> other_scopes();

// Folders.
std::string pin_root(const Scope& scope = own_scope());
std::string run_root(const Scope& scope = own_scope());
// The BPF filesystem takes no dots in names, and interfaces' names have no colons: eth0.10 is eth0:10 there.
std::string pin_folder(const std::string& ifname, const Scope& scope = own_scope());
// The other way round, from the folder's last part; empty where it is no interface's.
std::string pinned_interface(const std::string& folder);

// Files.
std::string socket(const std::string& ifname, const Scope& scope = own_scope());
std::string note(const std::string& ifname, const char* kind, const Scope& scope = own_scope());
std::string lock(const Scope& scope = own_scope());

// The interfaces that have a control socket, in order.
std::vector<std::string> interfaces_with_socket(const Scope& scope = own_scope());
// The interfaces that have pins, in order.
std::vector<std::string> interfaces_with_pins(const Scope& scope = own_scope());

}  // namespace xdpgpu::kernel::names
