// SPDX-License-Identifier: MIT
//
// tests/unit/dataplane_routing_packets.hpp: what is retired in dataplane_routing.cpp: datagrams of all kinds,
// and any answers to them, of which some do not fit; and where they stand and go.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <ostream>
#include <vector>

#include "bench/worker/rings.hpp"
#include "maps/encapsulation.h"
#include "maps/flow.h"
#include "tests/unit/dataplane_patches.hpp"
#include "tests/unit/dataplane_random.hpp"
#include "userspace/dataplane/buffers.hpp"
#include "userspace/dataplane/checksum.hpp"
#include "userspace/dataplane/frame_region.hpp"
#include "userspace/dataplane/metadata.hpp"

namespace xdpgpu::dataplane {

inline constexpr u32 kGeneration = 7, kRewrite = 5, kChunks = 2048;

struct Settings {
  u32 seed = 0;
  bool plain = false;  // packets of one buffer, with verdicts that want nothing else done
  bool audit = false, repairs = false, gives = false, published = true;
  u32 ring = 128;
  u32 one_way = 0;  // every verdict has this action
};

inline void PrintTo(const Settings& s, std::ostream* out) {
  *out << s.seed << (s.plain ? " plain" : "") << (s.audit ? " audit" : "") << (s.repairs ? " repairs" : "")
       << (s.gives ? " gives" : "") << (s.published ? " published" : "") << " ring " << s.ring << " way "
       << s.one_way;
}

struct AnyResult {
  xg_result result{};
  xg_edit edit{};
  xg_adjust adjust{};
  bool fits = true;  // it says what is
};

class RoutedPackets {
 public:
  RoutedPackets(Random& random, const Settings& settings) : random_(random), settings_(settings) {}

  // A datagram of a flow that no other one has, its first `readable` bytes; its checksum may want completing.
  // inner: there are so many bytes of IP behind its IP header, with a datagram of their own; 0: not.
  void write(u8* frame, u32 readable, u32 length, u32 port, u32 sequence, u32 inner) {
    u8 bytes[64] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45};
    ++flows_;
    xg_store16(bytes + 16, xg_host16(static_cast<u16>(length - 14)));
    bytes[22] = 64;
    bytes[23] = 17;
    xg_store32(bytes + 26, 0x0000000a | flows_ << 8);
    xg_store32(bytes + 30, 0x010000c0);
    xg_store16(bytes + 24, static_cast<u16>(~ones_sum(bytes + 14, 20)));
    xg_store16(bytes + 34, xg_host16(1000));
    xg_store16(bytes + 36, xg_host16(4000));
    const u16 udp = xg_host16(static_cast<u16>(length - 34));
    xg_store16(bytes + 38, udp);
    if (below(2)) {
      u32 sum = ones_sum(bytes + 26, 8) + udp + xg_host16(17);
      sum = (sum & 0xffff) + (sum >> 16);
      xg_store16(bytes + 40, static_cast<u16>(sum));
    }
    bytes[47] = below(2) ? 1 : 0;  // a DNS query for the root, or no question
    if (inner) {
      bytes[47] = 0;
      bytes[23] = 4;
      xg_store16(bytes + 24, 0);
      xg_store16(bytes + 24, static_cast<u16>(~ones_sum(bytes + 14, 20)));
      const u8 header[20] = {0x45, 0, static_cast<u8>(inner >> 8), static_cast<u8>(inner), 0, 0, 0, 0, 9, 17};
      std::memcpy(bytes + 34, header, sizeof(header));
      xg_store32(bytes + 46, 0x0100a8c0);
      xg_store32(bytes + 50, 0x0200a8c0);
      xg_store16(bytes + 54, xg_host16(1001));
      xg_store16(bytes + 56, xg_host16(4001));
      const u16 inner_udp = xg_host16(static_cast<u16>(inner - 20));
      xg_store16(bytes + 58, inner_udp);
      u32 sum = ones_sum(bytes + 46, 8) + inner_udp + xg_host16(17);
      sum = (sum & 0xffff) + (sum >> 16);
      xg_store16(bytes + 60, below(2) ? static_cast<u16>(sum) : 0x1234);
    }
    std::memcpy(frame, bytes, std::min(readable, 64u));
    for (u32 i = 64; i < readable; ++i) frame[i] = static_cast<u8>(i * 7);
    const xg_hash_keys keys = xg_hash_keys_from(1, 2);
    xg_metadata metadata;
    parse_metadata(frame, readable, length, static_cast<u8>(port), keys, 0, 1, &metadata);
    metadata.generation = kGeneration;
    metadata.sequence = sequence;
    if (settings_.audit && below(2)) metadata.flags |= XG_PKT_AUDIT;
    if (!settings_.plain && below(4) == 0) metadata.flags |= XG_PKT_UNCACHED;
    std::memcpy(frame - XG_METADATA_SIZE, &metadata, sizeof(metadata));
  }

  // Of a packet of so many bytes, in its first buffer and in all; inner: as in write().
  AnyResult any_result(u32 first_length, u32 length, u32 inner) {
    const Settings& s = settings_;
    AnyResult any;
    auto& [result, edit, adjust, fits] = any;
    const u32 action = s.one_way ? s.one_way : s.plain ? 1 + below(4) : below(8);
    result.verdict = XG_VERDICT(action, s.plain ? 1u : below(6), 3u, below(100));
    std::array<u32, 8> noise;
    for (u32& word : noise) word = random_();
    std::memcpy(&edit, &noise[0], sizeof(edit));
    std::memcpy(&adjust, &noise[4], sizeof(adjust));
    edit.sets &= XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC | XG_EDIT_TTL | XG_EDIT_CE;
    if (below(2)) result.flags |= below(3) ? XG_RES_EDIT : XG_RES_SWAP_MACS;
    if (s.published ? below(2) : below(8) == 0) {
      result.flags |= XG_RES_CACHE;
      if (below(2)) result.flags |= XG_RES_PUBLISHED;
      if (below(4) == 0) result.flags |= XG_RES_EVICTED;
    }
    if (s.plain) return any;
    if (below(16) == 0) {
      result.flags |= XG_RES_ADJUST;
      edit.sets &= static_cast<u8>(~XG_EDIT_TTL);
      const u32 number = below(4) ? kRewrite : below(2) ? kRewrite + 1 : XG_REWRITE_HALF + 1;
      adjust = {.popped = 0,
                .pushed = 20,
                .ip_bytes = length - 14 + 20,
                .outer = static_cast<u16>(number),
                .flow_hash = adjust.flow_hash,
                .ether_type = 0x0800,
                .longest = 0};
      fits = !spoil(adjust);
    } else if (inner) {
      result.flags |= XG_RES_ADJUST;
      edit.sets &= static_cast<u8>(~XG_EDIT_TTL);
      adjust = {.popped = 20,
                .pushed = 0,
                .ip_bytes = inner,
                .outer = 0,
                .flow_hash = 0,
                .ether_type = 0x0800,
                .longest = 0};
      fits = !spoil(adjust);
    } else if (below(8) == 0) {
      result.flags |= XG_RES_PATCH;
      if (below(4)) result.flags &= ~(XG_RES_EDIT | XG_RES_SWAP_MACS);
      if (below(8) == 0) result.flags |= XG_RES_ADJUST;
    }
    if (action == XG_DROP && below(16) == 0 && first_length >= 60) {
      result.flags |= XG_RES_TOO_LONG;
      adjust.longest = 1400;
    } else if (action == XG_DROP && below(16) == 0 && first_length >= 60) {
      result.flags |= XG_RES_REFUSED;
    } else if (action == XG_DROP && below(3) == 0) {
      result.flags |= XG_RES_REJECT_SENDER * (1 + below(3));
    }
    return any;
  }

  // What a program may have left of a packet, its first `readable` bytes at `frame`. fits: whether it says
  // what is.
  xg_patch any_patch(const u8* frame, u32 readable, bool& fits) {
    xg_patch patch = dataplane::any_patch(random_, frame, readable);
    fits = below(4) != 0;
    if (!fits) tell(static_cast<Lie>(below(static_cast<u32>(Lie::all))), patch, readable);
    return patch;
  }

  u32 flows() const { return flows_; }

 private:
  u32 below(u32 limit) { return random_() % limit; }
  // Now and then it does not fit the packet then: true.
  bool spoil(xg_adjust& adjust) {
    if (below(4) != 0) return false;
    switch (below(6)) {
      case 0:
        adjust.ip_bytes += 1;
        break;
      case 1:
        adjust.ip_bytes -= 1;
        break;
      case 2:
        adjust.ether_type = adjust.ether_type == 0x0800 ? 0x86dd : 0x0800;
        break;
      case 3:
        (adjust.pushed ? adjust.popped : adjust.pushed) = 20;
        break;
      case 4:
        (adjust.pushed ? adjust.pushed : adjust.popped) += 8;
        break;
      default:
        (adjust.pushed ? adjust.pushed : adjust.popped) = 0xffff;
    }
    return true;
  }

  Random& random_;
  const Settings& settings_;
  u32 flows_ = 0;
};

struct Region {
  Region() : bytes(std::size_t{kChunks} * XG_CHUNK_SIZE + 64) {}
  u8* base() { return bytes.data() + (64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64); }
  std::vector<u8> bytes;
};

// One ring, and the kernel behind it.
struct Wire {
  explicit Wire(u32 size) : tx(size), completion(size), room(size) {}
  bench::MemoryRing<xdp_desc> tx;
  bench::MemoryRing<u64> completion;
  // By the model.
  u32 room;
  std::deque<xdp_desc> expected;  // what stands in the ring
  std::vector<FrameId> sent;      // and is not completed
};

struct Received {
  Buffers packet;
  xg_result result;
  xg_edit edit;
  xg_adjust adjust;
  const xg_patch& patch;
  bool fits;  // it says what is
  u32 port;
};

}  // namespace xdpgpu::dataplane
