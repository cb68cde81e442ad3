// SPDX-License-Identifier: MIT
//
// userspace/control/leftovers.hpp: what a killed attach left behind, and its removal.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "userspace/control/result.hpp"
#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::control {

// Held while control sockets are made and leftovers removed, so that of two commands at once one goes
// first. A lock (flock) on a file of the network namespace's, which root alone can open: who may open a file
// may lock it. File and folders are made if need be; the file goes with the lock, and a folder when nothing
// is in it.
class RunLock {
 public:
  // Waits so long at most. The error says who holds it. A data plane waits longer for what its broker does
  // under it.
  static constexpr std::chrono::seconds kPatience{10};
  static Result<RunLock> take(std::chrono::milliseconds patience = kPatience,
                              const kernel::names::Scope& scope = kernel::names::own_scope());
  RunLock(RunLock&&) = default;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  RunLock(kernel::Fd file, kernel::names::Scope scope) : file_(std::move(file)), scope_(std::move(scope)) {}
  kernel::Fd file_;
  kernel::names::Scope scope_;
};

enum class Keep { nothing, what_decides };

// Removes what a killed attach left on an interface: XDP program, pins, reinjection pair, changed
// offloads, socket. what_decides: all but the program, the pins and the changed settings, for an attach that
// goes on with them. Returns what was removed, in words; empty: there was nothing. A living process's is
// not touched, and an error, by whatever name it attached the interface; so is what cannot be an interface's
// name.
Result<std::vector<std::string>> remove_leftovers(const std::string& ifname, const RunLock& lock,
                                                  Keep keep = Keep::nothing);

// Where a dead attach of several interfaces left links to this one's control socket, they would lead to
// whoever makes that next: from now on they lead nowhere, as a dead process's.
void orphan_links(const std::string& ifname, const RunLock& lock);

}  // namespace xdpgpu::control
