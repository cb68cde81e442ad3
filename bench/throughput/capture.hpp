// SPDX-License-Identifier: MIT
//
// bench/throughput/capture.hpp: frames on an interface with the kernel's timestamps, by libpcap.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "maps/types.h"
#include "tests/netns/lab.hpp"

struct pcap;

namespace xdpgpu::throughput {

struct Seen {
  u64 time_ns;       // CLOCK_REALTIME
  lab::Frame frame;  // its first bytes, as many as were asked for
};

class Capture {
 public:
  enum class Direction { in, out };
  // From now on; `filter`: tcpdump's. The kernel keeps them for some seconds, until they are read. Throws
  // lab::Error.
  Capture(const lab::Interface& interface, Direction direction, const std::string& filter, int bytes);
  // Reads what the kernel shows already.
  void read();
  // All that came, in order, once none comes any more. lost(): those that the buffer could not take.
  std::vector<Seen> take();
  unsigned lost() const;

 private:
  struct Close {
    void operator()(pcap* handle) const;
  };
  std::unique_ptr<pcap, Close> handle_;
  std::vector<Seen> seen_;
};

}  // namespace xdpgpu::throughput
