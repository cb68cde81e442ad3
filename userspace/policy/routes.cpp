// SPDX-License-Identifier: MIT
#include "userspace/policy/routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "userspace/policy/prefix_scan.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u32 kLeastMtu = 68, kMostMtu = 65535;  // RFC 791

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r' && c != '\n'); }
bool ends_entry(const char* at, const char* end) {
  return at == end || *at == '\n' || *at == '#' || *at == ';';
}
const char* skip_blanks(const char* at, const char* end) {
  while (at != end && is_blank(*at)) ++at;
  return at;
}
const char* skip_word(const char* at, const char* end) {
  while (!ends_entry(at, end) && !is_blank(*at)) ++at;
  return at;
}
const char* end_of_line(const char* at, const char* end) {
  const auto* newline = static_cast<const char*>(std::memchr(at, '\n', static_cast<u64>(end - at)));
  return newline != nullptr ? newline : end;
}

// The names that routes may lead to.
class Targets {
 public:
  explicit Targets(const std::vector<NextHopSpec>& next_hops) {
    for (const auto& hop : next_hops) add(hop.name, static_cast<u32>(names_.size()));
    add(words::kRouteTo[0], kRoutePass);
    add(words::kRouteTo[1], kRouteDrop);
  }
  std::optional<u32> find(std::string_view name) const {
    const auto found = numbers_.find(name);
    return found != numbers_.end() ? std::optional(found->second) : std::nullopt;
  }
  std::string unknown(std::string_view name) const {
    return fmt::format("there is no next hop \"{}\"{}", name.substr(0, 80), suggestion(names_, name));
  }

 private:
  void add(std::string_view name, u32 number) {
    names_.push_back(name);
    numbers_.emplace(name, number);
  }
  std::vector<std::string_view> names_;
  std::unordered_map<std::string_view, u32> numbers_;
};

class RouteReader {
 public:
  RouteReader(Report& report, const Targets& targets, const NamedFileReader& files)
      : report_(report), targets_(targets), files_(files) {}

  RouteSource source(const Place& place) {
    const auto* members = place.node->as<Object>();
    const bool file =
        members != nullptr && std::any_of(members->begin(), members->end(),
                                          [](const auto& one) { return one.key == keys::kRouteFile[0]; });
    return file ? from_file(place) : in_place(place);
  }

 private:
  RouteSource in_place(const Place& place) {
    RouteSource source;
    Fields fields(report_, place, keys::kRoute, "a route");
    Route route;
    if (auto hop = fields.require("next_hop"))
      if (auto name = read_string(report_, *hop, 4096)) {
        if (auto number = targets_.find(*name))
          route.next_hop = *number;
        else if (report_.full())
          report_.skip();
        else
          report_.at(*hop, targets_.unknown(*name));
      }
    if (auto prefixes = fields.require("prefix"))
      one_or_more(report_, *prefixes, [&](const Place& one) {
        const auto* text = one.node->as<std::string>();
        if (text == nullptr)
          return report_.at(one, fmt::format("must be a prefix as a string, is {}", one.node->type_name()));
        if (auto prefix = try_prefix(*text)) {
          route.prefix = *prefix;
          source.routes.push_back(route);
        } else {
          report_.at(one, read_prefix(*text).error());
        }
      });
    return source;
  }

  RouteSource from_file(const Place& place) {
    RouteSource source;
    Fields fields(report_, place, keys::kRouteFile, "a file of routes");
    auto at = fields.require("file");
    if (!at) return source;
    auto named = files_(*at);
    if (!named) return source;
    source.file = named->path;
    std::string_view text = *named->text;
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    const auto lines = static_cast<u64>(std::count(text.begin(), text.end(), '\n')) + 1;
    source.routes.reserve(std::min<u64>(lines, kMaxPrefixes + 1));
    read_text(text, named->path, *at, source.routes);
    return source;
  }

  void read_text(std::string_view text, const std::string& file, const Place& named_at,
                 std::vector<Route>& into) {
    const char* at = text.data();
    const char* const end = at + text.size();
    for (u32 number = 1; at != end; ++number) {
      const char* const start = at;
      at = skip_blanks(at, end);
      if (!ends_entry(at, end)) {
        read_line({start, end, file, named_at, number}, at, into);
        if (into.size() > kMaxPrefixes || report_.exhausted()) return;  // the caller counts, and refuses
      }
      if (at != end && *at != '\n') at = end_of_line(at, end);
      if (at != end) ++at;
    }
  }

  struct Line {
    const char* start;
    const char* end;  // of the text
    const std::string& file;
    const Place& named_at;
    u32 number;
  };
  void read_line(const Line& line, const char* at, std::vector<Route>& into) {
    Route route;
    const char* const behind = skip_word(at, line.end);
    const std::string_view written(at, static_cast<u64>(behind - at));
    if (scan_prefix(at, line.end, route.prefix) != behind) {
      const auto prefix = try_prefix(written);
      if (!prefix) {
        if (report_.full()) return report_.skip();
        return wrong(line, at, read_prefix(written.substr(0, 60)).error());
      }
      route.prefix = *prefix;
    }
    const char* const name_at = skip_blanks(behind, line.end);
    const char* const name_end = skip_word(name_at, line.end);
    const std::string_view name(name_at, static_cast<u64>(name_end - name_at));
    if (name.empty()) return wrong(line, at, "a route is a prefix and the name of a next hop behind it");
    const auto target = last_ == name ? std::optional(last_target_) : targets_.find(name);
    if (!target && report_.full()) return report_.skip();
    if (!target) return wrong(line, name_at, targets_.unknown(name));
    const char* const rest = skip_blanks(name_end, line.end);
    if (!ends_entry(rest, line.end))
      return wrong(line, rest, "a line holds one route: a prefix and the name of a next hop");
    last_ = name;
    last_target_ = *target;
    route.next_hop = *target;
    into.push_back(route);
  }
  void wrong(const Line& line, const char* at, std::string message) {
    if (report_.full()) return report_.skip();
    std::replace_if(
        message.begin(), message.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    report_.in_list(line.file, line.named_at, line.number, static_cast<u32>(at - line.start + 1),
                    std::move(message));
  }

  Report& report_;
  const Targets& targets_;
  const NamedFileReader& files_;
  // Tables have long runs of one next hop.
  std::string_view last_;
  u32 last_target_ = 0;
};

NextHopSpec read_next_hop(Report& report, const Place& place, const std::string& name) {
  NextHopSpec hop;
  hop.name = name;
  Fields fields(report, place, keys::kNextHop, "a next hop");
  if (auto mac = fields.require("mac"))
    if (auto value = read_mac_at(report, *mac)) hop.mac = *value;
  const auto source = fields.get("src_mac");
  if (source) hop.src_mac = read_mac_at(report, *source);
  if (auto to = fields.get("to")) {
    hop.to = read_interface(report, *to);
    if (!source && !hop.to.empty())
      report.at(place, fmt::format("next hop \"{}\" needs \"src_mac\", the MAC address of {}: without it the "
                                   "frame's former destination, the address of the port that it came in on, "
                                   "would be its source there",
                                   name, hop.to));
  }
  if (auto mtu = fields.get("mtu"))
    if (auto value = read_integer(report, *mtu, kLeastMtu, kMostMtu)) hop.mtu = static_cast<u32>(*value);
  return hop;
}

}  // namespace

std::vector<NextHopSpec> read_next_hops(Report& report, const Place& place) {
  std::vector<NextHopSpec> hops;
  const auto* members = place.node->as<Object>();
  if (members == nullptr) {
    report.at(place, fmt::format("\"next_hops\" must be an object of next hops by name, is {}",
                                 place.node->type_name()));
    return hops;
  }
  if (members->empty() || members->size() > kMaxNextHops)
    report.at(place, fmt::format("the stage forward needs 1 to {} next hops, here are {}", kMaxNextHops,
                                 members->size()));
  if (members->size() > kMaxNextHops) return hops;
  for (const auto& member : *members) {
    Place at{&member.value, &place, member.key};
    if (find_word(words::kRouteTo, member.key))
      report.at(at,
                fmt::format("a next hop cannot be named \"{}\": routes to it lead to the host, or nowhere",
                            member.key));
    else if (!is_identifier(member.key))
      report.at(at, fmt::format("a next hop's name is 1 to 64 letters, digits, '_', '-' and '.', not \"{}\"",
                                member.key.substr(0, 80)));
    hops.push_back(read_next_hop(report, at, member.key));
  }
  return hops;
}

std::vector<RouteSource> read_routes(Report& report, const Place& place,
                                     const std::vector<NextHopSpec>& next_hops,
                                     const NamedFileReader& files) {
  std::vector<RouteSource> sources;
  const Targets targets(next_hops);
  RouteReader reader(report, targets, files);
  u64 count = 0;
  each_element(report, place, [&](const Place& one) {
    if (count > kMaxPrefixes) return;  // the caller counts, and refuses
    sources.push_back(reader.source(one));
    count += sources.back().routes.size();
  });
  return sources;
}

std::string_view route_target(const ForwardStage& stage, u32 next_hop) {
  if (next_hop == kRoutePass) return words::kRouteTo[0];
  if (next_hop == kRouteDrop) return words::kRouteTo[1];
  return stage.next_hops[next_hop].name;
}

u64 count_routes(const ForwardStage& stage) {
  u64 count = 0;
  for (const auto& source : stage.routes) count += source.routes.size();
  return count;
}

bool has_router(const Policy& policy) {
  for (const auto& pipeline : policy.pipelines)
    for (const auto& stage : pipeline.stages)
      if (std::holds_alternative<ForwardStage>(stage)) return true;
  return false;
}

}  // namespace xdpgpu::policy
