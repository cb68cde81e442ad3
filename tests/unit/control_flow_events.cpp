// SPDX-License-Identifier: MIT
//
// How events of flows are told.
#include "userspace/control/flow_events.hpp"

#include <gmock/gmock.h>

namespace xdpgpu::control {
namespace {

using testing::HasSubstr;

gpu::FlowEvent event(u8 protocol = 6) {
  gpu::FlowEvent event;
  event.pipeline = "web";
  event.stage = 1;
  event.stage_name = "sample";
  event.what = "sampled";
  event.flow.src[0] = 0x0100000a;
  event.flow.dst[0] = 0x0200000a;
  event.flow.family = 4;
  event.flow.protocol = protocol;
  if (protocol == 6) event.flow.src_port = 0xd204, event.flow.dst_port = 0x5000;
  event.packets = 3;
  event.at_ns = 77;
  return event;
}

TEST(FlowEvents, AreToldWithFlowAndPackets) {
  EXPECT_EQ(as_json(event_report(event())), Json({{"event", "sample.sampled"},
                                                  {"pipeline", "web"},
                                                  {"stage", 2},
                                                  {"flow", "10.0.0.1:1234 > 10.0.0.2:80 tcp"},
                                                  {"packets", 3},
                                                  {"at_ns", 77}}));
  EXPECT_EQ(event_sentence(event()),
            "pipeline \"web\", stage 2 (sample): sampled 10.0.0.1:1234 > 10.0.0.2:80 tcp (3 packets so far)");
  EXPECT_EQ(event_report(event(1)).flow, "10.0.0.1 > 10.0.0.2 icmp") << "its type is not known";
}

TEST(FlowEvents, StatusCountsAllAndKeepsTheLast) {
  FlowEvents events;
  EXPECT_FALSE(events.report());
  std::vector<gpu::FlowEvent> many(100, event());
  for (std::size_t i = 0; i < many.size(); i++) many[i].at_ns = i;
  events.add(many);
  many.resize(1);
  many[0].at_ns = 100;
  events.add(many);
  const auto report = events.report();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->told, 101u);
  ASSERT_EQ(report->last.size(), FlowEvents::kKept);
  EXPECT_EQ(report->last.front().at_ns, 37u);
  EXPECT_EQ(report->last.back().at_ns, 100u);
  EXPECT_THAT(flow_events_text(*report), HasSubstr("events of flows: 101, the last\n  sample.sampled 10."));
}

}  // namespace
}  // namespace xdpgpu::control
