// SPDX-License-Identifier: MIT
//
// tests/netns/metrics_test.cpp: the pinned map `queue_metrics` and `status` against what was sent.
#include <bpf/bpf.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <thread>
#include <tuple>

#include "maps/metrics.h"
#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class Metrics : public OnTheWire {
 protected:
  // Of every queue of a port. The descriptor stays good after detach.
  static std::vector<xg_queue_metrics> read(int fd) {
    bpf_map_info info{};
    __u32 size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0 || info.value_size != sizeof(xg_queue_metrics))
      throw Error("queue_metrics is not there, or of another size");
    std::vector<xg_queue_metrics> all(info.max_entries);
    for (std::uint32_t queue = 0; queue < all.size(); ++queue)
      if (bpf_map_lookup_elem(fd, &queue, &all[queue]) != 0) throw Error("cannot read queue_metrics");
    return all;
  }
  Fd open(std::size_t port = 0) const {
    const std::string path = Pins::directory(attached_->ifname(port)) + "/queue_metrics";
    Fd fd(bpf_obj_get(path.c_str()));
    if (!fd) throw Error(fmt::format("no pinned map {}: {}", path, std::strerror(errno)));
    return fd;
  }
  template <class T>
  static std::uint64_t sum(const T& histogram) {
    return std::accumulate(std::begin(histogram), std::end(histogram), std::uint64_t{0});
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, Metrics, kNativeAndGeneric, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Metrics, kSplit, config_name);

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kBounce = R"({"stage": "l2fwd"})";

// Both ports at once, each worker a queue of both: every packet is in its own port's latency histogram
// and every batch in one port's.
TEST_P(Metrics, CountEveryPacketAndBatchOnce) {
  attach_both(inspect_udp(7000, kBounce));
  const Fd maps[] = {open(0), open(1)};
  Sniffer left(left_port()), right(right_port());
  const auto frames = many_flows(7000, 32, 20);
  auto from_right = frames;
  for (Frame& frame : from_right) {
    const auto to = host_second().mac(), from = right_port().mac();
    std::copy(to.begin(), to.end(), frame.begin());
    std::copy(from.begin(), from.end(), frame.begin() + 6);
  }
  std::thread other([&] { Sender(right_port()).send_paced(from_right, 20000); });
  Sender(left_port()).send_paced(frames, 20000);
  other.join();
  EXPECT_EQ(left.take(frames.size(), 5000ms, udp_to(7000)).size(), frames.size());
  EXPECT_EQ(right.take(frames.size(), 5000ms, udp_to(7000)).size(), frames.size());
  EXPECT_EQ(attached_->detach().status, 0);

  std::uint64_t batches = 0, batched = 0;
  for (std::size_t port : {0, 1}) {
    SCOPED_TRACE(fmt::format("port {}", port));
    const auto all = read(maps[port].get());
    for (std::uint32_t queue = 0; queue < all.size(); ++queue) {
      const xg_queue_metrics& metrics = all[queue];
      const auto counts = attached_->pins(port).worker_counts(queue);
      EXPECT_EQ(sum(metrics.latency_ns), counts.at("received") - counts.at("error_invalid"));
      EXPECT_EQ(sum(metrics.batch_log2), metrics.batches);
      EXPECT_EQ(sum(metrics.device_ns_log2), metrics.batches);
      EXPECT_LE(metrics.latency_ns_most, 60'000'000'000U);
      if (counts.at("received")) {
        EXPECT_GT(metrics.latency_ns_most, 0U);
        EXPECT_GT(metrics.rx.most, 0U);
        EXPECT_GT(metrics.tx.most, 0U);
        EXPECT_GT(metrics.completion.most, 0U);
        EXPECT_LE(metrics.fill_least, metrics.ring_size);
      }
      EXPECT_LE(metrics.latency_ns_sum, metrics.latency_ns_most * counts.at("received"));
      for (const xg_ring_level& level : {metrics.rx, metrics.fill}) {
        EXPECT_LE(level.most, metrics.ring_size);
        EXPECT_LE(level.now, metrics.ring_size);
      }
      EXPECT_GE(metrics.send_ring_size, metrics.ring_size);
      for (const xg_ring_level& level : {metrics.tx, metrics.completion, metrics.reinject_tx}) {
        EXPECT_LE(level.most, metrics.send_ring_size);
        EXPECT_LE(level.now, metrics.send_ring_size);
      }
      batches += metrics.batches;
      batched += metrics.batch_packets;
    }
  }
  EXPECT_GT(batches, 0U);
  EXPECT_EQ(batched, 2 * frames.size());
}

TEST_P(Metrics, FramesHaveTheirOwnersWhileItRuns) {
  attach_both(inspect_all(kPass, R"("io": {"ring_size": 256, "frames_per_queue": 2048})"));
  const Fd maps[] = {open(0), open(1)};
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 20, .interval = 2ms}).received, 20U);
  EXPECT_TRUE(eventually([&] {
    const auto first = read(maps[0].get()), second = read(maps[1].get());
    for (std::size_t queue = 0; queue < first.size(); ++queue) {
      const auto held = [](const xg_queue_metrics& m) {
        return m.frames_fill + m.frames_batch + m.frames_tx + m.frames_reinject;
      };
      const auto& [a, b] = std::tie(first[queue], second[queue]);
      if (a.worker_frames != 2 * 2048 || b.worker_frames != a.worker_frames) return false;
      if (a.worker_free + held(a) + held(b) != a.worker_frames) return false;
      // Less than 64 frames may wait for their way back into the fill ring.
      if (a.frames_fill + 64 < 256 || a.fill.now != a.frames_fill || a.credits != a.frames_fill) return false;
    }
    return true;
  })) << "frames: "
      << attached_->status().dump();
  const auto passed = read(maps[0].get());
  std::uint32_t reinjected = 0;
  for (const auto& metrics : passed) reinjected += metrics.reinject_tx.most;
  EXPECT_GT(reinjected, 0U);
}

TEST_P(Metrics, StatusTellsThem) {
  attach(inspect_udp(7000, kBounce));
  Sniffer left(left_port());
  const auto frames = many_flows(7000, 8, 25);
  Sender(left_port()).send_paced(frames, 20000);
  EXPECT_EQ(left.take(frames.size(), 5000ms, udp_to(7000)).size(), frames.size());
  EXPECT_TRUE(eventually([&] { return attached_->status().at("latency_ns").at("count") == frames.size(); }));
  const Json status = attached_->status();
  const Json& latency = status.at("latency_ns");
  EXPECT_GT(latency.at("p50"), 0);
  EXPECT_LE(latency.at("p50"), latency.at("p99"));
  EXPECT_LE(latency.at("p99"), latency.at("p99_9"));
  EXPECT_LE(latency.at("p99_9"), latency.at("max"));
  std::uint64_t packets = 0;
  for (const Json& queue : status.at("ports").at(0).at("queues")) {
    packets += queue.at("metrics").at("latency_ns").at("count").get<std::uint64_t>();
    EXPECT_EQ(queue.at("metrics").at("ring_size"), 2048);
    EXPECT_EQ(queue.at("metrics").at("send_ring_size"), 4096);
  }
  EXPECT_EQ(packets, frames.size());
  const Outcome text = product(*host_, {"status", host_port().ifname()});
  for (const char* words : {"rings of 2048", "latency: p50 ", "from receipt to verdict, 200 packets: p50 "})
    EXPECT_NE(text.out.find(words), std::string::npos) << words << " is not in:\n" << text.out;
}

class MetricsPin : public OnOneWire {};

TEST_F(MetricsPin, BpftoolPrintsItWithNames) {
  attach(inspect_all(kPass));
  const std::string pin = Pins::directory(host_port().ifname()) + "/queue_metrics";
  const Outcome dump = run_program(
      *host_, {"/bin/sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; exec bpftool map dump pinned " + pin});
  if (dump.status == 127) GTEST_SKIP() << "no bpftool: " << dump.err;
  ASSERT_EQ(dump.status, 0) << dump.err;
  for (const char* name : {"\"fill_least\"", "\"reinject_tx\"", "\"now\"", "\"most\"", "\"worker_free\"",
                           "\"kernel_rx_ring_full\"", "\"reinject_refused\"", "\"device_ns_log2\"",
                           "\"latency_ns_most\"", "\"latency_ns\""})
    EXPECT_NE(dump.out.find(name), std::string::npos) << name << " is not in:\n" << dump.out;
}

}  // namespace
}  // namespace xdpgpu::lab
