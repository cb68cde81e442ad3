// SPDX-License-Identifier: MIT
//
// tests/netns/queues_test.cpp: ports of unlike numbers of queues: what comes in on a queue that the port it
// is to leave by does not have goes by way of the worker that sends there.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

struct Shape {
  bool generic;
  unsigned in, out;
  const char* mode;
};
void PrintTo(const Shape& shape, std::ostream* out) {
  *out << (shape.generic ? "generic" : "native") << ", " << shape.in << " queues to " << shape.out << ", "
       << shape.mode;
}

class UnlikeQueues : public OnOneWire, public testing::WithParamInterface<Shape> {
 protected:
  UnlikeQueues() { config_ = {GetParam().generic, GetParam().in, ""}; }
  void SetUp() override {
    OnOneWire::SetUp();
    if (IsSkipped()) return;
    right_port().set_channels(GetParam().out, GetParam().out);
    host_second().set_channels(GetParam().out, GetParam().out);
  }
  void attach_all_queues(const std::string& stages, bool all = false) {
    const std::string mode = fmt::format(R"("compute": {{"mode": "{}"}})", GetParam().mode);
    attached_ = std::make_unique<Attached>(
        *host_, AttachSpec{{host_port().ifname(), host_second().ifname()},
                           all ? inspect_all(stages, mode) : inspect_udp(7000, stages, mode),
                           GetParam().generic});
    ASSERT_EQ(attached_->status().at("ports").at(0).at("queues").size(), GetParam().in);
    ASSERT_EQ(attached_->status().at("ports").at(1).at("queues").size(), GetParam().out);
  }
  void expect_clean_end() {
    for (const std::size_t port : {0U, 1U}) expect_conserved(attached_->pins(port));
    const Outcome end = attached_->detach();
    EXPECT_EQ(end.status, 0) << end.out << end.err;  // packets balanced, frames conserved
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, UnlikeQueues,
                         testing::Values(Shape{false, 2, 1, "inline"}, Shape{false, 4, 3, "inline"},
                                         Shape{false, 4, 1, "split"}, Shape{true, 2, 1, "split"}),
                         [](const auto& one) {
                           return fmt::format("{}_{}to{}_{}", one.param.generic ? "generic" : "native",
                                              one.param.in, one.param.out, one.param.mode);
                         });

TEST_P(UnlikeQueues, RedirectArrivesInOrderFromEveryQueue) {
  attach_all_queues(fmt::format(R"({{"stage": "l2fwd", "to": "{}"}})", host_second().ifname()));
  Sniffer right(right_port());
  constexpr std::size_t kFlows = 40, kEach = 50;
  const auto frames = many_flows(7000, kFlows, kEach);
  Sender(left_port()).send_paced(frames, 10'000);
  const auto seen = right.take(frames.size(), 5000ms, udp_to(7000));
  const Pins& pins = attached_->pins();
  EXPECT_EQ(seen.size(), frames.size()) << pins.summary();
  for (std::size_t flow = 0; flow < kFlows; ++flow) {
    const auto order = sequences(seen, static_cast<std::uint16_t>(20000 + flow));
    EXPECT_EQ(order.size(), kEach) << "flow " << flow;
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << "flow " << flow;
  }
  EXPECT_EQ(pins.worker("redirected"), frames.size());
  EXPECT_EQ(pins.worker("error_target"), 0U);
  std::set<unsigned> used;
  for (unsigned queue = 0; queue < GetParam().in; ++queue)
    if (pins.worker_counts(queue).at("redirected")) used.insert(queue);
  // In generic mode a veth says of frames of a packet socket that they all came by one queue.
  EXPECT_EQ(used.size(), GetParam().generic ? 1 : GetParam().in) << "it shows nothing of the others";
  expect_clean_end();
}

// More than the other worker is given at once; what it cannot take is counted as that.
TEST_P(UnlikeQueues, AFloodIsAccountedFor) {
  attach_all_queues(fmt::format(R"({{"stage": "l2fwd", "to": "{}"}})", host_second().ifname()));
  for (int i = 0; i < 5; ++i) Sender(left_port()).send(many_flows(7000, 100, 100));
  EXPECT_GT(attached_->pins().worker("redirected"), 1000U) << attached_->pins().summary();
  expect_clean_end();
}

// Detached in the midst of it.
TEST_P(UnlikeQueues, TwentyConnectionsStand) {
  left_port().add_route("10.9.1.0/24", "10.9.0.1");
  right_port().add_route("10.9.0.0/24", "10.9.1.1");
  const auto hop = [](const Interface& to, const Interface& out) {
    return fmt::format(R"({{"mac": "{}", "src_mac": "{}", "to": "{}"}})", to_string(to.mac()),
                       to_string(out.mac()), out.ifname());
  };
  attach_all_queues(fmt::format(
                        R"({{"stage": "forward", "next_hops": {{"right": {}, "left": {}}},
               "routes": [{{"prefix": "10.9.1.2", "next_hop": "right"}}, {{"prefix": "10.9.0.2", "next_hop": "left"}}]}})",
                        hop(right_port(), host_second()), hop(left_port(), host_port())),
                    true);
  unsigned stood = 0;
  for (std::uint16_t i = 0; i < 20; ++i)
    stood += tcp_connects(*left_, *right_, "10.9.1.2", static_cast<std::uint16_t>(7100 + i));
  EXPECT_EQ(stood, 20U) << attached_->pins().summary();
  const TransferResult result = tcp_transfer(*left_, *right_, "10.9.1.2", {.bytes = 4 << 20});
  EXPECT_TRUE(result.intact) << result.problem;
  expect_clean_end();
}

}  // namespace
}  // namespace xdpgpu::lab
