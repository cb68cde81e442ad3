// SPDX-License-Identifier: MIT
#include "bench/reputation/attached.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tests/netns/control_socket.hpp"

namespace xdpgpu::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr auto kBetween = 1ms;  // an answer and the next question
constexpr auto kPatience = 120s;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

AttachedApply::AttachedApply()
    : host_("bench-host"), peer_("bench-peer"), wire_(host_, "bench0", peer_, "bench1") {
  wire_.address("10.9.0.1/24", "10.9.0.2/24");
  wire_.up();
  attached_.emplace(host_, lab::AttachSpec{.interfaces = {wire_.a().ifname()},
                                           .policy = R"({"version": 1, "default": "pass"})"});
}

AttachedApply::Outcome AttachedApply::apply(const std::string& policy_file) {
  Outcome outcome;
  const std::string& name = wire_.a().ifname();
  const auto start = Clock::now();
  lab::Process command(host_, {lab::product_path(), "policy", "apply", name, policy_file});
  int status = -1;
  while (status < 0 && since(start) < std::chrono::duration<double>(kPatience).count()) {
    const auto asked = Clock::now();
    try {
      if (!lab::ask(name, "status").value("ok", false)) outcome.problem = "status was refused";
    } catch (const lab::Error& error) {
      outcome.problem = error.what();
    }
    outcome.longest_status = std::max(outcome.longest_status, since(asked));
    outcome.answers++;
    status = command.wait(kBetween);
  }
  outcome.seconds = since(start);
  if (status != 0) outcome.problem = fmt::format("policy apply: exit {}: {}", status, command.err());
  return outcome;
}

}  // namespace xdpgpu::bench
