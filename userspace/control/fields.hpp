// SPDX-License-Identifier: MIT
//
// userspace/control/fields.hpp: records and JSON objects, both ways by one list of a record's fields. A
// record names them once:
//
//   struct Level {
//     u32 now = 0, most = 0;
//     static void fields(auto& self, auto& field) {
//       field("now", self.now);
//       field("most", self.most);
//     }
//   };
//
// A std::optional that is empty is left out, and one that is left out is empty; everything else has to be
// there. A nullable one is there and null. A part is a record whose fields stand among those of the record
// that has it. Within says what a number may be, for those who are told it by strangers (arguments.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/control/result.hpp"

namespace xdpgpu::control {

using Json = nlohmann::json;

struct Within {
  std::uint64_t least, most;
  const char* what;  // "a number of seconds"
};

// A record without fields.
struct Nothing {
  static void fields(auto& /*self*/, auto& /*field*/) {}
};

// For records that are not ours to give a member: specialized, with the same static function.
template <class T>
struct Fields {
  static void fields(auto& self, auto& field) requires requires { T::fields(self, field); }
  { T::fields(self, field); }
};

class FieldWriter;

template <class T>
concept Record = requires(const T& record, FieldWriter& writer) {
  Fields<T>::fields(record, writer);
};

template <class T>
Json as_json(const T& value);
// Throws nlohmann's exception where the JSON has not what T has to have.
template <class T>
void read_json(const Json& json, T& value);

class FieldWriter {
 public:
  explicit FieldWriter(Json& json) : json_(json) {}
  template <class T>
  void operator()(std::string_view name, const T& value) {
    json_[std::string(name)] = as_json(value);
  }
  template <class T>
  void operator()(std::string_view name, const std::optional<T>& value) {
    if (value) (*this)(name, *value);
  }
  template <class T>
  void operator()(std::string_view name, const T& value, const Within&) {
    (*this)(name, value);
  }
  template <class T>
  void nullable(std::string_view name, const std::optional<T>& value) {
    json_[std::string(name)] = value ? as_json(*value) : Json();
  }
  // What follows from other fields, for those who read JSON alone.
  template <class T>
  void derived(std::string_view name, const T& value) {
    (*this)(name, value);
  }
  // It is there if its field `sign` is.
  template <class T>
  void part(std::string_view, const std::optional<T>& value) {
    if (value) Fields<T>::fields(*value, *this);
  }

 private:
  Json& json_;
};

class FieldReader {
 public:
  explicit FieldReader(const Json& json) : json_(json) {}
  template <class T>
  void operator()(std::string_view name, T& value) {
    read_json(json_.at(std::string(name)), value);
  }
  template <class T>
  void operator()(std::string_view name, std::optional<T>& value) {
    value.reset();
    if (const auto there = json_.find(std::string(name)); there != json_.end())
      read_json(*there, value.emplace());
  }
  template <class T>
  void operator()(std::string_view name, T& value, const Within&) {
    (*this)(name, value);
  }
  template <class T>
  void nullable(std::string_view name, std::optional<T>& value) {
    value.reset();
    if (const Json& there = json_.at(std::string(name)); !there.is_null()) read_json(there, value.emplace());
  }
  template <class T>
  void derived(std::string_view, const T&) {}
  template <class T>
  void part(std::string_view sign, std::optional<T>& value) {
    value.reset();
    if (json_.contains(std::string(sign))) Fields<T>::fields(value.emplace(), *this);
  }

 private:
  const Json& json_;
};

namespace detail {
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsMap = false;
template <class T>
inline constexpr bool kIsMap<std::map<std::string, T>> = true;
}  // namespace detail

// What a process answered; the error says what it lacks.
std::string unreadable(const Json::exception& error);
template <Record T>
Result<T> read_answer(const Json& json) try {
  T value;
  read_json(json, value);
  return value;
} catch (const Json::exception& error) {
  return Error(unreadable(error));
}

template <class T>
Json as_json(const T& value) {
  if constexpr (Record<T>) {
    Json json = Json::object();
    FieldWriter writer(json);
    Fields<T>::fields(value, writer);
    return json;
  } else if constexpr (detail::kIsList<T>) {
    Json json = Json::array();
    for (const auto& one : value) json.push_back(as_json(one));
    return json;
  } else if constexpr (detail::kIsMap<T>) {
    Json json = Json::object();
    for (const auto& [name, one] : value) json[name] = as_json(one);
    return json;
  } else {
    return Json(value);
  }
}

template <class T>
void read_json(const Json& json, T& value) {
  if constexpr (Record<T>) {
    FieldReader reader(json);
    Fields<T>::fields(value, reader);
  } else if constexpr (detail::kIsList<T>) {
    value.clear();
    for (const auto& one : json) read_json(one, value.emplace_back());
  } else if constexpr (detail::kIsMap<T>) {
    value.clear();
    for (const auto& [name, one] : json.items()) read_json(one, value[name]);
  } else {
    json.get_to(value);
  }
}

}  // namespace xdpgpu::control
