// SPDX-License-Identifier: MIT
//
// tests/soak/life.hpp: one attach under traffic from its beginning to its end, and what is found then.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/netns/product.hpp"
#include "tests/soak/samples.hpp"
#include "tests/soak/traffic.hpp"

namespace xdpgpu::soak {

enum class End { detached, data_plane_killed, all_killed };
const char* name_of(End end);

struct Plan {
  std::chrono::milliseconds length{};
  End end = End::detached;
  std::string fault{};        // as in XDPGPU_FAULT; empty: none
  bool stands_still = false;  // between two rests the data plane is stopped for once, and goes on
  std::string device = "cpu";
  unsigned queues = 1;
};

struct Found {
  std::uint64_t in = 0, pass = 0, drop = 0, tx = 0, redirect = 0, error = 0;
  std::uint64_t in_flight_at_death = 0;  // in user space when the data plane was killed
  std::uint64_t swaps = 0, flaps = 0, bypasses = 0, standstills = 0;
  std::uint64_t past_the_program = 0;  // as the attached interface went down
  // Growth from the first rest, after what is made once, to the last, by broker and data plane together.
  std::int64_t rss_growth_kib = 0, descriptor_growth = 0;
  std::uint64_t rss_kib = 0, descriptors = 0;
  std::vector<std::string> problems;
};
nlohmann::json to_json(const Found& found);

// More growth than that between two rests of one life is a problem. Descriptors do not grow at all.
inline constexpr std::int64_t kRssGrowthKib = 16 << 10;

// `wires` are lab::Veth whose end a() is the host's; `sampler` looks at it until it is to end. Throws
// lab::Error where it cannot even begin.
Found live(const lab::Namespace& host, const std::vector<const lab::Veth*>& wires, Traffic& traffic,
           const Plan& plan, Sampler& sampler, std::mt19937_64& random);

}  // namespace xdpgpu::soak
