// SPDX-License-Identifier: MIT
//
// Where redirected packets go: live ones, on wires, are where the reference says.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>

#include "tests/kernel/frame.hpp"
#include "tests/kernel/programs/twins.hpp"
#include "tests/netns/lab.hpp"

namespace xdpgpu::test {
namespace {

constexpr u32 kMap = 0;

class LiveRedirectTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    if (auto why = lab::why_unavailable(); !why.empty()) GTEST_SKIP() << why;
    if (!lab::kernel_at_least(5, 18)) GTEST_SKIP() << "this kernel runs no live packets: Linux 5.18 does";
  }
};

struct Wires {
  lab::Namespace near{"near"}, far{"far"};
  lab::Veth a{near, "xgRa", far, "xgRfa"}, b{near, "xgRb", far, "xgRfb"}, c{near, "xgRc", far, "xgRfc"};

  Wires() {
    for (const lab::Veth* wire : all()) wire->up();
  }
  std::array<const lab::Veth*, 3> all() const { return {&a, &b, &c}; }
  std::array<u64, 3> received() const {
    std::array<u64, 3> packets{};
    for (std::size_t i = 0; i < 3; ++i) packets[i] = all()[i]->b().counters().rx_packets;
    return packets;
  }
};

// The interfaces that a packet is sent to, as the reference says it: of a broadcast all of the map's, perhaps
// without the one that it came from.
std::set<u32> targets_of(const ProgramAnswer& answer, const std::set<u32>& in_map, u32 ingress) {
  if (!answer.redirect) return {};
  if ((answer.redirect->flags & BPF_F_BROADCAST) == 0) return {answer.redirect->ifindex};
  std::set<u32> all = in_map;
  if ((answer.redirect->flags & BPF_F_EXCLUDE_INGRESS) != 0) all.erase(ingress);
  return all;
}

// A call of redirect_map by the packet's own words.
Code by_map() {
  Assembly a;
  a(load(BPF_W, r7, r1, 0), load(BPF_W, r3, r1, 4), move(r4, r7), alu_k(BPF_ADD, r4, 60));
  a.to("short", jump(BPF_JGT, r4, r3));
  a(map(r1, kMap), load(BPF_W, r2, r7, 40), load(BPF_W, r3, r7, 44), call(BPF_FUNC_redirect_map), leave());
  a.label("short")(move_k(r0, XDP_DROP), leave());
  return a.code();
}

// Two calls, whatever they find.
struct Call {
  bool by_map;
  u32 number;  // of an entry, or of an interface
};
Code twice(Call first, Call second) {
  Assembly a;
  for (const Call& one : {first, second})
    if (one.by_map)
      a(map(r1, kMap), move_k(r2, static_cast<std::int32_t>(one.number)), move_k(r3, 0),
        call(BPF_FUNC_redirect_map));
    else
      a(move_k(r1, static_cast<std::int32_t>(one.number)), move_k(r2, 0), call(BPF_FUNC_redirect));
  a(move_k(r0, XDP_REDIRECT), leave());
  return a.code();
}

TEST_F(LiveRedirectTest, IsWhereTheReferenceSays) {
  const Wires wires;
  wires.near.run([&] {
    for (u32 type : {BPF_MAP_TYPE_DEVMAP, BPF_MAP_TYPE_DEVMAP_HASH}) {
      Twins twins({map_of("ports", type, 4, 4, 64)});
      std::set<u32> in_map;
      for (u32 i = 0; i < 3; ++i) {
        in_map.insert(wires.all()[i]->a().ifindex());
        ASSERT_TRUE(twins.update(kMap, bytes_of(3 + i), bytes_of(wires.all()[i]->a().ifindex())));
      }
      ASSERT_TRUE(twins.erase(kMap, bytes_of(u32{5})));
      in_map.erase(wires.c.a().ifindex());
      ASSERT_TRUE(twins.update(kMap, bytes_of(u32{1}), bytes_of(wires.c.a().ifindex())));
      in_map.insert(wires.c.a().ifindex());

      const auto check = [&](u32 program, const Frame& frame) {
        const auto before = wires.received();
        twins.send(program, {.bytes = frame, .ingress_ifindex = wires.a.a().ifindex()});
        const std::set<u32> targets = targets_of(twins.answer(), in_map, wires.a.a().ifindex());
        std::array<u64, 3> expected = before;
        for (std::size_t i = 0; i < 3; ++i) expected[i] += targets.count(wires.all()[i]->a().ifindex());
        for (int turn = 0; turn < 100 && wires.received() != expected; ++turn) usleep(10'000);
        usleep(2'000);  // for one more than there should be
        EXPECT_EQ(wires.received(), expected) << "targets " << targets.size();
        return targets.size();
      };
      const auto program = twins.add(by_map());
      ASSERT_TRUE(program) << twins.refusal();
      std::size_t sent = 0;
      for (u32 key : {1u, 3u, 4u, 5u, 7u, 9u})
        for (u32 flags : {0u, 1u, 8u, 16u, 24u}) {
          Frame frame = ethernet() + ipv4({}, udp(1, 2, 40));
          const Bytes words = bytes_of(u64{key} | u64{flags} << 32);
          std::copy(words.begin(), words.end(), frame.begin() + 40);
          SCOPED_TRACE("key " + std::to_string(key) + " flags " + std::to_string(flags));
          sent += check(*program, frame);
        }
      EXPECT_EQ(sent, 6u * (3 + 2) + 3u * 3)
          << "six keys broadcast in two ways, three keys are there in three others";
      // The entry with b's number is c; none has 63. What is found last decides; behind one that finds
      // nothing the number that was said before it is an interface's.
      const u32 b = wires.b.a().ifindex();
      ASSERT_LT(b, 63u);
      ASSERT_TRUE(twins.update(kMap, bytes_of(b), bytes_of(wires.c.a().ifindex())));
      const Frame frame = ethernet() + ipv4({}, udp(1, 2, 40));
      for (const auto& [first, second, to] : {std::tuple{Call{true, b}, Call{false, b}, &wires.b},
                                              {Call{false, b}, Call{true, b}, &wires.c},
                                              {Call{false, b}, Call{true, 63}, &wires.b},
                                              {Call{true, b}, Call{true, 63}, &wires.b}}) {
        SCOPED_TRACE("a map " + std::to_string(first.by_map) + ", then " + std::to_string(second.by_map));
        const auto both = twins.add(twice(first, second));
        ASSERT_TRUE(both) << twins.refusal();
        EXPECT_EQ(check(*both, frame), 1u);
        EXPECT_EQ(twins.answer().redirect->ifindex, to->a().ifindex());
      }
    }
  });
}

}  // namespace
}  // namespace xdpgpu::test
