// SPDX-License-Identifier: MIT
//
// userspace/dataplane/host_rules.hpp: what of rules no device decides (gpu::signatures::HostPart), asked of
// packets of which one has said that all else that the rule asks for holds.
//
//   const HostPacket packet(metadata, frame, pipeline.inner);
//   for (const gpu::RuleHead* rule : those_that_the_device_names)
//     if (rule->rest == nullptr || holds(*rule->rest, packet, scratch)) ...
#pragma once

#include <span>
#include <vector>

#include "gpu/reference/signature.hpp"
#include "maps/packet.h"
#include "userspace/dataplane/alert_rules.hpp"
#include "userspace/dataplane/deferred_packets.hpp"
#include "userspace/expressions/expressions.hpp"

namespace xdpgpu::dataplane {

using gpu::signatures::HostPart;

// What a thread matches expressions with. It takes all its memory when it is made.
class ExpressionScratch {
 public:
  // Before each packet.
  void begin() noexcept { finder_.begin(); }
  // Whether this packet has taken all that it may: what was not found may be there.
  bool is_spent() const noexcept { return finder_.is_spent(); }
  // Packets of which an expression has reached a limit, and was taken for one that does not match.
  u64 limits_reached() const noexcept { return finder_.limits_reached(); }

 private:
  friend bool holds(const HostPart& part, const class HostPacket& packet, ExpressionScratch& scratch);
  expressions::Finder finder_;
};

// A packet as rules see it, read once for all of them. Has a copy of its bytes, at most XG_PACKET_MAX.
class HostPacket {
 public:
  // frame: all of it, one byte behind the other, as it came. inside: of a pipeline with "inner". Allocates.
  HostPacket(const xg_metadata& metadata, std::span<const u8> frame, bool inside);

 private:
  friend bool holds(const HostPart& part, const HostPacket& packet, ExpressionScratch& scratch);
  gpu::reference::SignaturePacket seen_;
};

// Whether the rest of a rule holds for a packet for which its signature holds. Takes microseconds, but of a
// packet that is made for it up to what the limits let it (userspace/expressions/expressions.hpp).
bool holds(const HostPart& part, const HostPacket& packet, ExpressionScratch& scratch);

// The same of a frame by itself, whose headers are read anew.
bool holds(const HostPart& part, std::span<const u8> frame, ExpressionScratch& scratch);

// What is known of the rests of rules that hold for a packet as far as the device can tell: those that were
// not asked any more as the packet took too long are `unasked`. frame: as HostPacket has it. Without memory
// for it none is asked.
AlertRules::Rests ask_rests(const AlertRules::Pipeline& pipeline, const xg_alerts& hold,
                            const xg_metadata& metadata, std::span<const u8> frame,
                            ExpressionScratch& scratch) noexcept;

// Asks for the rest of rules.
class HostAsker final : public RuleAsker {
 public:
  AlertRules::Rests ask(const AlertRules::Pipeline& pipeline, const xg_alerts& hold,
                        const xg_metadata& metadata, std::span<const u8> packet) noexcept override {
    return ask_rests(pipeline, hold, metadata, packet, scratch_);
  }
  u64 bounds_reached() const noexcept override { return scratch_.limits_reached(); }

 private:
  ExpressionScratch scratch_;
};

}  // namespace xdpgpu::dataplane
