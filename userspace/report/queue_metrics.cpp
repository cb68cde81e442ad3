// SPDX-License-Identifier: MIT
#include "userspace/report/queue_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

namespace xdpgpu::report {
namespace {

using control::PortReport;
using control::QueueReport;

// The bucket of control::TimeHistogram that ends at 1,024 ns, and that at 4.3 s: what is faster or slower
// counts as the first and as beyond the last.
constexpr u32 kFirstTime = 10, kLastTime = 32;

using EachPort = std::function<void(const Labels&, const PortReport&)>;
void each_port(std::span<const Attach> attaches, const EachPort& tell) {
  for (const Attach& attach : attaches)
    if (attach.status)
      for (const PortReport& port : attach.status->ports)
        tell(labels_of(attach, {"interface", port.interface}), port);
}
using EachQueue = std::function<void(const Labels&, const QueueReport&)>;
void each_queue(std::span<const Attach> attaches, const EachQueue& tell) {
  each_port(attaches, [&](const Labels& labels, const PortReport& port) {
    for (const QueueReport& queue : port.queues)
      tell(with(labels, Label{"queue", fmt::format_int(queue.queue).c_str()}), queue);
  });
}
// Those that a data plane serves.
using EachServed = std::function<void(const Labels&, const control::QueueService&)>;
void each_served(std::span<const Attach> attaches, const EachServed& tell) {
  each_queue(attaches, [&](const Labels& labels, const QueueReport& queue) {
    if (queue.service) tell(labels, *queue.service);
  });
}

void interfaces(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::gauge, "xdpgpu_interface_state", "", "1 for the state that the interface is in.");
  each_port(attaches, [&](const Labels& labels, const PortReport& port) {
    out.sample(with(labels, Label{"state", port.state}, Label{"xdp", port.xdp}), u64{1});
  });
  const auto each_reason = [&](const auto& tell) {
    each_port(attaches, [&](const Labels& labels, const PortReport& port) {
      for (u32 i = 0; i < port.kernel.by.size(); ++i) {
        const auto& counter = dataplane::kKernelCounters[i];
        tell(with(labels, Label{"outcome", outcome_name(counter.outcome)}, Label{"reason", counter.name}),
             port.kernel.by[i]);
      }
    });
  };
  out.family(Kind::counter, "xdpgpu_kernel_packets", "",
             "Packets by what the XDP program did. Outcomes but in, inspect and again are packets' ends.");
  each_reason([&](const Labels& labels, const xg_counter& counter) { out.sample(labels, counter.packets); });
  out.family(Kind::counter, "xdpgpu_kernel_bytes", "bytes", "Bytes of these packets.");
  each_reason([&](const Labels& labels, const xg_counter& counter) { out.sample(labels, counter.bytes); });
  out.family(Kind::counter, "xdpgpu_malformed_packets", "", "Malformed packets by what is wrong with them.");
  each_port(attaches, [&](const Labels& labels, const PortReport& port) {
    for (u32 i = 0; i < port.malformed.by.size(); ++i)
      out.sample(with(labels, Label{"kind", dataplane::kMalformedCounters[i].name}),
                 port.malformed.by[i].packets);
  });
  out.family(Kind::counter, "xdpgpu_exempt_packets", "",
             "Packets that pass by the policy's exemptions, and those over their rate.");
  each_port(attaches, [&](const Labels& labels, const PortReport& port) {
    for (u32 i = 0; i < port.rates.by.size(); ++i) {
      const Labels rate = with(labels, Label{"exemption", policy::keys::kRates[i]});
      out.sample(with(rate, Label{"result", "passed"}), port.rates.by[i].passed);
      out.sample(with(rate, Label{"result", "over"}), port.rates.by[i].excess);
    }
  });
}

void workers(Exposition& out, std::span<const Attach> attaches) {
  const auto each_counter = [&](bool ends, const auto& tell) {
    each_queue(attaches, [&](const Labels& labels, const QueueReport& queue) {
      for (const auto& counter : dataplane::kWorkerCounters)
        if (dataplane::is_end(counter.outcome) == ends) tell(labels, counter, queue.counters.*counter.value);
    });
  };
  out.family(Kind::counter, "xdpgpu_worker_packets", "", "Inspected packets by what became of them.");
  each_counter(true, [&](const Labels& labels, const auto& counter, u64 value) {
    out.sample(with(labels, Label{"outcome", outcome_name(counter.outcome)}, Label{"reason", counter.name}),
               value);
  });
  out.family(Kind::counter, "xdpgpu_worker_events", "",
             "What workers count beside: parts of these packets, verdicts, batches.");
  each_counter(false, [&](const Labels& labels, const auto& counter, u64 value) {
    out.sample(with(labels, Label{"event", counter.name}), value);
  });
  out.family(Kind::counter, "xdpgpu_kernel_losses", "",
             "Why the kernel lost packets behind the redirect or on the way out.");
  each_served(attaches, [&](const Labels& labels, const control::QueueService& service) {
#define XG_X(name, ...) out.sample(with(labels, Label{"reason", #name}), service.metrics.kernel_losses.name);
    XG_QUEUE_LOSSES(XG_X)
#undef XG_X
  });
}

// ---- rings and frames ------------------------------------------------------------------------------------

void rings(Exposition& out, std::span<const Attach> attaches) {
  struct Level {
    const char* ring;
    u32 now, most, size;
  };
  const auto each_ring = [&](const auto& tell) {
    each_served(attaches, [&](const Labels& labels, const control::QueueService& service) {
      const auto& metrics = service.metrics;
      const auto& rings = metrics.rings;
      const u32 size = metrics.ring_size, send = metrics.send_ring_size;
      for (const Level& level : std::initializer_list<Level>{
               {"rx", rings.rx.now, rings.rx.most, size},
               {"fill", rings.fill.now, rings.fill.most, size},
               {"tx", rings.tx.now, rings.tx.most, send},
               {"completion", rings.completion.now, rings.completion.most, send},
               {"reinject_tx", rings.reinject_tx.now, rings.reinject_tx.most, send},
               {"reinject_completion", rings.reinject_completion.now, rings.reinject_completion.most, send}})
        tell(with(labels, Label{"ring", level.ring}), level);
    });
  };
  out.family(Kind::gauge, "xdpgpu_ring_descriptors", "", "Descriptors in a ring as it was looked at last.");
  each_ring([&](const Labels& labels, const Level& level) { out.sample(labels, u64{level.now}); });
  out.family(Kind::gauge, "xdpgpu_ring_descriptors_most", "", "The most since the attach.");
  each_ring([&](const Labels& labels, const Level& level) { out.sample(labels, u64{level.most}); });
  out.family(Kind::gauge, "xdpgpu_ring_size", "", "Descriptors that a ring holds.");
  each_ring([&](const Labels& labels, const Level& level) { out.sample(labels, u64{level.size}); });
  out.family(Kind::gauge, "xdpgpu_fill_ring_least", "",
             "The fewest frames that stood in the fill ring: at 0 the kernel drops.");
  each_served(attaches, [&](const Labels& labels, const control::QueueService& service) {
    out.sample(labels, u64{service.metrics.rings.fill.least});
  });
}

void frames(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::gauge, "xdpgpu_queue_frames", "", "Frames of a queue by who has them.");
  each_served(attaches, [&](const Labels& labels, const control::QueueService& service) {
    const auto& frames = service.metrics.frames;
    for (const auto& [owner, count] :
         std::initializer_list<std::pair<const char*, u32>>{{"fill", frames.fill},
                                                            {"batch", frames.batch},
                                                            {"tx", frames.tx},
                                                            {"reinject", frames.reinject},
                                                            {"handed", frames.handed},
                                                            {"waiting", frames.waiting}})
      out.sample(with(labels, Label{"owner", owner}), u64{count});
  });
  out.family(Kind::gauge, "xdpgpu_credits", "", "Packets that the XDP program may still hand to the queue.");
  each_served(attaches, [&](const Labels& labels, const control::QueueService& service) {
    out.sample(labels, static_cast<double>(service.credits));
  });
  out.family(Kind::gauge, "xdpgpu_packets_in_user_space", "", "Packets that the queue's worker has.");
  each_served(attaches, [&](const Labels& labels, const control::QueueService& service) {
    out.sample(labels, u64{service.in_user_space});
  });
}

// ---- histograms ------------------------------------------------------------------------------------------

// 1 us to 4.3 s, each twice the one before.
constexpr auto kTimeBounds = [] {
  std::array<double, kLastTime - kFirstTime + 1> bounds{};
  for (u32 i = 0; i < bounds.size(); ++i) bounds[i] = static_cast<double>(u64{1} << (kFirstTime + i)) * 1e-9;
  return bounds;
}();
// Bucket i of QueueBatches has those of at most 2^i - 1 packets; the last is without a bound.
constexpr auto kBatchBounds = [] {
  std::array<double, XG_BATCH_BUCKETS - 1> bounds{};
  for (u32 i = 0; i < bounds.size(); ++i) bounds[i] = static_cast<double>((u64{1} << i) - 1);
  return bounds;
}();
static_assert(kTimeBounds.size() + 1 <= 24 && kBatchBounds.size() + 1 <= 24);

void times(Exposition& out, const Labels& labels, const control::TimeHistogram& histogram) {
  std::array<u64, kTimeBounds.size() + 1> counts{};
  for (u32 i = 0; i < histogram.log2.size(); ++i)
    counts[std::clamp(i, kFirstTime, kLastTime + 1) - kFirstTime] += histogram.log2[i];
  out.histogram(labels, kTimeBounds, counts, static_cast<double>(histogram.durations.sum_ns) * 1e-9);
}

void histograms(Exposition& out, std::span<const Attach> attaches) {
  out.family(Kind::histogram, "xdpgpu_latency_seconds", "seconds",
             "From a packet's receipt until its verdict was seen.");
  each_served(attaches, [&](const Labels& labels, const control::QueueService& service) {
    times(out, labels, service.metrics.latency);
  });
  out.family(Kind::histogram, "xdpgpu_device_seconds", "seconds",
             "From a batch's submission to its device until it was seen to be over.");
  each_served(attaches, [&](const Labels& labels, const control::QueueService& service) {
    times(out, labels, service.metrics.device_time);
  });
  out.family(Kind::histogram, "xdpgpu_batch_packets", "", "Packets in a batch.");
  each_served(attaches, [&](const Labels& labels, const control::QueueService& service) {
    const auto& batches = service.metrics.batches;
    out.histogram(labels, kBatchBounds, batches.log2, static_cast<double>(batches.packets));
  });
}

}  // namespace

const char* outcome_name(xg_outcome outcome) {
  switch (outcome) {
    case XG_OUTCOME_drop:
      return "drop";
    case XG_OUTCOME_pass:
      return "pass";
    case XG_OUTCOME_tx:
      return "tx";
    case XG_OUTCOME_redirect:
      return "redirect";
    case XG_OUTCOME_error:
      return "error";
    case XG_OUTCOME_program:
      return "program";
    case XG_OUTCOME_in:
      return "in";
    case XG_OUTCOME_on:
      return "inspect";
    case XG_OUTCOME_again:
      return "again";
    case XG_OUTCOME_none:
      return "";
  }
  return "";
}

std::span<const double> time_bounds() { return kTimeBounds; }
std::span<const double> batch_bounds() { return kBatchBounds; }

void queue_metrics(Exposition& out, std::span<const Attach> attaches) {
  interfaces(out, attaches);
  workers(out, attaches);
  rings(out, attaches);
  frames(out, attaches);
  histograms(out, attaches);
}

}  // namespace xdpgpu::report
