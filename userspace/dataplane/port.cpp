// SPDX-License-Identifier: MIT
#include "userspace/dataplane/port.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "gpu/flow_table.hpp"
#include "userspace/dataplane/clock.hpp"
#include "userspace/dataplane/lost.hpp"
#include "userspace/kernel/access.hpp"

namespace xdpgpu::dataplane {
namespace {

template <class T>
Result<void> map_into(kernel::MapView<T>& view, const kernel::Fd& fd, u32 entries,
                      kernel::Mapping mapping = kernel::Mapping::writable) {
  auto opened = kernel::MapView<T>::open(fd.get(), entries, mapping);
  if (!opened) return tl::unexpected(opened.error());
  view = std::move(*opened);
  return {};
}

Result<void> put(const kernel::Fd& map, u32 key, int value, const std::string& what) {
  if (bpf_map_update_elem(map.get(), &key, &value, BPF_ANY) == 0) return {};
  return tl::unexpected(
      fmt::format("cannot enter {} into the XDP program's map: {}", what, std::strerror(errno)));
}

}  // namespace

Result<std::unique_ptr<Port>> Port::open(u32 index, PortSpec spec, RingSizes rings) {
  std::unique_ptr<Port> port(new Port);
  port->index_ = index;
  port->rings_ = rings;
  port->spec_ = std::move(spec);
  const kernel::PortMaps& maps = port->spec_.maps;
  const u32 queues = port->spec_.queues;
  if (auto ok = map_into(port->config_, maps.config, 1, kernel::Mapping::read_only); !ok)
    return tl::unexpected(ok.error());
  const u32 entries = port->config_[0].flow_entries_per_queue;
  if (entries < XG_FLOW_WAYS || !std::has_single_bit(entries))
    return tl::unexpected(fmt::format("{}: {} flow entries a queue are not a power of two of at least {}",
                                      port->spec_.ifname, entries, XG_FLOW_WAYS));
  if (auto ok = map_into(port->states_, maps.queue_state, queues); !ok) return tl::unexpected(ok.error());
  // The last beat of a worker that died must not speak for sockets that nobody serves yet.
  for (u32 queue = 0; queue < queues; ++queue) {
    __atomic_store_n(&port->states_[queue].beat_ns, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&port->states_[queue].device_beat_ns, 0, __ATOMIC_RELEASE);
  }
  if (auto ok = map_into(port->counters_, maps.worker_counters, queues); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = map_into(port->metrics_, maps.queue_metrics, queues); !ok) return tl::unexpected(ok.error());
  // A shard a queue for its worker, and behind them one for its mirrors.
  if (auto ok = map_into(port->flows_, maps.flow_verdicts, 2 * queues * entries); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = map_into(port->stats_, maps.flow_stats, 2 * queues * entries); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = port->map_mirror(); !ok) return tl::unexpected(ok.error());
  if (auto ok = port->map_egress(); !ok) return tl::unexpected(ok.error());
  if (auto ok = map_into(port->rewrites_, maps.rewrites, XG_REWRITE_ENTRIES); !ok)
    return tl::unexpected(ok.error());
  return port;
}

Result<void> Port::map_mirror() {
  const auto rings = kernel::map_entries(spec_.maps.mirror_state.get());
  if (!rings) return tl::unexpected(rings.error());
  const u32 slots = config_[0].mirror_slots;
  if (!std::has_single_bit(slots))
    return tl::unexpected(fmt::format("{}: {} mirror slots are not a power of two", spec_.ifname, slots));
  if (auto ok = map_into(mirror_states_, spec_.maps.mirror_state, *rings); !ok) return ok;
  return map_into(mirror_rings_, spec_.maps.mirror_rings, *rings * slots);
}

Result<void> Port::map_egress() {
  const auto logs = kernel::map_entries(spec_.maps.egress_heads.get());
  if (!logs) return tl::unexpected(logs.error());
  if (auto ok = map_into(egress_heads_, spec_.maps.egress_heads, *logs, kernel::Mapping::read_only); !ok)
    return ok;
  return map_into(egress_records_, spec_.maps.egress_records, *logs * XG_EGRESS_SLOTS,
                  kernel::Mapping::read_only);
}

Result<std::vector<std::unique_ptr<Socket>>> Port::open_all(Umem& umem, const SocketOptions& like) const {
  std::vector<std::unique_ptr<Socket>> sockets;
  for (u32 queue = 0; queue < spec_.queues; ++queue) {
    SocketOptions options = like;
    options.queue = queue;
    options.rings = rings_;
    auto socket = umem.open(options);
    if (!socket) return tl::unexpected(socket.error());
    sockets.push_back(std::move(*socket));
  }
  return sockets;
}

Result<std::vector<std::unique_ptr<Socket>>> Port::open_zero_copy(const FrameRegion& region,
                                                                  Umems& umems) const {
  // A port that fails half-way must not keep its first queue bound through a UMEM's own socket: so it
  // tries with a UMEM of its own while there is none.
  const bool first = !umems.zero_copy;
  if (first) umems.zero_copy = std::make_unique<Umem>(region, true, umems.chunks_per_frame);
  auto sockets = open_all(*umems.zero_copy, {.ifname = spec_.ifname, .busy_poll = spec_.busy_poll});
  if (!sockets && first) umems.zero_copy.reset();
  return sockets;
}

Result<void> Port::open_sockets(const FrameRegion& region, Umems& umems) {
  const bool generic = spec_.xdp_mode == kernel::XdpMode::generic;
  if (spec_.require_zero_copy && generic)
    return tl::unexpected(fmt::format(
        "{}: zero-copy needs native XDP and the interface runs generic XDP; use --mode auto", spec_.ifname));
  const bool multi_buffer = spec_.packet_buffers > 1;
  if (spec_.require_zero_copy && multi_buffer)
    return tl::unexpected(
        fmt::format("{}: its MTU needs frames of several buffers, which are received in copy "
                    "mode alone; use --mode auto or copy, or lower the MTU",
                    spec_.ifname));
  if (!generic && !spec_.forbid_zero_copy && !multi_buffer) {
    auto sockets = open_zero_copy(region, umems);
    if (sockets) {
      sockets_ = std::move(*sockets);
      mode_ = PortMode::zero_copy;
    } else if (spec_.require_zero_copy) {
      return tl::unexpected(fmt::format("{}; use --mode auto or copy", sockets.error()));
    }
  }
  if (!umems.copy) umems.copy = std::make_unique<Umem>(region, false, 1, umems.multi_buffer);
  if (sockets_.empty()) {
    auto sockets = open_all(*umems.copy, {.ifname = spec_.ifname, .busy_poll = spec_.busy_poll});
    if (!sockets) return tl::unexpected(sockets.error());
    sockets_ = std::move(*sockets);
    mode_ = generic ? PortMode::generic : PortMode::copy;
  }
  if (spec_.reinject_ifname.empty()) return {};
  auto reinject =
      open_all(*umems.copy, {.ifname = spec_.reinject_ifname, .receives = false, .mark = XG_REINJECT_MARK});
  if (!reinject) return tl::unexpected(reinject.error());
  reinject_ = std::move(*reinject);
  return {};
}

Result<void> Port::announce(const std::vector<std::unique_ptr<Port>>& ports) {
  for (u32 queue = 0; queue < spec_.queues; ++queue) {
    auto ok = put(spec_.maps.xsks, queue, sockets_[queue]->fd(),
                  fmt::format("the socket of {} queue {}", spec_.ifname, queue));
    if (!ok) return ok;
  }
  // Where the map is the broker's, so is that.
  for (const auto& target : ports) {
    if (!spec_.maps.tx_ports) break;
    auto ok = put(spec_.maps.tx_ports, target->index_, static_cast<int>(target->spec_.ifindex),
                  fmt::format("{} as a target", target->spec_.ifname));
    if (!ok) return ok;
  }
  kernel::close_writable(spec_.maps);
  return {};
}

std::unique_ptr<PortQueue> Port::queue(u32 queue) {
  count_lost(admitted(queue), counters_[queue]);
  const u32 entries = config_[0].flow_entries_per_queue;
  const u32 admitted = this->admitted(queue);
  const std::size_t first = std::size_t{queue} * entries;
  std::unique_ptr<PortQueue> out(new PortQueue{
      .port = index_,
      .queue = queue,
      .traits = {spec_.repair_checksums, spec_.cache_transmit},
      .packet_buffers = spec_.packet_buffers,
      .busy_poll = sockets_[queue]->busy_polls(),
      .socket = std::move(sockets_[queue]),
      .reinject = reinject_.empty() ? nullptr : std::move(reinject_[queue]),
      .config = config_.data(),
      .state = &states_[queue],
      .counters = &counters_[queue],
      .metrics = &metrics_[queue],
      .rewrites = rewrites_.data(),
      .flows = gpu::FlowTable({flows_.data() + first, entries}, {stats_.data() + first, entries}),
      .metadata = MetadataProbe(static_cast<u8>(index_), monotonic_ns(), mode_ != PortMode::generic),
      .credits = Credits(admitted, rings_.receive, spec_.packet_buffers),
      .next_sequence = admitted,
      .published_granted = admitted,
      .published_retired = admitted,
  });
  out->state->window = out->credits.granted(0, rings_.receive) - admitted;
  __atomic_store_n(&out->state->granted, admitted, __ATOMIC_RELEASE);
  __atomic_store_n(&out->state->retired, admitted, __ATOMIC_RELEASE);
  return out;
}

gpu::FlowTables Port::flow_tables() noexcept {
  return {.entries = {flows_.data(), flows_.size()},
          .stats = {stats_.data(), stats_.size()},
          .entries_per_queue = config_[0].flow_entries_per_queue,
          .caches_transmit = spec_.cache_transmit,
          .repairs_checksums = spec_.repair_checksums};
}

gpu::MirrorPort Port::mirror() noexcept {
  const u32 entries = config_[0].flow_entries_per_queue;
  const u64 first = u64{spec_.queues} * entries;
  return {.records = mirror_rings_.data(),
          .states = mirror_states_.data(),
          .rings = mirror_states_.size(),
          .slots = config_[0].mirror_slots,
          .verdicts = flows_.data() + first,
          .stats = stats_.data() + first,
          .queues = spec_.queues,
          .entries = entries};
}

EgressLogs Port::egress() const noexcept {
  return {.records = egress_records_.data(),
          .heads = egress_heads_.data(),
          .logs = egress_heads_.size(),
          .config = config_.data()};
}

void Port::write_rewrites(u32 generation, const std::vector<xg_rewrite>& rewrites) noexcept {
  u32 index = XG_REWRITE_INDEX(XG_REWRITE_FIRST, generation);
  // Where the generation goes on from a dead attach, the XDP program reads them meanwhile.
  for (const xg_rewrite& rewrite : rewrites) gpu::write_rewrite(rewrites_[index++], rewrite, generation);
  // The records must stand before any flow verdict that names one.
  std::atomic_thread_fence(std::memory_order_release);
}

u32 Port::admitted(u32 queue) const noexcept {
  return __atomic_load_n(&states_[queue].admitted, __ATOMIC_ACQUIRE);
}
u32 Port::retired(u32 queue) const noexcept {
  return __atomic_load_n(&states_[queue].retired, __ATOMIC_ACQUIRE);
}

xg_queue_state Port::state(u32 queue) const noexcept {
  xg_queue_state out;
  std::memcpy(&out, &states_[queue], sizeof(out));
  return out;
}

xg_worker_counters Port::counters(u32 queue) const noexcept {
  xg_worker_counters out;
  std::memcpy(&out, &counters_[queue], sizeof(out));
  return out;
}

xg_queue_metrics Port::metrics(u32 queue) const noexcept {
  xg_queue_metrics out;
  std::memcpy(&out, &metrics_[queue], sizeof(out));
  return out;
}

}  // namespace xdpgpu::dataplane
