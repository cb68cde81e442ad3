// SPDX-License-Identifier: MIT
//
// userspace/kernel/cutter.hpp: cuts what generic XDP is shown in frames of several segments, which fit into
// no frame of user space's (bpf/cut.bpf.c, maps/control.h).
#pragma once

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

class Cutter {
 public:
  // For an interface with generic XDP, in the network namespace of the calling thread. most_bytes: of a frame
  // that is not cut. The XDP program sends frames there from then on. Nothing stays if it fails.
  static Result<std::unique_ptr<Cutter>> create(const std::string& ifname, u32 ifindex, u32 queues,
                                                u32 most_bytes, const PortMaps& maps);
  ~Cutter();  // first the XDP program is told
  Cutter(const Cutter&) = delete;
  Cutter& operator=(const Cutter&) = delete;

  bool gone() const noexcept;
  // As Reinjection::mend.
  Result<std::string> mend();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit Cutter(std::unique_ptr<Impl> impl);
};

}  // namespace xdpgpu::kernel
