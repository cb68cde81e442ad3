// SPDX-License-Identifier: MIT
//
// userspace/policy/policy.hpp: a policy as values, and how it is read from JSON.
//
//   auto policy = policy::parse(text, "policy.json", policy::read_files_from("/etc/xdpgpu"));
//   if (!policy) for (auto& d : policy.error()) fmt::print("{}\n", d.sentence());
//   auto tables = policy::compile(*policy);
//
// A policy is accepted whole or refused whole; every problem found is reported with its JSON pointer,
// line and column. Nothing here knows maps' descriptors, devices or interfaces.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "gpu/stages/stages.hpp"
#include "maps/tables.h"
#include "userspace/compiler/programs/object.hpp"

namespace xdpgpu::policy {

// One problem, one sentence. line and column count from 1; 0 where there is no place in the text.
struct Diagnostic {
  std::string file;
  std::string pointer;  // "/rules/3/match/src"
  u32 line = 0;
  u32 column = 0;
  std::string message;           // what is wrong and what to do
  std::string sentence() const;  // "policy.json:12:7: /rules/3/match/src: ..."
};
using Diagnostics = std::vector<Diagnostic>;
template <class T>
using Result = tl::expected<T, Diagnostics>;

struct Prefix {
  u8 family = 4;        // 4 or 6
  u8 length = 0;        // bits
  u8 address[16] = {};  // network order, host bits zero; IPv4 in the first four
  bool operator==(const Prefix&) const = default;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const Prefix&) const = default;
};
struct PortRange {
  u16 first = 0, last = 65535;  // host order, inclusive
  bool operator==(const PortRange&) const = default;
};
// VLANs by the outer tag's id, inclusive. From 0 to 0: packets without a tag ("none"); from XG_VLAN_PRIORITY
// to the same: a tag with id 0 ("priority").
struct VlanRange {
  u16 first = 0, last = 0;
  bool operator==(const VlanRange&) const = default;
};
// A named list: written in place, or read from a file with a line an entry.
struct List {
  enum class Type { address, domain };
  std::string description;
  std::string file;              // as the policy names it; empty: written in place
  std::vector<Prefix> prefixes;  // of addresses
  Type type = Type::address;
  bool subdomains = false;   // of domains, in a file: a plain name stands for those beneath it, too
  gpu::DomainNames names{};  // of domains
  bool left_out = false;     // of domains: what is in the file was not asked for, and is not here
  bool operator==(const List&) const = default;
};

// XG_DO_*. inspect: `fragments` and `malformed` only, track: `fragments` only. known_*: `on_failure` and
// `on_overload` only: flows with a verdict go on as it says, the others so.
enum class Do : u8 {
  pass = XG_DO_PASS,
  drop = XG_DO_DROP,
  inspect = XG_DO_INSPECT,
  track = XG_DO_TRACK,
  known_pass = XG_DO_KNOWN | XG_DO_PASS,
  known_drop = XG_DO_KNOWN | XG_DO_DROP,
};

// What becomes of an IPv4 datagram whose fragments overlap: it is dropped, or the bytes that came first
// stand.
enum class Overlapping : u8 { drop, first };

// A rule's condition: every named key must hold; within a key any value will do. Empty: not named.
struct Match {
  std::vector<Prefix> src, dst;                   // written in place
  std::vector<std::string> src_lists, dst_lists;  // "@name", without the @
  std::vector<u8> protocols;
  std::vector<PortRange> src_ports, dst_ports;
  std::optional<u8> tcp_flags_mask;  // packet's flags & mask == value
  u8 tcp_flags_value = 0;
  std::vector<VlanRange> vlans;
  std::vector<u32> control;  // XG_CONTROL_*
  std::optional<u8> family;  // 4 or 6
  bool operator==(const Match&) const = default;
};

// Traffic that manages the host.
struct Management : Match {
  std::string description;
  bool operator==(const Management&) const = default;
};

struct Limit {
  u32 per = XG_LIMIT_PER_SRC;
  u64 pps = 0;
  u64 burst = 0;  // packets; default: pps
  bool operator==(const Limit&) const = default;
};

// What may pass ahead of the rules (XG_RATE_*); what is over it meets them. config/README.md has the reasons.
struct Rate {
  u64 pps =
      0;  // XG_CONTROL_ARP, ND and DHCP: half for requests, a quarter each for answers and known senders
  u64 burst = 0;  // packets; default: pps
  bool operator==(const Rate&) const = default;
};
using Rates = std::array<Rate, XG_RATES>;
inline constexpr Rates kDefaultRates{Rate{2000, 2000}, {2000, 2000}, {1000, 1000}, {100, 100},
                                     {100, 100},       {100, 100},   {2000, 2000}};

// Of rules that inspect.
inline constexpr u32 kLeastPriority = 1, kMiddlePriority = 3, kMostPriority = 5;

struct Rule {
  std::string name;  // default "rule N", N counted from 1
  std::string description;
  Match match;
  enum class Action { pass, drop, inspect, limit, mirror } action = Action::pass;
  std::string pipeline;            // for inspect and mirror
  Limit limit;                     // for limit
  u32 priority = kMiddlePriority;  // for inspect: under overload those of less are shed first
  bool operator==(const Rule&) const = default;
};

// Stages as the compute devices take them; interfaces and lists are known by name alone until the policy
// meets its interfaces (userspace/policy/stage_names.hpp).
using Stage = gpu::StageSettings;
struct Pipeline {
  std::string name;
  std::vector<Stage> stages;                  // a packet that none decides is passed
  std::map<u32, std::string> descriptions{};  // of stages that have one, by their place
  bool in_object = false;  // the stages stand under "stages", in an object with what follows
  std::string description{};
  bool inner = false;  // the stages go by what is inside of tunnels
  bool operator==(const Pipeline&) const = default;
};
// The JSON pointer to one of its stages, counted from 0.
std::string stage_pointer(const Pipeline& pipeline, std::size_t stage);

struct Io {
  std::string mode = "auto";  // auto, zero-copy, copy, generic: what attach does without --mode
  u32 ring_size = 2048;       // descriptors, power of two
  u32 frames_per_queue = 8192;
  u64 burst_ns = 0;   // 0: frames_per_queue holds; else as many frames as so long a burst at line rate needs
  u32 link_gbps = 0;  // line rate for `burst`; 0: as the interface says
  u64 heartbeat_ns = 90'000'000;  // silence of a worker or its device after which the kernel decides alone
  u64 spin_ns = 20'000;           // how long a worker looks for packets after the last one, before it sleeps
  bool huge_pages = false;
  enum class BusyPoll { automatic, on, off } busy_poll = BusyPoll::automatic;
  u32 busy_poll_us = 20;
  u32 busy_poll_budget = 64;  // packets a poll
  u32 mirror_slots = 1024;    // records of each CPU's ring, power of two
  u32 mirror_bytes = 128;     // of each mirrored packet
  bool operator==(const Io&) const = default;
};
struct Compute {
  std::string device = "auto";
  std::vector<std::string> devices;  // several, as `xdpgpu devices` lists them; empty: `device` says
  std::string mode = "auto";
  std::string frames = "auto";   // auto, in_place, staged
  u32 batch = 1024;              // packets, most
  u64 max_wait_ns = 50'000;      // longest a packet waits for its batch to fill
  std::string standby = "cpu";   // cpu, none: what decides once the device has failed
  u64 retry_ns = 1'000'000'000;  // after which it is then tried again for the first time; 0: never
  bool operator==(const Compute&) const = default;
};

// Where a log's lines go.
struct LogOutput {
  enum class Kind { file, socket, journald } kind = Kind::file;
  std::string path{};  // from the root; of journald empty
  bool operator==(const LogOutput&) const = default;
};
// What is told of packets, and where (config/log.md).
struct Log {
  std::vector<LogOutput> outputs;  // empty: nothing is told
  bool drop = true, dns = true, stats = true, alert = true, program = true;
  u32 rate = 1000;        // events of each kind a second, and at once
  u32 alert_rate = 10;    // of them, alerts of each rule
  u32 payload_bytes = 0;  // of each packet's payload that are told
  u64 stats_every_ns = 10'000'000'000;
  bool operator==(const Log&) const = default;
};

struct Policy {
  std::string description;
  Do default_action = Do::pass;
  Do on_failure = Do::pass;
  Do on_overload = Do::pass;
  Do fragments = Do::pass;   // for those that no rule passes, drops or limits; unsaid: default_action
  bool reassembles = false;  // with Do::track: pipelines see whole datagrams
  Overlapping overlapping_fragments = Overlapping::drop;
  Do malformed = Do::drop;  // drop: ahead of all rules; else for those that no rule passes, drops or limits
  std::vector<Management> management;
  Rates rates = kDefaultRates;
  std::map<std::string, List> lists;
  std::vector<Rule> rules;
  std::vector<Pipeline> pipelines;  // in the order of the text; metadata.pipeline indexes this
  Io io;
  Compute compute;
  Log log;
  u64 hash = 0;  // of the text and of every list file: same hash, same policy
};

// What parse accepts at most; more is refused by a diagnostic.
inline constexpr u64 kMaxTextBytes = 16ull << 20;
inline constexpr u64 kMaxFileBytes = 256ull << 20;
inline constexpr u64 kMaxFilesBytes = 1ull << 30;  // of all files together, each as often as it is named
inline constexpr u32 kMaxPatternFiles = 4096;      // that one pattern stands for
inline constexpr u32 kMaxNesting = 32;
inline constexpr u64 kMaxPrefixes = 4'000'000;  // of all lists, rules and routes together
inline constexpr u64 kMaxNames = 16'000'000;    // of all lists of domains together
inline constexpr u32 kMaxLists = 4096;
inline constexpr u32 kMaxPipelines = 1024;
inline constexpr u32 kMaxDevices = 64;
inline constexpr u32 kMaxFramesPerQueue = 1u << 20;
inline constexpr u32 kMaxLogOutputs = 8;
inline constexpr u64 kMaxLogPath = 400;        // bytes
inline constexpr u32 kMaxLogPayload = 1024;    // bytes
inline constexpr u32 kMaxDiagnostics = 20;     // problems reported of one document; the rest is counted,
inline constexpr u32 kMaxCounted = 1'000'000;  // and where there are so many more, reading ends

// ---- Files (files.cpp) -----------------------------------------------------------------------------
// A file's content, which may have many megabytes and is not copied on its way.
using FileText = std::shared_ptr<const std::string>;
// Gives files by the path written in the policy. Errors are sentences.
class FileReader {
 public:
  using Text = tl::expected<FileText, std::string>;
  using Names = tl::expected<std::vector<std::string>, std::string>;
  using Program = std::function<Text(const std::string& path, const programs::Choice& which)>;
  FileReader(std::function<Text(const std::string&)> read, std::function<Names(const std::string&)> list,
             Program program = {})
      : read_(std::move(read)), list_(std::move(list)), program_(std::move(program)) {}
  // A file's content; nullptr: what is in it is not asked now, so nothing about it is wrong.
  Text operator()(const std::string& path) const { return read_(path); }
  // The paths, in their order, of the files that are like a pattern (glob(7)) in its last part; at least one,
  // at most kMaxPatternFiles.
  Names list(const std::string& pattern) const { return list_(pattern); }
  // Of an eBPF object a program, as userspace/compiler/programs/exchange.hpp has it. nullptr: as above.
  Text program(const std::string& path, const programs::Choice& which) const {
    if (!program_) return tl::unexpected(path + ": no object is read here");
    return program_(path, which);
  }

 private:
  std::function<Text(const std::string&)> read_;
  std::function<Names(const std::string&)> list_;
  Program program_;
};
// By the path written in the policy; programs of objects by program_key().
using FileContents = std::map<std::string, std::string>;

// Of a program of an object among files. No path is like it.
std::string program_key(const std::string& path, const programs::Choice& which);
// Makes what FileReader::program() gives of an object's bytes. The error is a sentence behind the object's
// name.
using ObjectReader = std::function<tl::expected<std::string, std::string>(std::string_view object,
                                                                          const programs::Choice& which)>;

// Reads regular files (symbolic links are followed), relative paths starting at `directory`. FIFOs,
// devices, directories, files over kMaxFileBytes and what makes all of them over kMaxFilesBytes are refused
// without ever blocking on them. read_object: empty where objects are nobody's to read.
FileReader read_files_from(std::string directory, ObjectReader read_object = {});
// Gives files that were read elsewhere: what the daemon uses for a policy that came over the socket.
FileReader read_files_of(FileContents contents);
// The same without a copy of its own: `contents` must outlive the result and what it gives.
FileReader read_files_in(const FileContents& contents);
// Reads as read_files_from does, but keeps what it reads in `contents`, which must outlive the result, and
// gives nullptr: for looking through a policy for the files that it names, and for sending them along.
// Of objects it keeps the programs alone.
FileReader collect_files_from(std::string directory, FileContents& contents, u64 most = kMaxFilesBytes,
                              ObjectReader read_object = {});
// Why the file at the path is refused where it makes all files larger than `most`.
std::string too_much_with(const std::string& path, u64 most);
// The policy file itself, by the same rules; at most kMaxTextBytes.
tl::expected<std::string, std::string> read_policy_text(const std::string& path);

// ---- JSON (parse.cpp, show.cpp) --------------------------------------------------------------------
// file_name is what diagnostics call the text. longest_file: what longer ones have in them counts for the
// hash, and is not read, but for programs and what their maps have at first.
Result<Policy> parse(std::string_view text, std::string_view file_name, const FileReader& files,
                     u64 longest_file = ~u64{0});

// The policy as canonical JSON text: every setting written out, lists by their file where they came from
// one. parse(to_json(p)) equals p but for the hash, which is the text's.
std::string to_json(const Policy& policy);

// ---- Tables (compile.cpp) --------------------------------------------------------------------------
// What the XDP program reads (maps/tables.h), ready to be copied into the maps.
struct Tables {
  xg_policy header{};  // generation is filled in at the swap, the rest is final
  std::vector<xg_line> lines;
  std::vector<xg_class_row> rows;
  std::vector<std::string> rule_names;  // by compiled rule index, management rules first (two an entry)
};
// ports: interface names by port index, for what rules' packets are diverted to (diversion.hpp); of one that
// is not among them index 0 is taken, and who knows the interfaces refuses the policy. Fails with a sentence
// where the policy needs more classes or rules than the tables hold.
Result<Tables> compile(const Policy& policy, std::span<const std::string> ports = {});

// The tables' answer in plain C++: userspace/policy/classify.hpp.

}  // namespace xdpgpu::policy
