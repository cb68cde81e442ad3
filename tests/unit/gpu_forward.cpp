// SPDX-License-Identifier: MIT
//
// A full table, a million IPv4 and two hundred thousand IPv6 routes: compiled, and packets sent by it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <unordered_map>

#include "gpu/pipelines.hpp"
#include "gpu/stages/pipeline.h"
#include "maps/parse.h"

namespace xdpgpu::gpu {
namespace {

constexpr u32 kRoutes4 = 1'000'000, kRoutes6 = 200'000, kHops = 250;
constexpr u32 kPackets = 20'000;

class Random {
 public:
  u32 below(u32 bound) { return static_cast<u32>(engine_() % bound); }

 private:
  std::mt19937_64 engine_{20261122};
};

u32 bits_of(const Prefix& prefix) { return prefix.family == 4 ? 32 : 128; }

// The address, or the network of it, as a text of bytes.
std::string network(u8 family, const std::array<u8, 16>& address, u32 length) {
  std::string key(family == 4 ? 4 : 16, '\0');
  for (u32 bit = 0; bit < length; bit++)
    key[bit / 8] = static_cast<char>(key[bit / 8] | (address[bit / 8] & (0x80u >> bit % 8)));
  key.push_back(static_cast<char>(length));
  return key;
}

// Most routes of the Internet's tables are /24 and /48; the others are what they lie in.
Prefix random_route(Random& random, bool six) {
  Prefix prefix;
  prefix.family = six ? 6 : 4;
  const u32 shape = random.below(10);
  prefix.length = static_cast<u8>(six ? (shape < 6 ? 48 : 29 + random.below(36))
                                      : (shape < 6 ? 24 : 8 + random.below(25)));
  std::array<u8, 16> address{};
  for (u8& byte : address) byte = static_cast<u8>(random.below(256));
  if (six) {
    address[0] = 0x20;
    address[1] = static_cast<u8>(random.below(8));
  } else {
    address[0] = static_cast<u8>(1 + random.below(100));
  }
  for (u32 bit = 0; bit < prefix.length; bit++)
    prefix.address[bit / 8] =
        static_cast<u8>(prefix.address[bit / 8] | (address[bit / 8] & (0x80u >> bit % 8)));
  return prefix;
}

struct Table {
  ForwardSettings settings;
  std::unordered_map<std::string, u32> next_hops;  // of each prefix
};

Table full_table() {
  Table table;
  Random random;
  table.settings.next_hops.resize(kHops);
  table.settings.routes.reserve(kRoutes4 + kRoutes6);
  table.next_hops.reserve(kRoutes4 + kRoutes6);
  for (u32 i = 0; i < kRoutes4 + kRoutes6; i++) {
    const Route route{random_route(random, i >= kRoutes4), random.below(kHops)};
    const bool fresh =
        table.next_hops
            .emplace(network(route.prefix.family, route.prefix.address, route.prefix.length), route.next_hop)
            .second;
    if (!fresh) {
      i--;
      continue;
    }
    table.settings.routes.push_back(route);
  }
  return table;
}

// The verdict's rule.
u32 wanted(const Table& table, const Prefix& address) {
  for (u32 length = bits_of(address) + 1; length-- > 0;)
    if (auto at = table.next_hops.find(network(address.family, address.address, length));
        at != table.next_hops.end())
      return at->second + 1;
  return 0;
}

// A frame to the address, with its metadata in front.
using Buffer = std::array<u8, 128>;
void put_frame(Buffer& buffer, const Prefix& to) {
  buffer.fill(0);
  u8* frame = buffer.data() + XG_METADATA_SIZE;
  frame[0] = 2;
  u8* ip = frame + 14;
  if (to.family == 4) {
    frame[12] = 8;
    ip[0] = 0x45;
    ip[3] = 28;
    ip[8] = 64;
    ip[9] = 17;
    ip[12] = 10;
    std::copy_n(to.address.begin(), 4, ip + 16);
    ip[25] = 8;
  } else {
    frame[12] = 0x86;
    frame[13] = 0xdd;
    ip[0] = 0x60;
    ip[5] = 8;
    ip[6] = 17;
    ip[7] = 64;
    ip[8] = 0x20;
    std::copy_n(to.address.begin(), 16, ip + 24);
    ip[45] = 8;
  }
  xg_packet packet;
  xg_parse(frame, frame + (to.family == 4 ? 42 : 62), 0, &packet);
  xg_metadata metadata{};
  xg_metadata_from(&metadata, &packet, 0);
  metadata.generation = 1;
  metadata.router = XG_ROUTER_ALL;
  std::memcpy(buffer.data(), &metadata, sizeof(metadata));
}

TEST(FullTable, EveryLookUpFindsTheLongestPrefix) {
  const Table table = full_table();
  const auto start = std::chrono::steady_clock::now();
  const auto pipelines = Pipelines::compile({{"router", {table.settings}}});
  const auto took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(pipelines) << pipelines.error();
  fmt::print("{} routes compiled in {} ms into {} MiB\n", table.settings.routes.size(),
             std::chrono::duration_cast<std::chrono::milliseconds>(took).count(),
             (*pipelines)->image().size() * sizeof(u32) >> 20);
  EXPECT_LT(took, std::chrono::seconds(5));

  Buffer buffer;
  xg_descriptor descriptor{XG_METADATA_SIZE, 0, 0};
  xg_result result{};
  xg_batch batch{};
  batch.frames.v = reinterpret_cast<xg_word*>(buffer.data());
  batch.frames_bytes = buffer.size();
  batch.descriptors.v = &descriptor;
  batch.results.v = &result;
  batch.image.v = const_cast<xg_word*>((*pipelines)->image().data());
  batch.count = 1;
  batch.generation = 1;
  Random random;
  u32 found = 0, without = 0;
  for (u32 i = 0; i < kPackets; i++) {
    // In a route, beside one, or anywhere.
    Prefix to = table.settings.routes[random.below(kRoutes4 + kRoutes6)].prefix;
    for (u32 bit = to.length; bit < bits_of(to); bit++)
      if (random.below(2) != 0) to.address[bit / 8] ^= static_cast<u8>(0x80u >> bit % 8);
    if (i % 3 == 1) to.address[(to.length - 1) / 8] ^= static_cast<u8>(0x80u >> (to.length - 1) % 8);
    if (i % 3 == 2) to = random_route(random, i % 2 == 0);
    if (to.address[0] == 127 || to.address[0] >= 224 || to.address[0] == 0) continue;
    put_frame(buffer, to);
    descriptor.length = to.family == 4 ? 42 : 62;
    xg_view seen;
    result = xg_decide(batch, 0, seen);
    const u32 rule = wanted(table, to);
    (rule != 0 ? found : without)++;
    ASSERT_EQ(XG_VERDICT_RULE(result.verdict), rule) << i;
    ASSERT_EQ(XG_VERDICT_ACTION(result.verdict), rule != 0 ? XG_TX : XG_PASS) << i;
    ASSERT_EQ(result.detail, rule != 0 ? rule - 1 : 0) << i;
  }
  EXPECT_GT(found, kPackets / 3);
  EXPECT_GT(without, kPackets / 50);
}

TEST(NextHops, MoreThanThereAreRewritesForAreNotCached) {
  ForwardSettings settings;
  settings.cache = true;
  settings.next_hops.resize(kMaxNextHops);
  const auto pipelines = Pipelines::compile({{"router", {settings}}});
  ASSERT_TRUE(pipelines) << pipelines.error();
  ASSERT_EQ((*pipelines)->rewrites().size(), XG_REWRITE_HALF - XG_REWRITE_FIRST);
  EXPECT_EQ((*pipelines)->rewrites().back().flags,
            XG_REWRITE_DST_MAC | XG_REWRITE_SRC_FROM_DST | XG_REWRITE_FORWARD);
  EXPECT_EQ((*pipelines)->rewrites().back().mtu, 65535u);
  settings.next_hops.resize(kMaxNextHops + 1);
  EXPECT_FALSE(Pipelines::compile({{"router", {settings}}}));
  settings.next_hops.resize(1);
  settings.routes = {{{}, 1}};
  EXPECT_FALSE(Pipelines::compile({{"router", {settings}}})) << "a route that leads to no next hop";
}

}  // namespace
}  // namespace xdpgpu::gpu
