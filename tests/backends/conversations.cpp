// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>

#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {
namespace {

using Bytes = std::vector<u8>;

void put(Bytes& to, std::span<const u8> bytes) {
  for (const u8 byte : bytes) to.push_back(byte);
}
void put(Bytes& to, std::initializer_list<u8> bytes) { put(to, std::span(bytes.begin(), bytes.size())); }
void put16(Bytes& to, u32 value) { put(to, {static_cast<u8>(value >> 8), static_cast<u8>(value)}); }
void put32(Bytes& to, u32 value) {
  put16(to, value >> 16);
  put16(to, value);
}

// Two hosts and what they talk about.
struct Talk {
  bool v6 = false;
  std::array<u8, 2> hosts{};
  std::array<u16, 2> ports{};
  u8 protocol = 6;
  bool mapped = false;  // IPv6 addresses that stand for IPv4 ones
};

Talk random_talk(Random& random) {
  Talk talk;
  talk.v6 = random.one_in(4);
  talk.mapped = random.one_in(32);
  const u32 hosts = random.one_in(4) ? 64 : 2;
  talk.hosts = {static_cast<u8>(random.below(hosts)), static_cast<u8>(random.below(hosts))};
  talk.ports = {static_cast<u16>(random.between(1000, 1001)),
                static_cast<u16>(random.pick(std::array{53, 1001}))};
  const u8 icmp = talk.v6 ? 58 : 1;
  talk.protocol = random.pick(std::array<u8, 10>{6, 6, 6, 6, 6, 17, 17, icmp, icmp, 132});
  return talk;
}

void put_address(Bytes& to, const Talk& talk, u32 end) {
  const Bytes v4{10, 0, 0, talk.hosts[end]};
  Bytes v6{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, talk.hosts[end]};
  if (talk.mapped) v6 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, talk.hosts[end]};
  const Bytes& address = talk.v6 ? v6 : v4;
  put(to, address);
}

// from: the end that sends it.
Bytes ip_packet(const Talk& talk, u32 from, const Bytes& l4) {
  Bytes packet;
  if (talk.v6) {
    packet = {0x60, 0, 0, 0};
    put16(packet, static_cast<u32>(l4.size()));
    put(packet, {talk.protocol, 64});
  } else {
    packet = {0x45, 0};
    put16(packet, static_cast<u32>(20 + l4.size()));
    put(packet, {0, 0, 0, 0, 64, talk.protocol, 0, 0});
  }
  put_address(packet, talk, from);
  put_address(packet, talk, 1 - from);
  put(packet, l4);
  return packet;
}

u8 tcp_flags(Random& random) {
  if (random.one_in(16)) return static_cast<u8>(random.below(256));
  return random.pick(
      std::array<u8, 12>{0x02, 0x02, 0x12, 0x12, 0x10, 0x10, 0x10, 0x18, 0x18, 0x11, 0x11, 0x04});
}

// Near to where the end's numbers are: a few segments on, or nowhere near. One end's come round.
u32 number_of(Random& random, u32 end, bool first) {
  const u32 begin = end == 0 ? 0xffffff00 : 5000;
  if (random.one_in(16)) return static_cast<u32>(random.bits());
  if (first) return begin;
  return begin + 1 + random.pick(std::array<u32, 8>{0, 0, 0, 20, 40, 500, 3000, 66'100});
}

// Twelve bytes: with a window scale, without, or garbled.
Bytes scale_options(Random& random) {
  Bytes options{2, 4, 5, 0xb4, 1, 3, 3, static_cast<u8>(random.below(16)), 1, 1, 1, 0};
  if (random.one_in(4)) options[random.below(12)] = static_cast<u8>(random.below(5));
  return options;
}

Bytes l4_of(Random& random, const Talk& talk, u32 from) {
  Bytes l4;
  if (talk.protocol == 1 || talk.protocol == 58) {
    const u8 request = talk.v6 ? 128 : 8;
    const u8 reply = talk.v6 ? 129 : 0;
    const u8 other = talk.v6 ? 135 : 13;
    l4 = {
        random.pick(std::array<u8, 9>{request, request, request, request, reply, reply, reply, reply, other}),
        0, 0, 0};
    put16(l4, talk.ports[0]);
    put16(l4, random.below(4));
    return l4;
  }
  put16(l4, talk.ports[from]);
  put16(l4, talk.ports[1 - from]);
  if (talk.protocol == 17) {
    put16(l4, 16);
    l4.resize(16, 0);
  } else if (talk.protocol == 6) {
    const u8 flags = tcp_flags(random);
    put32(l4, number_of(random, from, (flags & 2) != 0));
    put32(l4, number_of(random, 1 - from, false));
    const bool options = (flags & 2) != 0 && !random.one_in(3);
    put(l4, {static_cast<u8>(options ? 0x80 : 0x50), flags});
    put16(l4, random.pick(std::array<u16, 4>{0, 40, 1000, 0xffff}));
    put(l4, {0, 0, 0, 0});
    if (options) put(l4, scale_options(random));
  } else {
    l4.resize(24, 0);
  }
  l4.resize(l4.size() + random.below(40), 0x5a);
  return l4;
}

// An ICMP error about a packet of the talk, sent by one of its ends or by a third party.
Bytes error_about(Random& random, const Talk& talk) {
  Talk report = talk;
  report.protocol = talk.v6 ? 58 : 1;
  if (random.one_in(2)) report.hosts[0] = static_cast<u8>(random.below(8));
  const u8 type =
      talk.v6 ? random.pick(std::array<u8, 4>{1, 2, 3, 4}) : random.pick(std::array<u8, 5>{3, 4, 5, 11, 12});
  Bytes l4{type, 0, 0, 0, 0, 0, 0, 0};
  const u32 from = random.below(2);
  Bytes quote = ip_packet(talk, from, l4_of(random, talk, from));
  if (random.one_in(8)) quote[random.below(static_cast<u32>(quote.size()))] ^= 0x11;
  if (random.one_in(4)) quote.resize(random.below(static_cast<u32>(quote.size())));
  put(l4, quote);
  return ip_packet(report, 0, l4);
}

Bytes frame_of(Random& random) {
  const Talk talk = random_talk(random);
  const u32 from = random.below(2);
  const Bytes packet =
      random.one_in(8) ? error_about(random, talk) : ip_packet(talk, from, l4_of(random, talk, from));
  Bytes frame(12, 0x02);
  if (random.one_in(8)) {
    if (random.one_in(3)) put(frame, {0x88, 0xa8, 0, 10});
    put(frame, {0x81, 0, 0xa0, random.pick(std::array<u8, 3>{0, 10, 20})});
  }
  put16(frame, talk.v6 ? 0x86dd : 0x0800);
  put(frame, packet);
  if (random.one_in(32)) frame[random.between(12, static_cast<u32>(frame.size()) - 1)] ^= 0x20;
  if (random.one_in(32)) frame.resize(random.between(14, static_cast<u32>(frame.size())));
  return frame;
}

constexpr u64 kMillisecond = 1'000'000;

u64 random_pause_ns(Random& random) {
  if (random.one_in(1024)) return random.below(3'600'000) * kMillisecond;
  if (random.one_in(128)) return random.below(60'000) * kMillisecond;
  return random.one_in(2) ? random.below(1000) : random.below(40) * kMillisecond;
}

}  // namespace

Traffic conversations(Random& random, u32 packets, u32 pipelines) {
  Traffic traffic = random_traffic(random, packets, pipelines);
  u64 now_ns = 3'600'000'000'000;
  for (u32 i = 0; i < packets; i++) {
    const u64 offset = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
    if (!random.one_in(8)) {
      const u32 flags = traffic.descriptors[i].flags;
      traffic.descriptors[i] =
          place(traffic.region, offset, frame_of(random), static_cast<u16>(random.below(pipelines)), i);
      traffic.descriptors[i].flags = flags;
    }
    if (random.one_in(3)) {
      u8* const flags = traffic.region.base() + offset - XG_METADATA_SIZE + offsetof(xg_metadata, flags);
      flags[1] |= XG_PKT_EGRESS >> 8;
    }
    now_ns += random_pause_ns(random);
    const u64 seen_ns = random.one_in(16) ? now_ns - random.below(500) * kMillisecond : now_ns;
    // What is elsewhere in its chunk is hostile traffic, with whatever time it has.
    std::memcpy(traffic.region.base() + offset - XG_METADATA_SIZE + offsetof(xg_metadata, rx_time_ns),
                &seen_ns, sizeof(seen_ns));
  }
  return traffic;
}

}  // namespace xdpgpu::tests
