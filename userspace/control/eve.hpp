// SPDX-License-Identifier: MIT
//
// userspace/control/eve.hpp: events as lines of EVE JSON, as Suricata 7 writes them ("EVE JSON Format" of its
// user guide), so that what reads those reads these. What Suricata has no word for stands in an object
// "xdpgpu" of its own. config/log.md has each field.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "userspace/control/fields.hpp"
#include "userspace/dataplane/event_log.hpp"

namespace xdpgpu::control {

// What an event does not say of itself.
struct EveFacts {
  u64 wall_ns = 0;           // nanoseconds since 1970, UTC: when the packet came
  std::array<u64, 2> key{};  // that flow ids are made with: one for all lines that are compared
  std::string interface {};  // that it came in on
  std::string pipeline{};    // empty: not known any more
  std::string decided_by{};  // "stage 1 (domains) list bad"
};

// What a stage that looks for signatures says of a packet.
struct EveAlert {
  u64 gid = 1, sid = 0, rev = 0;
  u64 severity = 3;  // 1: the worst
  std::string_view signature, category;
  bool blocked = false;  // the packet was dropped
  bool more = false;     // and more rules hold for it than are told of
};

// Where a program put something out.
struct EveProgram {
  std::string_view name, map;
};

// Each appends one line, its newline included, to `line`. Packets' bytes are a stranger's: whatever they are,
// the line is one JSON object.
void eve_drop(const dataplane::Event& event, const EveFacts& facts, std::string& line);
// Whether it has a question that can be told; nothing is appended where it has none.
bool eve_dns(const dataplane::Event& event, const EveFacts& facts, std::string& line);
void eve_alert(const dataplane::Event& event, const EveAlert& alert, const EveFacts& facts,
               std::string& line);
void eve_program(const dataplane::Event& event, const EveProgram& program, const EveFacts& facts,
                 std::string& line);
// stats: the event's "stats".
void eve_stats(const Json& stats, u64 wall_ns, std::string& line);

// A DNS name's labels with dots between them, "." for the root. In place of what is neither a letter nor
// another visible ASCII character, and of dots and backslashes in labels, stands \x and two hexadecimal
// digits: no two names have one text. name: from its first length on, with the zero.
std::string dns_name_text(const u8* name, u32 bytes);

}  // namespace xdpgpu::control
