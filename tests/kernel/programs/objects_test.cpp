// SPDX-License-Identifier: MIT
//
// Debian's own programs (xdp-tools), unmodified: what libbpf makes of the objects, in the kernel and in the
// reference.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "tests/kernel/frame.hpp"
#include "tests/kernel/programs/object.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::test {
namespace {

const std::filesystem::path kObjects = "/usr/lib/x86_64-linux-gnu/bpf";

class XdpFilterTest : public ProgramTest, public testing::WithParamInterface<std::string> {};

// Addresses and ports that are filtered by source, by destination or both, and packets of which some have
// them.
TEST_P(XdpFilterTest, Filters) {
  const auto path = kObjects / (GetParam() + ".o");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here: install xdp-tools";
  const Object object = read_object(path.string());
  Twins twins(object.maps);
  const auto program = twins.add(object.code);
  ASSERT_TRUE(program) << twins.refusal();
  dataplane::Random random(1);
  const auto mark = [&](const char* name, const Bytes& key) {
    const u32 map = object.map(name);
    if (map == ~0u) return;
    // Source, destination, TCP, UDP: xdp-filter's four flags, and its count above them.
    Bytes value = bytes_of(u64{random() % 16 | 0x100u});
    value.resize(object.maps[map].value_bytes);
    ASSERT_TRUE(twins.update(map, key, value, BPF_ANY, Twins::kEveryQueue));
  };
  for (u32 i = 0; i < 4; ++i) {
    mark("filter_ipv4", address(fmt::format("192.0.2.{}", i)));
    mark("filter_ipv6", address(fmt::format("2001:db8::{}", i)));
    mark("filter_ethernet", Frame{2, 0, 0, 0, 0, static_cast<u8>(i)});
    const Bytes port = be16(80 + i);
    mark("filter_ports", {port[0], port[1], 0, 0});
  }
  std::array<u32, 5> actions{};
  for (int run = 0; run < 3000; ++run) {
    const auto port = [&] { return static_cast<u16>(80 + random() % 8); };
    const Frame transport = random() % 2 == 0 ? udp(port(), port(), random() % 20) : tcp(port(), port());
    const u8 protocol = transport.size() == 20 && transport[12] == 0x50 ? 6 : 17;
    Frame frame = ethernet(std::vector<u16>(random() % 3, 5));
    frame[0] = frame[6] = 2;
    std::fill_n(frame.begin() + 1, 5, u8{0});
    std::fill_n(frame.begin() + 7, 5, u8{0});
    frame[5] = static_cast<u8>(random() % 8);
    frame[11] = static_cast<u8>(random() % 8);
    const u32 a = random() % 8, b = random() % 8;
    switch (random() % 8) {
      case 0:
        frame = frame + arp_packet();
        break;
      case 1:
        frame = frame + be16(0x0800) + bytes(random() % 24);
        break;
      case 2:
      case 3:
      case 4:
        frame = frame + ipv4({.src = fmt::format("192.0.2.{}", a),
                              .dst = fmt::format("192.0.2.{}", b),
                              .protocol = protocol,
                              .options = bytes(random() % 4 == 0 ? 8 : 0, 1)},
                             transport);
        break;
      default:
        frame = frame + ipv6({.src = fmt::format("2001:db8::{}", a),
                              .dst = fmt::format("2001:db8::{}", b),
                              .next = protocol},
                             transport);
    }
    if (random() % 16 == 0) frame.resize(std::max<std::size_t>(14, random() % frame.size()));
    ASSERT_EQ(twins.run(*program, {.bytes = frame, .queue = random() % queues()}, run % 1000 == 999), "")
        << run;
    ASSERT_LT(twins.answer().action, actions.size());
    actions[twins.answer().action]++;
  }
  EXPECT_GT(actions[XDP_DROP], 100u);
  EXPECT_GT(actions[XDP_PASS], 100u);
}

std::vector<std::string> filters() {
  std::vector<std::string> names;
  for (const char* policy : {"alw", "dny"})
    for (const char* what : {"all", "eth", "ip", "tcp", "udp"})
      names.push_back(fmt::format("xdpfilt_{}_{}", policy, what));
  return names;
}
INSTANTIATE_TEST_SUITE_P(Objects, XdpFilterTest, testing::ValuesIn(filters()),
                         [](const testing::TestParamInfo<std::string>& one) { return one.param; });

}  // namespace
}  // namespace xdpgpu::test
