// SPDX-License-Identifier: MIT
//
// bench/throughput/forwarders.hpp: what a program can forward packets by, each in the shortest loop that is
// fair: on one core, in batches of 64 where the interface has batches, and asleep when nothing comes.
#pragma once

#include <memory>

#include "bench/throughput/site.hpp"

namespace xdpgpu::throughput {

// Each throws lab::Error.

// A receive ring of AF_PACKET, its second version: the third one shows packets by the block, which takes a
// timer's time at low rates. Sent by sendmmsg, past the queueing discipline.
std::unique_ptr<Dut> af_packet(const Site& site);
// recvmmsg and sendmmsg on raw AF_PACKET sockets.
std::unique_ptr<Dut> recvmmsg_loop(const Site& site);
// AF_XDP in copy mode, two sockets over one region of frames, under an XDP program of five instructions.
std::unique_ptr<Dut> af_xdp(const Site& site);
// The host forwards, and a rule asks a program about each packet, which accepts it.
std::unique_ptr<Dut> nfqueue(const Site& site);
// The host forwards.
std::unique_ptr<Dut> linux_forwarding(const Site& site);
// `xdpgpu attach` with a policy of one pipeline, `forward`. cached: the kernel keeps each flow's verdict.
std::unique_ptr<Dut> xdpgpu_attached(const Site& site, const std::string& device, bool cached);

// What a router does to a frame (RFC 1812, RFC 1141).
inline void route(u8* frame, const lab::Mac& from, const lab::Mac& to) {
  __builtin_memcpy(frame, to.data(), to.size());
  __builtin_memcpy(frame + 6, from.data(), from.size());
  constexpr std::size_t kTtl = 22, kChecksum = 24;
  --frame[kTtl];
  const u32 sum = (u32{frame[kChecksum]} << 8 | frame[kChecksum + 1]) + 0x100;
  const u32 folded = (sum + (sum >> 16)) & 0xffff;
  frame[kChecksum] = static_cast<u8>(folded >> 8);
  frame[kChecksum + 1] = static_cast<u8>(folded);
}

// A loop in a thread of its own on the core of the device under test, called again and again until this ends.
class Loop {
 public:
  Loop(int cpu, std::function<void()> turn);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};
inline constexpr int kTurnMs = 50;  // a turn without packets takes at most

}  // namespace xdpgpu::throughput
