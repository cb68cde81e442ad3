// SPDX-License-Identifier: MIT
#include "userspace/control/port_control.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "userspace/dataplane/lost.hpp"
#include "userspace/kernel/access.hpp"

namespace xdpgpu::control {
namespace {

template <class T>
std::atomic_ref<T> atomic(T& value) {
  return std::atomic_ref<T>(value);
}

Result<u32> possible_cpus() {
  const int count = libbpf_num_possible_cpus();
  if (count <= 0) return tl::unexpected(std::string("cannot tell how many CPUs the kernel counts for"));
  return static_cast<u32>(count);
}

// T: nothing but u64 counts.
template <class T>
Result<std::vector<T>> read_percpu(int fd, u32 first, u32 count) {
  const auto cpus = possible_cpus();
  if (!cpus) return tl::unexpected(cpus.error());
  std::vector<T> sums(count);
  std::vector<T> values(std::size_t{count} * *cpus);
  std::vector<u32> keys(count);
  // The batch begins behind the key before `first`.
  u32 before = first - 1;
  u32 last = 0;
  u32 got = count;
  if (count > 0 &&
      bpf_map_lookup_batch(fd, first ? &before : nullptr, &last, keys.data(), values.data(), &got, nullptr) !=
          0 &&
      errno != ENOENT)
    return tl::unexpected(fmt::format("cannot read the counters: {}", std::strerror(errno)));
  constexpr std::size_t kWords = sizeof(T) / sizeof(u64);
  for (u32 i = 0; i < got; i++) {
    auto* sum = reinterpret_cast<u64*>(&sums[i]);
    for (u32 cpu = 0; cpu < *cpus; cpu++) {
      const auto* value = reinterpret_cast<const u64*>(&values[std::size_t{i} * *cpus + cpu]);
      for (std::size_t word = 0; word < kWords; word++) sum[word] += value[word];
    }
  }
  return sums;
}

template <class T>
bool clear_percpu(int fd, u32 first, u32 count, u32 cpus) {
  const std::vector<T> zeros(std::size_t{count} * cpus);
  std::vector<u32> keys(count);
  std::iota(keys.begin(), keys.end(), first);
  return bpf_map_update_batch(fd, keys.data(), zeros.data(), &count, nullptr) == 0;
}

}  // namespace

Result<std::vector<xg_counter>> read_percpu_counters(int fd, u32 first, u32 count) {
  return read_percpu<xg_counter>(fd, first, count);
}

Result<PortControl> PortControl::open(std::string ifname, u32 queues, u32 flow_entries_per_queue,
                                      kernel::PortMaps maps, Of of) {
  const auto mapping = of == Of::broker ? kernel::Mapping::writable : kernel::Mapping::read_only;
  PortControl port;
  port.ifname_ = std::move(ifname);
  port.queues_ = queues;
  port.flow_entries_ = flow_entries_per_queue;
  port.maps_ = std::move(maps);
  auto take = [&](auto& view, const kernel::Fd& fd, u32 entries) -> Result<void> {
    auto opened = std::remove_reference_t<decltype(view)>::open(fd.get(), entries, mapping);
    if (!opened) return tl::unexpected(fmt::format("{}: {}", port.ifname_, opened.error()));
    view = std::move(*opened);
    return {};
  };
  const u32 entries = 2 * queues * flow_entries_per_queue;
  if (auto r = take(port.config_, port.maps_.config, 1); !r) return tl::unexpected(r.error());
  if (of == Of::broker)
    if (auto r = take(port.policy_, port.maps_.policy, 2); !r) return tl::unexpected(r.error());
  if (auto r = take(port.flows_, port.maps_.flow_verdicts, entries); !r) return tl::unexpected(r.error());
  if (auto r = take(port.flow_stats_, port.maps_.flow_stats, entries); !r) return tl::unexpected(r.error());
  if (auto r = take(port.rewrites_, port.maps_.rewrites, XG_REWRITE_ENTRIES); !r)
    return tl::unexpected(r.error());
  if (of == Of::data_plane) kernel::close_writable(port.maps_);
  return port;
}

u32 PortControl::state() const noexcept { return atomic(config_[0].state).load(std::memory_order_relaxed); }

void PortControl::set_state(u32 state) noexcept {
  atomic(config_[0].state).store(state, std::memory_order_release);
}

void PortControl::set_mac(u64 mac) noexcept { atomic(config_[0].mac).store(mac, std::memory_order_relaxed); }

u32 PortControl::active_generation() const noexcept {
  return XG_ACTIVE_GENERATION(atomic(config_[0].active).load(std::memory_order_relaxed));
}

u32 PortControl::active_slot() const noexcept {
  return XG_ACTIVE_SLOT(atomic(config_[0].active).load(std::memory_order_relaxed));
}

u64 PortControl::policy_hash() const noexcept {
  return atomic(config_[0].policy_hash).load(std::memory_order_relaxed);
}

u32 PortControl::on_failure() const noexcept { return policy_[active_slot()].on_failure; }

void PortControl::count_lost(u32 queue) noexcept {
  auto counters = kernel::MapView<xg_worker_counters>::open(maps_.worker_counters.get(), queues_);
  const auto states = kernel::MapView<xg_queue_state>::open(maps_.queue_state.get(), queues_);
  if (counters && states)
    dataplane::count_lost(__atomic_load_n(&(*states)[queue].admitted, __ATOMIC_ACQUIRE), (*counters)[queue]);
}

Result<std::vector<dataplane::QueueStatus>> PortControl::queue_counters() const {
  const auto counters = kernel::MapView<xg_worker_counters>::open(maps_.worker_counters.get(), queues_);
  const auto states = kernel::MapView<xg_queue_state>::open(maps_.queue_state.get(), queues_);
  if (!counters || !states) return Error(counters ? states.error() : counters.error());
  std::vector<dataplane::QueueStatus> queues(queues_);
  for (u32 i = 0; i < queues_; i++) {
    queues[i].queue = i;
    queues[i].counters = (*counters)[i];
    queues[i].state = (*states)[i];
  }
  return queues;
}

void PortControl::activate(u32 generation, u32 slot, u64 policy_hash) noexcept {
  // Whoever goes on from here after a death in between finds a hash that no policy has.
  atomic(config_[0].policy_hash).store(0, std::memory_order_release);
  atomic(config_[0].active).store(u64{generation} << 32 | slot, std::memory_order_release);
  atomic(config_[0].policy_hash).store(policy_hash, std::memory_order_release);
}

void PortControl::write_header(u32 slot, const xg_policy& header) noexcept {
  std::memcpy(&policy_[slot], &header, sizeof(header));
}

bool PortControl::has_rewrites(u32 generation, const std::vector<xg_rewrite>& rewrites) const noexcept {
  u32 index = XG_REWRITE_INDEX(XG_REWRITE_FIRST, generation);
  for (xg_rewrite wanted : rewrites) {
    wanted.generation = generation;
    if (index >= rewrites_.size() || std::memcmp(&rewrites_[index], &wanted, sizeof(wanted)) != 0)
      return false;
    index++;
  }
  return true;
}

Result<std::vector<xg_counter>> PortControl::kernel_counters() const {
  return read_percpu_counters(maps_.counters.get(), 0, XG_KERNEL_REASON_COUNT);
}

Result<std::vector<xg_counter>> PortControl::malformed_counters() const {
  return read_percpu_counters(maps_.counters.get(), XG_MALFORMED_COUNTER(1), XG_MALFORMED_COUNT);
}

Result<std::vector<xg_exempt_counter>> PortControl::exempt_counters() const {
  return read_percpu<xg_exempt_counter>(maps_.exempt_counters.get(), 0, XG_RATES);
}

Result<std::vector<xg_counter>> PortControl::rule_counters(u32 slot, u32 rules) const {
  return read_percpu_counters(maps_.rule_counters.get(), slot * XG_MAX_RULES, rules);
}

Result<std::vector<xg_rule_shed>> PortControl::rule_shed(u32 slot, u32 rules) const {
  return read_percpu<xg_rule_shed>(maps_.rule_shed.get(), slot * XG_MAX_RULES, rules);
}

Result<void> PortControl::clear_rule_counters(u32 slot, u32 rules) {
  const auto cpus = possible_cpus();
  if (!cpus) return tl::unexpected(cpus.error());
  if (rules == 0) return {};
  const u32 first = slot * XG_MAX_RULES;
  if (!clear_percpu<xg_counter>(maps_.rule_counters.get(), first, rules, *cpus) ||
      !clear_percpu<xg_rule_shed>(maps_.rule_shed.get(), first, rules, *cpus))
    return tl::unexpected(
        fmt::format("cannot clear the rule counters of {}: {}", ifname_, std::strerror(errno)));
  return {};
}

}  // namespace xdpgpu::control
