// SPDX-License-Identifier: MIT
//
// Rules that packets alone decide, lowered to signatures and decided by the reference: what Suricata 7.0.10
// says of the same packets, which tests/data/signatures/alerts.txt has.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "gpu/reference/read.hpp"
#include "gpu/reference/signature.hpp"
#include "tests/unit/compiler_captures.hpp"
#include "userspace/compiler/rules/cost.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"
#include "userspace/compiler/rules/thresholds.hpp"
#include "userspace/dataplane/metadata.hpp"
#include "userspace/host/capture.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;
using gpu::reference::SignaturePacket;
using test::CapturedPacket;
using test::content_of;
using test::packet_of;
using test::packets_of;

const std::filesystem::path kData = XDPGPU_SOURCE_DIR "/tests/data";

std::vector<RuleFile> rule_files(const std::string& name) {
  if (name != "real.rules") return {{name, content_of(kData / "signatures" / name)}};
  std::vector<RuleFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(kData / "rules"))
    if (entry.path().extension() == ".rules")
      files.push_back({entry.path().filename(), content_of(entry.path())});
  return files;
}

tl::expected<std::shared_ptr<const std::string>, std::string> read_beside(const std::string& path) {
  if (!std::filesystem::exists(kData / "signatures" / path)) return tl::unexpected("there is no " + path);
  return std::make_shared<const std::string>(content_of(kData / "signatures" / path));
}

Loaded loaded_of(const std::string& name) {
  return load_rules(rule_files(name), usual_variables(), {}, {}, read_beside);
}

std::vector<sig::Signature> signatures_of(const std::string& name) {
  std::vector<sig::Signature> signatures;
  // What is told of rules that ask for bits, a packet by itself does not say: control_replay looks at those.
  for (const auto& rule : loaded_of(name).rules)
    if (auto lowered = lower(rule); lowered.signature && lowered.bits.empty())
      signatures.push_back(*std::move(lowered.signature));
  return signatures;
}

// ---- Suricata's answers --------------------------------------------------------------------------------

struct Alerts {
  // By capture and rules: sid and packet.
  std::map<std::pair<std::string, std::string>, std::set<std::pair<u32, u32>>> seen;
  std::set<std::pair<std::string, u32>> refused;
};
Alerts alerts() {
  Alerts made;
  std::istringstream lines(content_of(kData / "signatures" / "alerts.txt"));
  for (std::string capture, rules; lines >> capture >> rules;) {
    u32 sid = 0;
    lines >> sid;
    if (capture == "-") {
      made.refused.emplace(rules, sid);
      continue;
    }
    u32 packet = 0;
    char comma = ',';
    for (; comma == ',' && lines >> packet; comma = static_cast<char>(lines.get()))
      made.seen[{capture, rules}].emplace(sid, packet);
  }
  return made;
}

std::filesystem::path capture_path(const std::string& name) {
  const auto beside = kData / "signatures" / name;
  return std::filesystem::exists(beside) ? beside : kData / "pcap" / name;
}

bool is_in_a_tunnel(const CapturedPacket& packet) {
  const std::set<u32> kProtocols{4, 41, 47}, kPorts{3544, 4789, 6081};
  const auto port = [&](const std::optional<u16>& one) { return one && kPorts.contains(*one); };
  return kProtocols.contains(packet.metadata.protocol) || port(packet.seen.src_port) ||
         port(packet.seen.dst_port);
}

// PCRE2 takes more steps for it than Suricata lets it: it is one of the two of pcre.rules that ask for a z.
bool beyond_match_limit(const sig::Signature& signature) {
  const auto* const regex =
      signature.payload.empty() ? nullptr : std::get_if<sig::Regex>(&signature.payload.front());
  const sig::Bytes z = sig::Bytes().set('z');
  return regex != nullptr && std::find(regex->sets.begin(), regex->sets.end(), z) != regex->sets.end();
}

// Why Suricata says something else of a packet than of the packet by itself.
std::string cause_of(const CapturedPacket& packet, const sig::Signature& signature, bool ours) {
  if (signature.dns && !is_in_a_tunnel(packet)) {
    if (!packet.begins_dns && ours) return "of a flow that did not begin as DNS";
    if (!packet.begins && packet.seen.dns && packet.seen.dns->is_dns) return "against its flow";
    // What is read of a message, is read of one that is DNS by itself.
    if (!packet.begins && signature.dns->names.empty() && signature.dns->operations.empty())
      return "of a flow that began as DNS";
  }
  if (ours && beyond_match_limit(signature)) return "beyond Suricata's limit on steps";
  if (ours && signature.once_a_flow) return "said of the flow";
  if (ours) return is_in_a_tunnel(packet) ? "of a tunnel's outer packet" : "not said";
  if (!packet.seen.judged) return "malformed";
  if ((packet.metadata.flags & XG_PKT_FRAGMENT) != 0) return "put together";
  return is_in_a_tunnel(packet) ? "in a tunnel" : "said";
}

// Of one file of rules, with each capture that it is compared in: what one has and the other has not, by
// cause.
std::map<std::string, u32> differences(const std::string& rules, const std::vector<std::string>& captures,
                                       u32& same) {
  const auto theirs = alerts();
  const auto signatures = signatures_of(rules);
  std::map<u32, gpu::AlertLimit> limits;
  for (const auto& rule : loaded_of(rules).rules)
    limits.emplace(rule.sid, rule.threshold.value_or(Threshold{}));
  std::map<std::string, u32> causes;
  for (const auto& capture : captures) {
    const auto packets = packets_of(capture_path(capture));
    const auto found = theirs.seen.find({capture, rules});
    const auto& said = found == theirs.seen.end() ? std::set<std::pair<u32, u32>>{} : found->second;
    test::Counted counted;
    for (const auto& signature : signatures) {
      if (theirs.refused.contains({rules, signature.sid})) continue;
      for (u32 i = 0; i < packets.size(); i++) {
        const bool ours =
            matches(signature, packets[i].seen) &&
            counted.tells({signature.gid, signature.sid, 1, 3, "", "", limits.at(signature.sid)}, packets[i]);
        const bool suricatas = said.contains({signature.sid, i + 1});
        same += ours && suricatas;
        if (ours == suricatas) continue;
        const std::string cause = cause_of(packets[i], signature, ours);
        causes[cause]++;
        if (cause == "said" || cause == "not said")
          ADD_FAILURE() << capture << " packet " << i + 1 << ", sid " << signature.sid << " of " << rules
                        << ": " << (ours ? "ours alone" : "Suricata's alone");
      }
    }
  }
  return causes;
}

std::vector<std::string> real_captures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData / "pcap"))
    if (entry.path().extension() == ".pcap") names.push_back(entry.path().filename());
  return names;
}

using Causes = std::map<std::string, u32>;

TEST(Signatures, AtRandomAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("random.rules", {"random.pcap"}, same), Causes{});
  EXPECT_EQ(signatures_of("random.rules").size(), 1448u);
  EXPECT_EQ(same, 21885u);
}

// But for what Suricata makes of more than one packet, or of what is inside of one.
TEST(Signatures, AtTheEdgesAreDecidedAsBySuricata) {
  auto captures = real_captures();
  captures.emplace_back("edges.pcap");
  u32 same = 0;
  EXPECT_EQ(differences("edges.rules", captures, same), (Causes{{"malformed", 76},
                                                                {"of a tunnel's outer packet", 241},
                                                                {"put together", 46},
                                                                {"said of the flow", 41}}));
  EXPECT_EQ(same, 13326u);
}

TEST(Signatures, OfGarbledPacketsAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("edges.rules", {"garbled.pcap"}, same),
            (Causes{{"malformed", 324}, {"said of the flow", 26}}));
  EXPECT_EQ(same, 8000u);
}

TEST(Signatures, OfRealRulesAreDecidedAsBySuricata) {
  auto captures = real_captures();
  captures.insert(captures.end(), {"edges.pcap", "real.pcap"});
  u32 same = 0;
  EXPECT_EQ(differences("real.rules", captures, same), Causes{});
  EXPECT_EQ(same, 44u);
}

// Each question by itself, each answer behind one: what answers lack to be DNS by themselves, Suricata knows
// of their flows.
TEST(Signatures, OfDnsAtRandomAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("dns-random.rules", {"dns-random.pcap"}, same),
            (Causes{{"of a flow that began as DNS", 2718}}));
  EXPECT_EQ(signatures_of("dns-random.rules").size(), 987u);
  EXPECT_EQ(same, 64173u);
}

std::vector<std::string> dns_captures() {
  return {"dns-edges.pcap", "dns-random.pcap", "dns-notify.pcap", "dns-operation.pcap", "dns-query.pcap"};
}

TEST(Signatures, OfDnsAtTheEdgesAreDecidedAsBySuricata) {
  auto captures = real_captures();
  const auto more = dns_captures();
  captures.insert(captures.end(), more.begin(), more.end());
  captures.emplace_back("edges.pcap");
  u32 same = 0;
  EXPECT_EQ(differences("dns-edges.rules", captures, same), (Causes{{"of a flow that began as DNS", 277}}));
  EXPECT_EQ(same, 25354u);
}

// Messages that are not DNS to port 53, or not what their flow's others are.
TEST(Signatures, OfDnsThatContradictsItsFlowAreDecidedByThePacket) {
  u32 same = 0;
  EXPECT_EQ(differences("dns-edges.rules", {"dns-flows.pcap"}, same),
            (Causes{{"against its flow", 76},
                    {"of a flow that began as DNS", 18},
                    {"of a flow that did not begin as DNS", 183}}));
  EXPECT_EQ(same, 606u);
}

TEST(Signatures, OfRealRulesForDnsAreDecidedAsBySuricata) {
  auto captures = dns_captures();
  captures.emplace_back("dns-real.pcap");
  u32 same = 0;
  EXPECT_EQ(differences("dns-real.rules", captures, same), Causes{});
  EXPECT_EQ(differences("real.rules", {"dns-real.pcap"}, same), Causes{});
  EXPECT_EQ(same, 435u);
}

TEST(Signatures, WithSetsOfStringsAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("datasets-random.rules", {"dns-random.pcap"}, same),
            (Causes{{"of a flow that began as DNS", 1467}}));
  EXPECT_EQ(signatures_of("datasets-random.rules").size(), 499u);
  EXPECT_EQ(same, 33061u);
}

TEST(Signatures, WithSetsOfStringsAtTheEdgesAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("datasets.rules",
                        {"dns-edges.pcap", "dns-random.pcap", "dns-real.pcap", "dns-query.pcap"}, same),
            Causes{});
  EXPECT_EQ(signatures_of("datasets.rules").size(), 32u);
  EXPECT_EQ(same, 10674u);
}

TEST(Signatures, WithRegularExpressionsAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("pcre-random.rules", {"pcre.pcap"}, same), Causes{});
  EXPECT_EQ(signatures_of("pcre-random.rules").size(), 795u);
  EXPECT_EQ(same, 28002u);
}

TEST(Signatures, WithRegularExpressionsAtTheEdgesAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("pcre.rules", {"pcre.pcap", "edges.pcap", "dns-edges.pcap", "dns-random.pcap"}, same),
            (Causes{{"beyond Suricata's limit on steps", 13}}));
  EXPECT_EQ(signatures_of("pcre.rules").size(), 73u);
  EXPECT_EQ(same, 23056u);
}

TEST(Signatures, AreSoManyOfTheRealRules) {
  u32 decided = 0;
  std::map<std::string, u32> not_yet;
  for (const auto& rule : loaded_of("real.rules").rules) {
    const auto lowered = lower(rule);
    EXPECT_NE(lowered.signature.has_value(), !lowered.not_yet.empty()) << where(rule.place);
    decided += lowered.signature.has_value();
    for (const auto& one : lowered.not_yet) not_yet[one.keyword]++;
  }
  EXPECT_EQ(decided, 138u);
  EXPECT_FALSE(not_yet.contains("flow"));
  EXPECT_EQ(not_yet.at("http"), 1200u);
  EXPECT_EQ(not_yet.at("http.uri"), 315u);
  EXPECT_EQ(not_yet.at("pcre"), 314u);
  EXPECT_FALSE(not_yet.contains("threshold")) << "none of them drops";
}

// ---- lowering ------------------------------------------------------------------------------------------

Rule rule_of(const std::string& text) {
  auto rule = parse_rule({text, {"test.rules", 1}}, usual_variables());
  if (!rule) throw std::runtime_error(text + ": " + rule.error());
  return *std::move(rule);
}
Lowered lowered(const std::string& options, const std::string& protocol = "udp") {
  return lower(rule_of(fmt::format("alert {} any any -> any any ({} sid:1;)", protocol, options)));
}

TEST(Lowering, NamesWhatPacketsDoNotDecide) {
  struct Case {
    std::string protocol, options;
    std::vector<std::string> keywords;
  };
  for (const auto& [protocol, options, keywords] : std::vector<Case>{
           {"tcp", "content:\"a\";", {"content"}},
           {"tcp", "content:\"a\"; depth:5;", {"content"}},
           {"ip", "content:\"a\";", {"content"}},
           {"tcp-stream", "content:\"a\";", {"tcp-stream", "content"}},
           {"http",
            "flow:established; http.uri; content:\"a\"; http.method; content:\"GET\";",
            {"http", "http.uri", "http.method"}},
           {"tls", "tls_sni; content:\"a\";", {"tls", "tls.sni"}},
           {"http", "file_data; content:\"a\";", {"http", "file.data"}},
           {"pkthdr", "", {"pkthdr"}},
           {"udp", "content:\"a\"; flowint:n,+,1;", {"flowint"}},
           {"udp", "content:\"a\"; flow:only_frag;", {"flow"}},
           {"ip", "content:\"a\"; flow:only_stream;", {"flow", "content"}},
           {"udp", "content:\"a\"; pcre:\"/b/\"; pcre:\"/c/R\";", {"pcre"}},
           {"udp", "udp.hdr; content:\"a\";", {"udp.hdr"}},
           {"tcp", "tcp.mss:1460;", {"tcp.mss"}},
           {"ip", "ipopts:any;", {"ipopts"}},
           {"tcp", "dns.query; content:\"a\";", {"dns.query"}},
           {"icmp", "dns.opcode:0;", {"dns.opcode"}},
           {"dns", "flow:established; dns.query; content:\"a\"; pcre:\"/(b)\\1/\";", {"pcre"}},
           {"dns", "dns.query; dotprefix; to_lowercase; content:\"a\";", {"to_lowercase"}},
           {"dns", "dns.query; dotprefix; dotprefix; content:\"a\";", {"dotprefix"}},
           {"dns", "dns.query; byte_extract:1,0,n; isdataat:n;", {"byte_extract"}},
           {"udp", "byte_test:4,>,1,0,dce;", {"dce"}},
           {"udp", "content:\"a\"; byte_jump:0,0,relative,string,dec;", {"byte_jump"}},
           // What it is then depends on the stream.
           {"tcp", "dsize:0; flags:S;", {"dsize"}},
           {"tcp", "dsize:!3; flags:S;", {"dsize"}},
           {"tcp-pkt", "content:!\"a\";", {"content"}},
           {"tcp-pkt", "isdataat:!9;", {"content"}},
           {"tcp-pkt", "pcre:!\"/a/\";", {"content"}},
           {"tcp-pkt", "pcre:\"/a*/\";", {"content"}},
           // Where an expression ends is not said, nor what is in its groups.
           {"udp", "pcre:\"/a/\"; content:\"b\"; distance:0;", {"pcre"}},
           {"udp", "pcre:\"/a/\"; pcre:\"/b/R\";", {"pcre"}},
           {"udp", "pcre:\"/a/\"; byte_test:1,=,1,0,relative;", {"pcre"}},
           {"udp", "pcre:\"/a/\"; isdataat:!1,relative;", {"pcre"}},
           {"udp", "pcre:\"/(a)/,flow:x\";", {"pcre"}},
           {"udp", "pcre:\"/(a)\\1/\";", {"pcre"}},
           // Suricata mistakes a variable for a number.
           {"udp", "content:\"a\"; dsize:!5;", {"dsize"}},
           {"udp", "byte_extract:1,0,n; content:\"a\"; depth:n; dsize:<9;", {"dsize"}},
           {"udp", "byte_extract:1,0,n; content:\"a\"; offset:n; depth:9;", {"content"}},
           {"udp", "byte_extract:1,0,n; content:\"a\"; depth:1; content:\"b\"; within:n;", {"content"}}}) {
    const auto made = lowered(options, protocol);
    std::vector<std::string> said;
    for (const auto& one : made.not_yet) {
      said.push_back(one.keyword);
      EXPECT_FALSE(one.why.empty());
    }
    EXPECT_EQ(said, keywords) << protocol << " " << options;
    EXPECT_FALSE(made.signature) << protocol << " " << options;
  }
}

// Bounds of the devices, which real rules are far from.
TEST(Lowering, NamesWhatNoDeviceTakes) {
  const auto why = [](const std::string& options) {
    const auto made = lowered(options);
    return made.not_yet.empty() ? std::string()
                                : made.not_yet.front().keyword + ": " + made.not_yet.front().why;
  };
  std::string steps, relative;
  for (u32 i = 0; i < 64; i++) steps += fmt::format("content:\"{}\"; ", i);
  EXPECT_EQ(why(steps), "");
  EXPECT_EQ(why(steps + "content:\"more\";"),
            "content: has more than 64 steps: use fewer contents and tests");
  EXPECT_EQ(why(steps + "dns.query; content:\"more\";"),
            "content: has more than 64 steps: use fewer contents and tests");
  std::string names;
  for (u32 i = 0; i < 8; i++) names += "dns.query; content:\"a\"; ";
  EXPECT_EQ(why(names), "");
  EXPECT_EQ(why(names + "dns.query; content:\"a\";").substr(0, 37), "content: asks more than 8 times for t");
  for (u32 i = 0; i < 33; i++) relative += "content:\"a\"; within:9; ";
  EXPECT_EQ(why(relative), "");  // the last one is not tried again
  EXPECT_EQ(why(relative + "content:\"a\"; within:9;"),
            "content: has more than 32 contents that others are relative to: use fewer");
}

// Of rules for DNS, the half over UDP.
TEST(Lowering, AsksForDnsMessages) {
  const auto of = [](const std::string& options, const std::string& protocol = "dns") {
    return lowered(options, protocol);
  };
  const auto bare = of("");
  EXPECT_EQ(bare.signature.value().header.protocols, std::bitset<256>().set(17));
  EXPECT_EQ(bare.signature->dns, sig::Dns{});
  EXPECT_FALSE(bare.signature->once_a_flow);
  EXPECT_TRUE(bare.over_tcp_too);
  EXPECT_FALSE(of("content:\"a\";", "udp").signature.value().dns);
  EXPECT_FALSE(of("dns.query; content:\"a\";", "udp").over_tcp_too);
  EXPECT_TRUE(of("dns.query; content:\"a\";", "ip").over_tcp_too);
  EXPECT_EQ(of("dns.query; content:\"a\";", "ip").signature.value().header.protocols.count(), 1u);
  EXPECT_FALSE(of("dns.query; content:\"a\";", "ip6").signature.value().header.v4);
  // Which way, and what.
  EXPECT_FALSE(of("flow:to_client;").signature.value().dns->queries);
  EXPECT_FALSE(of("flow:to_server,stateless;").signature.value().dns->answers);
  EXPECT_FALSE(of("dns.query; content:\"a\";").signature.value().dns->answers);
  EXPECT_THAT(of("dns.opcode:!0; dns.opcode:4;").signature.value().dns->operations,
              testing::ElementsAre(sig::OperationIs{0, true}, sig::OperationIs{4, false}));
  EXPECT_TRUE(of("flow:stateless; content:\"a\";", "udp").signature);
}

TEST(Lowering, AsksForNames) {
  const auto of = [](const std::string& options) { return lowered(options, "dns").signature.value(); };
  const auto one = of("dns.query; dotprefix; content:\".a.com\"; endswith; bsize:6;");
  ASSERT_EQ(one.dns->names.size(), 1u);
  const sig::NameIs& name = one.dns->names.front();
  EXPECT_TRUE(name.dot_prefix);
  EXPECT_THAT(name.sizes, testing::ElementsAre(sig::SizeIs{{6, 6}, false}));
  ASSERT_EQ(name.steps.size(), 1u);
  EXPECT_TRUE(std::get<sig::Content>(name.steps.front()).ends);
  EXPECT_EQ(one.fast_pattern, (sig::FastPattern{0, 0, 6, 1}));
  EXPECT_EQ(sig::found_by(one), &std::get<sig::Content>(name.steps.front()));
  // Each is about any of the message's.
  const auto two = of("content:\"a\"; dns.query; content:\"b\"; dns.query; dotprefix; content:\".cd\";");
  EXPECT_EQ(two.payload.size(), 1u);
  ASSERT_EQ(two.dns->names.size(), 2u);
  EXPECT_FALSE(two.dns->names[0].dot_prefix);
  EXPECT_TRUE(two.dns->names[1].dot_prefix);
  EXPECT_EQ(two.fast_pattern, (sig::FastPattern{0, 0, 3, 2}));
  // A transform behind a content changes what is asked for behind it.
  const auto changed = of("dns.query; content:\"b\"; dotprefix; content:\".cd\";");
  ASSERT_EQ(changed.dns->names.size(), 2u);
  EXPECT_TRUE(changed.dns->names[1].dot_prefix);
  EXPECT_EQ(sig::beyond_bounds(one), std::nullopt);
}

TEST(Lowering, RefusesOfDnsWhatSuricataDoes) {
  std::set<u32> theirs, ours;
  for (const auto& [rules, sid] : alerts().refused)
    if (rules == "dns-edges.rules") theirs.insert(sid);
  for (const auto& one : loaded_of("dns-edges.rules").wrong)
    ours.insert(one.place.line - 1);  // a line of comment stands in front
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(ours.size(), 8u);
}

TEST(Lowering, RefusesOfSetsWhatSuricataDoes) {
  std::set<u32> theirs, ours;
  for (const auto& [rules, sid] : alerts().refused)
    if (rules == "datasets.rules") theirs.insert(sid);
  const auto lines = rule_texts(content_of(kData / "signatures" / "datasets.rules"), "datasets.rules");
  for (const auto& one : loaded_of("datasets.rules").wrong)
    for (const auto& line : lines)
      if (line.place.line == one.place.line)
        ours.insert(static_cast<u32>(std::stoul(line.text.substr(line.text.rfind("sid:") + 4))));
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(ours.size(), 11u);
}

// What a rule asks of sets that it has not: a name's, and why it is not decided.
TEST(Lowering, LooksNamesUpInSetsThatDoNotChange) {
  std::map<u32, std::string> why;
  std::map<u32, std::vector<sig::NameIs>> names;
  for (const auto& rule : loaded_of("datasets.rules").rules) {
    const auto lowered = lower(rule);
    for (const auto& one : lowered.not_yet) why[rule.sid] += one.keyword + ": " + one.why;
    if (lowered.signature) names[rule.sid] = lowered.signature->dns->names;
  }
  EXPECT_EQ(why,
            (std::map<u32, std::string>{{70, "dataset: it changes the set: strings are not learnt"},
                                        {71, "dataset: rule 1:70 changes its set: strings are not learnt"},
                                        {72, "dataset: its set is of type md5: strings alone are looked up"},
                                        {73, "dataset: it changes the set: strings are not learnt"},
                                        {74, "dataset: rule 1:73 changes its set: strings are not learnt"}}));
  ASSERT_EQ(names.at(20).size(), 1u);
  const auto& sets = names.at(20)[0].sets;
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_TRUE(sets[0].negated && sets[1].negated);
  EXPECT_EQ(sets[0].strings.set->ends.size(), 15u);
  EXPECT_EQ((*sets[0].strings.set)[5], std::string_view("a\0b.example.com", 15));
  EXPECT_EQ(names.at(1)[0].sets[0].strings.set, names.at(4)[0].sets[0].strings.set) << "it is one";
  EXPECT_EQ(names.at(22).size(), 2u);
  EXPECT_EQ(names.at(24)[0].sets[0].strings.set->ends.size(), 0u);
}

TEST(Lowering, TakesWhatIsLeftOutOutOfRanges) {
  using sig::Range;
  const auto header = [](const std::string& src, const std::string& ports) {
    return lower(rule_of(fmt::format("alert udp {} {} -> any any (dsize:1; sid:1;)", src, ports)))
        .signature.value()
        .header;
  };
  const auto address = [](std::initializer_list<u8> bytes) {
    sig::Address made{};
    std::copy(bytes.begin(), bytes.end(), made.begin());
    return made;
  };
  const auto some = header("[10.0.0.0/8,!10.1.0.0/16,10.255.0.0/15]", "[1:9,5:20,22,!7,!22,65535]");
  EXPECT_THAT(some.src.v4,
              testing::ElementsAre(Range<sig::Address>{address({10}), address({10, 0, 255, 255})},
                                   Range<sig::Address>{address({10, 2}), address({10, 255, 255, 255})}));
  EXPECT_TRUE(some.src.v6.empty());
  EXPECT_THAT(some.src_ports.value(),
              testing::ElementsAre(Range<u16>{1, 6}, Range<u16>{8, 20}, Range<u16>{65535, 65535}));
  // Without addresses of a family: no packets of it, unless "any" is there.
  EXPECT_TRUE(header("!10.0.0.0/8", "any").src.v6.empty());
  EXPECT_EQ(header("[any,!10.0.0.0/8]", "any").src.v6.size(), 1u);
  EXPECT_EQ(header("!255.255.255.255", "any").src.v4.size(), 1u);
  EXPECT_EQ(header("!0.0.0.0", "any").src.v4.front().first, address({0, 0, 0, 1}));
  // "any" is also of packets without ports, and no other group is.
  EXPECT_FALSE(header("any", "any").src_ports);
  EXPECT_THAT(header("any", "0:65535").src_ports.value(), testing::ElementsAre(Range<u16>{0, 65535}));
  EXPECT_THAT(header("any", "!80").src_ports.value(),
              testing::ElementsAre(Range<u16>{0, 79}, Range<u16>{81, 65535}));
}

TEST(Lowering, KeepsWhichContentIsLookedForFirst) {
  const auto first = [](const std::string& options) {
    return lowered(options).signature.value().fast_pattern;
  };
  EXPECT_EQ(first("dsize:1;"), std::nullopt);
  EXPECT_EQ(first("content:\"a\"; content:\"bcd\";"), (sig::FastPattern{1, 0, 3}));
  EXPECT_EQ(first("content:\"abcd\"; fast_pattern:1,2; content:\"efghi\";"), (sig::FastPattern{0, 1, 2}));
  // That nothing is behind a content is no step.
  EXPECT_EQ(first("content:\"a\"; isdataat:!1,relative; content:\"bcd\";"), (sig::FastPattern{1, 0, 3}));
}

TEST(Lowering, TriesContentsAgainThatLaterStepsAreRelativeTo) {
  const auto again = [](const std::string& options) {
    const auto signature = lowered(options).signature.value();
    return std::get<sig::Content>(signature.payload.front()).tried_again;
  };
  EXPECT_FALSE(again("content:\"a\"; content:\"b\"; distance:1;"));
  EXPECT_TRUE(again("content:\"a\"; content:!\"b\"; distance:1;"));
  EXPECT_TRUE(again("content:\"a\"; content:\"b\"; within:1;"));
  EXPECT_TRUE(again("content:\"a\"; byte_test:1,>,1,0,relative;"));
  EXPECT_FALSE(again("content:\"a\"; byte_test:1,>,1,0;"));
  EXPECT_FALSE(again("content:\"a\"; byte_test:1,>,1,0; byte_test:1,>,1,0,relative;"));
  EXPECT_TRUE(again("content:\"a\"; isdataat:2,relative;"));
  EXPECT_FALSE(again("content:\"a\"; isdataat:!1,relative;"));
}

TEST(Lowering, TriesContentsAgainThatExpressionsAreRelativeTo) {
  const auto again = [](const std::string& options) {
    const auto signature = lowered(options).signature.value();
    return std::get<sig::Content>(signature.payload.front()).tried_again;
  };
  EXPECT_TRUE(again("content:\"a\"; pcre:\"/b/R\";"));
  EXPECT_TRUE(again("content:\"a\"; pcre:!\"/b/R\";"));
  EXPECT_TRUE(again("content:\"a\"; byte_test:1,>,1,0; pcre:\"/b/R\";"));
  EXPECT_FALSE(again("content:\"a\"; pcre:\"/b/\";"));
  EXPECT_FALSE(again("content:\"a\"; pcre:!\"/b/\"; content:\"c\"; within:9;"));
  EXPECT_FALSE(again("content:\"a\"; pcre:!\"/b/\"; pcre:\"/c/R\";"));
}

TEST(Lowering, KeepsVariablesWhereSuricataDoes) {
  const auto steps = lowered(
                         "byte_extract:1,0,a; byte_extract:1,1,b; "
                         "byte_math:bytes 1, offset 2, oper +, rvalue a, result c; byte_test:1,=,c,b;")
                         .signature.value()
                         .payload;
  EXPECT_EQ(std::get<sig::ByteExtract>(steps[0]).variable, 0);
  EXPECT_EQ(std::get<sig::ByteExtract>(steps[1]).variable, 1);
  EXPECT_EQ(std::get<sig::ByteMath>(steps[2]).variable, 0);  // where "a" was
  EXPECT_EQ(std::get<sig::ByteTest>(steps[3]).value.variable, u8{0});
  EXPECT_EQ(std::get<sig::ByteTest>(steps[3]).number.offset.variable, u8{1});
  std::string many;
  for (u32 i = 0; i < sig::kMostVariables; i++) many += fmt::format("byte_extract:1,0,v{};", i);
  EXPECT_TRUE(lowered(many).signature);
  EXPECT_FALSE(lowered(many + "byte_extract:1,0,more;").signature);
}

// A content that is relative has a place from the payload's start, too, by what stands in front of it.
TEST(Lowering, ConcludesWhereContentsStand) {
  const auto last = [](const std::string& options) {
    return std::get<sig::Content>(lowered(options).signature.value().payload.back());
  };
  const auto two = last("content:\"ab\"; offset:3; depth:5; content:\"c\"; distance:1; within:4;");
  EXPECT_EQ(two.offset.constant, 6);
  EXPECT_EQ(two.depth.value().constant, 8 + 1 + 4);
  EXPECT_EQ(last("content:\"ab\"; content:\"c\"; distance:-1;").offset.constant, 1);
  EXPECT_EQ(last("content:\"ab\"; content:\"c\"; distance:-9;").offset.constant, 0);
  EXPECT_EQ(last("content:\"ab\"; byte_jump:1,0; content:\"c\"; distance:1;").offset.constant, 1);
  // The first one's is the payload's start.
  const auto first = last("content:\"ab\"; distance:2; within:5;");
  EXPECT_FALSE(first.relative());
  EXPECT_EQ(first.offset.constant, 2);
  EXPECT_EQ(first.depth.value().constant, 7);
  // Of a variable it is the number that Suricata knows it by.
  EXPECT_EQ(last("byte_extract:1,0,a; byte_extract:1,0,b; content:\"ab\"; content:\"c\"; distance:b;")
                .offset.constant,
            2 + 1);
}

// Of 1,000 random bytes.
TEST(Lowering, TellsWhatASignatureCosts) {
  const auto cost = [](const std::string& options) { return cost_of(lowered(options).signature.value()); };
  EXPECT_DOUBLE_EQ(cost("dsize:1;"), 1);
  EXPECT_DOUBLE_EQ(cost("byte_test:1,>,1,0; isdataat:9;"), 2);
  EXPECT_DOUBLE_EQ(cost("content:!\"abc\";"), 1);
  EXPECT_DOUBLE_EQ(cost("content:\"a\";"), 1);  // it is there in nearly all
  EXPECT_DOUBLE_EQ(cost("content:\"ab\";"), 999.0 / 65536);
  EXPECT_DOUBLE_EQ(cost("content:\"ab\"; nocase; isdataat:9;"), 2 * 4 * 999.0 / 65536);
  EXPECT_DOUBLE_EQ(cost("content:\"ab\"; startswith;"), 1.0 / 65536);
  EXPECT_DOUBLE_EQ(cost("content:\"abcd\"; fast_pattern:0,2;"), 997.0 / 65536);
  // A name has 32.
  EXPECT_DOUBLE_EQ(cost("dns.query; content:\"ab\";"), 31.0 / 65536);
  EXPECT_DOUBLE_EQ(cost("isdataat:1; dns.query; content:\"ab\"; startswith;"), 2.0 / 65536);
}

// ---- steps, each at its edges --------------------------------------------------------------------------

CapturedPacket datagram(const std::string& payload) {
  std::vector<u8> frame{0x02, 0, 0, 0,  0,   0x0a, 0x02, 0, 0,  0,  0, 0x0b, 0x08, 0x00,  // Ethernet
                        0x45, 0, 0, 0,  0,   0,    0,    0, 64, 17, 0, 0,                 // IPv4
                        192,  0, 2, 1,  198, 51,   100,  2,                               // addresses
                        0x0f, 1, 0, 80, 0,   0,    0,    0};                              // UDP
  const auto set = [&](std::size_t at, std::size_t value) {
    frame[at] = static_cast<u8>(value >> 8);
    frame[at + 1] = static_cast<u8>(value);
  };
  set(16, 28 + payload.size());
  set(38, 8 + payload.size());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return packet_of(frame);
}

TEST(Steps, MatchAtTheirEdges) {
  using namespace std::string_literals;
  struct Case {
    std::string options, payload;
    bool matches;
  };
  for (const auto& [options, payload, matches] : std::vector<Case>{
           {"content:\"abc\";", "xxabc", true},
           {"content:\"abc\";", "xxab", false},
           {"content:\"abc\";", "", false},
           {"content:!\"abc\";", "ab", true},
           {"content:!\"abc\";", "", false},  // a payload is there
           {"content:\"aBc\"; nocase;", "AbC", true},
           {"content:\"abc\"; offset:1;", "abc", false},
           {"content:\"abc\"; offset:1;", "xabc", true},
           {"content:\"abc\"; depth:3;", "xabc", false},
           {"content:\"abc\"; offset:1; depth:3;", "xabc", true},
           {"content:\"abc\"; offset:1; depth:3;", "xxabc", false},
           {"content:\"abc\"; endswith;", "abcabc", true},
           {"content:\"abc\"; endswith;", "abcx", false},
           {"content:!\"abc\"; endswith; content:\"x\";", "abcx", true},
           {"content:!\"abc\"; endswith;", "abcx", false},  // it is looked for first
           {"content:\"a\"; content:\"b\"; distance:1; within:1;", "axb", true},
           {"content:\"a\"; content:\"b\"; distance:1; within:1;", "axxb", false},
           {"content:\"a\"; content:\"b\"; distance:1; within:1;", "a.axb", true},  // tried again
           {"content:\"a\"; content:\"b\"; distance:-2;", "ba", true},
           {"content:\"a\"; content:!\"b\"; within:1;", "abac", true},
           {"content:\"a\"; content:!\"b\"; within:1;", "abab", false},
           {"isdataat:2;", "ab", false},
           {"isdataat:2;", "abc", true},
           {"content:\"a\"; isdataat:2,relative;", "abc", true},
           {"content:\"a\"; isdataat:3,relative;", "abc", false},
           {"content:\"a\"; isdataat:!2,relative;", "ab", true},
           {"byte_test:2,=,258,0;", "\x01\x02", true},
           {"byte_test:2,=,513,0,little;", "\x01\x02", true},
           {"byte_test:2,=,258,1;", "\x01\x02", false},
           {"byte_test:1,!=,1,0;", "\x01", false},
           {"byte_test:1,&,6,0;", "\x04", true},
           {"byte_test:1,^,4,0;", "\x04", false},
           {"byte_test:1,=,3,0,bitmask 0x0c;", "\x0f", true},
           {"byte_test:4,=,31,0,string;", "0x1f", true},
           {"byte_test:4,=,31,0,string,hex;", "1fzz", true},
           {"byte_test:4,=,0,0,string,dec;", "zzzz", false},
           {"byte_jump:1,0; isdataat:!1,relative;", "\x02..", true},
           {"byte_jump:1,0; content:\"b\"; distance:0; within:1;", "\x02..b", true},
           {"byte_jump:1,0;", "\x03..", false},
           {"byte_jump:1,0,from_beginning; content:\"b\"; within:1;", "\x02.b", true},
           {"byte_jump:0,0,from_end,post_offset -2; content:\"b\"; within:1;", "aabb", true},
           {"byte_jump:1,0,align; content:\"b\"; within:1;", "\x01....b", true},
           {"byte_jump:1,0,post_offset -9; content:\"|05|\"; within:1;", "\x05",
            true},  // in front is the start
           {"byte_jump:8,0;", "\xff\xff\xff\xff\xff\xff\xff\xf0", true},
           {"byte_jump:8,0;", "\x7f\xff\xff\xff\xff\xff\xff\xff", false},
           {"byte_extract:1,0,n; content:\"b\"; offset:n; depth:n;", "\x02.b.", true},
           {"byte_extract:1,0,n; content:\"b\"; offset:n;", "\x03.b", false},
           {"byte_extract:1,0,n,multiplier 2,align 4; isdataat:!n;", "\x03" + "......."s, true},
           {"byte_extract:1,0,n,multiplier 2,align 4; isdataat:!n;", "\x03" + "........"s, false},
           {"byte_extract:4,0,n; isdataat:!n;", "\xff\xff\xff\xff", true},
           {"byte_math:bytes 1, offset 0, oper -, rvalue 1, result n; byte_test:1,=,n,1;", "\x03\x02", true},
           {"byte_math:bytes 1, offset 0, oper <<, rvalue 64, result n; byte_test:1,=,n,1;", "\x03"s + "\0"s,
            true},
           {"byte_extract:1,0,n; byte_math:bytes 1, offset 1, oper /, rvalue n, result m;", "\0\1"s,
            false}}) {
    const auto made = lowered(options);
    ASSERT_TRUE(made.signature) << options << ": " << made.not_yet.front().why;
    EXPECT_EQ(gpu::reference::matches(*made.signature, datagram(payload).seen), matches)
        << options << " in " << pattern_text(payload);
  }
}

// Metadata stand in memory that others write: whatever they say, nothing beyond the packet is read.
TEST(Steps, StayWithinThePacket) {
  std::mt19937 random(7);
  auto signatures = signatures_of("edges.rules");
  const auto more = signatures_of("dns-edges.rules");
  signatures.insert(signatures.end(), more.begin(), more.end());
  std::vector<std::vector<u8>> frames;
  for (const char* const name : {"edges.pcap", "dns-edges.pcap"}) {
    auto capture = host::Capture::open(capture_path(name)).value();
    while (const auto packet = capture->next())
      frames.emplace_back(packet->frame.begin(), packet->frame.end());
  }
  u32 judged = 0;
  for (u32 i = 0; i < 4000; i++) {
    const auto& frame = frames[random() % frames.size()];
    std::vector<u8> region(XG_METADATA_SIZE);
    region.insert(region.end(), frame.begin(), frame.end());
    const auto length = static_cast<u32>(frame.size());
    xg_metadata metadata;
    dataplane::parse_metadata(frame.data(), length, length, 0, {}, 0, 0, &metadata);
    for (u32 change = 0; change < 2; change++)
      std::array{&metadata.flags, &metadata.l4_offset, &metadata.payload_offset}[random() % 3][0] =
          static_cast<u16>(random());
    if (random() % 2 == 0) metadata.l3_offset = static_cast<u8>(random());
    if (random() % 2 == 0) metadata.protocol = static_cast<u8>(random());
    std::memcpy(region.data(), &metadata, sizeof(metadata));
    const auto packet = gpu::reference::read_packet(region, {XG_METADATA_SIZE, length, 0});
    if (!packet) continue;
    const SignaturePacket seen(*packet);
    judged += seen.judged;
    for (const auto& signature : signatures) (void)matches(signature, seen);
  }
  EXPECT_GT(judged, 100u);
}

// What Suricata's own count ends; edges.pcap has the same.
TEST(Steps, AreTriedSoOftenAndNoMore) {
  const auto signature =
      lowered("content:\"a\"; content:\"a\"; within:800; content:\"a\"; within:3; content:\"b\"; within:1;")
          .signature.value();
  EXPECT_TRUE(matches(signature, datagram(std::string(751, 'a') + "Xab").seen));
  EXPECT_FALSE(matches(signature, datagram(std::string(752, 'a') + "Xab").seen));
}

}  // namespace
}  // namespace xdpgpu::rules
