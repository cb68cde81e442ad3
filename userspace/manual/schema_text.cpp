// SPDX-License-Identifier: MIT
#include "userspace/manual/schema_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace xdpgpu::manual {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kDefinitions = "#/$defs/";

// What the page tells, and what it need not: patterns are told by descriptions.
constexpr std::string_view kKnown[] = {"$ref",
                                       "$defs",
                                       "$schema",
                                       "$comment",
                                       "title",
                                       "description",
                                       "type",
                                       "enum",
                                       "const",
                                       "oneOf",
                                       "anyOf",
                                       "items",
                                       "minItems",
                                       "maxItems",
                                       "minimum",
                                       "maximum",
                                       "minLength",
                                       "maxLength",
                                       "pattern",
                                       "default",
                                       "properties",
                                       "required",
                                       "additionalProperties",
                                       "propertyNames",
                                       "minProperties",
                                       "maxProperties",
                                       "not",
                                       "dependentRequired"};

void look(const Json& schema) {
  for (const auto& [key, value] : schema.items())
    if (std::ranges::find(kKnown, key) == std::end(kKnown))
      throw std::runtime_error(
          fmt::format("policy.schema.json says \"{}\", which xdpgpu-policy(5) has no words for", key));
}

std::string literal(const Json& value) { return fmt::format("`{}`", value.dump()); }

std::string bounds(const Json& schema, const char* least, const char* most) {
  const bool from = schema.contains(least), to = schema.contains(most);
  if (from && to) return fmt::format("{} to {}", schema[least].dump(), schema[most].dump());
  if (from) return fmt::format("at least {}", schema[least].dump());
  return to ? fmt::format("at most {}", schema[most].dump()) : "";
}

std::string listed(std::vector<std::string> names) {
  for (auto& name : names) name = fmt::format("`{}`", name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_object(const Json& schema) { return schema.contains("properties"); }

// How an object is told from others in its place: by the keys that it has to have.
std::string shape(const Json& object) {
  if (!object.contains("required")) return "";
  std::string keys;
  for (const auto& key : object["required"]) {
    const auto name = key.get<std::string>();
    const Json& property = object["properties"][name];
    keys += fmt::format("{}\"{}\": {}", keys.empty() ? "" : ", ", name,
                        property.contains("const") ? property["const"].dump() : "...");
  }
  return fmt::format("{{{}}}", keys);
}

// The sentences about keys that go together.
std::vector<std::string> notes_of(const Json& object) {
  std::vector<std::string> notes;
  for (const auto& [word, sentence] : {std::pair{"oneOf", "Exactly one of {} is needed."},
                                       std::pair{"anyOf", "At least one of {} is needed."}}) {
    if (!object.contains(word)) continue;
    std::vector<std::string> keys;
    for (const auto& one : object[word]) keys.push_back(one.at("required").at(0));
    notes.push_back(fmt::format(fmt::runtime(sentence), listed(keys)));
  }
  if (object.contains("not"))
    notes.push_back(fmt::format("Not together: {}.", listed(object["not"].at("required"))));
  if (object.contains("dependentRequired"))
    for (const auto& [key, needed] : object["dependentRequired"].items())
      notes.push_back(fmt::format("`{}` needs {}.", key, listed(needed)));
  if (object.value("minProperties", 0) != 0)
    notes.push_back(fmt::format("It has {} of its keys at least.", object["minProperties"].dump()));
  return notes;
}

}  // namespace

SchemaText::SchemaText(const Json& schema, std::map<std::string, std::string> elsewhere)
    : schema_(schema), elsewhere_(std::move(elsewhere)) {
  read_object(schema, "", "");
  // Each object behind the one that it is in: those that it has go to the front.
  while (!waiting_.empty()) {
    const Waiting next = waiting_.front();
    waiting_.erase(waiting_.begin());
    if (const auto seen = by_identity_.find(next.identity); seen != by_identity_.end())
      objects_[seen->second].places.push_back(next.place);
    else
      read_object(*next.schema, next.place, next.identity);
  }
  std::map<std::string, unsigned> at;
  for (const auto& object : objects_) ++at[object.places.front()];
  for (auto& object : objects_)
    if (at[object.places.front()] == 1) object.shape.clear();
}

const Json& SchemaText::definition(const std::string& name) const { return schema_.at("$defs").at(name); }

std::string SchemaText::about_of(const Json& schema) const {
  if (schema.contains("description")) return schema["description"];
  if (!schema.contains("$ref")) return "";
  return about_of(definition(schema["$ref"].get<std::string>().substr(kDefinitions.size())));
}

void SchemaText::read_object(const Json& schema, const std::string& place, const std::string& identity) {
  look(schema);
  by_identity_[identity] = objects_.size();
  ObjectText object;
  object.places = {place};
  object.shape = shape(schema);
  object.about = schema.value("description", "");
  object.notes = notes_of(schema);
  const Json needed = schema.value("required", Json::array());
  std::vector<Waiting> before;
  before.swap(waiting_);
  for (const auto& [key, property] : schema["properties"].items()) {
    const std::string below = place.empty() ? key : fmt::format("{}.{}", place, key);
    KeyText text{.key = key,
                 .values = values_of(property, below),
                 .about = about_of(property),
                 .usual = {},
                 .needed = std::ranges::find(needed, Json(key)) != needed.end()};
    const Json* usual = &property;
    if (!usual->contains("default") && property.contains("$ref"))
      usual = &definition(property["$ref"].get<std::string>().substr(kDefinitions.size()));
    if (usual->contains("default")) text.usual = literal((*usual)["default"]);
    object.keys.push_back(std::move(text));
  }
  waiting_.insert(waiting_.end(), before.begin(), before.end());
  objects_.push_back(std::move(object));
}

std::string SchemaText::values_of_definition(const std::string& name, const std::string& place) {
  if (const auto found = elsewhere_.find(name); found != elsewhere_.end()) return found->second;
  const Json& one = definition(name);
  if (is_object(one)) {
    waiting_.push_back({&one, place, name});
    const std::string needed = shape(one);
    return needed.empty() ? "an object" : fmt::format("`{}`", needed);
  }
  // Words speak for themselves, and what has objects in it belongs to its place.
  const auto before = waiting_.size();
  std::string values = values_of(one, place);
  if (!one.contains("description") || one.contains("enum") || waiting_.size() > before) return values;
  if (named_.insert(name).second) values_.push_back({name, values, one["description"]});
  return fmt::format("<{}>", name);
}

std::string SchemaText::values_of(const Json& schema, const std::string& place) {
  look(schema);
  if (schema.contains("$ref"))
    return values_of_definition(schema["$ref"].get<std::string>().substr(kDefinitions.size()), place);
  if (schema.contains("const")) return literal(schema["const"]);
  std::vector<std::string> all;
  if (schema.contains("enum")) {
    for (const auto& word : schema["enum"]) all.push_back(literal(word));
    return fmt::format("{}", fmt::join(all, ", "));
  }
  for (const char* word : {"oneOf", "anyOf"})
    if (schema.contains(word)) {
      for (const auto& one : schema[word]) all.push_back(values_of(one, place));
      return fmt::format("{}", fmt::join(all, ", or "));
    }
  const std::string type = schema.at("type");
  if (type == "boolean") return "`true`, `false`";
  if (type == "integer") return fmt::format("a number, {}", bounds(schema, "minimum", "maximum"));
  if (type == "string") {
    const bool bounded = schema.contains("maxLength") || schema.value("minLength", 0) > 1;
    return bounded ? fmt::format("a string of {} characters", bounds(schema, "minLength", "maxLength"))
                   : "a string";
  }
  if (type == "array") {
    const std::string count = bounds(schema, "minItems", "maxItems");
    return fmt::format("an array{}{}: {}", count.empty() ? "" : " of ", count,
                       values_of(schema.at("items"), place + "[]"));
  }
  if (type == "object" && schema.contains("additionalProperties") &&
      schema["additionalProperties"].is_object()) {
    const std::string count = bounds(schema, "minProperties", "maxProperties");
    return fmt::format("an object{}{} by <name>: {}", count.empty() ? "" : " of ", count,
                       values_of(schema["additionalProperties"], place + ".NAME"));
  }
  throw std::runtime_error(fmt::format("policy.schema.json: xdpgpu-policy(5) has no words for {}", place));
}

}  // namespace xdpgpu::manual
