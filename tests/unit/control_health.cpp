// SPDX-License-Identifier: MIT
//
// Health checks against real listeners on the loopback interface.
#include "userspace/control/health.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <optional>
#include <vector>

namespace xdpgpu::control {
namespace {

using namespace std::chrono_literals;
using Tcp = boost::asio::ip::tcp;

class Health : public testing::Test {
 protected:
  Health() : checks_(context_, [this](const std::string& news) { news_.push_back(news); }) { listen(0); }

  void listen(std::uint16_t port) {
    acceptor_.emplace(context_, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), port));
    port_ = acceptor_->local_endpoint().port();
  }
  policy::Policy policy(const std::string& health = R"("interval": "20ms", "fall": 2, "rise": 2)") const {
    auto parsed = policy::parse(fmt::format(R"({{"version": 1, "pipelines": {{"p": [{{"stage": "load_balance",
        "health": {{"port": {}, {}}},
        "backends": [{{"name": "b", "mac": "52:54:00:00:00:01", "address": "127.0.0.1"}}]}}]}}}})",
                                            port_, health),
                                "p.json", policy::read_files_of({}));
    EXPECT_TRUE(parsed) << parsed.error().front().sentence();
    return parsed.value_or(policy::Policy{});
  }
  // Runs the checks until there is a piece of news; false if there is none for so long.
  bool news(std::chrono::milliseconds patience = 5s) {
    const auto before = news_.size();
    const auto end = std::chrono::steady_clock::now() + patience;
    while (news_.size() == before && std::chrono::steady_clock::now() < end) context_.run_one_for(10ms);
    return news_.size() > before;
  }

  boost::asio::io_context context_;
  std::vector<std::string> news_;
  HealthChecks checks_;
  std::optional<Tcp::acceptor> acceptor_;
  std::uint16_t port_ = 0;
};

TEST_F(Health, ABackendGoesDownWhenItDoesNotAnswerAndComesUpWhenItDoes) {
  const policy::Policy watched = policy();
  checks_.watch(watched);
  EXPECT_TRUE(checks_.down().empty());
  acceptor_.reset();
  ASSERT_TRUE(news());
  EXPECT_EQ(news_.back().find(fmt::format("backend \"b\" (127.0.0.1 port {}) is down: 2 connects", port_)),
            0u)
      << news_.back();
  EXPECT_EQ(checks_.down().size(), 1u);
  const auto report = checks_.report(watched);
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0].pipeline, "p");
  EXPECT_EQ(report[0].stage, 1u);
  EXPECT_EQ(report[0].backend, "b");
  EXPECT_FALSE(report[0].up);
  EXPECT_EQ(report[0].problem, "Connection refused");
  listen(port_);
  ASSERT_TRUE(news());
  EXPECT_NE(news_.back().find("is up again"), std::string::npos) << news_.back();
  EXPECT_TRUE(checks_.down().empty());
  EXPECT_FALSE(checks_.report(watched)[0].problem);
}

TEST_F(Health, WhatIsKnownOutlivesAPolicyThatChecksInTheSameWay) {
  acceptor_.reset();
  const policy::Policy watched = policy();
  checks_.watch(watched);
  ASSERT_TRUE(news());
  policy::Policy same = watched;
  same.pipelines.front().name = "another";
  checks_.watch(same);
  EXPECT_EQ(checks_.down().size(), 1u);
  EXPECT_EQ(checks_.report(same)[0].pipeline, "another");
  const policy::Policy other = policy(R"("interval": "20ms", "fall": 3)");
  checks_.watch(other);
  EXPECT_TRUE(checks_.down().empty()) << "checked in another way, it counts as up at first";
  checks_.watch(policy::Policy{});
  EXPECT_TRUE(checks_.report(other).empty());
  EXPECT_FALSE(news(200ms)) << "nothing is checked any more";
}

}  // namespace
}  // namespace xdpgpu::control
