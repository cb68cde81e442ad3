// SPDX-License-Identifier: MIT
#include "userspace/policy/stage_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "gpu/stages/fields.hpp"
#include "gpu/stages/list.hpp"
#include "userspace/policy/rule_files.hpp"
#include "userspace/policy/stage_writer.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

using Json = nlohmann::ordered_json;
using gpu::Keys;
using gpu::Say;
constexpr const char* kMark = "$comment";
constexpr const char* kMade = "From the stage's table of fields: stage-tables writes this.";

std::string reference(std::string_view name) { return fmt::format("#/$defs/{}", name); }

// A Table (gpu/stages/fields.hpp) that says of an object what the schema says: its definition, and those of
// the objects in it, each by a name of its own.
class SchemaTable {
 public:
  struct Definition {
    std::string name;
    Json schema;
  };
  SchemaTable(std::string name, std::vector<Definition>& all) : name_(std::move(name)), all_(all) {
    schema_ = {{kMark, kMade}, {"type", "object"}, {"additionalProperties", false}};
    properties_ = Json::object();
  }
  // Puts the definition in front of those of the objects in it.
  void finish(std::size_t at) {
    if (!required_.empty()) schema_["required"] = required_;
    if (!any_of_.empty()) schema_["anyOf"] = any_of_;
    if (!needs_.empty()) schema_["dependentRequired"] = needs_;
    schema_["properties"] = properties_;
    all_.insert(all_.begin() + static_cast<std::ptrdiff_t>(at), {name_, schema_});
  }
  Json& properties() { return properties_; }
  Json& required() { return required_; }

  void about(std::string_view sentence) { schema_["description"] = sentence; }
  void any_of(const Keys& keys, std::string_view) {
    any_of_ = Json::array();
    for (const auto key : keys) any_of_.push_back({{"required", {key}}});
  }
  template <class E>
  void word(std::string_view key, const E& value, std::span<const gpu::Named<std::type_identity_t<E>>> names,
            std::string_view says, const Say& say) {
    Json words = Json::array(), now;
    for (const auto& one : names) {
      words.push_back(one.name);
      if (one.value == value) now = one.name;
    }
    put(key, says, say, {{"enum", words}}, now);
  }
  void flag(std::string_view key, bool value, std::string_view says, const Say& say) {
    put(key, says, say, {{"type", "boolean"}}, value);
  }
  void integer(std::string_view key, u64 value, u64 least, u64 most, std::string_view says, const Say& say) {
    put(key, says, say, {{"type", "integer"}, {"minimum", least}, {"maximum", most}}, value);
  }
  void time(std::string_view key, u32 ms, u64, u64, std::string_view says, const Say& say) {
    put(key, says, say, {{"$ref", reference("duration")}}, write_duration(ms * kNsPerMs));
  }
  void bytes(std::string_view key, u32 value, u64 least, u64 most, std::string_view says, const Say& say) {
    const Json number = {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
    put(key, says, say, {{"oneOf", {number, {{"$ref", reference("bytes")}}}}}, write_size(value));
  }
  void cache(bool, u32, std::string_view says, const Say& say) {
    put("cache", says, say, {{"$ref", reference("cache")}}, {});
  }
  void port(std::string_view key, const std::string&, bool, u32, std::string_view says, const Say& say) {
    put(key, says, say, {{"$ref", reference("interface")}}, {});
  }
  void action(std::string_view key, gpu::Action value, const std::string&, u32,
              std::span<const gpu::Named<gpu::Action>> names, std::string_view says, const Say& say) {
    if (names.size() == std::size(gpu::kActionNames))
      return put(key, says, say, {{"$ref", reference("stageAction")}}, {});
    Json words = Json::array(), usual;
    for (const auto& one : names) {
      words.push_back(one.name);
      if (one.value == value && !say.required) usual = one.name;
    }
    put(key, says, say, {{"oneOf", {{{"enum", words}}, {{"$ref", reference("redirect")}}}}}, usual);
  }
  void text(std::string_view key, const std::string&, std::string_view says, const Say& say) {
    put(key, says, say, {{"$ref", reference("label")}}, {});
  }
  void file(std::string_view key, const std::string&, std::string_view says, const Say& say) {
    put(key, says, say, file_schema(), {});
  }
  void mac(std::string_view key, const gpu::Mac&, std::string_view says, const Say& say) {
    put(key, says, say, {{"$ref", reference("mac")}}, {});
  }
  void mac(std::string_view key, const gpu::Mac& value, bool, std::string_view says, const Say& say) {
    mac(key, value, says, say);
  }
  void host(std::string_view key, const gpu::Prefix&, std::string_view says, const Say& say) {
    put(key, says, say, {{"type", "string"}, {"minLength", 1}, {"maxLength", 64}}, {});
  }
  void source(std::string_view key, const std::optional<gpu::Prefix>&, u32, u32, std::string_view says,
              const Say& say) {
    host(key, {}, says, say);
  }
  void prefixes(std::string_view key, const auto&, std::string_view says, const Say& say) {
    put(key, says, say, {{"$ref", reference("prefixes")}}, {});
  }
  void protocols(std::string_view key, const auto&, std::string_view says, const Say& say) {
    put(key, says, say, {{"$ref", reference("protocols")}}, {});
  }
  void ports(std::string_view key, const auto&, std::string_view says, const Say& say) {
    put(key, says, say, {{"$ref", reference("ports")}}, {});
  }
  void tcp_flags(std::string_view key, const auto&, std::string_view says, const Say& say) {
    put(key, says, say, {{"$ref", reference("tcpFlags")}}, {});
  }
  void vlans(std::string_view key, const auto&, std::string_view says, const Say& say) {
    put(key, says, say, {{"$ref", reference("vlans")}}, {});
  }
  void list(std::string_view key, const std::string&, const auto&, std::string_view says, const Say& say) {
    put(key, says, say, {{"type", "string"}, {"pattern", "^@[A-Za-z0-9_.-]{1,64}$"}}, {});
  }
  void secret(std::string_view key, const std::string&, const auto&, std::string_view says, const Say& say) {
    put(key, says, say, file_schema(), {});
  }
  void routes(std::string_view key, const auto&, const auto&, const auto&, std::string_view says,
              const Say& say) {
    put(key, says, say,
        {{"type", "array"},
         {"items", {{"oneOf", {{{"$ref", reference("route")}}, {{"$ref", reference("routeFile")}}}}}}},
        {});
  }
  void rules(std::string_view key, const auto&, std::string_view says, const Say& say) {
    put(key, says, say,
        {{"type", "array"}, {"minItems", 1}, {"maxItems", kMaxRulePaths}, {"items", file_schema()}}, {});
  }
  void rule_variables(std::string_view key, const auto&, std::string_view says, const Say& say) {
    const Json value = {{"oneOf",
                         {{{"type", "string"}, {"minLength", 1}, {"maxLength", kMaxVariableBytes}},
                          {{"type", "integer"}, {"minimum", 0}, {"maximum", 65535}}}}};
    put(key, says, say,
        {{"type", "object"},
         {"maxProperties", kMaxRuleVariables},
         {"propertyNames", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]{0,63}$"}}},
         {"additionalProperties",
          {{"anyOf",
            {value,
             {{"type", "array"}, {"minItems", 1}, {"maxItems", kMaxVariableValues}, {"items", value}}}}}}},
        {});
  }
  void rule_file(std::string_view key, const auto&, std::string_view says, const Say& say) {
    put(key, says, say, file_schema(), {});
  }
  template <class Record>
  void array(std::string_view key, const std::vector<Record>&, u64 least, u64 most, std::string_view,
             std::string_view says, const Say& say) {
    Json schema = {{"type", "array"}};
    if (least != 0) schema["minItems"] = least;
    schema["maxItems"] = most;
    schema["items"] = {{"$ref", reference(inside(key, Record{}))}};
    put(key, says, say, schema, {});
  }
  template <class Record>
  void by_name(std::string_view key, const std::vector<Record>&, u64 least, u64 most, std::string_view,
               std::string_view says, const Say& say) {
    put(key, says, say,
        {{"type", "object"},
         {"minProperties", least},
         {"maxProperties", most},
         {"propertyNames", {{"$ref", reference("name")}}},
         {"additionalProperties", {{"$ref", reference(inside(key, Record{}))}}}},
        {});
  }
  template <class Record>
  void record(std::string_view key, const std::optional<Record>&, std::string_view what,
              std::string_view says, const Say& say) {
    record(key, Record{}, what, says, say);
  }
  template <class Record>
  void record(std::string_view key, const Record& value, std::string_view, std::string_view says,
              const Say& say) {
    put(key, says, say, {{"$ref", reference(inside(key, value))}}, {});
  }
  template <class Inner>
  void group(std::string_view key, std::string_view, std::string_view says, const Say& say, Inner&& inner) {
    const std::size_t at = all_.size();
    SchemaTable table(name_ + "_" + std::string(key), all_);
    inner(table);
    table.finish(at);
    put(key, says, say, {{"$ref", reference(table.name_)}}, {});
  }

 private:
  static Json file_schema() { return {{"type", "string"}, {"minLength", 1}, {"maxLength", 4096}}; }
  void put(std::string_view key, std::string_view says, const Say& say, const Json& schema, const Json& now) {
    Json property = Json::object();
    if (!says.empty()) property["description"] = says;
    property.update(schema);
    if (!now.is_null() && say.shown && !say.derived && !say.required) property["default"] = now;
    properties_[std::string(key)] = std::move(property);
    if (say.required) required_.push_back(key);
    if (!say.needs.empty()) needs_[std::string(key)] = {say.needs};
  }
  template <class Settings>
  std::string inside(std::string_view key, const Settings& settings) {
    const std::size_t at = all_.size();
    SchemaTable table(name_ + "_" + std::string(key), all_);
    fields_of(table, settings);
    table.finish(at);
    return table.name_;
  }

  std::string name_;
  std::vector<Definition>& all_;
  Json schema_, properties_, required_ = Json::array(), any_of_ = Json::array(), needs_ = Json::object();
};

// Calls use(settings as they are made) for each stage.
template <class F, std::size_t... I>
void each_stage(F&& use, std::index_sequence<I...>) {
  (use(std::variant_alternative_t<I, gpu::StageSettings>{}), ...);
}
template <class F>
void each_stage(F&& use) {
  each_stage(use, std::make_index_sequence<std::variant_size_v<gpu::StageSettings>>{});
}

std::vector<SchemaTable::Definition> definitions() {
  std::vector<SchemaTable::Definition> all;
  Json alternatives = Json::array();
  each_stage([&](const auto& settings) {
    constexpr std::string_view name = gpu::StageInfo<std::remove_cvref_t<decltype(settings)>>::kName;
    const std::size_t at = all.size();
    SchemaTable table{std::string(name), all};
    table.required().push_back("stage");
    table.properties()["stage"] = {{"const", name}};
    table.properties()["description"] = {{"$ref", reference("description")}};
    fields_of(table, settings);
    table.finish(at);
    alternatives.push_back({{"$ref", reference(name)}});
  });
  all.insert(all.begin(), {"stage", {{kMark, kMade}, {"oneOf", std::move(alternatives)}}});
  return all;
}

// ---- the page

std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// A Table that is a stage's in words.
class TextTable {
 public:
  explicit TextTable(StageText& text, std::string path = {}) : text_(text), path_(std::move(path)) {}

  void about(std::string_view sentence) {
    if (path_.empty()) text_.about = sentence;
  }
  void any_of(const Keys&, std::string_view) {}
  template <class E>
  void word(std::string_view key, const E& value, std::span<const gpu::Named<std::type_identity_t<E>>> names,
            std::string_view says, const Say& say) {
    std::vector<std::string> words;
    std::string now;
    for (const auto& one : names) {
      words.push_back(fmt::format("`\"{}\"`", one.name));
      if (one.value == value) now = words.back();
    }
    row(key, fmt::format("{}", fmt::join(words, ", ")), now, says, say);
  }
  void flag(std::string_view key, bool value, std::string_view says, const Say& say) {
    row(key, "`true`, `false`", value ? "`true`" : "`false`", says, say);
  }
  void integer(std::string_view key, u64 value, u64 least, u64 most, std::string_view says, const Say& say) {
    row(key, fmt::format("{} to {}", least, most), fmt::format("{}", value), says, say);
  }
  void time(std::string_view key, u32 ms, u64 least, u64 most, std::string_view says, const Say& say) {
    row(key,
        fmt::format("a time, {} to {}", write_duration(least * kNsPerMs), write_duration(most * kNsPerMs)),
        fmt::format("`\"{}\"`", write_duration(ms * kNsPerMs)), says, say);
  }
  void bytes(std::string_view key, u32 value, u64 least, u64 most, std::string_view says, const Say& say) {
    row(key, fmt::format("bytes, {} to {}", write_bytes(least), write_bytes(most)),
        fmt::format("`{}`", write_size(value).dump()), says, say);
  }
  void cache(bool, u32, std::string_view says, const Say& say) {
    row("cache", "`true`, `false`, a time", "`false`",
        says.empty() ? "Whether the kernel remembers the verdict for the rest of the flow, and for how long."
                     : says,
        say);
  }
  void port(std::string_view key, const std::string&, bool, u32, std::string_view says, const Say& say) {
    row(key, "an interface", "", says, say);
  }
  void action(std::string_view key, gpu::Action value, const std::string&, u32,
              std::span<const gpu::Named<gpu::Action>> names, std::string_view says, const Say& say) {
    std::string words, usual;
    for (const auto& one : names) {
      words += fmt::format("`\"{}\"`, ", one.name);
      if (one.value == value && !say.required) usual = fmt::format("`\"{}\"`", one.name);
    }
    row(key, words + "`{\"redirect\": INTERFACE}`", usual,
        says.empty() ? "What becomes of the packet." : says, say);
  }
  void text(std::string_view key, const std::string&, std::string_view says, const Say& say) {
    row(key, "a name", "", says, say);
  }
  void file(std::string_view key, const std::string&, std::string_view says, const Say& say) {
    row(key, "a file", "", says, say);
  }
  void mac(std::string_view key, const gpu::Mac&, std::string_view says, const Say& say) {
    row(key, "a MAC address", "", says, say);
  }
  void mac(std::string_view key, const gpu::Mac& value, bool, std::string_view says, const Say& say) {
    mac(key, value, says, say);
  }
  void host(std::string_view key, const gpu::Prefix&, std::string_view says, const Say& say) {
    row(key, "an address", "", says, say);
  }
  void source(std::string_view key, const auto&, u32 family, u32 least, std::string_view says,
              const Say& say) {
    row(key, fmt::format("an IPv{} address, or a network of /{} or longer", family, least), "", says, say);
  }
  void prefixes(std::string_view key, const auto&, std::string_view says, const Say& say) {
    row(key, "addresses or prefixes", "", says, say);
  }
  void protocols(std::string_view key, const auto&, std::string_view says, const Say& say) {
    row(key, "protocols, by name or number", "", says, say);
  }
  void ports(std::string_view key, const auto&, std::string_view says, const Say& say) {
    row(key, "ports, or ranges", "", says, say);
  }
  void tcp_flags(std::string_view key, const auto&, std::string_view says, const Say& say) {
    row(key, "flags, like `\"syn,!ack\"`", "", says, say);
  }
  void vlans(std::string_view key, const auto&, std::string_view says, const Say& say) {
    row(key, "VLAN ids, ranges, `\"none\"`, `\"priority\"`", "", says, say);
  }
  void list(std::string_view key, const std::string&, const auto&, std::string_view says, const Say& say) {
    row(key, "`\"@NAME\"`", "", says, say);
  }
  void secret(std::string_view key, const std::string&, const auto&, std::string_view says, const Say& say) {
    row(key, "a file", "", says, say);
  }
  void routes(std::string_view key, const auto&, const auto&, const auto&, std::string_view says,
              const Say& say) {
    row(key, "`{\"prefix\": ..., \"next_hop\": NAME}` or `{\"file\": ...}`, each", "", says, say);
  }
  void rules(std::string_view key, const auto&, std::string_view says, const Say& say) {
    row(key, fmt::format("an array of 1 to {} files or patterns", kMaxRulePaths), "", says, say);
  }
  void rule_variables(std::string_view key, const auto&, std::string_view says, const Say& say) {
    row(key, "an object of values, or arrays of them, by name", "", says, say);
  }
  void rule_file(std::string_view key, const auto&, std::string_view says, const Say& say) {
    row(key, "a file", "", says, say);
  }
  template <class Record>
  void array(std::string_view key, const std::vector<Record>&, u64 least, u64 most, std::string_view,
             std::string_view says, const Say& say) {
    row(key, fmt::format("an array of {} to {} objects", least, most), "", says, say);
    inside(key, "[]", Record{});
  }
  template <class Record>
  void by_name(std::string_view key, const std::vector<Record>&, u64 least, u64 most, std::string_view,
               std::string_view says, const Say& say) {
    row(key, fmt::format("an object of {} to {} objects by name", least, most), "", says, say);
    inside(key, ".NAME", Record{});
  }
  template <class Record>
  void record(std::string_view key, const std::optional<Record>&, std::string_view what,
              std::string_view says, const Say& say) {
    record(key, Record{}, what, says, say);
  }
  template <class Record>
  void record(std::string_view key, const Record& value, std::string_view, std::string_view says,
              const Say& say) {
    row(key, "an object", "", says, say);
    inside(key, "", value);
  }
  template <class Inner>
  void group(std::string_view key, std::string_view, std::string_view says, const Say& say, Inner&& inner) {
    row(key, "an object", "", says, say);
    TextTable table(text_, fmt::format("{}{}.", path_, key));
    inner(table);
  }

 private:
  void row(std::string_view key, const std::string& values, const std::string& now, std::string_view says,
           const Say& say) {
    const bool has_default = say.shown && !say.derived && !say.required;
    text_.fields.push_back(
        {path_ + std::string(key), values, has_default ? now : "", std::string(says), say.required});
  }
  template <class Settings>
  void inside(std::string_view key, std::string_view behind, const Settings& settings) {
    TextTable table(text_, fmt::format("{}{}{}.", path_, key, behind));
    fields_of(table, settings);
  }
  StageText& text_;
  std::string path_;
};

}  // namespace

tl::expected<std::string, std::string> with_stages(std::string_view schema) {
  Json document = Json::parse(schema, nullptr, false);
  if (document.is_discarded() || !document.contains("$defs"))
    return tl::unexpected(std::string("this is no JSON schema with \"$defs\""));
  Json kept = Json::object();
  for (auto& [name, definition] : document["$defs"].items())
    if (!definition.contains(kMark)) kept[name] = std::move(definition);
  for (auto& one : definitions()) kept[one.name] = std::move(one.schema);
  document["$defs"] = std::move(kept);
  return document.dump(2) + "\n";
}

std::vector<StageText> stage_texts() {
  std::vector<StageText> all;
  each_stage([&](const auto& settings) {
    StageText& text = all.emplace_back();
    text.name = gpu::StageInfo<std::remove_cvref_t<decltype(settings)>>::kName;
    TextTable table(text);
    fields_of(table, settings);
  });
  return all;
}

std::string stages_page() {
  std::string page =
      "# The stages\n\n"
      "What each stage of a pipeline can be told. This page is written by `stage-tables config` from the "
      "tables of\n"
      "fields in `gpu/stages/*/settings.hpp`, as is the stages' part of `policy.schema.json`; `README.md` "
      "says how "
      "they\nwork together. Each stage has a `\"description\"`, too, which is for people.\n";
  for (const auto& stage : stage_texts()) {
    page += fmt::format("\n## {}\n\n{}\n\n| key | values | default | |\n|---|---|---|---|\n", stage.name,
                        stage.about);
    for (const auto& field : stage.fields)
      page += fmt::format("| `{}`{} | {} | {} | {} |\n", field.key, field.needed ? " (needed)" : "",
                          cell(field.values), field.usual, cell(field.says));
  }
  return page;
}

}  // namespace xdpgpu::policy
