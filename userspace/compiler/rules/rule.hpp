// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/rule.hpp: one rule as Suricata 7 understands it: what it is looked for in, and by
// which of its contents it is found first.
#pragma once

#include <variant>

#include "gpu/rule_source.hpp"
#include "userspace/compiler/rules/conditions.hpp"
#include "userspace/compiler/rules/header.hpp"

namespace xdpgpu::rules {

// Where a content stands: a number of bytes, or the name of a variable that byte_extract or byte_math makes.
using Position = std::variant<std::int32_t, std::string>;

struct Content {
  std::string bytes;
  bool negated = false;
  bool nocase = false;
  bool starts_with = false, ends_with = false;
  std::optional<Position> offset, depth;     // from the buffer's first byte
  std::optional<Position> distance, within;  // from the end of the match before
  bool fast_pattern = false;                 // by the rule's own word
  bool fast_pattern_only = false;
  std::optional<std::pair<u16, u16>> chop;  // of the fast pattern: first byte and length
};

// Any other condition.
struct Condition {
  const Keyword* keyword;
  std::string text;  // as it is written
  Value value{};
};
using Match = std::variant<Content, Condition>;

// Conditions on one part of the traffic, in the rule's order.
struct Buffer {
  std::string name;  // as Suricata's analysis has it: "payload", "http_uri", "tls.sni", ...
  std::vector<std::string> transforms;
  std::vector<Match> matches;
};

// How often it alerts.
using Threshold = gpu::AlertLimit;

struct FlowIs {
  bool to_server = false, to_client = false, established = false, not_established = false, stateless = false;
  bool only_stream = false, no_stream = false, no_frag = false, only_frag = false;
};

// Which bytes a rule is about.
enum class Type : u8 {
  ip_only,      // addresses and ports, no more
  packet,       // each packet by itself
  stream,       // the bytes of a TCP stream
  both,         // either
  application,  // parts of what an application protocol says
};
std::string_view name_of(Type type);

struct Rule {
  Place place;
  Header header;
  std::string msg, classtype;
  u32 gid = 1, sid = 0, rev = 0;
  std::optional<u32> priority;  // by its own word
  std::vector<std::pair<std::string, std::string>> references;
  std::vector<std::string> metadata;
  // Those that are named, in the order in which they are named first. "dns_query" is there each time that it
  // is named: a message may ask for several names.
  std::vector<Buffer> buffers;
  std::vector<Condition> conditions;  // on all else
  FlowIs flow;
  std::optional<Threshold> threshold;
  Type type = Type::packet;

  // The content that is looked for first: its buffer's place in `buffers`, and its own there.
  struct FastPattern {
    u32 buffer, match;
  };
  std::optional<FastPattern> fast_pattern;
};

// A rule of its text; the error is a sentence, without the place.
Result<Rule> parse_rule(const RuleText& text, const Variables& variables);

// A content's pattern, of what stands between its quotes: "|0d 0a|" are two bytes. The error is a sentence.
Result<std::string> parse_pattern(std::string_view text);
// The other way round: what cannot be printed, and what has a meaning in rules, as hexadecimal digits.
std::string pattern_text(std::string_view bytes);

}  // namespace xdpgpu::rules
