// SPDX-License-Identifier: MIT
#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {

gpu::ConntrackSettings conntrack(bool loose, gpu::TableSettings table) {
  gpu::ConntrackSettings stage;
  stage.egress = false;
  stage.loose = loose;
  stage.table = table;
  return stage;
}

namespace {

using Evict = gpu::TableSettings::Evict;
using Action = gpu::AclRule::Action;

// A rule for each way and state that a packet's connection may be asked for, and one for whatever it is.
gpu::SignaturesSettings rules_on_connections() {
  namespace sig = gpu::signatures;
  using Way = sig::ConnectionIs::Way;
  sig::Address v4{}, v6{};
  std::fill_n(v4.begin(), 4, u8{0xff});
  v6.fill(0xff);
  sig::Signature any;
  any.header.protocols.set();
  any.header.src = any.header.dst = {{{{}, v4}}, {{{}, v6}}};
  std::vector<sig::Signature> rules{any};
  for (const Way way : {Way::any, Way::to_server, Way::to_client})
    for (const auto established : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
      rules.push_back(any);
      rules.back().conditions = {sig::ConnectionIs{way, established}};
    }
  for (u32 i = 0; i < rules.size(); i++) rules[i].sid = i + 1;
  gpu::SignaturesSettings stage;
  stage.work = gpu::kMostSoftwareWork;
  stage.rules.signatures = std::make_shared<const std::vector<sig::Signature>>(std::move(rules));
  return stage;
}

std::vector<gpu::PipelineSettings> inspected() {
  auto fed = conntrack(false, {1024, Evict::lru});
  fed.egress = true;
  auto strict = conntrack(false, {4096, Evict::lru});
  strict.on_invalid = Action::next;
  auto small = conntrack(false, {8, Evict::refuse});
  small.on_invalid = Action::next;
  const auto rules = rules_on_connections();
  const auto behind = limit(gpu::RateLimitSettings::Per::flow, 20, 0, {64, Evict::lru});
  return {{"strict", {strict, rules}},
          {"fed", {fed, rules}},
          {"loose", {conntrack(true, {32, Evict::fifo}), rules}},
          {"a table between", {strict, behind, rules}},
          {"two of them", {strict, conntrack(true, {16, Evict::lru}), rules}},
          {"small", {small, rules}},
          {"none", {rules}},
          {"inside of tunnels", {strict, rules}, true}};
}

std::vector<gpu::PipelineSettings> connections() {
  auto drops_new = conntrack(true, {1024, Evict::lru});
  drops_new.on_new = Action::drop;
  auto passes_invalid = conntrack(false, {16, Evict::refuse});
  passes_invalid.on_invalid = Action::pass;
  auto fed = conntrack(false, {1024, Evict::lru});
  fed.egress = true;
  auto closed = fed;
  closed.on_new = closed.on_untracked = Action::drop;
  closed.table = {64, Evict::lfu};
  auto full = fed;
  full.table = {16, Evict::refuse};
  gpu::AclSettings some;
  some.rules.resize(3);
  some.rules[0].src = {prefix4(0x0a000001, 32)};
  some.rules[0].protocols = {6, 17};
  some.rules[0].action = Action::drop;
  some.rules[1].dst_ports = {{53, 53}};
  some.rules[1].action = Action::tx;
  some.rules[2].protocols = {132};
  some.rules[2].action = Action::pass;
  const auto behind = limit(gpu::RateLimitSettings::Per::flow, 20, 0, {64, Evict::lru});
  return {{"fed", {fed, some}},
          {"closed", {closed}},
          {"full", {full, behind, some}},
          {"unsure", {conntrack(false, {16, Evict::random}), behind}},
          {"strict", {conntrack(false, {4096, Evict::lru})}},
          {"loose", {conntrack(true, {16, Evict::fifo})}},
          {"no_new", {drops_new}},
          {"small", {passes_invalid}},
          {"lfu", {conntrack(false, {8, Evict::lfu})}},
          {"random", {conntrack(true, {8, Evict::random})}}};
}

SettingsCase settings() {
  return {"Conntrack", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "conntrack", "description": "what", "on_new": "next", "on_invalid": "drop", "on_untracked": "pass", "egress": true, "loose": false,
             "entries": 1024, "evict": "lru",
             "timeouts": {"syn_sent": "1s", "syn_received": "2s", "established": "3h", "fin_wait": "4s",
                          "time_wait": "5s", "closed": "6s", "udp": "7s", "udp_replied": "8s", "icmp": "9s",
                          "other": "10m"}}]}})",
          together({each("/pipelines/p/0/on_new", kStageDefaults),
                    each("/pipelines/p/0/on_invalid", kStageDefaults),
                    each("/pipelines/p/0/on_untracked", kStageDefaults),
                    each("/pipelines/p/0/egress", {"true", "false"}),
                    each("/pipelines/p/0/loose", {"true", "false"}), each("/pipelines/p/0/evict", kEvict)})};
}

}  // namespace

StageTests conntrack_tests() {
  return {.tables = {{"connections", connections, 6}, {"inspected", inspected, 6}}, .settings = {settings()}};
}

}  // namespace xdpgpu::tests
