// SPDX-License-Identifier: MIT
//
// Prometheus' two text formats, character by character.
#include "userspace/report/exposition.hpp"

#include <gtest/gtest.h>

#include <array>

namespace xdpgpu::report {
namespace {

std::string some(Syntax syntax) {
  Exposition out(syntax);
  out.family(Kind::counter, "x_packets", "", "Packets, \"seen\".\nAll \\ of them.");
  out.sample({{"rule", "a \"b\" \\ c\nd"}, {"queue", "0"}}, u64{18446744073709551615u});
  out.sample({}, u64{0});
  out.family(Kind::gauge, "x_empty", "", "Has no sample.");
  out.family(Kind::info, "x_build", "", "Version.");
  out.sample({{"version", "1.0"}}, u64{1});
  out.family(Kind::gauge, "x_up_seconds", "seconds", "Time.");
  out.sample({}, 0.5);
  return std::move(out).text();
}

TEST(ReportExposition, PrometheusText) {
  EXPECT_EQ(some(Syntax::prometheus),
            "# HELP x_packets_total Packets, \"seen\".\\nAll \\\\ of them.\n"
            "# TYPE x_packets_total counter\n"
            "x_packets_total{rule=\"a \\\"b\\\" \\\\ c\\nd\",queue=\"0\"} 18446744073709551615\n"
            "x_packets_total 0\n"
            "# HELP x_build_info Version.\n"
            "# TYPE x_build_info gauge\n"
            "x_build_info{version=\"1.0\"} 1\n"
            "# HELP x_up_seconds Time.\n"
            "# TYPE x_up_seconds gauge\n"
            "x_up_seconds 0.5\n");
}

TEST(ReportExposition, OpenMetrics) {
  EXPECT_EQ(some(Syntax::openmetrics),
            "# HELP x_packets Packets, \\\"seen\\\".\\nAll \\\\ of them.\n"
            "# TYPE x_packets counter\n"
            "x_packets_total{rule=\"a \\\"b\\\" \\\\ c\\nd\",queue=\"0\"} 18446744073709551615\n"
            "x_packets_total 0\n"
            "# HELP x_build Version.\n"
            "# TYPE x_build info\n"
            "x_build_info{version=\"1.0\"} 1\n"
            "# HELP x_up_seconds Time.\n"
            "# TYPE x_up_seconds gauge\n"
            "# UNIT x_up_seconds seconds\n"
            "x_up_seconds 0.5\n"
            "# EOF\n");
}

TEST(ReportExposition, HistogramsAddUp) {
  const std::array bounds{0.001, 1.0};
  const std::array<u64, 3> counts{5, 2, 1};
  const auto text = [&](Syntax syntax) {
    Exposition out(syntax);
    out.family(Kind::histogram, "x_seconds", "seconds", "Times.");
    out.histogram({{"queue", "1"}}, bounds, counts, 4.25);
    return std::move(out).text();
  };
  EXPECT_EQ(text(Syntax::prometheus),
            "# HELP x_seconds Times.\n# TYPE x_seconds histogram\n"
            "x_seconds_bucket{queue=\"1\",le=\"0.001\"} 5\n"
            "x_seconds_bucket{queue=\"1\",le=\"1\"} 7\n"
            "x_seconds_bucket{queue=\"1\",le=\"+Inf\"} 8\n"
            "x_seconds_sum{queue=\"1\"} 4.25\n"
            "x_seconds_count{queue=\"1\"} 8\n");
  EXPECT_NE(text(Syntax::openmetrics).find("le=\"1.0\"} 7\n"), std::string::npos);
}

TEST(ReportExposition, WhatIsPreferred) {
  // What Prometheus 2.42 says.
  EXPECT_EQ(
      preferred(
          "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
          "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
      Syntax::openmetrics);
  for (const char* plain :
       {"", "*/*", "text/html, */*;q=0.8", "text/plain",
        "text/plain;version=0.0.4;q=1, application/openmetrics-text;q=0.5",
        "application/openmetrics-text;q=0", "application/openmetrics-text; q=x", ",;,;q=,"})
    EXPECT_EQ(preferred(plain), Syntax::prometheus) << plain;
  EXPECT_EQ(preferred(" application/openmetrics-text ; Q=0.3 "), Syntax::openmetrics);
}

}  // namespace
}  // namespace xdpgpu::report
