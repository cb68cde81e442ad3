// SPDX-License-Identifier: MIT
#include "tests/stages/random_regex.hpp"

namespace xdpgpu::tests {
namespace {

namespace sig = gpu::signatures;

sig::Positions some_of(Random& random, u32 count, u32 one_in) {
  sig::Positions made;
  for (u32 i = 0; i < count; i++) made[i] = random.one_in(one_in);
  return made;
}

sig::Bytes random_set(Random& random, std::string_view letters) {
  sig::Bytes made;
  for (u32 i = random.between(1, 3); i != 0; i--)
    made.set(static_cast<u8>(letters[random.below(static_cast<u32>(letters.size()))]));
  return random.one_in(3) ? ~made : made;
}

}  // namespace

sig::Regex random_regex(Random& random, std::string_view letters) {
  sig::Regex made;
  made.negated = random.one_in(4);
  made.relative = random.one_in(2);
  made.empty = random.one_in(40);
  made.empty_at_end = random.one_in(8);
  // Of one word, at the edges of words, of all.
  const u32 count = random.one_in(3) ? random.pick(std::array<u32, 8>{0, 1, 31, 32, 33, 64, 255, 256})
                                     : random.between(1, random.one_in(4) ? sig::kMostPositions : 12);
  for (u32 i = random.between(1, 6); i != 0; i--) made.sets.push_back(random_set(random, letters));
  const u32 branches = random.pick(std::array<u32, 3>{4, 64, 1024});
  for (u32 i = 0; i < count; i++) {
    made.positions.push_back(static_cast<u8>(random.below(static_cast<u32>(made.sets.size()))));
    sig::Positions follow = random.one_in(4) ? some_of(random, count, branches) : sig::Positions();
    if (i + 1 < count && !random.one_in(8)) follow.set(i + 1);
    if (random.one_in(4)) follow.set(i);
    made.follow.push_back(follow);
  }
  made.first = some_of(random, count, 4);
  if (count != 0) made.first.set(0);
  if (random.one_in(2)) made.again = random.one_in(2) ? made.first : some_of(random, count, 8);
  made.last_at_end = some_of(random, count, 8);
  made.last = some_of(random, count, 40);
  if (count != 0) made.last.set(count - 1);
  return made;
}

}  // namespace xdpgpu::tests
