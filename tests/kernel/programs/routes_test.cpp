// SPDX-License-Identifier: MIT
//
// bpf_fib_lookup by routes and neighbours of the kernel's own, and by the same ones in the reference.
#include <linux/bpf.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <string>
#include <tuple>

#include "tests/kernel/programs/twins.hpp"
#include "tests/netns/lab.hpp"

namespace xdpgpu::test {
namespace {

using gpu::reference::ProgramRoutes;

constexpr int kAsksAt = 14, kFlagsAt = 78;
constexpr u32 kPacketBytes = 96;

class RoutesTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    if (auto why = lab::why_unavailable(); !why.empty()) GTEST_SKIP() << why;
    // BPF_FIB_LOOKUP_SKIP_NEIGH
    if (!lab::kernel_at_least(6, 3))
      GTEST_SKIP() << "this kernel looks neighbours up each time: Linux 6.3 need not";
  }
};

// Asks with what is in the packet, of so many bytes, and puts there what it is answered: but for rt_metric,
// which routes that are not the kernel's do not have.
Code asking(int bytes) {
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_W, r8, r1, 4), move(r2, r7),
    alu_k(BPF_ADD, r2, kPacketBytes));
  a.to("short", jump(BPF_JGT, r2, r8));
  for (int at = 0; at < 64; at += 8) a(load(BPF_DW, r1, r7, kAsksAt + at), store(BPF_DW, r10, at - 64, r1));
  a(load(BPF_B, r4, r7, kFlagsAt), move_k(r3, bytes), move(r1, r6), move(r2, r10), alu_k(BPF_ADD, r2, -64),
    call(BPF_FUNC_fib_lookup), store(BPF_DW, r7, 0, r0), store_k(BPF_W, r10, 12 - 64, 0));
  for (int at = 0; at < 64; at += 8) a(load(BPF_DW, r1, r10, at - 64), store(BPF_DW, r7, 8 + at, r1));
  a(move_k(r0, XDP_PASS), leave());
  a.label("short")(move_k(r0, XDP_DROP), leave());
  return a.code();
}

struct Address {
  int family = AF_INET;
  std::array<u8, 16> bytes{};
};
ProgramRoutes::Route route(const Address& to, u32 length, ProgramRoutes::Leads leads,
                           const ProgramRoutes::NextHop& hop = {}) {
  return {.family = static_cast<u8>(to.family == AF_INET ? 4 : 6),
          .address = to.bytes,
          .length = length,
          .leads = leads,
          .hop = hop};
}

TEST_F(RoutesTest, AreAnsweredAsTheKernelDoes) {
  const lab::Namespace near("near"), far("far");
  const lab::Veth in{near, "xgFa", far, "xgFfa"}, out{near, "xgFb", far, "xgFfb", {.mtu = 1'400}};
  in.up();
  out.up();
  near.sysctl("ipv4/conf/all/forwarding", "1");
  near.sysctl("ipv6/conf/all/forwarding", "1");
  in.a().add_address("10.8.0.1/24");
  in.a().add_address("fd08::1/64");
  out.a().add_address("10.9.0.1/24");
  out.a().add_address("fd09::1/64");
  const lab::Mac neighbour{2, 1, 2, 3, 4, 5};
  out.a().add_neighbour("10.9.0.2", neighbour);
  out.a().add_neighbour("fd09::2", neighbour);

  const Address own4{AF_INET, {10, 9, 0, 1}}, there4{AF_INET, {10, 9, 0, 2}}, silent4{AF_INET, {10, 9, 0, 3}},
      nowhere4{AF_INET, {10, 77, 0, 1}};
  const auto v6 = [](u8 net, u8 host) {
    Address address{AF_INET6, {0xfd, net}};
    address.bytes[15] = host;
    return address;
  };
  const Address own6 = v6(9, 1), there6 = v6(9, 2), silent6 = v6(9, 3), nowhere6 = v6(0x77, 1);
  Address link_local{AF_INET6, {0xfe, 0x80, 1}}, multicast{AF_INET6, {0xff, 2, 1}}, loopback{AF_INET6, {}};
  loopback.bytes[15] = 1;

  const u32 by = in.a().ifindex(), to = out.a().ifindex();
  ProgramRoutes::NextHop known{.ifindex = to, .mtu = 1'400}, unknown{.ifindex = to, .mtu = 1'400};
  std::copy(neighbour.begin(), neighbour.end(), known.mac.begin());
  known.source.emplace();
  const auto mac = out.a().mac();
  std::copy(mac.begin(), mac.end(), known.source->begin());
  using Leads = ProgramRoutes::Leads;
  const ProgramRoutes routes{
      .routes = {route(own4, 32, Leads::to_host), route(there4, 32, Leads::to_next_hop, known),
                 route(silent4, 24, Leads::to_next_hop, unknown), route(own6, 128, Leads::to_host),
                 route(there6, 128, Leads::to_next_hop, known),
                 route(silent6, 64, Leads::to_next_hop, unknown)},
      .interfaces = {by, to}};

  near.run([&] {
    Twins twins({});
    const auto whole = twins.add(asking(64)), short_one = twins.add(asking(63));
    ASSERT_TRUE(whole && short_one) << twins.refusal();
    const auto ask = [&](u32 program, const bpf_fib_lookup& asked, u8 flags) {
      ProgramPacket packet{.bytes = Bytes(kPacketBytes), .routes = &routes};
      std::memcpy(&packet.bytes[kAsksAt], &asked, sizeof(asked));
      packet.bytes[kFlagsAt] = flags;
      EXPECT_EQ(twins.run(program, packet), "");
      return static_cast<std::int64_t>(word(twins.answer().packet, 0));
    };
    const auto about = [&](const Address& address, u32 ifindex, u16 length) {
      bpf_fib_lookup asked{};
      std::memset(static_cast<void*>(&asked), 0x17, sizeof(asked));
      asked.family = static_cast<u8>(address.family);
      asked.tot_len = length;
      asked.ifindex = ifindex;
      std::memcpy(asked.ipv6_dst, address.bytes.data(), 16);
      return asked;
    };
    for (const auto& [address, answer] : {std::pair(own4, BPF_FIB_LKUP_RET_NOT_FWDED),
                                          {there4, BPF_FIB_LKUP_RET_SUCCESS},
                                          {silent4, BPF_FIB_LKUP_RET_NO_NEIGH},
                                          {nowhere4, BPF_FIB_LKUP_RET_NOT_FWDED},
                                          {own6, BPF_FIB_LKUP_RET_NOT_FWDED},
                                          {there6, BPF_FIB_LKUP_RET_SUCCESS},
                                          {silent6, BPF_FIB_LKUP_RET_NO_NEIGH},
                                          {nowhere6, BPF_FIB_LKUP_RET_NOT_FWDED},
                                          {link_local, BPF_FIB_LKUP_RET_NOT_FWDED},
                                          {multicast, BPF_FIB_LKUP_RET_NOT_FWDED},
                                          {loopback, BPF_FIB_LKUP_RET_NOT_FWDED}}) {
      SCOPED_TRACE("to " + std::to_string(address.bytes[0]) + "." + std::to_string(address.bytes[1]) +
                   " ... " + std::to_string(address.bytes[3]) + ", " + std::to_string(address.bytes[15]));
      EXPECT_EQ(ask(*whole, about(address, by, 1'400), 0), answer);
      EXPECT_EQ(ask(*whole, about(address, to, 0), 0), answer);
      const bool goes = answer != BPF_FIB_LKUP_RET_NOT_FWDED;
      EXPECT_EQ(ask(*whole, about(address, by, 100), 4), goes ? BPF_FIB_LKUP_RET_SUCCESS : answer);
      EXPECT_EQ(ask(*whole, about(address, by, 1'401), 0), goes ? BPF_FIB_LKUP_RET_FRAG_NEEDED : answer);
      if (goes) {
        EXPECT_EQ(ask(*whole, about(address, by, 100), BPF_FIB_LOOKUP_DIRECT), answer);
      }
      ask(*whole, about(address, 999'999, 100), 0);
      EXPECT_EQ(ask(*whole, about(address, by, 100), 128), -EINVAL);
      EXPECT_EQ(ask(*short_one, about(address, by, 100), 0), -EINVAL);
      auto other = about(address, by, 100);
      other.family = 7;
      EXPECT_EQ(ask(*whole, other, 0), -EAFNOSUPPORT);
      // From an address that no router sends on.
      auto from = about(address, by, 100);
      std::memcpy(from.ipv6_src, link_local.bytes.data(), 16);
      ask(*whole, from, 0);
    }
  });
}

}  // namespace
}  // namespace xdpgpu::test
