// SPDX-License-Identifier: MIT
//
// userspace/control/plan.hpp: everything about an attach that can be known, and refused, before anything
// is changed.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/attach.hpp"
#include "userspace/control/last_end.hpp"
#include "userspace/control/seccomp.hpp"
#include "userspace/control/server.hpp"
#include "userspace/dataplane/engine.hpp"
#include "userspace/host/interface.hpp"

namespace xdpgpu::control {

struct PlannedPort {
  host::InterfaceFacts facts;
  u32 queues = 1;
  u32 frames_per_queue = 0;
  u64 burst_mbps = 0;  // the line rate that io.burst was taken at; 0: frames_per_queue was said
};

struct Plan {
  std::vector<PlannedPort> ports;
  std::shared_ptr<const compiler::CompiledPolicy> policy;
  host::IoMode mode = host::IoMode::automatic;
  std::vector<std::string> devices;  // at least one
  gpu::DeviceCodes codes;            // for those that this build has no machine code for
  gpu::Frames frames = gpu::Frames::automatic;
  bool standby = true;  // the CPU takes over from a device that fails
  dataplane::EngineOptions engine;
  SeccompMode seccomp = SeccompMode::filter;
  std::optional<ControlGroup> control_group;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;   // what is legal in the policy and likely not meant (notes.hpp)
  std::optional<LastEnd> last_end;  // of the first interface's attach before this one

  std::vector<std::string> interfaces() const;
};

struct Refused {
  int status = 1;  // 2: the command line or the policy is wrong
  std::string sentence;
  Problems problems{};  // of the policy
};

// Reads, checks and compiles; changes nothing on the host.
tl::expected<Plan, Refused> make_plan(const AttachOptions& options);

}  // namespace xdpgpu::control
