// SPDX-License-Identifier: MIT
//
// userspace/control/offloads.hpp: the receive offloads that must be off while attached, and their way
// back. What was switched is written to <ifname>.offloads beside the control socket first, so that a killed
// attach's changes can be undone by the next command.
#pragma once

#include <string>
#include <vector>

#include "userspace/control/result.hpp"
#include "userspace/host/interface.hpp"

namespace xdpgpu::control {

class OffloadGuard {
 public:
  // Switches off what hides or merges packets before XDP (rxvlan, lro, rx-gro-hw), where it is on, and takes
  // over what a dead attach switched off. On failure nothing stays changed. Needs no change of what merges
  // packets where an XDP program is on already: its driver sees to that.
  static Result<OffloadGuard> switch_off(const host::InterfaceFacts& facts);
  OffloadGuard() = default;
  OffloadGuard(OffloadGuard&& other) noexcept;
  OffloadGuard& operator=(OffloadGuard&& other) noexcept;
  OffloadGuard(const OffloadGuard&) = delete;
  OffloadGuard& operator=(const OffloadGuard&) = delete;
  ~OffloadGuard();  // switches on again
  void restore() noexcept;
  void rename(const std::string& ifname);  // the interface has another name
  // As they are, for a later attach to take over.
  void leave() noexcept { ifname_.clear(), switched_.clear(); }

  const std::vector<std::string>& switched() const noexcept { return switched_; }

 private:
  std::string ifname_;
  std::vector<std::string> switched_;
};

// What a dead attach switched off, switched on again; their names.
std::vector<std::string> restore_offloads(const std::string& ifname);

}  // namespace xdpgpu::control
