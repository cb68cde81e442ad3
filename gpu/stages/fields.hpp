// SPDX-License-Identifier: MIT
//
// gpu/stages/fields.hpp: what a stage's table of fields is written with. Each stage's settings have one:
//
//   template <class Table>
//   void fields_of(Table& table, SettingsLike<L2fwdSettings> auto& s) {
//     table.about("Swaps the MAC addresses and sends the frame out again.");
//     table.port("to", s.to, s.to_port, s.target, "Interface to send out of. ...");
//     table.cache(s.cache, s.cache_ttl_ms);
//   }
//
// Whoever has to do with all fields of all stages is a Table: what reads them from a policy, what shows them,
// what writes config/policy.schema.json and config/stages.md, what finds the interfaces and lists that they
// name (userspace/policy/stage_*). A Table has, for a field of each kind:
//
// clang-format off
//   about(sentence)                                  of the whole stage, or of a record
//   word(key, value, names, sentence, say)           one of an enumeration's names
//   flag(key, value, sentence, say)
//   integer(key, value, least, most, sentence, say)
//   time(key, ms, least_ms, most_ms, sentence, say)  whole milliseconds, written as "30s"
//   bytes(key, value, least, most, sentence, say)    a number of bytes, written as 4096 or "4KB"
//   cache(on, ttl_ms, sentence, say)                 "cache": true, false or a time
//   port(key, name, used, index, sentence, say)      an attached interface; used and index: known once it is
//   action(key, action, name, index, words, sentence, say)  one of the words, or {"redirect": INTERFACE}
//   text(key, value, sentence, say)                  a name for people, up to 128 bytes
//   file(key, value, sentence, say)                  a file's, relative to the policy
//   mac(key, value, sentence, say)                   and mac(key, value, given, sentence, say)
//   host(key, prefix, sentence, say)                 one address; a length of 0: none
//   source(key, prefix, family, least, sentence, say)  an address, or a network of so many bits at least
//   prefixes, protocols, ports, tcp_flags, vlans(key, value, sentence, say)
//   list(key, name, prefixes, sentence, say)         one of the policy's lists; prefixes: known once it is
//   list(key, name, names, sentence, say)            likewise, one of domains
//   secret(key, file, value, sentence, say)          a file of 32 hexadecimal digits
//   routes(key, routes, sources, targets, sentence, say)  prefixes to named targets, in place and in files
//   rules(key, source, sentence, say)                rule files, and patterns of them
//   rule_variables(key, variables, sentence, say)    by name, each one value or an array
//   rule_file(key, file, sentence, say)              a file that says something of rules
//   array(key, values, least, most, what, sentence, say)  records, one after the other
//   by_name(key, values, least, most, what, sentence, say)  records by their names
//   record(key, value, what, sentence, say)          one, or one that may be missing (std::optional)
//   group(key, what, sentence, say, [&](auto& table) {})  an object whose fields are of the same settings
//   any_of({keys}, sentence)                         one of these has to be there
// clang-format on
//
// The default is what the settings have when they are made. Fields are read in the order of the table, and
// shown in it; what a field's `say` asks of another one has to stand in front of it, and be asked there.
#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gpu/stages/values.hpp"

namespace xdpgpu::gpu {

// Settings, or constant ones.
template <class T, class Settings>
concept SettingsLike = std::same_as<std::remove_const_t<T>, Settings>;

template <class E>
struct Named {
  E value;
  std::string_view name;
};

using Keys = std::vector<std::string_view>;

// What else is to be said of a field.
struct Say {
  bool required = false;
  bool shown = true;             // false: as it stands it says nothing, and is not shown
  bool derived = false;          // what it is where nothing is said hangs on other fields: settle() says it
  bool fits = true;              // false: it means nothing here, and is refused with this sentence
  std::string_view unless = {};  // "only maglev has a lookup table: take this out, or ..."
  std::string_view needs = {};   // another key that has to be there, else it is refused with this sentence:
  std::string_view lacks = {};
};

// What a policy wrote of a stage's settings, for settle(): what follows from what was not said, and what
// cannot be said together.
class Written {
 public:
  virtual ~Written() = default;
  virtual bool has(std::string_view key) const = 0;
  // The problem stands at the key; where that is not there, or "", at the object itself.
  virtual void refuse(std::string_view key, std::string sentence) const = 0;
  // A time as policies have it: "5s".
  virtual std::string time(u32 ms) const = 0;
  // The object at the key, if there is one.
  virtual void in(std::string_view key, const std::function<void(const Written&)>& use) const = 0;
  // Each element of the array, or member of the object, at the key, by its position; the first `count` of
  // them, which are those that were read.
  virtual void each(std::string_view key, std::size_t count,
                    const std::function<void(std::size_t, const Written&)>& use) const = 0;
};

// All actions but redirect, which names its interface, and is possible wherever these are.
inline constexpr Named<Action> kActionNames[] = {
    {Action::next, "next"}, {Action::drop, "drop"}, {Action::pass, "pass"}, {Action::tx, "tx"}};
// What stands for packets that nothing else decides.
inline constexpr std::span<const Named<Action>> kOtherwiseNames{kActionNames, 3};
// A plain decision.
inline constexpr Named<Action> kDecisionNames[] = {{Action::pass, "pass"}, {Action::drop, "drop"}};
inline constexpr Named<TableSettings::Evict> kEvictNames[] = {{TableSettings::Evict::fifo, "fifo"},
                                                              {TableSettings::Evict::lru, "lru"},
                                                              {TableSettings::Evict::lfu, "lfu"},
                                                              {TableSettings::Evict::random, "random"},
                                                              {TableSettings::Evict::refuse, "refuse"}};

// A time after which something is forgotten: 1ms to a week.
inline constexpr u32 kMaxTimeoutMs = 7 * 24 * 3'600'000;

// What each stage with a table can be told of it.
template <class Table>
void table_fields(Table& table, auto& settings, u32 most, std::string_view entries, std::string_view evict) {
  table.integer("entries", settings.entries, 1, most, entries, Say{});
  table.word("evict", settings.evict, kEvictNames, evict, Say{});
}
inline constexpr u32 kMaxTableEntries = 1u << 26;

}  // namespace xdpgpu::gpu
