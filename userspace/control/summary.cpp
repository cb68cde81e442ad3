// SPDX-License-Identifier: MIT
#include "userspace/control/summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "userspace/control/decide.hpp"
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

void add_line(std::string& text, u64 packets, const char* what) {
  if (packets) text += fmt::format("  {:>14}  {}\n", packets, what);
}

std::string device_text(const Json& device) {
  if (const auto degraded = device.find("degraded"); degraded != device.end())
    return fmt::format("degraded: device {}", degraded->get<std::string>());
  std::string chosen;
  if (device.at("auto").get<bool>()) {
    const auto because = device.find("because");
    chosen =
        because == device.end() ? " (auto)" : fmt::format(" (auto, because {})", because->get<std::string>());
  }
  return fmt::format("device {}, frames {}, mode {}{}{}", device.at("name").get<std::string>(),
                     device.at("frames").get<std::string>(), device.at("mode").get<std::string>(), chosen,
                     device.at("publishes_flows").get<bool>() ? ", writes flow verdicts itself" : "");
}

// Why the kernel lost packets behind the redirect, as far as its sockets tell.
std::string lost_in_kernel_text(const Json& report) {
  u64 full = 0, no_frame = 0;
  for (const auto& port : report.at("ports"))
    for (const auto& queue : port.at("queues")) {
      const auto metrics = queue.find("metrics");
      if (metrics == queue.end()) continue;
      full += metrics->at("kernel_losses").at("rx_ring_full").get<u64>();
      no_frame += metrics->at("kernel_losses").at("rx_dropped").get<u64>();
    }
  std::string text;
  if (full)
    text += fmt::format("{:>16}  of them {} at a full RX ring: a larger io.ring_size, or more queues\n", "",
                        full);
  if (no_frame)
    text += fmt::format(
        "{:>16}  of them {} without a free frame, or longer than one: io.frames_per_queue, and the senders' "
        "MTU\n",
        "", no_frame);
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

std::string ready_text(const Json& report) {
  std::string text;
  for (const auto& port : report.at("ports")) {
    std::set<std::string> modes;
    for (const auto& queue : port.at("queues")) modes.insert(queue.at("mode").get<std::string>());
    const auto queues = port.at("queues").size();
    text += fmt::format("{} is attached: {} XDP, {} queue{} ({})\n", port.at("interface").get<std::string>(),
                        port.at("xdp").get<std::string>(), queues, queues == 1 ? "" : "s",
                        fmt::join(modes, ", "));
  }
  for (const auto& device : report.at("devices")) text += device_text(device) + "; ";
  const Json& policy = report.at("policy");
  text +=
      fmt::format("policy {}, generation {}{}\n", policy.at("file").get<std::string>(),
                  policy.at("generation").get<u32>(),
                  policy.at("audit").get<bool>() ? ", audit: what it would drop is counted and passes" : "");
  if (policy.value("conntrack_loosened", false))
    text +=
        "conntrack is loose, so that connections from before go on: \"xdpgpu policy apply\" makes it strict "
        "again\n";
  text += trial_text(policy, report.at("ports").at(0).at("interface").get<std::string>());
  if (const auto before = report.find("last_end"); before != report.end())
    text += "the attach before this one " + last_end_text(*before) + "\n";
  if (const auto before = report.find("goes_on"); before != report.end())
    text += fmt::format("it goes on from an attach that ended before: {}; {} {} lost in its workers' hands\n",
                        before->at("same_policy").get<bool>()
                            ? "the policy is the same, and flows decided before stay decided"
                            : "the policy is another, so flows are decided anew",
                        counted(before->at("lost_with_workers").get<u64>(), "packet"),
                        before->at("lost_with_workers").get<u64>() == 1 ? "was" : "were");
  if (const auto health = report.find("health"); health != report.end())
    for (const auto& backend : *health)
      text += fmt::format(
          "backend {} ({} port {}): {}\n", backend.at("backend").get<std::string>(),
          backend.at("address").get<std::string>(), backend.at("port").get<u32>(),
          backend.at("up").get<bool>() ? "up" : "down, " + backend.at("problem").get<std::string>());
  if (const auto mirror = report.find("mirror"); mirror != report.end())
    text +=
        fmt::format("mirrored packets are looked at by device {}\n", mirror->at("device").get<std::string>());
  for (const auto& note : report.value("notes", Json::array()))
    text += "note: " + note.get<std::string>() + "\n";
  return text;
}

std::string trial_text(const Json& policy, const std::string& ifname) {
  const auto left = policy.find("confirm_within_s");
  if (left == policy.end()) return {};
  return fmt::format(
      "it is on trial: in {} s policy {} is in force again, unless \"xdpgpu policy confirm {}\" comes "
      "before\n",
      left->get<long>(), policy.at("goes_back_to").at("file").get<std::string>(),
      kernel::names::operand(ifname));
}

std::string account_text(const Json& report) {
  const Json& packets = report.at("packets");
  auto n = [&](const char* name) { return packets.at(name).get<u64>(); };
  const u64 refused = packets.value("refused", u64{0});
  std::string text = fmt::format(
      "{} in: {} passed, {} dropped, {} sent back, {} redirected, {}{}; {} of them {} inspected\n",
      counted(n("in"), "packet"), n("pass"), n("drop"), n("tx"), n("redirect"), counted(n("error"), "error"),
      refused ? fmt::format(" ({} refused by the kernel behind user space)", refused) : "", n("inspected"),
      n("inspected") == 1 ? "was" : "were");
  for (u32 reason = 0; reason < XG_KERNEL_REASON_COUNT; reason++) {
    if (dataplane::kKernelCounters[reason].outcome == XG_OUTCOME_in) continue;
    u64 sum = 0;
    for (const auto& port : report.at("ports"))
      sum += port.at("kernel").at(reason_name(reason)).at("packets").get<u64>();
    add_line(text, sum, (std::string("kernel: ") + reason_text(reason)).c_str());
    if (reason == XG_KERNEL_cut && sum)
      text += fmt::format(
          "{:>16}  generic XDP; senders that cut by themselves (ethtool -K PEER tso off gso off) "
          "spare that\n",
          "");
  }
  auto malformed = [&](const char* name) {
    u64 sum = 0;
    for (const auto& port : report.at("ports"))
      if (const auto kinds = port.find("malformed"); kinds != port.end())
        sum += kinds->at(name).at("packets").get<u64>();
    return sum;
  };
  for (const auto& kind : dataplane::kMalformedCounters)
    add_line(text, malformed(kind.name),
             (std::string("malformed, not part of the sum: ") + kind.words).c_str());
  for (const auto name : policy::keys::kRates) {
    u64 over = 0;
    for (const auto& port : report.at("ports"))
      if (const auto rates = port.find("rates"); rates != port.end())
        over += rates->at(std::string(name)).at("over").get<u64>();
    add_line(text, over,
             fmt::format("over the rate of {} and left to the rules, not part of the sum", name).c_str());
  }
  auto worker = [&](const char* name) {
    u64 sum = 0;
    for (const auto& port : report.at("ports"))
      for (const auto& queue : port.at("queues")) sum += queue.at("counters").at(name).get<u64>();
    return sum;
  };
  for (const auto& counter : dataplane::kWorkerCounters) {
    const u64 count = worker(counter.name);
    add_line(text, count, (std::string("user space: ") + counter.words).c_str());
    if (counter.value == &xg_worker_counters::lost_in_kernel && count) text += lost_in_kernel_text(report);
  }
  for (const auto& why : report.value("never_cached", Json::array()))
    text += why.at("text").get<std::string>() + "\n";
  if (const auto mirror = report.find("mirror"); mirror != report.end()) {
    auto add = [&](const char* name, const char* what) {
      add_line(text, mirror->at(name).get<u64>(), (std::string("mirror: ") + what).c_str());
    };
#define XG_X(name, unit, outcome, words) add(#name, words);
    XG_MIRROR_COUNTERS(XG_X)
#undef XG_X
  }
  return text;
}

}  // namespace xdpgpu::control
