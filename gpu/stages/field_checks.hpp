// SPDX-License-Identifier: MIT
//
// gpu/stages/field_checks.hpp: settings against what their table of fields says of each: ranges, words, how
// many there may be, and that prefixes, ports and the like are some. Policies are read by the same table;
// this is for settings that come from elsewhere. What hangs together is for the stage's check() to say.
#pragma once

#include <algorithm>

#include "gpu/domain_names.hpp"
#include "gpu/stages/compiler.hpp"
#include "gpu/stages/walk.hpp"

namespace xdpgpu::gpu {

class FieldChecks : public Walk<FieldChecks> {
 public:
  // Of the first problem: "\"mtu\" of \"encapsulation\" is 575, which is not in 576 to 65535".
  const Check& result() const { return result_; }

  void integer(std::string_view key, const auto& value, u64 least, u64 most, std::string_view,
               const Say& say) {
    if (say.fits && say.shown) number(key, static_cast<u64>(value), least, most);
  }
  void time(std::string_view key, const u32& ms, u64 least, u64 most, std::string_view, const Say& say) {
    if (say.fits && say.shown) number(key, ms, least, most, " ms");
  }
  void bytes(std::string_view key, const u32& value, u64 least, u64 most, std::string_view, const Say& say) {
    if (say.fits && say.shown) number(key, value, least, most, " bytes");
  }
  void records(std::string_view key, u64 has, u64 least, u64 most) {
    if (has < least || has > most) fail(key, "has {} elements, {} to {} are possible", has, least, most);
  }
  void word(std::string_view key, const auto& value, const auto& names, auto&&...) {
    if (std::none_of(std::begin(names), std::end(names), [&](const auto& one) { return one.value == value; }))
      fail(key, "has a value that is none of its words");
  }
  void action(std::string_view key, const Action& action, const std::string&, const u32& target,
              const auto& names, auto&&...) {
    if (action == Action::redirect)
      check(key, check_target(true, target));
    else
      word(key, action, names);
  }
  void port(std::string_view key, const std::string&, const bool& used, const u32& target, auto&&...) {
    check(key, check_target(used, target));
  }
  void host(std::string_view key, const Prefix& address, auto&&...) { check(key, check_prefix(address)); }
  void source(std::string_view key, const std::optional<Prefix>& prefix, u8 family, u8 least, auto&&...) {
    if (!prefix) return;
    check(key, check_prefix(*prefix));
    if (prefix->family != family) return fail(key, "is of the other address family");
    number(key, prefix->length, least, 128, " bits");
  }
  void prefixes(std::string_view key, const std::vector<Prefix>& prefixes, auto&&...) {
    check(key, check_prefixes(prefixes));
  }
  void list(std::string_view key, const std::string&, const std::vector<Prefix>& prefixes, auto&&...) {
    check(key, check_prefixes(prefixes));
  }
  void list(std::string_view key, const std::string&, const DomainNames& names, auto&&...) {
    check(key, check_names(names));
  }
  void routes(std::string_view key, const std::vector<Route>& routes, auto&&...) {
    for (const Route& route : routes) check(key, check_prefix(route.prefix));
  }
  void ports(std::string_view key, const std::vector<PortRange>& ranges, auto&&...) {
    for (const PortRange& range : ranges)
      if (range.first > range.last)
        fail(key, "has the range {}-{}, which ends before it begins", range.first, range.last);
  }
  void tcp_flags(std::string_view key, const std::optional<TcpFlags>& flags, auto&&...) {
    if (flags && (flags->value & ~flags->mask) != 0)
      fail(key, "wants TCP flags {:#04x}, of which {:#04x} are not looked at", flags->value,
           flags->value & ~flags->mask);
  }
  void vlans(std::string_view key, const std::vector<VlanRange>& ranges, auto&&...) {
    for (const VlanRange& range : ranges) {
      const bool alone = range.first == range.last;
      if (range.last > XG_VLAN_PRIORITY)
        fail(key, "has VLAN {}, which does not exist", range.last);
      else if (range.first > range.last || (!alone && (range.first == 0 || range.last == XG_VLAN_PRIORITY)))
        fail(key, "has {} to {}, which is no range of VLANs", range.first, range.last);
    }
  }

 private:
  void number(std::string_view key, u64 value, u64 least, u64 most, const char* unit = "") {
    if (value < least || value > most)
      fail(key, "is {}{}, which is not in {} to {}", value, unit, least, most);
  }
  void check(std::string_view key, const Check& checked) {
    if (!checked) fail(key, "{}", checked.error());
  }
  template <class... Args>
  void fail(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    if (!result_) return;
    std::string where = fmt::format("\"{}\"", key);
    for (auto token = path().rbegin(); token != path().rend(); ++token)
      where += fmt::format(" of \"{}\"", *token);
    result_ = refuse("{} {}", where, fmt::format(format, std::forward<Args>(args)...));
  }

  Check result_;
};

template <class Settings>
Check check_fields(const Settings& settings) {
  FieldChecks checks;
  fields_of(checks, settings);
  return checks.result();
}

}  // namespace xdpgpu::gpu
