// SPDX-License-Identifier: MIT
#include "gpu/program_keys.hpp"

#include <fmt/format.h>
#include <linux/bpf.h>

#include <bit>
#include <vector>

#include "gpu/program_shards.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using i64 = std::int64_t;

// Of what a sharded map takes of a table's memory: beyond it one that fits as it is may not.
constexpr u64 kMostBytes = u64{160} << 20;

u64 bytes_of(const Map& map) {
  constexpr u64 kBesideKeyAndValue =
      36;  // of an element, with its bucket, its stamp and its place among the free ones
  return shards_of(map).all() *
         (kBesideKeyAndValue + (map.key_bytes + 3) / 4 * 4 + (u64{map.value_bytes} + 7) / 8 * 8);
}

// Each lets an element wait at most.
constexpr u32 kMostChanges = 8;
static_assert(kMostChanges < kShardSpare);

// Which instructions can follow which.
class Ways {
 public:
  explicit Ways(const std::vector<Instruction>& code) : next_(code.size()), before_(code.size()) {
    for (u32 at = 0; at < code.size(); ++at) {
      const Instruction& i = code[at];
      const u8 kind = BPF_CLASS(i.opcode), what = BPF_OP(i.opcode);
      const bool jumps = (kind == BPF_JMP || kind == BPF_JMP32) && what != BPF_CALL && what != BPF_EXIT;
      if (jumps) add(at, i64{at} + 1 + (i.opcode == (BPF_JMP32 | BPF_JA) ? i64{i.immediate} : i64{i.offset}));
      const bool ends = i.opcode == (BPF_JMP | BPF_EXIT) || (jumps && what == BPF_JA);
      if (!ends) add(at, i64{at} + (i.opcode == (BPF_LD | BPF_IMM | BPF_DW) ? 2 : 1));
    }
  }
  // Those that may come behind some of these.
  std::vector<bool> behind(const std::vector<u32>& some) const { return reached(some, next_); }
  // Those that some of these may come behind.
  std::vector<bool> ahead_of(const std::vector<u32>& some) const { return reached(some, before_); }

 private:
  using Edges = std::vector<std::vector<u32>>;
  void add(u32 from, i64 to) {
    if (to < 0 || to >= static_cast<i64>(next_.size())) return;
    next_[from].push_back(static_cast<u32>(to));
    before_[static_cast<u32>(to)].push_back(from);
  }
  static std::vector<bool> reached(const std::vector<u32>& some, const Edges& edges) {
    std::vector<bool> all(edges.size());
    std::vector<u32> open = some;
    while (!open.empty()) {
      const u32 at = open.back();
      open.pop_back();
      for (const u32 to : edges[at])
        if (!all[to]) {
          all[to] = true;
          open.push_back(to);
        }
    }
    return all;
  }

  Edges next_, before_;
};

const std::string& name_of(const Program& program, u64 maps) {
  return program.maps[static_cast<u32>(std::countr_zero(maps))].name;
}

}  // namespace

std::string why_no_key(const Program& program, const std::set<KeyedCall>& calls,
                       const std::set<StackWrite>& writes) {
  if (calls.empty()) return {};
  const KeyedCall& first = *calls.begin();
  u32 bytes = 0, changes = 0;
  std::vector<u32> all;
  for (const KeyedCall& call : calls) {
    all.push_back(call.at);
    if (call.changes) ++changes;
    if (call.place != first.place)
      return fmt::format("instructions {} and {} look into {} by two keys", first.at, call.at,
                         name_of(program, call.maps));
    for (u64 left = call.maps; left != 0; left &= left - 1) {
      const Map& map = program.maps[static_cast<u32>(std::countr_zero(left))];
      if (bytes == 0) bytes = map.key_bytes;
      if (map.key_bytes != bytes)
        return fmt::format("the keys of its LRU hashes {} and {} are not of one size",
                           name_of(program, first.maps), map.name);
      if (shards_of(map).bits == 0)
        return fmt::format(
            "the map {}, an LRU hash, has too few entries ({}) for packets to be ordered by "
            "its key",
            map.name, map.entries);
      if (bytes_of(map) > kMostBytes)
        return fmt::format(
            "the map {}, an LRU hash, has too many entries ({}) for packets to be ordered by "
            "its key",
            map.name, map.entries);
    }
  }
  if (changes > kMostChanges)
    return fmt::format("it changes its LRU hashes at {} places, and {} are followed", changes, kMostChanges);
  const Ways ways(program.instructions);
  const std::vector<bool> behind = ways.behind(all), ahead = ways.ahead_of(all);
  for (const StackWrite& write : writes)
    if (write.place < first.place + bytes && first.place < write.place + write.bytes && behind[write.at] &&
        ahead[write.at])
      return fmt::format("instruction {} changes the key by which it looks into {}", write.at,
                         name_of(program, first.maps));
  for (const KeyedCall& call : calls)
    if (call.changes && ways.behind({call.at})[call.at])
      return fmt::format("instruction {} changes {} in a loop", call.at, name_of(program, call.maps));
  return {};
}

}  // namespace xdpgpu::gpu::programs
