// SPDX-License-Identifier: MIT
#include "userspace/policy/stage_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "userspace/policy/values.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::policy {
namespace {

using Json = nlohmann::ordered_json;
using gpu::Say;

template <class E>
std::string name_of(E value, std::span<const gpu::Named<E>> names) {
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const auto& one) { return one.value == value; });
  return found == names.end() ? "" : std::string(found->name);
}

// One port is a number, all else a text.
Json write_rule_value(const std::string& value) {
  u16 port = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), port);
  if (error == std::errc() && end == value.data() + value.size() && fmt::to_string(port) == value)
    return port;
  return value;
}

// A Table (gpu/stages/fields.hpp) that writes.
class FieldWriter {
 public:
  explicit FieldWriter(Json& json) : json_(&json) {}

  void about(std::string_view) {}
  void any_of(const std::vector<std::string_view>&, std::string_view) {}

  template <class E>
  void word(std::string_view key, const E& value, std::span<const gpu::Named<std::type_identity_t<E>>> names,
            std::string_view, const Say& say) {
    put(key, say, [&] { return name_of<E>(value, names); });
  }
  void flag(std::string_view key, const bool& value, std::string_view, const Say& say) {
    put(key, say, [&] { return value; });
  }
  template <class T>
  void integer(std::string_view key, const T& value, u64, u64, std::string_view, const Say& say) {
    put(key, say, [&] { return u64{value}; });
  }
  void time(std::string_view key, const u32& ms, u64, u64, std::string_view, const Say& say) {
    put(key, say, [&] { return write_duration(ms * kNsPerMs); });
  }
  void bytes(std::string_view key, const u32& value, u64, u64, std::string_view, const Say& say) {
    put(key, say, [&] { return write_size(value); });
  }
  void cache(const bool& on, const u32& ttl_ms, std::string_view, const Say& say) {
    put("cache", say, [&] { return on && ttl_ms != 0 ? Json(write_duration(ttl_ms * kNsPerMs)) : Json(on); });
  }
  void port(std::string_view key, const std::string& name, const bool&, const u32&, std::string_view,
            const Say& say) {
    if (!name.empty()) put(key, say, [&] { return name; });
  }
  void action(std::string_view key, const gpu::Action& action, const std::string& to, const u32&,
              std::span<const gpu::Named<gpu::Action>> names, std::string_view, const Say& say) {
    put(key, say, [&] {
      return action == gpu::Action::redirect ? Json{{"redirect", to}}
                                             : Json(name_of<gpu::Action>(action, names));
    });
  }
  void text(std::string_view key, const std::string& value, std::string_view, const Say& say) {
    put(key, say, [&] { return value; });
  }
  void file(std::string_view key, const std::string& value, std::string_view, const Say& say) {
    put(key, say, [&] { return value; });
  }
  void mac(std::string_view key, const gpu::Mac& value, std::string_view, const Say& say) {
    put(key, say, [&] { return write_mac(value); });
  }
  void mac(std::string_view key, const gpu::Mac& value, const bool& given, std::string_view says,
           const Say& say) {
    if (given) mac(key, value, says, say);
  }
  void host(std::string_view key, const gpu::Prefix& value, std::string_view, const Say& say) {
    if (value.length != 0) put(key, say, [&] { return write_prefix(policy_prefix(value)); });
  }
  void source(std::string_view key, const std::optional<gpu::Prefix>& value, u32, u32, std::string_view,
              const Say& say) {
    if (value) put(key, say, [&] { return write_prefix(policy_prefix(*value)); });
  }
  void prefixes(std::string_view key, const std::vector<gpu::Prefix>& values, std::string_view,
                const Say& say) {
    several(key, values, say, [](const gpu::Prefix& one) { return Json(write_prefix(policy_prefix(one))); });
  }
  void protocols(std::string_view key, const std::vector<u8>& values, std::string_view, const Say& say) {
    if (!values.empty()) put(key, say, [&] { return write_protocols(values); });
  }
  void ports(std::string_view key, const std::vector<gpu::PortRange>& values, std::string_view,
             const Say& say) {
    several(key, values, say, [](const auto& one) { return write_port_range(one.first, one.last); });
  }
  void tcp_flags(std::string_view key, const std::optional<gpu::TcpFlags>& value, std::string_view,
                 const Say& say) {
    if (value) put(key, say, [&] { return write_tcp_flags({value->mask, value->value}); });
  }
  void vlans(std::string_view key, const std::vector<gpu::VlanRange>& values, std::string_view,
             const Say& say) {
    several(key, values, say, [](const auto& one) { return write_vlan_range(one.first, one.last); });
  }
  void list(std::string_view key, const std::string& name, const auto&, std::string_view, const Say& say) {
    put(key, say, [&] { return "@" + name; });
  }
  void secret(std::string_view key, const std::string& file, const std::optional<std::array<u64, 2>>& value,
              std::string_view, const Say& say) {
    if (value) put(key, say, [&] { return file; });
  }
  template <class Target>
  void routes(std::string_view key, const std::vector<gpu::Route>& values,
              const std::vector<gpu::RouteSource>& sources, const std::vector<Target>& targets,
              std::string_view, const Say& say) {
    put(key, say, [&] {
      Json all = Json::array();
      std::size_t at = 0;
      for (const gpu::RouteSource& source : sources) {
        if (!source.file.empty()) {
          all.push_back({{"file", source.file}});
        } else if (source.count != 0) {
          Json prefixes = Json::array();
          for (std::size_t i = at; i < at + source.count; i++)
            prefixes.push_back(write_prefix(policy_prefix(values[i].prefix)));
          const u32 target = values[at].next_hop;
          all.push_back({{"prefix", one_or_more(std::move(prefixes))},
                         {"next_hop", target == gpu::kRoutePass   ? "pass"
                                      : target == gpu::kRouteDrop ? "drop"
                                                                  : targets[target].name}});
        }
        at += source.count;
      }
      return all;
    });
  }
  void rules(std::string_view key, const gpu::RuleSource& source, std::string_view, const Say& say) {
    put(key, say, [&] { return Json(source.paths); });
  }
  void rule_variables(std::string_view key, const std::vector<gpu::RuleVariable>& variables, std::string_view,
                      const Say& say) {
    put(key, say, [&] {
      Json object = Json::object();
      for (const auto& [name, values] : variables) {
        Json all = Json::array();
        for (const std::string& value : values) all.push_back(write_rule_value(value));
        object[name] = one_or_more(std::move(all));
      }
      return object;
    });
  }
  void rule_file(std::string_view key, const gpu::RuleFile& file, std::string_view, const Say& say) {
    put(key, say, [&] { return file.name; });
  }
  template <class Record>
  void array(std::string_view key, const std::vector<Record>& values, u64, u64, std::string_view,
             std::string_view, const Say& say) {
    put(key, say, [&] {
      Json all = Json::array();
      for (const Record& one : values) all.push_back(inside(one));
      return all;
    });
  }
  template <class Record>
  void by_name(std::string_view key, const std::vector<Record>& values, u64, u64, std::string_view,
               std::string_view, const Say& say) {
    put(key, say, [&] {
      Json all = Json::object();
      for (const Record& one : values) all[one.name] = inside(one);
      return all;
    });
  }
  template <class Record>
  void record(std::string_view key, const std::optional<Record>& value, std::string_view what,
              std::string_view says, const Say& say) {
    if (value) record(key, *value, what, says, say);
  }
  template <class Record>
  void record(std::string_view key, const Record& value, std::string_view, std::string_view, const Say& say) {
    put(key, say, [&] { return inside(value); });
  }
  template <class Inner>
  void group(std::string_view key, std::string_view, std::string_view, const Say& say, Inner&& inner) {
    put(key, say, [&] {
      Json object = Json::object();
      FieldWriter writer(object);
      inner(writer);
      return object;
    });
  }

 private:
  template <class Value>
  void put(std::string_view key, const Say& say, Value&& value) {
    if (say.shown && say.fits) (*json_)[std::string(key)] = value();
  }
  template <class T, class Write>
  void several(std::string_view key, const std::vector<T>& values, const Say& say, Write&& write) {
    if (values.empty()) return;
    put(key, say, [&] {
      Json all = Json::array();
      for (const T& one : values) all.push_back(write(one));
      return one_or_more(std::move(all));
    });
  }
  template <class Settings>
  static Json inside(const Settings& settings) {
    Json object = Json::object();
    FieldWriter writer(object);
    fields_of(writer, settings);
    return object;
  }
  Json* json_;
};

}  // namespace

Json one_or_more(Json values) { return values.size() == 1 ? values[0] : std::move(values); }

Json write_size(u64 bytes) {
  const std::string text = write_bytes(bytes);
  return text == fmt::to_string(bytes) ? Json(bytes) : Json(text);
}

Json write_protocols(const std::vector<u8>& protocols) {
  Json values = Json::array();
  for (u8 number : protocols) {
    const auto name = protocol_name(number);
    values.push_back(name.empty() ? Json(number) : Json(name));
  }
  return one_or_more(std::move(values));
}

Json write_port_range(u16 first, u16 last) {
  return first == last ? Json(first) : Json(std::to_string(first) + "-" + std::to_string(last));
}

Json write_vlan_range(u16 first, u16 last) {
  if (first < kLeastVlan || first > kMostVlan) return words::kVlan[first == 0 ? 0 : 1];
  return write_port_range(first, last);
}

Json write_stage(const Stage& stage, const std::string& description) {
  Json json = {{"stage", gpu::stage_name(stage)}};
  if (!description.empty()) json["description"] = description;
  FieldWriter writer(json);
  std::visit([&](const auto& settings) { fields_of(writer, settings); }, stage);
  return json;
}

}  // namespace xdpgpu::policy
