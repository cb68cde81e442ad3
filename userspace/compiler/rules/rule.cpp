// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "userspace/compiler/rules/fast_pattern.hpp"

namespace xdpgpu::rules {
namespace {

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Without its quotes, if it has some.
Result<std::string_view> unquoted(std::string_view text) {
  const bool opens = text.starts_with('"'), closes = text.size() > 1 && text.ends_with('"');
  if (opens != closes) return wrong(fmt::format("{} has one quote", text));
  return opens ? text.substr(1, text.size() - 2) : text;
}

// What an option's text says in quotes, in front of which a ! may stand.
struct Quoted {
  bool negated = false;
  std::string_view text;
};
Result<Quoted> quoted(const std::string& name, std::string_view text) {
  Quoted result;
  if (text.starts_with('!')) {
    result.negated = true;
    text = trimmed(text.substr(1));
  }
  if (text.size() < 2 || !text.starts_with('"') || !text.ends_with('"'))
    return wrong(fmt::format("the value of \"{}\" stands in quotes", name));
  result.text = text.substr(1, text.size() - 2);
  return result;
}

class Parser {
 public:
  explicit Parser(Rule& rule) : rule_(rule) {}

  Result<void> take(const OptionText& option) {
    const Keyword* const keyword = find_keyword(option.name);
    if (keyword == nullptr) return wrong(fmt::format("Suricata 7 has no keyword \"{}\"", option.name));
    if (!option.value && keyword->takes_value && !keyword->may_lack_value)
      return wrong(fmt::format("\"{}\" needs a value", option.name));
    if (option.value && !keyword->takes_value)
      return wrong(fmt::format("\"{}\" takes no value", option.name));
    const std::string value = option.value.value_or("");
    const bool behind_address =
        std::exchange(address_, keyword->name == "ip.src" || keyword->name == "ip.dst");
    if (behind_address && keyword->name == "dataset") return add(rule_.conditions, *keyword, value);
    switch (keyword->kind) {
      case Kind::about:
        return about(*keyword, value);
      case Kind::buffer:
        if (auto fits = fits_protocol(*keyword); !fits) return fits;
        if (keyword->name == "base64_data" && !decodes_)
          return wrong("\"base64_data\" has no base64_decode in front of it");
        current_ = std::string(keyword->buffer);
        last_ = nullptr;
        if (auto& named = buffer(current_); is_of_many(current_) && !named.matches.empty()) again(current_);
        return {};
      case Kind::moves:
        return move_last(*keyword);
      case Kind::content:
        return content(*keyword, value);
      case Kind::modifier:
        return modify(*keyword, value);
      case Kind::condition:
        return condition(*keyword, value);
      case Kind::transform:
        if (current_ == "payload")
          return wrong(fmt::format("\"{}\" stands behind the buffer that it changes", keyword->name));
        if (is_of_many(current_) && !buffer(current_).matches.empty()) {
          if (!buffer(current_).transforms.empty())
            return wrong(
                fmt::format("\"{}\" stands behind a content of the buffer that it changes", keyword->name));
          again(current_);
        }
        if (keyword->name == "xor")
          if (auto key = xor_key(value); !key) return key;
        buffer(current_).transforms.emplace_back(value.empty() ? std::string(keyword->name)
                                                               : fmt::format("{}:{}", keyword->name, value));
        return {};
      case Kind::header:
      case Kind::state:
      case Kind::after:
      case Kind::layer7:
        return other(*keyword, value);
    }
    return {};
  }

  Result<void> finish() {
    if (rule_.sid == 0) return wrong("it has no sid");
    if (auto fits = fits_buffers(); !fits) return fits;
    for (const auto& buffer : rule_.buffers) {
      if (buffer.name != "payload" && buffer.matches.empty())
        return wrong(fmt::format("nothing is asked of {}", buffer.name));
      if (auto fits = fits_size(buffer); !fits) return fits;
    }
    std::erase_if(rule_.buffers, [](const Buffer& buffer) { return buffer.matches.empty(); });
    for (auto& buffer : rule_.buffers)
      for (auto& match : buffer.matches)
        if (auto* const one = std::get_if<Content>(&match)) {
          if (auto checked = check(*one); !checked) return checked;
          if (one->nocase)
            std::transform(one->bytes.begin(), one->bytes.end(), one->bytes.begin(),
                           [](char c) { return lower(c); });
        }
    rule_.type = type();
    rule_.fast_pattern = choose_fast_pattern(rule_.buffers);
    return {};
  }

 private:
  // The last one of that name.
  Buffer& buffer(std::string_view name) {
    const auto found = std::find_if(rule_.buffers.rbegin(), rule_.buffers.rend(),
                                    [&](const Buffer& one) { return one.name == name; });
    return found != rule_.buffers.rend() ? *found : again(name);
  }
  Buffer& again(std::string_view name) {
    return rule_.buffers.emplace_back(Buffer{std::string(name), {}, {}});
  }
  // A message has several such parts. Conditions on one that is named again are about any of them.
  static bool is_of_many(std::string_view name) { return name == "dns_query"; }

  // The protocol whose part a buffer is, if the buffer's name says so, is the rule's own.
  Result<void> fits_protocol(const Keyword& keyword) const {
    struct Family {
      std::string_view prefix;
      std::array<std::string_view, 4> protocols;
    };
    constexpr Family kFamilies[] = {{"http", {"http", "http1", "http2"}},
                                    {"dns", {"dns"}},
                                    {"tls", {"tls", "ssl"}},
                                    {"ja3", {"tls", "ssl", "quic"}},
                                    {"ssh", {"ssh"}},
                                    {"smb", {"smb"}},
                                    {"krb5", {"krb5"}},
                                    {"snmp", {"snmp"}},
                                    {"sip", {"sip"}},
                                    {"rfb", {"rfb"}},
                                    {"mqtt", {"mqtt"}},
                                    {"ike", {"ike", "ikev2"}},
                                    {"quic", {"quic"}},
                                    {"dnp3", {"dnp3"}}};
    if (layer_of(rule_.header.protocol) != Layer::application) return {};
    for (const auto& [prefix, protocols] : kFamilies)
      if (keyword.name.starts_with(prefix) &&
          std::find(protocols.begin(), protocols.end(), rule_.header.protocol) == protocols.end())
        return wrong(fmt::format("\"{}\" is no part of what {} says", keyword.name, rule_.header.protocol));
    return {};
  }

  // Buffers are of what an application says in several packets, and some of one direction.
  Result<void> fits_buffers() const {
    for (const auto& buffer : rule_.buffers) {
      if ((packet_ || rule_.flow.no_stream) && !is_of_packets(buffer.name))
        return wrong(fmt::format("{} is not asked for beside what single packets have", buffer.name));
      if (buffer.name == "dns_query" && rule_.flow.to_client)
        return wrong("the names of queries go to the server, and nothing else is asked of answers");
    }
    return {};
  }

  // ---- the rule itself -------------------------------------------------------------------------------

  Result<void> about(const Keyword& keyword, const std::string& value) {
    constexpr std::array kOnce{"msg", "sid", "gid", "rev"};
    if (std::find(kOnce.begin(), kOnce.end(), keyword.name) != kOnce.end() &&
        !said_.insert(keyword.name).second)
      return wrong(fmt::format("it has \"{}\" twice", keyword.name));
    const auto count = [&](u32& to, u64 most) -> Result<void> {
      const auto text = unquoted(value);
      const auto found = text ? number(*text, most) : std::nullopt;
      if (!found) return wrong(fmt::format("{} {} is no number up to {}", keyword.name, value, most));
      to = static_cast<u32>(*found);
      return {};
    };
    constexpr u64 kMost = std::numeric_limits<u32>::max();
    if (keyword.name == "sid") return count(rule_.sid, kMost);
    if (keyword.name == "gid") return count(rule_.gid, kMost);
    if (keyword.name == "rev") return count(rule_.rev, kMost);
    if (keyword.name == "priority") return count(rule_.priority.emplace(0), kMost);
    if (keyword.name == "msg") {
      const auto quotes = quoted("msg", value);
      if (!quotes) return wrong(quotes.error());
      const auto* const text = &quotes->text;
      for (std::size_t i = 0; i < text->size(); i++) {
        if ((*text)[i] == '\\' && i + 1 < text->size() &&
            std::string_view("\"\\;:").find((*text)[i + 1]) != std::string_view::npos)
          i++;
        rule_.msg += (*text)[i];
      }
      return {};
    }
    if (keyword.name == "classtype") {
      rule_.classtype = value;
      return {};
    }
    if (keyword.name == "reference") {
      const auto comma = value.find(',');
      if (comma == std::string::npos)
        return wrong(fmt::format("reference {} is no system and a value", value));
      rule_.references.emplace_back(trimmed(std::string_view(value).substr(0, comma)),
                                    trimmed(std::string_view(value).substr(comma + 1)));
      return {};
    }
    if (keyword.name == "metadata") {
      for (const auto part : at_commas(value)) rule_.metadata.emplace_back(part);
      return {};
    }
    if (keyword.name == "target" && value != "src_ip" && value != "dest_ip")
      return wrong(fmt::format("target {} is neither src_ip nor dest_ip", value));
    return {};
  }

  static Result<void> xor_key(const std::string& value) {
    const auto key = quoted("xor", value);
    if (!key) return wrong(key.error());
    if (key->negated || key->text.empty() || key->text.size() % 2 != 0 ||
        !std::all_of(key->text.begin(), key->text.end(), [](char c) { return hex(c) >= 0; }))
      return wrong(fmt::format("xor {} is no key of hexadecimal digits", value));
    return {};
  }

  // ---- contents --------------------------------------------------------------------------------------

  Result<void> content(const Keyword& keyword, const std::string& value) {
    const auto text = quoted(std::string(keyword.name), value);
    if (!text) return wrong(text.error());
    auto bytes = parse_pattern(text->text);
    if (!bytes) return wrong(bytes.error());
    Content made;
    made.bytes = *std::move(bytes);
    made.negated = text->negated;
    Buffer& to = buffer(keyword.name == "uricontent" ? "http_uri" : current_);
    to.matches.emplace_back(std::move(made));
    last_ = &to;
    return {};
  }

  // The content that modifiers are about: the last one, whatever came behind it.
  Content* last_content() {
    if (last_ == nullptr) return nullptr;
    for (auto match = last_->matches.rbegin(); match != last_->matches.rend(); ++match)
      if (auto* const content = std::get_if<Content>(&*match)) return content;
    return nullptr;
  }

  Result<void> move_last(const Keyword& keyword) {
    if (current_ != "payload")
      return wrong(fmt::format("\"{}\" stands behind a content of no named buffer", keyword.name));
    Content* const content = last_content();
    if (content == nullptr || last_->name != "payload")
      return wrong(fmt::format("\"{}\" has no content in front of it", keyword.name));
    Content moved = std::move(*content);
    auto& from = last_->matches;
    const auto at = std::find_if(from.rbegin(), from.rend(),
                                 [](const Match& match) { return std::holds_alternative<Content>(match); });
    from.erase(std::next(at).base());
    Buffer& to = buffer(keyword.buffer);
    to.matches.emplace_back(std::move(moved));
    last_ = &to;
    return {};
  }

  Result<Position> position(const Keyword& keyword, const std::string& value, std::int64_t least) {
    const auto text = unquoted(value);
    if (!text) return wrong(text.error());
    if (const auto found = signed_number(
            *text, least, keyword.name == "distance" || keyword.name == "within" ? 1048576 : 65535))
      return Position(static_cast<std::int32_t>(*found));
    if (is_variable(*text)) {
      if (!variables_.contains(*text)) return wrong(no_variable(*text));
      return Position(std::string(*text));
    }
    return wrong(
        fmt::format("{} {} is neither a number of bytes nor a variable's name", keyword.name, value));
  }

  Result<void> modify(const Keyword& keyword, const std::string& value) {
    Content* const content = last_content();
    if (content == nullptr) return wrong(fmt::format("\"{}\" has no content in front of it", keyword.name));
    const auto place = [&](std::optional<Position>& to, std::int64_t least) -> Result<void> {
      if (to) return wrong(fmt::format("its content has \"{}\" already", keyword.name));
      auto found = position(keyword, value, least);
      if (!found) return wrong(found.error());
      to = *std::move(found);
      return {};
    };
    const auto flag = [&](bool& to) -> Result<void> {
      if (to) return wrong(fmt::format("its content has \"{}\" already", keyword.name));
      to = true;
      return {};
    };
    if (keyword.name == "offset") return place(content->offset, 0);
    if (keyword.name == "depth") return place(content->depth, 0);
    if (keyword.name == "distance") return place(content->distance, -1048576);
    if (keyword.name == "within") return place(content->within, 0);
    if (keyword.name == "nocase") return flag(content->nocase);
    if (keyword.name == "startswith") return flag(content->starts_with);
    if (keyword.name == "endswith") return flag(content->ends_with);
    if (keyword.name == "fast_pattern") return fast_pattern(*content, value);
    return {};  // rawbytes says nothing that is not so; replace changes what goes on, not what matches
  }

  Result<void> fast_pattern(Content& content, const std::string& value) {
    if (content.fast_pattern) return wrong("its content is the fast pattern already");
    for (const auto& buffer : rule_.buffers)
      for (const auto& match : buffer.matches)
        if (const auto* one = std::get_if<Content>(&match); one != nullptr && one->fast_pattern)
          return wrong("there are two fast patterns");
    content.fast_pattern = true;
    if (value.empty()) return {};
    if (value == "only") {
      content.fast_pattern_only = true;
      return {};
    }
    const auto parts = at_commas(value);
    const auto first = number(parts.front(), 65535);
    const auto length = parts.size() == 2 ? number(parts.back(), 65535) : std::nullopt;
    if (!first || !length || *first + *length > content.bytes.size())
      return wrong(fmt::format("fast_pattern:{} is no first byte and length within its content", value));
    if (*length != 0) content.chop = {static_cast<u16>(*first), static_cast<u16>(*length)};
    return {};
  }

  // A content is no longer than its buffer may be.
  static Result<void> fits_size(const Buffer& buffer) {
    for (const auto& size : buffer.matches) {
      const auto* const condition = std::get_if<Condition>(&size);
      if (condition == nullptr || condition->keyword->name != "bsize") continue;
      const auto& range = std::get<Range>(condition->value);
      for (const auto& match : buffer.matches)
        if (const auto* const content = std::get_if<Content>(&match);
            content != nullptr && !content->negated && !range.negated && content->bytes.size() > range.most)
          return wrong(fmt::format("a content of {} bytes is not in {} of {}", content->bytes.size(),
                                   buffer.name, condition->text));
    }
    return {};
  }

  static Result<void> check(const Content& content) {
    const auto value = [](const std::optional<Position>& position) -> std::optional<std::int32_t> {
      if (!position || !std::holds_alternative<std::int32_t>(*position)) return {};
      return std::get<std::int32_t>(*position);
    };
    const bool from_start = content.offset || content.depth, from_last = content.distance || content.within;
    if (from_start && from_last)
      return wrong(
          "a content stands from the buffer's start (offset, depth) and from the last match (distance, "
          "within)");
    if (content.starts_with && (from_start || from_last))
      return wrong("\"startswith\" stands with offset, depth, distance or within");
    if (content.fast_pattern_only && (content.negated || from_start || from_last))
      return wrong("\"fast_pattern:only\" is for contents that may stand anywhere, and have to be there");
    if (content.fast_pattern && content.negated && (from_start || from_last))
      return wrong("a content that has to be missing from one place is no fast pattern");
    const auto size = static_cast<std::int32_t>(content.bytes.size());
    if (const auto depth = value(content.depth); depth && *depth < size)
      return wrong(fmt::format("depth {} is less than its content's {} bytes", *depth, size));
    if (const auto within = value(content.within); within && *within < size)
      return wrong(fmt::format("within {} is less than its content's {} bytes", *within, size));
    return {};
  }

  // ---- other conditions ------------------------------------------------------------------------------

  Result<void> condition(const Keyword& keyword, const std::string& value) {
    if (keyword.name == "pcre") return pcre(keyword, value);
    if (keyword.name == "base64_decode") decodes_ = true;
    if ((keyword.name == "bsize" || keyword.name == "dataset") && current_ == "payload")
      return wrong(fmt::format("\"{}\" is about a buffer that is named in front of it", keyword.name));
    return add(buffer(current_).matches, keyword, value);
  }

  static std::string no_variable(std::string_view name) {
    return fmt::format("nothing in front of it makes a variable \"{}\"", name);
  }

  // Of those that the value names, the first one that is not there; makes what it makes.
  Result<void> resolve(const Value& value) {
    const auto known = [&](const Amount& amount) {
      return !std::holds_alternative<std::string>(amount) ||
             variables_.contains(std::get<std::string>(amount));
    };
    const auto need = [&](std::initializer_list<const Amount*> amounts) -> Result<void> {
      for (const Amount* const amount : amounts)
        if (!known(*amount)) return wrong(no_variable(std::get<std::string>(*amount)));
      return {};
    };
    if (const auto* const test = std::get_if<ByteTest>(&value))
      return need({&test->value, &test->number.offset});
    if (const auto* const jump = std::get_if<ByteJump>(&value))
      return need({&jump->number.offset, &jump->post_offset});
    if (const auto* const at = std::get_if<DataAt>(&value)) return need({&at->offset});
    if (const auto* const extract = std::get_if<ByteExtract>(&value)) {
      auto needed = need({&extract->number.offset});
      variables_.insert(extract->variable);
      return needed;
    }
    if (const auto* const math = std::get_if<ByteMath>(&value)) {
      auto needed = need({&math->number.offset, &math->right});
      variables_.insert(math->variable);
      return needed;
    }
    return {};
  }

  template <class Conditions>
  Result<void> add(Conditions& to, const Keyword& keyword, const std::string& text) {
    auto value = parse_value(keyword, text);
    if (!value) return wrong(std::move(value.error()));
    if (auto resolved = resolve(*value); !resolved) return resolved;
    to.emplace_back(Condition{&keyword, text, *std::move(value)});
    return {};
  }

  static bool is_found(const Match& match) {
    const auto* const condition = std::get_if<Condition>(&match);
    return condition == nullptr || std::holds_alternative<Regex>(condition->value);
  }

  // Its letters may say where it is looked for.
  Result<void> pcre(const Keyword& keyword, const std::string& value) {
    const auto text = quoted("pcre", value);
    if (!text) return wrong(text.error());
    auto regex = parse_regex(text->text, text->negated);
    if (!regex) return wrong(std::move(regex.error()));
    Buffer& in = buffer(regex->buffer.empty() ? current_ : regex->buffer);
    const bool is_named = regex->buffer.empty() && in.name != "payload";
    if (regex->relative && !is_named && std::none_of(in.matches.begin(), in.matches.end(), is_found))
      return wrong("a pcre that is relative has no match in front of it");
    in.matches.emplace_back(Condition{&keyword, value, *std::move(regex)});
    return {};
  }

  Result<void> other(const Keyword& keyword, const std::string& value) {
    if (keyword.name == "ip_proto" && layer_of(rule_.header.protocol) != Layer::any)
      return wrong(fmt::format("ip_proto stands in a rule for ip, not {}", rule_.header.protocol));
    if (keyword.name == "app-layer-protocol" && layer_of(rule_.header.protocol) == Layer::application)
      return wrong(fmt::format("app-layer-protocol stands in a rule for {} already", rule_.header.protocol));
    if (keyword.name == "app-layer-protocol")
      if (const std::string_view name = value.starts_with('!') ? std::string_view(value).substr(1) : value;
          name != "failed" && layer_of(name) != Layer::application)
        return wrong(fmt::format("app-layer-protocol {} is no protocol that Suricata 7 tells", name));
    if (keyword.name == "ssl_version")
      if (const auto parts = at_commas(value); std::any_of(parts.begin(), parts.end(), [&](const auto& part) {
            return part.starts_with('!') != parts.front().starts_with('!');
          }))
        return wrong("ssl_version names versions and what are none");
    if (keyword.name == "flow")
      if (auto taken = flow(value); !taken) return taken;
    if (keyword.name == "threshold" || keyword.name == "detection_filter")
      if (auto taken = threshold(keyword, value); !taken) return taken;
    packet_ = packet_ || is_of_a_packet(keyword.name);
    // It is a condition on the request's path.
    if (keyword.name == "urilen") return add(buffer("http_uri").matches, keyword, value);
    return add(rule_.conditions, keyword, value);
  }

  Result<void> flow(const std::string& value) {
    struct Word {
      std::string_view name;
      bool FlowIs::*is;
    };
    constexpr Word kWords[] = {
        {"to_server", &FlowIs::to_server},     {"from_client", &FlowIs::to_server},
        {"to_client", &FlowIs::to_client},     {"from_server", &FlowIs::to_client},
        {"established", &FlowIs::established}, {"not_established", &FlowIs::not_established},
        {"stateless", &FlowIs::stateless},     {"only_stream", &FlowIs::only_stream},
        {"no_stream", &FlowIs::no_stream},     {"no_frag", &FlowIs::no_frag},
        {"only_frag", &FlowIs::only_frag}};
    for (const auto part : at_commas(value)) {
      const auto* const found = std::find_if(std::begin(kWords), std::end(kWords),
                                             [&](const Word& one) { return one.name == part; });
      if (found == std::end(kWords)) return wrong(fmt::format("flow has no \"{}\"", part));
      if (rule_.flow.*found->is) return wrong(fmt::format("flow says \"{}\" twice", part));
      rule_.flow.*found->is = true;
    }
    const FlowIs& is = rule_.flow;
    if (is.to_server && is.to_client) return wrong("flow cannot go to the server and to the client");
    if (is.established + is.not_established + is.stateless > 1)
      return wrong("flow is one of established, not_established and stateless");
    if ((is.only_stream && is.no_stream) || (is.only_frag && is.no_frag))
      return wrong("flow asks for the one and the other");
    return {};
  }

  Result<void> threshold(const Keyword& keyword, const std::string& value) {
    if (rule_.threshold) return wrong("it has a threshold already");
    Threshold made;
    const bool filter = keyword.name == "detection_filter";
    if (filter) made.type = Threshold::Type::detection_filter;
    bool has_type = filter, has_track = false, has_count = false, has_seconds = false;
    for (const auto part : at_commas(value)) {
      const auto space = part.find(' ');
      if (space == std::string_view::npos)
        return wrong(fmt::format("{} has no value for \"{}\"", keyword.name, part));
      const auto name = part.substr(0, space), what = trimmed(part.substr(space));
      const auto choice = [&](auto& to, bool& has, auto... choices) -> Result<void> {
        bool found = false;
        const auto one = [&](const auto& pair) {
          if (pair.first != what) return;
          to = pair.second;
          found = true;
        };
        (one(choices), ...);
        if (!found || has)
          return wrong(fmt::format("{}: \"{}\" is no {}, or one too many", keyword.name, what, name));
        has = true;
        return {};
      };
      const auto amount = [&](u32& to, bool& has) -> Result<void> {
        const auto found = number(what, std::numeric_limits<u32>::max());
        if (!found || *found == 0 || has)
          return wrong(fmt::format("{}: \"{}\" is no {}, or one too many", keyword.name, what, name));
        to = static_cast<u32>(*found);
        has = true;
        return {};
      };
      using Type = Threshold::Type;
      using Track = Threshold::Track;
      using TypeName = std::pair<std::string_view, Type>;
      using TrackName = std::pair<std::string_view, Track>;
      Result<void> taken;
      if (name == "type" && !filter)
        taken = choice(made.type, has_type, TypeName{"limit", Type::limit},
                       TypeName{"threshold", Type::threshold}, TypeName{"both", Type::both});
      else if (name == "track" && filter)
        taken = choice(made.track, has_track, TrackName{"by_src", Track::by_src},
                       TrackName{"by_dst", Track::by_dst});
      else if (name == "track")
        taken = choice(made.track, has_track, TrackName{"by_src", Track::by_src},
                       TrackName{"by_dst", Track::by_dst}, TrackName{"by_both", Track::by_both},
                       TrackName{"by_rule", Track::by_rule});
      else if (name == "count")
        taken = amount(made.count, has_count);
      else if (name == "seconds")
        taken = amount(made.seconds, has_seconds);
      else
        taken = wrong(fmt::format("{} has no \"{}\"", keyword.name, name));
      if (!taken) return taken;
    }
    if (!has_type || !has_track || !has_count || !has_seconds)
      return wrong(fmt::format("{} needs {}track, count and seconds", keyword.name, filter ? "" : "type, "));
    rule_.threshold = made;
    return {};
  }

  // ---- what it is about ------------------------------------------------------------------------------

  // A rule for TCP with contents is about the stream; where one has its place in a packet, about packets,
  // too.
  Type type() const {
    const bool layer7 =
        std::any_of(rule_.conditions.begin(), rule_.conditions.end(),
                    [](const Condition& one) { return one.keyword->name == "app-layer-event"; });
    if (layer7 || std::any_of(rule_.buffers.begin(), rule_.buffers.end(),
                              [](const Buffer& one) { return !is_of_packets(one.name); }))
      return Type::application;
    const auto payload = std::find_if(rule_.buffers.begin(), rule_.buffers.end(),
                                      [](const Buffer& one) { return one.name == "payload"; });
    if (rule_.buffers.empty() &&
        std::all_of(rule_.conditions.begin(), rule_.conditions.end(), [](const Condition& one) {
          return one.keyword->kind == Kind::after || one.keyword->name == "ip_proto";
        }))
      return Type::ip_only;
    const Layer layer = *layer_of(rule_.header.protocol);
    const bool has_streams = layer == Layer::tcp || layer == Layer::tcp_stream || layer == Layer::any ||
                             layer == Layer::ip || layer == Layer::application;
    if (payload == rule_.buffers.end() || !has_streams) return Type::packet;
    if (layer == Layer::tcp_stream) return Type::stream;
    if (packet_ || rule_.flow.no_stream) return Type::packet;
    if (rule_.flow.only_stream) return Type::stream;
    const bool placed = std::any_of(payload->matches.begin(), payload->matches.end(),
                                    [](const Match& match) {
                                      const auto* const content = std::get_if<Content>(&match);
                                      return content != nullptr &&
                                             (content->offset || content->depth || content->starts_with);
                                    }) ||
                        std::any_of(rule_.conditions.begin(), rule_.conditions.end(),
                                    [](const Condition& one) { return one.keyword->name == "stream_size"; });
    return placed ? Type::both : Type::stream;
  }
  // Conditions on what a packet has and a stream has not.
  static bool is_of_a_packet(std::string_view keyword) {
    constexpr std::array<std::string_view, 27> kKeywords{
        "ack",     "dsize",      "flags",     "flow.age",   "fragbits", "fragoffset", "geoip",
        "icmp_id", "icmp_seq",   "icode",     "icmpv6.mtu", "id",       "ip_proto",   "ipopts",
        "itype",   "rpc",        "sameip",    "seq",        "tcp.ack",  "tcp.flags",  "tcp.mss",
        "tcp.seq", "tcp.window", "template2", "tos",        "ttl",      "window"};
    return std::find(kKeywords.begin(), kKeywords.end(), keyword) != kKeywords.end();
  }
  static bool is_of_packets(std::string_view name) {
    return name == "payload" || name == "base64_data" || name.ends_with(".hdr");
  }

  Rule& rule_;
  std::string current_ = "payload";
  bool address_ = false;  // that is what the option in front names
  std::set<std::string_view> said_;
  std::set<std::string, std::less<>> variables_;  // that byte_extract and byte_math have made so far
  Buffer* last_ = nullptr;                        // that the last content is in
  bool decodes_ = false;                          // base64
  bool packet_ = false;                           // it asks for what a stream has not
};

}  // namespace

std::string_view name_of(Type type) {
  constexpr std::array<std::string_view, 5> kNames{"ip_only", "pkt", "stream", "pkt_stream", "app_tx"};
  return kNames[static_cast<std::size_t>(type)];
}

Result<std::string> parse_pattern(std::string_view text) {
  std::string bytes;
  bool in_hex = false;
  int high = -1;
  for (std::size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (c == '|') {
      if (high >= 0) return wrong(fmt::format("the pattern \"{}\" has half a byte", text));
      in_hex = !in_hex;
    } else if (in_hex) {
      if (c == ' ') continue;
      const int digit = hex(c);
      if (digit < 0)
        return wrong(fmt::format("the pattern \"{}\" has '{}' among its hexadecimal digits", text, c));
      if (high < 0) {
        high = digit;
        continue;
      }
      bytes += static_cast<char>(high * 16 + digit);
      high = -1;
    } else if (c == '\\') {
      if (++i == text.size() || std::string_view("\\\";:|").find(text[i]) == std::string_view::npos)
        return wrong(fmt::format("the pattern \"{}\" has a backslash in front of what needs none", text));
      bytes += text[i];
    } else if (c == '"') {
      return wrong(fmt::format("the pattern \"{}\" has a quote without a backslash", text));
    } else {
      bytes += c;
    }
  }
  if (in_hex) return wrong(fmt::format("the pattern \"{}\" has a | that is not closed", text));
  if (bytes.empty()) return wrong("a content is empty");
  return bytes;
}

std::string pattern_text(std::string_view bytes) {
  std::string text;
  bool in_hex = false;
  for (const char c : bytes) {
    const bool plain = c >= 0x20 && c < 0x7f && std::string_view("|\";:\\").find(c) == std::string_view::npos;
    if (!plain && in_hex) text += ' ';
    if (plain == in_hex) {
      text += '|';
      in_hex = !in_hex;
    }
    text += plain ? std::string(1, c) : fmt::format("{:02X}", static_cast<u8>(c));
  }
  if (in_hex) text += '|';
  return text;
}

Result<Rule> parse_rule(const RuleText& text, const Variables& variables) {
  auto parts = split_rule(text.text);
  if (!parts) return wrong(std::move(parts.error()));
  auto header = parse_header(parts->header, variables);
  if (!header) return wrong(std::move(header.error()));
  Rule rule;
  rule.place = text.place;
  rule.header = *std::move(header);
  rule.buffers.reserve(parts->options.size() + 1);  // their places are kept while it is read
  Parser parser(rule);
  for (const OptionText& option : parts->options)
    if (auto taken = parser.take(option); !taken) return wrong(std::move(taken.error()));
  if (auto finished = parser.finish(); !finished) return wrong(std::move(finished.error()));
  return rule;
}

}  // namespace xdpgpu::rules
