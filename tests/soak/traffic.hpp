// SPDX-License-Identifier: MIT
//
// tests/soak/traffic.hpp: what goes over the soak's wires: frames of all kinds from a sender a wire, and TCP
// transfers between the two kernels' own stacks on the first wire.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/netns/lab.hpp"

namespace xdpgpu::soak {

// Frames that a host may meet on that wire: TCP with all flags, UDP, ICMP, other protocols, IPv6, fragments,
// one tag and two, 60 to 1,514 bytes, cut off anywhere, and random bytes. The same for the same seed.
std::vector<lab::Frame> frames_of_all_kinds(const lab::Interface& from, const lab::Interface& to,
                                            std::uint64_t seed, std::size_t count);

class Traffic {
 public:
  struct Wire {
    const lab::Interface& from;
    const lab::Interface& to;
  };
  // queues: of each wire. pps: of each sender, the TCP transfers among them; 0: as fast as it can. It begins
  // stopped.
  Traffic(const std::vector<Wire>& wires, std::string tcp_address, unsigned queues, unsigned pps,
          std::uint64_t seed);
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  void go();
  // Returns when nobody sends any more; a TCP transfer comes to its end.
  void pause();

  // Takes a link down and up: a connect that fails meanwhile does not count.
  template <class F>
  void flap(F&& down_and_up) {
    ++flaps_;
    down_and_up();
    ++flaps_;
  }

  std::uint64_t transfers() const { return transfers_; }
  // The first transfer that did not arrive whole, and why; empty: none.
  std::string broken_transfer() const;

 private:
  template <class Step>
  void loop(Step step);
  void send_all_kinds(const Wire& wire, unsigned queues, unsigned pps, std::uint64_t seed);
  void transfer(const lab::Namespace& client, const lab::Namespace& server, const std::string& address,
                unsigned pps);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool going_ = false, ended_ = false;
  unsigned busy_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> transfers_{0};
  std::atomic<std::uint64_t> flaps_{0};  // odd: one is under way
  std::string broken_;
  std::vector<std::thread> threads_;
};

}  // namespace xdpgpu::soak
