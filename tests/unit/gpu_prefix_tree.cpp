// SPDX-License-Identifier: MIT
//
// Trees of prefixes against looking at every prefix: the order that they are brought into, and what a look-up
// finds, with prefixes that nest, repeat each other and crowd together.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "gpu/prefix_order.hpp"
#include "gpu/prefix_tree_image.hpp"
#include "gpu/stages/pipeline.h"

namespace xdpgpu::gpu {
namespace {

// A prefix as it is given, host bits and all.
struct Given {
  TreeAddress address{};
  u32 length = 0, value = 0;
};

bool holds(const Given& prefix, const TreeAddress& address) {
  for (u32 bit = 0; bit < prefix.length; bit++)
    if (((prefix.address[bit / 32] ^ address[bit / 32]) >> (31 - bit % 32) & 1) != 0) return false;
  return true;
}

u32 longest(const std::vector<Given>& prefixes, const TreeAddress& address) {
  const Given* best = nullptr;
  for (const Given& prefix : prefixes)
    if (holds(prefix, address) && (best == nullptr || prefix.length > best->length)) best = &prefix;
  return best == nullptr ? 0 : best->value;
}

class Random {
 public:
  explicit Random(u32 seed) : random_(seed) {}
  u32 below(u32 count) { return std::uniform_int_distribution<u32>(0, count - 1)(random_); }

  // Their first bits are those of one address, so that prefixes nest.
  TreeAddress address(u32 width) {
    TreeAddress address{};
    for (u32 i = 0; i < width / 32; i++) address[i] = 0x20010db8u * (i + 1);
    for (u32 bit = below(width + 1); bit < width; bit++)
      if (below(2) != 0) address[bit / 32] ^= 0x80000000u >> bit % 32;
    return address;
  }
  std::vector<Given> prefixes(u32 count, u32 width) {
    std::vector<Given> prefixes(count);
    for (u32 i = 0; i < count; i++)
      prefixes[i] = {address(width), below(4) == 0 ? width : below(width + 1), i + 1};
    return prefixes;
  }

 private:
  std::mt19937 random_;
};

template <class Prefix>
LargeVector<Prefix> made(const std::vector<Given>& given) {
  LargeVector<Prefix> prefixes;
  for (const Given& one : given) prefixes.emplace_back(one.address, one.length, one.value);
  return prefixes;
}

template <class Prefix>
class PrefixTree : public testing::Test {};
using Families = testing::Types<TreePrefix4, TreePrefix6>;
TYPED_TEST_SUITE(PrefixTree, Families);

TYPED_TEST(PrefixTree, FindsTheLongestPrefix) {
  constexpr u32 kWidth = TypeParam::kWidth;
  for (const u32 count : {0u, 1u, 2u, 7u, 60u, 3000u})
    for (u32 seed = 0; seed < (count > 100 ? 5 : 200); seed++) {
      SCOPED_TRACE(testing::Message() << count << " prefixes, seed " << seed);
      Random random(seed * 1000 + count);
      const auto prefixes = random.prefixes(count, kWidth);
      std::vector<u32> image(7, ~0u);  // something in front of it
      std::array<u32, XG_TREE_WORDS> table;
      ASSERT_TRUE(append_prefix_tree(made<TypeParam>(prefixes), image, table.data()));
      const u32 at = static_cast<u32>(image.size());
      image.insert(image.end(), table.begin(), table.end());
      for (u32 i = 0; i < 600; i++) {
        TreeAddress address = random.address(kWidth);
        if (i % 2 == 0 && count != 0) {
          // Inside of a prefix, or beside it.
          const Given& prefix = prefixes[random.below(count)];
          address = prefix.address;
          if (prefix.length != 0 && i % 4 == 0) {
            const u32 bit = prefix.length - 1;
            address[bit / 32] ^= 0x80000000u >> bit % 32;
          }
        }
        const u32 found = xg_tree({image.data()}, at, address[0], address[1], address[2], address[3]);
        ASSERT_EQ(found, longest(prefixes, address))
            << std::hex << address[0] << " " << address[1] << " " << address[2] << " " << address[3];
      }
    }
}

TYPED_TEST(PrefixTree, TakesPrefixesInTheOrderOfAStableSort) {
  for (const u32 count : {0u, 1u, 2u, 3u, 100u, 20000u}) {
    SCOPED_TRACE(count);
    auto found = made<TypeParam>(Random(count).prefixes(count, TypeParam::kWidth));
    auto wanted = found;
    const auto place = [](const TypeParam& prefix) { return std::tuple(prefix.address(), prefix.length()); };
    std::stable_sort(wanted.begin(), wanted.end(),
                     [&](const TypeParam& a, const TypeParam& b) { return place(a) < place(b); });
    const auto same = [&](const TypeParam& a, const TypeParam& b) { return place(a) == place(b); };
    wanted.erase(std::unique(wanted.begin(), wanted.end(), same), wanted.end());
    for (const bool again : {false, true}) {  // then it is in order already
      put_in_order(found);
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); i++) {
        ASSERT_EQ(place(found[i]), place(wanted[i])) << i << again;
        ASSERT_EQ(found[i].value(), wanted[i].value()) << i << again;
      }
    }
  }
}

}  // namespace
}  // namespace xdpgpu::gpu
