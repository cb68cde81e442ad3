// SPDX-License-Identifier: MIT
//
// Programs as people write them, in the kernel and in the reference, with what becomes of packets written
// here once more: counts, MAC addresses, VLAN tags, forwarding by a table, and a load balancer that
// encapsulates.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/kernel/frame.hpp"
#include "tests/kernel/programs/twins.hpp"

namespace xdpgpu::test {
namespace {

class SampleTest : public ProgramTest {};

// R6 is the context, R7 the packet, R8 its end. `bytes` of it are there; else the jump is to "pass".
void take(Assembly& a, int bytes) {
  a(load(BPF_W, r7, r6, 0), load(BPF_W, r8, r6, 4), move(r2, r7), alu_k(BPF_ADD, r2, bytes));
  a.to("pass", jump(BPF_JGT, r2, r8));
}
void pass(Assembly& a) { a.label("pass")(move_k(r0, XDP_PASS), leave()); }
// A number of 16 bits as a load from the packet gives it.
std::int32_t network(u16 value) { return static_cast<u16>(value >> 8 | value << 8); }

const std::vector<Frame> kFrames{
    ethernet() + ipv4({}, udp(1000, 53, 20)),
    ethernet() + ipv4({.src = "10.0.0.1", .protocol = 6}, tcp(4000, 80)),
    ethernet() + ipv4({.src = "10.0.0.2", .protocol = 6}, tcp(4001, 80)),
    ethernet() + ipv4({.options = bytes(8, 1)}, udp(7, 7)),
    ethernet({10}) + ipv4({}, udp(1000, 53, 20)),
    ethernet({10, 20}) + ipv6({}, udp(1000, 53, 20)),
    ethernet() + ipv6({}, udp(1000, 53, 20)),
    ethernet() + be16(0x0800),
    arp(),
    lldp(),
    bytes(14, 0),
};

// IPv4 packets and bytes by protocol, per CPU; atomic counts of all others.
TEST_F(SampleTest, Count) {
  Twins twins({map_of("protocols", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 16, 256),
               map_of("others", BPF_MAP_TYPE_ARRAY, 4, 8, 1)});
  Assembly a;
  a(move(r6, r1));
  take(a, 14);
  a(load(BPF_H, r1, r7, 12)).to("other", jump_k(BPF_JNE, r1, network(0x0800)));
  a(move(r2, r7), alu_k(BPF_ADD, r2, 34)).to("other", jump(BPF_JGT, r2, r8));
  a(load(BPF_B, r1, r7, 23), store(BPF_W, r10, -4, r1), alu(BPF_SUB, r8, r7), move(r2, r10),
    alu_k(BPF_ADD, r2, -4));
  a(map(r1, 0), call(BPF_FUNC_map_lookup_elem)).to("pass", jump_k(BPF_JEQ, r0, 0));
  a(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1));
  a(load(BPF_DW, r1, r0, 8), alu(BPF_ADD, r1, r8), store(BPF_DW, r0, 8, r1)).to("pass", always());
  a.label("other")(map_value(r1, 1, 0), move_k(r2, 1), atomically(BPF_DW, BPF_ADD, r1, 0, r2));
  pass(a);
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  for (u32 round = 0; round < 4; ++round)
    for (const Frame& frame : kFrames) {
      ASSERT_EQ(twins.run(*program, {.bytes = frame, .queue = round % queues()}), "");
      EXPECT_EQ(twins.answer().action, XDP_PASS);
      EXPECT_EQ(twins.answer().packet, frame);
    }
}

// Sends it back: addresses changed over, a hop less and its checksum mended (RFC 1624).
TEST_F(SampleTest, SendBack) {
  Twins twins({});
  Assembly a;
  a(move(r6, r1));
  take(a, 34);
  a(load(BPF_H, r1, r7, 12)).to("pass", jump_k(BPF_JNE, r1, network(0x0800)));
  a(load(BPF_W, r1, r7, 0), load(BPF_H, r2, r7, 4), load(BPF_W, r3, r7, 6), load(BPF_H, r4, r7, 10));
  a(store(BPF_W, r7, 6, r1), store(BPF_H, r7, 10, r2), store(BPF_W, r7, 0, r3), store(BPF_H, r7, 4, r4));
  a(load(BPF_W, r1, r7, 26), load(BPF_W, r2, r7, 30), store(BPF_W, r7, 30, r1), store(BPF_W, r7, 26, r2));
  a(load(BPF_B, r1, r7, 22), alu_k(BPF_ADD, r1, -1), store(BPF_B, r7, 22, r1));
  a(load(BPF_H, r1, r7, 24), alu_k(BPF_ADD, r1, 1), move(r2, r1), alu_k(BPF_RSH, r2, 16),
    alu(BPF_ADD, r1, r2));
  a(store(BPF_H, r7, 24, r1), move_k(r0, XDP_TX), leave());
  pass(a);
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  for (const Frame& frame : kFrames) {
    ASSERT_EQ(twins.run(*program, {.bytes = frame}), "");
    const bool turns = frame.size() >= 34 && frame[12] == 8 && frame[13] == 0;
    EXPECT_EQ(twins.answer().action, turns ? XDP_TX : XDP_PASS);
    if (!turns) continue;
    Frame expected = frame;
    std::swap_ranges(expected.begin(), expected.begin() + 6, expected.begin() + 6);
    std::swap_ranges(expected.begin() + 26, expected.begin() + 30, expected.begin() + 30);
    expected[22]--;
    expected[24]++;
    EXPECT_EQ(twins.answer().packet, expected);
  }
}

// Takes a tag away where there is one, and gives one where there is none.
TEST_F(SampleTest, VlanTags) {
  Twins twins({});
  Assembly a;
  a(move(r6, r1));
  take(a, 18);
  a(load(BPF_DW, r9, r7, 0), load(BPF_W, r1, r7, 8), store(BPF_W, r10, -8, r1), load(BPF_H, r1, r7, 12));
  a.to("pop", jump_k(BPF_JEQ, r1, network(0x8100)));
  a(move(r1, r6), move_k(r2, -4), call(BPF_FUNC_xdp_adjust_head)).to("pass", jump_k(BPF_JNE, r0, 0));
  take(a, 18);
  a(store(BPF_DW, r7, 0, r9), load(BPF_W, r1, r10, -8), store(BPF_W, r7, 8, r1));
  a(store_k(BPF_H, r7, 12, network(0x8100)), store_k(BPF_H, r7, 14, network(77)), move_k(r0, XDP_TX),
    leave());
  a.label("pop")(move(r1, r6), move_k(r2, 4), call(BPF_FUNC_xdp_adjust_head))
      .to("pass", jump_k(BPF_JNE, r0, 0));
  take(a, 14);
  a(store(BPF_DW, r7, 0, r9), load(BPF_W, r1, r10, -8), store(BPF_W, r7, 8, r1), move_k(r0, XDP_TX), leave());
  pass(a);
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  for (const Frame& frame : kFrames) {
    ASSERT_EQ(twins.run(*program, {.bytes = frame}), "");
    if (frame.size() < 18) continue;
    Frame expected = frame;
    const Frame tag = be16(0x8100) + be16(77);
    if (std::equal(tag.begin(), tag.begin() + 2, frame.begin() + 12))
      expected.erase(expected.begin() + 12, expected.begin() + 16);
    else
      expected.insert(expected.begin() + 12, tag.begin(), tag.end());
    EXPECT_EQ(twins.answer().packet, expected);
    EXPECT_EQ(twins.answer().action, XDP_TX);
  }
}

// Learns where addresses are (an LRU hash), and sends to where the destination is.
TEST_F(SampleTest, Bridge) {
  Twins twins({map_of("addresses", BPF_MAP_TYPE_LRU_HASH, 8, 4, 1024),
               map_of("ports", BPF_MAP_TYPE_DEVMAP, 4, 8, 8)});
  Assembly a;
  a(move(r6, r1));
  take(a, 14);
  const auto key = [&](int at) {
    a(load(BPF_W, r1, r7, at), load(BPF_H, r2, r7, at + 4), store_k(BPF_DW, r10, -8, 0),
      store(BPF_W, r10, -8, r1), store(BPF_H, r10, -4, r2), move(r2, r10), alu_k(BPF_ADD, r2, -8),
      map(r1, 0));
  };
  // The port is the source address's last byte: several interfaces would be needed for more.
  a(load(BPF_B, r9, r7, 11), store(BPF_W, r10, -12, r9));
  key(6);
  a(move(r3, r10), alu_k(BPF_ADD, r3, -12), move_k(r4, BPF_ANY), call(BPF_FUNC_map_update_elem));
  key(0);
  a(call(BPF_FUNC_map_lookup_elem)).to("pass", jump_k(BPF_JEQ, r0, 0));
  a(load(BPF_W, r2, r0, 0)).to("same", jump(BPF_JEQ, r2, r9));
  a(map(r1, 1), move_k(r3, XDP_DROP), call(BPF_FUNC_redirect_map), leave());
  a.label("same")(move_k(r0, XDP_DROP), leave());
  pass(a);
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  ASSERT_TRUE(twins.update(1, bytes_of(u32{2}), bytes_of(u64{1})));
  const auto frame = [](u8 to, u8 from) {
    Frame bytes = ethernet() + ipv4({}, udp(1, 2));
    bytes[5] = to;
    bytes[11] = from;
    std::copy_n(bytes.begin(), 5, bytes.begin() + 6);
    return bytes;
  };
  const auto action = [&](u8 to, u8 from) {
    EXPECT_EQ(twins.run(*program, {.bytes = frame(to, from)}), "") << int{from} << " to " << int{to};
    return twins.answer().action;
  };
  EXPECT_EQ(action(2, 1), XDP_PASS) << "2 has not been heard of";
  EXPECT_EQ(action(1, 2), XDP_DROP) << "no interface is port 1";
  EXPECT_EQ(action(2, 1), XDP_REDIRECT);
  ASSERT_TRUE(twins.answer().redirect);
  EXPECT_EQ(twins.answer().redirect->key, 2u);
  EXPECT_EQ(twins.answer().redirect->ifindex, 1u);
  EXPECT_EQ(action(2, 2), XDP_DROP) << "it is where it came from";
}

u16 checksum(const Frame& header) {
  u32 sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) sum += header[i] * 256u + header[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<u16>(~sum);
}

// UDP and TCP to a service's address and port go to one of its backends, in IPv4 once more.
TEST_F(SampleTest, LoadBalancer) {
  // Service (address, port, protocol) to how many backends it has and which is the first; backends'
  // addresses.
  Twins twins(
      {map_of("services", BPF_MAP_TYPE_HASH, 8, 8, 16), map_of("backends", BPF_MAP_TYPE_ARRAY, 4, 4, 16)});
  Assembly a;
  a(move(r6, r1));
  take(a, 38);
  a(load(BPF_H, r1, r7, 12)).to("pass", jump_k(BPF_JNE, r1, network(0x0800)));
  a(load(BPF_B, r1, r7, 14)).to("pass", jump_k(BPF_JNE, r1, 0x45));
  a(load(BPF_W, r1, r7, 30), store(BPF_W, r10, -8, r1), load(BPF_H, r1, r7, 36), store(BPF_H, r10, -4, r1));
  a(load(BPF_B, r1, r7, 23), store(BPF_H, r10, -2, r1));
  a(map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -8), call(BPF_FUNC_map_lookup_elem))
      .to("pass", jump_k(BPF_JEQ, r0, 0));
  // Which one: by the source's address and port.
  a(load(BPF_W, r1, r7, 26), load(BPF_H, r2, r7, 34), alu32_k(BPF_MUL, r1, -0x61c8864f),
    alu32(BPF_XOR, r1, r2), alu32_k(BPF_MUL, r1, -0x7a143595), alu32_k(BPF_RSH, r1, 16));
  a(load(BPF_W, r2, r0, 0), alu32(BPF_MOD, r1, r2), load(BPF_W, r2, r0, 4), alu(BPF_ADD, r1, r2),
    store(BPF_W, r10, -12, r1));
  a(map(r1, 1), move(r2, r10), alu_k(BPF_ADD, r2, -12), call(BPF_FUNC_map_lookup_elem))
      .to("pass", jump_k(BPF_JEQ, r0, 0));
  a(load(BPF_W, r9, r0, 0), load(BPF_H, r1, r7, 16), made(BPF_ALU | BPF_END | BPF_TO_BE, r1, 0, 0, 16),
    alu_k(BPF_ADD, r1, 20), made(BPF_ALU | BPF_END | BPF_TO_BE, r1, 0, 0, 16), store(BPF_DW, r10, -24, r1));
  a(load(BPF_W, r1, r7, 0), load(BPF_H, r2, r7, 4), load(BPF_W, r3, r7, 6), load(BPF_H, r4, r7, 10));
  a(store(BPF_W, r10, -32, r3), store(BPF_H, r10, -28, r4), store(BPF_W, r10, -40, r1),
    store(BPF_H, r10, -36, r2));
  a(move(r1, r6), move_k(r2, -20), call(BPF_FUNC_xdp_adjust_head)).to("pass", jump_k(BPF_JNE, r0, 0));
  take(a, 54);
  a(load(BPF_W, r1, r10, -32), store(BPF_W, r7, 0, r1), load(BPF_H, r1, r10, -28), store(BPF_H, r7, 4, r1));
  a(load(BPF_W, r1, r10, -40), store(BPF_W, r7, 6, r1), load(BPF_H, r1, r10, -36), store(BPF_H, r7, 10, r1));
  a(store_k(BPF_H, r7, 12, network(0x0800)), store_k(BPF_H, r7, 14, 0x45), load(BPF_DW, r1, r10, -24),
    store(BPF_H, r7, 16, r1));
  a(store_k(BPF_W, r7, 18, 0), store_k(BPF_B, r7, 22, 64), store_k(BPF_B, r7, 23, 4),
    store_k(BPF_H, r7, 24, 0));
  a(load(BPF_W, r1, r10, -8), store(BPF_W, r7, 26, r1), store(BPF_W, r7, 30, r9));
  a(move_k(r1, 0), move_k(r2, 0), move(r3, r7), alu_k(BPF_ADD, r3, 14), move_k(r4, 20), move_k(r5, 0),
    call(BPF_FUNC_csum_diff));
  for (int i = 0; i < 2; ++i)
    a(move(r1, r0), alu_k(BPF_RSH, r1, 16), alu_k(BPF_AND, r0, 0xffff), alu(BPF_ADD, r0, r1));
  a(alu_k(BPF_XOR, r0, 0xffff), store(BPF_H, r7, 24, r0), move_k(r0, XDP_TX), leave());
  pass(a);
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();

  const Frame service = address("198.51.100.2") + be16(53) + Frame{17, 0};
  ASSERT_TRUE(twins.update(0, service, bytes_of(u64{4} | u64{8} << 32)));
  for (u32 i = 0; i < 4; ++i)
    ASSERT_TRUE(twins.update(1, bytes_of(8 + i), address(fmt::format("10.1.0.{}", i + 1))));
  std::array<int, 4> chosen{};
  for (u16 port = 1000; port < 1200; ++port) {
    const Frame frame = ethernet() + ipv4({}, udp(port, 53, port % 40));
    ASSERT_EQ(twins.run(*program, {.bytes = frame}), "");
    ASSERT_EQ(twins.answer().action, XDP_TX);
    const Frame& sent = twins.answer().packet;
    ASSERT_EQ(sent.size(), frame.size() + 20);
    const u8 backend = sent[33];
    ASSERT_TRUE(backend >= 1 && backend <= 4);
    chosen[backend - 1u]++;
    Frame outer = Frame{0x45, 0} + be16(static_cast<u32>(frame.size() - 14 + 20)) + be32(0) +
                  Frame{64, 4, 0, 0} + address("198.51.100.2") + Frame{10, 1, 0, backend};
    const Frame sum = be16(checksum(outer));
    std::copy(sum.begin(), sum.end(), outer.begin() + 10);
    EXPECT_EQ(sent, kSrcMac + kDstMac + be16(0x0800) + outer + Frame(frame.begin() + 14, frame.end()));
  }
  for (int times : chosen) EXPECT_GT(times, 20);
  for (const Frame& frame : kFrames) {
    ASSERT_EQ(twins.run(*program, {.bytes = frame}), "");
    EXPECT_EQ(twins.answer().action, &frame == kFrames.data() ? XDP_TX : XDP_PASS);
  }
}

}  // namespace
}  // namespace xdpgpu::test
