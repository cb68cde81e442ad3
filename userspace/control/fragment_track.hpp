// SPDX-License-Identifier: MIT
//
// userspace/control/fragment_track.hpp: "fragments": "track" in plain C++: what the XDP program does with
// fragments (bpf/fragments.bpf.h), over the same table (maps/fragments.h) and by a clock that is given.
#pragma once

#include <span>
#include <vector>

#include "maps/fragments.h"
#include "userspace/control/decide.hpp"

namespace xdpgpu::control {

// One port's table, of one policy generation. Single-threaded.
class FragmentTrack {
 public:
  FragmentTrack() : buckets_(XG_FRAGMENT_BUCKETS) {}

  // decide(), fragments included that the policy follows. Of a first one in good order it makes what the
  // rules and stages see (xg_track_first), and a later one bears XG_PKT_TRACKED. frame: the packet's first
  // buffer.
  Decision decide(const policy::Tables& tables, std::span<const u8> frame, xg_packet& packet, u64 now_ns,
                  const Conforms& conforms, const WithinRate& within_rate);
  // Was an entry of the last packet's datagram there whose time was over?
  bool outlived() const noexcept { return outlived_; }

 private:
  u32 begin(std::span<const u8> frame, xg_packet& packet, u64 now_ns);

  std::vector<xg_fragment_bucket> buckets_;
  bool outlived_ = false;
};

}  // namespace xdpgpu::control
