// SPDX-License-Identifier: MIT
//
// userspace/control/replay.hpp: a policy's answer to packets from a capture, with no interface. The
// kernel's part runs in the kernel (BPF_PROG_TEST_RUN) where the caller may load programs, else by
// policy/classify; what is inspected goes through the real pipelines on a real device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/result.hpp"

namespace xdpgpu::control {

struct ReplayOptions {
  std::string device = "auto";
  bool kernel = true;  // use the kernel's program where privileges allow
  // Nothing may differ from run to run: limits run by the capture's clock alone, so rules with limits are
  // walked in user space.
  bool repeatable = false;
};

// A rule of the policy's files that alerts.
struct RuleAlert {
  u32 gid = 1, sid = 0, rev = 0, severity = 3;
  std::string signature, category;
  static void fields(auto& self, auto& field) {
    field("gid", self.gid);
    field("signature_id", self.sid);
    field("rev", self.rev);
    field("severity", self.severity);
    field("signature", self.signature);
    field("category", self.category);
  }
};

// What happened to one packet.
struct PacketVerdict {
  u64 number = 0;  // from 1
  u64 time_ns = 0;
  u32 length = 0;            // on the wire
  bool headers_cut = false;  // by the capture: it was judged by what is there
  u32 action = 0;            // XG_PASS, ...
  std::string target;        // interface, for XG_REDIRECT
  u32 kernel_reason = 0;     // XG_KERNEL_*, of the XDP program
  std::string reason;        // "passed by a rule", ...
  std::string rule;          // the policy's rule that decided, or sent it to a pipeline; may be empty
  std::string pipeline;      // when inspected
  std::string stage;         // "stage 1 (load_balance): backend b2", or "end of pipeline web"
  u32 stage_number = 0;      // from 1, of the stage that decided; 0: none did
  std::string stage_kind;    // its "stage", such as "acl"
  // Bytes, where it is passed or sent as a program has changed it.
  std::optional<u32> changed_length;
  // Of the rules that hold for it, the first seven, without those whose thresholds say otherwise.
  std::vector<RuleAlert> alerts;
  bool more_alerts = false;          // more than seven hold
  std::vector<std::string> mirrors;  // pipelines that it was mirrored to; what they say has no effect here
  std::string flow;                  // "10.0.0.1:1234 > 10.0.0.2:80 tcp"
};

class Replay {
 public:
  static Result<std::unique_ptr<Replay>> open(const compiler::CompiledPolicy& policy,
                                              const ReplayOptions& options);
  ~Replay();
  // Takes one Ethernet frame; verdicts come in order, possibly later (batches). original_length: bytes on the
  // wire; where the capture has cut some of them off behind the headers, the packet is judged as if zeros
  // stood there, and where it has cut headers, as if it had been as short. Pipelines see the first
  // XG_PACKET_MAX bytes of a longer frame.
  Result<void> feed(std::span<const u8> frame, u32 original_length, u64 time_ns);
  Result<void> finish();
  // Verdicts that are ready, oldest first.
  std::vector<PacketVerdict> take();

  // "run in the kernel", or "skipped: ..." and why.
  const std::string& kernel_part() const noexcept;
  const std::string& device() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit Replay(std::unique_ptr<Impl> impl);
};

}  // namespace xdpgpu::control
