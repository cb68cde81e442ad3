// SPDX-License-Identifier: MIT
#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {

gpu::RateLimitSettings limit(gpu::RateLimitSettings::Per per, u64 pps, u64 bps, gpu::TableSettings table) {
  gpu::RateLimitSettings stage;
  stage.per = per;
  stage.packets_per_second = pps;
  stage.burst_packets = pps == 0 ? 0 : 3;
  stage.bytes_per_second = bps;
  stage.burst_bytes = bps == 0 ? 0 : 400;
  stage.table = table;
  return stage;
}

namespace {

using Evict = gpu::TableSettings::Evict;
using Action = gpu::AclRule::Action;

std::vector<gpu::PipelineSettings> limits() {
  using Per = gpu::RateLimitSettings::Per;
  auto prefixes = limit(Per::dst, 3, 0, {16, Evict::lru});
  prefixes.bits4 = 31;
  prefixes.bits6 = 125;
  auto passes = limit(Per::src, 2, 1000, {8, Evict::random});
  passes.excess = Action::pass;
  return {{"src", {limit(Per::src, 5, 0, {64, Evict::lru})}},
          {"dst", {prefixes}},
          {"flow", {limit(Per::flow, 0, 2000, {32, Evict::fifo}), limit(Per::src, 7, 1500, {8, Evict::lfu})}},
          {"refuses", {limit(Per::flow, 1, 0, {8, Evict::refuse}), passes}}};
}

SettingsCase settings() {
  return {"RateLimit", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "rate_limit", "description": "what", "per": "src", "prefix4": 24, "prefix6": 56, "pps": 100000, "burst": 200000,
             "bytes_per_second": 100000000, "burst_bytes": 200000000, "excess": "drop", "entries": 1024,
             "evict": "lru"},
            {"stage": "rate_limit", "per": "flow", "pps": 100000}]}})",
          together({each("/pipelines/p/0/per", {R"("src")", R"("dst")"}),
                    each("/pipelines/p/1/per", {R"("flow")"}), each("/pipelines/p/0/excess", kDecisions),
                    each("/pipelines/p/0/evict", kEvict)})};
}

}  // namespace

StageTests rate_limit_tests() { return {.tables = {{"limits", limits}}, .settings = {settings()}}; }

}  // namespace xdpgpu::tests
