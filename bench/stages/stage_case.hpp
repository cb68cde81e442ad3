// SPDX-License-Identifier: MIT
//
// bench/stages/stage_case.hpp: what a stage is measured with. A stage that is added here gives its cases
// (acl_cases.hpp), and stages.cpp measures and checks them all alike.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::bench {

using Random = std::mt19937_64;
inline u32 below(Random& random, u32 n) { return static_cast<u32>(random() % n); }

// IPv4, TCP or UDP, of which a frame of 64 bytes is made.
struct StagePacket {
  u32 src = 0, dst = 0;  // host order
  u16 src_port = 0, dst_port = 0;
  u8 protocol = 17;
  u8 tcp_flags = 0;
  u16 vlan = 0;  // 0: no tag
};

// The same question put to another library, by CPUs that read the same frames.
struct Peer {
  std::string name;
  // Decides the frames whose metadata and headers these descriptors name. answers: one a frame. From several
  // threads at a time, each with frames of its own.
  using Decide = std::function<void(const u8* base, std::span<const xg_descriptor> frames, u32* answers)>;
  // Gets ready; a sentence where the library is absent or has no room for the case. None: a case before this
  // one has been put to it by that name.
  std::function<gpu::Result<Decide>()> prepare;
  // The answer that stands for a verdict.
  u32 (*answer_of)(u32 verdict) = nullptr;
};

struct StageCase {
  std::string name;     // "acl, 64 rules, mixed"
  std::string against;  // the name of a case whose rate this one's is held against, or none
  double bar = 0;
  std::vector<gpu::StageSettings> stages;
  std::vector<StagePacket> packets;  // frame i is packet i modulo their number
  // What the stages' tables have seen before, besides: more flows than there are frames.
  std::vector<StagePacket> before;
  // The right verdict on a packet, found without what is measured and fast enough for all of them; held
  // against the sequential reference, which is asked about some.
  std::function<u32(const StagePacket&)> verdict;
  std::vector<Peer> peers;
  bool at_once = false;  // also by several queues of the device at the same time
  // Bars for a GPU's rate in the largest batches: against the first peer on one core, and against a plain
  // kernel that reads the same lines and does nothing with them. 0: none.
  double peer_bar = 0;
  double plain_bar = 0;
};

// What header stages and stages with tables are to keep of a plain kernel's rate.
inline constexpr double kHeaderBar = 0.85;
inline constexpr double kTableBar = 0.5;

}  // namespace xdpgpu::bench
