// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>

#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::L2fwdSettings;
using gpu::LoadBalanceSettings;
using gpu::PipelineSettings;
using Evict = gpu::TableSettings::Evict;

std::vector<PipelineSettings> load_balance(Random& random) {
  std::vector<PipelineSettings> pipelines;
  for (u32 backends : {1u, 2u, 3u, 7u, 256u})
    pipelines.push_back({fmt::format("{} backends", backends), {random_load_balance(random, backends)}});
  return pipelines;
}

std::vector<PipelineSettings> maglev(Random& random) {
  std::vector<PipelineSettings> pipelines;
  for (u32 backends : {1u, 2u, 3u, 7u, 256u})
    pipelines.push_back({fmt::format("{} backends", backends), {random_maglev(random, backends)}});
  return pipelines;
}

std::vector<PipelineSettings> encapsulated(Random& random) {
  std::vector<PipelineSettings> pipelines;
  for (u32 backends : {1u, 3u, 250u})
    pipelines.push_back({fmt::format("hash, {} backends", backends),
                         {with_outer_headers(random, random_load_balance(random, backends))}});
  for (u32 backends : {1u, 3u, 100u})
    pipelines.push_back({fmt::format("maglev, {} backends", backends),
                         {with_outer_headers(random, random_maglev(random, backends))}});
  LoadBalanceSettings tight = with_outer_headers(random, random_maglev(random, 5));
  tight.encapsulation->mtu = 576;
  pipelines.push_back({"the least MTU", {tight}});
  pipelines.push_back({"behind others", {mostly_next(random), L2fwdSettings{}, tight}});
  pipelines.push_back({"behind an acl", {mostly_next(random), tight}});
  return pipelines;
}

gpu::LoadBalanceSettings affinity(gpu::AffinitySettings::Per per, u32 idle_ms, gpu::TableSettings table) {
  gpu::LoadBalanceSettings stage;
  stage.algorithm = gpu::LoadBalanceSettings::Algorithm::maglev;
  stage.table_size = 251;
  for (u32 i = 0; i < 7; i++)
    stage.backends.push_back(
        {fmt::format("b{}", i), {2, 0, 0, 0, 0, static_cast<u8>(i)}, 1 + i % 3, i == 5, 9});
  stage.backends[2].drains = true;
  stage.backends[3].down = true;
  stage.affinity = gpu::AffinitySettings{per, idle_ms, table};
  return stage;
}

std::vector<gpu::PipelineSettings> affinities() {
  using Per = gpu::AffinitySettings::Per;
  auto cached = affinity(Per::flow, 60'000, {1024, Evict::lru});
  cached.cache = true;
  cached.cache_ttl_ms = 30'000;
  auto behind = cached;
  behind.affinity->table = {64, Evict::fifo};
  return {{"flows", {cached}},
          {"clients", {affinity(Per::src, 3'600'000, {8, Evict::refuse}), gpu::L2fwdSettings{}}},
          {"behind a limit",
           {limit(gpu::RateLimitSettings::Per::src, 9, 0, {64, Evict::lru}), behind, gpu::L2fwdSettings{}}},
          {"lfu", {affinity(Per::flow, 10'000'000, {8, Evict::lfu})}},
          {"random", {affinity(Per::src, 500, {8, Evict::random})}}};
}

SettingsCase by_hash() {
  return {"LoadBalanceByHash", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "load_balance", "description": "what", "algorithm": "hash", "cache": "60s", "backends": [
              {"name": "a", "mac": "52:54:00:00:00:01", "weight": 3, "to": "IF1"},
              {"mac": "52:54:00:00:00:02", "drain": false}]}]}})",
          together({each("/pipelines/p/0/cache", kCache),
                    each("/pipelines/p/0/backends/0/mac", {R"("52:54:00:00:0A:0b")"})})};
}

SettingsCase by_maglev() {
  return {"LoadBalanceByMaglev",
          R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "load_balance", "algorithm": "maglev", "table_size": 251, "key_file": "key.txt",
             "affinity": {"per": "flow", "idle": "5m", "entries": 1024, "evict": "lru"},
             "health": {"port": 80, "interval": "2s", "timeout": "1s", "fall": 3, "rise": 2},
             "backends": [
              {"name": "a", "mac": "52:54:00:00:00:01", "address": "10.9.0.2"},
              {"name": "b", "mac": "52:54:00:00:00:02", "drain": true, "address": "fd09::2"},
              {"name": "c", "mac": "52:54:00:00:00:03", "weight": 2, "address": "10.9.0.3"}]}]}})",
          together({each("/pipelines/p/0/affinity/per", {R"("flow")", R"("src")"}),
                    each("/pipelines/p/0/affinity/evict", kEvict),
                    each("/pipelines/p/0/cache", {R"("1m")", "false"}),
                    each("/pipelines/p/0/backends/0/drain", {"true", "false"})})};
}

SettingsCase with_encapsulation() {
  return {"LoadBalanceEncapsulated",
          R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "load_balance", "encapsulation": {"type": "gue", "port": 6081, "mtu": 1400,
               "source": {"ipv4": "10.9.0.1", "ipv6": "fd09::1"}},
             "backends": [{"mac": "52:54:00:00:00:01", "address": "10.9.0.2"},
                          {"mac": "52:54:00:00:00:02", "address": "fd09::2"}]}]}})",
          together({each("/pipelines/p/0/encapsulation",
                         {R"({"type": "ipip", "source": {"ipv4": "10.9.0.1", "ipv6": "fd09::1"}})",
                          R"({"type": "gue", "source": {"ipv4": "10.9.0.0/24", "ipv6": "fd09::/112"}})"})})};
}

}  // namespace

LoadBalanceSettings random_load_balance(Random& random, u32 backends) {
  LoadBalanceSettings settings;
  for (u32 i = 0; i < backends; i++) {
    gpu::Backend backend;
    backend.name = fmt::format("backend {}", i);
    for (u8& byte : backend.mac) byte = static_cast<u8>(random.bits());
    backend.weight = random.one_in(3) ? random.between(1, 1000) : random.between(1, 3);
    backend.to_port = random.one_in(2);
    backend.target = random.below(XG_MAX_PORTS);
    settings.backends.push_back(backend);
  }
  settings.cache = random.one_in(2);
  settings.cache_ttl_ms = random.below(100000);
  return settings;
}

LoadBalanceSettings random_maglev(Random& random, u32 backends) {
  LoadBalanceSettings settings = random_load_balance(random, backends);
  settings.algorithm = LoadBalanceSettings::Algorithm::maglev;
  // So that the lightest one has its share.
  for (gpu::Backend& backend : settings.backends) backend.weight = random.between(1, 50);
  if (random.one_in(2)) settings.table_size = random.pick(std::array<u32, 3>{20'011, 99'991, 655'373});
  if (random.one_in(2)) settings.key = std::array{random.bits(), random.bits()};
  return settings;
}

LoadBalanceSettings with_outer_headers(Random& random, LoadBalanceSettings settings) {
  using Type = gpu::EncapsulationSettings::Type;
  gpu::EncapsulationSettings outer;
  outer.type = random.one_in(2) ? Type::ipip : Type::gue;
  const auto any6 = [&] {
    std::array<u8, 16> address{};
    for (u8& byte : address) byte = static_cast<u8>(random.bits());
    return address;
  };
  outer.source4 = prefix4(static_cast<u32>(random.bits()), static_cast<u8>(random.between(8, 32)));
  outer.source6 = prefix6(any6(), static_cast<u8>(random.between(64, 128)));
  outer.port = static_cast<u16>(random.between(1, 65535));
  outer.mtu = random.between(576, 1500);
  outer.hash_key = {random.bits(), random.bits()};
  for (gpu::Backend& backend : settings.backends)
    backend.address = random.one_in(2) ? prefix4(static_cast<u32>(random.bits()), 32) : prefix6(any6(), 128);
  settings.encapsulation = outer;
  return settings;
}

StageTests load_balance_tests() {
  return {.conformance = {{"load_balance", load_balance, {.verdicts = 10, .rewritten = 5000}},
                          {"maglev", maglev, {.verdicts = 10, .rewritten = 5000}},
                          {"encapsulated",
                           encapsulated,
                           {.verdicts = 12,
                            .of_these = {XG_VERDICT(XG_DROP, 0u, 1u, gpu::balance_rule::kMalformed)},
                            .encapsulated = 2000,
                            .too_long = 50}}},
          .tables = {{"affinities", affinities}},
          .settings = {by_hash(), by_maglev(), with_encapsulation()},
          .files = {{"key.txt", "00112233445566778899aabbccddeeff\n"}}};
}

}  // namespace xdpgpu::tests
