// SPDX-License-Identifier: MIT
//
// How alarms of `ddos` stages are told.
#include "userspace/control/alarms.hpp"

#include <gmock/gmock.h>

namespace xdpgpu::control {
namespace {

using testing::HasSubstr;
using What = gpu::AlarmEvent::What;

gpu::Alarm alarm() {
  gpu::Alarm alarm;
  alarm.pipeline = "scrub";
  alarm.target = {192, 0, 2, 7};
  alarm.stage_name = "ddos";
  alarm.metric = "syn_pps";
  alarm.value = 20'004;
  alarm.threshold = 20'000;
  alarm.peak = 31'872;
  alarm.since_ns = 1'000'000'000;
  alarm.until_ns = 3'500'000'000;
  alarm.dropped = 1187;
  for (u8 i = 1; i < 6; i++) alarm.sources.push_back({{10, 0, 0, i}, 50.0 / i});
  return alarm;
}

TEST(Alarms, AreToldWithTargetMetricValueThresholdAndSources) {
  const Json json = as_json(alarm_event({What::detected, alarm()}));
  EXPECT_EQ(json.at("event"), "ddos.detected");
  EXPECT_EQ(json.at("pipeline"), "scrub");
  EXPECT_EQ(json.at("stage"), 1);
  EXPECT_EQ(json.at("direction"), "in");
  EXPECT_EQ(json.at("target"), "192.0.2.7");
  EXPECT_EQ(json.at("metric"), "syn_pps");
  EXPECT_EQ(json.at("value"), 20'004);
  EXPECT_EQ(json.at("threshold"), 20'000);
  EXPECT_EQ(json.at("sources").size(), 5u);
  EXPECT_EQ(json.at("sources").at(1), Json({{"address", "10.0.0.2"}, {"percent", 25.0}}));
  EXPECT_EQ(
      alarm_sentence({What::detected, alarm()}),
      "pipeline \"scrub\", stage 1 (ddos): alarm of syn_pps for 192.0.2.7: it receives 20004, the threshold "
      "is 20000; most comes from 10.0.0.1 (50 %), 10.0.0.2 (25 %), 10.0.0.3 (17 %)");
}

TEST(Alarms, EndWithWhatTheyDid) {
  EXPECT_THAT(
      alarm_sentence({What::released, alarm()}),
      HasSubstr("for 192.0.2.7 has ended after 2.5 s; at most it was 31872, and 1187 packets were dropped"));
  EXPECT_THAT(alarm_sentence({What::forgotten, alarm()}), HasSubstr("more \"entries\""));
  EXPECT_EQ(alarm_event({What::released, alarm()}).event, "ddos.released");
  EXPECT_EQ(alarm_event({What::forgotten, alarm()}).event, "ddos.forgotten");
}

TEST(Alarms, NameNetworksAndOtherDirections) {
  gpu::Alarm one = alarm();
  one.family = 6;
  one.target = {0x20, 0x01, 0x0d, 0xb8};
  one.prefix = 48;
  one.outward = true;
  one.sources.clear();
  const Json json = as_json(alarm_event({What::detected, one}));
  EXPECT_EQ(json.at("target"), "2001:db8::/48");
  EXPECT_EQ(json.at("direction"), "out");
  EXPECT_THAT(alarm_sentence({What::detected, one}), HasSubstr("it sends 20004"));
}

TEST(Alarms, TheLastOnesAreRemembered) {
  Alarms alarms;
  EXPECT_FALSE(alarms.report()) << "there was none";
  const AlarmsReport report{3, 2, {alarm_report(alarm())}, {}};
  EXPECT_EQ(alarms_text(report),
            "\nalarms: 3 detected, 2 ended\n"
            "  192.0.2.7 syn_pps: 31872 (threshold 20000), 1187 dropped; pipeline scrub, stage 1\n");
}

}  // namespace
}  // namespace xdpgpu::control
