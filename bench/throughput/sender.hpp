// SPDX-License-Identifier: MIT
//
// bench/throughput/sender.hpp: a sender that is not ours: tcpreplay, which holds a rate by busy waiting.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "maps/types.h"
#include "tests/netns/lab.hpp"
#include "tests/netns/product.hpp"

namespace xdpgpu::throughput {

struct Sent {
  u64 frames = 0;   // that were to be sent: those that the interface took and those that it refused
  u64 refused = 0;  // that found no place on the wire; tcpreplay offers them again, and they count as lost
  double seconds = 0;
  double rate() const { return seconds > 0 ? static_cast<double>(frames) / seconds : 0; }
};

// Calls `check`, which may throw, while it waits.
using Check = std::function<void()>;

class Replay {
 public:
  // The frames are sent round and round out of the interface. Throws lab::Error where there is no tcpreplay.
  Replay(const lab::Interface& interface, const std::vector<lab::Frame>& frames);

  // rate: frames a second, 0: as many as it can. Rate times seconds of them, or fewer if it does not hold the
  // rate. Throws lab::Error.
  Sent send(double rate, double seconds, const Check& check) const;

 private:
  const lab::Interface& interface_;
  lab::TemporaryFile file_;
  std::string program_;
};

// In the folders of $PATH. Throws lab::Error where there is none.
std::string find_program(const std::string& name);

// Pins the calling thread, and what it starts from now on, to a core; `niceness` is added to its own, where
// that is allowed.
void run_on(int cpu, int niceness = 0);

}  // namespace xdpgpu::throughput
