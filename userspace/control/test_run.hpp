// SPDX-License-Identifier: MIT
//
// userspace/control/test_run.hpp: the real XDP program on packets that come from nowhere
// (BPF_PROG_TEST_RUN): what `replay` asks when it may load programs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "maps/parse.h"
#include "userspace/control/port_control.hpp"
#include "userspace/control/result.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::control {

struct KernelAnswer {
  u32 reason = XG_KERNEL_pass_default;  // XG_KERNEL_*
  std::optional<xg_metadata> metadata;  // when inspected
};

class TestRun {
 public:
  // Loads the program with the policy in force, a live worker with credit for ever, and a socket that
  // nobody reads. Needs privileges; touches no interface and leaves nothing.
  static Result<std::unique_ptr<TestRun>> open(const policy::Tables& tables, u32 generation);
  // A frame of 14 to kMaxFrame bytes. within_rate: whether what has a rate (maps/exempt.h) is within it: the
  // kernel's clock is not the packet's.
  Result<KernelAnswer> run(std::span<const u8> frame, bool within_rate);
  // Takes the packet's datagram out of the program's table of those that are followed.
  Result<void> forget_fragments(const xg_packet& packet);
  // Packets that each compiled rule has counted.
  Result<std::vector<xg_counter>> rule_counters() const;

  static constexpr std::size_t kMinFrame = 14;
  // The longest IP packet in a frame with two tags: captures of hosts that segment late have such.
  static constexpr std::size_t kMaxFrame = 14 + 8 + 65535;

 private:
  TestRun() = default;
  Result<void> put_policy(const policy::Tables& tables, u32 generation);
  void set_rates(bool within_rate);
  Result<void> put_worker();
  Result<void> find_fragments();

  std::unique_ptr<kernel::PortProgram> program_;
  std::optional<PortControl> port_;
  kernel::MapView<xg_queue_state> queue_;
  kernel::Fd socket_;
  kernel::Fd fragments_;  // the program's table
  xg_policy header_{};
  std::vector<u8> out_;
  std::vector<xg_counter> seen_;
};

}  // namespace xdpgpu::control
