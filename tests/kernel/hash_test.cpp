// SPDX-License-Identifier: MIT
//
// maps/hash.h as user space compiles it. That the kernel's answer is the same is inspect_test's.
#include "maps/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/kernel/frame.hpp"

namespace xdpgpu::test {
namespace {

// SipHash-1-3 written the straightforward way, over a byte string.
u64 siphash13(const Frame& message, u64 k0, u64 k1) {
  u64 v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
              k1 ^ 0x7465646279746573};
  auto rotate = [](u64 x, int n) { return x << n | x >> (64 - n); };
  auto round = [&] {
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
  };
  Frame padded = message;
  padded.resize(message.size() / 8 * 8 + 8);
  padded.back() = static_cast<u8>(message.size());
  for (std::size_t i = 0; i < padded.size(); i += 8) {
    u64 word;
    std::memcpy(&word, padded.data() + i, 8);
    v[3] ^= word, round(), v[0] ^= word;
  }
  v[2] ^= 0xff, round(), round(), round();
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

constexpr std::size_t kKeyWords = sizeof(xg_hash_keys) / sizeof(u64);
using KeyWords = std::array<u64, kKeyWords>;
KeyWords words_of(const xg_hash_keys& keys) {
  KeyWords words;
  std::memcpy(words.data(), &keys, sizeof(keys));
  return words;
}

TEST(HashKeys, AreSipHash13OfTheirNumbers) {
  const u64 k0 = 0x0706050403020100, k1 = 0x0f0e0d0c0b0a0908;
  EXPECT_EQ(siphash13({}, k0, k1), 0xabac0158050fc4dcu) << "the reference itself: SipHash-1-3 of nothing";
  const KeyWords words = words_of(xg_hash_keys_from(k0, k1));
  for (std::size_t i = 0; i < words.size(); ++i) {
    Frame number(8);
    number[0] = static_cast<u8>(i);
    EXPECT_EQ(words[i], siphash13(number, k0, k1) | (i == 0 ? 1 : 0)) << "word " << i;
  }
}

// Multilinear-HM of the words written pair by pair; a last one without another is multiplied by its key
// alone.
u64 multilinear(u64 sum, const std::vector<u32>& message, const std::vector<u64>& keys) {
  for (std::size_t i = 0; i < message.size(); i += 2)
    sum += i + 1 < message.size() ? (message[i] + keys[i]) * (message[i + 1] + keys[i + 1])
                                  : message[i] * keys[i];
  return sum;
}

TEST(FlowHash, IsMultilinearHmOfTheKey) {
  const xg_hash_keys by = xg_hash_keys_from(1, 2);
  const auto& a = by.address;
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    Frame raw(sizeof(xg_flow_key));
    for (auto& byte : raw) byte = static_cast<u8>(random());
    raw[offsetof(xg_flow_key, family)] = std::array<u8, 3>{4, 6, 0}[static_cast<std::size_t>(i) % 3];
    raw[offsetof(xg_flow_key, mirror)] = 0;
    u32 word[11];
    std::memcpy(word, raw.data(), sizeof word);
    xg_flow_key key;
    std::memcpy(&key, raw.data(), sizeof key);
    std::vector<u32> message{word[8], word[9]};
    std::vector<u64> keys{by.ports, by.vlans};
    if (key.family == 6) {
      message.insert(message.end(), word, word + 8);
      keys.insert(keys.end(), a, a + 8);
    } else {
      message.insert(message.end(), {word[0], word[4]});
      keys.insert(keys.end(), {a[0], a[1]});
    }
    message.push_back(word[10]);
    keys.push_back(by.tail);
    u32 hash = static_cast<u32>(multilinear(by.sum, message, keys) >> 32);
    hash = (hash ^ hash >> 16) * static_cast<u32>(by.scatter);
    EXPECT_EQ(xg_flow_hash(&key, &by), hash ^ hash >> 16);
    key.mirror = 7;
    EXPECT_EQ(xg_flow_hash(&key, &by), hash ^ hash >> 16)
        << "an entry of a mirror's stands where the flow's does";
  }
}

// Each word of the keys that a packet's family has counts.
TEST(FlowHash, DependsOnEachKey) {
  const xg_hash_keys by = xg_hash_keys_from(1, 2);
  xg_flow_key key{{1, 2, 3, 4}, {5, 6, 7, 8}, 9, 10, 11, 12, 17, 6, 1, 0};
  for (std::size_t i = 0; i < kKeyWords; ++i) {
    KeyWords words = words_of(by);
    words[i] ^= u64{1} << 40 | u64{1} << 20;
    xg_hash_keys other;
    std::memcpy(&other, words.data(), sizeof(other));
    EXPECT_NE(xg_flow_hash(&key, &other), xg_flow_hash(&key, &by)) << "word " << i;
  }
}

// ---- Keys that are alike -------------------------------------------------------------------------------

constexpr u32 kFlows = 8192, kBuckets = 4096, kDraws = 64;
// Of two flows a bucket on average, in buckets of four, chance finds no room for 3.75 % (Poisson).
constexpr double kChance = 3.75, kBar = 5.5;

xg_flow_key flow4(u32 src, u32 dst, u32 src_port, u32 dst_port) {
  xg_flow_key key{};
  key.src[0] = __builtin_bswap32(src);
  key.dst[0] = __builtin_bswap32(dst);
  key.src_port = __builtin_bswap16(static_cast<u16>(src_port));
  key.dst_port = __builtin_bswap16(static_cast<u16>(dst_port));
  key.protocol = 17;
  key.family = 4;
  return key;
}
xg_flow_key flow6(u32 prefix, u32 interface) {
  xg_flow_key key = flow4(0x20010db8, 0x20010db8, 1000, 53);
  key.family = 6;
  key.src[1] = __builtin_bswap32(prefix);
  key.src[3] = __builtin_bswap32(interface);
  key.dst[3] = 1;
  return key;
}

struct Family {
  const char* name;
  std::vector<xg_flow_key> flows;
};

// What an attacker who chooses the packets, and does not know the hash's keys, may try.
std::vector<Family> families() {
  std::vector<Family> all;
  const auto add = [&](const char* name, const std::function<xg_flow_key(u32)>& flow) {
    all.push_back({name, {}});
    for (u32 i = 0; i < kFlows; ++i) all.back().flows.push_back(flow(i));
  };
  const u32 server = 0x0a000002;
  add("source ports in sequence", [&](u32 i) { return flow4(0x0a000001, server, 1024 + i, 53); });
  add("destination ports in sequence", [&](u32 i) { return flow4(0x0a000001, server, 53, i); });
  add("every eighth source port", [&](u32 i) { return flow4(0x0a000001, server, i << 3, 53); });
  add("addresses in sequence", [&](u32 i) { return flow4(0x0a000000 + i, server, 1000, 53); });
  add("addresses alike but for high bits", [&](u32 i) { return flow4(i << 19 | 1, server, 1000, 53); });
  add("both addresses in sequence",
      [&](u32 i) { return flow4(0x0a000000 + (i & 127), 0x0b000000 + (i >> 7), 1000, 53); });
  add("both directions of conversations", [&](u32 i) {
    const u32 client = 0x0b000000 + i / 2;
    return i & 1 ? flow4(server, client, 53, 1000) : flow4(client, server, 1000, 53);
  });
  add("VLAN tags", [&](u32 i) {
    xg_flow_key key = flow4(1, server, 1000, 53);
    key.vlan_outer = static_cast<u16>(i & 4095);
    key.vlan_inner = static_cast<u16>(1 + (i >> 12));
    return key;
  });
  add("IPv6 interface identifiers in sequence", [](u32 i) { return flow6(0, i); });
  add("IPv6 prefixes in sequence", [](u32 i) { return flow6(i << 16, 1); });
  u32 one = 0, other = 0;
  add("one or two bits of an IPv6 address flipped", [&](u32) {
    xg_flow_key key = flow6(0, 1);
    key.src[one / 32] ^= 1u << one % 32;
    if (other != one) key.src[other / 32] ^= 1u << other % 32;
    if (++other == 128) other = ++one;
    return key;
  });
  return all;
}

using Hash = std::function<u32(const xg_flow_key&, const xg_hash_keys&)>;

// Of a family's flows those that find their bucket full, percent; for each of kDraws draws of the keys.
std::vector<double> without_room(const Family& family, const Hash& hash) {
  std::vector<double> percent;
  std::mt19937_64 random(1);
  for (u32 draw = 0; draw < kDraws; ++draw) {
    const u64 k0 = random(), k1 = random();
    const xg_hash_keys by = xg_hash_keys_from(k0, k1);
    std::vector<u32> held(kBuckets);
    u32 full = 0;
    for (const xg_flow_key& flow : family.flows)
      if (++held[hash(flow, by) & (kBuckets - 1)] > XG_FLOW_WAYS) ++full;
    percent.push_back(100.0 * full / kFlows);
  }
  return percent;
}
double most(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }
double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(AlikeFlows, MeetInABucketNoMoreOftenThanByChance) {
  for (const Family& family : families()) {
    const auto percent =
        without_room(family, [](const auto& flow, const auto& by) { return xg_flow_hash(&flow, &by); });
    EXPECT_NEAR(mean(percent), kChance, 0.2) << family.name;
    EXPECT_LT(most(percent), kBar) << family.name << ": for some keys";
  }
}

// That the test above tells a good hash from others. Each of these lacks one thing that xg_flow_hash has.
u32 sum_of(const xg_flow_key& flow, const xg_hash_keys& by, int shift) {
  u32 word[11];
  std::memcpy(word, &flow, sizeof word);
  const auto& a = by.address;
  u64 sum = multilinear(by.sum, {word[8], word[9], word[10]}, {by.ports, by.vlans, by.tail});
  sum += flow.family == 6 ? multilinear(0, {word, word + 8}, {a, a + 8})
                          : multilinear(0, {word[0], word[4]}, {a[0], a[1]});
  return static_cast<u32>(sum >> shift);
}

TEST(AlikeFlows, MeetWithoutAKey) {
  const xg_hash_keys known = xg_hash_keys_from(0, 0);
  // Flows that are chosen by their hash: whoever has the keys sends all of them to one bucket in 64.
  Family chosen{"chosen", {}};
  for (u32 i = 0; chosen.flows.size() < kFlows; ++i) {
    const xg_flow_key flow = flow4(0x0a000000 + i, 0x0a000002, 1000, 53);
    if ((xg_flow_hash(&flow, &known) & (kBuckets / 64 - 1)) == 0) chosen.flows.push_back(flow);
  }
  EXPECT_GT(
      most(without_room(chosen, [&](const auto& flow, const auto&) { return xg_flow_hash(&flow, &known); })),
      90.0);
  const auto percent =
      without_room(chosen, [](const auto& flow, const auto& by) { return xg_flow_hash(&flow, &by); });
  EXPECT_LT(most(percent), kBar) << "and has nothing of it under keys that are not known";
}

TEST(AlikeFlows, MeetInTheLowBitsOfTheSum) {
  for (const Family& family : families())
    EXPECT_GT(
        mean(without_room(family, [](const auto& flow, const auto& by) { return sum_of(flow, by, 0); })),
        2 * kBar)
        << family.name;
}

TEST(AlikeFlows, MeetForSomeKeysWhereNothingScattersTheSum) {
  for (const char* name :
       {"source ports in sequence", "addresses in sequence", "IPv6 prefixes in sequence"}) {
    const auto all = families();
    const auto& family =
        *std::find_if(all.begin(), all.end(), [&](const Family& f) { return f.name == std::string(name); });
    EXPECT_GT(
        most(without_room(family, [](const auto& flow, const auto& by) { return sum_of(flow, by, 32); })),
        2 * kBar)
        << name;
  }
}

}  // namespace
}  // namespace xdpgpu::test
