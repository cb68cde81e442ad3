// SPDX-License-Identifier: MIT
//
// userspace/control/kept_policy.hpp: the policy that was applied last, as the broker keeps it for the next
// data plane, should this one die: text and files in memory that the broker made, and that it never looks
// into; with what was changed of its lists since.
#pragma once

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/broker_calls.hpp"

namespace xdpgpu::control {

struct KeptPolicy {
  compiler::PolicySource source;
  bool audit = false;
  gpu::NameChanges names{};
};

// The data plane's: hands the policy to the broker. Waits for its answers.
Result<void> keep_policy(BrokerCalls& broker, const compiler::CompiledPolicy& policy,
                         const gpu::NameChanges& names);
// The next data plane's: reads what is in that memory. Whatever stands there, it is read or refused.
Result<KeptPolicy> read_kept_policy(const kernel::Fd& memory);
// The broker's: memory of so many bytes, which neither shrinks nor grows.
Result<kernel::Fd> make_policy_memory(u32 bytes);

}  // namespace xdpgpu::control
