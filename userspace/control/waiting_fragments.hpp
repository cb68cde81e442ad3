// SPDX-License-Identifier: MIT
//
// userspace/control/waiting_fragments.hpp: "fragments": "reassemble" for `replay`: fragments wait as they do
// at a worker (dataplane/reassembler.hpp), in frames of their own and by the capture's clock.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "userspace/dataplane/frame_region.hpp"
#include "userspace/dataplane/reassembler.hpp"

namespace xdpgpu::control {

// As `status` has it.
const char* words_of(dataplane::Unassembled why);

class WaitingFragments {
 public:
  explicit WaitingFragments(dataplane::Overlapping ipv4);

  // Takes a followed fragment, which is known by `number` from then on. False: it is a datagram of its own.
  bool take(std::span<const u8> frame, const xg_metadata& metadata, std::size_t number);
  void expire(u64 now_ns) { reassembler_.expire(now_ns); }
  // Nothing comes any more.
  void abandon() { reassembler_.abandon(); }

  // Those that are dropped by now, and why.
  std::vector<std::pair<std::size_t, dataplane::Unassembled>> take_dropped();
  struct Whole {
    std::vector<u8> frame;
    xg_metadata metadata{};
    std::vector<std::size_t> fragments;  // their numbers, in the order in which they came
  };
  std::optional<Whole> take_whole();

 private:
  std::vector<u8> region_;
  dataplane::FreeList free_;
  dataplane::Reassembler reassembler_;
  dataplane::Overlapping ipv4_;
  std::map<dataplane::FrameId, std::size_t> numbers_;  // by a packet's last frame
};

}  // namespace xdpgpu::control
