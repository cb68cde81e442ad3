// SPDX-License-Identifier: MIT
#include "bench/throughput/site.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "bench/throughput/capture.hpp"
#include "bench/throughput/receive_core.hpp"

namespace xdpgpu::throughput {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr u32 kFlows = 64, kFrames = 1024;
constexpr u16 kFirstPort = 1000, kSampledPort = 1007, kPort = 4000;
constexpr unsigned kFcs = 4, kHeaders = 42;
constexpr double kLowRate = 4000;   // for the check of contents
constexpr double kLeastRate = 250;  // the search goes no lower
constexpr double kHeld = 0.98;      // of a rate that was asked for, to have been held
constexpr lab::Mac kForeign{2, 0, 0x5e, 0, 0, 1}, kNextHop{2, 0, 0x5e, 0, 0, 2};

// Without IPv6, whose own packets would be among those counted.
lab::Namespace silent(const char* name) {
  lab::Namespace ns(name);
  ns.sysctl("ipv6/conf/all/disable_ipv6", "1");
  ns.sysctl("ipv6/conf/default/disable_ipv6", "1");
  return ns;
}

// As long as the socket is open.
lab::Fd promiscuous(const lab::Interface& interface) {
  return interface.ns().run([&] {
    lab::Fd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    packet_mreq request{};
    request.mr_ifindex = static_cast<int>(interface.ifindex());
    request.mr_type = PACKET_MR_PROMISC;
    if (!fd || setsockopt(fd.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof(request)) != 0)
      throw lab::Error(
          fmt::format("{} cannot be made promiscuous: {}", interface.ifname(), std::strerror(errno)));
    return fd;
  });
}

double at_share(const std::vector<u64>& sorted, double share) {
  return static_cast<double>(
      sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))]);
}

}  // namespace

Wire::Wire(const lab::Namespace& a_ns, const std::string& a, const lab::Namespace& b_ns, const std::string& b)
    : veth_(std::make_unique<lab::Veth>(a_ns, a, b_ns, b)), a_(veth_->a()), b_(veth_->b()) {}

Wire::Wire(const lab::Namespace& a_ns, const lab::Namespace& b_ns, const std::string& a, const std::string& b)
    : a_(lab::Interface(lab::Namespace::current(), a).moved_to(a_ns)),
      b_(lab::Interface(lab::Namespace::current(), b).moved_to(b_ns)),
      a_promiscuous_(promiscuous(a_)),
      b_promiscuous_(promiscuous(b_)) {}

void Wire::up() const {
  if (veth_) return veth_->up();
  a_.up();
  b_.up();
}

Site::Site(const Settings& settings, Check check)
    : settings_(settings),
      check_(std::move(check)),
      sender_(silent("sender")),
      dut_(silent("dut")),
      receiver_(silent("receiver")),
      in_(settings.interfaces.empty()
              ? Wire(sender_, "s0", dut_, "d0")
              : Wire(sender_, dut_, settings.interfaces.at(0), settings.interfaces.at(1))),
      out_(settings.interfaces.empty()
               ? Wire(dut_, "d1", receiver_, "r0")
               : Wire(dut_, receiver_, settings.interfaces.at(2), settings.interfaces.at(3))),
      host_mac_(in_.b().mac()),
      next_hop_(kNextHop),
      cpu_(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())) - 1) {
  in().add_address("198.18.0.1/24");
  out().add_address("198.19.0.1/24");
  in_.up();
  out_.up();
  if (settings.receive_core >= 0) receive_on(in(), in_.a(), settings.receive_core);
  // Not the receiver's own address: its stack drops what comes at once.
  out().add_neighbour("198.19.0.2", next_hop_);
}

void Site::let_stack_take(bool take, bool forward) const {
  dut_.sysctl("ipv4/conf/all/forwarding", forward ? "1" : "0");
  // Frames for another address are the stack's no more, as on a port of a bridge; packet sockets see them.
  in().set_mac(take ? host_mac_ : kForeign);
}

void Site::use_size(unsigned size) {
  std::vector<lab::Frame> frames;
  expected_.clear();
  for (u32 i = 0; i < kFrames; ++i) {
    lab::PacketSpec spec{.src = in_.a().mac(),
                         .dst = host_mac_,
                         .src_ip = "198.18.0.2",
                         .dst_ip = "198.19.0.2",
                         .src_port = static_cast<u16>(kFirstPort + i % kFlows),
                         .dst_port = kPort,
                         .payload = std::string(size - kFcs - kHeaders, 'x'),
                         .ip_id = static_cast<u16>(i)};
    std::memcpy(spec.payload.data(), &i, sizeof(i));
    frames.push_back(lab::build(spec));
    spec.src = out().mac();
    spec.dst = next_hop_;
    --spec.ttl;
    expected_.push_back(lab::build(spec));
  }
  std::sort(expected_.begin(), expected_.end());
  replay_.emplace(in_.a(), frames);
  generator_.reset();
  if (settings_.sender == "pktgen")
    generator_ = pktgen(in_.a(), {.source = in_.a().mac(),
                                  .destination = host_mac_,
                                  .from = "198.18.0.2",
                                  .to = "198.19.0.2",
                                  .first_port = kFirstPort,
                                  .ports = kFlows,
                                  .to_port = kPort,
                                  .bytes = size - kFcs});
}

const Sender& Site::sender() const {
  if (generator_) return *generator_;
  return *replay_;
}

void Site::wait_for_links() {
  constexpr auto kMost = 15000ms, kSettled = 200ms;
  const auto end = Clock::now() + kMost;
  for (const lab::Interface* one : {&in_.a(), &in_.b(), &out_.a(), &out_.b()})
    while (!one->running()) {
      check_();
      if (Clock::now() > end) throw lab::Error(fmt::format("{} has no carrier", one->ifname()));
      std::this_thread::sleep_for(10ms);
    }
  if (!settings_.interfaces.empty()) std::this_thread::sleep_for(kSettled);
}

u64 Site::came() const { return out_.b().counters().rx_packets; }

Trial Site::trial(double rate, bool seen, const Check& check) {
  const u64 sent_before = in_.a().counters().tx_packets, came_before = came();
  Trial trial;
  trial.sent = sender().send(rate, settings_.seconds, seen, check);
  // A NIC's driver counts what its NIC has sent, some time later.
  const u64 taken = trial.sent.frames - trial.sent.refused;
  const auto sent_by_now = [&] { return in_.a().counters().tx_packets - sent_before; };
  for (const auto end = Clock::now() + 1s; sent_by_now() < taken && Clock::now() < end;)
    std::this_thread::sleep_for(5ms);
  const u64 on_wire = sent_by_now();
  // RFC 2544, section 23, waits two seconds for the last ones; here until none has come for a while.
  constexpr auto kQuiet = 100ms, kMost = 2000ms;
  const auto start = Clock::now();
  for (auto last = start; trial.came < on_wire && Clock::now() < std::min(last + kQuiet, start + kMost);) {
    std::this_thread::sleep_for(5ms);
    check();
    if (const u64 now = came() - came_before; now != trial.came) {
      trial.came = now;
      last = Clock::now();
    }
  }
  if (on_wire != taken)
    trial.problem =
        fmt::format("the sender says that {} frames were taken, its interface that {} were", taken, on_wire);
  else if (trial.came > on_wire)
    trial.problem = fmt::format("{} frames were sent and {} arrived", on_wire, trial.came);
  return trial;
}

std::string Site::check_contents() {
  std::string problem;
  for (int attempt = 0; attempt < 3; ++attempt) {
    Capture capture(out_.b(), Capture::Direction::in, "udp", 2048);
    replay_->send(kLowRate, kFrames / kLowRate, true, check_);
    std::vector<lab::Frame> frames;
    for (int i = 0; i < 10 && frames.size() < kFrames; ++i)
      for (Seen& seen : capture.take()) frames.push_back(std::move(seen.frame));
    std::sort(frames.begin(), frames.end());
    if (frames == expected_) return {};
    const auto different = std::mismatch(frames.begin(), frames.end(), expected_.begin(), expected_.end());
    problem = fmt::format("of {} frames at {:.0f} a second {} arrived", kFrames, kLowRate, frames.size());
    if (different.first != frames.end())
      problem +=
          fmt::format(", the first that is not as it should be: {:02x}", fmt::join(*different.first, ""));
  }
  return problem;
}

Throughput Site::search() {
  Throughput found;
  const auto measure = [&](double rate) {
    ++found.trials;
    Trial one = trial(rate, false, check_);
    if (!one.problem.empty()) found.problem = one.problem;
    return one;
  };
  // As many as it can.
  for (int left = settings_.attempts; left > 0 && found.problem.empty(); --left) {
    const Trial one = measure(0);
    found.most = std::max(found.most, one.sent.rate());
    if (one.clean()) found.rate = std::max(found.rate, one.sent.rate());
  }
  // A rate that the sender has not held shows nothing.
  const auto loses_nothing = [&](double rate) {
    for (int left = settings_.attempts; left > 0 && found.problem.empty(); --left) {
      const Trial one = measure(rate);
      if (!one.clean() || one.sent.rate() < kHeld * rate) continue;
      found.rate = std::max(found.rate, one.sent.rate());
      return true;
    }
    return false;
  };
  double low = found.rate, high = found.most;
  while (high > kLeastRate && high - low > settings_.resolution * high && found.problem.empty()) {
    const double rate = (low + high) / 2;
    (loses_nothing(rate) ? low : high) = rate;
  }
  found.senders_most = found.rate >= kHeld * found.most;
  return found;
}

Latency Site::latency(double rate) {
  Latency out{.asked = rate};
  const std::string filter = fmt::format("udp src port {}", kSampledPort);
  for (int attempt = 0; attempt < std::max(3, settings_.attempts); ++attempt) {
    Capture at_sender(in_.a(), Capture::Direction::out, filter, 64);
    Capture at_receiver(out_.b(), Capture::Direction::in, filter, 64);
    const Trial one = trial(rate, true, [&] {
      check_();
      at_sender.read();
      at_receiver.read();
    });
    const std::vector<Seen> sent = at_sender.take(), came = at_receiver.take();
    if (!one.clean()) {
      out.problem = fmt::format("{} of {} frames were lost", one.sent.frames - one.came, one.sent.frames);
      continue;
    }
    if (at_sender.lost() != 0 || at_receiver.lost() != 0 || sent.size() != came.size() || sent.empty()) {
      out.problem = fmt::format("the captures have {} and {} frames of one flow, {} and {} found no place",
                                sent.size(), came.size(), at_sender.lost(), at_receiver.lost());
      continue;
    }
    std::vector<u64> ns;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (sender().number_of(sent[i].frame) != sender().number_of(came[i].frame)) {
        out.problem = out.wrong = fmt::format("frame {} of a flow came out of order", i);
        return out;
      }
      ns.push_back(came[i].time_ns - std::min(came[i].time_ns, sent[i].time_ns));
    }
    std::sort(ns.begin(), ns.end());
    return {.asked = rate,
            .frames = ns.size(),
            .p50_us = at_share(ns, 0.5) / 1e3,
            .p99_us = at_share(ns, 0.99) / 1e3};
  }
  return out;
}

}  // namespace xdpgpu::throughput
