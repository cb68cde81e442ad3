// SPDX-License-Identifier: MIT
#include "gpu/reference/program_helpers.hpp"

#include <linux/bpf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace xdpgpu::gpu::reference {
namespace {

using Bytes = std::vector<u8>;

u64 signed_number(int value) { return static_cast<u64>(std::int64_t{value}); }

// A helper's buffer, copied: what it does may change where it came from.
ProgramFault copy(ProgramRun& run, u64 address, u64 count, Bytes& bytes) {
  bytes.clear();
  if (count == 0) return ProgramFault::none;
  std::span<u8> found;
  const ProgramFault fault = run.memory.bytes_at(address, count, false, found);
  if (fault == ProgramFault::none) bytes.assign(found.begin(), found.end());
  run.steps += count / 8;
  return fault;
}

ProgramFault look_up(ProgramRun& run) {
  auto& r = run.registers;
  ProgramMap* map = run.memory.map_at(r[1]);
  if (map == nullptr || !map->gives_values()) return ProgramFault::wrong_map;
  Bytes key;
  if (auto fault = copy(run, r[2], map->settings().key_bytes, key); fault != ProgramFault::none) return fault;
  if (map->settings().type == BPF_MAP_TYPE_ARRAY_OF_MAPS) {
    u32 index = 0;
    std::memcpy(&index, key.data(), sizeof(index));
    auto inner = map->inner(index);
    r[0] = inner == nullptr ? 0 : run.memory.pointer_to(std::move(inner));
  } else {
    auto value = map->look_up(key, run.packet.queue);
    r[0] = value == nullptr ? 0 : run.memory.pointer_to(std::move(value));
  }
  return ProgramFault::none;
}

ProgramFault change(ProgramRun& run, bool erases) {
  auto& r = run.registers;
  ProgramMap* map = run.memory.map_at(r[1]);
  if (map == nullptr || !map->changes()) return ProgramFault::wrong_map;
  if ((map->settings().flags & BPF_F_RDONLY_PROG) != 0) return ProgramFault::read_only;
  Bytes key, value;
  ProgramFault fault = copy(run, r[2], map->settings().key_bytes, key);
  if (fault == ProgramFault::none && !erases) fault = copy(run, r[3], map->settings().value_bytes, value);
  if (fault != ProgramFault::none) return fault;
  r[0] = signed_number(erases ? map->erase(key) : map->update(key, value, r[4], run.packet.queue));
  return fault;
}

u32 added(u32 a, u32 b) {  // in ones' complement
  const u64 sum = u64{a} + b;
  return static_cast<u32>(sum) + static_cast<u32>(sum >> 32);
}

u32 sum_of(const Bytes& bytes, u32 sum) {
  for (std::size_t at = 0; at < bytes.size(); at += 4) {
    u32 word = 0;
    std::memcpy(&word, &bytes[at], std::min(sizeof(word), bytes.size() - at));
    sum = added(sum, word);
  }
  return sum;
}

// RFC 1624. The result has 16 bits, as it has since Linux 6.13; before, it is any number of 32 that folds to
// it, and -EINVAL where a size is no multiple of 4 or both together are beyond 512 bytes.
ProgramFault csum_diff(ProgramRun& run) {
  auto& r = run.registers;
  const u32 from_bytes = static_cast<u32>(r[2]), to_bytes = static_cast<u32>(r[4]);
  u32 sum = static_cast<u32>(r[5]);
  Bytes from, to;
  ProgramFault fault = copy(run, r[1], from_bytes, from);
  if (fault == ProgramFault::none) fault = copy(run, r[3], to_bytes, to);
  if (fault != ProgramFault::none) return fault;
  if (from_bytes != 0 && to_bytes != 0)
    sum = added(sum_of(to, sum), ~sum_of(from, 0));
  else if (from_bytes != 0)
    sum = ~sum_of(from, ~sum);
  else
    sum = sum_of(to, sum);
  sum = (sum & 0xffff) + (sum >> 16);
  r[0] = (sum & 0xffff) + (sum >> 16);
  return fault;
}

ProgramFault redirect(ProgramRun& run) {
  auto& r = run.registers;
  r[0] = XDP_ABORTED;
  if (r[2] != 0) return ProgramFault::none;
  run.redirect = {.map = std::nullopt, .key = 0, .ifindex = static_cast<u32>(r[1]), .flags = 0};
  r[0] = XDP_REDIRECT;
  return ProgramFault::none;
}

ProgramFault redirect_map(ProgramRun& run) {
  auto& r = run.registers;
  constexpr u64 kActions = XDP_ABORTED | XDP_DROP | XDP_PASS | XDP_TX;
  constexpr u64 kWhere = BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS;
  ProgramMap* map = run.memory.map_at(r[1]);
  if (map == nullptr) return ProgramFault::wrong_map;
  const u32 type = map->settings().type;
  const bool of_devices = type == BPF_MAP_TYPE_DEVMAP || type == BPF_MAP_TYPE_DEVMAP_HASH;
  if (!of_devices && type != BPF_MAP_TYPE_CPUMAP && type != BPF_MAP_TYPE_XSKMAP)
    return ProgramFault::wrong_map;
  const u64 flags = r[3];
  r[0] = XDP_ABORTED;
  if ((flags & ~(kActions | (of_devices ? kWhere : 0))) != 0) return ProgramFault::none;
  const u32 key = static_cast<u32>(r[2]);
  Bytes bytes(4);
  std::memcpy(bytes.data(), &key, sizeof(key));
  const auto found = map->look_up(bytes, 0);
  if (found == nullptr && (flags & BPF_F_BROADCAST) == 0) {
    // The kernel forgets an earlier call's map, and not the number that was said there: of an interface, or
    // of an entry, which is taken for an interface's from now on.
    if (run.redirect)
      run.redirect = {.map = std::nullopt,
                      .key = 0,
                      .ifindex = run.redirect->map ? run.redirect->key : run.redirect->ifindex,
                      .flags = 0};
    r[0] = flags & kActions;
    return ProgramFault::none;
  }
  ProgramRedirect target{.map = ProgramMemory::number_of_map(r[1]), .key = key, .ifindex = 0, .flags = 0};
  if ((flags & BPF_F_BROADCAST) != 0)
    target.flags = static_cast<u32>(flags & kWhere);
  else
    std::memcpy(&target.ifindex, found->bytes.data(), sizeof(target.ifindex));
  run.redirect = target;
  r[0] = XDP_REDIRECT;
  return ProgramFault::none;
}

// For an event of the packet's.
bool has_room(const ProgramRun& run) { return !run.event && !run.memory.has_record(); }

// What is answered where the map, the context and the bytes are right. 0: this is the packet's event.
int put_out(const ProgramRun& run, const ProgramMap& map, u64 flags, std::size_t bytes, u32& asked) {
  asked = 0;
  if (map.settings().type == BPF_MAP_TYPE_RINGBUF) {
    if ((flags & ~u64{BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP}) != 0) return -EINVAL;
    return bytes > XG_EVENT_BYTES || !has_room(run) ? -EAGAIN : 0;
  }
  if ((flags & ~(BPF_F_CTXLEN_MASK | BPF_F_INDEX_MASK)) != 0) return -EINVAL;
  asked = static_cast<u32>((flags & BPF_F_CTXLEN_MASK) >> 32);
  if (asked > run.memory.packet().size()) return -EFAULT;
  const u64 wanted = flags & BPF_F_INDEX_MASK;
  const u64 index = wanted == BPF_F_CURRENT_CPU ? run.packet.queue : wanted;
  if (index >= map.settings().entries) return -E2BIG;
  if (index != run.packet.queue) return -EOPNOTSUPP;
  if (bytes > XG_EVENT_BYTES) return -E2BIG;
  return has_room(run) ? 0 : -ENOSPC;
}

void make_event(ProgramRun& run, u32 map, const Bytes& bytes, u32 asked) {
  xg_event& event = run.event.emplace();
  event.map = static_cast<u16>(map);
  event.length = static_cast<u16>(bytes.size());
  event.asked = asked;
  std::ranges::copy(bytes, event.bytes);
}

ProgramFault output(ProgramRun& run, u32 type, u64 pointer, u64 address, u64 count, u64 flags) {
  const ProgramMap* const map = run.memory.map_at(pointer);
  if (map == nullptr || map->settings().type != type) return ProgramFault::wrong_map;
  Bytes bytes;
  if (auto fault = copy(run, address, static_cast<u32>(count), bytes); fault != ProgramFault::none)
    return fault;
  u32 asked = 0;
  const int answer = put_out(run, *map, flags, bytes.size(), asked);
  run.registers[0] = signed_number(answer);
  if (answer != 0) return ProgramFault::none;
  make_event(run, ProgramMemory::number_of_map(pointer), bytes, asked);
  return ProgramFault::none;
}

ProgramFault reserve(ProgramRun& run) {
  auto& r = run.registers;
  const ProgramMap* const map = run.memory.map_at(r[1]);
  if (map == nullptr || map->settings().type != BPF_MAP_TYPE_RINGBUF) return ProgramFault::wrong_map;
  const u64 bytes = r[2], flags = r[3];
  r[0] = 0;
  if (flags != 0 || bytes > XG_EVENT_BYTES || !has_room(run)) return ProgramFault::none;
  run.record_map = ProgramMemory::number_of_map(r[1]);
  run.memory.reserve(bytes);
  run.steps += bytes / 8;
  r[0] = ProgramMemory::pointer(ProgramMemory::kRecord, 0);
  return ProgramFault::none;
}

// Whatever its flags are, which only say whether who waits is woken up.
ProgramFault leave_record(ProgramRun& run, bool submits) {
  auto& r = run.registers;
  if (r[1] != ProgramMemory::pointer(ProgramMemory::kRecord, 0) || !run.memory.has_record())
    return ProgramFault::out_of_bounds;
  const Bytes bytes = run.memory.leave_record();
  r[0] = 0;
  if (!submits) return ProgramFault::none;
  make_event(run, run.record_map, bytes, 0);
  run.steps += bytes.size() / 8;
  return ProgramFault::none;
}

}  // namespace

ProgramFault call_helper(ProgramRun& run, std::int32_t number) {
  auto& r = run.registers;
  const bool of_packet = number == BPF_FUNC_xdp_adjust_head || number == BPF_FUNC_xdp_adjust_meta ||
                         number == BPF_FUNC_xdp_adjust_tail || number == BPF_FUNC_perf_event_output ||
                         number == BPF_FUNC_fib_lookup;
  if (of_packet && r[1] != ProgramMemory::pointer(ProgramMemory::kContext, 0))
    return ProgramFault::out_of_bounds;
  const auto by = static_cast<std::int32_t>(r[2]);
  switch (number) {
    case BPF_FUNC_map_lookup_elem:
      return look_up(run);
    case BPF_FUNC_map_update_elem:
      return change(run, false);
    case BPF_FUNC_map_delete_elem:
      return change(run, true);
    case BPF_FUNC_csum_diff:
      return csum_diff(run);
    case BPF_FUNC_redirect:
      return redirect(run);
    case BPF_FUNC_redirect_map:
      return redirect_map(run);
    case BPF_FUNC_xdp_adjust_head:
      r[0] = signed_number(run.memory.adjust_head(by));
      if (run.memory.fault() != ProgramFault::none) return run.memory.fault();
      // What moves along is read and written.
      if (r[0] == 0) run.steps += run.memory.metadata().size() / 8;
      break;
    case BPF_FUNC_xdp_adjust_meta:
      r[0] = signed_number(run.memory.adjust_meta(by));
      break;
    case BPF_FUNC_xdp_adjust_tail:
      r[0] = signed_number(run.memory.adjust_tail(by));
      if (r[0] == 0 && by > 0) run.steps += static_cast<u32>(by) / 8;
      break;
    case BPF_FUNC_perf_event_output:
      return output(run, BPF_MAP_TYPE_PERF_EVENT_ARRAY, r[2], r[4], r[5], r[3]);
    case BPF_FUNC_ringbuf_output:
      return output(run, BPF_MAP_TYPE_RINGBUF, r[1], r[2], r[3], r[4]);
    case BPF_FUNC_ringbuf_reserve:
      return reserve(run);
    case BPF_FUNC_ringbuf_submit:
      return leave_record(run, true);
    case BPF_FUNC_ringbuf_discard:
      return leave_record(run, false);
    case BPF_FUNC_fib_lookup:
      return run.packet.routes == nullptr ? ProgramFault::unknown_helper : look_up_route(run);
    case BPF_FUNC_ktime_get_ns:
      r[0] = run.packet.time_ns;
      break;
    case BPF_FUNC_get_prandom_u32:
      r[0] = run.packet.random;
      break;
    case BPF_FUNC_get_smp_processor_id:
      r[0] = run.packet.queue;
      break;
    default:
      return ProgramFault::unknown_helper;
  }
  return ProgramFault::none;
}

}  // namespace xdpgpu::gpu::reference
