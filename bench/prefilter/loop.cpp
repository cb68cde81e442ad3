// SPDX-License-Identifier: MIT
#include "bench/prefilter/loop.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "loop.skel.h"
#include "tests/kernel/program.hpp"

namespace xdpgpu::bench {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

template <class T>
void store(const bpf_map* map, const T* values, u64 count) {
  void* at = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
  if (at == MAP_FAILED) fail("mmap of a map");
  std::memcpy(at, values, count * sizeof(T));
  munmap(at, count * sizeof(T));
}

template <class Key>
void fill_trie(const bpf_map* map, const std::vector<policy::Prefix>& list) {
  std::vector<Key> keys(1);
  std::vector<u32> values{0};
  for (const auto& p : list) {
    Key& key = keys.emplace_back();
    key.length = p.length;
    std::copy_n(p.address, sizeof key.address, key.address);
    values.push_back(1);
  }
  // What another list left goes first.
  for (Key key{}; bpf_map_get_next_key(bpf_map__fd(map), nullptr, &key) == 0;)
    if (bpf_map_delete_elem(bpf_map__fd(map), &key) != 0) fail("emptying the trie");
  u32 count = static_cast<u32>(keys.size());
  if (bpf_map_update_batch(bpf_map__fd(map), keys.data(), values.data(), &count, nullptr) != 0)
    fail("filling the trie");
}

}  // namespace

Loop::Loop() : skeleton_(loop_bpf__open_and_load(), loop_bpf__destroy) {
  if (!skeleton_) fail("loading the loop");
}
Loop::~Loop() = default;

void Loop::set_policy(const policy::Policy& policy) {
  auto tables = policy::compile(policy);
  if (!tables) throw std::runtime_error(tables.error().at(0).sentence());
  tables->header.generation = 1;
  test::install_tables(bpf_map__fd(skeleton_->maps.policy_lines), bpf_map__fd(skeleton_->maps.policy_rows), 0,
                       *tables);
  store(skeleton_->maps.policy, &tables->header, 1);
}

void Loop::set_packets(const std::vector<prefilter_packet>& packets) {
  packets_ = static_cast<u32>(std::min<std::size_t>(packets.size(), PREFILTER_PACKETS));
  store(skeleton_->maps.packets, packets.data(), packets_);
}

void Loop::set_trie(u8 family, const std::vector<policy::Prefix>& list) {
  if (family == 4)
    fill_trie<prefilter_key4>(skeleton_->maps.trie4, list);
  else
    fill_trie<prefilter_key6>(skeleton_->maps.trie6, list);
}

double Loop::nanoseconds(u8 trie, bool dependent, u32 runs) {
  auto& settings = *skeleton_->bss;
  settings.use_trie = trie;
  settings.dependent = dependent ? 1 : 0;
  settings.rounds = packets_;
  u8 frame[64] = {};
  u32 least = ~0u;
  for (u32 i = 0; i < runs; ++i) {
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = sizeof frame, .repeat = 1);
    if (bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.prefilter), &options) != 0)
      fail("running the loop");
    least = std::min(least, options.duration);
  }
  found_ = {settings.rule_hits, settings.rule_sum, settings.trie_hits, settings.trie_sum};
  return double(least) / packets_;
}

}  // namespace xdpgpu::bench
