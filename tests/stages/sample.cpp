// SPDX-License-Identifier: MIT
#include "gpu/stages/list.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

using Evict = gpu::TableSettings::Evict;
using gpu::SampleSettings;
using Per = SampleSettings::Per;

SampleSettings one_in(u32 many, Per per, gpu::TableSettings table, u32 idle_ms = 60'000) {
  return {.per = per, .one_in = many, .idle_ms = idle_ms, .table = table};
}

std::vector<gpu::PipelineSettings> samples() {
  auto by_key = one_in(3, Per::flow, {64, Evict::lru});
  by_key.key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
  gpu::AclSettings some;
  some.rules.resize(1);
  some.rules[0].protocols = {6};
  some.rules[0].action = gpu::Action::drop;
  return {{"packets", {one_in(4, Per::packet, {16, Evict::lru})}},
          {"flows", {one_in(2, Per::flow, {8, Evict::fifo}, 3'600'000)}},
          {"all, in the way of nothing", {one_in(1, Per::packet, {8, Evict::refuse}), some}},
          {"by its own key", {by_key, some}},
          {"behind another", {some, one_in(1, Per::flow, {8, Evict::random}, 1), by_key}},
          {"few", {one_in(1'000'000'000, Per::packet, {8, Evict::lfu})}}};
}

SettingsCase settings() {
  return {
      "Sample", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "sample", "description": "what", "per": "packet", "one_in": 100, "key_file": "sample.key",
             "idle": "30s", "entries": 1024, "evict": "lru"},
            {"stage": "sample", "per": "flow", "one_in": 1}]}})",
      together({each("/pipelines/p/0/per", {R"("packet")", R"("flow")"}),
                each("/pipelines/p/0/one_in", {"1", "1000000000"}), each("/pipelines/p/0/evict", kEvict)})};
}

}  // namespace

StageTests sample_tests() {
  return {.tables = {{"samples", samples, 3}},
          .settings = {settings()},
          .files = {{"sample.key", "000102030405060708090a0b0c0d0e0f\n"}}};
}

}  // namespace xdpgpu::tests
