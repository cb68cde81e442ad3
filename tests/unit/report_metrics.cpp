// SPDX-License-Identifier: MIT
//
// From `status` to metrics: each number once, by the names of config/metrics.md.
#include "userspace/report/metrics.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "userspace/control/metrics.hpp"

namespace xdpgpu::report {
namespace {

using control::StatusReport;
using testing::HasSubstr;
using testing::Not;

// Something in everything.
StatusReport full() {
  StatusReport status;
  status.pid = 7;
  status.uptime_s = 12.5;
  status.policy.hash = "abc";
  status.policy.generation = 3;
  status.policy.in_force.emplace().audit = true;
  status.policy.trial.emplace().confirm_within_s = 60;
  status.packets.in = 1000;
  status.packets.drop = 400;
  status.data_plane.emplace().deaths = 2;
  control::PortReport port;
  port.interface = "eth0";
  port.state = "active";
  port.xdp = "native";
  port.kernel.by[XG_KERNEL_drop_rule] = {390, 39'000};
  port.malformed.by[0] = {3, 300};
  port.rates.by[0] = {5, 6};
  control::QueueReport queue;
  queue.queue = 1;
  queue.counters.dropped = 10;
  queue.counters.flows_cached = 4;
  xg_queue_metrics metrics{};
  metrics.ring_size = 2048;
  metrics.rx = {7, 9};
  metrics.fill_least = 11;
  metrics.kernel_rx_ring_full = 13;
  metrics.batches = 2;
  metrics.batch_packets = 65;
  metrics.batch_log2[1] = 1;
  metrics.batch_log2[7] = 1;
  metrics.latency_ns[xg_latency_bucket(900)] = 40;
  metrics.latency_ns[xg_latency_bucket(20'000)] = 24;
  metrics.latency_ns[xg_latency_bucket(9'000'000'000)] = 1;
  metrics.latency_ns_sum = 9'000'516'000;
  metrics.device_ns_log2[xg_log2_bucket(5'000, XG_DEVICE_BUCKETS)] = 2;
  metrics.device_ns_sum = 10'000;
  auto& served = queue.service.emplace();
  served.metrics = control::metrics_report(metrics);
  served.credits = -3;
  port.queues.push_back(queue);
  status.ports.push_back(port);
  auto& service = status.service.emplace();
  service.devices.emplace_back().name = "cpu";
  service.rules.push_back({"known \"bad\"", 390, 39'000, {1, 2}});
  service.rules.push_back({"never", 0, 0, {}});
  service.never_cached.push_back({"fragments", 8, ""});
  service.mirror.emplace().mirrored = 17;
  control::StageTableReport table;
  table.pipeline = "main";
  table.stage = 1;
  table.kind = "conntrack";
  table.entries = 1024;
  table.live = 12;
  table.pressure_percent = 50;
  table.hits = 5;
  table.packets["established"] = 6;
  service.tables.emplace().push_back(table);
  service.programs.push_back({"main", 2, "device", {{"drop", 9}}, {}});
  auto& alarms = status.alarms.emplace();
  alarms.detected = 2;
  alarms.on.push_back({"main", 1, "in", "192.0.2.1", "packets", 70, 50, 80, 0, 0, 0, {}});
  auto& log = status.log.emplace();
  log.alert.told = 21;
  log.alert.ring_full = 22;
  log.outputs.push_back({"file:/var/log/eve.json", true, 23, 0, 24, 0, {}});
  status.health.emplace().push_back({"main", 1, "web1", "192.0.2.2", 80, false, {}});
  return status;
}

std::string text_of(const std::vector<Attach>& attaches, const Limits& limits = {}) {
  return metrics_text(attaches, Syntax::prometheus, limits);
}

TEST(ReportMetrics, EachNumberIsThere) {
  const std::string text = text_of({{"eth0", "", full()}});
  // clang-format off
  for (const char* line :
       {R"(xdpgpu_up{attach="eth0"} 1)",
        R"(xdpgpu_data_plane_up{attach="eth0"} 1)",
        R"(xdpgpu_data_plane_deaths_total{attach="eth0"} 2)",
        R"(xdpgpu_uptime_seconds{attach="eth0"} 12.5)",
        R"(xdpgpu_policy_info{attach="eth0",hash="abc"} 1)",
        R"(xdpgpu_policy_generation{attach="eth0"} 3)",
        R"(xdpgpu_policy_audit{attach="eth0"} 1)",
        R"(xdpgpu_policy_confirm_seconds{attach="eth0"} 60)",
        R"(xdpgpu_received_packets_total{attach="eth0"} 1000)",
        R"(xdpgpu_packets_total{attach="eth0",verdict="drop"} 400)",
        R"(xdpgpu_interface_state{interface="eth0",state="active",xdp="native"} 1)",
        R"(xdpgpu_kernel_packets_total{interface="eth0",outcome="drop",reason="drop_rule"} 390)",
        R"(xdpgpu_kernel_bytes_total{interface="eth0",outcome="drop",reason="drop_rule"} 39000)",
        R"(xdpgpu_worker_packets_total{interface="eth0",queue="1",outcome="drop",reason="dropped"} 10)",
        R"(xdpgpu_worker_events_total{interface="eth0",queue="1",event="flows_cached"} 4)",
        R"(xdpgpu_kernel_losses_total{interface="eth0",queue="1",reason="rx_ring_full"} 13)",
        R"(xdpgpu_ring_descriptors{interface="eth0",queue="1",ring="rx"} 7)",
        R"(xdpgpu_ring_descriptors_most{interface="eth0",queue="1",ring="rx"} 9)",
        R"(xdpgpu_ring_size{interface="eth0",queue="1",ring="rx"} 2048)",
        R"(xdpgpu_fill_ring_least{interface="eth0",queue="1"} 11)",
        R"(xdpgpu_credits{interface="eth0",queue="1"} -3)",
        R"(xdpgpu_latency_seconds_bucket{interface="eth0",queue="1",le="1.024e-06"} 40)",
        R"(xdpgpu_latency_seconds_bucket{interface="eth0",queue="1",le="3.2768e-05"} 64)",
        R"(xdpgpu_latency_seconds_bucket{interface="eth0",queue="1",le="4.294967296"} 64)",
        R"(xdpgpu_latency_seconds_bucket{interface="eth0",queue="1",le="+Inf"} 65)",
        R"(xdpgpu_latency_seconds_count{interface="eth0",queue="1"} 65)",
        R"(xdpgpu_device_seconds_sum{interface="eth0",queue="1"} 1e-05)",
        R"(xdpgpu_batch_packets_bucket{interface="eth0",queue="1",le="1"} 1)",
        R"(xdpgpu_batch_packets_bucket{interface="eth0",queue="1",le="63"} 1)",
        R"(xdpgpu_batch_packets_bucket{interface="eth0",queue="1",le="127"} 2)",
        R"(xdpgpu_batch_packets_sum{interface="eth0",queue="1"} 65)",
        R"(xdpgpu_rule_packets_total{attach="eth0",rule="known \"bad\""} 390)",
        R"(xdpgpu_rule_shed_packets_total{attach="eth0",rule="known \"bad\"",by="failure"} 2)",
        R"(xdpgpu_uncached_packets_total{attach="eth0",reason="fragments"} 8)",
        R"(xdpgpu_device_degraded{attach="eth0",device="cpu"} 0)",
        R"(xdpgpu_mirror_events_total{attach="eth0",event="mirrored"} 17)",
        R"(xdpgpu_table_pressure_ratio{attach="eth0",pipeline="main",stage="1",kind="conntrack"} 0.5)",
        R"(xdpgpu_program_packets_total{attach="eth0",pipeline="main",stage="2",where="device",answer="drop"} 9)",
        R"(xdpgpu_alarms_total{attach="eth0",event="detected"} 2)",
        R"(xdpgpu_alarms_on{attach="eth0"} 1)",
        R"(xdpgpu_log_left_out_total{attach="eth0",event="alert",why="ring_full"} 22)",
        R"(xdpgpu_log_lines_missed_total{attach="eth0",output="file:/var/log/eve.json"} 24)",
        R"(xdpgpu_backend_up{attach="eth0",pipeline="main",stage="1",backend="web1",address="192.0.2.2",port="80"} 0)"})
    // clang-format on
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  EXPECT_THAT(text, Not(HasSubstr("rule=\"never\"")));
}

TEST(ReportMetrics, OneThatDoesNotAnswerIsDown) {
  const std::string text = text_of({{"eth0", "netns-1-2", std::nullopt}, {"eth1", "", full()}});
  EXPECT_THAT(text, HasSubstr("xdpgpu_up{attach=\"eth0\",netns=\"netns-1-2\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("xdpgpu_up{attach=\"eth1\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("xdpgpu_data_plane_up{attach=\"eth0\"")));
}

TEST(ReportMetrics, OfManyRulesTheLargestAreToldAndTheOthersSummed) {
  StatusReport status = full();
  status.service->rules.clear();
  for (u64 i = 1; i <= 50; ++i) status.service->rules.push_back({fmt::format("r{}", i), i, 10 * i, {}});
  const std::string text = text_of({{"eth0", "", status}}, {.series = 10});
  EXPECT_THAT(text, HasSubstr("xdpgpu_rule_packets_total{attach=\"eth0\",rule=\"r50\"} 50\n"));
  EXPECT_THAT(text, HasSubstr("xdpgpu_rule_packets_total{attach=\"eth0\",rule=\"r41\"} 41\n"));
  EXPECT_THAT(text, Not(HasSubstr("rule=\"r40\"")));
  EXPECT_THAT(text, HasSubstr("xdpgpu_rule_packets_total{attach=\"eth0\",rule=\"(others)\"} 820\n"));
  EXPECT_THAT(text, HasSubstr("xdpgpu_rule_bytes_total{attach=\"eth0\",rule=\"(others)\"} 8200\n"));
  EXPECT_THAT(text, HasSubstr("xdpgpu_series_left_out{attach=\"eth0\",family=\"rules\"} 40\n"));
}

// No series twice, and every family that there is stands in config/metrics.md, and the other way round.
TEST(ReportMetrics, AreThoseOfTheDocument) {
  std::istringstream lines(text_of({{"eth0", "", full()}, {"eth0", "netns-1-2", full()}}));
  std::set<std::string> families, series;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      families.insert(line.substr(7, line.find(' ', 7) - 7));
    } else if (!line.starts_with('#')) {
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
  }
  std::ifstream file(XDPGPU_SOURCE_DIR "/config/metrics.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  std::set<std::string> documented;
  const std::regex name("`(xdpgpu_[a-z_]+)`");
  for (auto at = std::sregex_iterator(document.begin(), document.end(), name); at != std::sregex_iterator();
       ++at)
    documented.insert((*at)[1]);
  EXPECT_EQ(families, documented);
}

TEST(ReportMetrics, BoundsAreFew) {
  EXPECT_LE(time_bounds().size() + 1, 24u);
  EXPECT_LE(batch_bounds().size() + 1, 24u);
  EXPECT_DOUBLE_EQ(time_bounds().front(), 1.024e-6);
}

}  // namespace
}  // namespace xdpgpu::report
