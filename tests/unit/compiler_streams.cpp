// SPDX-License-Identifier: MIT
//
// Rules that are looked for in TCP streams, lowered to signatures and decided by the reference: of which
// connections they hold, and of which Suricata 7.0.10 says so, inline. tests/data/signatures/alerts.txt has
// its answers, config/streams.md what is another thing here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "gpu/pipelines.hpp"
#include "gpu/reference/http_messages.hpp"
#include "gpu/reference/reference.hpp"
#include "tests/unit/compared.hpp"
#include "tests/unit/compiler_captures.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"
#include "userspace/compiler/rules/thresholds.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;
using gpu::reference::SignaturePacket;
using Flow = std::pair<test::FlowEnd, test::FlowEnd>;
using Said = std::map<std::pair<Flow, u32>, u32>;  // by which rule, and with which packet first
using Causes = xdpgpu::test::Causes;

const std::filesystem::path kData = XDPGPU_SOURCE_DIR "/tests/data";

// ---- what is asked -------------------------------------------------------------------------------------

std::vector<RuleFile> rule_files(const std::string& name) {
  if (name != "real.rules") return {{name, test::content_of(kData / "signatures" / name)}};
  std::vector<RuleFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(kData / "rules"))
    if (entry.path().extension() == ".rules")
      files.push_back({entry.path().filename(), test::content_of(entry.path())});
  std::sort(files.begin(), files.end(),
            [](const auto& one, const auto& other) { return one.name < other.name; });
  return files;
}

// Rules of a file that are asked together, as many as are told of one packet. What some of them pass or drop
// the others do not see.
constexpr std::size_t kGroup = XG_MAX_ALERTS;
using Group = std::vector<sig::Signature>;

// Of those that a device decides, and that no host has to be asked of. Where some rules act, without the
// groups in which one of these is not decided.
std::vector<Group> groups_of(const std::string& name) {
  const auto loaded = load_rules(rule_files(name), usual_variables(), {});
  const auto all = lower(loaded.rules, Streams::with_answers);
  const bool act = std::any_of(loaded.rules.begin(), loaded.rules.end(),
                               [](const Rule& rule) { return rule.header.action != Action::alert; });
  std::map<std::size_t, Group> groups;
  std::set<std::size_t> undecided;
  std::size_t decided = 0;
  for (std::size_t i = 0; i < all.size(); i++) {
    const std::size_t group = (act ? loaded.rules[i].sid - 1 : decided) / kGroup;
    const bool is_decided =
        all[i].signature && all[i].bits.empty() && !all[i].rest && !loaded.rules[i].threshold;
    if (!is_decided && loaded.rules[i].header.action != Action::alert) undecided.insert(group);
    if (!is_decided || (name == "real.rules" && all[i].signature->where == sig::Where::packet)) continue;
    groups[group].push_back(*all[i].signature);
    decided++;
  }
  std::vector<Group> made;
  for (auto& [number, group] : groups)
    if (!undecided.contains(number)) made.push_back(std::move(group));
  return made;
}

std::filesystem::path capture_path(const std::string& name) {
  const auto beside = kData / "signatures" / name;
  return std::filesystem::exists(beside) ? beside : kData / "pcap" / name;
}

struct Frame {
  std::vector<u8> region;  // metadata and frame
  Flow flow;
  u32 length = 0;
  u32 connection = 0;  // what a stage `conntrack` in front says
};
std::vector<Frame> frames_of(const std::string& capture) {
  std::vector<Frame> frames;
  test::Connections connections(test::Look::outside);
  auto opened = host::Capture::open(capture_path(capture));
  if (!opened) throw std::runtime_error(opened.error());
  while (const auto packet = (*opened)->next()) {
    Frame& made = frames.emplace_back();
    made.region = test::region_of(packet->frame, packet->time_ns);
    made.flow = test::flow_of(test::packet_of(packet->frame).seen);
    made.length = static_cast<u32>(packet->frame.size());
    made.connection = connections.of(made.region);
  }
  return frames;
}

// ---- ours ----------------------------------------------------------------------------------------------

constexpr u32 kConnections = 1024;

gpu::ConntrackSettings conntrack() {
  gpu::ConntrackSettings settings;
  settings.table.entries = kConnections;
  settings.egress = settings.loose = false;
  settings.on_invalid = gpu::Action::next;
  return settings;
}

void add_ours(Group rules, const std::vector<Frame>& frames, Said& said) {
  std::stable_sort(rules.begin(), rules.end(), [](const sig::Signature& one, const sig::Signature& other) {
    return sig::turn_of(one.action) < sig::turn_of(other.action);
  });
  gpu::SignaturesSettings settings;
  settings.streams = kConnections;
  settings.work = ~0u;
  settings.rules.signatures = std::make_shared<const std::vector<sig::Signature>>(rules);
  gpu::reference::Judge judge({{"", {conntrack(), settings}}});
  for (u32 number = 0; number < frames.size(); number++) {
    const Frame& frame = frames[number];
    const xg_descriptor descriptor{XG_METADATA_SIZE, frame.length, 0};
    xg_result result{};
    xg_alerts alerts{};
    judge.decide(frame.region, {&descriptor, 1}, 0, {&result, 1},
                 {.edits = {}, .adjusts = {}, .alerts = {&alerts, 1}});
    if ((result.flags & XG_RES_ALERTS) == 0) continue;
    for (u32 i = 0; i < alerts.count; i++) said.try_emplace({frame.flow, rules[alerts.rules[i]].sid}, number);
  }
}
Said ours_of(const std::vector<Group>& groups, const std::vector<Frame>& frames) {
  Said said;
  for (const Group& group : groups) add_ours(group, frames, said);
  return said;
}

// ---- Suricata's ----------------------------------------------------------------------------------------

Said suricatas_of(const std::string& rules, const std::string& capture, const std::vector<Frame>& frames) {
  Said said;
  std::istringstream lines(test::content_of(kData / "signatures" / "alerts.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string of, by;
    u32 sid = 0, packet = 0;
    words >> of >> by >> sid;
    if (of != capture || by != rules) continue;
    for (char comma = ','; comma == ',' && words >> packet; comma = static_cast<char>(words.get()))
      said.try_emplace({frames.at(packet - 1).flow, sid}, packet - 1);
  }
  return said;
}

// ---- what Suricata looks at ----------------------------------------------------------------------------

constexpr u32 kWindow = 2560;  // its stream.reassembly.toserver-chunk-size, and toclient

// Inline, with one packet: of the bytes that have come, and hang together with the packet's, a window around
// it (stream-tcp-reassemble.c, StreamReassembleRawInline).
struct Window {
  std::string text;
  u64 from = 0;
  u64 whole_from = 0;     // where what hangs together begins
  bool is_again = false;  // all of the packet's came before
  bool is_third = false;  // it is the connection's first one with ACK from who sent the SYN
};

class Windows {
 public:
  // The packets in their order. Nothing: none, it looks at no stream with it. seen: its connection is said.
  std::optional<Window> of(const Flow& flow, SignaturePacket& seen) {
    constexpr u8 kFinOrRst = 5, kSyn = 2, kAck = 16;
    if (seen.protocol != XG_IPPROTO_TCP || seen.transport.size() < 20) return {};
    const auto ends = test::ends_of(seen);
    Connection& connection = connections_[flow];
    const u8 flags = seen.transport[13];
    const u32 sequence = number(seen.transport, 4);
    Side& side = connection.sides[ends.first];
    if ((flags & kSyn) != 0 && (flags & kFinOrRst) == 0 && !side.begun) {
      side.begun = true;
      side.first = sequence + 1;
      if ((flags & kAck) == 0) connection.client = ends.first;
    }
    const bool is_third = ends.first == connection.client && (flags & (kAck | kSyn)) == kAck &&
                          std::exchange(connection.waits, false);
    if (!side.begun || seen.payload.empty()) return {};
    seen.connection = XG_CONNECTION_SEEN | XG_CONNECTION_HAS |
                      (ends.first == connection.client ? 0 : XG_CONNECTION_ANSWERS) |
                      ((flags & (kAck | kSyn)) == kAck ? XG_CONNECTION_ESTABLISHED : 0);
    const u32 at = sequence + ((flags & kSyn) != 0 ? 1 : 0) - side.first;
    bool is_again = true;
    for (u32 i = 0; i < seen.payload.size(); i++)
      is_again &= !side.bytes.emplace(at + i, static_cast<char>(seen.payload[i])).second;
    Window made = around(side, at, at + static_cast<u32>(seen.payload.size()));
    made.is_third = is_third;
    made.is_again = is_again;
    return made;
  }
  // Whether a side says more than its window has.
  bool is_longer(const Flow& flow) {
    const auto& sides = connections_[flow].sides;
    return std::any_of(sides.begin(), sides.end(),
                       [](const auto& side) { return side.second.bytes.size() > kWindow; });
  }
  // Whether all of a side has come up to here.
  bool is_whole(const Flow& flow, const test::FlowEnd& end, u64 up_to) {
    const auto& bytes = connections_[flow].sides[end].bytes;
    return static_cast<u64>(std::distance(bytes.begin(), bytes.lower_bound(static_cast<u32>(up_to)))) ==
           up_to;
  }

 private:
  struct Side {
    bool begun = false;
    u32 first = 0;
    std::map<u32, char> bytes;
  };
  struct Connection {
    test::FlowEnd client;
    bool waits = true;  // for the client's ACK
    std::map<test::FlowEnd, Side> sides;
  };
  static u32 number(std::span<const u8> bytes, u32 at) {
    u32 value = 0;
    for (u32 i = 0; i < 4; i++) value = value << 8 | bytes[at + i];
    return value;
  }
  static Window around(const Side& side, u32 left, u32 right) {
    u32 begin = left, end = right;
    while (begin > 0 && side.bytes.contains(begin - 1)) begin--;
    while (side.bytes.contains(end)) end++;
    Window made;
    made.whole_from = begin;
    const u32 size = right - left, most = kWindow <= size ? size + kWindow / 3 : kWindow;
    if (end - begin > most) {
      u32 before = left - begin, after = end - right;
      if (after == 0) {
        before = most - size;
      } else if (before == 0) {
        after = most - size;
      } else if (after >= (most - size) / 2) {
        const u32 half = (most - size) / 2;
        after = before >= half ? half : most - size - before;
        before = std::min(before, half);
      } else {
        before = most - size - after;
      }
      begin = left - before;
      end = right + after;
    }
    made.from = begin;
    for (u32 i = begin; i < end; i++) made.text += side.bytes.at(i);
    return made;
  }

  std::map<Flow, Connection> connections_;
};

// ---- compared ------------------------------------------------------------------------------------------

// Whether a client's first words are no handshake, or of a version of records that Suricata does not know. It
// says them in order.
bool is_unknown_hello(const Flow& flow, const std::vector<Frame>& frames) {
  std::vector<u8> said;
  for (const Frame& frame : frames) {
    if (frame.flow != flow) continue;
    const auto seen = test::packet_of(std::span(frame.region).subspan(XG_METADATA_SIZE)).seen;
    if (seen.dst_port == 443) said.insert(said.end(), seen.payload.begin(), seen.payload.end());
  }
  return said.size() >= 3 && (said[0] != 22 || said[2] > 3);
}

// What one side says, which it does in order, port 80 or another one.
std::string said_by(bool server, const Flow& flow, const std::vector<Frame>& frames) {
  std::string said;
  for (const Frame& frame : frames) {
    if (frame.flow != flow) continue;
    const auto seen = test::packet_of(std::span(frame.region).subspan(XG_METADATA_SIZE)).seen;
    if ((seen.src_port == 80) == server) said.append(seen.payload.begin(), seen.payload.end());
  }
  return said;
}

// Why we say alone what an answer has.
std::optional<std::string> cause_of_answer(const Flow& flow, const std::vector<Frame>& frames) {
  using gpu::reference::HttpBody;
  using gpu::reference::HttpMessages;
  gpu::reference::HttpExchange exchange;
  HttpMessages requests(HttpMessages::Of::client), answers(HttpMessages::Of::server);
  const auto asked = said_by(false, flow, frames), said = said_by(true, flow, frames);
  requests.go_on(asked, 0, 1 << 20, false, exchange);
  if (!exchange.is_asked && !asked.starts_with("CONNECT")) return "an answer to what is no request";
  const auto read = answers.go_on(said, 0, 1 << 20, false, exchange).read;
  const auto* const body = read.empty() ? nullptr : std::get_if<HttpBody>(&read.back());
  if (body != nullptr && !body->is_whole)
    return said.find("Content-Length:") == std::string::npos
               ? "a body that ends with its connection, which it tells of behind the last packet"
               : "a Content-Length without a number";
  if (asked.starts_with("CONNECT")) return "the body of an answer that refuses a CONNECT";
  return {};
}

// Why Suricata says something else than we do of a connection; nothing: it should not, by what it looks at.
// first: with which packet we say it, or it does.
std::optional<std::string> cause_of(const sig::Signature& rule, const Flow& flow, u32 first,
                                    const std::vector<Frame>& frames, bool ours) {
  if (rule.http)
    return ours && sig::is_of_answers(rule.http->parts.front().part) ? cause_of_answer(flow, frames)
                                                                     : std::nullopt;
  if (rule.hello)
    return ours && is_unknown_hello(flow, frames) ? std::optional("a hello that it does not take for one")
                                                  : std::nullopt;
  Windows windows;
  std::vector<std::pair<test::FlowEnd, u64>> pieces;
  std::optional<std::string> cause;
  for (u32 number = 0; number < frames.size(); number++) {
    const Frame& frame = frames[number];
    if (frame.flow != flow) continue;
    auto seen = test::packet_of(std::span(frame.region).subspan(XG_METADATA_SIZE)).seen;
    const auto window = windows.of(flow, seen);
    if (!window || !gpu::reference::applies(rule, seen)) continue;
    u64 work = 0;
    if (rule.where == sig::Where::packet) {
      if (ours || !gpu::reference::matches(rule, seen)) continue;
      if ((frame.connection & XG_CONNECTION_HAS) == 0)
        cause = "invalid to conntrack, behind a gap";
      else if (window->is_third)
        cause = "established with the handshake's last packet";
      continue;
    }
    if (!gpu::reference::is_in(rule, {reinterpret_cast<const u8*>(window->text.data()), window->text.size()},
                               work)) {
      if (window->is_again && (sig::from_start(rule) || sig::negates(rule)) &&
          gpu::reference::is_in(rule, seen.payload, work))
        cause = "of what was acknowledged and came again, by itself";
      continue;
    }
    if (ours && (number == first || !sig::negates(rule))) return {};
    if (window->whole_from != 0)
      pieces.emplace_back(test::ends_of(seen).first, window->whole_from);
    else if (window->from != 0 && sig::from_start(rule))
      cause = "a place is counted from its window's start";
    else if (sig::negates(rule))
      cause = "content:! is asked of its window";
  }
  if (!ours && !cause && !pieces.empty()) {
    if (!std::all_of(pieces.begin(), pieces.end(),
                     [&](const auto& piece) { return windows.is_whole(flow, piece.first, piece.second); }))
      return "of what stands behind a gap";
    // All else holds once all has come, too.
    if (sig::from_start(rule) || sig::negates(rule)) return "of what came early, by itself";
  }
  if (!ours || rule.where == sig::Where::packet) return cause;
  if (sig::negates(rule)) return "content:! is asked of its window";
  if (!windows.is_longer(flow)) return {};
  if (sig::from_start(rule)) return "farther from the start than its window";
  if (rule.payload.size() > 1) return "farther apart than its window";
  return {};
}

// Likewise, of a rule that stands with others that act, by what becomes of it without some of these.
std::optional<std::string> cause_among(const Group& group, const sig::Signature& rule, const Flow& flow,
                                       const std::vector<Frame>& frames, bool ours) {
  const auto differs_without = [&](auto acts) {
    Group others;
    for (const auto& other : group)
      if (other.action == sig::Action::alert || !acts(other)) others.push_back(other);
    Said said;
    if (others.size() != group.size()) add_ours(others, frames, said);
    return others.size() != group.size() && said.contains({flow, rule.sid}) != ours;
  };
  const auto passes = [](const sig::Signature& other) { return other.action == sig::Action::pass; };
  if (differs_without([](const sig::Signature& other) { return sig::negates(other); }))
    return "where a rule acts by a content:!";
  if (differs_without([&](const auto& other) { return passes(other) && other.where != sig::Where::stream; }))
    return "with a packet that a rule passes";
  return {};
}

struct Compared {
  std::size_t decided = 0;
  u32 same = 0;
  Causes causes;
};

Compared compared(const std::string& rules, const std::vector<std::string>& captures) {
  const auto groups = groups_of(rules);
  std::map<u32, std::pair<const sig::Signature*, const Group*>> by_sid;
  for (const Group& group : groups)
    for (const auto& one : group) by_sid[one.sid] = {&one, &group};
  Compared made{by_sid.size(), 0, {}};
  Causes suricatas_alone, ours_alone;
  for (const auto& capture : captures) {
    const auto frames = frames_of(capture);
    const Said ours = ours_of(groups, frames), theirs = suricatas_of("inline/" + rules, capture, frames);
    const auto compare = [&](const Said& one, const Said& other, bool is_ours) {
      for (const auto& [connection_and_rule, first] : one) {
        const auto& [flow, sid] = connection_and_rule;
        if (!by_sid.contains(sid)) continue;
        if (other.contains({flow, sid})) {
          made.same += is_ours;
          continue;
        }
        const auto& [rule, group] = by_sid.at(sid);
        auto cause = cause_of(*rule, flow, first, frames, is_ours);
        if (!cause) cause = cause_among(*group, *rule, flow, frames, is_ours);
        made.causes[cause.value_or("unexplained")]++;
        (is_ours ? ours_alone : suricatas_alone)[cause.value_or("unexplained")]++;
        if (!cause)
          ADD_FAILURE() << capture << ", ports " << flow.first.second << " and " << flow.second.second
                        << ", sid " << sid << " of " << rules << ": "
                        << (is_ours ? "ours alone" : "Suricata's alone");
      }
    };
    compare(ours, theirs, true);
    compare(theirs, ours, false);
  }
  xdpgpu::test::tell_compared(
      fmt::format("{} (streams)", rules),
      captures.size() == 1 ? captures[0] : fmt::format("{} captures", captures.size()), made.same,
      suricatas_alone, ours_alone);
  return made;
}

TEST(Streams, WithinSuricatasWindowAreDecidedAsBySuricata) {
  const auto made = compared("streams.rules", {"streams.pcap"});
  EXPECT_EQ(made.causes, (Causes{{"content:! is asked of its window", 2},
                                 {"established with the handshake's last packet", 1}}));
  EXPECT_EQ(made.decided, 350u);
  EXPECT_EQ(made.same, 1174u);
}

TEST(Streams, NamesOfServersAreSuricatas) {
  const auto made = compared("streams-hellos.rules", {"streams-hellos.pcap"});
  EXPECT_EQ(made.causes, (Causes{{"a hello that it does not take for one", 30}}));
  EXPECT_EQ(made.decided, 14u);
}

TEST(Streams, PartsOfRequestsAreSuricatas) {
  const auto made = compared("streams-requests.rules", {"streams-requests.pcap"});
  EXPECT_EQ(made.causes, (Causes{{"an answer to what is no request", 3}}));
  EXPECT_EQ(made.decided, 57u);
  EXPECT_EQ(made.same, 504u);
}

TEST(Streams, BodiesOfRequestsAreSuricatas) {
  const auto made = compared("streams-bodies.rules", {"streams-bodies.pcap"});
  EXPECT_EQ(made.causes, (Causes{}));
  EXPECT_EQ(made.decided, 32u);
  EXPECT_EQ(made.same, 387u);
}

TEST(Streams, AnswersAreSuricatas) {
  const auto made = compared("streams-answers.rules", {"streams-answers.pcap"});
  EXPECT_EQ(made.causes,
            (Causes{{"a Content-Length without a number", 18},
                    {"a body that ends with its connection, which it tells of behind the last packet", 117},
                    {"the body of an answer that refuses a CONNECT", 9}}));
  EXPECT_EQ(made.decided, 40u);
  EXPECT_EQ(made.same, 627u);
}

TEST(Streams, ThatPassAndDropAreDecidedAsBySuricata) {
  const auto made = compared("streams-actions.rules", {"streams.pcap"});
  EXPECT_EQ(made.causes, (Causes{{"content:! is asked of its window", 2},
                                 {"established with the handshake's last packet", 1}}));
  EXPECT_EQ(made.decided, 201u);
  EXPECT_EQ(made.same, 591u);
}

// Of streams that are longer than its window, come in another order, and with parts that are not in the
// capture.
TEST(Streams, BeyondSuricatasWindowDifferForWhatItLooksAt) {
  const auto made = compared("streams-long.rules", {"streams-long.pcap"});
  EXPECT_EQ(made.causes, (Causes{{"a place is counted from its window's start", 2},
                                 {"content:! is asked of its window", 5},
                                 {"farther apart than its window", 3},
                                 {"farther from the start than its window", 16},
                                 {"invalid to conntrack, behind a gap", 3},
                                 {"of what stands behind a gap", 14}}));
  EXPECT_EQ(made.decided, 355u);
  EXPECT_EQ(made.same, 404u);
}

TEST(Streams, OfRealRulesAreDecidedAsBySuricata) {
  std::vector<std::string> captures{"streams-real.pcap", "requests-real.pcap", "answers-real.pcap"};
  for (const auto& entry : std::filesystem::directory_iterator(kData / "pcap"))
    if (entry.path().extension() == ".pcap") captures.push_back(entry.path().filename());
  const auto made = compared("real.rules", captures);
  EXPECT_EQ(made.causes, Causes{});
  EXPECT_EQ(made.decided, 1065u);
  EXPECT_EQ(made.same, 837u);
}

}  // namespace
}  // namespace xdpgpu::rules
