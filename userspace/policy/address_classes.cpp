// SPDX-License-Identifier: MIT
#include "userspace/policy/address_classes.hpp"

#include <algorithm>

namespace xdpgpu::policy {
namespace {

constexpr u32 kJoinedEntries = 1u << 14;
constexpr u32 kAtomBits = 24;

u64 load_be(const u8* bytes, u32 count) {
  u64 value = 0;
  for (u32 i = 0; i < count; ++i) value = value << 8 | bytes[i];
  return value;
}

// Bits of a 64-bit key behind its first `length` ones.
u64 host_bits(u32 length) { return length >= 64 ? 0 : ~0ull >> length; }

// Nested ranges, opened in ascending order of their starts and descending length, become boundaries.
class Sweep {
 public:
  Sweep(std::vector<Boundary>& into, u32 base) : into_(into), begin_(into.size()), base_(base) {
    into_.push_back({0, base});
  }
  void close_before(u64 start) {
    while (!open_.empty() && open_.back().end < start) close();
  }
  u32 current() const { return open_.empty() ? base_ : open_.back().value; }
  void open(u64 start, u64 end, u32 value) {
    emit(start, value);
    open_.push_back({end, value});
  }
  // A range that encloses no other.
  void single(u64 start, u64 end, u32 value) {
    emit(start, value);
    if (end != ~0ull) emit(end + 1, current());
  }
  void finish() {
    while (!open_.empty()) close();
  }

 private:
  struct Range {
    u64 end;
    u32 value;
  };
  void close() {
    u64 end = open_.back().end;
    open_.pop_back();
    if (end != ~0ull) emit(end + 1, current());
  }
  void emit(u64 key, u32 value) {
    if (into_.back().key == key) {
      into_.back().value = value;
      if (into_.size() - begin_ >= 2 && into_[into_.size() - 2].value == value) into_.pop_back();
    } else if (into_.back().value != value) {
      into_.push_back({key, value});
    }
  }
  std::vector<Boundary>& into_;
  u64 begin_;
  u32 base_;
  std::vector<Range> open_;
};

}  // namespace

void AddressClasses::add(u32 rule, const std::vector<Prefix>& prefixes, const std::vector<std::string>& lists,
                         std::optional<u8> family) {
  if (!prefixes.empty()) {
    atoms_.push_back({&prefixes, family, {}});
    atoms_.back().rules.add(rule);
  }
  for (const auto& name : lists) atoms_[atom_of_list(name, family)].rules.add(rule);
}

u32 AddressClasses::atom_of_list(const std::string& name, std::optional<u8> family) {
  auto [at, fresh] = list_atoms_.try_emplace({name, family.value_or(0)}, static_cast<u32>(atoms_.size()));
  if (fresh) atoms_.push_back({&lists_.at(name).prefixes, family, {}});
  return at->second;
}

void AddressClasses::collect(std::vector<u64>& entries4, std::vector<Entry6>& entries6) const {
  u64 most = 0;
  for (const auto& atom : atoms_) most += atom.prefixes->size();
  entries4.reserve(most);  // address space only, until it is used
  entries6.reserve(most);
  for (u32 atom = 0; atom < atoms_.size(); ++atom) {
    for (const auto& prefix : *atoms_[atom].prefixes) {
      if (atoms_[atom].family && *atoms_[atom].family != prefix.family) continue;
      u32 length_and_atom = u32{prefix.length} << kAtomBits | atom;
      if (prefix.family == 4)
        entries4.push_back(load_be(prefix.address, 4) << 32 | length_and_atom);
      else
        entries6.push_back({load_be(prefix.address, 8), load_be(prefix.address + 8, 8), length_and_atom});
    }
  }
  // Many lists come sorted already.
  if (!std::is_sorted(entries4.begin(), entries4.end())) std::sort(entries4.begin(), entries4.end());
  if (!std::is_sorted(entries6.begin(), entries6.end())) std::sort(entries6.begin(), entries6.end());
}

void AddressClasses::build(u32 first_low) {
  joined_.assign(kJoinedEntries, {});
  std::vector<u64> entries4;
  std::vector<Entry6> entries6;
  collect(entries4, entries6);
  sweep4(entries4);
  sweep6(entries6, first_low);
  joined_ = {};
  classes_.add_to_all(any_);
}

// The class of values that are of class `of` and in the atom's prefixes too.
u32 AddressClasses::join(u32 of, u32 atom) {
  u64 key = u64{of} << 32 | atom;
  Joined& cached = joined_[(key ^ (key >> 19) ^ (key >> 32)) % kJoinedEntries];
  if (cached.key != key) {
    RuleSet rules = classes_[of];
    rules |= atoms_[atom].rules;
    cached = {key, classes_.intern(rules)};
  }
  return cached.result;
}

void AddressClasses::sweep4(const std::vector<u64>& entries) {
  boundaries4_.reserve(2 * entries.size() + 1);
  Sweep sweep(boundaries4_, 0);
  for (u64 i = 0; i < entries.size();) {
    u64 prefix = entries[i] >> kAtomBits;  // address and length
    u64 start = entries[i] & ~0xffffffffull;
    u64 end = start | host_bits(static_cast<u32>(prefix & 0xff));
    sweep.close_before(start);
    u32 value = sweep.current();
    for (; i < entries.size() && entries[i] >> kAtomBits == prefix; ++i)
      value = join(value, entries[i] & ((1u << kAtomBits) - 1));
    sweep.open(start, end, value);
  }
  sweep.finish();
}

void AddressClasses::sweep6(const std::vector<Entry6>& entries, u32 first_low) {
  boundaries6_.reserve(2 * entries.size() + 1);
  low_boundaries_.reserve(3 * entries.size() + 1);
  Sweep sweep(boundaries6_, 0);
  auto length = [](const Entry6& e) { return e.length_and_atom >> kAtomBits; };
  // Takes the entries of one prefix from `i` on.
  auto take = [&](u64& i, u32 value) {
    const Entry6& first = entries[i];
    for (; i < entries.size() && entries[i].high == first.high && entries[i].low == first.low &&
           length(entries[i]) == length(first);
         ++i)
      value = join(value, entries[i].length_and_atom & ((1u << kAtomBits) - 1));
    return value;
  };
  for (u64 i = 0; i < entries.size();) {
    u64 high = entries[i].high;
    sweep.close_before(high);
    if (length(entries[i]) <= 64) {
      u64 end = high | host_bits(length(entries[i]));
      sweep.open(high, end, take(i, sweep.current()));
      continue;
    }
    // All prefixes longer than 64 bits in this /64 follow one another: its low half.
    u64 begin = low_boundaries_.size();
    Sweep low(low_boundaries_, sweep.current());
    while (i < entries.size() && entries[i].high == high) {
      u64 start = entries[i].low;
      u64 end = start | host_bits(length(entries[i]) - 64);
      low.close_before(start);
      low.open(start, end, take(i, low.current()));
    }
    low.finish();
    if (low_boundaries_.size() - begin == 1) {  // one class throughout
      u32 value = low_boundaries_.back().value;
      low_boundaries_.pop_back();
      sweep.single(high, high, value);
    } else {
      sweep.single(high, high, XG_LPM_LOW + first_low + low_count());
      low_starts_.push_back(low_boundaries_.size());
    }
  }
  sweep.finish();
}

}  // namespace xdpgpu::policy
