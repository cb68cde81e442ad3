// SPDX-License-Identifier: MIT
//
// What is inside of tunnels (gpu/stages/inner.h): a packet in a tunnel is decided as it would be outside of
// it, and whatever hides it is decided without addresses. What maps/parse.h makes of the bare packet is the
// measure.
#include <fmt/format.h>

#include "gpu/stages/pipeline.h"
#include "maps/parse.h"
#include "tests/backends/captures.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

using Action = gpu::AclRule::Action;
using Bytes = std::vector<u8>;

constexpr std::array<Tunnel, 9> kTunnels{Tunnel::ipip,  Tunnel::gre,    Tunnel::gre_ethernet,
                                         Tunnel::vxlan, Tunnel::geneve, Tunnel::geneve_ethernet,
                                         Tunnel::gtp,   Tunnel::gue_0,  Tunnel::gue_1};
constexpr std::array<const char*, 9> kNames{"ipip",  "gre",           "gre with Ethernet",
                                            "vxlan", "geneve",        "geneve with Ethernet",
                                            "gtp",   "gue variant 0", "gue variant 1"};
const char* name_of(Tunnel kind) { return kNames[static_cast<std::size_t>(kind)]; }

// Numbers of rules: by the inner packet's fields, by the outer one's, and of packets without addresses.
constexpr u32 kInner = 1, kOuter = 2, kNoAddresses = 3;
gpu::AclSettings by_who() {
  gpu::AclSettings acl;
  acl.rules.resize(3);
  acl.rules[0].src = {prefix4(0x0a000000, 8), prefix6(std::array<u8, 16>{0x20, 0x01, 0x0d, 0xb8}, 32)};
  acl.rules[0].action = Action::drop;
  acl.rules[1].src = {prefix4(0xc0000201, 32)};
  acl.rules[1].action = Action::tx;
  acl.rules[2].action = Action::pass;
  return acl;
}
std::vector<gpu::PipelineSettings> settings_with(const gpu::AclSettings& acl) {
  return {{"outer", {acl}}, {"inner", {acl}, true}};
}

// A stream that is made frame by frame.
class Stream {
 public:
  explicit Stream(u32 packets)
      : traffic_{FrameRegion((u64{packets} * XG_CHUNK_SIZE + 8191) & ~u64{4095}), {}} {}
  void add(std::span<const u8> frame, u16 pipeline) {
    const auto i = static_cast<u32>(traffic_.descriptors.size());
    traffic_.descriptors.push_back(
        place(traffic_.region, u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA, frame, pipeline, i));
  }
  const Traffic& traffic() const { return traffic_; }
  Answers expected(const gpu::AclSettings& acl) const {
    return tests::expected(traffic_, settings_with(acl));
  }

 private:
  Traffic traffic_;
};

Bytes udp_frame(u32 inner_tags = 0, u32 payload = 20) {
  Bytes frame{2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8};
  for (u32 i = 0; i < inner_tags; i++) frame.insert(frame.end(), {0x81, 0, 0, 9});
  const u8 total = static_cast<u8>(28 + payload), udp = static_cast<u8>(8 + payload);
  frame.insert(frame.end(), {0x08, 0, 0x45, 0,  0, total, 0, 0, 0, 0,  64, 17, 0,   0, 10,
                             1,    2, 3,    10, 9, 8,     7, 4, 0, 16, 0,  0,  udp, 0, 0});
  frame.resize(frame.size() + payload, 0x33);
  return frame;
}

u32 rule_of(const Answer& answer) { return XG_VERDICT_RULE(answer.verdict); }

TEST(Inner, EachTunnelIsSeenThrough) {
  Stream stream(4096);
  std::vector<std::string> what;
  for (const Tunnel kind : kTunnels)
    for (const bool v4 : {true, false})
      for (u32 extras = 0; extras < 8; extras++)
        for (u32 tags = 0; tags < 3; tags++) {
          stream.add(in_tunnel(kind, v4, udp_frame(tags), extras), 1);
          what.push_back(
              fmt::format("{} in IPv{}, extras {}, {} tags", name_of(kind), v4 ? 4 : 6, extras, tags));
        }
  const Answers answers = stream.expected(by_who());
  for (std::size_t i = 0; i < answers.size(); i++) EXPECT_EQ(rule_of(answers[i]), kInner) << what[i];
}

TEST(Inner, WithoutItTheOuterHeadersDecide) {
  Stream stream(16);
  for (const Tunnel kind : kTunnels) stream.add(in_tunnel(kind, true, udp_frame(), 1), 0);
  for (const Answer& answer : stream.expected(by_who())) EXPECT_EQ(rule_of(answer), kOuter);
}

// However much of the frame is there: as soon as there is a tunnel, its ends decide nothing.
TEST(Inner, TruncatedAtEachByte) {
  for (const Tunnel kind : kTunnels)
    for (const bool mended : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, outer lengths mended: {}", name_of(kind), mended));
      const Bytes whole = in_tunnel(kind, true, udp_frame(), 7);
      Stream stream(static_cast<u32>(whole.size()) + 1);
      for (std::size_t bytes = 34; bytes <= whole.size(); bytes++) {
        Bytes frame = whole;
        frame.resize(bytes);
        if (mended) mend_outer_lengths(frame);
        stream.add(frame, 1);
      }
      const Answers answers = stream.expected(by_who());
      const bool udp = kind >= Tunnel::vxlan;
      for (std::size_t i = 0; i < answers.size(); i++) {
        // The ports that tell which tunnel it is are not there yet.
        const bool told = !udp || 34 + i >= 38;
        const u32 should = i + 1 == answers.size() ? kInner : told ? kNoAddresses : kOuter;
        EXPECT_EQ(rule_of(answers[i]), should) << 34 + i << " bytes of " << whole.size();
      }
    }
}

// The headers have to stand in the first buffer.
TEST(Inner, OfTwoBuffersTheFirstOneHasTheHeaders) {
  const Bytes frame = in_tunnel(Tunnel::vxlan, true, udp_frame(), 0);
  constexpr u32 kHeaders = 14 + 20 + 8 + 8 + 14 + 20 + 8;
  for (u32 first = 42; first < frame.size(); first++) {
    Traffic traffic = single_frame(frame, 1);
    const xg_descriptor whole = traffic.descriptors.front();
    traffic.descriptors = {{whole.offset, first, XG_DESC_MORE},
                           {whole.offset + first, whole.length - first, 0}};
    EXPECT_EQ(rule_of(expected(traffic, settings_with(by_who()))[0]),
              first < kHeaders ? kNoAddresses : kInner)
        << "cut behind " << first << " bytes";
  }
}

// IPv6 options of 8 + 8 units bytes, behind all options that GENEVE has here, and then UDP, or the header of
// a later fragment of it.
Bytes far_frame(u32 units, bool fragment) {
  Bytes frame{2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 60, 64};
  for (int end = 0; end < 2; end++)
    frame.insert(frame.end(), {0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  frame.insert(frame.end(), {static_cast<u8>(fragment ? 44 : 17), static_cast<u8>(units), 1, 4, 0, 0, 0, 0});
  frame.resize(frame.size() + units * std::size_t{8});
  if (fragment)
    frame.insert(frame.end(), {17, 0, 0, 8, 0, 0, 0, 1});
  else
    frame.insert(frame.end(), {0, 1, 0, 2, 0, 8, 0, 0});
  frame[19] = static_cast<u8>(frame.size() - 54);
  return in_tunnel(Tunnel::geneve_ethernet, true, frame, 7);
}

// And within what is staged of a packet.
TEST(Inner, HeadersThatReachTooFarAreHidden) {
  // The last header begins at 14 + 20 + 8 + 8 + 224 + 14 + 40 + 8 + 8 units.
  for (const bool fragment : {false, true})
    for (const u32 units : {0u, 1u, 12u, 13u, 28u}) {
      Stream stream(1);
      stream.add(far_frame(units, fragment), 1);
      const u32 last = 336 + units * 8;
      EXPECT_EQ(rule_of(stream.expected(by_who())[0]), last > XG_INNER_REACH - 76 ? kNoAddresses : kInner)
          << units;
    }
}

// Captures of other people's tunnels: GENEVE with Ethernet, and GRE with IPv4, in both directions.
TEST(Inner, RealTunnelsAreSeenThrough) {
  const auto pipelines = gpu::Pipelines::compile({{"p", {}, true}});
  ASSERT_TRUE(pipelines);
  Traffic traffic = captured_traffic(captures_directory(), 1);
  xg_batch batch{};
  batch.frames.v = reinterpret_cast<xg_word*>(traffic.region.base());
  batch.frames_bytes = traffic.region.size();
  batch.descriptors.v = traffic.descriptors.data();
  batch.image.v = const_cast<xg_word*>((*pipelines)->image().data());
  batch.count = static_cast<u32>(traffic.descriptors.size());
  batch.generation = kGeneration;
  std::map<u32, u32> seen_through, hidden;  // by the outer protocol
  for (u32 i = 0; i < batch.count; i++) {
    xg_view seen{};
    ASSERT_TRUE(xg_begin(batch, i, seen));
    const xg_view outer = seen;
    xg_look_inside(batch, seen);
    if (seen.l3_offset == outer.l3_offset) continue;
    seen_through[outer.protocol] += seen.family != 0 ? 1 : 0;
    hidden[outer.protocol] +=
        (seen.flags & XG_PKT_MALFORMED) != 0 && (outer.flags & XG_PKT_MALFORMED) == 0 ? 1 : 0;
  }
  EXPECT_EQ(seen_through[17], 8u) << "beside two of ARP";
  EXPECT_EQ(seen_through[47], 40u);
  EXPECT_EQ(hidden[17], 0u);
  EXPECT_EQ(hidden[47], 0u);
}

// What the parser makes of a packet and what is made of it inside of a tunnel is the same, whatever it is.
TEST(Inner, PacketsAreDecidedAsOutsideOfTheTunnel) {
  Random random(test_seed());
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  const Traffic bare = random_traffic(random, 6000, 1);
  Stream stream(12'000);
  struct Case {
    Tunnel kind;
    bool hidden;  // it is malformed, or a tunnel itself
  };
  std::vector<Case> cases;
  u32 hidden = 0;
  for (const xg_descriptor& d : bare.descriptors) {
    if (d.offset > bare.region.size() || d.length < 14 || d.length > 1500 ||
        d.offset + d.length > bare.region.size())
      continue;
    const std::span<const u8> frame(bare.region.base() + d.offset, d.length);
    const Tunnel kind = random.pick(kTunnels);
    const Bytes made = in_tunnel(kind, random.one_in(2), frame, random.below(3));
    if (made.empty() || made.size() > 1700) continue;
    xg_packet packet;
    xg_parse(frame.data(), frame.data() + frame.size(), 0, &packet);
    // Who takes the IP packet alone leaves the tags behind.
    if (packet.malformed == XG_MALFORMED_tags) continue;
    stream.add(frame, 0);
    stream.add(made, 1);
    const bool tunnel =
        packet.key.family != 0 && (packet.protocol == 47 || packet.protocol == 4 || packet.protocol == 41);
    cases.push_back({kind, tunnel || (packet.flags & XG_PKT_MALFORMED) != 0});
    hidden += cases.back().hidden ? 1 : 0;
  }
  Bytes unknown = in_tunnel(Tunnel::vxlan, true, udp_frame(), 0);
  unknown[42] = 0;
  stream.add(unknown, 1);
  ASSERT_GT(cases.size(), 3000u);
  ASSERT_GT(hidden, 300u);
  for (int round = 0; round < 4; round++) {
    gpu::AclSettings acl = random_acl(random, 40);
    acl.cache = false;
    // VLAN tags are the outer frame's.
    for (gpu::AclRule& rule : acl.rules) rule.vlans.clear();
    const Answers answers = stream.expected(acl);
    for (std::size_t i = 0; i < cases.size() && !HasFailure(); i++) {
      const Answer& should = cases[i].hidden ? answers.back() : answers[2 * i];
      EXPECT_EQ(answers[2 * i + 1].verdict, should.verdict)
          << "packet " << i << " in " << name_of(cases[i].kind) << ", hidden: " << cases[i].hidden;
    }
  }
}

// ---- what strangers may send ---------------------------------------------------------------------------

struct Odd {
  const char* what;
  Tunnel kind;
  u32 extras;
  std::function<void(Bytes&)> change;  // of the frame; outer IPv4, so that UDP begins at 34, the tunnel at 42
  u32 should;
};

std::vector<Odd> odd_cases() {
  const auto set = [](std::size_t at, std::initializer_list<int> bytes) {
    return [at, bytes = std::vector<int>(bytes)](Bytes& frame) {
      for (std::size_t i = 0; i < bytes.size(); i++) frame[at + i] = static_cast<u8>(bytes[i]);
    };
  };
  return {
      {"VXLAN without a valid id", Tunnel::vxlan, 0, set(42, {0x00}), kNoAddresses},
      {"VXLAN-GPE's next protocol", Tunnel::vxlan, 0, set(42, {0x0c}), kNoAddresses},
      {"VXLAN to another port", Tunnel::vxlan, 0, set(36, {0x12, 0xb6}), kOuter},
      {"VXLAN's port as the source's", Tunnel::vxlan, 0, set(34, {0x12, 0xb5, 0, 53}), kOuter},
      {"ARP in VXLAN", Tunnel::vxlan, 0, set(62, {0x08, 0x06}), kNoAddresses},
      {"GENEVE of another version", Tunnel::geneve, 0, set(42, {0x40}), kNoAddresses},
      {"GENEVE that carries something else", Tunnel::geneve, 0, set(44, {0x88, 0x47}), kNoAddresses},
      {"GENEVE with options behind its end", Tunnel::geneve, 0, set(42, {0x3f}), kNoAddresses},
      {"GENEVE's control bit", Tunnel::geneve, 0, set(43, {0x80}), kInner},
      {"GRE with routing", Tunnel::gre, 0, set(34, {0x40}), kNoAddresses},
      {"GRE version 1", Tunnel::gre, 0, set(35, {0x01}), kNoAddresses},
      {"GRE with a checksum that is not there", Tunnel::gre, 0, set(34, {0x80}), kNoAddresses},
      {"GRE that carries ERSPAN", Tunnel::gre, 0, set(36, {0x88, 0xbe}), kNoAddresses},
      {"GTP-U's echo request", Tunnel::gtp, 0, set(43, {1}), kOuter},
      {"GTP-U version 2", Tunnel::gtp, 0, set(42, {0x50}), kNoAddresses},
      {"GTP'", Tunnel::gtp, 0, set(42, {0x20}), kNoAddresses},
      {"GTP-U longer than UDP", Tunnel::gtp, 0, set(44, {0x01, 0x00}), kNoAddresses},
      {"GTP-U shorter than the packet", Tunnel::gtp, 0, set(44, {0x00, 0x20}), kNoAddresses},
      {"GTP-U's extension header of no length", Tunnel::gtp, 4, set(54, {0x00}), kNoAddresses},
      {"GTP-U with Ethernet", Tunnel::gtp, 0, set(50, {0x02}), kNoAddresses},
      {"GUE's control message", Tunnel::gue_0, 0, set(42, {0x20}), kOuter},
      {"GUE with flags", Tunnel::gue_0, 1, set(44, {0x80, 0x00}), kNoAddresses},
      {"GUE that carries UDP itself", Tunnel::gue_0, 0, set(43, {17}), kNoAddresses},
      {"GUE variant 2", Tunnel::gue_1, 0, set(42, {0x85}), kNoAddresses},
      {"an outer fragment", Tunnel::vxlan, 0, set(20, {0x20, 0x00}), kNoAddresses},
      {"a later outer fragment of GRE", Tunnel::gre, 0, set(20, {0x00, 0x02}), kNoAddresses},
      {"a later outer fragment of UDP", Tunnel::vxlan, 0, set(20, {0x00, 0x02}), kOuter},
      {"an outer UDP length beyond the packet", Tunnel::vxlan, 0, set(38, {0xff, 0xff}), kNoAddresses},
      {"an outer UDP length that ends in the tunnel header", Tunnel::vxlan, 0, set(38, {0, 12}),
       kNoAddresses},
      {"protocol 41 with IPv4", Tunnel::ipip, 0, set(23, {41}), kNoAddresses},
      {"an inner header of 16 bytes", Tunnel::ipip, 0, set(34, {0x44}), kNoAddresses},
      {"an inner packet beyond the outer one", Tunnel::ipip, 0, set(36, {0, 49}), kNoAddresses},
      {"an inner UDP length of 7", Tunnel::ipip, 0, set(58, {0, 7}), kNoAddresses},
      {"an inner first fragment", Tunnel::ipip, 0, set(40, {0x20, 0}), kInner},
      {"an inner later fragment", Tunnel::ipip, 0, set(40, {0, 2}), kInner},
      {"a tunnel in the tunnel", Tunnel::ipip, 0, set(43, {47}), kNoAddresses},
      {"VXLAN in IP in IP", Tunnel::ipip, 0, set(56, {0x12, 0xb5}), kNoAddresses},
      {"a later fragment of a tunnel in the tunnel", Tunnel::ipip, 0, set(40, {0, 2, 64, 4}), kNoAddresses},
      {"not a tunnel", Tunnel::ipip, 0, set(23, {50}), kOuter},
  };
}

Bytes frame_of(const Odd& odd) {
  Bytes frame = in_tunnel(odd.kind, true, udp_frame(), odd.extras);
  odd.change(frame);
  return frame;
}

TEST(Inner, WhatHidesThePacketIsDecidedWithoutAddresses) {
  const std::vector<Odd> odd = odd_cases();
  Stream stream(static_cast<u32>(odd.size()));
  for (const Odd& one : odd) stream.add(frame_of(one), 1);
  const Answers answers = stream.expected(by_who());
  for (std::size_t i = 0; i < odd.size(); i++) EXPECT_EQ(rule_of(answers[i]), odd[i].should) << odd[i].what;
}

// All of these, as every device sees them.
class InnerOnDevices : public testing::TestWithParam<Target> {};

TEST_P(InnerOnDevices, TheReferencesAnswers) {
  std::vector<Bytes> frames;
  for (const Tunnel kind : kTunnels) {
    for (u32 extras = 0; extras < 8; extras++)
      for (const bool v4 : {true, false})
        frames.push_back(in_tunnel(kind, v4, udp_frame(extras % 3), extras));
    const Bytes whole = frames.back();
    for (std::size_t bytes = 34; bytes < whole.size(); bytes++) {
      frames.push_back(whole);
      frames.back().resize(bytes);
      mend_outer_lengths(frames.back());
    }
  }
  for (const Odd& one : odd_cases()) frames.push_back(frame_of(one));
  for (u32 units = 0; units < 80; units++) frames.push_back(far_frame(units / 2, units % 2 != 0));
  Stream stream(static_cast<u32>(frames.size()));
  for (const Bytes& frame : frames) stream.add(frame, 1);
  // Each cut in two somewhere, too.
  std::vector<xg_descriptor> all = stream.traffic().descriptors;
  for (std::size_t i = 0; i < frames.size(); i++) {
    const xg_descriptor whole = all[i];
    const u32 first = 34 + static_cast<u32>(i * 7 % 90);
    if (first >= whole.length) continue;
    all.push_back({whole.offset, first, XG_DESC_MORE});
    all.push_back({whole.offset + first, whole.length - first, 0});
  }
  const auto settings = settings_with(by_who());
  gpu::reference::Judge judge_of(settings);
  const Answers should = answers_of(judge_of, stream.traffic().region.bytes(), all, kGeneration);
  XDPGPU_OPEN_OR_SKIP(GetParam(), stream.traffic().region.base(), stream.traffic().region.size());
  ASSERT_TRUE(device->load(kGeneration, *gpu::Pipelines::compile(settings)));
  auto queue = device->open_queue(GetParam().queue(4096, 2));
  ASSERT_TRUE(queue) << queue.error();
  for (const u32 batch : {1000u, 33u}) expect_equal(judge(**queue, all, batch, kGeneration), should, all);
}

INSTANTIATE_TEST_SUITE_P(Backends, InnerOnDevices, testing::ValuesIn(all_targets()), target_name);

// Malformed is for conntrack to say; what is in good order and not IP is not.
TEST(Inner, WhatIsHiddenIsMalformedAndAnotherProtocolIsNot) {
  gpu::ConntrackSettings conntrack;
  conntrack.egress = false;
  conntrack.on_invalid = Action::drop;
  conntrack.on_untracked = Action::pass;
  Bytes hidden = in_tunnel(Tunnel::vxlan, true, udp_frame(), 0), arp = hidden;
  hidden[42] = 0;
  arp[62] = 0x08, arp[63] = 0x06;
  Stream stream(2);
  stream.add(hidden, 0);
  stream.add(arp, 0);
  const Answers answers = tests::expected(stream.traffic(), {{"p", {conntrack}, true}});
  EXPECT_EQ(XG_VERDICT_ACTION(answers[0].verdict), XG_DROP);
  EXPECT_EQ(XG_VERDICT_ACTION(answers[1].verdict), XG_PASS);
}

// Which fields the stages see, on the device's side.
TEST(Inner, TheViewIsOfTheInnerHeaders) {
  const auto pipelines = gpu::Pipelines::compile({{"p", {}, true}});
  ASSERT_TRUE(pipelines);
  EXPECT_EQ((*pipelines)->payload_bytes(0), XG_INNER_REACH);
  for (const Tunnel kind : kTunnels) {
    SCOPED_TRACE(name_of(kind));
    const Bytes frame = in_tunnel(kind, false, udp_frame(1), 5);
    Traffic traffic = single_frame(frame, 0);
    xg_batch batch{};
    batch.frames.v = reinterpret_cast<xg_word*>(traffic.region.base());
    batch.frames_bytes = traffic.region.size();
    batch.descriptors.v = traffic.descriptors.data();
    batch.image.v = const_cast<xg_word*>((*pipelines)->image().data());
    batch.count = 1;
    batch.generation = kGeneration;
    xg_view seen{};
    ASSERT_TRUE(xg_begin(batch, 0, seen));
    const u32 outer_l3 = seen.l3_offset;
    xg_look_inside(batch, seen);
    const auto inner_l3 = static_cast<u32>(frame.size() - 48);
    EXPECT_EQ(seen.family, 4u);
    EXPECT_EQ(seen.protocol, 17u);
    EXPECT_EQ(seen.flags, XG_PKT_IPV4 | XG_PKT_UDP | XG_PKT_PORTS);
    EXPECT_EQ(seen.l3_offset, inner_l3);
    EXPECT_EQ(seen.l4_offset, inner_l3 + 20);
    EXPECT_EQ(seen.payload_offset, inner_l3 + 28);
    EXPECT_EQ(seen.src[0], 0x0302010au);
    EXPECT_EQ(seen.dst[0], 0x0708090au);
    EXPECT_EQ(seen.ports, 0x00100004u);
    EXPECT_EQ(xg_outer_l3(seen), outer_l3) << "what is sent on is the whole packet";
    EXPECT_FALSE(xg_outer_ipv4(seen));
  }
}

// The compiler of the devices refuses what `policy check` refuses.
TEST(Inner, IsCompiledWithoutCacheAndWithoutStagesThatGoByTheOutermostHeaders) {
  gpu::L2fwdSettings cached;
  cached.cache = true;
  const auto with_cache = gpu::Pipelines::compile({{"p", {cached}, true}});
  ASSERT_FALSE(with_cache);
  EXPECT_NE(with_cache.error().find("pipeline \"p\", stage 1 (l2fwd): its verdict is by the headers inside"),
            std::string::npos)
      << with_cache.error();
  EXPECT_TRUE(gpu::Pipelines::compile({{"p", {cached}}}));
  gpu::DecapsulateSettings decapsulate;
  decapsulate.addresses = {prefix4(0xc0000202, 32)};
  const auto outermost = gpu::Pipelines::compile({{"p", {decapsulate}, true}});
  ASSERT_FALSE(outermost);
  EXPECT_NE(outermost.error().find("decapsulate goes by the outermost headers"), std::string::npos);
  EXPECT_TRUE(gpu::Pipelines::compile({{"p", {decapsulate}}}));
}

// What is remembered of outer flows is not what is remembered of inner ones.
TEST(Inner, ATableIsOfOneOfTheTwo) {
  gpu::RateLimitSettings limit;
  limit.packets_per_second = limit.burst_packets = 1;
  const auto outer = gpu::Pipelines::compile({{"p", {limit}}}),
             inner = gpu::Pipelines::compile({{"p", {limit}, true}});
  ASSERT_TRUE(outer);
  ASSERT_TRUE(inner);
  EXPECT_NE((*outer)->states()[0].identity, (*inner)->states()[0].identity);
}

}  // namespace
}  // namespace xdpgpu::tests
