// SPDX-License-Identifier: MIT
#include "tests/netns/schema_walk.hpp"

#include <fmt/format.h>

#include <regex>
#include <vector>

namespace xdpgpu::lab {
namespace {

using Json = nlohmann::json;
using Uses = std::set<std::string>;

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string type_of(const Json& value) {
  if (value.is_number_integer()) return "integer";
  return value.type_name();
}

// The words of a pattern's "(a|b|c)".
std::vector<std::string> words_of(const std::string& pattern) {
  static const std::regex kGroup(R"(\(([a-z0-9]+(?:\|[a-z0-9]+)+)[|)])");
  std::vector<std::string> words;
  for (std::sregex_iterator at(pattern.begin(), pattern.end(), kGroup), end; at != end; ++at) {
    const std::string group = (*at)[1];
    static const std::regex kWord("[^|]+");
    for (std::sregex_iterator word(group.begin(), group.end(), kWord); word != end; ++word)
      words.push_back(word->str());
  }
  return words;
}

class Walk {
 public:
  explicit Walk(const Json& schema) : root_(schema) {}

  // ---- what there is
  Uses offers() {
    object_offers("", root_);
    for (const auto& [name, definition] : root_.at("$defs").items())
      if (definition.contains("properties")) object_offers(name, definition);
    return std::move(uses_);
  }

  // ---- what is used
  bool value(const Json& schema, const std::string& definition, const std::string& where, const Json& value,
             Uses& uses) {
    if (schema.contains("$ref")) {
      const std::string name = name_of(schema);
      if (!this->value(root_.at("$defs").at(name), name, where, value, uses)) return false;
    }
    for (const char* several : {"oneOf", "anyOf"})
      if (schema.contains(several) && !one_of(schema.at(several), definition, where, value, uses))
        return false;
    if (schema.contains("type") && schema.at("type") != type_of(value))
      return no(where, fmt::format("{} is no {}", value.dump(), text_of(schema.at("type"))));
    if (schema.contains("const") && schema.at("const") != value)
      return no(where, value.dump() + " is another");
    if (schema.contains("enum")) {
      const Json& words = schema.at("enum");
      if (std::find(words.begin(), words.end(), value) == words.end())
        return no(where, value.dump() + " is none of its words");
      if (is_words(words)) uses.insert(where + "=" + text_of(value));
    }
    if (value.is_boolean() && schema.contains("type")) uses.insert(where + "=" + text_of(value));
    if (value.is_number() && ((schema.contains("minimum") && value < schema.at("minimum")) ||
                              (schema.contains("maximum") && value > schema.at("maximum"))))
      return no(where, value.dump() + " is out of its range");
    if (value.is_string() && schema.contains("pattern") && !string(schema, definition, where, value, uses))
      return false;
    if (value.is_array() && schema.contains("items"))
      for (const auto& element : value)
        if (!this->value(schema.at("items"), definition, where, element, uses)) return false;
    if (value.is_object() && schema.contains("properties"))
      if (!object(schema, definition, value, uses)) return false;
    if (value.is_object() && !schema.contains("properties") && schema.contains("additionalProperties") &&
        schema.at("additionalProperties").is_object())
      for (const auto& [key, member] : value.items())
        if (!this->value(schema.at("additionalProperties"), definition, where, member, uses)) return false;
    return true;
  }
  const std::string& why() const { return why_; }

 private:
  static std::string name_of(const Json& schema) {
    return schema.at("$ref").get<std::string>().substr(std::string_view("#/$defs/").size());
  }
  // Numbers in a list are a range with gaps, of which one stands for the others.
  static bool is_words(const Json& list) { return !list.empty() && !list.front().is_number(); }

  bool no(const std::string& where, const std::string& why) {
    why_ = where + ": " + why;
    return false;
  }

  bool one_of(const Json& alternatives, const std::string& definition, const std::string& where,
              const Json& value, Uses& uses) {
    // Those of an object that only say which of its keys go together.
    if (!alternatives.empty() && alternatives.front().contains("required") &&
        alternatives.front().size() == 1)
      return true;
    for (const auto& alternative : alternatives) {
      Uses its;
      if (!this->value(alternative, definition, where, value, its)) continue;
      uses.merge(its);
      if (!where.empty()) uses.insert(fmt::format("{} as {}", where, type_of(value)));
      return true;
    }
    return no(where, value.dump() + " is none of what it may be; the last: " + why_);
  }

  bool string(const Json& schema, const std::string& definition, const std::string& where, const Json& value,
              Uses& uses) {
    const auto pattern = schema.at("pattern").get<std::string>();
    const auto text = value.get<std::string>();
    if (!std::regex_match(text, std::regex(pattern)))
      return no(where, value.dump() + " is not as it must be");
    for (const auto& word : words_of(pattern))
      if (std::regex_search(text, std::regex("(^|[^a-z])" + word + "($|[^a-z])")))
        uses.insert(fmt::format("{} has {}", named(schema, definition, where), word));
    return true;
  }
  // By the definition where the pattern is one's own, else by the key.
  std::string named(const Json& schema, const std::string& definition, const std::string& where) const {
    const auto at = root_.at("$defs").find(definition);
    return at != root_.at("$defs").end() && at->contains("pattern") &&
                   at->at("pattern") == schema.at("pattern")
               ? definition
               : where;
  }

  bool object(const Json& schema, const std::string& definition, const Json& value, Uses& uses) {
    const Json& properties = schema.at("properties");
    for (const auto& key : schema.value("required", Json::array()))
      if (!value.contains(key)) return no(definition, "it lacks " + text_of(key));
    for (const auto& [key, member] : value.items()) {
      const std::string where = fmt::format("{}.{}", definition, key);
      if (!properties.contains(key)) return no(where, "there is no such key");
      if (!this->value(properties.at(key), definition, where, member, uses)) return false;
      uses.insert(where);
    }
    return true;
  }

  void object_offers(const std::string& name, const Json& schema) {
    for (const auto& [key, property] : schema.at("properties").items()) {
      const std::string use = fmt::format("{}.{}", name, key);
      uses_.insert(use);
      value_offers(property, name, use);
    }
  }

  std::string type_offered(const Json& schema) const {
    if (schema.contains("type")) return schema.at("type");
    if (schema.contains("const")) return type_of(schema.at("const"));
    if (schema.contains("enum")) return type_of(schema.at("enum").front());
    if (schema.contains("$ref")) return type_offered(root_.at("$defs").at(name_of(schema)));
    return {};  // of several, each of which is told by itself
  }

  void value_offers(const Json& schema, const std::string& definition, const std::string& where) {
    if (schema.contains("$ref")) {
      const std::string name = name_of(schema);
      value_offers(root_.at("$defs").at(name), name, where);
    }
    for (const char* several : {"oneOf", "anyOf"}) {
      if (!schema.contains(several) || schema.contains("properties")) continue;
      for (const auto& alternative : schema.at(several)) {
        if (const auto type = type_offered(alternative); !type.empty())
          uses_.insert(fmt::format("{} as {}", where, type));
        value_offers(alternative, definition, where);
      }
    }
    if (schema.contains("enum") && is_words(schema.at("enum")))
      for (const auto& word : schema.at("enum")) uses_.insert(where + "=" + text_of(word));
    if (schema.contains("type") && schema.at("type") == "boolean")
      for (const char* word : {"true", "false"}) uses_.insert(where + "=" + word);
    if (schema.contains("pattern"))
      for (const auto& word : words_of(schema.at("pattern")))
        uses_.insert(fmt::format("{} has {}", named(schema, definition, where), word));
    if (schema.contains("items")) value_offers(schema.at("items"), definition, where);
    if (!schema.contains("properties") && schema.contains("additionalProperties") &&
        schema.at("additionalProperties").is_object())
      value_offers(schema.at("additionalProperties"), definition, where);
  }

  const Json& root_;
  Uses uses_;
  std::string why_;
};

}  // namespace

std::set<std::string> schema_offers(const Json& schema) { return Walk(schema).offers(); }

std::optional<std::set<std::string>> schema_uses(const Json& schema, const Json& document, std::string& why) {
  Walk walk(schema);
  Uses uses;
  if (walk.value(schema, "", "", document, uses)) return uses;
  why = walk.why();
  return std::nullopt;
}

}  // namespace xdpgpu::lab
