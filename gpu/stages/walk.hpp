// SPDX-License-Identifier: MIT
//
// gpu/stages/walk.hpp: goes through all fields of a stage's settings (gpu/stages/fields.hpp), and knows where
// it is.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// A Table that does nothing with a field but go into records. What is of interest is for Self to say, by
// members of the same names.
template <class Self>
class Walk {
 public:
  void about(std::string_view) {}
  void any_of(const Keys&, std::string_view) {}
  void word(auto&&...) {}
  void flag(auto&&...) {}
  void integer(auto&&...) {}
  void time(auto&&...) {}
  void bytes(auto&&...) {}
  void cache(auto&&...) {}
  void text(auto&&...) {}
  void file(auto&&...) {}
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
  void rules(auto&&...) {}
  void rule_variables(auto&&...) {}
  void rule_file(auto&&...) {}
  // So many records are at a key.
  void records(std::string_view, u64, u64, u64) {}

  void array(std::string_view key, auto& values, u64 least, u64 most, auto&&...) {
    self().records(key, values.size(), least, most);
    for (std::size_t i = 0; i < values.size(); i++)
      below(key, [&] { below(fmt::to_string(i), [&] { fields_of(self(), values[i]); }); });
  }
  void by_name(std::string_view key, auto& values, u64 least, u64 most, auto&&...) {
    self().records(key, values.size(), least, most);
    for (auto& one : values) below(key, [&] { below(one.name, [&] { fields_of(self(), one); }); });
  }
  template <class Record>
  void record(std::string_view key, Record& value, auto&&...) {
    below(key, [&] {
      if constexpr (requires { value.has_value(); }) {
        if (value) fields_of(self(), *value);
      } else {
        fields_of(self(), value);
      }
    });
  }
  void group(std::string_view key, std::string_view, std::string_view, const Say&, auto&& inner) {
    below(key, [&] { inner(self()); });
  }

 protected:
  // The keys that lead here; of an array's element its number, from 0.
  const std::vector<std::string>& path() const { return path_; }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  template <class Do>
  void below(std::string_view key, Do&& act) {
    path_.emplace_back(key);
    act();
    path_.pop_back();
  }
  std::vector<std::string> path_;
};

}  // namespace xdpgpu::gpu
