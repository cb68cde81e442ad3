// SPDX-License-Identifier: MIT
#include "userspace/policy/rates.hpp"

#include <fmt/format.h>

#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u64 kMaxPps = 1'000'000'000;
constexpr u64 kMaxBurstSeconds = 3600;

}  // namespace

Rate read_rate(Report& report, const Fields& fields) {
  Rate rate;
  if (auto pps = fields.require("pps"))
    if (auto value = read_integer(report, *pps, 1, kMaxPps)) rate.pps = *value;
  rate.burst = rate.pps;
  auto burst = fields.get("burst");
  if (!burst) return rate;
  auto value = read_integer(report, *burst, 1, kMaxPps);
  if (!value) return rate;
  rate.burst = *value;
  if (rate.pps != 0 && *value / rate.pps > kMaxBurstSeconds)
    report.at(*burst,
              fmt::format("lets {} seconds' worth of packets through at once, at most {} are counted; at {} "
                          "packets a second that is a burst of {}",
                          *value / rate.pps, kMaxBurstSeconds, rate.pps, rate.pps * kMaxBurstSeconds));
  return rate;
}

void read_rates(Report& report, const Place& place, Rates& into) {
  Fields kinds(report, place, keys::kRates, "\"rates\"");
  for (u32 kind = 0; kind < XG_RATES; ++kind) {
    const auto one = kinds.get(keys::kRates[kind]);
    if (!one) continue;
    const std::string what = fmt::format("the rate of {}", keys::kRates[kind]);
    into[kind] = read_rate(report, Fields(report, *one, keys::kRate, what));
  }
}

xg_rate compiled_rate(const Rate& rate) {
  xg_rate out{};
  out.interval_ns = (1'000'000'000ull << 8) / rate.pps;
  out.burst_ns = (rate.burst - 1) * out.interval_ns;
  return out;
}

}  // namespace xdpgpu::policy
