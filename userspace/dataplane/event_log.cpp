// SPDX-License-Identifier: MIT
#include "userspace/dataplane/event_log.hpp"

#include <algorithm>

#include "maps/parse.h"
#include "userspace/dataplane/dns_question.hpp"

namespace xdpgpu::dataplane {
namespace {

// Of a packet whose headers were not found: as many as they take where they are as usual.
constexpr u32 kHeaderBytes = 128;
constexpr u32 kDnsBytes = kDnsHeader + kMostDnsName + 4;

// Of a packet's first bytes, over all of its buffers; returns how many there were.
u32 gather(const xg_descriptor* buffer, const u8* region, u8* to, u32 most) noexcept {
  u32 bytes = 0;
  for (;; ++buffer) {
    const u32 part = std::min(buffer->length, most - bytes);
    std::memcpy(to + bytes, region + buffer->offset, part);
    bytes += part;
    if (bytes == most || !(buffer->flags & XG_DESC_MORE)) return bytes;
  }
}

// Those that stay are there all the while.
template <std::size_t N>
void put(const std::array<u64, N>& bits, std::array<std::atomic<u64>, N>& to, bool forget) noexcept {
  for (std::size_t i = 0; i < N; ++i) {
    if (forget)
      to[i].store(bits[i], std::memory_order_relaxed);
    else
      to[i].fetch_or(bits[i], std::memory_order_relaxed);
  }
}

}  // namespace

void EventSelection::tell(std::span<const EventKind> kinds, u32 per_second, u32 per_rule,
                          u32 payload) noexcept {
  u32 bits = 0;
  for (const EventKind kind : kinds) {
    bits |= 1u << static_cast<u32>(kind);
    limits_[static_cast<u32>(kind)].set(per_second);
  }
  rules_.set(per_rule);
  payload_.store(std::min(payload, kMostEventPayload), std::memory_order_relaxed);
  kinds_.store(bits, std::memory_order_relaxed);
}

void EventSelection::look_at_dns(std::span<const u16> pipelines, std::span<const std::pair<u16, u16>> ports,
                                 bool forget) noexcept {
  std::array<u64, kPipelines / 64> among_pipelines{};
  std::array<u64, 1024> among_ports{};
  for (const u16 pipeline : pipelines)
    if (pipeline < kPipelines) among_pipelines[pipeline / 64] |= u64{1} << pipeline % 64;
  for (const auto& [first, last] : ports)
    for (u32 port = first; port <= last; ++port) among_ports[port / 64] |= u64{1} << port % 64;
  put(among_pipelines, pipelines_, forget);
  put(among_ports, ports_, forget);
}

EventLog::EventLog(EventSelection& selection, std::size_t worker)
    : selection_(selection),
      finisher_(selection.rules(), worker),
      events_(std::make_unique_for_overwrite<Event[]>(kEvents)) {}

EventCounts EventLog::counts(EventKind kind) const noexcept {
  const Counters& counters = counters_[static_cast<u32>(kind)];
  const auto load = [](const std::atomic<u64>& counter) { return counter.load(std::memory_order_relaxed); };
  return {.told = load(counters.told),
          .over_rate = load(counters.over_rate),
          .limited = kind == EventKind::alert ? finisher_.limited() : 0,
          .ring_full = load(counters.ring_full),
          .wrong = load(counters.wrong)};
}

// As the stage has it: a question that it would call malformed has no name to be told.
bool EventLog::is_dns(const xg_metadata& metadata, const u8* frame, u32 length) const noexcept {
  constexpr u32 kAre = XG_PKT_UDP | XG_PKT_PORTS;
  constexpr u32 kAreNot = XG_PKT_FRAGMENT | XG_PKT_MALFORMED;
  if ((metadata.flags & (kAre | kAreNot)) != kAre || !selection_.is_dns_pipeline(metadata.pipeline))
    return false;
  const u32 l4 = metadata.l4_offset, message = metadata.payload_offset;
  if (l4 + 8 > length || message < l4 || message > length) return false;
  if (!selection_.is_dns_port(xg_host16(xg_load16(frame + l4))) &&
      !selection_.is_dns_port(xg_host16(xg_load16(frame + l4 + 2))))
    return false;
  return read_dns_question(frame + message, length - message).has_value();
}

void EventLog::give(EventKind kind, const Batch& batch, u32 at, const u8* region, u64 now_ns,
                    const xg_alerts& alerts, const xg_event* program) noexcept {
  Counters& counters = counters_[static_cast<u32>(kind)];
  if (!selection_.take(kind, now_ns)) return count(counters.over_rate);
  const u64 given = given_.load(std::memory_order_relaxed);
  if (given - taken_.load(std::memory_order_acquire) == kEvents) return count(counters.ring_full);
  const xg_descriptor* const packet = batch.slot->descriptors + at;
  const xg_result& result = batch.slot->results[at];
  const u8* const frame = region + packet->offset;
  xg_metadata metadata;
  std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
  const u32 payload = selection_.payload();
  const u32 behind = std::max(payload, kind == EventKind::dns ? kDnsBytes : 0);
  const u32 usual = std::max<u32>(kHeaderBytes, metadata.payload_offset) + behind;
  const u32 most = std::min(Event::kBytes, std::max(usual, program ? program->asked : 0));
  u32 length = packet->length;
  for (const xg_descriptor* one = packet; one->flags & XG_DESC_MORE; ++one) length += one[1].length;
  Event& event = events_[given % kEvents];
  event.at_ns = metadata.rx_time_ns;
  event.generation = metadata.generation;
  event.verdict = result.verdict;
  event.flags = result.flags;
  event.length = length;
  event.bytes = static_cast<u16>(gather(packet, region, event.packet, most));
  event.payload = static_cast<u16>(payload);
  event.pipeline = metadata.pipeline;
  event.kind = kind;
  event.port = batch.ports[at];
  event.alerts = alerts;
  if (program) event.program = *program;
  event.audited = batch.audit;
  given_.store(given + 1, std::memory_order_release);
  count(counters.told);
}

// The rules that are within the policy's rate, as one event.
void EventLog::alert(const Batch& batch, u32 at, const u8* region, u64 now_ns) noexcept {
  xg_metadata metadata;
  std::memcpy(&metadata, region + batch.slot->descriptors[at].offset - XG_METADATA_SIZE, sizeof(metadata));
  const xg_alerts& all = batch.slot->alerts[at];
  xg_alerts told{};
  const u32 count = std::min<u32>(all.count & ~XG_ALERTS_MORE, XG_MAX_ALERTS);
  for (u32 i = 0; i < count; ++i)
    if (selection_.take_rule(metadata.pipeline, all.rules[i], now_ns))
      told.rules[told.count++] = all.rules[i];
    else
      dataplane::count(counters_[static_cast<u32>(EventKind::alert)].over_rate);
  if (told.count == 0) return;
  told.count = static_cast<u16>(told.count | (all.count & XG_ALERTS_MORE));
  give(EventKind::alert, batch, at, region, now_ns, told);
}

// A device's word is looked at: of a record that says what no program can, nothing is told.
void EventLog::put_out(const Batch& batch, u32 at, const u8* region, u64 now_ns) noexcept {
  xg_event program = batch.slot->events[at];
  const u32 length = batch.slot->descriptors[at].length;
  if (program.length > XG_EVENT_BYTES || (batch.slot->descriptors[at].flags & XG_DESC_MORE) != 0)
    return count(counters_[static_cast<u32>(EventKind::program)].wrong);
  // The packet may have been longer for its program.
  program.asked = std::min({program.asked, length, kMostEventPayload});
  give(EventKind::program, batch, at, region, now_ns, {}, &program);
}

void EventLog::tell(const Batch& batch, const u8* region, u64 now_ns) noexcept {
  if (batch.outcome != Outcome::decided) return;
  const bool dns = selection_.tells(EventKind::dns);
  const bool alerts = batch.slot->alerts != nullptr && selection_.tells(EventKind::alert);
  const bool programs = batch.slot->events != nullptr && selection_.tells(EventKind::program);
  // What is audited passes in place of being dropped.
  const bool drops = selection_.tells(EventKind::drop) && !batch.audit;
  const xg_descriptor* const descriptors = batch.slot->descriptors;
  const xg_result* const results = batch.slot->results;
  for (u32 i = 0; i < batch.count; ++i) {
    if (!Batch::is_received(batch.ports[i])) continue;
    const u32 action = XG_VERDICT_ACTION(results[i].verdict);
    // Its metadata may be another packet's.
    if (action == XG_ABORTED) continue;
    if (dns) {
      const u8* const frame = region + descriptors[i].offset;
      xg_metadata metadata;
      std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
      u8 gathered[Event::kBytes];
      const u8* bytes = frame;
      u32 length = descriptors[i].length;
      if (descriptors[i].flags & XG_DESC_MORE) [[unlikely]] {
        length = gather(descriptors + i, region, gathered, Event::kBytes);
        bytes = gathered;
      }
      if (is_dns(metadata, bytes, length)) give(EventKind::dns, batch, i, region, now_ns);
    }
    if (alerts && (results[i].flags & XG_RES_ALERTS)) alert(batch, i, region, now_ns);
    if (programs && (results[i].flags & XG_RES_EVENT)) put_out(batch, i, region, now_ns);
    if (drops && action == XG_DROP) give(EventKind::drop, batch, i, region, now_ns);
  }
}

}  // namespace xdpgpu::dataplane
