// SPDX-License-Identifier: MIT
//
// bench/path/bare.hpp: what the pipeline is held against and what drives both: the shortest AF_XDP loops
// there can be, on libxdp alone, under an XDP program of five instructions
// (bpf_redirect_map(xsks, rx_queue_index, XDP_PASS)).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "tests/netns/lab/frame.hpp"
#include "tests/netns/lab/link.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::bed {

// Pins the calling thread.
void pin_to(int cpu);

// A tiny XDP program on an interface, in native mode, until destroyed. To be made and destroyed in the
// interface's namespace.
class TinyProgram {
 public:
  enum class What { pass, redirect_to_sockets };
  TinyProgram(const lab::Interface& interface, What what);
  ~TinyProgram();
  void enter_socket(int fd) const;  // as queue 0's

 private:
  unsigned ifindex_;
  kernel::Fd sockets_, program_;
};

// One socket on a queue with a UMEM of its own (4,096 frames, copy mode, need-wakeup).
class BareSocket;

// Receives on queue 0 in a thread of its own, named "bare-loop", that never sleeps, and drops, or swaps the
// MAC addresses and sends back.
class BareLoop {
 public:
  enum class Action { drop, forward };
  BareLoop(const lab::Interface& interface, Action action, int cpu);
  ~BareLoop();
  std::uint64_t received() const noexcept { return received_.load(std::memory_order_relaxed); }
  std::uint64_t transmitted() const noexcept { return transmitted_.load(std::memory_order_relaxed); }

 private:
  void drop();
  void forward();
  const lab::Namespace& ns_;
  std::unique_ptr<BareSocket> socket_;
  std::unique_ptr<TinyProgram> program_;
  std::atomic<std::uint64_t> received_{0}, transmitted_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// Packets a second, in bursts at equal distances; 0: as fast as one core can.
struct Pace {
  double packets_per_second = 0;
  u32 burst = 64;
};

// Sends `frames` round and round out of a queue of an interface by AF_XDP until stopped. On veth, what one
// end sends out of queue i comes in on the other end's queue i, and is received on the sender's core.
class BareSender {
 public:
  BareSender(const lab::Interface& interface, const std::vector<lab::Frame>& frames, int cpu, u32 queue = 0,
             Pace pace = {});
  ~BareSender();
  void stop();
  std::uint64_t sent() const noexcept { return sent_.load(std::memory_order_relaxed); }

 private:
  void send();
  bool wait_until(std::chrono::steady_clock::time_point due) const;
  const lab::Namespace& ns_;
  std::unique_ptr<BareSocket> socket_;
  std::vector<lab::Frame> frames_;
  Pace pace_;
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace xdpgpu::bed
