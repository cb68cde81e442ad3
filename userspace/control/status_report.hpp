// SPDX-License-Identifier: MIT
//
// userspace/control/status_report.hpp: what `status` tells, and `attach` at its beginning and end, as values.
// Text (summary.hpp, metrics.hpp) and JSON are renderings of them; the process that is asked sends the JSON,
// and the command reads it back into these. Names in JSON are those of the fields, if nothing else is said.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "maps/exempt.h"
#include "userspace/control/alarms.hpp"
#include "userspace/control/eve_log.hpp"
#include "userspace/control/fields.hpp"
#include "userspace/control/flow_events.hpp"
#include "userspace/control/last_end.hpp"
#include "userspace/control/protocol.hpp"
#include "userspace/control/rule_stats.hpp"
#include "userspace/dataplane/counters.hpp"
#include "userspace/dataplane/engine.hpp"
#include "userspace/dataplane/metrics.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::control {

template <>
struct Fields<xg_counter> {
  static void fields(auto& self, auto& field) {
    field("packets", self.packets);
    field("bytes", self.bytes);
  }
};
template <>
struct Fields<xg_exempt_counter> {
  static void fields(auto& self, auto& field) {
    field("passed", self.passed);
    field("over", self.excess);
  }
};
template <>
struct Fields<xg_worker_counters> {
  static void fields(auto& self, auto& field) {
    for (const auto& counter : dataplane::kWorkerCounters) field(counter.name, self.*counter.value);
  }
};
template <>
struct Fields<xg_ring_level> {
  static void fields(auto& self, auto& field) {
    field("now", self.now);
    field("most", self.most);
  }
};
// In ns but for the count.
template <>
struct Fields<dataplane::Durations> {
  static void fields(auto& self, auto& field) {
    field("count", self.count);
    field("mean", self.mean_ns);
    field("p50", self.p50_ns);
    field("p99", self.p99_ns);
    field("p99_9", self.p99_9_ns);
    field("max", self.most_ns);
    field("sum", self.sum_ns);
  }
};
template <>
struct Fields<dataplane::FrameCount> {
  static void fields(auto& self, auto& field) {
    field("total", self.total);
    field("free", self.free);
    field("fill", self.fill);
    field("batch", self.batch);
    field("tx", self.tx);
    field("waiting", self.waiting);
    field.derived("conserved", self.conserved());
  }
};

// By XG_KERNEL_*, XG_MALFORMED_* - 1 and XG_RATE_*; in JSON by name.
struct KernelCounts {
  std::array<xg_counter, XG_KERNEL_REASON_COUNT> by{};
  static void fields(auto& self, auto& field) {
    for (u32 i = 0; i < self.by.size(); i++) field(dataplane::kKernelCounters[i].name, self.by[i]);
  }
};
struct MalformedCounts {
  std::array<xg_counter, XG_MALFORMED_COUNT> by{};
  static void fields(auto& self, auto& field) {
    for (u32 i = 0; i < self.by.size(); i++) field(dataplane::kMalformedCounters[i].name, self.by[i]);
  }
};
struct RateCounts {
  std::array<xg_exempt_counter, XG_RATES> by{};
  static void fields(auto& self, auto& field) {
    for (u32 i = 0; i < self.by.size(); i++) field(policy::keys::kRates[i], self.by[i]);
  }
};

// Packets by what became of them, kernel and workers together (DESIGN 4.2).
struct Totals {
  u64 in = 0;  // seen by the XDP programs
  u64 pass = 0, drop = 0, tx = 0, redirect = 0, error = 0;
  u64 program = 0;    // given to programs in XDP, whose answers nobody counts
  u64 inspected = 0;  // of them, handed to user space
  u64 refused = 0;    // of the errors, what was to pass or be sent, and the kernel did not take
  u64 out() const { return pass + drop + tx + redirect + error + program; }
  u64 in_flight() const { return in > out() ? in - out() : 0; }
  bool balanced() const { return balanced(*this); }
  // Of counters that go on while they are read one after the other: what has come in is accounted for in what
  // was read later, and the other way round.
  bool balanced(const Totals& later) const { return in <= later.out() && out() <= later.in; }
  static void fields(auto& self, auto& field) {
    field("in", self.in);
    field("pass", self.pass);
    field("drop", self.drop);
    field("tx", self.tx);
    field("redirect", self.redirect);
    field("error", self.error);
    field("program", self.program);
    field("refused", self.refused);
    field("inspected", self.inspected);
    field.derived("in_flight", self.in_flight());
  }
};

// ---- a queue
// -----------------------------------------------------------------------------------------------

struct FillLevel {
  u32 now = 0, most = 0, least = 0;
  static void fields(auto& self, auto& field) {
    field("now", self.now);
    field("most", self.most);
    field("least", self.least);
  }
};
struct RingLevels {
  xg_ring_level rx{};
  FillLevel fill;
  xg_ring_level tx{}, completion{}, reinject_tx{}, reinject_completion{};
  static void fields(auto& self, auto& field) {
    field("rx", self.rx);
    field("fill", self.fill);
    field("tx", self.tx);
    field("completion", self.completion);
    field("reinject_tx", self.reinject_tx);
    field("reinject_completion", self.reinject_completion);
  }
};
struct QueueFrames {
  u32 fill = 0, batch = 0, tx = 0, reinject = 0, handed = 0, waiting = 0, worker_total = 0, worker_free = 0;
  static void fields(auto& self, auto& field) {
    field("fill", self.fill);
    field("batch", self.batch);
    field("tx", self.tx);
    field("reinject", self.reinject);
    field("handed", self.handed);
    field("waiting", self.waiting);
    field("worker_total", self.worker_total);
    field("worker_free", self.worker_free);
  }
};
struct KernelLosses {
#define XG_X(name, ...) u64 name = 0;
  XG_QUEUE_LOSSES(XG_X)
#undef XG_X
  static void fields(auto& self, auto& field) {
#define XG_X(name, ...) field(#name, self.name);
    XG_QUEUE_LOSSES(XG_X)
#undef XG_X
  }
};
struct QueueBatches {
  u64 count = 0, packets = 0;
  std::array<u64, XG_BATCH_BUCKETS> log2{};
  static void fields(auto& self, auto& field) {
    field("count", self.count);
    field("packets", self.packets);
    field("log2", self.log2);
  }
};
// Durations, and how many of them were below 1, 2, 4, 8 ... ns.
struct TimeHistogram {
  dataplane::Durations durations;
  std::array<u64, XG_DEVICE_BUCKETS> log2{};
  static void fields(auto& self, auto& field) {
    Fields<dataplane::Durations>::fields(self.durations, field);
    field("log2", self.log2);
  }
};
struct MetricsReport {
  u32 ring_size = 0, send_ring_size = 0;
  RingLevels rings;
  QueueFrames frames;
  KernelLosses kernel_losses;
  QueueBatches batches;
  TimeHistogram device_time;  // "device_time_ns"
  TimeHistogram latency;      // "latency_ns"
  static void fields(auto& self, auto& field) {
    field("ring_size", self.ring_size);
    field("send_ring_size", self.send_ring_size);
    field("rings", self.rings);
    field("frames", self.frames);
    field("kernel_losses", self.kernel_losses);
    field("batches", self.batches);
    field("device_time_ns", self.device_time);
    field("latency_ns", self.latency);
  }
};

// How a data plane serves it; cores and nodes are -1 where there is none.
struct QueueService {
  std::string device, mode, compute_mode;
  bool metadata = false;  // the port delivers them
  int cpu = -1, retire_cpu = -1, numa_node = -1, frames_node = -1;
  bool busy_poll = false;
  u32 frames = 0;
  std::int32_t credits = 0;
  u32 in_user_space = 0;  // packets
  MetricsReport metrics;
  std::optional<std::string> because;  // compute_mode
  static void fields(auto& self, auto& field) {
    field("device", self.device);
    field("mode", self.mode);
    field("compute_mode", self.compute_mode);
    field("metadata", self.metadata);
    field("cpu", self.cpu);
    field("retire_cpu", self.retire_cpu);
    field("numa_node", self.numa_node);
    field("frames_node", self.frames_node);
    field("busy_poll", self.busy_poll);
    field("frames", self.frames);
    field("credits", self.credits);
    field("in_user_space", self.in_user_space);
    field("metrics", self.metrics);
    field("because", self.because);
  }
};
struct QueueReport {
  u32 queue = 0;
  xg_worker_counters counters{};
  std::optional<QueueService> service;
  static void fields(auto& self, auto& field) {
    field("queue", self.queue);
    field("counters", self.counters);
    field.part("mode", self.service);
  }
};

// ---- a port
// ------------------------------------------------------------------------------------------------

// What io.burst came to.
struct BurstReport {
  u64 ns = 0, link_mbps = 0;
  u32 wire_bytes = 0;  // of the smallest frame
  u64 frames_per_queue = 0, queues = 0, frame_bytes = 0, bytes = 0;
  static void fields(auto& self, auto& field) {
    field("ns", self.ns);
    field("link_mbps", self.link_mbps);
    field("wire_bytes", self.wire_bytes);
    field("frames_per_queue", self.frames_per_queue);
    field("queues", self.queues);
    field("frame_bytes", self.frame_bytes);
    field("bytes", self.bytes);
  }
};
struct PortReport {
  std::string interface;
  u32 port = 0;
  std::string state, xdp, pins;
  std::vector<QueueReport> queues;
  KernelCounts kernel;
  MalformedCounts malformed;
  RateCounts rates;
  std::optional<BurstReport> burst;
  static void fields(auto& self, auto& field) {
    field("interface", self.interface);
    field("port", self.port);
    field("state", self.state);
    field("xdp", self.xdp);
    field("pins", self.pins);
    field("queues", self.queues);
    field("kernel", self.kernel);
    field("malformed", self.malformed);
    field("rates", self.rates);
    field("burst", self.burst);
  }
};

// ---- the policy
// --------------------------------------------------------------------------------------------

struct PolicyName {
  std::string file, hash;
  static void fields(auto& self, auto& field) {
    field("file", self.file);
    field("hash", self.hash);
  }
};
// A policy that is to be confirmed.
struct Trial {
  std::int64_t confirm_within_s = 0;
  PolicyName goes_back_to;
  static void fields(auto& self, auto& field) {
    field("confirm_within_s", self.confirm_within_s);
    field("goes_back_to", self.goes_back_to);
  }
};
struct PolicyInForce {
  std::string file;
  bool audit = false, conntrack_loosened = false;
  static void fields(auto& self, auto& field) {
    field("file", self.file);
    field("audit", self.audit);
    field("conntrack_loosened", self.conntrack_loosened);
  }
};
struct PolicyReport {
  u32 generation = 0;
  std::string hash;
  std::optional<PolicyInForce> in_force;  // as a data plane knows it
  std::optional<Trial> trial;
  static void fields(auto& self, auto& field) {
    field("generation", self.generation);
    field("hash", self.hash);
    field.part("file", self.in_force);
    field.part("confirm_within_s", self.trial);
  }
};
struct ShedReport {
  u64 overload = 0, failure = 0;
  static void fields(auto& self, auto& field) {
    field("overload", self.overload);
    field("failure", self.failure);
  }
};
struct RuleReport {
  std::string name;
  u64 packets = 0, bytes = 0;
  ShedReport shed;  // packets that on_overload and on_failure decided
  static void fields(auto& self, auto& field) {
    field("name", self.name);
    field("packets", self.packets);
    field("bytes", self.bytes);
    field("shed", self.shed);
  }
};

// ---- devices and what they remember
// ------------------------------------------------------------------------

struct DeviceReport {
  std::string name, frames, mode;
  bool automatic = false;  // "auto"
  bool publishes_flows = false;
  std::optional<std::string> because, degraded;
  // Of a GPU that takes code for the policy's programs, if it has any: "translated", or "interpreted: ...".
  std::optional<std::string> programs;
  static void fields(auto& self, auto& field) {
    field("name", self.name);
    field("frames", self.frames);
    field("mode", self.mode);
    field("auto", self.automatic);
    field("publishes_flows", self.publishes_flows);
    field("because", self.because);
    field("degraded", self.degraded);
    field("programs", self.programs);
  }
};
template <>
struct Fields<dataplane::MirrorStatus> {
  static void fields(auto& self, auto& field) {
    field("device", self.device);
#define XG_X(name, ...) field(#name, self.name);
    XG_MIRROR_COUNTERS(XG_X)
#undef XG_X
  }
};
// gpu::TableReport; stages count from 1.
struct StageTableReport {
  std::string pipeline;
  u32 stage = 0;
  std::string kind;
  u64 entries = 0, occupied = 0, live = 0, live_counted_in = 0;
  double pressure_percent = 0;
  u64 touches = 0, hits = 0, inserted = 0, evicted = 0, refused = 0;
  std::map<std::string, u64> packets;  // by what the stage took them for
  static void fields(auto& self, auto& field) {
    field("pipeline", self.pipeline);
    field("stage", self.stage);
    field("kind", self.kind);
    field("entries", self.entries);
    field("occupied", self.occupied);
    field("live", self.live);
    field("live_counted_in", self.live_counted_in);
    field("pressure_percent", self.pressure_percent);
    field("touches", self.touches);
    field("hits", self.hits);
    field("inserted", self.inserted);
    field("evicted", self.evicted);
    field("refused", self.refused);
    field("packets", self.packets);
  }
};

// Flows that the policy says to cache, and why they are not.
struct NeverCached {
  std::string reason;
  u64 packets = 0;
  std::string text;
  static void fields(auto& self, auto& field) {
    field("reason", self.reason);
    field("packets", self.packets);
    field("text", self.text);
  }
};
struct BatchTotals {
  u64 count = 0, packets = 0;
  static void fields(auto& self, auto& field) {
    field("count", self.count);
    field("packets", self.packets);
  }
};

// ---- the process
// -------------------------------------------------------------------------------------------

struct NetnsReport {
  u64 inode = 0, cookie = 0;
  bool initial = false;
  static void fields(auto& self, auto& field) {
    field("inode", self.inode);
    field("cookie", self.cookie);
    field("initial", self.initial);
  }
};

// What a data plane that lives tells beside.
struct ServiceReport {
  std::vector<DeviceReport> devices;  // one at least; the first is "device", too
  std::vector<RuleReport> rules;
  std::vector<NeverCached> never_cached;
  BatchTotals batches;
  dataplane::Durations device_time, latency;  // "device_time_ns", "latency_ns"
  dataplane::FrameCount frames;
  std::optional<dataplane::MirrorStatus> mirror;
  // One or the other.
  std::optional<std::vector<StageTableReport>> tables;
  std::optional<std::string> tables_error;
  std::vector<ProgramReport> programs;
  static void fields(auto& self, auto& field) {
    field("devices", self.devices);
    field.derived("device", self.devices.empty() ? DeviceReport{} : self.devices.front());
    field("rules", self.rules);
    field("never_cached", self.never_cached);
    field("batches", self.batches);
    field("device_time_ns", self.device_time);
    field("latency_ns", self.latency);
    field("frames", self.frames);
    field("mirror", self.mirror);
    field("tables", self.tables);
    field("tables_error", self.tables_error);
    field("programs", self.programs);
  }
};

// Of a load balancer that checks its backends.
struct BackendReport {
  std::string pipeline;
  std::size_t stage = 0;  // from 1
  std::string backend, address;
  u32 port = 0;
  bool up = true;
  std::optional<std::string> problem;  // of the last connect, while it is down
  static void fields(auto& self, auto& field) {
    field("pipeline", self.pipeline);
    field("stage", self.stage);
    field("backend", self.backend);
    field("address", self.address);
    field("port", self.port);
    field("up", self.up);
    field("problem", self.problem);
  }
};

// How the data plane is held from what it does not need. Where files are limited, what of it the kernel has;
// else why not.
struct CageReport {
  std::string system_calls, files;
  std::optional<int> landlock;  // version
  std::optional<std::string> device_requests;
  std::optional<unsigned> threads_left_out;
  std::optional<std::string> why;
  static void fields(auto& self, auto& field) {
    field("system_calls", self.system_calls);
    field("files", self.files);
    field("landlock", self.landlock);
    field("device_requests", self.device_requests);
    field("threads_left_out", self.threads_left_out);
    field("why", self.why);
  }
};

struct LastDeath {
  std::string how, at;
  std::optional<std::string> headers;  // the file that has those of its last packets
  static void fields(auto& self, auto& field) {
    field("how", self.how);
    field("at", self.at);
    field("headers", self.headers);
  }
};
// The data plane's; pid, state and summary where none lives that could answer for itself.
struct LifeReport {
  u64 deaths = 0;  // since the attach
  std::optional<LastDeath> last_death;
  bool lives = true;
  std::optional<int> pid;
  std::optional<std::string> state;  // "stopped", "starting", "waiting", "dead"
  std::optional<std::string> summary;
  static void fields(auto& self, auto& field) {
    field("deaths", self.deaths);
    field("last_death", self.last_death);
    field("lives", self.lives);
    field("pid", self.pid);
    field("state", self.state);
    field("summary", self.summary);
  }
};

// What has become of what a dead attach left.
struct GoesOn {
  u32 generation_before = 0;
  bool same_policy = false;
  u64 lost_with_workers = 0;
  static void fields(auto& self, auto& field) {
    field("generation_before", self.generation_before);
    field("same_policy", self.same_policy);
    field("lost_with_workers", self.lost_with_workers);
  }
};

// A bypass that ends by itself.
struct BypassReport {
  u64 ends_in_s = 0;    // rounded up
  std::string ends_at;  // "2026-11-23 19:00:00 UTC"
  static void fields(auto& self, auto& field) {
    field("ends_in_s", self.ends_in_s);
    field("ends_at", self.ends_at);
  }
};
// left: 0: it does not.
std::optional<BypassReport> bypass_report(std::chrono::milliseconds left);

struct StatusReport {
  int pid = 0;
  NetnsReport netns;
  double uptime_s = 0;
  PolicyReport policy;
  Totals packets;
  std::vector<PortReport> ports;
  std::optional<ServiceReport> service;  // none: no data plane serves the ports
  std::optional<CageReport> cage;
  std::optional<AlarmsReport> alarms;                // once there was one
  std::optional<FlowEventsReport> flow_events;       // likewise
  std::optional<LogReport> log;                      // where the policy has one
  std::optional<std::vector<BackendReport>> health;  // where any is checked
  std::optional<LifeReport> data_plane;
  std::optional<BypassReport> bypass;  // where it is on, and ends by itself
  std::optional<LastEnd> last_end;
  // At the beginning, and at the end.
  std::optional<std::string> event;  // "ready", "end"
  std::optional<GoesOn> goes_on;
  std::optional<std::vector<std::string>> notes;
  std::optional<bool> frames_conserved, packets_balanced;
  std::optional<bool> kept;      // for the next attach, where that was asked for
  std::optional<Problem> error;  // what it ended for
  static void fields(auto& self, auto& field) {
    field("pid", self.pid);
    field("netns", self.netns);
    field("uptime_s", self.uptime_s);
    field("policy", self.policy);
    field("packets", self.packets);
    field("ports", self.ports);
    field.part("devices", self.service);
    field("cage", self.cage);
    field("alarms", self.alarms);
    field("flow_events", self.flow_events);
    field("log", self.log);
    field("health", self.health);
    field("data_plane", self.data_plane);
    field("bypass", self.bypass);
    field("last_end", self.last_end);
    field("event", self.event);
    field("goes_on", self.goes_on);
    field("notes", self.notes);
    field("frames_conserved", self.frames_conserved);
    field("packets_balanced", self.packets_balanced);
    field("kept", self.kept);
    field("error", self.error);
  }
};

}  // namespace xdpgpu::control
