// SPDX-License-Identifier: MIT
//
// userspace/control/arguments.hpp: what a request on the control socket brings along, as the record that it
// declares (fields.hpp), looked at before anything is done. An argument that is not of its kind is refused by
// a sentence, never by an exception, and never taken for one that is not there. Those that no field has are
// not looked at.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/control/fields.hpp"

namespace xdpgpu::control {

// Of a record whose fields are texts, truths, whole numbers that are not negative, and lists of such numbers.
// A std::optional may be left out.
class ArgumentReader {
 public:
  // request: whose they are. Both outlive this object.
  ArgumentReader(std::string_view request, const Json& arguments)
      : request_(request), arguments_(arguments) {}

  template <class T>
  void operator()(std::string_view name, T& value) {
    take(name, value, within<T>());
  }
  template <class T>
  void operator()(std::string_view name, T& value, const Within& within) {
    take(name, value, within);
  }

  // What is wrong with the first that is; empty: nothing is.
  const std::string& problem() const noexcept { return problem_; }

 private:
  template <class T>
  struct Whole {
    using type = T;
  };
  template <class T>
  struct Whole<std::optional<T>> {
    using type = T;
  };
  template <class T>
  static Within within() {
    using Number = typename Whole<T>::type;
    if constexpr (std::unsigned_integral<Number>)
      return {0, std::numeric_limits<Number>::max(), "a number"};
    else
      return {0, 0, ""};
  }

  template <class T>
  void take(std::string_view name, T& value, const Within& within) {
    const Json* const said = find(name);
    if (said)
      read(name, *said, value, within);
    else
      lacks(name, kind(value), within);
  }
  template <class T>
  void take(std::string_view name, std::optional<T>& value, const Within& within) {
    value.reset();
    if (const Json* const said = find(name)) read(name, *said, value.emplace(), within);
  }

  static const char* kind(const std::string& /*value*/) { return "a text"; }
  static const char* kind(bool /*value*/) { return "true or false"; }
  static const char* kind(std::unsigned_integral auto /*value*/) { return nullptr; }
  template <std::unsigned_integral T>
  static const char* kind(const std::vector<T>& /*value*/) {
    return "a list of numbers";
  }

  const Json* find(std::string_view name) const;
  void read(std::string_view name, const Json& said, std::string& value, const Within& within);
  void read(std::string_view name, const Json& said, bool& value, const Within& within);
  template <std::unsigned_integral T>
  void read(std::string_view name, const Json& said, T& value, const Within& within) {
    if (const auto number = whole_number(said, within))
      value = static_cast<T>(*number);
    else
      is_not(name, nullptr, within);
  }
  template <std::unsigned_integral T>
  void read(std::string_view name, const Json& said, std::vector<T>& value, const Within& within) {
    bool right = said.is_array();
    for (auto one = said.begin(); right && one != said.end(); ++one) {
      const auto number = whole_number(*one, ArgumentReader::within<T>());
      right = number.has_value();
      if (right) value.push_back(static_cast<T>(*number));
    }
    if (!right) is_not(name, kind(value), within);
  }
  static std::optional<std::uint64_t> whole_number(const Json& said, const Within& within);
  // kind: nullptr of a number within.
  void lacks(std::string_view name, const char* kind, const Within& within);
  void is_not(std::string_view name, const char* kind, const Within& within);

  std::string_view request_;
  const Json& arguments_;
  std::string problem_;
};

// request: its name, for the sentence.
template <Record T>
Result<T> read_arguments(std::string_view request, const Json& arguments) {
  T value;
  ArgumentReader reader(request, arguments);
  Fields<T>::fields(value, reader);
  if (!reader.problem().empty()) return Error(reader.problem());
  return value;
}

}  // namespace xdpgpu::control
