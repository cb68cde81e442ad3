// SPDX-License-Identifier: MIT
//
// Tests of the suricata-verify suite: which of them are for Suricata 7.0.10, whether their rules are taken,
// and whether their alerts are ours where packets and streams decide. tests/data/suricata-verify/table.txt
// has the answers; with XDPGPU_TEST_WRITE=1 they are written there.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <set>
#include <sstream>
#include <tuple>

#include "gpu/reference/http_head.hpp"
#include "tests/unit/compiler_captures.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"
#include "userspace/compiler/rules/thresholds.hpp"

namespace xdpgpu::rules {
namespace {

namespace fs = std::filesystem;
using gpu::reference::SignaturePacket;
using test::CapturedPacket;

const fs::path kSuite = XDPGPU_SOURCE_DIR "/tests/data/suricata-verify";

// ---- a test.yaml ---------------------------------------------------------------------------------------

using Version = std::array<u32, 3>;
constexpr Version kSuricata{7, 0, 10};

Version version_of(const std::string& text) {
  Version version{};
  std::istringstream parts(text);
  char dot = '.';
  for (u32& part : version)
    if (!(parts >> part >> dot)) break;
  return version;
}

// What of `wanted` Suricata 7.0.10 is not; empty: it is all of it.
std::string unfulfilled(const YAML::Node& wanted) {
  for (const auto& one : wanted) {
    const auto key = one.first.as<std::string>();
    if (key == "features") {
      for (const auto& feature : one.second)
        if (feature.as<std::string>() != "LIBNET1.1")  // for "reject"
          return fmt::format("{} {}", key, feature.as<std::string>());
      continue;
    }
    const auto text = one.second.as<std::string>();
    const Version version = version_of(text);
    const std::map<std::string, bool> holds{{"min-version", kSuricata >= version},
                                            {"gt-version", kSuricata > version},
                                            {"lt-version", kSuricata < version}};
    const auto found = holds.find(key);
    if (found == holds.end()) throw std::runtime_error(fmt::format("requires \"{}\" is not known", key));
    if (!found->second) return fmt::format("{} {}", key, text);
  }
  return {};
}

// By their names in EVE JSON.
using Fields = std::map<std::string, std::string>;
void add_fields(const YAML::Node& node, const std::string& prefix, Fields& fields) {
  for (const auto& one : node) {
    const std::string name = prefix + one.first.as<std::string>();
    if (one.second.IsMap())
      add_fields(one.second, name + ".", fields);
    else
      fields.emplace(name, one.second.as<std::string>());
  }
}

// So many alerts have these fields.
struct Check {
  u32 count = 0;
  Fields fields;
};
std::vector<Check> checks_of_alerts(const YAML::Node& test) {
  std::vector<Check> checks;
  for (const auto& one : test["checks"]) {
    const auto filter = one["filter"];
    if (!filter || !unfulfilled(filter["requires"]).empty()) continue;
    Check check{filter["count"].as<u32>(), {}};
    add_fields(filter["match"], "", check.fields);
    if (check.fields["event_type"] == "alert") checks.push_back(std::move(check));
  }
  return checks;
}

// ---- alerts --------------------------------------------------------------------------------------------

struct LoweredRule {
  Rule rule;
  Lowered lowered;
};

std::string text_of(std::span<const u8> address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(address.size() == 4 ? AF_INET : AF_INET6, address.data(), text.data(), text.size());
  return text.data();
}

std::string printable(std::span<const u8> payload) {
  std::string text;
  for (const u8 byte : payload)
    text += std::isprint(byte) != 0 || byte == '\n' || byte == '\r' ? static_cast<char>(byte) : '.';
  return text;
}

// in_streams: it fires with the packet, and what it is found in is not only the packet's payload.
Fields fields_of(const Rule& rule, const SignaturePacket& packet, std::size_t number, bool in_streams) {
  Fields fields{{"event_type", "alert"},
                {"alert.signature_id", std::to_string(rule.sid)},
                {"pcap_cnt", std::to_string(number)},
                {"src_ip", text_of(packet.src)},
                {"dest_ip", text_of(packet.dst)},
                {"payload_printable", printable(packet.payload)},
                {"pkt_src", "wire/pcap"},
                {"stream", in_streams ? "1" : "0"}};
  if (in_streams) fields.erase("payload_printable");
  if (packet.src_port) fields.emplace("src_port", std::to_string(*packet.src_port));
  if (packet.dst_port) fields.emplace("dest_port", std::to_string(*packet.dst_port));
  return fields;
}
// It is one of these; packets without ports have none. fields: an alert's, or those that are wanted of one.
// Of a stream it is not known which part Suricata prints.
bool is_known(const std::string& field, const Fields& fields) {
  const auto stream = fields.find("stream");
  if (field == "payload_printable" && stream != fields.end() && stream->second == "1") return false;
  static const std::set<std::string> kFields{
      "pkt_src", "not-has-key", "event_type", "alert.signature_id", "pcap_cnt", "src_ip",
      "dest_ip", "src_port",    "dest_port",  "payload_printable",  "stream"};
  return kFields.contains(field);
}

// What a capture has: its packets, and the positions of the rules that fire with each of them in streams.
struct Seen {
  std::vector<CapturedPacket> packets;
  std::vector<std::vector<u32>> fired;
};

// In which packets' payloads rules for streams are looked for, too.
enum class Payloads : u8 { none, all };

bool holds(const gpu::signatures::Signature& signature, const SignaturePacket& packet, Payloads payloads) {
  return (signature.where != gpu::signatures::Where::stream || payloads == Payloads::all) &&
         matches(signature, packet);
}

Seen seen_in(const fs::path& capture, const std::vector<LoweredRule>& rules, test::Look look) {
  std::vector<gpu::signatures::Signature> signatures;
  std::vector<u32> places;
  for (u32 r = 0; r < rules.size(); r++) {
    if (!rules[r].lowered.signature) continue;
    signatures.push_back(*rules[r].lowered.signature);
    places.push_back(r);
  }
  gpu::SignaturesSettings settings;
  settings.streams = 1024;
  settings.rules.signatures = std::make_shared<const std::vector<gpu::signatures::Signature>>(signatures);
  Seen made{test::packets_of(capture, look), test::fired_in(capture, settings, look)};
  for (auto& fired : made.fired)
    for (u32& rule : fired) rule = places[rule];
  return made;
}

std::vector<Fields> alerts_of(const std::vector<LoweredRule>& rules, const Seen& seen_there,
                              Payloads payloads = Payloads::none) {
  const auto& packets = seen_there.packets;
  std::vector<Fields> alerts;
  std::set<std::tuple<u32, u8, std::pair<test::FlowEnd, test::FlowEnd>>> said;
  test::Counted counted;
  for (std::size_t i = 0; i < packets.size(); i++)
    for (u32 r = 0; r < rules.size(); r++) {
      const auto& [rule, lowered] = rules[r];
      const SignaturePacket& seen = packets[i].seen;
      const auto& fired = seen_there.fired[i];
      const bool streams = std::find(fired.begin(), fired.end(), r) != fired.end();
      if (!lowered.signature || (!streams && !holds(*lowered.signature, seen, payloads))) continue;
      if (lowered.signature->once_a_flow &&
          !said.emplace(rule.sid, seen.protocol, test::ends_of(seen)).second)
        continue;
      if (!counted.tells({rule.gid, rule.sid, rule.rev, 3, "", "", rule.threshold.value_or(Threshold{}), 0,
                          lowered.bits, lowered.noalert},
                         packets[i]))
        continue;
      const bool in_streams = lowered.signature->where != gpu::signatures::Where::packet;
      alerts.push_back(fields_of(rule, seen, i + 1, streams || (in_streams && payloads == Payloads::all)));
    }
  return alerts;
}

// Those that have its fields, as far as they are known.
u32 count_of(const Check& check, const std::vector<Fields>& alerts) {
  return static_cast<u32>(std::count_if(alerts.begin(), alerts.end(), [&](const Fields& alert) {
    return std::all_of(check.fields.begin(), check.fields.end(), [&](const auto& wanted) {
      const auto found = alert.find(wanted.first);
      return found != alert.end() ? found->second == wanted.second : !is_known(wanted.first, alert);
    });
  }));
}

// ---- a folder ------------------------------------------------------------------------------------------

struct Outcome {
  bool applies = false;  // to Suricata 7.0.10
  std::size_t accepted = 0, rules = 0;
  u32 hold = 0, checks = 0;
  std::set<std::string> missing;  // keywords, and fields that our alerts do not have
  bool passes = false, fails = false;
  std::string said;  // what becomes of it, in words
};

class Folder {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)) {}

  Outcome outcome() {
    const YAML::Node test = YAML::LoadFile(path_ / "test.yaml");
    for (const auto& one : test["args"])
      midstream_ |= one.as<std::string>().find("stream.midstream=true") != std::string::npos;
    if (const auto why = unfulfilled(test["requires"]); !why.empty())
      made_.said = fmt::format("not for it: {}", why);
    else
      judge(checks_of_alerts(test));
    return std::move(made_);
  }

 private:
  void judge(const std::vector<Check>& checks) {
    made_.applies = true;
    made_.checks = static_cast<u32>(checks.size());
    load();
    for (const Check& check : checks) judge(check);
    made_.passes = made_.said.empty() && made_.hold > 0 && made_.hold == made_.checks;
    if (!made_.said.empty()) return;
    if (made_.passes)
      made_.said = "passes";
    else if (checks.empty())
      made_.said = "asks for no alert";
    else
      made_.said = fmt::format("misses {}", fmt::join(made_.missing, ", "));
  }

  void load() {
    auto loaded = load_rules({{"test.rules", test::content_of(path_ / "test.rules")}}, usual_variables(), {});
    made_.accepted = loaded.rules.size();
    made_.rules = loaded.rules.size() + loaded.wrong.size();
    if (!loaded.wrong.empty())
      made_.said =
          fmt::format("refused: {}: {}", where(loaded.wrong.front().place), loaded.wrong.front().why);
    auto all = lower(loaded.rules, Streams::with_answers);
    for (std::size_t i = 0; i < all.size(); i++)
      rules_.push_back({std::move(loaded.rules[i]), std::move(all[i])});
    std::stable_sort(rules_.begin(), rules_.end(), [](const auto& one, const auto& other) {
      const u32 turn = turn_of(one.lowered.action), others = turn_of(other.lowered.action);
      return turn != others ? turn < others : order_by_bits(one.rule) > order_by_bits(other.rule);
    });
  }

  void judge(const Check& check) {
    if (!is_decided(check)) return;
    if (const auto key = unread_setting(); !key.empty()) {
      made_.missing.insert(key);
      return;
    }
    const u32 count = count_of(check, alerts_of(rules_, seen(test::Look::outside)));
    const auto unknown = std::find_if(check.fields.begin(), check.fields.end(), [&](const auto& field) {
      return !is_known(field.first, check.fields);
    });
    if (unknown != check.fields.end() && count > 0 && count >= check.count)
      made_.missing.insert(unknown->first);
    else if (count == check.count)
      made_.hold++;
    else
      fail(check, count);
  }

  // Whether packets decide all rules that have to do with it: one that passes or drops has with each.
  bool is_decided(const Check& check) {
    bool decided = true;
    const auto sid = check.fields.find("alert.signature_id");
    for (const auto& [rule, lowered] : rules_) {
      const bool alerts = rule.header.action == Action::alert;
      if (alerts && sid != check.fields.end() && sid->second != std::to_string(rule.sid)) continue;
      for (const auto& one : lowered.not_yet) made_.missing.insert(one.keyword);
      decided &= lowered.signature.has_value();
      // Suricata lets all of a flow go on that such a rule passes once.
      const bool of_packets = lowered.signature && lowered.signature->where != gpu::signatures::Where::stream;
      if (rule.header.action == Action::pass && of_packets) {
        made_.missing.insert("pass of a flow");
        decided = false;
      }
    }
    return decided;
  }

  // What its own configuration says of more than what is written. In the middle of a connection Suricata may
  // tell by what is said who is the client.
  std::string unread_setting() const {
    if (midstream_) return "stream.midstream";
    if (!fs::exists(path_ / "suricata.yaml")) return {};
    for (const auto& one : YAML::LoadFile(path_ / "suricata.yaml"))
      if (auto key = one.first.as<std::string>(); key != "outputs" && key != "stats" && key != "logging")
        return key;
    return {};
  }

  Seen seen(test::Look look) const {
    for (const auto& file : fs::directory_iterator(path_))
      if (file.path().extension() == ".pcap") return seen_in(file.path(), rules_, look);
    throw std::runtime_error(fmt::format("{}: its capture is not there", name()));
  }

  void fail(const Check& check, u32 count) {
    auto said = fmt::format("fails: {} alerts instead of {}", count, check.count);
    if (count_of(check, alerts_of(rules_, seen(test::Look::inside))) == check.count)
      said += ", which a pipeline with \"inner\" says";
    else if (count_of(without_packet(check), alerts_of(rules_, seen(test::Look::outside))) == check.count)
      said += ", inline it is said with an earlier packet";
    else if (has_old_request())
      said += ", of a request that names no protocol its line alone is read";
    else if (has_encoded_answer())
      said += ", of an answer whose body is encoded";
    else if (count_of(check, alerts_of(rules_, seen(test::Look::outside), Payloads::all)) == check.count)
      said += ", as many are of segments by themselves, behind a gap or of no connection";
    else if (!check.fields.contains("pcap_cnt") && count + connections() == check.count)
      said += ", as many are of the ends of connections";
    else
      ADD_FAILURE() << name() << " " << said << ", and nothing says why";
    if (!made_.fails) made_.said = std::move(said);
    made_.fails = true;
  }

  static Check without_packet(Check check) {
    check.fields.erase("pcap_cnt");
    return check;
  }

  std::string name() const { return path_.filename(); }

  // HTTP/0.9, or what is like it.
  bool has_old_request() const {
    const auto& packets = seen(test::Look::outside).packets;
    return std::any_of(packets.begin(), packets.end(), [](const auto& packet) {
      const std::string said(packet.seen.payload.begin(), packet.seen.payload.end());
      const std::string line = said.substr(0, said.find('\n') + 1);
      return gpu::reference::begins_request(line) &&
             !gpu::reference::read_http_request(line)[gpu::signatures::HttpPart::protocol];
    });
  }

  // In one packet.
  bool has_encoded_answer() const {
    const auto& packets = seen(test::Look::outside).packets;
    return std::any_of(packets.begin(), packets.end(), [](const auto& packet) {
      const std::string said(packet.seen.payload.begin(), packet.seen.payload.end());
      return gpu::reference::begins_answer(said.substr(0, said.find('\n') + 1)) &&
             gpu::reference::read_http_answer(said.substr(0, said.find("\r\n\r\n") + 4)).encoded;
    });
  }

  // Of TCP, in its capture. At the end of each Suricata looks at a packet that was none.
  u32 connections() const {
    std::set<std::pair<test::FlowEnd, test::FlowEnd>> flows;
    for (const auto& packet : seen(test::Look::outside).packets)
      if (packet.seen.protocol == XG_IPPROTO_TCP) flows.insert(test::flow_of(packet.seen));
    return static_cast<u32>(flows.size());
  }

  bool midstream_ = false;
  fs::path path_;
  Outcome made_;
  std::vector<LoweredRule> rules_;
};

// ---- the table -----------------------------------------------------------------------------------------

std::vector<std::string> names() {
  std::vector<std::string> made;
  for (const auto& entry : fs::directory_iterator(kSuite))
    if (entry.is_directory()) made.push_back(entry.path().filename());
  std::sort(made.begin(), made.end());
  return made;
}

std::string counts_of(const std::map<std::string, u32>& counts) {
  std::vector<std::pair<std::string, u32>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& one, const auto& other) { return one.second > other.second; });
  std::vector<std::string> made;
  made.reserve(sorted.size());
  for (const auto& [name, count] : sorted) made.push_back(fmt::format("{} {}", name, count));
  return fmt::format("{}", fmt::join(made, ", "));
}

std::vector<std::string> table() {
  std::vector<std::string> lines;
  std::map<std::string, u32> missing;
  u32 apply = 0, accepted = 0, pass = 0, fail = 0, miss = 0, no_alert = 0;
  for (const auto& name : names()) {
    const Outcome made = Folder(kSuite / name).outcome();
    apply += made.applies;
    accepted += made.applies && made.accepted == made.rules;
    pass += made.passes;
    fail += made.fails;
    miss += !made.missing.empty();
    no_alert += made.applies && made.checks == 0;
    for (const auto& keyword : made.missing) missing[keyword]++;
    lines.push_back(made.applies ? fmt::format("{:<48} {:>5} {:>5}  {}", name,
                                               fmt::format("{}/{}", made.accepted, made.rules),
                                               fmt::format("{}/{}", made.hold, made.checks), made.said)
                                 : fmt::format("{:<48} {:>5} {:>5}  {}", name, "-", "-", made.said));
  }
  const std::string header[] = {
      fmt::format("# {} folders. {} are for Suricata 7.0.10; of {} of these all rules are accepted.",
                  lines.size(), apply, accepted),
      fmt::format("# {} pass, {} fail, {} miss keywords, {} ask for no alert.", pass, fail, miss, no_alert),
      fmt::format("# Missing, by folders: {}", counts_of(missing)), "#",
      fmt::format("{:<48} {:>5} {:>5}  {}", "# folder", "rules", "checks", "outcome")};
  lines.insert(lines.begin(), std::begin(header), std::end(header));
  return lines;
}

std::vector<std::string> written() {
  std::vector<std::string> lines;
  std::istringstream text(test::content_of(kSuite / "table.txt"));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(Verify, TellsWhichAreForThisSuricata) {
  const std::pair<const char*, const char*> cases[] = {{"min-version: 7", ""},
                                                       {"min-version: 7.0.10", ""},
                                                       {"min-version: 7.0.11", "min-version 7.0.11"},
                                                       {"min-version: 8", "min-version 8"},
                                                       {"gt-version: 7.0.9", ""},
                                                       {"gt-version: 7.0.10", "gt-version 7.0.10"},
                                                       {"lt-version: 8", ""},
                                                       {"lt-version: 7.0.10", "lt-version 7.0.10"},
                                                       {"{min-version: 6, lt-version: 7}", "lt-version 7"},
                                                       {"features: [LIBNET1.1]", ""},
                                                       {"features: [ASAN]", "features ASAN"}};
  for (const auto& [wanted, why] : cases) EXPECT_EQ(unfulfilled(YAML::Load(wanted)), why) << wanted;
  EXPECT_THROW(unfulfilled(YAML::Load("os: windows")), std::runtime_error);
}

TEST(Verify, CountsAlertsByTheirFields) {
  const std::vector<Fields> alerts{{{"alert.signature_id", "1"}, {"pcap_cnt", "1"}},
                                   {{"alert.signature_id", "1"}, {"pcap_cnt", "2"}, {"src_port", "80"}},
                                   {{"alert.signature_id", "2"}, {"pcap_cnt", "2"}}};
  const auto count = [&](const char* match) {
    Check check;
    add_fields(YAML::Load(match), "", check.fields);
    return count_of(check, alerts);
  };
  EXPECT_EQ(count("{alert.signature_id: 1}"), 2u);
  EXPECT_EQ(count("{alert: {signature_id: 1}, pcap_cnt: 2}"), 1u);
  EXPECT_EQ(count("{alert.signature_id: 3}"), 0u);
  EXPECT_EQ(count("{src_port: 80}"), 1u);
  EXPECT_EQ(count("{http.url: /}"), 3u);  // for what is known
}

TEST(Verify, SaysOfAddressesAloneOnceAFlowAndDirection) {
  const auto loaded = load_rules({{"test.rules",
                                   "alert tcp any any -> any any (sid:1;)\n"
                                   "alert tcp any any -> any any (ttl:>0; sid:2;)\n"}},
                                 usual_variables(), {});
  std::vector<LoweredRule> rules;
  rules.reserve(loaded.rules.size());
  for (const auto& rule : loaded.rules) rules.push_back({rule, lower(rule)});
  const auto seen =
      seen_in(kSuite / "tcp-split-handshake-01-4whs/split-handshake-4whs.pcap", rules, test::Look::outside);
  const auto alerts = alerts_of(rules, seen);
  EXPECT_EQ(count_of({0, {{"alert.signature_id", "1"}}}, alerts), 2u);
  EXPECT_EQ(count_of({0, {{"alert.signature_id", "2"}}}, alerts), seen.packets.size());
  EXPECT_GT(seen.packets.size(), 2u);
}

TEST(Verify, EachFolderBecomesWhatTheTableSays) {
  const auto made = table();
  if (std::getenv("XDPGPU_TEST_WRITE") != nullptr)
    std::ofstream(kSuite / "table.txt") << fmt::format("{}\n", fmt::join(made, "\n"));
  const auto known = written();
  ASSERT_EQ(made.size(), known.size());
  for (std::size_t i = 0; i < made.size(); i++) EXPECT_EQ(made[i], known[i]) << "table.txt:" << i + 1;
}

}  // namespace
}  // namespace xdpgpu::rules
