// SPDX-License-Identifier: MIT
//
// tests/netns/flood_test.cpp: floods that are made to exhaust what stages remember, and what becomes of
// everybody else meanwhile: the share of the packets of flows that stood before which get the verdict that
// they get without a flood, the process's memory, and the time that packets stay. Each test prints them in
// one line.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <future>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kPort = 7000, kGreedyPort = 7001;
constexpr std::size_t kFriends = 32;
constexpr std::size_t kSteps = 2000;  // of each a packet of a friend, and what else there is
constexpr std::size_t kFloodPerStep = 10;
constexpr unsigned kPps = 24000;
constexpr unsigned kEntries = 4096;  // far fewer than the flood has sources
constexpr double kMostGrowthMib = 16;

class Flood : public OnOneWire {
 protected:
  // Floods come from 172.16.0.0/12, and end behind the stage: what is sent back is the friends' own.
  void attach_stage(const std::string& stage) {
    attach(inspect_all(stage + R"(, {"stage": "acl", "rules": [
                                     {"match": {"src": "172.16.0.0/12"}, "action": "drop"}]}, {"stage": "l2fwd"})",
                       R"("default": "pass", "on_overload": "drop", "on_failure": "drop",
                          "io": {"heartbeat": "10s", "ring_size": 4096})"));
  }
  // Likewise, but conntrack cannot know that they end: it writes down nothing of what it knows to be dropped.
  void attach_conntrack(const std::string& settings) {
    attach_stage(R"({"stage": "conntrack", )" + settings +
                 R"(}, {"stage": "rate_limit", "per": "src", "pps": 1000000, "burst": 1000000})");
  }
  static std::string friend_address(std::size_t i) { return fmt::format("10.9.2.{}", 10 + i); }
  // One packet of each source.
  Frame forged(std::size_t i, std::uint8_t protocol) const {
    PacketSpec spec = from_left(static_cast<std::uint16_t>(1024 + i % 40000), kPort, "");
    spec.src_ip = fmt::format("172.{}.{}.{}", 16 + (i >> 16), (i >> 8) & 255, i & 255);
    spec.protocol = protocol;
    spec.tcp_flags = kSyn;
    return build(spec);
  }
  // Sends in this order and at this rate, and returns the seconds that took when all have been decided.
  double send(const std::vector<Frame>& frames, unsigned pps) {
    const Pins& pins = attached_->pins();
    const auto decided = [&] {
      const auto now = pins.worker_counts();
      return now.at("transmitted") + now.at("dropped") + pins.kernel("drop_overload");
    };
    const auto before = decided();
    const auto start = std::chrono::steady_clock::now();
    Sender(left_port()).send_paced(frames, pps);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(eventually([&] { return decided() - before >= frames.size(); }, 10s)) << pins.summary();
    EXPECT_EQ(pins.kernel("drop_overload"), 0U)
        << "the machine was too busy for the rate: " << pins.summary();
    return took.count();
  }
  double resident_mib() const {
    std::ifstream file(fmt::format("/proc/{}/statm", attached_->data_plane()));
    std::uint64_t all = 0, resident = 0;
    file >> all >> resident;
    return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
  }
  Json table() const { return attached_->status().at("tables").at(0); }
};

// ---- Sources that nobody has, against a limit for each source ------------------------------------------

class SpoofedSources : public Flood {
 protected:
  static constexpr std::size_t kSources = 64;  // each of them sends less than the burst
  static constexpr unsigned kLimit = 5, kBurst = 40, kRoom = 256;
  struct Run {
    std::uint64_t friends = 0, greedy = 0;  // that came back
    double seconds = 0, growth_mib = 0;
  };
  // Friends stay below the limit, one source sends ten times as much.
  Run run(bool flood) {
    attach_stage(
        fmt::format(R"({{"stage": "rate_limit", "per": "src", "pps": {}, "burst": {}, "entries": {}}})",
                    kLimit, kBurst, kRoom));
    std::vector<Frame> frames;
    std::size_t number = 0;
    for (std::size_t step = 0; step < kSteps; ++step) {
      PacketSpec one = from_left(1000, kPort, "");
      one.src_ip = friend_address(step % kSources);
      frames.push_back(build(one));
      one.src_ip = "10.9.2.250";
      one.dst_port = kGreedyPort;
      frames.push_back(build(one));
      for (std::size_t i = 0; flood && i < kFloodPerStep; ++i) frames.push_back(forged(number++, kUdp));
    }
    Sniffer at_left(left_port());
    auto came = std::async(std::launch::async, [&] { return at_left.drain(700ms, 20s); });
    const double before_mib = resident_mib();
    Run result;
    result.seconds = send(frames, flood ? kPps : kPps / 6);
    result.growth_mib = resident_mib() - before_mib;
    for (const auto& captured : came.get()) {
      const auto packet = parse(captured.frame);
      result.friends += packet && packet->dst_port == kPort ? 1 : 0;
      result.greedy += packet && packet->dst_port == kGreedyPort ? 1 : 0;
    }
    EXPECT_EQ(at_left.lost(), 0U);
    return result;
  }
};

TEST_F(SpoofedSources, CostFriendsNothingAndGainTheGreedyNothing) {
  const Run calm = run(false);
  EXPECT_EQ(attached_->detach().status, 0);
  attached_.reset();
  const Run flooded = run(true);
  const Json counts = table();
  fmt::print(
      "spoofed sources: goodput {:.3f} of that without; {} of a source's {} above its limit came through, {} "
      "without; {} sources, {} entries, {} evicted, memory +{:.1f} MiB\n",
      static_cast<double>(flooded.friends) / static_cast<double>(calm.friends), flooded.greedy, kSteps,
      calm.greedy, kSteps * kFloodPerStep, kRoom, counts.at("evicted").get<std::uint64_t>(),
      flooded.growth_mib);
  EXPECT_EQ(calm.friends, kSteps);
  EXPECT_EQ(flooded.friends, kSteps);
  for (const Run& one : {calm, flooded})
    EXPECT_LE(static_cast<double>(one.greedy), 1.1 * (kBurst + kLimit * one.seconds) + 5);
  EXPECT_GT(counts.at("evicted").get<std::uint64_t>(), kSteps * kFloodPerStep / 2)
      << "it was no flood: " << counts;
  EXPECT_LE(counts.at("occupied").get<std::uint64_t>(), kRoom);
  EXPECT_LT(flooded.growth_mib, kMostGrowthMib);
  expect_conserved(attached_->pins());
}

// ---- More connections than there is room for -----------------------------------------------------------

struct Eviction {
  const char* name;
  bool keeps;  // the connections that are in use
};
void PrintTo(const Eviction& eviction, std::ostream* out) { *out << eviction.name; }

class Exhausted : public Flood, public testing::WithParamInterface<Eviction> {
 protected:
  PacketSpec from_friend(std::size_t i, std::uint8_t flags) const {
    PacketSpec spec = from_left(static_cast<std::uint16_t>(2000 + i), kPort, "");
    spec.src_ip = friend_address(i);
    spec.protocol = kTcp;
    spec.tcp_flags = flags;
    return spec;
  }
  void establish() {
    std::vector<Frame> frames;
    for (std::size_t i = 0; i < kFriends; ++i) {
      frames.push_back(build(from_friend(i, kSyn)));
      PacketSpec answer = from_friend(i, kSyn | kAck);
      std::swap(answer.src_ip, answer.dst_ip);
      std::swap(answer.src_port, answer.dst_port);
      frames.push_back(build(answer));
      frames.push_back(build(from_friend(i, kAck)));
    }
    send(frames, kPps);
    EXPECT_EQ(attached_->pins().worker("dropped"), 0U);
  }
};
// XDPGPU_TEST_FLOODS: all of them, each some seconds long.
std::vector<Eviction> evictions() {
  std::vector<Eviction> some{{"lru", true}, {"refuse", true}};
  if (std::getenv("XDPGPU_TEST_FLOODS") != nullptr)
    some.insert(some.end(), {{"lfu", true}, {"fifo", true}, {"random", true}});
  return some;
}
INSTANTIATE_TEST_SUITE_P(Evict, Exhausted, testing::ValuesIn(evictions()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(Exhausted, ConnectionsInUseGoOn) {
  attach_conntrack(fmt::format(R"("egress": false, "loose": false, "entries": {}, "evict": "{}")", kEntries,
                               GetParam().name));
  establish();
  const Pins& pins = attached_->pins();
  const auto before = pins.worker("transmitted");
  const double before_mib = resident_mib();
  std::vector<Frame> frames;
  std::size_t number = 0;
  for (std::size_t step = 0; step < kSteps; ++step) {
    frames.push_back(build(from_friend(step % kFriends, kAck | kPsh)));
    for (std::size_t i = 0; i < kFloodPerStep; ++i) frames.push_back(forged(number++, kTcp));
  }
  send(frames, kPps);
  const double growth_mib = resident_mib() - before_mib;
  const double goodput = static_cast<double>(pins.worker("transmitted") - before) / kSteps;
  const Json counts = table();
  fmt::print(
      "connections exhausted, evict {}: goodput {:.3f} of that without; {} SYNs, {} entries, {} evicted, {} "
      "refused, memory +{:.1f} MiB, latency {}\n",
      GetParam().name, goodput, kSteps * kFloodPerStep, kEntries, counts.at("evicted").get<std::uint64_t>(),
      counts.at("refused").get<std::uint64_t>(), growth_mib, attached_->status().at("latency_ns").dump());
  if (GetParam().keeps)
    EXPECT_GE(goodput, 0.95);
  else
    EXPECT_LT(goodput, 0.95) << "it keeps them, too: say so in config/README.md";
  EXPECT_GT(counts.at("evicted").get<std::uint64_t>() + counts.at("refused").get<std::uint64_t>(),
            kSteps * kFloodPerStep / 2)
      << "it was no flood: " << counts;
  EXPECT_LE(counts.at("occupied").get<std::uint64_t>(), kEntries);
  EXPECT_LT(growth_mib, kMostGrowthMib);
  expect_conserved(pins);
}

// ---- Keys that are alike -------------------------------------------------------------------------------

using AlikeKeys = Flood;

// An attacker who does not have the table's key can only guess which keys meet in a set. Those that differ in
// as few bits as they can fill the sets as evenly as chance does: of half as many keys as there are entries,
// in sets of eight, chance finds no room for 0.8 % (Poisson).
TEST_F(AlikeKeys, MeetInASetNoMoreOftenThanByChance) {
  attach_conntrack(
      fmt::format(R"("egress": false, "loose": true, "entries": {}, "evict": "refuse")", kEntries));
  std::vector<Frame> frames;
  for (std::size_t i = 0; i < kEntries / 2; ++i) {
    PacketSpec spec = from_left(static_cast<std::uint16_t>(4096 + i), kPort, "");
    spec.src_ip = "172.16.0.1";
    frames.push_back(build(spec));
  }
  send(frames, kPps);
  const Json counts = table();
  const auto inserted = counts.at("inserted").get<std::uint64_t>(),
             refused = counts.at("refused").get<std::uint64_t>(),
             full = refused + counts.at("evicted").get<std::uint64_t>();
  fmt::print(
      "keys alike: {} keys, {} entries made, {} found their set of 8 full ({:.2f} %; 0.8 % by chance)\n",
      frames.size(), inserted, full, 100.0 * static_cast<double>(full) / static_cast<double>(frames.size()));
  EXPECT_EQ(inserted + refused, frames.size());
  EXPECT_LT(full, frames.size() * 3 / 100);
  expect_conserved(attached_->pins());
}

}  // namespace
}  // namespace xdpgpu::lab
