// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::DecapsulateSettings;
using gpu::L2fwdSettings;
using gpu::PipelineSettings;
using gpu::Prefix;
using Action = gpu::AclRule::Action;

std::vector<PipelineSettings> decapsulate(Random& random) {
  using Type = DecapsulateSettings::Type;
  const auto addresses = [](u32 of4, u32 of6) {
    std::vector<Prefix> all;
    std::array<u8, 16> six{0x20, 0x01, 0x0d, 0xb8};
    for (u32 i = 0; i < std::max(of4, of6); i++) {
      six[15] = static_cast<u8>(i);
      if (i < of6) all.push_back(prefix6(six, 128));
      if (i < of4) all.push_back(prefix4(0x0a000000 + i, 32));
    }
    return all;
  };
  const DecapsulateSettings any{Type::any, 6080, addresses(7, 2), Action::pass, 0};
  const DecapsulateSettings ipip{Type::ipip, 0, addresses(8, 1), Action::tx, 0};
  const DecapsulateSettings gue{Type::gue, 6080, addresses(8, 3), Action::redirect, 3};
  const DecapsulateSettings other{Type::any, 6081, addresses(8, 3), Action::redirect, 31};
  const DecapsulateSettings one{Type::any, 6080, addresses(1, 0), Action::pass, 0};
  return {{"any kind", {any}},
          {"any kind, one address", {one}},
          {"IP in IP", {ipip}},
          {"GUE", {gue}},
          {"GUE to another port", {other}},
          {"one behind the other", {ipip, gue, L2fwdSettings{}}},
          {"behind an acl", {mostly_next(random), any}},
          {"before a load balancer", {any, with_outer_headers(random, random_load_balance(random, 3))}}};
}

SettingsCase settings() {
  return {"Decapsulate",
          R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "decapsulate", "description": "what", "type": "gue", "port": 6081, "action": "pass",
             "addresses": ["10.9.0.1", "fd09::1"]}]}})",
          together({each("/pipelines/p/0/type", {R"("gue")", R"("any")"}),
                    each("/pipelines/p/0/addresses", {R"("10.9.0.1")", R"(["10.9.0.1", "fd09::1"])"}),
                    each("/pipelines/p/0/action", {R"("pass")", R"("tx")", R"({"redirect": "IF1"})"}),
                    each("/pipelines/p/0",
                         {R"({"stage": "decapsulate", "type": "ipip", "addresses": "10.9.0.1"})"})})};
}

}  // namespace

StageTests decapsulate_tests() {
  return {.conformance = {{"decapsulate",
                           decapsulate,
                           {.verdicts = 12,
                            .of_these = {XG_VERDICT(XG_DROP, 0u, 1u, gpu::decapsulate_rule::kMalformed),
                                         XG_VERDICT(XG_DROP, 0u, 1u, gpu::decapsulate_rule::kCongested)},
                            .decapsulated = 1000,
                            .congested = 100},
                           10'000,
                           tunnels}},
          .settings = {settings()}};
}

}  // namespace xdpgpu::tests
