// SPDX-License-Identifier: MIT
//
// gpu/stages/turns.glsl: how INVOCATIONS packets of one workgroup have their turns at their tables: those of
// one set are one invocation's, which applies them in their order; those of different sets do not wait for
// each other. Whoever includes it says what APPLY(packet) is: a packet's outcome.

// Sets are told apart by so many groups: packets whose sets share one are applied by one invocation, too.
#define GROUPS 256u
#define GROUP_WORDS (INVOCATIONS / 32u)

shared xg_touch touches[INVOCATIONS];
shared u32 bodies[INVOCATIONS];
shared u32 outcomes[INVOCATIONS];
shared u32 members[GROUPS * GROUP_WORDS];  // one bit a packet; 0 between rounds

void begin_turns(u32 mine) {
  for (u32 word = mine; word < GROUPS * GROUP_WORDS; word += INVOCATIONS) members[word] = 0u;
  memoryBarrierShared();
  barrier();
}

// Where its group's words begin.
u32 group_of(u32 packet) { return ((touches[packet].set ^ bodies[packet]) & (GROUPS - 1u)) * GROUP_WORDS; }
void join(u32 group, u32 packet) { atomicOr(members[group + packet / 32u], 1u << (packet & 31u)); }

// Whether packet `mine` is the first of the group whose words begin at `at`.
bool is_first(u32 at, u32 mine) {
  for (u32 word = 0u; word < mine / 32u; word++)
    if (members[at + word] != 0u) return false;
  return (members[at + mine / 32u] & ((1u << (mine & 31u)) - 1u)) == 0u;
}

void apply_all(u32 at) {
  for (u32 word = 0u; word < GROUP_WORDS; word++) {
    for (u32 left = members[at + word]; left != 0u; left &= left - 1u) {
      u32 packet = word * 32u + XG_LOWEST_BIT(left);
      outcomes[packet] = APPLY(packet);
    }
    members[at + word] = 0u;
  }
}

// All invocations, once those whose packets have a table have joined their groups.
void take_turns(u32 group, u32 mine, bool tracked) {
  memoryBarrierShared();
  barrier();
  if (tracked) tracked = is_first(group, mine);
  // apply_all clears what the others look at.
  barrier();
  if (tracked) apply_all(group);
  memoryBarrier();
  barrier();
}
