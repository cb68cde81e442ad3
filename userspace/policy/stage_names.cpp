// SPDX-License-Identifier: MIT
#include "userspace/policy/stage_names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/policy/document.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

using gpu::Say;

// A Table (gpu/stages/fields.hpp) that goes through all records and knows where it is. What is of interest is
// for Self to say: port(), action(), list() and routes().
template <class Self>
class Walk {
 public:
  void about(std::string_view) {}
  void any_of(const std::vector<std::string_view>&, std::string_view) {}
  void word(auto&&...) {}
  void flag(auto&&...) {}
  void integer(auto&&...) {}
  void time(auto&&...) {}
  void cache(auto&&...) {}
  void text(auto&&...) {}
  void mac(auto&&...) {}
  void host(auto&&...) {}
  void source(auto&&...) {}
  void prefixes(auto&&...) {}
  void protocols(auto&&...) {}
  void ports(auto&&...) {}
  void tcp_flags(auto&&...) {}
  void vlans(auto&&...) {}
  void secret(auto&&...) {}
  void port(auto&&...) {}
  void action(auto&&...) {}
  void list(auto&&...) {}
  void routes(auto&&...) {}

  void array(std::string_view key, auto& values, u64, u64, std::string_view, std::string_view, const Say&) {
    for (std::size_t i = 0; i < values.size(); i++)
      below(fmt::format("/{}/{}", key, i), [&] { fields_of(self(), values[i]); });
  }
  void by_name(std::string_view key, auto& values, u64, u64, std::string_view, std::string_view, const Say&) {
    for (auto& one : values)
      below(fmt::format("/{}{}", key, pointer_token(one.name)), [&] { fields_of(self(), one); });
  }
  template <class Record>
  void record(std::string_view key, Record& value, std::string_view, std::string_view, const Say&) {
    below(fmt::format("/{}", key), [&] {
      if constexpr (requires { value.has_value(); }) {
        if (value) fields_of(self(), *value);
      } else {
        fields_of(self(), value);
      }
    });
  }
  void group(std::string_view key, std::string_view, std::string_view, const Say&, auto&& inner) {
    below(fmt::format("/{}", key), [&] { inner(self()); });
  }

 protected:
  const std::string& pointer() const { return pointer_; }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  template <class Do>
  void below(const std::string& token, Do&& act) {
    const std::size_t before = pointer_.size();
    pointer_ += token;
    act();
    pointer_.resize(before);
  }
  std::string pointer_;
};

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
    if (!name.empty()) named.push_back({name, fmt::format("{}/{}", pointer(), key)});
  }
  void action(std::string_view key, const gpu::Action&, const std::string& to, auto&&...) {
    if (!to.empty()) named.push_back({to, fmt::format("{}/{}/redirect", pointer(), key)});
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
