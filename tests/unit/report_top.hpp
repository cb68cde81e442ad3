// SPDX-License-Identifier: MIT
//
// tests/unit/report_top.hpp: what processes tell, for the tests of what `xdpgpu top` makes of it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <clocale>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/report/top_flows.hpp"
#include "userspace/report/top_table.hpp"
#include "userspace/report/top_views.hpp"

namespace xdpgpu::report {

using control::StatusReport;

class TopTest : public testing::Test {
 protected:
  TopTest() { std::setlocale(LC_CTYPE, "C.UTF-8"); }
};

inline constexpr u64 kMany = 5'000'000;

// eth0 with two queues, as it is `at` seconds after its attach, at so many packets a second that a rule
// drops.
inline StatusReport status(double at, u64 dropped) {
  StatusReport status;
  status.pid = 7;
  status.uptime_s = at;
  status.policy.hash = "0123456789abcdef";
  status.policy.in_force.emplace();
  status.packets.in = dropped + 100;
  status.packets.drop = dropped;
  status.packets.pass = 100;
  control::PortReport port;
  port.interface = "eth0";
  port.state = "active";
  port.kernel.by[XG_KERNEL_received] = {dropped + 100, 100 * (dropped + 100)};
  port.kernel.by[XG_KERNEL_drop_rule] = {dropped, 100 * dropped};
  port.kernel.by[XG_KERNEL_pass_default] = {100, 10'000};
  for (u32 number : {0U, 1U}) {
    control::QueueReport queue;
    queue.queue = number;
    queue.counters.received = dropped / 10;
    auto& service = queue.service.emplace();
    service.device = "cpu";
    service.mode = "copy";
    service.compute_mode = "inline";
    service.credits = number ? 512 : 0;
    auto& metrics = service.metrics;
    metrics.ring_size = 1024;
    metrics.send_ring_size = 2048;
    metrics.rings.rx.now = number ? 0 : 1020;
    metrics.rings.fill.now = number ? 1000 : 10;
    metrics.batches = {dropped / 100, dropped / 10, {}};
    metrics.latency.log2[14] = dropped;  // below 16.4 us
    metrics.latency.log2[20] = dropped / 50;
    metrics.device_time.log2[12] = dropped / 100;
    port.queues.push_back(queue);
  }
  status.ports.push_back(port);
  auto& service = status.service.emplace();
  service.devices.emplace_back();
  service.devices.back().name = "cpu";
  service.devices.back().frames = "in_place";
  service.devices.back().mode = "inline";
  service.rules.push_back({"known bad", dropped, 100 * dropped, {dropped / 2, 0}});
  service.rules.push_back({"dns flood", 7, 700, {}});
  service.frames.total = 4096;
  service.frames.free = 1024;
  control::StageTableReport table;
  table.pipeline = "web";
  table.stage = 2;
  table.kind = "conntrack";
  table.entries = 100;
  table.live = 95;
  table.pressure_percent = 95;
  service.tables.emplace().push_back(table);
  return status;
}
inline Look look(double at, u64 dropped) { return {.answers = {{{"eth0", "", status(at, dropped)}}, {}}}; }

inline std::string row_of(const Table& table, std::string_view words) {
  for (const auto& row : table.rows)
    for (const Cell& cell : row)
      if (cell.text == words) {
        std::string text;
        for (const Cell& one : row) text += (text.empty() ? "" : "|") + one.text;
        return text;
      }
  return "none";
}
inline const Cell& cell_of(const Table& table, std::string_view words, std::string_view column) {
  for (const auto& row : table.rows)
    for (const Cell& cell : row)
      if (cell.text == words) return row.at(column_of(table, column).value());
  throw std::runtime_error("no such row");
}
inline std::vector<std::string> first_column(const Table& table) {
  std::vector<std::string> all;
  for (const auto& row : table.rows) all.push_back(row.front().text);
  return all;
}

inline const FlowPlace kPlace{"eth0", "", 7};

// Flows whose packets, by index, are these.
inline control::FlowCountsReport counts(const std::vector<std::pair<u32, u64>>& packets, u64 at_ns = 1,
                                        u32 table = 8) {
  control::FlowCountsReport report;
  report.at_ns = at_ns;
  report.table = table;
  report.current = packets.size();
  report.sources = {"192.0.2.1", "192.0.2.2"};
  for (const auto& [index, count] : packets) {
    report.index.push_back(index);
    report.packets.push_back(count);
    report.bytes.push_back(100 * count);
    report.source.push_back(index % 2);
  }
  return report;
}
inline control::FlowsReport described(const std::vector<std::pair<u32, u64>>& packets) {
  control::FlowsReport report;
  for (const auto& [index, count] : packets) {
    control::FlowReport& flow = report.flows.emplace_back();
    flow.interface = "eth0";
    flow.index = index;
    flow.flow = fmt::format("192.0.2.1:{} > 192.0.2.9:80 tcp", index);
    flow.action = "drop";
    flow.packets = count;
    flow.bytes = 100 * count;
  }
  return report;
}

}  // namespace xdpgpu::report
