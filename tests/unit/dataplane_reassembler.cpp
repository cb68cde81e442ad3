// SPDX-License-Identifier: MIT
//
// Fragments that wait until their datagram is whole: what it looks like then, what is dropped for which
// reason, and where the frames are.
#include "userspace/dataplane/reassembler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "maps/encapsulation.h"
#include "tests/kernel/frame.hpp"
#include "tests/unit/dataplane_random.hpp"
#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {
namespace {

using namespace xdpgpu::test;  // frames
using enum Unassembled;

constexpr u64 kNow = 5'000'000'000;
constexpr u32 kChunks = 96, kMayWait = 64;

struct Part {
  u32 start, end;
  bool more;
};

// What a datagram is made of: its headers, and the bytes behind them.
struct Datagram {
  u8 family = 4;
  u32 id = 7;
  std::string src = "192.0.2.1";
  std::vector<u16> vlans = {};
  bool extensions = false;  // IPv6: in front of the fragment header, and behind it
  Frame payload = {};       // with its transport header

  Frame fragment(const Part& part, std::optional<u8> filled = {}) const {
    Frame piece(payload.begin() + part.start, payload.begin() + part.end);
    if (filled) std::fill(piece.begin() + (part.start ? 0 : 16), piece.end(), *filled);
    if (family == 4) {
      const auto field = static_cast<u16>(part.start / 8 | (part.more ? 0x2000u : 0u));
      return ethernet(vlans) + ipv4({.src = src, .id = static_cast<u16>(id), .fragment = field}, piece);
    }
    const auto field = static_cast<u16>(part.start | (part.more ? 1u : 0u));
    Frame behind = fragment_header(extensions ? 60 : 17, field, id) + piece;
    if (extensions) behind = extension(43) + extension(44, 1) + behind;
    return ethernet(vlans) + ipv6({.next = static_cast<u8>(extensions ? 0 : 44)}, behind);
  }
  Frame whole() const {
    if (family == 4) {
      Frame frame = ethernet(vlans) + ipv4({.src = src, .id = static_cast<u16>(id)}, payload);
      u8* const ip = frame.data() + 14 + 4 * vlans.size();
      u32 sum = 0;
      for (u32 i = 0; i < 20; i += 2) sum += static_cast<u32>(ip[i] << 8 | ip[i + 1]);
      sum = (sum & 0xffff) + (sum >> 16);
      xg_store16(ip + 10, xg_host16(static_cast<u16>(~sum)));
      return frame;
    }
    if (!extensions) return ethernet(vlans) + ipv6({.next = 17}, payload);
    return ethernet(vlans) + ipv6({.next = 0}, extension(43) + extension(60, 1) + payload);
  }
};

// UDP with bytes that tell where they stand.
Frame udp_payload(std::size_t bytes, u32 seed = 1) {
  Frame payload = udp(1000, 53);
  for (std::size_t i = 8; i < bytes; ++i) payload.push_back(static_cast<u8>(i * 7 + i / 256 + seed));
  return payload;
}
// IPv6's first header behind the fragment header belongs to the payload.
Frame with_options(const Frame& udp) { return extension(17) + udp; }

class Reassembling : public testing::Test {
 protected:
  Reassembling()
      : region_(std::size_t{kChunks} * XG_CHUNK_SIZE), reassembler_(region_.data(), kMayWait, {1, 2}) {
    for (u32 i = 0; i < kChunks; ++i) free_.push_back(i);
  }
  ~Reassembling() override {
    EXPECT_EQ(free_.size() + reassembler_.frames(), kChunks);
    EXPECT_EQ(reassembler_.frames(0), reassembler_.frames());
    reassembler_.abandon();
    take_dropped();
    EXPECT_EQ(free_.size(), kChunks);
    EXPECT_EQ(reassembler_.frames(), 0u);
    EXPECT_EQ(reassembler_.packets(0), 0u);
    std::sort(free_.begin(), free_.end());
    for (u32 i = 0; i < kChunks; ++i) EXPECT_EQ(free_[i], i) << "each frame once";
  }

  // In buffers of so many bytes at most.
  void send(const Frame& frame, u64 now_ns = kNow, Overlapping ipv4 = Overlapping::drop, u32 generation = 1,
            std::size_t buffer = XG_FRAME_MAX) {
    std::vector<xg_descriptor> packet;
    for (std::size_t at = 0; at < frame.size(); at += buffer) {
      ASSERT_FALSE(free_.empty());
      const u64 offset = chunk_of(free_.back()) + XG_FRAME_DATA;
      free_.pop_back();
      const std::size_t bytes = std::min(buffer, frame.size() - at);
      std::memcpy(&region_[offset], &frame[at], bytes);
      if (!packet.empty()) packet.back().flags = XG_DESC_MORE;
      packet.push_back({offset, static_cast<u32>(bytes), 0});
    }
    xg_packet parsed;
    xg_parse_part(frame.data(), frame.data() + packet[0].length, static_cast<u32>(frame.size()), 0, &parsed);
    if (!(parsed.flags & XG_PKT_LATER_FRAGMENT)) xg_track_first(&parsed);
    xg_metadata metadata{};
    xg_metadata_from(&metadata, &parsed, 0);
    metadata.generation = generation;
    metadata.rx_time_ns = now_ns;
    metadata.pipeline = 3;
    std::memcpy(&region_[packet[0].offset - XG_METADATA_SIZE], &metadata, sizeof(metadata));
    reassembler_.take(packet, fragment_of(packet, region_.data(), 0), ipv4, now_ns);
    take_dropped();
  }
  void take_dropped() {
    reassembler_.take_dropped([&](const Reassembler::Dropped& one) {
      free_.push_back(frame_of(one.buffer.offset));
      if (!(one.buffer.flags & XG_DESC_MORE)) ++dropped_[one.why];
    });
  }
  // The next whole datagram, as a pipeline sees it.
  std::optional<Frame> whole() {
    if (!reassembler_.any_whole()) return std::nullopt;
    const auto made_of = reassembler_.whole();
    fragments_.assign(made_of.buffers.begin(), made_of.buffers.end());
    const FrameId header = free_.back();
    free_.pop_back();
    std::array<xg_descriptor, XG_PACKET_BUFFERS> packet;
    const u32 count = reassembler_.make(chunk_of(header) + XG_FRAME_DATA, packet);
    EXPECT_EQ(packet[0].offset, chunk_of(header) + XG_FRAME_DATA);
    EXPECT_LE(count, fragments_.size() + 1);
    Frame frame;
    for (u32 i = 0; i < count; ++i) {
      EXPECT_EQ(packet[i].flags, i + 1 < count ? XG_DESC_MORE : 0u);
      EXPECT_GT(packet[i].length, 0u);
      if (i) {
        EXPECT_TRUE(std::any_of(fragments_.begin(), fragments_.end(), [&](const xg_descriptor& one) {
          return packet[i].offset >= one.offset &&
                 packet[i].offset + packet[i].length <= one.offset + one.length;
        })) << "no copy of payload";
      }
      const u8* const at = &region_[packet[i].offset];
      frame.insert(frame.end(), at, at + packet[i].length);
    }
    std::memcpy(&metadata_, &region_[packet[0].offset - XG_METADATA_SIZE], sizeof(metadata_));
    reassembler_.made();
    free_.push_back(header);
    for (const xg_descriptor& one : fragments_) free_.push_back(frame_of(one.offset));
    return frame;
  }
  // Payload of a fragment's frame, as it would be sent on.
  Frame sent_on(std::size_t fragment, u32 headers) const {
    const u8* const at = &region_[fragments_[fragment].offset];
    return {at + headers, at + fragments_[fragment].length};
  }
  using Count = std::map<Unassembled, u32>;

  std::vector<u8> region_;
  std::vector<FrameId> free_;
  Reassembler reassembler_;
  Count dropped_;
  xg_metadata metadata_{};
  std::vector<xg_descriptor> fragments_;
};

std::vector<Datagram> kinds(std::size_t bytes) {
  const Frame payload = udp_payload(bytes);
  return {{.payload = payload},
          {.vlans = {10, 20}, .payload = payload},
          {.family = 6, .payload = payload},
          {.family = 6, .extensions = true, .payload = with_options(payload)}};
}

TEST_F(Reassembling, InAnyOrder) {
  u32 id = 0;
  for (Datagram datagram : kinds(3000)) {
    const auto bytes = static_cast<u32>(datagram.payload.size());
    const std::array<Part, 4> parts{
        {{0, 800, true}, {800, 1600, true}, {1600, 2400, true}, {2400, bytes, false}}};
    std::array<u32, 4> order{0, 1, 2, 3};
    do {
      datagram.id = ++id;
      for (u32 i = 0; i < 4; ++i) {
        EXPECT_EQ(whole(), std::nullopt);
        send(datagram.fragment(parts[order[i]]), kNow + id * 1000 + i);
      }
      EXPECT_EQ(whole(), datagram.whole());
      xg_packet parsed;
      const Frame expected = datagram.whole();
      xg_parse_part(expected.data(), expected.data() + expected.size(), static_cast<u32>(expected.size()), 0,
                    &parsed);
      EXPECT_EQ(metadata_.l4_offset, parsed.l4_offset);
      EXPECT_EQ(metadata_.payload_offset, parsed.payload_offset);
      EXPECT_EQ(metadata_.pipeline, 3u);
      EXPECT_EQ(metadata_.rx_time_ns, kNow + id * 1000 + 3) << "when it was whole";
      EXPECT_TRUE(metadata_.flags & XG_PKT_PORTS && metadata_.flags & XG_PKT_TRACKED);
      EXPECT_EQ(fragments_.size(), 4u);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  EXPECT_EQ(dropped_, Count{});
}

TEST_F(Reassembling, EthernetsPaddingIsNoPayload) {
  const Datagram datagram{.payload = udp_payload(808)};
  send(datagram.fragment({800, 808, false}) + bytes(18, 0xee));
  send(datagram.fragment({0, 800, true}));
  EXPECT_EQ(whole(), datagram.whole());
}

TEST_F(Reassembling, AnOverlapDropsTheDatagram) {
  u32 id = 0;
  const std::vector<Part> overlaps{
      {0, 816, true}, {792, 1608, true}, {800, 1600, true}, {808, 1000, true}, {1592, 2000, false}};
  for (const Overlapping ipv4 : {Overlapping::drop, Overlapping::first})
    for (Datagram datagram : kinds(2000)) {
      if (datagram.family == 4 && ipv4 == Overlapping::first) continue;
      const auto bytes = static_cast<u32>(datagram.payload.size());
      for (const Part& overlap : overlaps) {
        dropped_.clear();
        datagram.id = ++id;
        send(datagram.fragment({800, 1600, true}), kNow, ipv4);
        send(datagram.fragment({overlap.start, overlap.more ? overlap.end : bytes, overlap.more}, u8{0xee}),
             kNow, ipv4);
        EXPECT_EQ(dropped_, (Count{{overlapping, 2}})) << "those that are there";
        send(datagram.fragment({0, 800, true}), kNow, ipv4);
        send(datagram.fragment({800, 1600, true}), kNow, ipv4);
        send(datagram.fragment({1600, bytes, false}), kNow, ipv4);
        EXPECT_EQ(dropped_, (Count{{overlapping, 5}})) << "and those that still come";
        EXPECT_EQ(whole(), std::nullopt);
        EXPECT_EQ(reassembler_.frames(), 0u);
      }
    }
}

// The same bytes at the same place, but in other cuts: receivers differ in what they do about it.
TEST_F(Reassembling, AnOverlapOfTheSameBytesIsOneAllTheSame) {
  const Datagram datagram{.payload = udp_payload(2000)};
  send(datagram.fragment({0, 800, true}));
  send(datagram.fragment({792, 1600, true}));
  EXPECT_EQ(dropped_, (Count{{overlapping, 2}}));
}

TEST_F(Reassembling, TheFirstBytesStandWhereThePolicySaysSo) {
  Datagram datagram{.payload = udp_payload(2000)};
  const std::vector<std::pair<Part, u32>> overlaps{{{800, 1000, true}, 200},
                                                   {{792, 1000, true}, 200},
                                                   {{1000, 1208, true}, 200},
                                                   {{800, 1208, true}, 400},
                                                   {{600, 1400, true}, 400}};
  u32 id = 0;
  for (const auto& [overlap, covered] : overlaps) {
    datagram.id = ++id;
    dropped_.clear();
    send(datagram.fragment({800, 1000, true}), kNow, Overlapping::first);
    send(datagram.fragment({1000, 1200, true}), kNow, Overlapping::first);
    Frame other = datagram.fragment(overlap);
    const u32 headers = 34;
    for (u32 byte = std::max(overlap.start, 800u); byte < std::min(overlap.end, 1200u); ++byte)
      other[headers + byte - overlap.start] ^= 0xff;
    send(other, kNow, Overlapping::first);
    if (overlap.start >= 800 && overlap.end <= 1200) {
      EXPECT_EQ(dropped_, (Count{{repeated, 1}})) << "it brings nothing";
    } else {
      EXPECT_EQ(dropped_, Count{});
    }
    const u32 from = std::min(overlap.start, 800u), to = std::max(overlap.end, 1200u);
    send(datagram.fragment({0, from, true}), kNow, Overlapping::first);
    send(datagram.fragment({to, 2000, false}), kNow, Overlapping::first);
    EXPECT_EQ(whole(), datagram.whole()) << id << " covered " << covered;
    // Whoever puts them together, by whatever rule, gets what was looked at.
    for (std::size_t i = 0; i < fragments_.size(); ++i) {
      const u8* const at = &region_[fragments_[i].offset];
      const u32 start = (xg_host16(xg_load16(at + 20)) & 0x1fffu) * 8;
      const Frame payload = sent_on(i, headers);
      EXPECT_TRUE(std::equal(payload.begin(), payload.end(), datagram.payload.begin() + start));
    }
  }
}

TEST_F(Reassembling, DuplicatesAreIgnored) {
  u32 id = 0;
  for (Datagram datagram : kinds(2000)) {
    dropped_.clear();
    datagram.id = ++id;
    const auto bytes = static_cast<u32>(datagram.payload.size());
    for (u32 i = 0; i < 2; ++i) send(datagram.fragment({800, 1600, true}));
    for (u32 i = 0; i < 2; ++i) send(datagram.fragment({1600, bytes, false}));
    EXPECT_EQ(dropped_, (Count{{repeated, 2}}));
    send(datagram.fragment({0, 800, true}));
    EXPECT_TRUE(reassembler_.any_whole());
    send(datagram.fragment({0, 800, true}));
    EXPECT_EQ(whole(), datagram.whole());
    send(datagram.fragment({0, 800, true}));
    EXPECT_EQ(dropped_, (Count{{repeated, 4}})) << "behind its datagram, too";
  }
}

TEST_F(Reassembling, ItEndsInOnePlace) {
  Datagram datagram{.payload = udp_payload(2400)};
  const std::vector<std::vector<Part>> contradictions{
      {{1600, 2400, false}, {800, 1200, false}},  // another last one, earlier
      {{800, 1200, false}, {1600, 2400, false}},  // or later
      {{1600, 2400, true}, {800, 1200, false}},   // a last one in front of others
      {{800, 1200, false}, {1600, 2400, true}},   // others behind the last one
      {{1600, 2000, false}, {800, 2000, true}},   // one that ends there and says that it does not
      {{800, 1600, true}, {1200, 1600, false}},
  };
  u32 id = 0;
  for (const Overlapping ipv4 : {Overlapping::drop, Overlapping::first})
    for (const auto& parts : contradictions) {
      dropped_.clear();
      datagram.id = ++id;
      for (const Part& part : parts) send(datagram.fragment(part), kNow, ipv4);
      EXPECT_EQ(dropped_, (Count{{overlapping, 2}})) << id;
    }
}

TEST_F(Reassembling, AsManyBuffersAsAPacketHas) {
  Datagram datagram{.payload = udp_payload(8 * 16)};
  for (u32 i = 0; i < 15; ++i) send(datagram.fragment({8 * i, 8 * i + 8, true}));
  EXPECT_EQ(reassembler_.frames(), 15u);
  send(datagram.fragment({8 * 15, 8 * 16, false}));
  EXPECT_EQ(dropped_, (Count{{too_long, 16}}));
  dropped_.clear();
  datagram = {.id = 8, .payload = udp_payload(8 * 15)};
  for (u32 i = 0; i < 15; ++i) send(datagram.fragment({8 * i, 8 * i + 8, i < 14}));
  EXPECT_EQ(whole(), datagram.whole());
  EXPECT_EQ(dropped_, Count{});
}

TEST_F(Reassembling, AsManyBytesAsAPacketHas) {
  const Datagram datagram{.payload = udp_payload(XG_PACKET_MAX + 800)};
  send(datagram.fragment({0, 800, true}));
  send(datagram.fragment({XG_PACKET_MAX - 800, XG_PACKET_MAX, true}));
  EXPECT_EQ(dropped_, Count{});
  send(datagram.fragment({XG_PACKET_MAX, XG_PACKET_MAX + 800, false}));
  EXPECT_EQ(dropped_, (Count{{too_long, 3}}));
  send(datagram.fragment({800, 1600, true}));
  EXPECT_EQ(dropped_, (Count{{too_long, 4}}));
}

TEST_F(Reassembling, FragmentsOfSeveralBuffers) {
  u32 id = 0;
  for (Datagram datagram : kinds(4000)) {
    const auto bytes = static_cast<u32>(datagram.payload.size());
    for (const std::size_t buffer : {std::size_t{600}, std::size_t{1000}, std::size_t{1760}}) {
      datagram.id = ++id;
      send(datagram.fragment({2000, bytes, false}), kNow, Overlapping::drop, 1, buffer);
      send(datagram.fragment({2000, bytes, false}), kNow, Overlapping::drop, 1, buffer / 2);
      EXPECT_EQ(dropped_, (Count{{repeated, id}}));
      send(datagram.fragment({0, 2000, true}), kNow, Overlapping::drop, 1, buffer);
      EXPECT_EQ(whole(), datagram.whole()) << id;
    }
  }
}

TEST_F(Reassembling, FirstBytesAcrossBuffers) {
  const Datagram datagram{.payload = udp_payload(3000)};
  send(datagram.fragment({400, 1600, true}), kNow, Overlapping::first, 1, 500);
  Frame other = datagram.fragment({0, 2992, true});
  for (u32 byte = 400; byte < 1600; ++byte) other[34 + byte] = 0xee;
  send(other, kNow, Overlapping::first, 1, 700);
  send(datagram.fragment({2992, 3000, false}));
  EXPECT_EQ(dropped_, Count{});
  EXPECT_EQ(whole(), datagram.whole());
  EXPECT_EQ(fragments_.size(), 3u + 5u + 1u) << "all of them go on";
}

TEST_F(Reassembling, WhatIsNotWholeInTimeIsDropped) {
  const Datagram datagram{.payload = udp_payload(2000)};
  send(datagram.fragment({0, 800, true}));
  send(datagram.fragment({1600, 2000, false}), kNow + 1'000'000'000);
  reassembler_.expire(kNow + XG_FRAGMENT_NS - 1);
  take_dropped();
  EXPECT_EQ(dropped_, Count{});
  EXPECT_EQ(reassembler_.frames(), 2u);
  reassembler_.expire(kNow + XG_FRAGMENT_NS);
  take_dropped();
  EXPECT_EQ(dropped_, (Count{{timed_out, 2}}));
  EXPECT_EQ(reassembler_.frames(), 0u);
}

// The same identification is another datagram's when the time is over, and not before.
TEST_F(Reassembling, IdentificationsComeAgain) {
  Datagram datagram{.payload = udp_payload(1600)};
  const std::array<Part, 2> parts{{{0, 800, true}, {800, 1600, false}}};
  for (const Part& part : parts) send(datagram.fragment(part));
  EXPECT_EQ(whole(), datagram.whole());
  datagram.payload = udp_payload(1600, 2);
  for (const Part& part : parts) send(datagram.fragment(part), kNow + XG_FRAGMENT_NS - 1);
  EXPECT_EQ(dropped_, (Count{{repeated, 2}}));
  for (const Part& part : parts) send(datagram.fragment(part), kNow + XG_FRAGMENT_NS);
  EXPECT_EQ(whole(), datagram.whole());
  // One that waited in vain, and was not looked for since.
  send(datagram.fragment(parts[1]), kNow + 3 * XG_FRAGMENT_NS);
  datagram.payload = udp_payload(1600, 3);
  for (const Part& part : parts) send(datagram.fragment(part), kNow + 4 * XG_FRAGMENT_NS);
  EXPECT_EQ(whole(), datagram.whole());
}

TEST_F(Reassembling, AllOfTheKeyCounts) {
  const Datagram datagram{.payload = udp_payload(1600)};
  send(datagram.fragment({0, 800, true}));
  for (u32 i = 0; i < 3; ++i) {
    Datagram other = datagram;
    if (i == 0) other.id = 8;
    if (i == 1) other.src = "192.0.2.2";
    if (i == 2) other.vlans = {5};
    send(other.fragment({800, 1600, false}));
  }
  send(datagram.fragment({800, 1600, false}), kNow, Overlapping::drop, 2);
  EXPECT_EQ(whole(), std::nullopt) << "of another policy";
  EXPECT_EQ(reassembler_.frames(), 5u);
  send(datagram.fragment({800, 1600, false}));
  EXPECT_EQ(whole(), datagram.whole());
}

TEST_F(Reassembling, ASourceHasItsBound) {
  const Datagram victim{.src = "203.0.113.9", .payload = udp_payload(1600)};
  send(victim.fragment({0, 800, true}));
  for (u32 id = 1; id <= 40; ++id) {
    const Datagram flood{.id = id, .payload = udp_payload(1600)};
    send(flood.fragment({0, 800, true}), kNow + id);
  }
  EXPECT_EQ(dropped_, (Count{{no_room, 40 - XG_FRAGMENT_OF_SOURCE}})) << "its own oldest";
  EXPECT_EQ(reassembler_.frames(), XG_FRAGMENT_OF_SOURCE + 1);
  send(victim.fragment({800, 1600, false}), kNow + 100);
  EXPECT_EQ(whole(), victim.whole());
  // Those that are through give way first.
  const Datagram oldest{.id = 40 - XG_FRAGMENT_OF_SOURCE + 1, .payload = udp_payload(1600)};
  const Datagram newest{.id = 40, .payload = udp_payload(1600)};
  send(newest.fragment({800, 1600, false}), kNow + 101);
  EXPECT_EQ(whole(), newest.whole());
  send(Datagram{.id = 41, .payload = udp_payload(1600)}.fragment({0, 800, true}), kNow + 102);
  send(oldest.fragment({800, 1600, false}), kNow + 103);
  EXPECT_EQ(whole(), oldest.whole());
}

TEST_F(Reassembling, FramesHaveTheirBound) {
  for (u32 i = 0; i < kMayWait + 20; ++i) {
    const Datagram flood{.id = 1,
                         .src = "10.0." + std::to_string(i / 200) + "." + std::to_string(i % 200),
                         .payload = udp_payload(1600)};
    send(flood.fragment({0, 800, true}), kNow + i);
    EXPECT_LE(reassembler_.frames(), kMayWait);
  }
  // A bucket may be full before all frames wait.
  EXPECT_EQ(dropped_[no_room] + reassembler_.frames(), kMayWait + 20);
  EXPECT_GE(dropped_[no_room], 20u);
  const Datagram quick{.payload = udp_payload(1600)};
  send(quick.fragment({0, 800, true}), kNow + 1000);
  send(quick.fragment({800, 1600, false}), kNow + 1001);
  EXPECT_EQ(whole(), quick.whole()) << "whose fragments come close together";
}

TEST_F(Reassembling, NothingIsNothing) {
  Datagram datagram{.payload = udp_payload(1600)};
  send(datagram.fragment({0, 800, true}));
  send(datagram.fragment({1600, 1600, false}));
  send(datagram.fragment({800, 800, true}));
  EXPECT_EQ(dropped_, (Count{{repeated, 2}}));
  send(datagram.fragment({800, 1600, false}));
  EXPECT_EQ(whole(), datagram.whole());
}

// A plain reference: bytes, and who has brought them.
struct Reference {
  explicit Reference(std::size_t bytes) : have(bytes) {}
  std::vector<std::optional<u8>> have;
  std::vector<Part> parts;
  std::vector<Frame> contents;
  std::optional<u32> total;
  bool dropped = false, through = false;

  // nullopt: it waits, or is the last one.
  std::optional<Unassembled> take(const Part& part, const Frame& content, bool first_wins) {
    if (dropped) return overlapping;
    if (through) return repeated;
    bool contradicts = false;
    const auto last = [&](const Part& one) { return !one.more; };
    for (const Part& one : parts) {
      if (last(part)) contradicts |= one.end > part.end || (one.end == part.end && one.more);
      if (last(one))
        contradicts |=
            part.end > one.end || (part.end == one.end && part.more) || (last(part) && part.end != one.end);
    }
    for (std::size_t i = 0; i < parts.size() && !contradicts; ++i)
      if (parts[i].start == part.start && parts[i].end == part.end && parts[i].more == part.more &&
          contents[i] == content)
        return repeated;
    bool overlaps = false, fresh = false;
    for (u32 byte = part.start; byte < part.end; ++byte) (have[byte] ? overlaps : fresh) = true;
    if (contradicts || (overlaps && !first_wins)) {
      dropped = true;
      return overlapping;
    }
    if (!fresh && (part.more || total)) return repeated;
    Frame kept = content;
    for (u32 byte = part.start; byte < part.end; ++byte) {
      if (have[byte]) kept[byte - part.start] = *have[byte];
      have[byte] = kept[byte - part.start];
    }
    parts.push_back(part);
    contents.push_back(kept);
    if (last(part)) total = part.end;
    through = total && std::all_of(have.begin(), have.begin() + *total, [](const auto& one) { return one; });
    return std::nullopt;
  }
};

TEST_F(Reassembling, AsAPlainReferenceDoes) {
  u32 made = 0, overlapped = 0, again = 0;
  for (u32 round = 0; round < 4000; ++round) {
    Random random(round);
    SCOPED_TRACE(round);
    const auto below = [&](u32 limit) { return random() % limit; };
    const bool v6 = below(2) != 0, first_wins = below(3) != 0;
    const u32 units = 4 + below(20), bytes = units * 8 - below(8);
    const Datagram datagram{
        .family = static_cast<u8>(v6 ? 6 : 4), .id = round + 1, .payload = udp_payload(bytes, round)};
    Reference reference(units * 8 + 8);
    // A proper cut, some of whose fragments come twice, and some of other cuts.
    std::vector<Part> parts;
    for (u32 at = 0; at < bytes;) {
      const u32 end = std::min(bytes, at + 8 * (1 + below(6)));
      parts.push_back({at, end, end < bytes});
      at = end;
    }
    if (parts.size() == 1) continue;
    for (u32 i = below(3); i; --i) parts.push_back(parts[below(static_cast<u32>(parts.size()))]);
    for (u32 i = below(2) ? below(4) : 0; i; --i) {
      const u32 start = 8 * below(units - 1), end = std::min(bytes, start + 8 * (1 + below(8)));
      parts.push_back({start, end, end < bytes});
      if (below(8) == 0 && start != 0) parts.back().more = !parts.back().more;
      if (start == 0) parts.back().more = true;  // else it is no fragment
    }
    for (std::size_t i = parts.size(); i > 1; --i) std::swap(parts[i - 1], parts[below(static_cast<u32>(i))]);
    if (parts.size() > Reassembler::kBuffers) continue;

    for (const Part& part : parts) {
      std::optional<u8> filled;
      if (part.start >= 8 && below(6) == 0) filled = static_cast<u8>(below(256));
      const Frame frame = datagram.fragment(part, filled);
      const Frame content(frame.end() - (part.end - part.start), frame.end());
      const u32 held = reassembler_.packets(0);
      dropped_.clear();
      const bool was_dropped = reference.dropped;
      const auto expected = reference.take(part, content, first_wins && !v6);
      send(frame, kNow + u64{round} * 1000, first_wins ? Overlapping::first : Overlapping::drop);
      if (!expected) {
        EXPECT_EQ(dropped_, Count{});
        EXPECT_EQ(reassembler_.packets(0), held + 1);
      } else if (*expected == overlapping && !was_dropped) {
        EXPECT_EQ(dropped_, (Count{{overlapping, static_cast<u32>(reference.parts.size()) + 1}}));
        ++overlapped;
      } else {
        EXPECT_EQ(dropped_, (Count{{*expected, 1}}));
        again += *expected == repeated;
      }
      const auto seen = whole();
      ASSERT_EQ(seen.has_value(), reference.through && !expected);
      if (!seen) continue;
      ++made;
      Datagram like = datagram;
      like.payload.resize(*reference.total);
      for (u32 byte = 0; byte < *reference.total; ++byte) like.payload[byte] = *reference.have[byte];
      ASSERT_EQ(*seen, like.whole());
    }
    reassembler_.abandon();
    take_dropped();
  }
  EXPECT_GT(made, 1000u);
  EXPECT_GT(overlapped, 300u);
  EXPECT_GT(again, 1000u);
}

}  // namespace
}  // namespace xdpgpu::dataplane
