// SPDX-License-Identifier: MIT
//
// userspace/manual/schema_text.hpp: a JSON schema in words: its objects, each with where it stands and its
// keys, and the kinds of values that have a name.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace xdpgpu::manual {

// Texts are marked: `what is to be written as it stands`, and <what has a name>.
struct KeyText {
  std::string key, values, about, usual;
  bool needed = false;
};
struct ObjectText {
  std::vector<std::string> places;  // "rules[].match"
  std::string shape;  // {"file": ...}: its needed keys, where others may stand in its place; else empty
  std::string about;
  std::vector<KeyText> keys;
  std::vector<std::string> notes;  // which keys go together, a sentence each
};
struct ValueText {
  std::string name, values, about;
};

class SchemaText {
 public:
  // Definitions in `elsewhere` are told of in another place: where they stand only this is said. Keeps a
  // reference to the schema. Throws std::runtime_error where it says what there are no words for.
  SchemaText(const nlohmann::ordered_json& schema, std::map<std::string, std::string> elsewhere);

  // The whole policy first, each other object behind the one that it is in.
  const std::vector<ObjectText>& objects() const { return objects_; }
  const std::vector<ValueText>& values() const { return values_; }

 private:
  using Json = nlohmann::ordered_json;
  void read_object(const Json& schema, const std::string& place, const std::string& identity);
  std::string values_of(const Json& schema, const std::string& place);
  std::string values_of_definition(const std::string& name, const std::string& place);
  std::string about_of(const Json& schema) const;
  const Json& definition(const std::string& name) const;

  struct Waiting {
    const Json* schema;
    std::string place, identity;
  };
  const Json& schema_;
  std::map<std::string, std::string> elsewhere_;
  std::vector<Waiting> waiting_;
  std::vector<ObjectText> objects_;
  std::map<std::string, std::size_t> by_identity_;  // in objects_
  std::vector<ValueText> values_;
  std::set<std::string> named_;  // values_, and those that are about to be
};

}  // namespace xdpgpu::manual
