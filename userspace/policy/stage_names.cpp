// SPDX-License-Identifier: MIT
#include "userspace/policy/stage_names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/stages/walk.hpp"
#include "userspace/policy/document.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

using gpu::Walk;

// As a JSON pointer, below the stage.
std::string pointer_of(const std::vector<std::string>& path) {
  std::string pointer;
  for (const std::string& key : path) pointer += pointer_token(key);
  return pointer;
}

struct ListNames : Walk<ListNames> {
  std::vector<std::string> names;
  void list(std::string_view, const std::string& name, auto&&...) { names.push_back(name); }
};

struct RouteCount : Walk<RouteCount> {
  u64 count = 0;
  void routes(std::string_view, const std::vector<gpu::Route>& values, auto&&...) { count += values.size(); }
};

struct PortNames : Walk<PortNames> {
  void port(std::string_view key, const std::string& name, auto&&...) {
    if (!name.empty()) named.push_back({name, fmt::format("{}/{}", pointer_of(path()), key)});
  }
  void action(std::string_view key, const gpu::Action&, const std::string& to, auto&&...) {
    if (!to.empty()) named.push_back({to, fmt::format("{}/{}/redirect", pointer_of(path()), key)});
  }
  std::vector<NamedPort> named;
};

class Resolver : public Walk<Resolver> {
 public:
  Resolver(const std::function<u32(const std::string&)>& port, const std::map<std::string, List>& lists)
      : port_(port), lists_(lists) {}
  void port(std::string_view, const std::string& name, bool& used, u32& index, auto&&...) {
    if (name.empty()) return;
    used = true;
    index = port_(name);
  }
  void action(std::string_view, const gpu::Action&, const std::string& to, u32& index, auto&&...) {
    if (!to.empty()) index = port_(to);
  }
  void list(std::string_view, const std::string& name, std::vector<gpu::Prefix>& prefixes, auto&&...) {
    const auto& from = lists_.at(name).prefixes;
    prefixes.clear();
    prefixes.reserve(from.size());
    for (const Prefix& one : from) prefixes.push_back(device_prefix(one));
  }
  void list(std::string_view, const std::string& name, gpu::DomainNames& names, auto&&...) {
    names = lists_.at(name).names;
  }

 private:
  const std::function<u32(const std::string&)>& port_;
  const std::map<std::string, List>& lists_;
};

template <class Table>
Table walked(const Stage& stage) {
  Table table;
  std::visit([&](const auto& settings) { fields_of(table, settings); }, stage);
  return table;
}

template <class F>
void each_stage(const Policy& policy, F&& use) {
  for (const auto& pipeline : policy.pipelines)
    for (const auto& stage : pipeline.stages) use(stage);
}

}  // namespace

std::vector<std::string> lists_of(const Stage& stage) { return walked<ListNames>(stage).names; }
u64 routes_of(const Stage& stage) { return walked<RouteCount>(stage).count; }
std::vector<NamedPort> ports_of(const Stage& stage) { return walked<PortNames>(stage).named; }

void resolve(Stage& stage, const std::function<u32(const std::string& name)>& port,
             const std::map<std::string, List>& lists) {
  Resolver resolver(port, lists);
  std::visit([&](auto& settings) { fields_of(resolver, settings); }, stage);
}

std::map<std::string, u32> outer_mtus(const Policy& policy) {
  std::map<std::string, u32> mtus;
  each_stage(policy, [&](const Stage& stage) {
    for (const auto& [to, mtu] : gpu::outer_mtus(stage)) mtus[to] = std::max(mtus[to], mtu);
  });
  return mtus;
}

bool asks_router(const Policy& policy) {
  bool asks = false;
  each_stage(policy, [&](const Stage& stage) { asks |= gpu::traits_of(stage).asks_router; });
  return asks;
}

}  // namespace xdpgpu::policy
