// SPDX-License-Identifier: MIT
#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::L2fwdSettings;
using gpu::PipelineSettings;

std::vector<PipelineSettings> l2fwd(Random&) {
  return {{"back", {L2fwdSettings{}}},
          {"back, cached", {L2fwdSettings{false, 0, true, 60000}}},
          {"to port 31, cached", {L2fwdSettings{true, 31, true, 0}}},
          {"to port 0", {L2fwdSettings{true, 0, false, 0}}}};
}

SettingsCase settings() {
  return {"L2fwd", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}],
                      "pipelines": {"p": [{"stage": "l2fwd", "description": "what", "to": "IF1", "cache": "1s"}]}})",
          each("/pipelines/p/0/cache", kCache)};
}

}  // namespace

StageTests l2fwd_tests() {
  return {.conformance = {{"l2fwd",
                           l2fwd,
                           {.verdicts = 4, .cached = 500, .swapped = 5000, .cached_below = 9000}}},
          .settings = {settings()}};
}

}  // namespace xdpgpu::tests
