// SPDX-License-Identifier: MIT
#include "userspace/dataplane/checksum.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/dataplane_random.hpp"
#include "userspace/dataplane/metadata.hpp"

namespace xdpgpu::dataplane {
namespace {

// The slow way, by RFC 1071's own words: big-endian 16-bit words, carries added back.
u32 slow_sum(const std::vector<u8>& bytes, std::size_t from, std::size_t to, u32 start = 0) {
  u32 sum = start;
  for (std::size_t i = from; i < to; i += 2)
    sum += static_cast<u32>(bytes[i] << 8) + (i + 1 < to ? bytes[i + 1] : 0u);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

struct Made {
  std::vector<u8> frame;
  std::size_t l3 = 0, l4 = 0, field = 0, end = 0;
  u32 pseudo = 0;
};

struct Shape {
  int family = 4;
  bool tcp = true;
  u32 tags = 0;
  u32 payload = 0;
  u32 padding = 0;  // Ethernet padding behind the packet
  u32 options = 0;  // IPv4 option bytes, multiple of 4
};

void put16(std::vector<u8>& f, std::size_t at, u32 value) {
  f[at] = static_cast<u8>(value >> 8);
  f[at + 1] = static_cast<u8>(value);
}

// A frame with its checksum partial, as Linux leaves it to hardware.
Made make(const Shape& shape, Random& random) {
  Made m;
  auto& f = m.frame;
  f.assign(12, 2);
  for (u32 i = 0; i < shape.tags; ++i) f.insert(f.end(), {0x81, 0x00, 0x00, static_cast<u8>(10 + i)});
  f.insert(f.end(),
           {static_cast<u8>(shape.family == 4 ? 0x08 : 0x86), static_cast<u8>(shape.family == 4 ? 0 : 0xdd)});
  m.l3 = f.size();
  const u32 l4_header = shape.tcp ? 20 : 8;
  const u32 l4_bytes = l4_header + shape.payload;
  const u8 protocol = shape.tcp ? 6 : 17;
  if (shape.family == 4) {
    f.resize(m.l3 + 20 + shape.options, 1);
    f[m.l3] = static_cast<u8>(0x40 | (5 + shape.options / 4));
    put16(f, m.l3 + 2, 20 + shape.options + l4_bytes);
    put16(f, m.l3 + 6, 0x4000);
    f[m.l3 + 8] = 64;
    f[m.l3 + 9] = protocol;
    for (int i = 0; i < 8; ++i) f[m.l3 + 12 + i] = static_cast<u8>(random());
    m.pseudo = slow_sum(f, m.l3 + 12, m.l3 + 20);
  } else {
    f.resize(m.l3 + 40, 0);
    f[m.l3] = 0x60;
    put16(f, m.l3 + 4, l4_bytes);
    f[m.l3 + 6] = protocol;
    f[m.l3 + 7] = 64;
    for (int i = 0; i < 32; ++i) f[m.l3 + 8 + i] = static_cast<u8>(random());
    m.pseudo = slow_sum(f, m.l3 + 8, m.l3 + 40);
  }
  m.l4 = f.size();
  m.end = m.l4 + l4_bytes;
  f.resize(m.end);
  for (std::size_t i = m.l4; i < m.end; ++i) f[i] = static_cast<u8>(random());
  if (shape.tcp) {
    f[m.l4 + 12] = 0x50;
  } else {
    put16(f, m.l4 + 4, l4_bytes);
  }
  m.field = m.l4 + (shape.tcp ? 16 : 6);
  m.pseudo += protocol + l4_bytes;
  while (m.pseudo >> 16) m.pseudo = (m.pseudo & 0xffff) + (m.pseudo >> 16);
  put16(f, m.field, m.pseudo);
  f.resize(m.end + shape.padding, 0xaa);
  return m;
}

bool repair(Made& m) {
  const xg_hash_keys keys = xg_hash_keys_from(1, 2);
  xg_metadata metadata;
  const auto length = static_cast<u32>(m.frame.size());
  parse_metadata(m.frame.data(), length, length, 0, keys, 0, 0, &metadata);
  const xg_descriptor whole{0, length, 0};
  return static_cast<bool>(complete_checksum(m.frame.data(), {&whole, 1}, metadata));
}

// A right checksum makes the whole sum, pseudo-header included, all ones.
bool right(const Made& m) { return slow_sum(m.frame, m.l4, m.end, m.pseudo) == 0xffff; }

TEST(Checksum, SumsAsTheSlowWayDoes) {
  Random random(7);
  std::vector<u8> bytes(3000);
  for (u8& byte : bytes) byte = static_cast<u8>(random());
  for (u32 i = 0; i < 2000; ++i) {
    const u32 from = random() % 100, length = random() % 1600;
    const u32 slow = slow_sum(bytes, from, from + length);
    const u16 fast = ones_sum(bytes.data() + from, length);
    // 0 and 0xffff are the same number in ones' complement.
    ASSERT_EQ(static_cast<u16>(fast << 8 | fast >> 8) % 0xffff, slow % 0xffff) << from << " " << length;
  }
  std::vector<u8> ones(70000, 0xff);
  EXPECT_EQ(ones_sum(ones.data(), 70000), 0xffff);
}

TEST(Checksum, CompletesEveryShape) {
  Random random(20261120);
  for (const int family : {4, 6})
    for (const bool tcp : {true, false})
      for (const u32 tags : {0u, 1u, 2u})
        for (const u32 payload : {0u, 1u, 2u, 31u, 512u, 1400u})
          for (const u32 padding : {0u, 5u})
            for (const u32 options : {0u, 8u}) {
              Made m = make({family, tcp, tags, payload, padding, family == 4 ? options : 0}, random);
              ASSERT_TRUE(repair(m)) << family << tcp << tags << " " << payload;
              ASSERT_TRUE(right(m)) << family << tcp << tags << " " << payload;
              // Once complete it is left alone.
              const std::vector<u8> before = m.frame;
              repair(m);
              ASSERT_EQ(m.frame, before);
            }
}

// However a packet is cut into buffers, at odd places too, it gets the checksum that it gets whole.
TEST(Checksum, OfSeveralBuffersIsThatOfTheWhole) {
  Random random(20261121);
  for (u32 round = 0; round < 2000; ++round) {
    const Made made = make({round & 1 ? 4 : 6, (round & 2) != 0, static_cast<u32>(random() % 3),
                            static_cast<u32>(200 + random() % 9000), static_cast<u32>(random() % 8), 0},
                           random);
    Made whole = made;
    ASSERT_TRUE(repair(whole));
    const xg_hash_keys keys = xg_hash_keys_from(1, 2);
    const auto length = static_cast<u32>(made.frame.size());
    std::vector<xg_descriptor> packet;
    std::vector<u8> region;
    for (u32 at = 0; at < length;) {
      const u32 bytes =
          std::min(length - at, static_cast<u32>(at ? 1 + random() % 1760 : 100 + random() % 1660));
      packet.push_back({region.size(), bytes, at + bytes < length ? XG_DESC_MORE : 0});
      region.insert(region.end(), made.frame.begin() + at, made.frame.begin() + at + bytes);
      region.resize(region.size() + random() % 3);  // they need not follow each other
      at += bytes;
    }
    xg_metadata metadata;
    parse_metadata(region.data(), packet[0].length, length, 0, keys, 0, 0, &metadata);
    const Completed completed = complete_checksum(region.data(), packet, metadata);
    ASSERT_EQ(completed.field, made.field) << "round " << round;
    ASSERT_EQ(completed.before, xg_load16(&made.frame[made.field])) << "round " << round;
    std::vector<u8> joined;
    for (const auto& buffer : packet)
      joined.insert(joined.end(), region.begin() + static_cast<long>(buffer.offset),
                    region.begin() + static_cast<long>(buffer.offset + buffer.length));
    ASSERT_EQ(joined, whole.frame) << "round " << round;
  }
}

TEST(Checksum, AWholeChecksumIsLeftAlone) {
  Random random(3);
  u32 touched = 0;
  for (u32 i = 0; i < 2000; ++i) {
    Made m = make({4, (i & 1) != 0, 0, random() % 200, 0, 0}, random);
    repair(m);
    // A damaged packet must stay damaged.
    m.frame[m.end - 1] = static_cast<u8>(m.frame[m.end - 1] + 1);
    const std::vector<u8> before = m.frame;
    touched += repair(m);
    EXPECT_FALSE(m.frame == before && right(m));
  }
  EXPECT_LE(touched, 2u);
}

TEST(Checksum, UdpZeroIsSentAsItsOtherName) {
  Random random(5);
  Made m = make({4, false, 0, 2, 0, 0}, random);
  // Choose the payload so that the checksum comes out as 0.
  put16(m.frame, m.field, 0);
  put16(m.frame, m.end - 2, 0);
  const u32 rest = slow_sum(m.frame, m.l4, m.end, m.pseudo);
  put16(m.frame, m.end - 2, 0xffff - rest);
  put16(m.frame, m.field, m.pseudo);
  ASSERT_TRUE(repair(m));
  EXPECT_EQ(m.frame[m.field], 0xff);
  EXPECT_EQ(m.frame[m.field + 1], 0xff);
}

TEST(Checksum, FragmentsAndBrokenPacketsAreLeftAlone) {
  Random random(11);
  Made fragment = make({4, true, 0, 64, 0, 0}, random);
  put16(fragment.frame, fragment.l3 + 6, 0x2000);
  EXPECT_FALSE(repair(fragment));
  // Every cut of the frame, and every value of the length fields: nothing is read outside (sanitizers
  // watch), nothing that does not fit is written.
  for (const int family : {4, 6}) {
    const Made whole = make({family, true, 1, 40, 0, 0}, random);
    for (std::size_t size = 0; size < whole.frame.size(); ++size) {
      Made cut = whole;
      cut.frame.resize(size);
      cut.frame.shrink_to_fit();
      const std::vector<u8> before = cut.frame;
      EXPECT_FALSE(repair(cut)) << size;
      EXPECT_EQ(cut.frame, before);
    }
    for (u32 length = 0; length < 65536; length += 97) {
      Made lying = whole;
      put16(lying.frame, lying.l3 + (family == 4 ? 2 : 4), length);
      lying.frame.shrink_to_fit();
      repair(lying);
    }
  }
}

}  // namespace
}  // namespace xdpgpu::dataplane
