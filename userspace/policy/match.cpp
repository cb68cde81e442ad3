// SPDX-License-Identifier: MIT
#include "userspace/policy/match.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/stages/stages.hpp"
#include "maps/flow.h"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

u32 families_of(const std::vector<Prefix>& prefixes) {
  u32 seen = 0;
  for (const auto& prefix : prefixes) seen |= prefix.family == 4 ? kHasV4 : kHasV6;
  return seen;
}

void report_unknown_list(Report& report, const Place& place, const KnownLists& lists,
                         const std::string& name) {
  if (report.full()) return report.skip();
  std::vector<std::string_view> names;
  for (const auto& [known, families] : lists.families) names.push_back(known);
  report.at(place, names.empty() ? fmt::format("there is no list \"{}\": the policy has no \"lists\"", name)
                                 : fmt::format("there is no list \"{}\"{}", name, suggestion(names, name)));
}

void read_prefix_at(Report& report, const Place& place, const char* what, std::vector<Prefix>& into) {
  const auto* text = place.node->as<std::string>();
  if (text == nullptr)
    return report.at(place, fmt::format("must be {} as a string, is {}", what, place.node->type_name()));
  if (auto prefix = read_prefix(*text))
    into.push_back(*prefix);
  else
    report.at(place, prefix.error());
}

class MatchReader {
 public:
  MatchReader(Report& report, const KnownLists& lists) : report_(report), lists_(lists) {}

  void addresses(const Place& place, std::vector<Prefix>& prefixes, std::vector<std::string>& lists) {
    one_or_more(report_, place, [&](const Place& one) {
      const auto* text = one.node->as<std::string>();
      if (text != nullptr && text->starts_with('@'))
        list(one, text->substr(1), lists);
      else
        read_prefix_at(report_, one, "a prefix or the name of a list", prefixes);
    });
  }
  void control(const Place& place, std::vector<u32>& into) {
    one_or_more(report_, place, [&](const Place& one) {
      if (auto word = read_word(report_, one, words::kControl)) into.push_back(*word);
    });
  }

  // What can never match is a mistake.
  void contradictions(const Place& place, const Match& match) {
    const u32 wanted = match.family ? (*match.family == 4 ? kHasV4 : kHasV6) : kHasV4 | kHasV6;
    const auto why = gpu::never_met({.protocols = match.protocols,
                                     .flags = match.tcp_flags_mask.has_value(),
                                     .ports = !match.src_ports.empty() || !match.dst_ports.empty(),
                                     .src_families = families(match.src, match.src_lists) & wanted,
                                     .dst_families = families(match.dst, match.dst_lists) & wanted});
    if (!why.empty()) report_.at(place, std::string(why));
    if (match.tcp_flags_mask && !match.control.empty())
      report_.at(place, "no packet can match: \"tcp_flags\" is named, but no control protocol runs on tcp");
  }

 private:
  void list(const Place& place, const std::string& name, std::vector<std::string>& into) {
    const auto found = lists_.families.find(name);
    if (found == lists_.families.end()) return report_unknown_list(report_, place, lists_, name);
    if (found->second == kHasNames)
      return report_.at(place, fmt::format("the list \"{}\" is one of domains, which rules do not look for: "
                                           "inspect with the stage domains",
                                           name));
    into.push_back(name);
  }
  // An empty list may be filled later: it rules nothing out.
  u32 families(const std::vector<Prefix>& prefixes, const std::vector<std::string>& lists) const {
    u32 seen = families_of(prefixes);
    for (const auto& name : lists) {
      u32 held = lists_.families.find(name)->second;
      seen |= held == 0 ? kHasV4 | kHasV6 : held;
    }
    return seen == 0 ? kHasV4 | kHasV6 : seen;
  }

  Report& report_;
  const KnownLists& lists_;
};

}  // namespace

void read_prefixes(Report& report, const Place& place, std::vector<Prefix>& into) {
  one_or_more(report, place, [&](const Place& one) {
    const auto* text = one.node->as<std::string>();
    if (text != nullptr && text->starts_with('@'))
      return report.at(one,
                       "lists cannot be used here; write the prefixes themselves, or let a rule of "
                       "\"rules\" decide by the list in the kernel");
    read_prefix_at(report, one, "a prefix", into);
  });
}

void read_protocols(Report& report, const Place& place, std::vector<u8>& into) {
  one_or_more(report, place, [&](const Place& one) {
    if (const auto* name = one.node->as<std::string>()) {
      if (auto number = find_protocol(*name))
        into.push_back(*number);
      else if (report.full())
        report.skip();
      else
        report.at(one, read_protocol(*name).error());
    } else if (auto number = read_integer(report, one, 0, 255)) {
      into.push_back(static_cast<u8>(*number));
    }
  });
}

void read_port_ranges(Report& report, const Place& place, std::vector<PortRange>& into) {
  one_or_more(report, place, [&](const Place& one) {
    if (const auto* text = one.node->as<std::string>()) {
      if (auto range = read_ports(*text))
        into.push_back(*range);
      else
        report.at(one, range.error());
    } else if (auto port = read_integer(report, one, 0, 65535)) {
      into.push_back({static_cast<u16>(*port), static_cast<u16>(*port)});
    }
  });
}

std::optional<TcpFlags> read_flags(Report& report, const Place& place) {
  const auto* text = place.node->as<std::string>();
  if (text == nullptr) {
    report.at(place, fmt::format("must be a string like \"syn,!ack\", is {}", place.node->type_name()));
    return std::nullopt;
  }
  auto flags = read_tcp_flags(*text);
  if (flags) return *flags;
  report.at(place, flags.error());
  return std::nullopt;
}

void read_vlan_ranges(Report& report, const Place& place, std::vector<VlanRange>& into) {
  one_or_more(report, place, [&](const Place& one) {
    if (const auto* text = one.node->as<std::string>()) {
      if (auto range = read_vlans(*text))
        into.push_back(*range);
      else
        report.at(one, range.error());
    } else if (one.node->as<u64>() != nullptr && *one.node->as<u64>() == 0) {
      report.at(one, kNoVlan);
    } else if (auto id = read_integer(report, one, kLeastVlan, kMostVlan)) {
      into.push_back({static_cast<u16>(*id), static_cast<u16>(*id)});
    }
  });
}

KnownLists::KnownLists(const std::map<std::string, List>& lists) {
  for (const auto& [name, list] : lists)
    families[name] = list.type == List::Type::domain ? kHasNames : families_of(list.prefixes);
}

std::string read_list_name(Report& report, const Place& place, const KnownLists& lists, List::Type type) {
  const auto text = read_string(report, place, 128);
  if (!text) return {};
  if (!text->starts_with('@')) {
    report.at(place, "must be the name of one of the policy's lists, like \"@known_bad\"");
    return {};
  }
  std::string name = text->substr(1);
  const auto found = lists.families.find(name);
  const bool domains = type == List::Type::domain;
  if (found == lists.families.end())
    report_unknown_list(report, place, lists, name);
  else if ((found->second == kHasNames) != domains)
    report.at(place, fmt::format("the list \"{}\" is one of {}, and here stands one of {}", name,
                                 domains ? "addresses" : "domains", domains ? "domains" : "addresses"));
  else
    return name;
  return {};
}

Match read_match(Report& report, const Place& place, Words known, std::string_view what,
                 const KnownLists& lists) {
  Match match;
  Fields fields(report, place, known, what);
  MatchReader reader(report, lists);
  auto allowed = [&](std::string_view key) { return find_word(known, key) ? fields.get(key) : std::nullopt; };
  if (auto src = allowed("src")) reader.addresses(*src, match.src, match.src_lists);
  if (auto dst = allowed("dst")) reader.addresses(*dst, match.dst, match.dst_lists);
  if (auto proto = allowed("proto")) read_protocols(report, *proto, match.protocols);
  if (auto ports = allowed("src_port")) read_port_ranges(report, *ports, match.src_ports);
  if (auto ports = allowed("dst_port")) read_port_ranges(report, *ports, match.dst_ports);
  if (auto at = allowed("tcp_flags"))
    if (auto flags = read_flags(report, *at)) {
      match.tcp_flags_mask = flags->mask;
      match.tcp_flags_value = flags->value;
    }
  if (auto vlan = allowed("vlan")) read_vlan_ranges(report, *vlan, match.vlans);
  if (auto control = allowed("control")) reader.control(*control, match.control);
  if (auto family = allowed("family"))
    if (auto word = read_word(report, *family, words::kFamily))
      match.family = static_cast<u8>(*word == 0 ? 4 : 6);
  if (fields.is_object()) reader.contradictions(place, match);
  return match;
}

}  // namespace xdpgpu::policy
