// SPDX-License-Identifier: MIT
#include "userspace/compiler/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "gpu/programs.hpp"
#include "gpu/stages/walk.hpp"
#include "userspace/policy/diversion.hpp"

namespace xdpgpu::compiler {
namespace {

// Everything that a stage's table of fields has.
class StageInputs : public gpu::Walk<StageInputs> {
 public:
  StageInputs(InputHash& hash, const std::map<std::string, ArtifactId>& lists,
              std::span<const ArtifactId> routes)
      : hash_(hash), lists_(lists), routes_(routes) {}

  void word(std::string_view key, const auto& value, auto&&...) { add(key, value); }
  void flag(std::string_view key, const bool& value, auto&&...) { add(key, value); }
  void integer(std::string_view key, const auto& value, auto&&...) { add(key, value); }
  void time(std::string_view key, const u32& ms, auto&&...) { add(key, ms); }
  void bytes(std::string_view key, const u32& value, auto&&...) { add(key, value); }
  void cache(const bool& on, const u32& ttl_ms, auto&&...) {
    add("cache", on);
    hash_.value(ttl_ms);
  }
  void text(std::string_view key, const std::string& value, auto&&...) {
    hash_.add(key);
    hash_.add(value);
  }
  void file(std::string_view key, const std::string& value, auto&&...) { text(key, value); }
  // third: whether it was given, of those that may be missing.
  template <class Third>
  void mac(std::string_view key, const gpu::Mac& value, const Third& third, auto&&...) {
    add(key, value);
    if constexpr (std::is_same_v<Third, bool>) hash_.value(u8{third});
  }
  void host(std::string_view key, const gpu::Prefix& value, auto&&...) { add(key, value); }
  void source(std::string_view key, const std::optional<gpu::Prefix>& value, auto&&...) { maybe(key, value); }
  void prefixes(std::string_view key, const std::vector<gpu::Prefix>& values, auto&&...) { all(key, values); }
  void protocols(std::string_view key, const std::vector<u8>& values, auto&&...) { all(key, values); }
  void ports(std::string_view key, const std::vector<gpu::PortRange>& values, auto&&...) { all(key, values); }
  void tcp_flags(std::string_view key, const std::optional<gpu::TcpFlags>& value, auto&&...) {
    maybe(key, value);
  }
  void vlans(std::string_view key, const std::vector<gpu::VlanRange>& values, auto&&...) { all(key, values); }
  void port(std::string_view key, const std::string& name, const bool& used, const u32& index, auto&&...) {
    text(key, name);
    hash_.value(u8{used});
    hash_.value(index);
  }
  void action(std::string_view key, const gpu::Action& action, const std::string& to, const u32& index,
              auto&&...) {
    text(key, to);
    hash_.value(action);
    hash_.value(index);
  }
  void list(std::string_view key, const std::string& name, auto&&...) {
    text(key, name);
    hash_.add(lists_.at(name));
  }
  void secret(std::string_view key, const std::string&, const std::optional<std::array<u64, 2>>& value,
              auto&&...) {
    maybe(key, value);
  }
  void routes(std::string_view key, auto&&...) {
    hash_.add(key);
    hash_.add(routes_[next_routes_++]);
  }
  void rules(std::string_view key, const gpu::RuleSource& source, auto&&...) {
    records(key, source.files.size(), 0, 0);
    for (const gpu::RuleFile& file : source.files) add_file(file);
    hash_.value(u64{source.sets.size()});
    for (const auto& strings : source.sets) {
      hash_.add(strings.set->name);
      hash_.add(strings.set->bytes);
      hash_.array(strings.set->ends);
    }
  }
  void rule_variables(std::string_view key, const std::vector<gpu::RuleVariable>& variables, auto&&...) {
    records(key, variables.size(), 0, 0);
    for (const auto& [name, values] : variables) {
      records(name, values.size(), 0, 0);
      for (const std::string& value : values) hash_.add(value);
    }
  }
  void rule_file(std::string_view key, const gpu::RuleFile& file, auto&&...) {
    hash_.add(key);
    add_file(file);
  }
  void records(std::string_view key, u64 count, u64, u64) {
    hash_.add(key);
    hash_.value(count);
  }
  template <class Records>
  void by_name(std::string_view key, Records& values, u64 least, u64 most, auto&&... rest) {
    for (const auto& one : values) hash_.add(one.name);
    Walk::by_name(key, values, least, most, rest...);
  }
  template <class Record>
  void record(std::string_view key, Record& value, auto&&... rest) {
    if constexpr (requires { value.has_value(); }) records(key, value ? 1 : 0, 0, 1);
    Walk::record(key, value, rest...);
  }

 private:
  void add_file(const gpu::RuleFile& file) {
    hash_.add(file.name);
    hash_.add(file.text ? std::string_view(*file.text) : std::string_view());
  }
  template <class T>
  void add(std::string_view key, const T& value) {
    hash_.add(key);
    if constexpr (std::is_same_v<T, bool>)
      hash_.value(u8{value});
    else
      hash_.value(value);
  }
  template <class T>
  void maybe(std::string_view key, const std::optional<T>& value) {
    records(key, value ? 1 : 0, 0, 1);
    if (value) hash_.value(*value);
  }
  template <class T>
  void all(std::string_view key, const std::vector<T>& values) {
    hash_.add(key);
    hash_.array(values);
  }

  InputHash& hash_;
  const std::map<std::string, ArtifactId>& lists_;
  std::span<const ArtifactId> routes_;
  std::size_t next_routes_ = 0;
};

void add_lists(InputHash& hash, const std::vector<std::string>& names,
               const std::map<std::string, ArtifactId>& lists, std::set<std::string>& seen) {
  for (const auto& name : names)
    if (seen.insert(name).second) {
      hash.add(name);
      hash.add(lists.at(name));
    }
}

// Not needed where there is no such stage.
[[maybe_unused]] void add_program(InputHash& hash, const gpu::programs::Program& program) {
  hash.add(program.name);
  hash.value(u64{program.instructions.size()});
  for (const auto& one : program.instructions) {
    hash.value(one.opcode);
    hash.value(one.destination);
    hash.value(one.source);
    hash.value(one.offset);
    hash.value(one.immediate);
  }
  hash.value(u64{program.maps.size()});
  for (const auto& map : program.maps) {
    hash.add(map.name);
    for (const u32 number : {map.type, map.key_bytes, map.value_bytes, map.entries, map.flags,
                             static_cast<u32>(map.inner), u32{map.constant}})
      hash.value(number);
    hash.array(map.contents);
  }
}

}  // namespace

InputHash::InputHash(std::string_view kind) {
  crypto_generichash_init(&state_, nullptr, 0, std::tuple_size_v<ArtifactId>);
  add(kind);
  value(kCompilerVersion);
}

void InputHash::bytes(const void* data, std::size_t size) {
  crypto_generichash_update(&state_, static_cast<const unsigned char*>(data), size);
}

void InputHash::add(std::string_view text) {
  value(u64{text.size()});
  bytes(text.data(), text.size());
}

ArtifactId InputHash::id() {
  ArtifactId id{};
  crypto_generichash_final(&state_, id.data(), id.size());
  return id;
}

ArtifactId id_of(const std::vector<policy::Prefix>& prefixes) {
  InputHash hash("prefixes");
  hash.array(prefixes);
  return hash.id();
}

ArtifactId id_of(const gpu::DomainNames& names) {
  InputHash hash("names");
  hash.add(names.text ? std::string_view(*names.text) : std::string_view());
  return hash.id();
}

ArtifactId id_of(const RouteTable& routes) {
  InputHash hash("routes");
  hash.value(u64{routes.routes.size()});
  for (const gpu::Route& route : routes.routes) {
    hash.value(route.prefix);
    hash.value(route.next_hop);
  }
  for (const gpu::RouteSource& source : routes.sources) {
    hash.add(source.file);
    hash.value(source.count);
  }
  return hash.id();
}

ArtifactId id_of(const gpu::StageSettings& stage, const Target& target,
                 const std::map<std::string, ArtifactId>& lists, std::span<const ArtifactId> routes,
                 bool inner) {
  InputHash hash("code");
  hash.value(u8{inner});
  hash.add(gpu::stage_name(stage));
  hash.value(target.hash_key);
  StageInputs inputs(hash, lists, routes);
  std::visit([&](const auto& settings) { fields_of(inputs, settings); }, stage);
  std::visit(
      [&]<class Settings>(const Settings& settings) {
        if constexpr (gpu::StageInfo<Settings>::kTraits.programs) {
          hash.value(u8{settings.program != nullptr});
          if (settings.program) add_program(hash, *settings.program);
          hash.value(u64{settings.contents ? settings.contents->size() : 0});
          if (settings.contents)
            for (const auto& of : *settings.contents) {
              hash.value(of.map);
              hash.value(u64{of.entries.size()});
              for (const auto& [key, value] : of.entries) {
                hash.array(key);
                hash.array(value);
              }
            }
        }
      },
      stage);
  // What is no field: whether it is fed by what the host sends, and which of its parts are down.
  hash.value(u8{gpu::sees_egress(stage)});
  for (const auto& check : gpu::health_checks(stage))
    hash.value(u8{target.down.contains({check.address, check.health})});
  return hash.id();
}

ArtifactId id_of_tables(const policy::Policy& policy, const std::map<std::string, ArtifactId>& lists,
                        std::span<const std::string> ports) {
  InputHash hash("tables");
  hash.add(policy::to_json(policy));
  std::set<std::string> seen;
  const auto add = [&](const policy::Match& match) {
    add_lists(hash, match.src_lists, lists, seen);
    add_lists(hash, match.dst_lists, lists, seen);
  };
  for (const auto& one : policy.management) add(one);
  for (const auto& rule : policy.rules) add(rule.match);
  // What rule files say of it, and where their interfaces stand.
  for (const policy::Diversion& one : policy::diversions_of(policy)) {
    hash.value(one.pipeline);
    hash.value(static_cast<u64>(std::find(ports.begin(), ports.end(), one.to) - ports.begin()));
    hash.value(u64{one.conditions.size()});
    for (const policy::Match& match : one.conditions) {
      hash.array(match.src);
      hash.array(match.dst);
      hash.array(match.protocols);
      hash.array(match.src_ports);
      hash.array(match.dst_ports);
    }
  }
  return hash.id();
}

}  // namespace xdpgpu::compiler
