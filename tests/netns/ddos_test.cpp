// SPDX-License-Identifier: MIT
//
// tests/netns/ddos_test.cpp: floods on the wire: who is flooded is told, what floods is dropped here and in
// the kernel, everybody else goes on, and when it is over it is over.
#include <fmt/format.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

// Sends the frames again and again while it lives.
class Flood {
 public:
  Flood(const Interface& from, std::vector<Frame> frames, unsigned pps)
      : thread_([this, sender = Sender(from), frames = std::move(frames), pps]() mutable {
          while (!stop_) sender.send_paced(frames, pps);
        }) {}
  ~Flood() { end(); }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  void end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class DdosOnTheWire : public OnTheWire {
 protected:
  // Frames like `like`, of so many flows from so many sources of 10.9.0.0/24.
  std::vector<Frame> flood(PacketSpec like, std::size_t flows, std::size_t sources) const {
    std::vector<Frame> frames;
    for (std::size_t i = 0; i < flows; ++i) {
      like.src_ip = fmt::format("10.9.0.{}", 100 + i % sources);
      if (like.protocol == kTcp) like.src_port = static_cast<std::uint16_t>(10'000 + i);
      frames.push_back(build(like));
    }
    return frames;
  }
  // The first line of that event that the process printed.
  std::optional<Json> event(const std::string& name) const {
    std::istringstream lines(attached_->process().out());
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line, nullptr, false);
      if (json.is_object() && json.value("event", "") == name) return json;
    }
    return std::nullopt;
  }
  Json alarms() const {
    const Json status = attached_->status();
    return status.contains("alarms") ? status.at("alarms") : Json();
  }
  bool is_on() const { return !alarms().is_null() && !alarms().at("on").empty(); }
};
INSTANTIATE_TEST_SUITE_P(Netns, DdosOnTheWire, kNativeAndGeneric, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, DdosOnTheWire, kSplit, config_name);

TEST_P(DdosOnTheWire, ASynFloodIsToldDroppedAndOver) {
  attach(inspect_all(
      R"({"stage": "ddos", "syn_pps": 1000, "window": "200ms", "hold": "1s", "cache": "500ms"})"));
  const Pins& pins = attached_->pins();
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 8001));
  EXPECT_FALSE(attached_->status().contains("alarms"));

  PacketSpec syn = from_left(0, 80, "");
  syn.protocol = kTcp;
  syn.tcp_flags = kSyn;
  {
    Flood flooding(left_port(), flood(syn, 500, 5), 5000);
    ASSERT_TRUE(eventually([&] { return is_on(); }, 10s)) << pins.summary();
    ASSERT_TRUE(eventually([&] { return event("ddos.detected").has_value(); }));
    const Json told = *event("ddos.detected");
    EXPECT_EQ(told.at("target"), "10.9.0.1");
    EXPECT_EQ(told.at("metric"), "syn_pps");
    EXPECT_EQ(told.at("direction"), "in");
    EXPECT_EQ(told.at("threshold"), 1000);
    EXPECT_GE(told.at("value"), 1000);
    ASSERT_GE(told.at("sources").size(), 5U) << told;
    EXPECT_TRUE(told.at("sources").at(0).at("address").get<std::string>().starts_with("10.9.0.10")) << told;

    EXPECT_TRUE(eventually([&] { return pins.worker("dropped") > 0; })) << pins.summary();
    EXPECT_TRUE(eventually([&] { return pins.kernel("drop_flow") > 1000; }, 5s)) << pins.summary();
    EXPECT_FALSE(tcp_connects(*left_, *host_, "10.9.0.1", 8002, 300ms)) << "no SYN gets there";
    EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 10}).received, 10) << "what floods not goes on";
    EXPECT_EQ(tcp_transfer(*left_, *host_, "fd09::1", {.bytes = 1 << 20}).problem, "") << "as do others";
  }
  EXPECT_TRUE(eventually([&] { return !is_on(); }, 5s)) << alarms();
  EXPECT_TRUE(eventually([&] { return event("ddos.released").has_value(); }));
  EXPECT_GT(event("ddos.released")->at("dropped"), 0);
  EXPECT_EQ(event("ddos.released")->at("target"), "10.9.0.1");
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 8003)) << "the ban is over by itself";
  const auto dropped = pins.worker("dropped");
  std::this_thread::sleep_for(600ms);
  const auto cached = pins.kernel("drop_flow");
  Sender(left_port()).send(flood(syn, 20, 5));
  EXPECT_TRUE(eventually([&] { return pins.kernel("received") > 0; }));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(pins.worker("dropped"), dropped) << "nor is anybody of the flood banned still";
  EXPECT_EQ(pins.kernel("drop_flow"), cached);
  expect_conserved(pins);

  const Json tables = attached_->status().at("tables");
  EXPECT_EQ(tables.at(0).at("kind"), "ddos");
  EXPECT_EQ(tables.at(0).at("packets").at("dropped"), dropped);
  const std::string text = product(*host_, {"status", host_port().ifname()}).out;
  EXPECT_NE(text.find("alarms: "), std::string::npos) << text;
}

TEST_P(DdosOnTheWire, DnsAmplificationIsDroppedAndOtherDatagramsArrive) {
  attach(inspect_all(R"({"stage": "ddos", "dns_bytes_per_second": 1000000, "window": "200ms", "hold": "1s",
                         "cache": true})"));
  const Pins& pins = attached_->pins();
  UdpSocket on_host(*host_, "10.9.0.1", 7000);
  const PacketSpec answer = from_left(53, 7000, std::string(1200, 'a'));
  Flood flooding(left_port(), flood(answer, 40, 40), 5000);
  ASSERT_TRUE(eventually([&] { return event("ddos.detected").has_value(); }, 10s)) << pins.summary();
  EXPECT_EQ(event("ddos.detected")->at("metric"), "dns_bytes_per_second");
  EXPECT_GE(event("ddos.detected")->at("value"), 1'000'000);
  ASSERT_TRUE(eventually([&] { return pins.kernel("drop_flow") > 0; }, 5s)) << pins.summary();
  on_host.drain(20ms);
  Sender sender(left_port());
  unsigned arrived = 0;
  for (int i = 0; i < 20; ++i) {
    sender.send(build(from_left(1234, 7000, "friendly")));
    for (auto one = on_host.receive(5s); one; one = on_host.receive(5s))
      if (*one == "friendly") {
        ++arrived;
        break;
      }
  }
  EXPECT_EQ(arrived, 20U);
  flooding.end();
  EXPECT_TRUE(eventually([&] { return event("ddos.released").has_value(); }, 5s));
  expect_conserved(pins);
}

TEST_P(DdosOnTheWire, ManySourcesAreReportedAndLetThroughWhereThePolicySaysSo) {
  attach(
      inspect_all(R"({"stage": "ddos", "sources": 100, "window": "1s", "hold": "1s", "on_detect": "pass"})"));
  const Pins& pins = attached_->pins();
  const auto frames = flood(from_left(1000, 7000, "x"), 150, 150);
  // For more than half a window, so that one of them has all of the sources.
  Sender sender(left_port());
  for (int i = 0; i < 8; ++i) sender.send_paced(frames, 2000);
  ASSERT_TRUE(eventually([&] { return event("ddos.detected").has_value(); }, 5s)) << pins.summary();
  EXPECT_EQ(event("ddos.detected")->at("metric"), "sources");
  EXPECT_EQ(pins.worker("dropped"), 0U);
  EXPECT_TRUE(eventually([&] { return event("ddos.released").has_value(); }, 5s));
}

TEST_P(DdosOnTheWire, BehindAMirrorTheKernelAloneDrops) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "only the CPU takes mirrored packets through tables";
  attach(policy(R"("rules": [{"name": "watch", "match": {"proto": "udp"}, "action": {"mirror": "scrub"}}],
      "pipelines": {"scrub": [{"stage": "ddos", "udp_pps": 1000, "window": "200ms", "hold": "1s", "cache": true}]})"));
  const Pins& pins = attached_->pins();
  {
    Flood flooding(left_port(), flood(from_left(1000, 7000, "x"), 100, 100), 5000);
    ASSERT_TRUE(eventually([&] { return event("ddos.detected").has_value(); }, 10s)) << pins.summary();
    EXPECT_EQ(event("ddos.detected")->at("metric"), "udp_pps");
    EXPECT_EQ(event("ddos.detected")->at("pipeline"), "scrub");
    EXPECT_TRUE(eventually([&] { return pins.kernel("drop_flow") > 1000; }, 5s)) << pins.summary();
    EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 5}).received, 5);
  }
  EXPECT_EQ(pins.worker("received"), 0U) << "no user space has touched a packet";
  EXPECT_TRUE(eventually([&] { return event("ddos.released").has_value(); }, 5s));
  // Its verdicts end with it.
  UdpSocket on_host(*host_, "10.9.0.1", 7000);
  std::this_thread::sleep_for(300ms);
  Sender(left_port()).send(flood(from_left(1000, 7000, "after"), 100, 100));
  EXPECT_EQ(on_host.drain(200ms).size(), 100U);
  expect_conserved(pins);
}

}  // namespace
}  // namespace xdpgpu::lab
