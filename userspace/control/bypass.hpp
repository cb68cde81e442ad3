// SPDX-License-Identifier: MIT
//
// userspace/control/bypass.hpp: the command `bypass`, which an operator needs most when nothing else works.
#pragma once

#include <optional>
#include <string>

#include "maps/types.h"
#include "userspace/control/fields.hpp"
#include "userspace/control/result.hpp"

namespace xdpgpu::control {

struct Bypassed {
  bool bypass = false;   // every packet passes
  bool by_pins = false;  // the process did not answer, and only the one interface's XDP program was told
  std::optional<u64> ends_in_s{};
  static void fields(auto& self, auto& field) {
    field("bypass", self.bypass);
    field("by_pins", self.by_pins);
    field("ends_in_s", self.ends_in_s);
  }
};

// Has the XDP programs of the interface's process pass every packet, or go by the policy again. Where the
// process has not answered for two seconds, or is dead, stores it into the interface's pinned map `config`,
// which root alone can. for_s: the process ends it after so long; where it does not answer nothing is
// changed, as nobody would.
Result<Bypassed> set_bypass(const std::string& ifname, bool on, std::optional<u64> for_s = {});

}  // namespace xdpgpu::control
