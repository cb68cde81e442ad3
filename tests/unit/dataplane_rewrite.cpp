// SPDX-License-Identifier: MIT
//
// What retirement writes over a frame by a device's edit.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>

#include "userspace/dataplane/router.hpp"

namespace xdpgpu::dataplane {
namespace {

// A frame with its metadata, in which every byte says where it stands.
class Rewrite : public testing::Test {
 protected:
  Rewrite() { std::iota(frame(), frame() + 100, u8{0}); }
  u8* frame() { return memory_.data() + XG_METADATA_SIZE; }
  std::array<u8, 100> rewritten(u16 flags, u8 l3_offset, const xg_edit& edit) {
    xg_metadata metadata{};
    metadata.flags = flags;
    metadata.l3_offset = l3_offset;
    std::memcpy(memory_.data(), &metadata, sizeof(metadata));
    apply_edit(frame(), edit);
    std::array<u8, 100> once{}, twice{};
    std::copy_n(frame(), once.size(), once.begin());
    apply_edit(frame(), edit);
    std::copy_n(frame(), twice.size(), twice.begin());
    EXPECT_EQ(once, twice) << "applying it twice is harmless";
    return once;
  }
  static std::array<u8, 100> numbered() {
    std::array<u8, 100> bytes{};
    std::iota(bytes.begin(), bytes.end(), u8{0});
    return bytes;
  }
  static constexpr xg_edit kAll{.dst_mac = {0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5},
                                .src_mac = {0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5},
                                .l3_checksum = 0xccc0,
                                .ttl = 0x3f,
                                .sets = XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC | XG_EDIT_TTL};
  static std::array<u8, 100> with_macs() {
    auto bytes = numbered();
    for (u8 i = 0; i < 6; ++i) {
      bytes[i] = static_cast<u8>(0xd0 + i);
      bytes[6u + i] = static_cast<u8>(0xe0 + i);
    }
    return bytes;
  }

  alignas(8) std::array<u8, XG_METADATA_SIZE + 100> memory_{};
};

TEST_F(Rewrite, SetsAddressesTtlAndChecksumOfIpv4) {
  for (u8 l3 : {u8{14}, u8{18}, u8{22}}) {
    auto expected = with_macs();
    expected[l3 + 8u] = 0x3f;
    expected[l3 + 10u] = 0xc0;
    expected[l3 + 11u] = 0xcc;
    std::iota(frame(), frame() + 100, u8{0});
    EXPECT_EQ(rewritten(XG_PKT_IPV4, l3, kAll), expected) << u32{l3};
  }
}

TEST_F(Rewrite, SetsAddressesAndHopLimitOfIpv6) {
  auto expected = with_macs();
  expected[18 + 7] = 0x3f;
  EXPECT_EQ(rewritten(XG_PKT_IPV6, 18, kAll), expected);
}

TEST_F(Rewrite, LeavesTheHeaderAloneUnlessToldTo) {
  xg_edit edit = kAll;
  edit.sets = XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC;
  EXPECT_EQ(rewritten(XG_PKT_IPV4, 14, edit), with_macs());
  for (const u32 one : {XG_EDIT_DST_MAC, XG_EDIT_SRC_MAC}) {
    auto expected = numbered();
    const auto macs = with_macs();
    std::copy_n(macs.begin() + (one == XG_EDIT_DST_MAC ? 0 : 6), 6,
                expected.begin() + (one == XG_EDIT_DST_MAC ? 0 : 6));
    std::iota(frame(), frame() + 100, u8{0});
    edit.sets = static_cast<u8>(one);
    EXPECT_EQ(rewritten(XG_PKT_IPV4, 14, edit), expected) << one;
  }
  std::iota(frame(), frame() + 100, u8{0});
  edit.sets = 0;
  EXPECT_EQ(rewritten(XG_PKT_IPV4, 14, edit), numbered());
}

}  // namespace
}  // namespace xdpgpu::dataplane
