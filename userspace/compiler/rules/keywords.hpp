// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/keywords.hpp: the options' names that Suricata 7 knows, and what each is to a
// rule.
#pragma once

#include <optional>
#include <string_view>

#include "maps/types.h"

namespace xdpgpu::rules {

enum class Kind : u8 {
  about,   // the rule itself: msg, sid, reference, ...
  buffer,  // from here on conditions are about this part of the traffic
  moves,   // puts the last content into a buffer, as rules of old did
  content,
  modifier,   // of the content in front of it
  condition,  // on the buffer that was named last, or the payload
  transform,  // of the buffer that was named last
  header,     // a condition on the packet's headers, or its length
  state,      // a condition on its flow, or what is remembered
  after,      // what is done once a rule matches, or how often
  layer7,     // a condition on a protocol's own state
};

struct Keyword {
  std::string_view name;
  Kind kind;
  std::string_view buffer;  // of buffer and moves: its name, as Suricata's analysis has it
  bool takes_value;         // must have one
  bool may_lack_value;      // may have none
};

// Lower and upper case are told apart. Nothing: Suricata 7 has no such keyword.
const Keyword* find_keyword(std::string_view name);
// The keyword that names a buffer in rules of today, the first of several: "file.data" of "file_data". A name
// that no buffer has is given back.
std::string_view keyword_of_buffer(std::string_view buffer);

}  // namespace xdpgpu::rules
