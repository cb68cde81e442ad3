// SPDX-License-Identifier: MIT
//
// bench/throughput/sender.hpp: senders that are not ours, which hold a rate by busy waiting: tcpreplay, and
// the kernel's pktgen where its module is loaded.
#pragma once

#include <functional>
#include <memory>
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

class Sender {
 public:
  virtual ~Sender() = default;
  // rate: frames a second, 0: as many as it can. Rate times seconds of them, or fewer if it does not hold the
  // rate. seen: captures at the sender's interface see them. Throws lab::Error.
  virtual Sent send(double rate, double seconds, bool seen, const Check& check) const = 0;
  // Of its frame: its place among all of them, or among those that go round and round.
  virtual u32 number_of(const lab::Frame& frame) const = 0;
};

// What is sent: UDP over IPv4, `ports` ports in turn.
struct Stream {
  lab::Mac source{}, destination{};
  std::string from, to;
  u16 first_port = 0, ports = 0, to_port = 0;
  unsigned bytes = 60;  // without the FCS
};

// Core 0's thread of pktgen. Throws lab::Error where the kernel has none.
std::unique_ptr<Sender> pktgen(const lab::Interface& interface, const Stream& stream);

class Replay final : public Sender {
 public:
  // The frames are sent round and round out of the interface. Throws lab::Error where there is no tcpreplay.
  Replay(const lab::Interface& interface, const std::vector<lab::Frame>& frames);

  Sent send(double rate, double seconds, bool seen, const Check& check) const override;
  // The first word behind the headers.
  u32 number_of(const lab::Frame& frame) const override;

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
