// SPDX-License-Identifier: MIT
#include "userspace/policy/stage_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <utility>

#include "gpu/stages/compilers.hpp"
#include "userspace/policy/program_files.hpp"
#include "userspace/policy/routes.hpp"
#include "userspace/policy/rule_files.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

using gpu::Keys;
using gpu::Say;
constexpr u64 kMaxTextBytes = 128, kMaxPathBytes = 4096;

// The keys of one object.
class KeyCollector {
 public:
  explicit KeyCollector(Keys& keys) : keys_(keys) {}
  void about(std::string_view) {}
  void any_of(const Keys&, std::string_view) {}
  template <class... Rest>
  void cache(Rest&&...) {
    keys_.push_back("cache");
  }
#define XG_KEY_OF(kind)                        \
  template <class... Rest>                     \
  void kind(std::string_view key, Rest&&...) { \
    keys_.push_back(key);                      \
  }
  XG_KEY_OF(word)
  XG_KEY_OF(flag)
  XG_KEY_OF(integer)
  XG_KEY_OF(time)
  XG_KEY_OF(bytes)
  XG_KEY_OF(port)
  XG_KEY_OF(action)
  XG_KEY_OF(text)
  XG_KEY_OF(file)
  XG_KEY_OF(mac)
  XG_KEY_OF(host)
  XG_KEY_OF(source)
  XG_KEY_OF(prefixes)
  XG_KEY_OF(protocols)
  XG_KEY_OF(ports)
  XG_KEY_OF(tcp_flags)
  XG_KEY_OF(vlans)
  XG_KEY_OF(list)
  XG_KEY_OF(secret)
  XG_KEY_OF(routes)
  XG_KEY_OF(rules)
  XG_KEY_OF(rule_variables)
  XG_KEY_OF(rule_file)
  XG_KEY_OF(array)
  XG_KEY_OF(by_name)
  XG_KEY_OF(record)
  XG_KEY_OF(group)
#undef XG_KEY_OF

 private:
  Keys& keys_;
};

// What a policy wrote at one place.
class WrittenHere : public gpu::Written {
 public:
  WrittenHere(Report& report, const Place& place) : report_(report), place_(place) {}
  bool has(std::string_view key) const override { return at(key).has_value(); }
  void refuse(std::string_view key, std::string sentence) const override {
    const auto named = at(key);
    report_.at(named ? *named : place_, std::move(sentence));
  }
  std::string time(u32 ms) const override { return write_duration(ms * kNsPerMs); }
  void in(std::string_view key, const std::function<void(const Written&)>& use) const override {
    if (const auto named = at(key); named && named->node->as<Object>() != nullptr)
      use(WrittenHere(report_, *named));
  }
  void each(std::string_view key, std::size_t count,
            const std::function<void(std::size_t, const Written&)>& use) const override {
    const auto named = at(key);
    if (!named) return;
    if (const auto* items = named->node->as<Array>())
      for (u32 i = 0; i < std::min(items->size(), count); ++i)
        use(i, WrittenHere(report_, Place{&(*items)[i], &*named, {}, i, true}));
    else if (const auto* members = named->node->as<Object>())
      for (std::size_t i = 0; i < std::min(members->size(), count); ++i)
        use(i, WrittenHere(report_, Place{&(*members)[i].value, &*named, (*members)[i].key}));
  }

 private:
  std::optional<Place> at(std::string_view key) const {
    const auto* members = place_.node->as<Object>();
    if (members == nullptr || key.empty()) return std::nullopt;
    const auto found =
        std::find_if(members->begin(), members->end(), [&](const Member& one) { return one.key == key; });
    if (found == members->end()) return std::nullopt;
    return Place{&found->value, &place_, found->key};
  }
  Report& report_;
  const Place place_;
};

std::string_view trimmed(std::string_view text) {
  constexpr const char* kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// A Table (gpu/stages/fields.hpp) that reads.
class FieldReader {
 public:
  FieldReader(Report& report, StageContext& context) : report_(report), context_(context) {}

  template <class Settings>
  void stage(const Place& place, Settings& settings) {
    inside(place, fmt::format("the stage {}", gpu::StageInfo<Settings>::kName), settings,
           {"stage", "description"});
    if constexpr (gpu::StageInfo<Settings>::kTraits.settles)
      if (place.node->as<Object>() != nullptr) settle(settings, WrittenHere(report_, place));
    if constexpr (gpu::StageInfo<Settings>::kTraits.rule_files)
      make_signatures(report_, place, streams_of(settings), unsupported_to(settings), settings.rules,
                      context_.named_by_rules);
    if constexpr (gpu::StageInfo<Settings>::kTraits.programs)
      read_program_files(report_, place, {settings.object, settings.section, settings.maps},
                         {context_.programs, context_.map_files}, settings.program, settings.contents);
  }

  void about(std::string_view) {}

  template <class E>
  void word(std::string_view key, E& value, std::span<const gpu::Named<std::type_identity_t<E>>> names,
            std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at) return;
    if (const auto found = read_word(report_, *at, words_of(names))) value = names[*found].value;
  }
  void flag(std::string_view key, bool& value, std::string_view, const Say& say) {
    if (const auto at = take(key, say))
      if (const auto read = read_bool(report_, *at)) value = *read;
  }
  template <class T>
  void integer(std::string_view key, T& value, u64 least, u64 most, std::string_view, const Say& say) {
    if (const auto at = take(key, say))
      if (const auto read = read_integer(report_, *at, least, most)) value = static_cast<T>(*read);
  }
  void time(std::string_view key, u32& ms, u64 least_ms, u64 most_ms, std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at) return;
    const auto ns = read_time(report_, *at, "1s");
    if (!ns) return;
    if (*ns % kNsPerMs != 0 || *ns / kNsPerMs < least_ms || *ns / kNsPerMs > most_ms)
      report_.at(*at, fmt::format("this time is whole milliseconds, from {} to {}",
                                  write_duration(least_ms * kNsPerMs), write_duration(most_ms * kNsPerMs)));
    else
      ms = static_cast<u32>(*ns / kNsPerMs);
  }
  void bytes(std::string_view key, u32& value, u64 least, u64 most, std::string_view, const Say& say) {
    if (const auto at = take(key, say))
      if (const auto read = read_size(report_, *at, least, most)) value = static_cast<u32>(*read);
  }
  void cache(bool& on, u32& ttl_ms, std::string_view, const Say& say) {
    if (!take("cache", say)) return;
    const auto read = read_cache(report_, *fields_);
    on = read.has_value();
    ttl_ms = read.value_or(0);
  }
  void port(std::string_view key, std::string& name, bool&, u32&, std::string_view, const Say& say) {
    if (const auto at = take(key, say)) name = read_interface(report_, *at);
  }
  void action(std::string_view key, gpu::Action& action, std::string& to, u32&,
              std::span<const gpu::Named<gpu::Action>> names, std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at) return;
    if (at->node->as<Object>() != nullptr) {
      constexpr std::array<std::string_view, 1> kRedirect{"redirect"};
      const Fields target(report_, *at, kRedirect, "this action");
      action = gpu::Action::redirect;
      if (const auto port = target.require("redirect")) to = read_interface(report_, *port);
    } else if (const auto* text = at->node->as<std::string>(); text != nullptr && *text == "redirect") {
      report_.at(*at, "name the interface to send to: {\"redirect\": \"eth1\"}");
    } else if (const auto word = read_word(report_, *at, words_of(names))) {
      action = names[*word].value;
    }
  }
  void text(std::string_view key, std::string& value, std::string_view, const Say& say) {
    if (const auto at = take(key, say))
      if (const auto read = read_string(report_, *at, kMaxTextBytes)) value = *read;
  }
  void file(std::string_view key, std::string& value, std::string_view, const Say& say) {
    if (const auto at = take(key, say))
      if (const auto read = read_string(report_, *at, kMaxPathBytes)) value = *read;
  }
  void mac(std::string_view key, gpu::Mac& value, std::string_view, const Say& say) {
    if (const auto at = take(key, say))
      if (const auto read = read_mac_at(report_, *at)) value = *read;
  }
  void mac(std::string_view key, gpu::Mac& value, bool& given, std::string_view, const Say& say) {
    if (const auto at = take(key, say))
      if (const auto read = read_mac_at(report_, *at)) {
        value = *read;
        given = true;
      }
  }
  void host(std::string_view key, gpu::Prefix& value, std::string_view, const Say& say) {
    const auto at = take(key, say);
    const auto address = at ? address_at(*at) : std::nullopt;
    if (!address) return;
    if (address->length != (address->family == 4 ? 32 : 128))
      report_.at(*at, fmt::format("\"{}\" is a network: give one address", write_prefix(*address)));
    else
      value = device_prefix(*address);
  }
  void source(std::string_view key, std::optional<gpu::Prefix>& value, u32 family, u32 least,
              std::string_view, const Say& say) {
    const auto at = take(key, say);
    const auto prefix = at ? address_at(*at) : std::nullopt;
    if (!prefix) return;
    const std::string text = write_prefix(*prefix);
    if (prefix->family != family)
      report_.at(*at, fmt::format("\"{}\" is no IPv{} address", text, family));
    else if (prefix->length < least)
      report_.at(*at, fmt::format("\"{}\" is too large a network: the flow fills at most 16 bits, so give "
                                  "/{} or longer, or one address",
                                  text, least));
    else if (!gpu::is_unicast(device_prefix(*prefix)))
      report_.at(*at, fmt::format("packets cannot come from \"{}\": give an address of this host", text));
    else
      value = device_prefix(*prefix);
  }
  void prefixes(std::string_view key, std::vector<gpu::Prefix>& values, std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at) return;
    std::vector<Prefix> read;
    read_prefixes(report_, *at, read);
    values.reserve(read.size());
    for (const Prefix& one : read) values.push_back(device_prefix(one));
  }
  void protocols(std::string_view key, std::vector<u8>& values, std::string_view, const Say& say) {
    if (const auto at = take(key, say)) read_protocols(report_, *at, values);
  }
  void ports(std::string_view key, std::vector<gpu::PortRange>& values, std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at) return;
    std::vector<PortRange> read;
    read_port_ranges(report_, *at, read);
    values.clear();
    for (const PortRange& one : read) values.push_back({one.first, one.last});
  }
  void tcp_flags(std::string_view key, std::optional<gpu::TcpFlags>& value, std::string_view,
                 const Say& say) {
    if (const auto at = take(key, say))
      if (const auto read = read_flags(report_, *at)) value = gpu::TcpFlags{read->mask, read->value};
  }
  void vlans(std::string_view key, std::vector<gpu::VlanRange>& values, std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at) return;
    std::vector<VlanRange> read;
    read_vlan_ranges(report_, *at, read);
    for (const VlanRange& one : read) values.push_back({one.first, one.last});
  }
  void list(std::string_view key, std::string& name, std::vector<gpu::Prefix>&, std::string_view,
            const Say& say) {
    if (const auto at = take(key, say))
      name = read_list_name(report_, *at, context_.lists, List::Type::address);
  }
  void list(std::string_view key, std::string& name, gpu::DomainNames&, std::string_view, const Say& say) {
    if (const auto at = take(key, say))
      name = read_list_name(report_, *at, context_.lists, List::Type::domain);
  }
  // The first digits are the first bytes.
  void secret(std::string_view key, std::string& file, std::optional<std::array<u64, 2>>& value,
              std::string_view, const Say& say) {
    const auto at = take(key, say);
    const auto named = at ? context_.files(*at) : std::nullopt;
    if (!named) return;
    file = named->path;
    if (!named->text) return;
    const std::string_view text = trimmed(*named->text);
    const bool digits = text.size() == 32 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
                          return std::isxdigit(c) != 0;
                        });
    if (!digits)
      return report_.at(*at, fmt::format("{} must hold 32 hexadecimal digits and nothing else, as "
                                         "\"openssl rand -hex 16\" prints them",
                                         named->path));
    std::array<u64, 2> read{};
    for (std::size_t i = 0; i < 16; i++) {
      u64 byte = 0;
      std::from_chars(&text[i * 2], &text[i * 2] + 2, byte, 16);
      read[i / 8] |= byte << i % 8 * 8;
    }
    value = read;
  }
  template <class Target>
  void routes(std::string_view key, std::vector<gpu::Route>& values, std::vector<gpu::RouteSource>& sources,
              const std::vector<Target>& targets, std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at || context_.routes > kMaxPrefixes) return;
    Keys names;
    names.reserve(targets.size());
    for (const Target& one : targets) names.push_back(one.name);
    read_routes(report_, *at, names, context_.files, values, sources);
    context_.routes += values.size();
  }
  void rules(std::string_view key, gpu::RuleSource& source, std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at) return;
    if (const auto* items = at->node->as<Array>();
        items != nullptr && !fits(*at, items->size(), 1, kMaxRulePaths))
      return;
    each_element(report_, *at, [&](const Place& one) {
      auto files = context_.rule_files(one);
      if (const auto* path = one.node->as<std::string>()) source.paths.push_back(*path);
      if (source.files.size() + files.size() > kMaxRuleFiles)
        return report_.at(
            one, fmt::format("with these the stage has more than {} rule files: name fewer", kMaxRuleFiles));
      for (NamedFile& file : files) {
        const bool known = std::any_of(source.files.begin(), source.files.end(),
                                       [&](const gpu::RuleFile& other) { return other.name == file.path; });
        if (!known) source.files.push_back(rule_file_of(std::move(file)));
      }
    });
  }
  void rule_variables(std::string_view key, std::vector<gpu::RuleVariable>& variables, std::string_view,
                      const Say& say) {
    if (const auto at = take(key, say)) variables = read_rule_variables(report_, *at);
  }
  void rule_file(std::string_view key, gpu::RuleFile& file, std::string_view, const Say& say) {
    const auto at = take(key, say);
    auto named = at ? context_.files(*at) : std::nullopt;
    if (named) file = rule_file_of(*std::move(named));
  }
  template <class Record>
  void array(std::string_view key, std::vector<Record>& values, u64 least, u64 most, std::string_view what,
             std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at) return;
    if (const auto* items = at->node->as<Array>(); items != nullptr && !fits(*at, items->size(), least, most))
      return;
    each_element(report_, *at, [&](const Place& one) { inside(one, what, values.emplace_back()); });
  }
  template <class Record>
  void by_name(std::string_view key, std::vector<Record>& values, u64 least, u64 most, std::string_view what,
               std::string_view, const Say& say) {
    const auto at = take(key, say);
    if (!at) return;
    const auto* members = at->node->as<Object>();
    if (members == nullptr)
      return report_.at(*at, fmt::format("must be an object, each member of which is {}, is {}", what,
                                         at->node->type_name()));
    if (!fits(*at, members->size(), least, most)) return;
    for (const auto& member : *members) {
      const Place one{&member.value, &*at, member.key};
      if (!is_identifier(member.key))
        report_.at(one, fmt::format("the name of {} is 1 to 64 letters, digits, '_', '-' and '.', not \"{}\"",
                                    what, member.key.substr(0, 80)));
      Record& record = values.emplace_back();
      record.name = member.key;
      inside(one, what, record);
    }
  }
  template <class Record>
  void record(std::string_view key, std::optional<Record>& value, std::string_view what, std::string_view,
              const Say& say) {
    if (const auto at = take(key, say)) inside(*at, what, value.emplace());
  }
  template <class Record>
  void record(std::string_view key, Record& value, std::string_view what, std::string_view, const Say& say) {
    if (const auto at = take(key, say)) inside(*at, what, value);
  }
  template <class Inner>
  void group(std::string_view key, std::string_view what, std::string_view, const Say& say, Inner&& inner) {
    const auto at = take(key, say);
    if (!at) return;
    Keys keys;
    KeyCollector collector(keys);
    inner(collector);
    read_inside(*at, what, keys, [&] { inner(*this); });
  }
  void any_of(const Keys& keys, std::string_view sentence) {
    if (fields_->is_object() &&
        std::none_of(keys.begin(), keys.end(), [&](auto key) { return fields_->get(key).has_value(); }))
      report_.at(*object_, std::string(sentence));
  }

 private:
  // With a text of its own: the policy's files may go before the policy does.
  static gpu::RuleFile rule_file_of(NamedFile file) {
    return {std::move(file.path), file.text ? std::make_shared<const std::string>(*file.text) : nullptr};
  }
  template <class E>
  static Keys words_of(std::span<const gpu::Named<E>> names) {
    Keys words;
    words.reserve(names.size());
    for (const auto& one : names) words.push_back(one.name);
    return words;
  }
  std::optional<Place> take(std::string_view key, const Say& say) {
    auto at = say.required ? fields_->require(key) : fields_->get(key);
    if (!at) return std::nullopt;
    if (!say.fits)
      report_.at(*at, std::string(say.unless));
    else if (!say.needs.empty() && !fields_->get(say.needs))
      report_.at(*at, std::string(say.lacks));
    else
      return at;
    return std::nullopt;
  }
  bool fits(const Place& place, u64 count, u64 least, u64 most) {
    if (count < least || count > most)
      report_.at(place, fmt::format("{} to {} can stand here, here are {}", least, most, count));
    return count <= most;
  }
  std::optional<Prefix> address_at(const Place& place) {
    const auto text = read_string(report_, place, 64);
    if (!text) return std::nullopt;
    const auto prefix = read_prefix(*text);
    if (prefix) return *prefix;
    report_.at(place, prefix.error());
    return std::nullopt;
  }
  template <class Settings>
  void inside(const Place& place, std::string_view what, Settings& settings, Keys keys = {}) {
    KeyCollector collector(keys);
    fields_of(collector, settings);
    read_inside(place, what, keys, [&] { fields_of(*this, settings); });
  }
  template <class Read>
  void read_inside(const Place& place, std::string_view what, const Keys& keys, Read&& read) {
    const Fields fields(report_, place, keys, what);
    const auto* outer_fields = std::exchange(fields_, &fields);
    const auto* outer_object = std::exchange(object_, &place);
    if (fields.is_object()) read();
    fields_ = outer_fields;
    object_ = outer_object;
  }

  Report& report_;
  StageContext& context_;
  const Fields* fields_ = nullptr;
  const Place* object_ = nullptr;
};

// The stage of this name.
template <std::size_t... I>
std::optional<Stage> stage_of(std::string_view name, std::index_sequence<I...>) {
  std::optional<Stage> made;
  const auto take = [&]<class Settings>(std::type_identity<Settings>) {
    if (gpu::StageInfo<Settings>::kName == name) made = Settings{};
  };
  (take(std::type_identity<std::variant_alternative_t<I, Stage>>{}), ...);
  return made;
}

}  // namespace

std::optional<Stage> read_stage(Report& report, const Place& place, StageContext& context) {
  const auto* members = place.node->as<Object>();
  if (members == nullptr) {
    report.at(place, fmt::format("a stage must be an object, is {}", place.node->type_name()));
    return std::nullopt;
  }
  const Node* kind = nullptr;
  for (const auto& member : *members)
    if (member.key == "stage") kind = &member.value;
  if (kind == nullptr) {
    report.at(place,
              fmt::format("a stage needs the key \"stage\", which is {}", quoted_list(gpu::kStageNames)));
    return std::nullopt;
  }
  const Place kind_place{kind, &place, "stage"};
  const auto* name = kind->as<std::string>();
  if (name != nullptr && find_word(words::kStageAbsent, *name) && !find_word(gpu::kStageNames, *name)) {
    report.at(kind_place, fmt::format("this version does not have the stage \"{}\"; it has {}", *name,
                                      quoted_list(gpu::kStageNames)));
    return std::nullopt;
  }
  const auto known = read_word(report, kind_place, gpu::kStageNames);
  if (!known) return std::nullopt;
  auto stage = stage_of(gpu::kStageNames[*known], std::make_index_sequence<std::variant_size_v<Stage>>{});
  std::visit([&](auto& settings) { FieldReader(report, context).stage(place, settings); }, *stage);
  return stage;
}

}  // namespace xdpgpu::policy
