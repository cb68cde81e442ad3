// SPDX-License-Identifier: MIT
#include "bench/path/measure.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "bench/path/tcp.hpp"
#include "bench/path/threads.hpp"
#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::bed {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kWorkers = "xdpgpu-";

// Without IPv6, whose multicast reports would be counted as packets that came back.
lab::Namespace silent(std::string name) {
  lab::Namespace ns(std::move(name));
  ns.sysctl("ipv6/conf/all/disable_ipv6", "1");
  ns.sysctl("ipv6/conf/default/disable_ipv6", "1");
  return ns;
}

Options options_for(const std::string& device) {
  Options options;
  choose_device(device, options);
  return options;
}

gpu::AclSettings always(gpu::AclRule::Action action) {
  gpu::AclSettings stage;
  stage.otherwise = action;
  return stage;
}

}  // namespace

PathLab::PathLab(const Settings& settings)
    : settings_(settings),
      near_(silent("near")),
      far_(silent("far")),
      one_(lay("n0", "f0", 1)),
      worker_cpu_(static_cast<int>(std::max(1u, std::thread::hardware_concurrency()) - 1)) {
  one_.veth->address("10.9.0.1/24", "10.9.0.2/24");
  one_.veth->up();
  if (settings.queues == 1) return;
  many_ = lay("n1", "f1", settings.queues);
  many_.veth->up();
}

PathLab::Wire PathLab::lay(const char* near, const char* far, u32 queues) const {
  Wire wire;
  wire.veth = std::make_unique<lab::Veth>(near_, near, far_, far, lab::VethOptions{.queues = queues});
  for (u32 queue = 0; queue < queues; ++queue) {
    auto& frames = wire.frames.emplace_back();
    for (u32 i = 0; i < settings_.flows; ++i)
      frames.push_back(lab::build({.src = wire.veth->b().mac(),
                                   .dst = wire.veth->a().mac(),
                                   .src_port = static_cast<u16>(1000 + queue * settings_.flows + i),
                                   .dst_port = 4000,
                                   .payload = std::string(settings_.payload, 'x')}));
  }
  return wire;
}

Run PathLab::bare(BareLoop::Action action) {
  BareLoop loop(one_.veth->a(), action, worker_cpu_);
  Run run;
  const bool forwards = action == BareLoop::Action::forward;
  drive(
      one_, forwards, "bare-loop", [&] { return forwards ? loop.transmitted() : loop.received(); }, run);
  return run;
}

Run PathLab::pipeline(bool forwards, const std::string& device, u32 queues) {
  const Wire& wire = queues == 1 ? one_ : many_;
  Options options = options_for(device);
  options.queues = queues;
  options.overload_drops = true;
  options.stages = {forwards ? gpu::StageSettings{gpu::L2fwdSettings{}} : always(gpu::AclRule::Action::drop)};
  Bed bed({&wire.veth->a()}, options);
  Run run;
  drive(
      wire, forwards, kWorkers,
      [&] {
        const xg_worker_counters counts = bed.worker_counts(0);
        return forwards ? counts.transmitted : counts.dropped;
      },
      run);
  check_accounts(bed, forwards, run.problem);
  return run;
}

Run PathLab::tcp_plain(bool gro) {
  const lab::Interface& interface = one_.veth->a();
  interface.feature("rx-gro", gro);
  std::optional<TinyProgram> program;
  near_.run([&] { program.emplace(interface, TinyProgram::What::pass); });
  Run run;
  run.rate = transfer_tcp(far_, near_, "10.9.0.1", settings_.seconds).gbit_per_s;
  near_.run([&] { program.reset(); });
  interface.feature("rx-gro", true);
  return run;
}

Run PathLab::tcp_pipeline(const std::string& device, bool gro) {
  const lab::Interface& interface = one_.veth->a();
  interface.feature("rx-gro", gro);
  Options options = options_for(device);
  options.overload_drops = true;  // that nothing goes past user space
  options.stages = {always(gpu::AclRule::Action::pass)};
  Bed bed({&interface}, options);
  if (!gro) lab::Interface(near_, fmt::format("xg{}k", interface.ifindex())).feature("rx-gro", false);
  Run run;
  const u64 cpu_before = cpu_ns_of_threads(kWorkers);
  const Transferred transferred = transfer_tcp(far_, near_, "10.9.0.1", settings_.seconds);
  run.rate = transferred.gbit_per_s;
  const xg_worker_counters counts = bed.worker_counts(0);
  if (counts.passed != 0)
    run.cpu_ns =
        static_cast<double>(cpu_ns_of_threads(kWorkers) - cpu_before) / static_cast<double>(counts.passed);
  // Every byte must have come through user space: a segment carries at most an MTU.
  const double needed = transferred.bytes / 1500;
  if (static_cast<double>(counts.passed) < needed)
    run.problem =
        fmt::format("only {} packets were passed, at least {:.0f} are needed", counts.passed, needed);
  interface.feature("rx-gro", true);
  return run;
}

// Packets a second in the middle of a longer run; what came back is counted at the sender's end.
void PathLab::drive(const Wire& wire, bool forwards, const char* threads, const Count& count,
                    Run& run) const {
  const auto before = wire.veth->b().counters();
  std::vector<std::unique_ptr<BareSender>> senders;
  for (u32 queue = 0; queue < wire.frames.size(); ++queue)
    senders.push_back(
        std::make_unique<BareSender>(wire.veth->b(), wire.frames[queue], static_cast<int>(queue), queue));
  std::this_thread::sleep_for(200ms);
  const u64 cpu_before = cpu_ns_of_threads(threads);
  const auto start = Clock::now();
  const u64 first = count();
  std::this_thread::sleep_for(std::chrono::duration<double>(settings_.seconds));
  const u64 last = count();
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  const u64 cpu_after = cpu_ns_of_threads(threads);
  if (forwards) check_swapped(wire, run.problem);
  for (auto& sender : senders) sender->stop();
  std::this_thread::sleep_for(100ms);
  const auto after = wire.veth->b().counters();
  const u64 came_back = after.rx_packets + after.rx_dropped - before.rx_packets - before.rx_dropped;
  const u64 done = count();
  if (!forwards && came_back)
    run.problem = fmt::format("{} packets came back from a loop that drops", came_back);
  if (forwards && came_back != done)
    run.problem = fmt::format("{} packets were sent back, {} came", done, came_back);
  if (last == first) {
    run.problem = "no packet came through";
    return;
  }
  run.rate = static_cast<double>(last - first) / elapsed;
  run.cpu_ns = static_cast<double>(cpu_after - cpu_before) / static_cast<double>(last - first);
}

void PathLab::check_swapped(const Wire& wire, std::string& problem) {
  lab::Sniffer sniffer(wire.veth->b());
  const auto seen = sniffer.take(32, 1000ms, lab::udp_to(4000));
  if (seen.empty()) problem = "nothing of what was sent back could be seen";
  for (const auto& captured : seen) {
    const lab::Frame sent = lab::with_macs_swapped(captured.frame);
    if (std::none_of(wire.frames.begin(), wire.frames.end(), [&](const std::vector<lab::Frame>& frames) {
          return std::find(frames.begin(), frames.end(), sent) != frames.end();
        }))
      problem = fmt::format("a frame came back other than as it was sent, MAC addresses swapped: {:02x}",
                            fmt::join(captured.frame, ""));
  }
}

// inspected = received + lost; received = drop + tx: to the packet.
void PathLab::check_accounts(Bed& bed, bool forwards, std::string& problem) {
  for (int i = 0; i < 100; ++i) {
    const xg_worker_counters counts = bed.worker_counts(0);
    const u64 decided = forwards ? counts.transmitted : counts.dropped;
    if (bed.kernel_count(0, XG_KERNEL_inspected) == dataplane::packets_handed(counts) &&
        counts.received == decided)
      return;
    std::this_thread::sleep_for(10ms);
  }
  const xg_worker_counters counts = bed.worker_counts(0);
  problem = fmt::format("accounts do not add up: inspected {}, received {}, lost {}, dropped {}, sent {}",
                        bed.kernel_count(0, XG_KERNEL_inspected), counts.received, counts.lost_in_kernel,
                        counts.dropped, counts.transmitted);
}

}  // namespace xdpgpu::bed
