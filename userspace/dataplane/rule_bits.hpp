// SPDX-License-Identifier: MIT
//
// userspace/dataplane/rule_bits.hpp: the bits that rules have set on connections and addresses (flowbits,
// xbits, hostbits): of all workers together, for as long as the data plane lives.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>

#include "gpu/rule_source.hpp"

namespace xdpgpu::dataplane {

// Between whom a packet goes, and of which connection. Addresses as signatures::Address has them.
struct Ends {
  u8 version = 0;   // of IP: 4 or 6
  u8 protocol = 0;  // as the metadata have it
  u16 src_port = 0, dst_port = 0;
  u32 connection = 0;  // XG_CONNECTION_*
  gpu::signatures::Address src{}, dst{};
};

// A table of fixed size: an entry is a bit that is set, for one connection, address or pair. Where its set is
// full, the bit that ends first makes room. Its places are drawn by a key of its own, so that nobody who
// sends packets chooses whose bits make room.
class RuleBits {
 public:
  static constexpr u32 kEntries = 1u << 16;
  // Of a bit on a connection, which ends with that one; nobody asks for it any more then.
  static constexpr u32 kConnectionSeconds = 3600;
  // As for Suricata 7.0.10 (host-bit.c), a bit on an address is there until it is unset, toggled, or asked
  // for behind its end; and one that is there is not set anew.

  // Allocates.
  RuleBits();

  // Whether all that these ask for is so. Suricata 7.0.10 goes by whole seconds, and so does this. now_ns: of
  // any clock, always the same one. Any thread; none waits.
  bool hold(std::span<const gpu::RuleBits> bits, const Ends& ends, u64 now_ns) noexcept;
  // Does what they are to do once their rule holds.
  void change(std::span<const gpu::RuleBits> bits, const Ends& ends, u64 now_ns) noexcept;
  // Bits that had to make room before their time.
  u64 forgotten() const noexcept { return forgotten_.load(std::memory_order_relaxed); }

 private:
  static constexpr u32 kWays = 4;
  // A cache line. Each entry has a tag, 0: none, and the last second in which it is set; exchanged as a
  // whole.
  struct alignas(64) Set {
    u64 ways[kWays][2]{};
  };
  u64 hash(const gpu::RuleBits& bits, u64 name, const Ends& ends) const noexcept;
  bool is_set(u64 found, u64 now_s) noexcept;
  void put(u64 found, const gpu::RuleBits& bits, u64 now_s) noexcept;

  const std::array<u64, 2> key_;
  const std::unique_ptr<Set[]> sets_;
  alignas(64) std::atomic<u64> forgotten_{0};
};

}  // namespace xdpgpu::dataplane
