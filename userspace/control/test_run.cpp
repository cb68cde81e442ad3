// SPDX-License-Identifier: MIT
#include "userspace/control/test_run.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>

#include "maps/fragments.h"
#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::control {
namespace {

constexpr u32 kSlot = 1;

}  // namespace

Result<std::unique_ptr<TestRun>> TestRun::open(const policy::Tables& tables, u32 generation) {
  std::unique_ptr<TestRun> made(new TestRun());
  kernel::PortOptions options;
  options.ifname = "replay";
  options.flow_entries_per_queue = 64;
  options.mirror_slots = 1;
  options.multi_buffer = true;
  auto program = kernel::PortProgram::load(options);
  if (!program) return Error(program.error());
  made->program_ = std::move(*program);
  auto maps = made->program_->maps();
  if (!maps) return Error(maps.error());
  auto port =
      PortControl::open(options.ifname, options.queues, options.flow_entries_per_queue, std::move(*maps));
  if (!port) return Error(port.error());
  made->port_ = std::move(*port);
  if (auto put = made->put_policy(tables, generation); !put) return Error(put.error());
  if (auto put = made->put_worker(); !put) return Error(put.error());
  if (auto found = made->find_fragments(); !found) return Error(found.error());
  made->port_->set_mac(XG_MAC_ANY);
  made->port_->activate(generation, kSlot, 0);
  made->port_->set_state(XG_STATE_RUNNING);
  made->seen_.resize(XG_KERNEL_REASON_COUNT);
  return made;
}

Result<void> TestRun::put_policy(const policy::Tables& tables, u32 generation) {
  auto maps = kernel::create_policy_maps(static_cast<u32>(std::max<std::size_t>(tables.lines.size(), 1)),
                                         static_cast<u32>(std::max<std::size_t>(tables.rows.size(), 1)));
  if (!maps) return Error(maps.error());
  if (auto filled = kernel::fill_policy_maps(*maps, tables.lines, tables.rows); !filled) return filled;
  if (auto put = kernel::install_policy_maps({&port_->maps()}, kSlot, *maps); !put) return put;
  header_ = tables.header;
  header_.generation = generation;
  port_->write_header(kSlot, header_);
  return {};
}

void TestRun::set_rates(bool within_rate) {
  const u64 interval = within_rate ? XG_RATE_ALL : XG_RATE_NONE;
  if (header_.rates[0].interval_ns == interval) return;
  for (xg_rate& rate : header_.rates) rate.interval_ns = interval;
  port_->write_header(kSlot, header_);
}

Result<void> TestRun::put_worker() {
  auto queue = kernel::MapView<xg_queue_state>::open(port_->maps().queue_state.get(), 1);
  if (!queue) return Error(queue.error());
  queue_ = std::move(*queue);
  // A heartbeat in the far future never goes stale: ages are signed.
  queue_[0].beat_ns = queue_[0].device_beat_ns = std::numeric_limits<std::int64_t>::max() / 2;
  socket_ = kernel::Fd(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  const u32 zero = 0;
  const int fd = socket_.get();
  if (!socket_ || bpf_map_update_elem(port_->maps().xsks.get(), &zero, &fd, BPF_ANY) != 0)
    return Error(fmt::format("cannot make an AF_XDP socket: {}", std::strerror(errno)));
  return {};
}

// It is the program's own: no descriptor of it is handed out.
Result<void> TestRun::find_fragments() {
  std::array<u32, 64> ids{};
  bpf_prog_info info{};
  info.map_ids = reinterpret_cast<u64>(ids.data());
  info.nr_map_ids = ids.size();
  u32 size = sizeof(info);
  if (bpf_obj_get_info_by_fd(program_->program_fd(), &info, &size) != 0)
    return Error(fmt::format("cannot look at the program's maps: {}", std::strerror(errno)));
  for (u32 i = 0; i < std::min<u32>(info.nr_map_ids, ids.size()); i++) {
    kernel::Fd map(bpf_map_get_fd_by_id(ids[i]));
    bpf_map_info its{};
    u32 its_size = sizeof(its);
    if (map && bpf_obj_get_info_by_fd(map.get(), &its, &its_size) == 0 &&
        std::string_view(its.name) == "fragments")
      fragments_ = std::move(map);
  }
  return fragments_ ? Result<void>{} : Error(std::string("the program's table of fragments is not there"));
}

Result<void> TestRun::forget_fragments(const xg_packet& packet) {
  xg_flow_key key;
  xg_fragment_key(&packet, &key);
  xg_config config{};
  xg_fragment_bucket bucket{};
  const u32 zero = 0;
  if (bpf_map_lookup_elem(port_->maps().config.get(), &zero, &config) != 0)
    return Error(fmt::format("cannot read the program's settings: {}", std::strerror(errno)));
  const u32 index = xg_fragment_bucket_of(&key, config.hash_key[0], config.hash_key[1]);
  if (bpf_map_lookup_elem(fragments_.get(), &index, &bucket) != 0)
    return Error(fmt::format("cannot read the program's table of fragments: {}", std::strerror(errno)));
  for (xg_datagram& entry : bucket.entries)
    if (std::memcmp(&entry.key, &key, sizeof(key)) == 0) entry = {};
  if (bpf_map_update_elem(fragments_.get(), &index, &bucket, BPF_ANY) != 0)
    return Error(fmt::format("cannot write the program's table of fragments: {}", std::strerror(errno)));
  return {};
}

Result<KernelAnswer> TestRun::run(std::span<const u8> frame, bool within_rate) {
  set_rates(within_rate);
  std::atomic_ref<u32>(queue_[0].granted).store(queue_[0].admitted + 1, std::memory_order_relaxed);
  out_.resize(XG_METADATA_SIZE + kMaxFrame);
  xdp_md context{};
  context.data_end = static_cast<u32>(frame.size());
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out_.data(),
              .data_size_in = static_cast<u32>(frame.size()), .data_size_out = static_cast<u32>(out_.size()),
              .ctx_in = &context, .ctx_size_in = sizeof(context));
  if (bpf_prog_test_run_opts(program_->program_fd(), &options) != 0)
    return Error(fmt::format("the kernel does not run the program on a packet: {}", std::strerror(errno)));
  auto counters = port_->kernel_counters();
  if (!counters) return Error(counters.error());
  KernelAnswer answer;
  for (u32 reason = 0; reason < XG_KERNEL_REASON_COUNT; reason++)
    if (dataplane::kKernelCounters[reason].outcome != XG_OUTCOME_in &&
        (*counters)[reason].packets != seen_[reason].packets)
      answer.reason = reason;
  seen_ = std::move(*counters);
  // What comes back begins with the metadata, if the program put any there.
  if (answer.reason == XG_KERNEL_inspected && options.data_size_out == frame.size() + XG_METADATA_SIZE) {
    answer.metadata.emplace();
    std::memcpy(&*answer.metadata, out_.data(), sizeof(*answer.metadata));
  }
  return answer;
}

Result<std::vector<xg_counter>> TestRun::rule_counters() const {
  return port_->rule_counters(kSlot, header_.rule_count);
}

}  // namespace xdpgpu::control
