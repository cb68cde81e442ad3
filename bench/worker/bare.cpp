// SPDX-License-Identifier: MIT
#include "bench/worker/bare.hpp"

#include <x86intrin.h>

#include <cstring>

#include "bench/rows.hpp"
#include "userspace/dataplane/clock.hpp"

namespace xdpgpu::bench {
namespace {

constexpr u32 kRing = 2048, kChunks = 4096, kBurst = 256, kPart = 64;
constexpr u32 kRounds = 4096;

// Gives the kernel `count` frames.
template <class FrameAt>
void fill(xsk_ring_prod& ring, u32 count, FrameAt&& frame_at) noexcept {
  u32 to = 0;
  while (!xsk_ring_prod__reserve(&ring, count, &to)) continue;
  for (u32 i = 0; i < count; i++) *xsk_ring_prod__fill_addr(&ring, to + i) = frame_at(i);
  xsk_ring_prod__submit(&ring, count);
}

u64 chunk_at(u64 address) noexcept { return dataplane::chunk_of(dataplane::frame_of(address)); }

void recycle(dataplane::Socket& socket) noexcept {
  xsk_ring_cons& rx = socket.receiver.rx;
  u32 from = 0;
  while (const u32 count = xsk_ring_cons__peek(&rx, kPart, &from)) {
    fill(socket.receiver.fill, count,
         [&](u32 i) { return chunk_at(xsk_ring_cons__rx_desc(&rx, from + i)->addr); });
    xsk_ring_cons__release(&rx, count);
  }
}

void swap_and_send(dataplane::Socket& socket, u8* region) noexcept {
  xsk_ring_cons& rx = socket.receiver.rx;
  xsk_ring_cons& completion = socket.transmitter.completion;
  xsk_ring_prod& tx = socket.transmitter.tx;
  u32 from = 0, to = 0;
  if (const u32 done = xsk_ring_cons__peek(&completion, kRing, &from)) {
    fill(socket.receiver.fill, done,
         [&](u32 i) { return chunk_at(*xsk_ring_cons__comp_addr(&completion, from + i)); });
    xsk_ring_cons__release(&completion, done);
  }
  while (const u32 count = xsk_ring_cons__peek(&rx, kPart, &from)) {
    while (!xsk_ring_prod__reserve(&tx, count, &to)) continue;
    for (u32 i = 0; i < count; i++) {
      const xdp_desc packet = *xsk_ring_cons__rx_desc(&rx, from + i);
      u8* const frame = region + packet.addr;
      u8 mac[6];
      std::memcpy(mac, frame, sizeof(mac));
      std::memcpy(frame, frame + sizeof(mac), sizeof(mac));
      std::memcpy(frame + sizeof(mac), mac, sizeof(mac));
      *xsk_ring_prod__tx_desc(&tx, to + i) = packet;
    }
    xsk_ring_prod__submit(&tx, count);
    xsk_ring_cons__release(&rx, count);
  }
}

}  // namespace

double bare_loop(const BareOptions& options, const Clocks& clocks) {
  const Pages region(dataplane::chunk_of(kChunks), options.huge);
  xg_queue_state state{};
  MemoryPort port(kRing, kRing, 0, region.base(), state);
  port.lay(0, kChunks, {.cold = options.cold});
  const auto socket = port.open();
  fill(socket->receiver.fill, kRing, [](u32 i) { return dataplane::chunk_of(i); });
  std::vector<double> ns;
  for (u32 round = 0; round < kRounds; round++) {
    port.send();
    state.granted = state.admitted + kRing;
    const u32 packets = port.receive(kBurst, dataplane::monotonic_ns());
    _mm_lfence();
    const u64 begun = StepClock::ticks();
    if (options.forward)
      swap_and_send(*socket, region.base());
    else
      recycle(*socket);
    _mm_lfence();
    ns.push_back(static_cast<double>(StepClock::ticks() - begun) / (packets * clocks.ticks_a_ns));
  }
  return median(std::move(ns));
}

}  // namespace xdpgpu::bench
