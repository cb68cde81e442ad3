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
  explicit Targets(const std::vector<std::string_view>& names) {
    for (const auto name : names) add(name, static_cast<u32>(names_.size()));
    add("pass", gpu::kRoutePass);
    add("drop", gpu::kRouteDrop);
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
  RouteReader(Report& report, const Targets& targets, const NamedFileReader& files,
              std::vector<gpu::Route>& routes)
      : report_(report), targets_(targets), files_(files), routes_(routes) {}

  gpu::RouteSource source(const Place& place) {
    const u64 before = routes_.size();
    gpu::RouteSource source;
    const auto* members = place.node->as<Object>();
    const bool file =
        members != nullptr && std::any_of(members->begin(), members->end(),
                                          [](const auto& one) { return one.key == keys::kRouteFile[0]; });
    if (file)
      source.file = from_file(place);
    else
      in_place(place);
    source.count = static_cast<u32>(routes_.size() - before);
    return source;
  }

 private:
  void in_place(const Place& place) {
    Fields fields(report_, place, keys::kRoute, "a route");
    gpu::Route route;
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
          route.prefix = device_prefix(*prefix);
          routes_.push_back(route);
        } else {
          report_.at(one, read_prefix(*text).error());
        }
      });
  }

  std::string from_file(const Place& place) {
    Fields fields(report_, place, keys::kRouteFile, "a file of routes");
    auto at = fields.require("file");
    if (!at) return {};
    auto named = files_(*at);
    if (!named) return {};
    if (!named->text) return named->path;
    std::string_view text = *named->text;
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    const auto lines = static_cast<u64>(std::count(text.begin(), text.end(), '\n')) + 1;
    routes_.reserve(routes_.size() + std::min<u64>(lines, kMaxPrefixes + 1));
    read_text(text, named->path, *at);
    return named->path;
  }

  void read_text(std::string_view text, const std::string& file, const Place& named_at) {
    const char* at = text.data();
    const char* const end = at + text.size();
    for (u32 number = 1; at != end; ++number) {
      const char* const start = at;
      at = skip_blanks(at, end);
      if (!ends_entry(at, end)) {
        read_line({start, end, file, named_at, number}, at);
        if (routes_.size() > kMaxPrefixes || report_.exhausted()) return;  // the caller counts, and refuses
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
  void read_line(const Line& line, const char* at) {
    gpu::Route route;
    Prefix scanned;
    const char* const behind = skip_word(at, line.end);
    const std::string_view written(at, static_cast<u64>(behind - at));
    if (scan_prefix(at, line.end, scanned) != behind) {
      const auto prefix = try_prefix(written);
      if (!prefix) {
        if (report_.full()) return report_.skip();
        return wrong(line, at, read_prefix(written.substr(0, 60)).error());
      }
      scanned = *prefix;
    }
    route.prefix = device_prefix(scanned);
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
    routes_.push_back(route);
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
  std::vector<gpu::Route>& routes_;
  // Tables have long runs of one next hop.
  std::string_view last_;
  u32 last_target_ = 0;
};

}  // namespace

void read_routes(Report& report, const Place& place, const std::vector<std::string_view>& targets,
                 const NamedFileReader& files, std::vector<gpu::Route>& routes,
                 std::vector<gpu::RouteSource>& sources) {
  const Targets known(targets);
  RouteReader reader(report, known, files, routes);
  each_element(report, place, [&](const Place& one) {
    if (routes.size() <= kMaxPrefixes) sources.push_back(reader.source(one));
  });
}

}  // namespace xdpgpu::policy
