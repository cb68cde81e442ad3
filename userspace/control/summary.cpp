// SPDX-License-Identifier: MIT
#include "userspace/control/summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "userspace/control/describe.hpp"
#include "userspace/control/last_end.hpp"
#include "userspace/dataplane/counters.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::control {
namespace {

std::string rate(u64 before, u64 now, double seconds) {
  const double value = seconds > 0 ? static_cast<double>(now - before) / seconds : 0;
  if (value >= 1e6) return fmt::format("{:.2f}M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

void add_line(std::string& text, u64 packets, const std::string& what) {
  if (packets) text += fmt::format("  {:>14}  {}\n", packets, what);
}

std::string device_text(const DeviceReport& device) {
  if (device.degraded) return fmt::format("degraded: device {}", *device.degraded);
  std::string chosen;
  if (device.automatic)
    chosen = device.because ? fmt::format(" (auto, because {})", *device.because) : " (auto)";
  return fmt::format("device {}, frames {}, mode {}{}{}{}", device.name, device.frames, device.mode, chosen,
                     device.publishes_flows ? ", writes flow verdicts itself" : "",
                     device.programs ? ", programs " + *device.programs : "");
}

// Why the kernel lost packets behind the redirect, as far as its sockets tell.
std::string lost_in_kernel_text(const StatusReport& report) {
  KernelLosses sum;
  for (const auto& port : report.ports)
    for (const auto& queue : port.queues) {
      if (!queue.service) continue;
      sum.rx_ring_full += queue.service->metrics.kernel_losses.rx_ring_full;
      sum.rx_dropped += queue.service->metrics.kernel_losses.rx_dropped;
    }
  std::string text;
  if (sum.rx_ring_full)
    text += fmt::format("{:>16}  of them {} at a full RX ring: a larger io.ring_size, or more queues\n", "",
                        sum.rx_ring_full);
  if (sum.rx_dropped)
    text += fmt::format(
        "{:>16}  of them {} without a free frame, or longer than one: io.frames_per_queue, and the senders' "
        "MTU\n",
        "", sum.rx_dropped);
  return text;
}

// The sum over all ports of what `of` gives for one.
template <class Of>
u64 over_ports(const StatusReport& report, Of&& of) {
  u64 sum = 0;
  for (const auto& port : report.ports) sum += of(port);
  return sum;
}

std::string kernel_text(const StatusReport& report) {
  std::string text;
  for (u32 reason = 0; reason < dataplane::kKernelCounters.size(); reason++) {
    const auto& counter = dataplane::kKernelCounters[reason];
    if (counter.outcome == XG_OUTCOME_in) continue;
    const u64 packets =
        over_ports(report, [&](const PortReport& port) { return port.kernel.by[reason].packets; });
    add_line(text, packets, std::string("kernel: ") + counter.words);
    if (counter.outcome == XG_OUTCOME_again && packets)
      text += fmt::format(
          "{:>16}  generic XDP; senders that cut by themselves (ethtool -K PEER tso off gso off) "
          "spare that\n",
          "");
  }
  for (u32 kind = 0; kind < dataplane::kMalformedCounters.size(); kind++)
    add_line(text,
             over_ports(report, [&](const PortReport& port) { return port.malformed.by[kind].packets; }),
             std::string("malformed, not part of the sum: ") + dataplane::kMalformedCounters[kind].words);
  for (u32 rate = 0; rate < policy::keys::kRates.size(); rate++)
    add_line(text, over_ports(report, [&](const PortReport& port) { return port.rates.by[rate].excess; }),
             fmt::format("over the rate of {} and left to the rules, not part of the sum",
                         policy::keys::kRates[rate]));
  return text;
}

std::string workers_text(const StatusReport& report) {
  xg_worker_counters sum{};
  for (const auto& port : report.ports)
    for (const auto& queue : port.queues) dataplane::add(sum, queue.counters);
  std::string text;
  for (const auto& counter : dataplane::kWorkerCounters) {
    add_line(text, sum.*counter.value, std::string("user space: ") + counter.words);
    if (counter.value == &xg_worker_counters::lost_in_kernel && sum.lost_in_kernel)
      text += lost_in_kernel_text(report);
  }
  return text;
}

std::string mirror_text(const dataplane::MirrorStatus& mirror) {
  std::string text;
#define XG_X(name, unit, outcome, words) add_line(text, mirror.name, "mirror: " words);
  XG_MIRROR_COUNTERS(XG_X)
#undef XG_X
  return text;
}

}  // namespace

std::string live_line(const Totals& before, const Totals& now, double seconds) {
  auto r = [&](u64 Totals::*field) { return rate(before.*field, now.*field, seconds); };
  return fmt::format(
      "packets/s: in {}, inspected {} | pass {}, drop {}, tx {}, redirect {}, error {} | in all {}",
      r(&Totals::in), r(&Totals::inspected), r(&Totals::pass), r(&Totals::drop), r(&Totals::tx),
      r(&Totals::redirect), r(&Totals::error), now.in);
}

std::string ready_text(const StatusReport& report) {
  std::string text;
  for (const auto& port : report.ports) {
    std::set<std::string> modes;
    for (const auto& queue : port.queues)
      if (queue.service) modes.insert(queue.service->mode);
    const auto queues = port.queues.size();
    text += fmt::format("{} is attached: {} XDP, {} queue{} ({})\n", port.interface, port.xdp, queues,
                        queues == 1 ? "" : "s", fmt::join(modes, ", "));
  }
  for (const auto& device : report.service->devices) text += device_text(device) + "; ";
  const PolicyInForce& policy = *report.policy.in_force;
  text += fmt::format("policy {}, generation {}{}\n", policy.file, report.policy.generation,
                      policy.audit ? ", audit: what it would drop is counted and passes" : "");
  if (policy.conntrack_loosened)
    text +=
        "conntrack is loose, so that connections from before go on: \"xdpgpu policy apply\" makes it strict "
        "again\n";
  text += trial_text(report.policy.trial, report.ports.at(0).interface);
  if (report.last_end) text += "the attach before this one " + last_end_text(report.last_end) + "\n";
  if (const auto& before = report.goes_on)
    text += fmt::format("it goes on from an attach that ended before: {}; {} {} lost in its workers' hands\n",
                        before->same_policy ? "the policy is the same, and flows decided before stay decided"
                                            : "the policy is another, so flows are decided anew",
                        counted(before->lost_with_workers, "packet"),
                        before->lost_with_workers == 1 ? "was" : "were");
  if (report.health)
    for (const auto& backend : *report.health)
      text += fmt::format("backend {} ({} port {}): {}\n", backend.backend, backend.address, backend.port,
                          backend.up ? "up" : "down, " + backend.problem.value_or(""));
  if (report.service->mirror)
    text += fmt::format("mirrored packets are looked at by device {}\n", report.service->mirror->device);
  if (report.notes)
    for (const auto& note : *report.notes) text += "note: " + note + "\n";
  return text;
}

std::string trial_text(const std::optional<Trial>& trial, const std::string& ifname) {
  if (!trial) return {};
  return fmt::format(
      "it is on trial: in {} s policy {} is in force again, unless \"xdpgpu policy confirm {}\" comes "
      "before\n",
      trial->confirm_within_s, trial->goes_back_to.file, kernel::names::operand(ifname));
}

std::string account_text(const StatusReport& report) {
  const Totals& packets = report.packets;
  std::string text = fmt::format(
      "{} in: {} passed, {} dropped, {} sent back, {} redirected, {}{}{}; {} of them {} inspected\n",
      counted(packets.in, "packet"), packets.pass, packets.drop, packets.tx, packets.redirect,
      packets.program ? fmt::format("{} given to programs in XDP, ", packets.program) : "",
      counted(packets.error, "error"),
      packets.refused ? fmt::format(" ({} refused by the kernel behind user space)", packets.refused) : "",
      packets.inspected, packets.inspected == 1 ? "was" : "were");
  text += kernel_text(report) + workers_text(report);
  if (!report.service) return text;
  for (const auto& why : report.service->never_cached) text += why.text + "\n";
  if (report.service->mirror) text += mirror_text(*report.service->mirror);
  return text;
}

}  // namespace xdpgpu::control
