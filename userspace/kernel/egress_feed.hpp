// SPDX-License-Identifier: MIT
//
// userspace/kernel/egress_feed.hpp: the tc program that shows user space what the host sends out of a port
// (maps/egress.h). It may be put on and taken off while the port is attached.
#pragma once

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

class EgressFeed {
 public:
  // link: as a BPF link (tcx, Linux 6.6), which goes with the process. filter: as a filter of the clsact
  // qdisc, which is made where there is none, and taken away with the feed if nobody else has come to use it.
  enum class How { link_or_filter, link, filter };

  // In the network namespace of the calling thread. Nothing stays if it fails.
  static Result<std::unique_ptr<EgressFeed>> attach(const std::string& ifname, u32 ifindex,
                                                    const PortMaps& maps, How how = How::link_or_filter);
  ~EgressFeed();
  EgressFeed(const EgressFeed&) = delete;
  EgressFeed& operator=(const EgressFeed&) = delete;

  // Removes the filter of a process that died, and the qdisc if it is the last one's; whether there was one.
  // (A link has gone with its process.)
  static bool remove_leftover(u32 ifindex);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit EgressFeed(std::unique_ptr<Impl> impl);
};

}  // namespace xdpgpu::kernel
