// SPDX-License-Identifier: MIT
//
// userspace/control/arguments.hpp: what the requests on the control socket bring along, looked at before
// anything is done. An argument that is not of its kind is refused by a sentence, never by an exception, and
// never taken for one that is not there.
#pragma once

#include <string>

#include "userspace/control/flows.hpp"
#include "userspace/control/protocol.hpp"

namespace xdpgpu::control {

// policy.apply
struct ApplyArguments {
  std::string text, file;
  u64 confirm_s = 0;  // 0: in force for good at once
  bool audit = false;
  bool keep_audit = false;  // instead: as it is now
};

Result<ApplyArguments> apply_arguments(const Json& arguments);
Result<bool> detach_keeps(const Json& arguments);  // detach: "keep", false where it is not said
Result<bool> bypass_is_on(const Json& arguments);  // bypass: "on", which has to be said
Result<FlowQuery> flow_query(const Json& arguments);

}  // namespace xdpgpu::control
