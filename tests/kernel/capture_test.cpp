// SPDX-License-Identifier: MIT
//
// Captured traffic through the kernel program: counted once each, and parsed as in user space.
#include <algorithm>

#include "maps/hash.h"
#include "maps/parse.h"
#include "tests/kernel/captures.hpp"
#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

struct Capture {
  std::string file;
  u32 flags;    // that some packet of it must have
  u8 protocol;  // and its protocol; 0: any
};
void PrintTo(const Capture& c, std::ostream* out) { *out << c.file; }

class CaptureTest : public KernelTest, public testing::WithParamInterface<Capture> {};

TEST_P(CaptureTest, EveryPacket) {
  const auto frames = read_capture(capture_directory() / (GetParam().file + ".pcap"));
  ASSERT_FALSE(frames.empty());
  Program program;
  program.install(kInspectAll);
  program.connect(0, 1);
  bool found = false;
  for (const auto& frame : frames) {
    program.renew(0, 1);
    const Outcome outcome = program.run(frame);
    ASSERT_EQ(outcome.reason, "inspected");
    ASSERT_EQ(outcome.frame, frame);
    xg_packet packet;
    xg_parse(frame.data(), frame.data() + frame.size(), 3, &packet);
    const xg_metadata m = outcome.metadata.value_or(xg_metadata{});
    ASSERT_EQ(m.flags, packet.flags);
    ASSERT_EQ(m.l3_offset, packet.l3_offset);
    ASSERT_EQ(m.l4_offset, packet.l4_offset);
    ASSERT_EQ(m.payload_offset, packet.payload_offset);
    ASSERT_EQ(m.protocol, packet.protocol);
    ASSERT_EQ(m.flow_hash, xg_flow_hash(&packet.key, &program.config().flow_keys));
    found |= (packet.flags & GetParam().flags) == GetParam().flags &&
             (GetParam().protocol == 0 || packet.protocol == GetParam().protocol);
  }
  EXPECT_TRUE(found) << "no packet has what this capture is known for";
}

INSTANTIATE_TEST_SUITE_P(Known, CaptureTest,
                         testing::Values(Capture{"quic", XG_PKT_UDP | XG_PKT_PORTS, 17},
                                         Capture{"sctp", XG_PKT_SCTP | XG_PKT_PORTS, 132},
                                         Capture{"gre", XG_PKT_IPV4, 47}, Capture{"geneve", XG_PKT_UDP, 17},
                                         Capture{"teredo", XG_PKT_UDP, 17}, Capture{"vlan", XG_PKT_VLAN, 0},
                                         Capture{"vlan-fragment", XG_PKT_VLAN | XG_PKT_FRAGMENT, 0},
                                         Capture{"ipv6-fragments", XG_PKT_IPV6 | XG_PKT_FRAGMENT, 0}),
                         [](const auto& one) {
                           std::string name = one.param.file;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace xdpgpu::test
