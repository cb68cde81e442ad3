// SPDX-License-Identifier: MIT
//
// gpu/rule_source.hpp: rules of files, as a policy names them and a stage has them, and what is said of each
// rule where it is told of. userspace/policy/rule_files.hpp makes signatures of them
// (gpu/signatures.hpp).
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/signatures.hpp"

namespace xdpgpu::gpu {

// text: nullptr where what is in it was not asked for.
struct RuleFile {
  std::string name;
  std::shared_ptr<const std::string> text;
  bool operator==(const RuleFile& other) const {
    return name == other.name && (text == other.text || (text && other.text && *text == *other.text));
  }
};

// Addresses or ports by a name, as rules write them behind "$": each value as Suricata's configuration has
// it, "10.0.0.0/8", "!$HOME_NET", "1024:".
struct RuleVariable {
  std::string name;
  std::vector<std::string> values;
  bool operator==(const RuleVariable&) const = default;
};

struct RuleSource {
  std::vector<std::string> paths;  // as the policy has them: a file's, or a pattern of files' (glob(7))
  std::vector<RuleFile> files;     // that they stand for, each once
  std::vector<RuleVariable> variables;
  // Each may be missing: no name. classification.config and threshold.config; the others are
  // suricata-update's.
  RuleFile classification, disable, enable, modify, drop, threshold;
  // That rules of the files look names up in: they are loaded from files that rules name.
  std::vector<signatures::SharedStrings> sets{};
  bool operator==(const RuleSource&) const = default;
};

// How often a rule alerts, as Suricata's `threshold` and `detection_filter` have it: in windows of so many
// seconds, each from a match on. limit: `count` times in each. threshold: at each `count`th match in one.
// both: once, at the `count`th. detection_filter: at each match behind `count` of them.
inline constexpr u32 kMostAlertCount = (1u << 28) - 1;
struct AlertLimit {
  enum class Type : u8 { none, limit, threshold, both, detection_filter } type = Type::none;
  // What has a window of its own: a source's address, a destination's, the two of them either way around, or
  // no more than the rule.
  enum class Track : u8 { by_src, by_dst, by_both, by_rule } track = Track::by_src;
  u32 count = 0, seconds = 0;  // count: 1 to kMostAlertCount
  bool operator==(const AlertLimit&) const = default;
};

// What a rule asks of bits that rules set, or does to them once it holds for a packet: `flowbits`, `xbits`
// and `hostbits`. A name is a bit of its own for each kind of what it is set on, by whatever keyword.
struct RuleBits {
  enum class What : u8 { is_set, is_not_set, set, unset, toggle } what = What::is_set;
  // The packet's connection (XG_CONNECTION_HAS), the address it is from or for, or the two of them.
  enum class On : u8 { connection, source, destination, pair } on = On::connection;
  std::vector<u64> names{};  // hashes of them; is_set and is_not_set: of any one; else there is one
  u32 seconds = 0;           // on addresses: after which it is not set any more
  bool operator==(const RuleBits&) const = default;
  bool asks() const { return what == What::is_set || what == What::is_not_set; }
};

// What is said of a rule, beside what it asks for.
struct RuleHead {
  u32 gid = 1, sid = 0, rev = 0, priority = 3;
  std::string msg, category;
  AlertLimit limit{};
  double cost = 0;  // rules::cost_of() its signature
  std::vector<RuleBits> bits{};
  bool noalert = false;
  // What its rule does. late: whether it does it, the host says, once the device has said that all else that
  // the rule asks for holds: to the device it is a rule that alerts.
  signatures::Action action = signatures::Action::alert;
  bool late = false;
  // What hosts are to ask, too, before the rule holds; nullptr: nothing.
  std::shared_ptr<const signatures::HostPart> rest{};
  bool operator==(const RuleHead& other) const {
    const auto all = [](const RuleHead& one) {
      return std::tie(one.gid, one.sid, one.rev, one.priority, one.msg, one.category, one.limit, one.cost,
                      one.bits, one.noalert, one.action, one.late);
    };
    return all(*this) == all(other) && (rest == other.rest || (rest && other.rest && *rest == *other.rest));
  }
};

// For whom rules do not alert, as threshold.config's `suppress` has it.
struct Suppression {
  u32 gid = 0, sid = 0;  // of which rule; sid 0: of all with that gid, both 0: of all
  enum class Whose : u8 { anybody, source, destination, either } whose = Whose::anybody;
  signatures::Addresses addresses{};  // that the one named has
  bool operator==(const Suppression&) const = default;
};

// Of a stage with the trait rule_files.
struct FileRules {
  // By which a policy says what rules there are; the rest is made of it.
  RuleSource source{};
  std::shared_ptr<const std::vector<signatures::Signature>> signatures{};  // nullptr: none
  // In the signatures' order; nullptr: no more is said of them than they say. Who runs the stage has heads
  // alone.
  std::shared_ptr<const std::vector<RuleHead>> heads{};
  std::shared_ptr<const std::vector<Suppression>> suppressed{};  // by gid and sid; nullptr: none
  // For which packets the rules are that are not among the signatures, each header once; both ways, as their
  // flows are. Not of those that an application's protocol alone tells from others. nullptr: none.
  std::shared_ptr<const std::vector<signatures::Header>> undecided{};
  std::vector<std::string> notes{};  // what is to be said of the files, a sentence each

  const std::vector<signatures::Signature>& all() const {
    static const std::vector<signatures::Signature> none;
    return signatures ? *signatures : none;
  }
  bool operator==(const FileRules& other) const {
    return source == other.source && (signatures == other.signatures || all() == other.all());
  }
};

}  // namespace xdpgpu::gpu
