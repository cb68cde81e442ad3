// SPDX-License-Identifier: MIT
//
// Rules in Suricata's language: what Suricata 7.0.10 makes of real rule files, which analysis.txt has
// (tests/data/rules/analyse), and what is refused, by which words.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "userspace/compiler/rules/load.hpp"

namespace xdpgpu::rules {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path kData = XDPGPU_SOURCE_DIR "/tests/data/rules";

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<RuleFile> real_rules() {
  std::vector<RuleFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(kData))
    if (entry.path().extension() == ".rules")
      files.push_back({entry.path().filename(), content_of(entry.path())});
  return files;
}

std::string rule_with(const std::string& options, const std::string& protocol = "tcp") {
  return fmt::format("alert {} any any -> any any ({} sid:1;)", protocol, options);
}
Result<Rule> parsed(const std::string& text) {
  return parse_rule({text, {"test.rules", 1}}, usual_variables());
}
std::string why_wrong(const std::string& text) {
  const auto rule = parsed(text);
  return rule ? "it is taken" : rule.error();
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

// ---- real rules --------------------------------------------------------------------------------------

TEST(Rules, OfRealFilesAreWhatSuricataHas) {
  const auto loaded = load_rules(real_rules(), usual_variables(),
                                 parse_classes({"c", content_of(kData / "classification.config")}).value());
  for (const auto& one : loaded.wrong)
    ADD_FAILURE() << one.place.file << ":" << one.place.line << ": " << one.why;
  std::map<u32, const Rule*> ours;
  for (const auto& rule : loaded.rules) ours[rule.sid] = &rule;
  std::istringstream analysis(content_of(kData / "analysis.txt"));
  std::size_t count = 0;
  for (std::string line; std::getline(analysis, line); count++) {
    const auto theirs = split(line, '\t');
    ASSERT_EQ(theirs.size(), 5u) << line;
    const auto found = ours.find(static_cast<u32>(std::stoul(theirs[0])));
    ASSERT_NE(found, ours.end()) << line;
    const Rule& rule = *found->second;
    // Suricata calls a datagram's payload both a packet's and a stream's.
    const bool has_streams = layer_of(rule.header.protocol) != Layer::udp &&
                             layer_of(rule.header.protocol) != Layer::icmp && rule.header.protocol != "dns";
    if (has_streams || theirs[1] != "pkt_stream") {
      EXPECT_EQ(name_of(rule.type), theirs[1]) << line;
    }
    std::set<std::string> buffers;
    for (const auto& buffer : rule.buffers) buffers.insert(buffer.name);
    EXPECT_EQ(fmt::format("{}", fmt::join(buffers, ",")), theirs[2]) << line;
    std::string buffer, bytes;
    if (rule.fast_pattern) {
      buffer = rule.buffers[rule.fast_pattern->buffer].name;
      bytes =
          std::get<Content>(rule.buffers[rule.fast_pattern->buffer].matches[rule.fast_pattern->match]).bytes;
    }
    EXPECT_EQ(buffer, theirs[3]) << line;
    EXPECT_EQ(bytes, theirs[4].empty() ? "" : parse_pattern(theirs[4]).value()) << line;
  }
  EXPECT_EQ(count, ours.size());
  EXPECT_GT(count, 2000u);
}

// At the edges of what each option may say: what Suricata takes is taken, and what it refuses is refused, but
// for these.
TEST(Rules, AtTheEdgesAreTakenAsBySuricata) {
  const std::map<u32, std::string> others{{1072, "a content of no bytes"},
                                          {1073, "a content of no bytes"},
                                          {1200, "a number of no bytes"},
                                          {1201, "a number of no bytes"},
                                          {1248, "a number of no bytes"},
                                          {1249, "a number of no bytes"},
                                          {1256, "a number of five bytes of 32 bits"},
                                          {1257, "a number of five bytes of 32 bits"},
                                          {1258, "a division by 0"},
                                          {1259, "a division by 0"},
                                          {1274, "two bits set at once"},
                                          {1275, "two bits set at once"},
                                          {1390, "nothing to prefilter by"},
                                          {1391, "nothing to prefilter by"},
                                          {1411, "a TLS version in HTTP"},
                                          {1412, "that Suricata has no GeoIP"},
                                          {1413, "that Suricata has no GeoIP"},
                                          {1414, "that Suricata has no Lua"},
                                          {1415, "that Suricata has no Lua"},
                                          {1416, "that Suricata has no Lua"},
                                          {1417, "that Suricata has no Lua"},
                                          {5008, "what is left out of what is left out"},
                                          {5044, "a protocol that is off by default"},
                                          {5066, "no address of IPv4"}};
  std::set<u32> theirs;
  std::istringstream analysis(content_of(kData / "edges-analysis.txt"));
  for (std::string line; std::getline(analysis, line);) theirs.insert(static_cast<u32>(std::stoul(line)));
  EXPECT_GT(theirs.size(), 300u);
  std::size_t count = 0;
  for (const auto& text : rule_texts(content_of(kData / "edges.txt"), "edges.txt")) {
    const auto sid = static_cast<u32>(std::stoul(text.text.substr(text.text.rfind("sid:") + 4)));
    const auto rule = parse_rule(text, usual_variables());
    EXPECT_EQ(rule.has_value() == theirs.contains(sid), !others.contains(sid))
        << text.text << ": " << (rule ? "it is taken" : rule.error())
        << (theirs.contains(sid) ? "" : ", and Suricata refuses it");
    count++;
  }
  EXPECT_GT(count, 450u);
}

// ---- text --------------------------------------------------------------------------------------------

TEST(Rules, OfSeveralLinesAreOne) {
  const auto rules = rule_texts(
      "# a comment\n"
      "\n"
      "  alert tcp any any -> any any (msg:\"one\"; sid:1;)\n"
      "alert tcp any any \\\n"
      "  -> any any \\\r\n"
      "  (msg:\"two\"; sid:2;)\n"
      "#alert tcp any any -> any any (sid:3;)\n"
      "alert tcp any any -> any any (sid:4;)",
      "a.rules");
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].place.line, 3u);
  EXPECT_EQ(rules[1].place.line, 4u);
  EXPECT_EQ(rules[2].place.line, 8u);
  EXPECT_EQ(parse_rule(rules[1], {}).value().msg, "two");
}

TEST(Rules, HaveTheirOptions) {
  const auto rule =
      parsed(
          R"(drop http $HOME_NET any <> any [80,8000:8080] (msg:"a \"b\"\; c"; flow:established,to_server; )"
          R"(http.uri; content:"/A|2f 20|b"; nocase; startswith; content:!"x"; distance:-3; within:20; )"
          R"(http.header; to_lowercase; content:"Host|3a|"; fast_pattern; threshold:type both, track by_src, count 5, seconds 60; )"
          R"(reference:url,example.org/a,b; metadata:one 1, two 2; classtype:web; priority:4; gid:7; sid:9; rev:3;))")
          .value();
  EXPECT_EQ(rule.header.action, Action::drop);
  EXPECT_TRUE(rule.header.both_ways);
  EXPECT_EQ(rule.msg, "a \"b\"; c");
  EXPECT_TRUE(rule.flow.established && rule.flow.to_server && !rule.flow.to_client);
  EXPECT_EQ(rule.gid, 7u);
  EXPECT_EQ(rule.sid, 9u);
  EXPECT_EQ(rule.rev, 3u);
  EXPECT_EQ(rule.priority, 4);
  EXPECT_EQ(rule.classtype, "web");
  EXPECT_THAT(rule.metadata, ElementsAre("one 1", "two 2"));
  ASSERT_EQ(rule.references.size(), 1u);
  EXPECT_EQ(rule.references[0], std::pair(std::string("url"), std::string("example.org/a,b")));
  ASSERT_TRUE(rule.threshold);
  EXPECT_EQ(rule.threshold->type, Threshold::Type::both);
  EXPECT_EQ(rule.threshold->count, 5u);
  EXPECT_EQ(rule.threshold->seconds, 60u);
  ASSERT_EQ(rule.buffers.size(), 2u);
  const auto& uri = rule.buffers[0];
  EXPECT_EQ(uri.name, "http_uri");
  ASSERT_EQ(uri.matches.size(), 2u);
  const auto& first = std::get<Content>(uri.matches[0]);
  EXPECT_EQ(first.bytes, "/a/ b");
  EXPECT_TRUE(first.nocase && first.starts_with && !first.negated);
  const auto& second = std::get<Content>(uri.matches[1]);
  EXPECT_TRUE(second.negated);
  EXPECT_EQ(std::get<std::int32_t>(*second.distance), -3);
  EXPECT_EQ(std::get<std::int32_t>(*second.within), 20);
  EXPECT_THAT(rule.buffers[1].transforms, ElementsAre("to_lowercase"));
  ASSERT_TRUE(rule.fast_pattern);
  EXPECT_EQ(rule.fast_pattern->buffer, 1u);
  EXPECT_EQ(rule.type, Type::application);
}

TEST(Rules, OfOldNameTheBufferBehindTheContent) {
  const auto rule =
      parsed(
          rule_with(
              R"(content:"/a"; http_uri; content:"POST"; http_method; nocase; uricontent:"b"; content:"c"; pcre:"/x/Ui";)",
              "http"))
          .value();
  std::map<std::string, std::size_t> counts;
  for (const auto& buffer : rule.buffers) counts[buffer.name] = buffer.matches.size();
  EXPECT_EQ(counts,
            (std::map<std::string, std::size_t>{{"http_uri", 3}, {"http_method", 1}, {"payload", 1}}));
}

TEST(Rules, AskForEachNameOfADnsMessageByItself) {
  const auto rule =
      parsed(
          rule_with(R"(dns.query; content:"a"; nocase; dns.query; dotprefix; content:".b"; dns.opcode:!4;)",
                    "dns"))
          .value();
  ASSERT_EQ(rule.buffers.size(), 2u);
  EXPECT_EQ(rule.buffers[0].name, "dns_query");
  EXPECT_TRUE(rule.buffers[0].transforms.empty());
  EXPECT_TRUE(std::get<Content>(rule.buffers[0].matches.at(0)).nocase);
  EXPECT_EQ(rule.buffers[1].name, "dns_query");
  EXPECT_THAT(rule.buffers[1].transforms, ElementsAre("dotprefix"));
  const auto& operation = std::get<Exactly>(rule.conditions.at(0).value);
  EXPECT_TRUE(operation.negated);
  EXPECT_EQ(operation.value, 4u);
  // Behind a content a transform begins another.
  EXPECT_EQ(
      parsed(rule_with(R"(dns.query; content:"a"; dotprefix; content:".b";)", "dns")).value().buffers.size(),
      2u);
}

TEST(Rules, PatternsAreBytes) {
  EXPECT_EQ(parse_pattern("a|00 0D|b|3a3B|").value(), std::string("a\0\rb:;", 6));
  EXPECT_EQ(parse_pattern("\\\\\\\"\\;\\:").value(), "\\\";:");
  for (const auto& [text, why] : std::map<std::string, std::string>{{"|0|", "half a byte"},
                                                                    {"|0g|", "hexadecimal"},
                                                                    {"|00", "not closed"},
                                                                    {"\\a", "backslash"},
                                                                    {"a\\", "backslash"},
                                                                    {"\"", "quote"},
                                                                    {"", "empty"},
                                                                    {"||", "empty"}})
    EXPECT_THAT(parse_pattern(text).error(), HasSubstr(why)) << text;
  std::string all;
  for (int i = 0; i < 256; i++) all += static_cast<char>(i);
  EXPECT_EQ(parse_pattern(pattern_text(all)).value(), all);
}

// ---- headers -----------------------------------------------------------------------------------------

AddressRange range(const std::string& text) { return parse_addresses(text, {}).value().in.at(0); }

TEST(RuleHeaders, NameGroups) {
  const Variables variables{
      {"HOME", "[10.0.0.0/8,2001:db8::/32]"}, {"OUT", "!$HOME"}, {"PORTS", "[80,8000:8080,!8008]"}};
  const auto home = parse_addresses("[$HOME,192.0.2.1-192.0.2.9,!10.1.0.0/255.255.0.0]", variables).value();
  EXPECT_FALSE(home.any);
  EXPECT_THAT(home.in, ElementsAre(range("10.0.0.0-10.255.255.255"),
                                   range("2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
                                   range("192.0.2.1-192.0.2.9")));
  EXPECT_THAT(home.out, ElementsAre(range("10.1.0.0/16")));
  const auto out = parse_addresses("$OUT", variables).value();
  EXPECT_TRUE(!out.any && out.in.empty());
  EXPECT_EQ(out.out.size(), 2u);
  const auto in_again = parse_addresses("!$OUT", variables).value();
  EXPECT_FALSE(in_again.any);
  EXPECT_EQ(in_again.in.size(), 2u);
  const auto ports = parse_ports("$PORTS", variables).value();
  EXPECT_THAT(ports.in, ElementsAre(PortRange{80, 80}, PortRange{8000, 8080}));
  EXPECT_THAT(ports.out, ElementsAre(PortRange{8008, 8008}));
  EXPECT_EQ(parse_ports(":1023", {}).value().in.at(0), (PortRange{0, 1023}));
  EXPECT_EQ(parse_ports("1024:", {}).value().in.at(0), (PortRange{1024, 65535}));
  EXPECT_TRUE(parse_ports("any", {}).value().any);
  EXPECT_TRUE(parse_ports("any", {}).value().unasked);
  EXPECT_FALSE(parse_ports("[any]", {}).value().unasked);
}

TEST(RuleHeaders, ThatAreWrongAreRefused) {
  const Variables variables{
      {"SELF", "[$OTHER]"}, {"OTHER", "[$SELF]"}, {"MIXED", "[10.0.0.0/8,!10.1.0.0/16]"}};
  for (const auto& [text, why] :
       std::map<std::string, std::string>{{"10.0.0.0/33", "none of addresses"},
                                          {"10.0.0.256", "none of addresses"},
                                          {"10.0.0.9-10.0.0.1", "none of addresses"},
                                          {"10.0.0.0/255.0.255.0", "none of addresses"},
                                          {"[10.0.0.0/8,]", "one is missing"},
                                          {"[10.0.0.0/8", "bracket"},
                                          {"!any", "leaves no addresses"},
                                          {"!$MIXED", "leaves something out"},
                                          {"$NOWHERE", "is not set"},
                                          {"$SELF", "names itself"}})
    EXPECT_THAT(parse_addresses(text, variables).error(), HasSubstr(why)) << text;
  for (const char* const text : {"65536", "9:1", ":", "a", "-1"})
    EXPECT_THAT(parse_ports(text, {}).error(), HasSubstr("none of ports")) << text;
  EXPECT_THAT(parse_addresses(std::string(40, '!') + "10.0.0.1", {}).error(), HasSubstr("nested"));
  EXPECT_THAT(why_wrong("alert tcp any any any any (sid:1;)"), HasSubstr("6 parts"));
  EXPECT_THAT(why_wrong("shout tcp any any -> any any (sid:1;)"), HasSubstr("no action"));
  EXPECT_THAT(why_wrong("alert tcpx any any -> any any (sid:1;)"), HasSubstr("no protocol"));
  EXPECT_THAT(why_wrong("alert tcp any any <- any any (sid:1;)"), HasSubstr("no direction"));
  EXPECT_THAT(why_wrong("alert tcp any any -> any any"), HasSubstr("brackets"));
  EXPECT_THAT(why_wrong("alert tcp [any any -> any any (sid:1;)"), HasSubstr("bracket"));
  EXPECT_THAT(why_wrong(rule_with("content:\"" + std::string(9000, 'a') + "\";")),
              HasSubstr("more than 8191"));
}

// ---- options -----------------------------------------------------------------------------------------

TEST(RuleOptions, ThatAreWrongAreRefused) {
  for (const auto& [options, why] : std::vector<std::pair<std::string, std::string>>{
           {"nonsense:1;", "no keyword \"nonsense\""},
           {"msg:\"a\"", "stands in quotes"},
           {"content;", "needs a value"},
           {"content:;", "no value"},
           {"content:\"a\"; nocase:1;", "takes no value"},
           {"content:a;", "stands in quotes"},
           {"nocase;", "no content in front"},
           {"http_uri;", "no content in front"},
           {"content:\"a\"; depth:0;", "less than its content's"},
           {"content:\"abc\"; within:2;", "less than its content's"},
           {"content:\"a\"; offset:1; distance:1;", "from the buffer's start"},
           {"content:\"a\"; startswith; offset:1;", "startswith"},
           {"content:\"a\"; depth:70000;", "neither a number"},
           {"content:\"a\"; depth:1; depth:2;", "already"},
           {"content:\"a\"; fast_pattern; content:\"b\"; fast_pattern;", "two fast patterns"},
           {"content:\"abc\"; fast_pattern:2,2;", "within its content"},
           {"content:\"abc\"; offset:1; fast_pattern:only;", "anywhere"},
           {"flow:sideways;", "flow has no"},
           {"flow:to_client; dns.query; content:\"a\";", "go to the server"},
           {"http.uri; content:\"a\"; ttl:9;", "beside what single packets have"},
           {"dns.query; content:\"a\"; flow:no_stream;", "beside what single packets have"},
           {"dns.query; dotprefix; content:\"a\"; dotprefix;", "behind a content"},
           {"dataset:isset,a,type string;", "about a buffer that is named"},
           {"ip.src; content:\"a\"; dataset:isset,a,type ipv4,load a.lst;", "about a buffer that is named"},
           {"dns.query; dataset:is,a;", "none of isset"},
           {"dns.query; dataset:isset;", "no name"},
           {"dns.query; dataset:isset,a b,type string;", "no name, or one with spaces"},
           {"dns.query; dataset:isset,a,type;", "no value for \"type\""},
           {"dns.query; dataset:isset,a,type text;", "no type \"text\""},
           {"dns.query; dataset:isset,a,type string,load b,load c;", "\"load\" twice"},
           {"dns.query; dataset:isset,a,type string,load b,state c;", "\"state\" beside"},
           {"dns.opcode:256;", "no number up to 255"},
           {"flow:to_server,to_client;", "to the server and to the client"},
           {"flow:established,stateless;", "one of"},
           {"threshold:type both, track by_src, count 5;", "needs type"},
           {"threshold:type both, track by_src, count 0, seconds 1;", "no count"},
           {"threshold:type often, track by_src, count 1, seconds 1;", "no type"},
           {"detection_filter:track by_src, count 1, seconds 1; threshold:type both, track by_src, count 1, "
            "seconds 1;",
            "already"},
           {"detection_filter:track by_rule, count 1, seconds 1;", "no track"},
           {"threshold:type both, track by_flow, count 1, seconds 1;", "no track"},
           {"pcre:\"a\";", "slashes"},
           {"pcre:\"/a/q\";", "no letter 'q'"},
           {"pcre:\"/a/UH\";", "one too many"},
           {"pcre:\"/(a/\";", "missing closing parenthesis"},
           {"pcre:\"/a/,file:b\";", "keeps nothing in"},
           {"pcre:\"/" + std::string(200, '(') + std::string(200, ')') + "/\";",
            "parentheses are too deeply nested"},
           {"pcre:\"/((((((((a{1,99}){1,99}){1,99}){1,9}){1,9}){1,9}){1,9}){1,9})/\";", "pcre"},
           {"rev:-1;", "no number"},
           {"reference:url;", "no system and a value"},
           {"target:both;", "neither"},
           {"dotprefix;", "behind the buffer"},
           {"http.uri; xor:\"0\"; content:\"a\";", "hexadecimal"},
           {"ssl_version:!tls1.3,tls1.2;", "what are none"},
           {"dsize:65536;", "no number up to 65535"},
           {"dsize:9<>10;", "nor a range"},
           {"dsize:<0;", "nor a range"},
           {"ttl:256;", "no number up to 255"},
           {"itype:a;", "no number"},
           {"icmp_id:65536;", "no number up to 65535"},
           {"seq:4294967296;", "no number"},
           {"flags:X;", "none of FSRPAUEC"},
           {"flags:S,A,F;", "none of FSRPAUEC"},
           {"fragbits:X;", "none of M, D and R"},
           {"fragbits:+;", "none of M, D and R"},
           {"ipopts:all;", "ipopts has no"},
           {"byte_test:4,>,1;", "needs bytes"},
           {"byte_test:9,>,1,0;", "more than 8"},
           {"byte_test:0,>,1,0;", "has no bytes"},
           {"byte_test:4,~,1,0;", "no bytes, operator"},
           {"byte_test:4,>,1,0,upwards;", "byte_test has no"},
           {"byte_jump:4,0,from_beginning,from_end;", "from the end"},
           {"byte_jump:4,0,multiplier 0;", "byte_jump has no"},
           {"byte_extract:4,0;", "no bytes, offset and variable"},
           {"byte_extract:4,0,1st;", "no bytes, offset and variable"},
           {"byte_math:bytes 4,offset 0,oper /,rvalue 0,result r;", "divides by 0"},
           {"byte_math:bytes 4,offset 0,oper +,rvalue 1;", "has no bytes, offset, oper"},
           {"isdataat:a b;", "no offset"},
           {"isdataat:4,absolute;", "isdataat has no"},
           {"flowbits:set;", "has no name"},
           {"flowbits:sets,a;", "flowbits has no"},
           {"flowbits:set,a|b;", "one name"},
           {"xbits:set,a,track ip_src,expire 0;", "xbits has no \"expire 0\""},
           {"hostbits:set,a,both;", "hostbits has no"},
           {"flowbits:noalert,a;", "takes no name"},
           {"xbits:set,a,track ip_all;", "xbits has no"},
           {"stream_size:client,5;", "no side, operator"},
           {"urilen:5,cooked;", "no length"},
           {"app-layer-protocol:dns,exact;", "no protocol"}})
    EXPECT_THAT(why_wrong(rule_with(options)), HasSubstr(why)) << options;
  EXPECT_THAT(why_wrong("alert tcp any any -> any any (msg:\"a\";)"), HasSubstr("no sid"));
  for (const char* const number : {"256", "nonsense"})
    EXPECT_THAT(why_wrong(rule_with(fmt::format("ip_proto:{};", number), "ip")), HasSubstr("no protocol"));
  EXPECT_THAT(why_wrong("alert tcp any any -> any any (sid:1)"), HasSubstr("semicolon"));
}

// What an option asks for.
template <class T>
T value_of(const std::string& option) {
  // What byte_test and byte_math name; a relative pcre has a match in front of it.
  const bool names = option.starts_with("byte_test:1,=,size") || option.starts_with("byte_math");
  const std::string before = names                           ? "byte_extract:1,0,size; byte_extract:1,0,len; "
                             : option.starts_with("pcre")    ? "content:\"a\"; "
                             : option.starts_with("dataset") ? "http.uri; "
                                                             : "";
  const auto rule = parsed(rule_with(before + option + ";", option.starts_with("ip_proto") ? "ip" : "tcp"));
  if (!rule) throw std::runtime_error(option + ": " + rule.error());
  if (!rule->conditions.empty()) return std::get<T>(rule->conditions.at(0).value);
  return std::get<T>(std::get<Condition>(rule->buffers.at(0).matches.back()).value);
}

TEST(RuleOptions, AreValues) {
  EXPECT_EQ(value_of<Range>("dsize:9"), (Range{9, 9}));
  EXPECT_EQ(value_of<Range>("dsize:!9"), (Range{9, 9, true}));
  EXPECT_EQ(value_of<Range>("dsize:<9"), (Range{0, 8}));
  EXPECT_EQ(value_of<Range>("dsize:>=9"), (Range{9, 65535}));
  EXPECT_EQ(value_of<Range>("dsize:3<>9"), (Range{4, 8}));
  EXPECT_EQ(value_of<Range>("ttl:3-9"), (Range{4, 8}));
  EXPECT_EQ(value_of<IpProtocol>("ip_proto:!UDP").numbers, (Range{17, 17, true}));
  EXPECT_EQ(value_of<IpProtocol>("ip_proto:>103").numbers, (Range{104, 255}));
  const auto flags = value_of<TcpFlags>("flags:+SA,12");
  EXPECT_EQ(flags.mode, TcpFlags::Mode::all);
  EXPECT_EQ(flags.flags, 0x12);
  EXPECT_EQ(flags.mask, 0x3f);
  EXPECT_EQ(value_of<TcpFlags>("tcp.flags:0").flags, 0);
  EXPECT_TRUE(value_of<FragmentBits>("fragbits:!D").dont);
  const auto test = value_of<ByteTest>("byte_test:4, !&, 0x80, -2, relative, little, bitmask 0xff00");
  EXPECT_EQ(test.number.bytes, 4u);
  EXPECT_TRUE(test.negated && test.number.relative && test.number.little_endian);
  EXPECT_EQ(test.op, ByteTest::Op::and_);
  EXPECT_EQ(std::get<std::int64_t>(test.value), 0x80);
  EXPECT_EQ(std::get<std::int64_t>(test.number.offset), -2);
  EXPECT_EQ(test.number.mask, 0xff00u);
  EXPECT_EQ(value_of<ByteTest>("byte_test:0,>,450,0,string,dec").number.digits, Digits::dec);
  EXPECT_EQ(value_of<ByteTest>("byte_test:4,>,450,0,string").number.digits, Digits::any);
  EXPECT_EQ(std::get<std::string>(value_of<ByteTest>("byte_test:1,=,size,0").value), "size");
  const auto jump =
      value_of<ByteJump>("byte_jump:2,1,relative,multiplier 4,align,from_beginning,post_offset -3");
  EXPECT_EQ(jump.multiplier, 4u);
  EXPECT_TRUE(jump.align && jump.from_beginning && jump.number.relative);
  EXPECT_EQ(std::get<std::int64_t>(jump.post_offset), -3);
  const auto extract = value_of<ByteExtract>("byte_extract:3,1,len,string,hex,align 4");
  EXPECT_EQ(extract.variable, "len");
  EXPECT_EQ(extract.align, 4u);
  EXPECT_EQ(extract.number.digits, Digits::hex);
  const auto math = value_of<ByteMath>(
      "byte_math:bytes 2, offset 1, oper <<, rvalue len, result sum, relative, endian little");
  EXPECT_EQ(math.op, '<');
  EXPECT_EQ(std::get<std::string>(math.right), "len");
  EXPECT_EQ(math.variable, "sum");
  EXPECT_TRUE(math.number.little_endian && math.number.relative);
  const auto at = value_of<DataAt>("isdataat:!10,relative");
  EXPECT_TRUE(at.negated && at.relative);
  const auto bits = value_of<Bits>("flowbits:isset,a|b");
  EXPECT_EQ(bits.what, gpu::RuleBits::What::is_set);
  EXPECT_THAT(bits.names, ElementsAre("a", "b"));
  const auto xbits = value_of<Bits>("xbits:set,a,track ip_dst,expire 60");
  EXPECT_EQ(xbits.on, gpu::RuleBits::On::destination);
  EXPECT_EQ(xbits.seconds, 60u);
  const auto dataset = value_of<Dataset>("dataset: isnotset , a,  type string, memcap 1gb,load b c.lst");
  EXPECT_EQ(dataset.what, Dataset::Do::is_not_set);
  EXPECT_EQ(dataset.name, "a");
  EXPECT_EQ(dataset.type, "string");
  EXPECT_EQ(dataset.load, "b c.lst");
  EXPECT_EQ(dataset.save, "");
  const auto state = value_of<Dataset>("dataset:set,a,type md5,state b");
  EXPECT_EQ(state.load, "b");
  EXPECT_EQ(state.save, "b");
  EXPECT_EQ(value_of<StreamSize>("stream_size:server,<,6").bytes, (Range{0, 5}));
  EXPECT_TRUE(value_of<UriLength>("urilen:>10,raw").raw);
  EXPECT_EQ(value_of<Exactly>("tos:x10").value, 0x10u);
  EXPECT_EQ(value_of<Exactly>("window:!55808").value, 55808u);
}

TEST(RuleOptions, AreRegularExpressions) {
  const auto regex = [](const std::string& text) { return value_of<Regex>("pcre:" + text); };
  const auto one = regex(R"(!"/^a\/b/smiR")");
  EXPECT_EQ(one.pattern, "^a\\/b");
  EXPECT_TRUE(one.negated && one.relative && !one.irregular);
  EXPECT_THAT(regex(R"("/(\d+)/, flow:size")").captures, ElementsAre("flow:size"));
  EXPECT_EQ(parsed(rule_with(R"(pcre:"/a/U";)", "http")).value().buffers.at(0).name, "http_uri");
  for (const char* const text : {R"((a)\1)", "a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(?>a*)b", "a*+b",
                                 "a++b", "a?+b", "a{2}+b", R"((?P<n>a)(?P=n))", "(a)(?1)", "(?R)?a"})
    EXPECT_TRUE(regex(fmt::format("\"/{}/\"", text)).irregular) << text;
  for (const char* const text :
       {"a+?b", "(?:a|b)+", "(?i)a", R"([(?=\1*+]a)", "[^]a]b", R"(\?+)", R"(a\x41\d)", "(?P<n>a)"})
    EXPECT_FALSE(regex(fmt::format("\"/{}/\"", text)).irregular) << text;
}

TEST(RuleOptions, TheFastPatternIsTheLongestThatHasToBeThere) {
  const auto fast = [](const std::string& options, const std::string& protocol = "tcp") {
    const auto rule = parsed(rule_with(options, protocol)).value();
    const auto& buffer = rule.buffers.at(rule.fast_pattern->buffer);
    return buffer.name + " " + std::get<Content>(buffer.matches.at(rule.fast_pattern->match)).bytes;
  };
  EXPECT_EQ(fast(R"(content:"ab"; content:"abcd"; content:!"abcdefgh"; content:"abc";)"), "payload abcd");
  EXPECT_EQ(fast(R"(content:"aaaa"; content:"abcd";)"), "payload abcd") << "its bytes differ";
  EXPECT_EQ(fast(R"(content:"abcd"; content:"|02 03 04 05|";)"), "payload \x02\x03\x04\x05")
      << "they are rarer";
  EXPECT_EQ(fast(R"(content:!"ab"; content:!"abc";)"), "payload abc") << "there is no other";
  EXPECT_EQ(fast(R"(content:"abcdefgh"; http.uri; content:"abc";)", "http"), "http_uri abc")
      << "an application's part";
  EXPECT_EQ(fast(R"(content:"a"; fast_pattern; content:"abcdefgh";)"), "payload a") << "it says so";
  EXPECT_FALSE(parsed(rule_with("flags:S;")).value().fast_pattern);
}

TEST(RuleOptions, SayWhatARuleIsAbout) {
  for (const auto& [options, protocol, type] : std::vector<std::tuple<std::string, std::string, Type>>{
           {"", "ip", Type::ip_only},
           {"threshold:type limit, track by_src, count 1, seconds 1;", "tcp", Type::ip_only},
           {"flags:S;", "tcp", Type::packet},
           {"content:\"a\";", "udp", Type::packet},
           {"content:\"a\";", "tcp", Type::stream},
           {"content:\"a\"; depth:9;", "tcp", Type::both},
           {"content:\"a\"; startswith;", "tcp", Type::both},
           {"content:\"a\"; dsize:<9;", "tcp", Type::packet},
           {"content:\"a\"; depth:9;", "tcp-pkt", Type::packet},
           {"content:\"a\"; depth:9;", "tcp-stream", Type::stream},
           {"content:\"a\"; flow:only_stream;", "tcp", Type::stream},
           {"content:\"a\"; flow:no_stream;", "tcp", Type::packet},
           {"content:\"a\";", "ip", Type::stream},
           {"dns.query; content:\"a\";", "dns", Type::application}})
    EXPECT_EQ(parsed(rule_with(options, protocol)).value().type, type) << protocol << " " << options;
}

// ---- files -------------------------------------------------------------------------------------------

TEST(RuleFiles, EachRuleIsTakenOrNamed) {
  const std::string one = "alert tcp any any -> any any (msg:\"{}\"; classtype:{}; sid:{}; rev:{};)\n";
  const auto line = [&](const char* msg, const char* type, u32 sid, u32 rev) {
    return fmt::format(fmt::runtime(one), msg, type, sid, rev);
  };
  const auto classes =
      parse_classes({"classes", "# c\nconfig classification: bad,Something Bad, 1\n"}).value();
  const auto loaded =
      load_rules({{"a", line("a1", "bad", 1, 1) + line("a2", "other", 2, 2) + "alert tcp\n"},
                  {"b", line("b1", "bad", 1, 2) + line("b2", "bad", 2, 2) + line("b3", "", 3, 1)}},
                 usual_variables(), classes);
  ASSERT_EQ(loaded.rules.size(), 2u);
  EXPECT_EQ(loaded.rules[0].msg, "b1");
  EXPECT_EQ(loaded.rules[0].priority, 1);
  EXPECT_EQ(loaded.rules[1].msg, "a2");
  EXPECT_EQ(loaded.rules[1].priority, 3);
  ASSERT_EQ(loaded.wrong.size(), 3u);
  EXPECT_EQ(loaded.wrong[0].place.line, 3u);
  EXPECT_THAT(loaded.wrong[1].why, HasSubstr("there already, with revision 2 (a:2)"));
  EXPECT_THAT(loaded.wrong[2].why, HasSubstr("no value"));
  ASSERT_EQ(loaded.notes.size(), 2u);
  EXPECT_THAT(loaded.notes[0].why, HasSubstr("revision 2 of it counts (b:1)"));
  EXPECT_THAT(loaded.notes[1].why, HasSubstr("no classification has \"other\""));
  for (const char* const text :
       {"config classification: a,b\n", "config classification: a,b,0\n", "classification: a,b,1\n"})
    EXPECT_THAT(parse_classes({"c", text}).error(), HasSubstr("c:1")) << text;
}

// ---- what an operator says beside them -----------------------------------------------------------------

// The sids that are enabled, with their actions and messages.
std::vector<std::string> chosen(const std::string& disable, const std::string& enable,
                                const std::string& modify, const std::string& drop) {
  const std::vector<RuleFile> files{
      {"rules/emerging-a.rules",
       "alert tcp any any -> any any (msg:\"one\"; metadata:tag x, deployment Perimeter; sid:1;)\n"
       "alert tcp any any -> any any (msg:\"two\"; flowbits:noalert; sid:2;)\n"
       "# alert tcp any any -> any any (msg:\"three\"; sid:3;)\n"
       "# a comment that says alert, and sid:4\n"},
      {"rules/b.rules", "alert tcp any any -> any any (msg:\"five $1\"; gid:3; sid:5;)\n"}};
  const Selection selection{parse_matchers({"d", disable}).value(), parse_matchers({"e", enable}).value(),
                            parse_matchers({"p", drop}).value(), parse_modifications({"m", modify}).value()};
  const auto loaded = load_rules(files, usual_variables(), {}, selection);
  EXPECT_TRUE(loaded.wrong.empty()) << loaded.wrong[0].why;
  std::vector<std::string> all;
  for (const auto& rule : loaded.rules)
    all.push_back(fmt::format("{} {} {}", rule.sid, name_of(rule.header.action), rule.msg));
  return all;
}

TEST(RuleSelections, SayWhichCount) {
  EXPECT_THAT(chosen("", "", "", ""), ElementsAre("1 alert one", "2 alert two", "5 alert five $1"));
  EXPECT_THAT(chosen("1\n3:5 # not this one\n", "", "", ""), ElementsAre("2 alert two"));
  EXPECT_THAT(chosen("5\n", "", "", ""), ElementsAre("1 alert one", "2 alert two", "5 alert five $1"))
      << "it is of another gid";
  EXPECT_THAT(chosen("re:.\n", "1:3\nmetadata: tag x\n", "", ""),
              ElementsAre("1 alert one", "3 alert three"));
  EXPECT_THAT(chosen("group:b.rules\n", "", "", ""), ElementsAre("1 alert one", "2 alert two"));
  EXPECT_THAT(chosen("group:emerging-a\n", "", "", ""), ElementsAre("5 alert five $1"));
  EXPECT_THAT(chosen("filename:*/emerging-*.rules\n", "", "", ""), ElementsAre("5 alert five $1"));
  EXPECT_THAT(chosen("", "", "", "re:.\n"), ElementsAre("1 drop one", "2 alert two", "5 drop five $1"))
      << "2 only remembers";
  EXPECT_THAT(chosen("", "", "re:. \"msg:.(\\w+)\" \"msg:\\\"\\1 of $2\"\n", ""),
              ElementsAre("1 alert one of $2", "2 alert two of $2", "5 alert five of $2 $1"));
}

TEST(RuleSelections, ThatAreWrongNameTheirLine) {
  for (const auto& [text, why] : std::map<std::string, std::string>{{"\nx\n", "d:2: \"x\" is no sid"},
                                                                    {"re:(\n", "d:1: pcre"},
                                                                    {"group:\n", "names no file"},
                                                                    {"metadata:\n", "names no metadata"},
                                                                    {"1:2:3\n", "is no sid"},
                                                                    {"-1\n", "is no sid"}})
    EXPECT_THAT(parse_matchers({"d", text}).error(), HasSubstr(why)) << text;
  for (const char* const text :
       {"1\n", "1 \"a\"\n", "1 \"a\" \"b\n", "1 \"a\" b\n", "\"a\" \"b\"\n", "1 \"(\" \"b\"\n"})
    EXPECT_THAT(parse_modifications({"m", text}).error(), HasSubstr("m:1: ")) << text;
}

// An expression that takes for ever ends, and a text that grows does, too.
TEST(RuleSelections, TakeNoLongerThanTheyMay) {
  const auto slow = TextRegex::make("(a+)+$").value();
  EXPECT_THAT(slow.is_in(std::string(4000, 'a') + "b").error(), HasSubstr("takes too long"));
  // A rule is not left as it is because nobody could tell whether it was meant.
  const RuleText rule{rule_with("msg:\"" + std::string(4000, 'a') + "b\";"), {"r", 1}};
  const auto matchers = parse_matchers({"d", "re:(a+)+$\n"}).value();
  for (const Selection& selection :
       {Selection{matchers, {}, {}, {}}, Selection{{}, matchers, {}, {}}, Selection{{}, {}, matchers, {}}})
    EXPECT_THAT(selected(rule, selection).error(), HasSubstr("takes too long"));
  EXPECT_THAT(slow.replaced(std::string(4000, 'a') + "b", "c").error(), HasSubstr("takes too long"));
  EXPECT_THAT(TextRegex::make("a").value().replaced(std::string(4000, 'a'), "bbbbbb").error(),
              HasSubstr("too long"));
  EXPECT_THAT(TextRegex::make("a").value().replaced("a", "\\7").error(), HasSubstr("no such group"));
}

TEST(RuleLimits, AreReadFromOutsideOfRules) {
  const auto limits =
      parse_limits({"t",
                    "# a comment\n"
                    "threshold gen_id 1, sig_id 2002087, type both, track by_src, count 3, seconds 5\n"
                    "suppress gen_id 1, sig_id 0\n"
                    "suppress gen_id 1, sig_id 7, track by_either, ip $HERE\n"
                    "rate_filter gen_id 1, sig_id 9, track by_rule, count 100, seconds 60, new_action drop, "
                    "timeout 30\n"
                    "event_filter gen_id 0, sig_id 0, type limit, track by_rule, count 1, seconds 1\n"},
                   {{"HERE", "[10.0.0.0/8,!10.1.0.0/16]"}})
          .value();
  ASSERT_EQ(limits.size(), 5u);
  EXPECT_EQ(limits[4].what, Limit::What::threshold);
  EXPECT_EQ(limits[0].threshold.type, Threshold::Type::both);
  EXPECT_EQ(limits[0].threshold.count, 3u);
  EXPECT_EQ(limits[0].place.line, 2u);
  EXPECT_EQ(limits[1].whose, gpu::Suppression::Whose::anybody);
  EXPECT_EQ(limits[2].whose, gpu::Suppression::Whose::either);
  EXPECT_EQ(limits[2].addresses.out.size(), 1u);
  EXPECT_EQ(limits[3].new_action, Action::drop);
  EXPECT_EQ(limits[3].timeout, 30u);
  for (const auto& [text, why] : std::map<std::string, std::string>{
           {"thresh gen_id 1", "begins with none"},
           {"suppress gen_id 1", "has no sig_id"},
           {"suppress gen_id 1, sig_id 2, track by_src", "has no ip"},
           {"threshold gen_id 1, sig_id 2, type both, track by_src, count 0, seconds 1", "count 0"},
           {"threshold gen_id 1, sig_id 2, track by_src, count 1, seconds 1", "has no type"},
           {"suppress gen_id 1, sig_id 2, track by_src, ip 10.0.0.0/33", "none of addresses"},
           {"suppress gen_id 1, sig_id 2, track by_src, ip [10.0.0.0/8,!10.1.0.0/16]",
            "from variables alone"},
           {"suppress gen_id 1, sig_id 2, track by_both, ip 10.0.0.1", "track by_both"},
           {"threshold gen_id 1, sig_id 2, type both, track by_either, count 1, seconds 1",
            "track by_either"},
           {"suppress gen_id 0, sig_id 2", "no gen_id"},
           {"rate_filter gen_id 1, sig_id 2, track by_src, count 1, seconds 1, new_action shout, timeout 1",
            "new_action shout"}})
    EXPECT_THAT(parse_limits({"t", text}, {}).error(), testing::AllOf(HasSubstr("t:1: "), HasSubstr(why)))
        << text;
}

}  // namespace
}  // namespace xdpgpu::rules
