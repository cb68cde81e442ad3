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
#include "tests/unit/compared.hpp"
#include "tests/unit/compiler_captures.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"
#include "userspace/compiler/rules/thresholds.hpp"
#include "userspace/dataplane/metadata.hpp"
#include "userspace/expressions/expressions.hpp"
#include "userspace/host/capture.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;
using gpu::reference::SignaturePacket;
using test::CapturedPacket;
using test::content_of;
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

// What is told of rules that ask for bits, a packet by itself does not say: control_replay looks at those.
std::vector<Lowered> lowered_of(const std::string& name) {
  std::vector<Lowered> all;
  for (const auto& rule : loaded_of(name).rules)
    if (auto lowered = lower(rule); lowered.signature && lowered.bits.empty())
      all.push_back(std::move(lowered));
  return all;
}
std::vector<sig::Signature> signatures_of(const std::string& name) {
  std::vector<sig::Signature> signatures;
  for (auto& lowered : lowered_of(name)) signatures.push_back(*std::move(lowered.signature));
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
  const auto all = lowered_of(rules);
  expressions::Finder finder;
  const auto holds = [&](const Lowered& rule, const SignaturePacket& packet) {
    finder.begin();
    return matches(*rule.signature, packet) && (!rule.rest || rest_holds(*rule.rest, packet, finder));
  };
  std::map<u32, gpu::AlertLimit> limits;
  for (const auto& rule : loaded_of(rules).rules)
    limits.emplace(rule.sid, rule.threshold.value_or(Threshold{}));
  std::map<std::string, u32> causes, suricatas_alone, ours_alone;
  const u32 same_before = same;
  for (const auto& capture : captures) {
    const auto packets = packets_of(capture_path(capture));
    const auto found = theirs.seen.find({capture, rules});
    const auto& said = found == theirs.seen.end() ? std::set<std::pair<u32, u32>>{} : found->second;
    test::Counted counted;
    for (const auto& lowered : all) {
      const sig::Signature& signature = *lowered.signature;
      if (theirs.refused.contains({rules, signature.sid})) continue;
      for (u32 i = 0; i < packets.size(); i++) {
        const u64 limits_reached = finder.limits_reached();
        const bool ours =
            holds(lowered, packets[i].seen) &&
            counted.tells({signature.gid, signature.sid, 1, 3, "", "", limits.at(signature.sid)}, packets[i]);
        const bool suricatas = said.contains({signature.sid, i + 1});
        same += ours && suricatas;
        if (ours == suricatas) continue;
        // Its machine code (PCRE2's JIT) counts fewer steps than the interpreter that hosts here have.
        const bool beyond = !ours && finder.limits_reached() != limits_reached;
        const std::string cause =
            beyond ? "beyond the limit on steps" : cause_of(packets[i], signature, ours);
        causes[cause]++;
        (ours ? ours_alone : suricatas_alone)[cause]++;
        if (cause == "said" || cause == "not said")
          ADD_FAILURE() << capture << " packet " << i + 1 << ", sid " << signature.sid << " of " << rules
                        << ": " << (ours ? "ours alone" : "Suricata's alone");
      }
    }
  }
  xdpgpu::test::tell_compared(
      rules, captures.size() == 1 ? captures[0] : fmt::format("{} captures", captures.size()),
      same - same_before, suricatas_alone, ours_alone);
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
  EXPECT_EQ(signatures_of("pcre-random.rules").size(), 1000u);
  EXPECT_EQ(same, 32298u);
}

TEST(Signatures, WithRegularExpressionsAtTheEdgesAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("pcre.rules", {"pcre.pcap", "edges.pcap", "dns-edges.pcap", "dns-random.pcap"}, same),
            (Causes{{"beyond Suricata's limit on steps", 13}}));
  EXPECT_EQ(signatures_of("pcre.rules").size(), 77u);
  EXPECT_EQ(same, 25300u);
}

TEST(Signatures, WithExpressionsForHostsAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("expressions-random.rules", {"expressions.pcap"}, same),
            (Causes{{"beyond the limit on steps", 2}}));
  const auto all = lowered_of("expressions-random.rules");
  EXPECT_EQ(all.size(), 1130u) << "54 of the 1,184 have \\G, by which it is said where it is looked for";
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const Lowered& one) { return one.rest != nullptr; }),
            1002);
  EXPECT_EQ(same, 28876u);
}

TEST(Signatures, WithExpressionsForHostsAtTheEdgesAreDecidedAsBySuricata) {
  u32 same = 0;
  EXPECT_EQ(differences("expressions.rules",
                        {"expressions.pcap", "edges.pcap", "dns-edges.pcap", "dns-random.pcap"}, same),
            (Causes{{"beyond the limit on steps", 4}}));
  EXPECT_EQ(signatures_of("expressions.rules").size(), 60u) << "one has \\G";
  EXPECT_EQ(same, 18405u);
}

TEST(Signatures, AreSoManyOfTheRealRules) {
  u32 decided = 0, in_streams = 0;
  std::map<std::string, u32> not_yet;
  for (const auto& rule : loaded_of("real.rules").rules) {
    in_streams += lower(rule, Streams::with_answers).signature.has_value();
    const auto lowered = lower(rule);
    EXPECT_NE(lowered.signature.has_value(), !lowered.not_yet.empty()) << where(rule.place);
    decided += lowered.signature.has_value();
    for (const auto& one : lowered.not_yet) not_yet[one.keyword]++;
  }
  EXPECT_EQ(decided, 139u);
  EXPECT_EQ(in_streams, 1542u) << "where these are followed";
  EXPECT_FALSE(not_yet.contains("flow"));
  EXPECT_EQ(not_yet.at("http"), 66u);
  EXPECT_EQ(not_yet.at("http.uri"), 201u);
  EXPECT_EQ(not_yet.at("pcre"), 326u) << "hosts match what devices do not, but in streams";
  EXPECT_FALSE(not_yet.contains("threshold")) << "none of them drops";
}

TEST(Signatures, RefusesOfDnsWhatSuricataDoes) {
  std::set<u32> theirs, ours;
  for (const auto& [rules, sid] : alerts().refused)
    if (rules == "dns-edges.rules") theirs.insert(sid);
  for (const auto& one : loaded_of("dns-edges.rules").wrong)
    ours.insert(one.place.line - 1);  // a line of comment stands in front
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(ours.size(), 8u);
}

TEST(Signatures, RefusesOfSetsWhatSuricataDoes) {
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
TEST(Signatures, LooksNamesUpInSetsThatDoNotChange) {
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

// Metadata stand in memory that others write: whatever they say, nothing beyond the packet is read.
TEST(Signatures, StayWithinThePacket) {
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

}  // namespace
}  // namespace xdpgpu::rules
