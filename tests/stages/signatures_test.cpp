// SPDX-License-Identifier: MIT
//
// `signatures` by hand, on every device: what becomes of a packet, what is told of it, and where its work
// ends.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "gpu/reference/signature.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

namespace sig = gpu::signatures;
using gpu::PipelineSettings;
using gpu::SignaturesSettings;
using Bytes = std::vector<u8>;

sig::Addresses any_address() {
  sig::Address v4{}, v6{};
  std::fill_n(v4.begin(), 4, u8{0xff});
  v6.fill(0xff);
  return {{{sig::Address{}, v4}}, {{sig::Address{}, v6}}};
}
void put(Bytes& to, std::initializer_list<u32> bytes) {
  for (const u32 byte : bytes) to.push_back(static_cast<u8>(byte));
}
void put16(Bytes& to, u32 value) { put(to, {value >> 8, value}); }

gpu::RateLimitSettings limit() {
  gpu::RateLimitSettings settings;
  settings.packets_per_second = 1000;
  settings.burst_packets = 5;
  settings.table.entries = 64;
  return settings;
}

SignaturesSettings with(std::vector<sig::Signature> rules) {
  SignaturesSettings settings;
  settings.work = gpu::kMostSoftwareWork;  // that all devices take
  settings.rules.signatures = std::make_shared<const std::vector<sig::Signature>>(std::move(rules));
  return settings;
}

class Signatures : public testing::TestWithParam<Target> {
 protected:
  // answers: those of batches of the last size.
  void check(const Traffic& traffic, const std::vector<PipelineSettings>& settings,
             std::initializer_list<u32> batches, Answers& answers) {
    const auto pipelines = gpu::Pipelines::compile(settings);
    ASSERT_TRUE(pipelines) << pipelines.error();
    XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
    auto queue = device->open_queue(GetParam().queue(1024 + 64, 3));
    ASSERT_TRUE(queue) << queue.error();
    const Answers should = expected(traffic, settings);
    for (const u32 batch : batches) {
      SCOPED_TRACE(fmt::format("{}, batches of {}, XDPGPU_TEST_SEED={}", device->info().description, batch,
                               test_seed()));
      ASSERT_TRUE(device->load(kGeneration, *pipelines));
      answers = judge(**queue, traffic.descriptors, batch, kGeneration);
      expect_equal(answers, should, traffic.descriptors);
      // Its tables go with it.
      device->unload(kGeneration);
      if (HasFailure()) return;
    }
  }
  // Software Vulkan takes less than the other devices.
  static bool takes(u32 work) { return work <= gpu::kMostSoftwareWork || GetParam().kind != "vulkan"; }
  void check(const Traffic& traffic, const std::vector<PipelineSettings>& settings,
             std::initializer_list<u32> batches) {
    Answers answers;
    check(traffic, settings, batches, answers);
  }
};

Bytes datagram(const std::string& payload, u8 port = 80) {
  Bytes frame(12, 2);
  put(frame, {8, 0, 0x45, 0});
  put16(frame, 28 + static_cast<u32>(payload.size()));
  put(frame, {0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 9, 0, port});
  put16(frame, 8 + static_cast<u32>(payload.size()));
  put16(frame, 0);
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

sig::Signature rule_for(const std::string& content, sig::Action action = sig::Action::alert) {
  sig::Signature rule;
  rule.action = action;
  rule.header.protocols.set();
  rule.header.src = rule.header.dst = any_address();
  sig::Content wanted;
  wanted.bytes = content;
  rule.payload.push_back(wanted);
  rule.fast_pattern = sig::FastPattern{0, 0, static_cast<u32>(content.size())};
  return rule;
}

// Random rules, as the conformance suite has them, behind one table and behind two.
TEST_P(Signatures, StandBehindTables) {
  Random random(test_seed());
  for (const ConformanceCase& with_none : conformance_cases()) {
    if (with_none.name != "signatures" && with_none.name != "dns_signatures") continue;
    for (const std::size_t tables : {1u, 2u}) {
      std::vector<PipelineSettings> settings = with_none.pipelines(random);
      std::erase_if(settings, [](const PipelineSettings& one) { return one.inner; });
      for (PipelineSettings& pipeline : settings)
        pipeline.stages.insert(pipeline.stages.begin(), tables, gpu::StageSettings(limit()));
      check(with_none.traffic(random, 1200, static_cast<u32>(settings.size())), settings, {37, 1024});
    }
  }
}

TEST_P(Signatures, SayWhatBecomesOfAPacket) {
  std::vector<sig::Signature> rules{rule_for("fine", sig::Action::pass), rule_for("bad", sig::Action::drop),
                                    rule_for("worse", sig::Action::reject)};
  for (const char* const content : {"a", "ab", "abc", "abcd", "abcde", "bcde", "cde", "e"})
    rules.push_back(rule_for(content));
  struct Case {
    std::string payload;
    u32 action, rule;
    std::vector<u16> told;
    bool more = false;
  };
  for (const auto& [payload, action, rule, told, more] :
       {Case{"nothing", XG_PASS, 0, {}}, Case{"fine and bad", XG_PASS, 0, {}},
        Case{"so bad", XG_DROP, 2, {1, 3}}, Case{"worst, worse, bad", XG_DROP, 2, {1, 2, 3, 10}},
        Case{"worse", XG_DROP, 3, {2, 10}}, Case{"ABCDE", XG_PASS, 0, {}},
        Case{"xxabcdxx", XG_PASS, 0, {3, 4, 5, 6}}, Case{"abcde", XG_PASS, 0, {3, 4, 5, 6, 7, 8, 9}, true}}) {
    SCOPED_TRACE(payload);
    Answers answers;
    check(single_frame(datagram(payload), 0), {{"rules", {with(rules)}}}, {1}, answers);
    if (IsSkipped() || HasFailure()) return;
    const Answer& answer = answers.at(0);
    EXPECT_EQ(XG_VERDICT_ACTION(answer.verdict), action);
    EXPECT_EQ(XG_VERDICT_RULE(answer.verdict), rule);
    EXPECT_EQ(XG_VERDICT_STAGE(answer.verdict), action == XG_DROP ? 1u : 0u);
    EXPECT_EQ((answer.flags & XG_RES_ALERTS) != 0, !told.empty());
    EXPECT_EQ(answer.alerts.count, told.size() | (more ? XG_ALERTS_MORE : 0));
    for (std::size_t i = 0; i < told.size(); i++) EXPECT_EQ(answer.alerts.rules[i], told[i]);
  }
}

// Of 1,400 bytes each place is one at which the first content stands, and the second nearly does.
sig::Signature dear_rule() {
  sig::Signature rule = rule_for("a");
  std::get<sig::Content>(rule.payload[0]).tried_again = true;
  sig::Content second;
  second.bytes = "aaaaab";
  second.distance = sig::Amount{0, {}};
  rule.payload.push_back(second);
  return rule;
}

TEST_P(Signatures, EndWhereAPacketTakesMoreWorkThanItMay) {
  const std::string payload(1400, 'a');
  for (const u32 work : {256u, gpu::kMostSoftwareWork, 1000u, gpu::kMostWork})
    for (const auto limit : {gpu::Action::drop, gpu::Action::pass}) {
      SCOPED_TRACE(work);
      if (!takes(work)) continue;
      SignaturesSettings settings = with({dear_rule(), rule_for("aa")});
      settings.work = work;
      settings.limit = limit;
      Answers answers;
      check(single_frame(datagram(payload), 0), {{"rules", {settings}}}, {1}, answers);
      if (IsSkipped() || HasFailure()) return;
      EXPECT_EQ(XG_VERDICT_ACTION(answers.at(0).verdict), limit == gpu::Action::drop ? XG_DROP : XG_PASS);
      EXPECT_EQ(XG_VERDICT_RULE(answers.at(0).verdict), 3u);
      EXPECT_EQ(answers.at(0).flags & XG_RES_ALERTS, 0u);
    }
}

// An automaton that keeps all of its positions as long as it may: each byte takes as much work as one can.
sig::Regex dear_regex(u32 count, bool branches) {
  sig::Regex regex;
  regex.sets = {sig::Bytes().set('a'), sig::Bytes().set('b')};
  regex.positions.assign(count, 0);
  regex.positions.back() = 1;
  regex.follow.resize(count);
  for (u32 i = 0; i < count; i++) {
    if (i + 1 < count) regex.follow[i].set(i + 1);
    if (branches) regex.follow[i].set(i == 0 ? count - 1 : 0);
    regex.first.set(i);
  }
  regex.again.set(0);
  regex.last.set(count - 1);
  return regex;
}

// Up to the byte with which the work is done, and one more.
TEST_P(Signatures, ReadSoManyBytesForARegularExpressionAndNoMore) {
  constexpr u32 kBytes = 1400;
  for (const bool branches : {false, true})
    for (const u32 count : {2u, 32u, 33u, sig::kMostPositions}) {
      sig::Signature rule = rule_for("b");
      const sig::Regex regex = dear_regex(count, branches);
      rule.payload = {regex};
      rule.fast_pattern.reset();
      const auto payload = [](u32 bytes) { return std::string(bytes, 'a') + 'b'; };
      const auto work = [&](u32 bytes) {
        const std::string text = payload(bytes);
        u64 taken = 1;
        EXPECT_TRUE(
            gpu::reference::is_in(regex, {reinterpret_cast<const u8*>(text.data()), text.size()}, taken));
        return taken;
      };
      for (const u32 most : {256u, gpu::kMostSoftwareWork, gpu::kMostWork}) {
        if (!takes(most)) continue;
        SCOPED_TRACE(fmt::format("{} positions, branches {}, work {}", count, branches, most));
        u32 bytes = 0;
        for (u32 step = 1024; step != 0; step /= 2)
          if (bytes + step <= kBytes && work(bytes + step) <= most) bytes += step;
        SignaturesSettings settings = with({rule});
        settings.work = most;
        settings.limit = gpu::Action::drop;
        for (const u32 more : {0u, 1u}) {
          Answers answers;
          check(single_frame(datagram(payload(bytes + more)), 0), {{"rules", {settings}}}, {1}, answers);
          if (IsSkipped() || HasFailure()) return;
          const bool over = work(bytes + more) > most;
          EXPECT_EQ(over, more != 0 && bytes < kBytes);
          EXPECT_EQ(XG_VERDICT_ACTION(answers.at(0).verdict), over ? XG_DROP : XG_PASS);
          EXPECT_EQ(answers.at(0).alerts.count, over ? 0u : 1u);
        }
      }
    }
}

TEST_P(Signatures, TakeSoManyPatternsInAPacketAndNoMore) {
  std::vector<sig::Signature> rules;
  std::string payload;
  for (u32 i = 0; i <= sig::kMostPatterns; i++) {
    rules.push_back(rule_for(fmt::format("p{:02}.", i)));
    payload += fmt::format("p{:02}.", i);
  }
  for (const bool all : {false, true}) {
    SCOPED_TRACE(all);
    Answers answers;
    check(single_frame(datagram(all ? payload : payload.substr(4) + payload.substr(4)), 0),
          {{"rules", {with(rules)}}}, {1}, answers);
    if (IsSkipped() || HasFailure()) return;
    EXPECT_EQ(XG_VERDICT_ACTION(answers.at(0).verdict), all ? XG_DROP : XG_PASS);
    EXPECT_EQ(answers.at(0).alerts.count, all ? 0u : XG_MAX_ALERTS | XG_ALERTS_MORE);
  }
}

// ---- DNS -------------------------------------------------------------------------------------------------

constexpr u32 kQuery = 0x0100, kAnswer = 0x8180, kNotify = 0x2000;

std::string number(u32 value) { return {static_cast<char>(value >> 8), static_cast<char>(value)}; }
std::string in_labels(const std::string& name) {
  std::string text;
  for (std::size_t at = 0, end = 0; at < name.size(); at = end + 1) {
    end = std::min(name.find('.', at), name.size());
    text += static_cast<char>(end - at) + name.substr(at, end - at);
  }
  return text + '\0';
}
std::string header(u32 flags, u32 questions, u32 answers = 0) {
  return number(7) + number(flags) + number(questions) + number(answers) + number(0) + number(0);
}
std::string question(const std::string& labels) { return labels + number(1) + number(1); }
std::string asks(const std::vector<std::string>& names, u32 flags = kQuery) {
  std::string message = header(flags, static_cast<u32>(names.size()));
  for (const std::string& name : names) message += question(in_labels(name));
  return message;
}

sig::Dns for_messages(bool queries, bool answers) {
  sig::Dns dns;
  dns.queries = queries;
  dns.answers = answers;
  return dns;
}
sig::Dns for_operation(u8 operation) {
  sig::Dns dns;
  dns.operations.push_back({operation, false});
  return dns;
}
sig::Dns for_name(sig::NameIs name) {
  sig::Dns dns;
  dns.names.push_back(std::move(name));
  return dns;
}
sig::Signature rule_for_dns(sig::Dns dns, sig::Action action = sig::Action::drop) {
  sig::Signature rule;
  rule.action = action;
  rule.header.protocols.set(17);
  rule.header.src = rule.header.dst = any_address();
  rule.dns = std::move(dns);
  return rule;
}
// The name, with a dot in front where it is to be a domain with all that is beneath.
sig::Signature rule_for_name(const std::string& name, bool nocase = false) {
  sig::Content wanted;
  wanted.bytes = name;
  wanted.nocase = nocase;
  wanted.ends = true;
  sig::NameIs is;
  is.dot_prefix = name[0] == '.';
  if (!is.dot_prefix) is.sizes.push_back({{static_cast<u32>(name.size()), static_cast<u32>(name.size())}});
  is.steps.push_back(wanted);
  sig::Signature rule = rule_for_dns(for_name(is));
  rule.fast_pattern = sig::FastPattern{0, 0, static_cast<u32>(name.size()), 1};
  return rule;
}

TEST_P(Signatures, ReadDnsMessages) {
  sig::Content absent;
  absent.bytes = "a";
  absent.negated = true;
  sig::NameIs without;
  without.steps.push_back(absent);
  // 1 and 2: names; 3: an operation; 4: answers; 5: a name without an "a".
  const std::vector<sig::Signature> rules{
      rule_for_name(".bad.example", true), rule_for_name("worse.example"), rule_for_dns(for_operation(4)),
      rule_for_dns(for_messages(false, true)), rule_for_dns(for_name(without))};
  constexpr u32 kBody = 12;
  const auto to = [](u32 place) { return number(0xc000 + place); };
  const std::string chain = question("\1a" + to(kBody + 8)) + in_labels("BAD.example");
  struct Case {
    std::string what, message;
    u32 rule;
    u8 port = 53;
  };
  for (const auto& [what, message, rule, port] : {
           Case{"the domain", asks({"bad.example"}), 1},
           Case{"beneath it", asks({"www.bad.example"}), 1},
           Case{"in other letters", asks({"a.BAD.eXample"}), 1},
           Case{"another one that ends so", asks({"notbad.example"}), 0},
           Case{"in front of others", asks({"bad.example.org"}), 0},
           Case{"the name", asks({"worse.example"}), 2},
           Case{"beneath that", asks({"a.worse.example"}), 0},
           Case{"in letters that count", asks({"Worse.example"}), 0},
           Case{"the second of two", asks({"a.example", "bad.example"}), 1},
           Case{"both, the first rule counts", asks({"worse.example", "bad.example"}), 1},
           Case{"behind the root", asks({"", "bad.example"}), 0},
           Case{"by a pointer", header(kQuery, 1) + chain, 1},
           Case{"a pointer to itself", header(kQuery, 1) + question(to(kBody)), 0},
           Case{"an answer", asks({"bad.example"}, kAnswer), 4},
           Case{"an operation", asks({"a.example"}, kNotify), 3},
           Case{"another name's", asks({"b.c"}), 5},
           Case{"not whole", asks({"bad.example"}).substr(0, 27), 0},
           Case{"more questions than it says", header(kQuery, 1) + question(in_labels("a")) + "bad.example",
                0},
           Case{"to another port", asks({"bad.example"}), 0, 54},
       }) {
    SCOPED_TRACE(what);
    Answers answers;
    check(single_frame(datagram(message, port), 0), {{"rules", {with(rules)}}}, {1}, answers);
    if (IsSkipped() || HasFailure()) return;
    EXPECT_EQ(XG_VERDICT_ACTION(answers.at(0).verdict), rule != 0 ? XG_DROP : XG_PASS);
    EXPECT_EQ(XG_VERDICT_RULE(answers.at(0).verdict), rule);
  }
}

TEST_P(Signatures, LookForPatternsOfNamesInNamesAndForOthersInPayloads) {
  // ".bad" stands in no payload, and "\3bad" in no name.
  const std::vector<sig::Signature> rules{rule_for_name(".bad"), rule_for("\3bad"), rule_for(".bad")};
  Answers answers;
  check(single_frame(datagram(asks({"www.bad"}), 53), 0), {{"rules", {with(rules)}}}, {1}, answers);
  if (IsSkipped() || HasFailure()) return;
  EXPECT_EQ(answers.at(0).alerts.count, 2u);
  EXPECT_EQ(answers.at(0).alerts.rules[0], 0u);
  EXPECT_EQ(answers.at(0).alerts.rules[1], 1u);
  check(single_frame(datagram(".bad", 53), 0), {{"rules", {with(rules)}}}, {1}, answers);
  EXPECT_EQ(answers.at(0).alerts.count, 1u);
  EXPECT_EQ(answers.at(0).alerts.rules[0], 2u);
}

sig::SharedStrings strings(const std::vector<std::string>& all, u32 others = 0) {
  const auto made = std::make_shared<sig::StringSet>();
  for (u32 i = 0; i < others / 2; i++) made->add(fmt::format("n{}.example", i));
  for (const std::string& one : all) made->add(one);
  for (u32 i = others / 2; i < others; i++) made->add(fmt::format("n{}.example", i));
  return {made};
}
sig::Signature rule_for_sets(std::vector<sig::InSet> sets, bool dot_prefix = false) {
  sig::NameIs is;
  is.dot_prefix = dot_prefix;
  is.sets = std::move(sets);
  return rule_for_dns(for_name(is));
}

TEST_P(Signatures, LookNamesUpInSets) {
  const std::string binary("\0\xff\0", 3), eight = "12345.de", longest(253, 'x');
  const sig::SharedStrings some = strings({"bad.example", "BAD.example", binary, eight, "12345678.example",
                                           "", longest.substr(0, 63), "bad.example"},
                                          20'000),
                           dotted = strings({".worse.example"}), none = strings({});
  // 1: in a set; 2: in another, with a dot in front; 3: one of `some` that `dotted` has not; 4: none of
  // three.
  const std::vector<sig::Signature> rules{
      rule_for_sets({{some}}), rule_for_sets({{dotted}, {none, true}}, true),
      rule_for_sets({{strings({"odd.example", "even.example"})}, {strings({"odd.example"}), true}}),
      rule_for_sets(
          {{some, true}, {dotted, true}, {strings({"odd.example", "worse", "a", "ba.example"}), true}})};
  struct Case {
    std::string name;
    u32 rule;
  };
  for (const auto& [name, rule] : {Case{"bad.example", 1},
                                   Case{"BAD.example", 1},
                                   Case{"Bad.example", 4},
                                   Case{"bad.exampl", 4},
                                   Case{"bad.example.a", 4},
                                   Case{"ad.example", 4},
                                   Case{binary, 1},
                                   Case{binary.substr(0, 2), 4},
                                   Case{binary + std::string(1, '\0'), 4},
                                   Case{eight, 1},
                                   Case{"12345678.example", 1},
                                   Case{longest.substr(0, 63), 1},
                                   Case{longest.substr(0, 62), 4},
                                   Case{"worse.example", 2},
                                   Case{"odd.example", 0},
                                   Case{"even.example", 3},
                                   Case{"worse", 0},
                                   Case{"a", 0},
                                   Case{"ba.example", 0},
                                   Case{"n0.example", 1},
                                   Case{"n9999.example", 1},
                                   Case{"n19999.example", 1},
                                   Case{"n20000.example", 4},
                                   Case{"n00.example", 4}}) {
    SCOPED_TRACE(name);
    Answers answers;
    check(single_frame(datagram(asks({name}), 53), 0), {{"rules", {with(rules)}}}, {1}, answers);
    if (IsSkipped() || HasFailure()) return;
    EXPECT_EQ(XG_VERDICT_RULE(answers.at(0).verdict), rule);
  }
}

// A name of 299 bytes costs 1 + 19 for each set that it is looked up in.
TEST_P(Signatures, LookNamesUpAsOftenAsTheyMay) {
  const sig::SharedStrings none = strings({"a"});
  const std::string label(59, 'a'), name = label + "." + label + "." + label + "." + label + "." + label;
  for (const u32 count : {12u, 13u}) {
    std::vector<sig::Signature> rules;
    for (u32 i = 0; i < count; i++) rules.push_back(rule_for_sets({{none}}));
    SignaturesSettings settings = with(rules);
    settings.work = 256;
    Answers answers;
    check(single_frame(datagram(asks({name}), 53), 0), {{"rules", {settings}}}, {1}, answers);
    if (IsSkipped() || HasFailure()) return;
    EXPECT_EQ(XG_VERDICT_RULE(answers.at(0).verdict), count * 20 > 256 ? count + 1 : 0u);
  }
}

TEST_P(Signatures, LeaveNoMessageUnseenThatIsBeyondWhatTheyRead) {
  const std::string label(63, 'a');
  const std::string longest = label + "." + label + "." + label + "." + std::string(61, 'a');
  const auto chain = [](u32 records) {
    // Each record's name is 255 labels, behind the records.
    std::string message = header(kAnswer, 0, records);
    const u32 behind = 12 + records * 13;
    for (u32 i = 0; i < records; i++)
      message += number(0xc000 + behind) + number(1) + number(1) + std::string(4, '\0') + number(1) + "x";
    for (u32 i = 0; i < 255; i++) message += "\1a";
    return message + '\0';
  };
  const sig::Signature name = rule_for_name("b"), query = rule_for_dns(for_messages(true, false)),
                       operation = rule_for_dns(for_operation(4)), other = rule_for("b");
  struct Case {
    std::string what, message;
    std::vector<sig::Signature> rules;
    bool is_beyond;
  };
  for (const auto& [what, message, rules, is_beyond] : {
           Case{"a name of 253 bytes", asks({longest}), {name}, false},
           Case{"as many bytes as there may be",
                asks({longest, std::string(32, 'a') + "." + std::string(32, 'a')}),
                {name},
                false},
           Case{"and one more",
                asks({longest, std::string(33, 'a') + "." + std::string(32, 'a')}),
                {name},
                true},
           Case{"four names", asks({"a", "a", "a", "a"}), {name}, false},
           Case{"five names", asks({"a", "a", "a", "a", "a"}), {name}, true},
           Case{"five names that no rule asks for", asks({"a", "a", "a", "a", "a"}), {operation}, false},
           Case{"five names that nobody reads", asks({"a", "a", "a", "a", "a"}), {other}, false},
           Case{"five names of an answer", asks({"a", "a", "a", "a", "a"}, kAnswer), {name}, false},
           Case{
               "five names that are not whole", asks({"a", "a", "a", "a", "a"}).substr(0, 45), {name}, false},
           Case{"an answer that is long to read", chain(9), {operation}, true},
           Case{"one that is not as long", chain(7), {operation}, false},
           Case{"one that nobody reads", chain(9), {name, query}, false},
       }) {
    SCOPED_TRACE(what);
    Answers answers;
    check(single_frame(datagram(message, 53), 0), {{"rules", {with(rules)}}}, {1}, answers);
    if (IsSkipped() || HasFailure()) return;
    EXPECT_EQ(XG_VERDICT_RULE(answers.at(0).verdict), is_beyond ? rules.size() + 1 : 0);
    EXPECT_EQ(XG_VERDICT_ACTION(answers.at(0).verdict), is_beyond ? XG_DROP : XG_PASS);
    EXPECT_EQ(answers.at(0).flags & XG_RES_ALERTS, 0u);
  }
}

// Of the steps with the most loops in them for one of work: numbers in text, contents that are tried again,
// and contents that are nowhere.
TEST_P(Signatures, AreAllFoundHoweverDearOneOfThemIs) {
  const auto again = [](const std::string& bytes) {
    sig::Signature rule = rule_for(bytes);
    std::get<sig::Content>(rule.payload[0]).tried_again = true;
    return rule;
  };
  const auto test = [](u8 bytes, std::optional<u8> base) {
    sig::ByteTest made;
    made.number.bytes = bytes;
    made.number.base = base;
    made.number.relative = true;
    made.value = sig::Amount{12345};
    return made;
  };
  sig::Signature texts = again("1"), numbers = again("a"), looks = rule_for("a");
  texts.payload.emplace_back(test(19, 10));
  numbers.payload.emplace_back(test(4, std::nullopt));
  for (int i = 0; i < 4; i++) {
    sig::Content nowhere;
    nowhere.bytes = "zz";
    nowhere.negated = true;
    looks.payload.emplace_back(nowhere);
  }
  sig::Content last;
  last.bytes = "q";
  looks.payload.emplace_back(last);
  for (const auto& [rule, payload] : {std::pair(texts, std::string(220, '1')),
                                      {numbers, std::string(220, 'a')},
                                      {looks, "a" + std::string(1300, '.')}}) {
    Answers answers;
    check(single_frame(datagram(payload + "b"), 0), {{"rules", {with({rule, rule_for("b")})}}}, {1}, answers);
    if (IsSkipped() || HasFailure()) return;
    EXPECT_NE(answers.at(0).flags & XG_RES_ALERTS, 0u) << "it is within what a packet may take";
  }
}

TEST_P(Signatures, AreRefusedWhereADeviceWouldMissSome) {
  SignaturesSettings works = with({rule_for("a")}), follows = works;
  works.work = gpu::kMostSoftwareWork + 1;
  follows.work = gpu::kMostSoftwareWork;
  follows.streams = 8;
  follows.inspect.window = 4096 + 64;
  const auto traffic = single_frame(datagram("a"), 0);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  const bool is_less = device->info().kind == gpu::Kind::vulkan && device->info().software;
  for (const auto& [settings, said] : {std::pair{works, "takes a \"work\" of 512 at most"},
                                       std::pair{follows, "takes a \"window\" of 4096 bytes at most"}}) {
    const auto pipelines = gpu::Pipelines::compile({{"rules", {settings}}});
    ASSERT_TRUE(pipelines) << pipelines.error();
    const auto loaded = device->load(kGeneration, *pipelines);
    EXPECT_EQ(loaded.has_value(), !is_less);
    if (!loaded) {
      EXPECT_NE(loaded.error().find(said), std::string::npos) << loaded.error();
    }
    if (loaded) device->unload(kGeneration);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Signatures, testing::ValuesIn(all_targets()), target_name);

TEST(SignaturesPlace, IsBehindAllTablesAndNoOtherIsLikeIt) {
  const auto error_of = [](std::vector<gpu::StageSettings> stages) {
    const auto made = gpu::Pipelines::compile({{"p", std::move(stages)}});
    return made ? std::string() : made.error();
  };
  EXPECT_EQ(error_of({limit(), SignaturesSettings{}}), "");
  EXPECT_EQ(error_of({SignaturesSettings{}, gpu::L2fwdSettings{}, limit()}),
            "pipeline \"p\", stage 1 (signatures): stage 3 (rate_limit) behind it has a table, and would "
            "lose what it "
            "tells: put it behind that one");
  EXPECT_EQ(
      error_of({SignaturesSettings{}, SignaturesSettings{}}),
      "pipeline \"p\", stage 2 (signatures): stage 1 tells of rules, too, and one of a pipeline can: put all "
      "rules into one");
  using sig::Action;
  EXPECT_EQ(error_of({with({rule_for("a", Action::pass), rule_for("b"), rule_for("c", Action::drop),
                            rule_for("d"), rule_for("e", Action::reject), rule_for("f")})}),
            "");
  for (const auto& [first, second] :
       {std::pair(Action::alert, Action::pass), {Action::drop, Action::pass}, {Action::reject, Action::drop}})
    EXPECT_EQ(error_of({with({rule_for("a", first), rule_for("b"), rule_for("c", second)})}),
              "pipeline \"p\", stage 1 (signatures): its rules are not in order: those that pass come first, "
              "then those that drop, those that reject");
  EXPECT_EQ(error_of({with({rule_for(std::string(9000, 'a'))})}),
            "pipeline \"p\", stage 1 (signatures): its rule 1:0 has a step with a length, a mask, a "
            "variable or an automaton that no device takes");
}

TEST(SignaturesPlace, HasEachSetOnceHoweverManyRulesAskForIt) {
  const sig::SharedStrings many = strings({}, 3'000'000);
  const auto words_of = [](std::vector<sig::Signature> rules) {
    const auto made = gpu::Pipelines::compile({{"p", {with(std::move(rules))}}});
    return made ? made.value()->image().size() : 0;
  };
  const auto one = words_of({rule_for_sets({{many}})}),
             three = words_of({rule_for_sets({{many}}), rule_for_sets({{many, true}}),
                               rule_for_sets({{many}, {strings({"a"})}})});
  EXPECT_GE(one, 3'000'000u * 4 * 4 / 3);
  EXPECT_LT(one, 3'000'000u * 4 * 4 / 3 + 1000);
  EXPECT_LT(three, one + 1000);
}

TEST(SignaturesPlace, IsNotInMemoryThatNoDeviceHas) {
  // Of no bytes each: what the set takes goes by how many there are.
  const auto too_many = std::make_shared<sig::StringSet>();
  too_many->name = "all";
  too_many->ends.resize(26'000'000);
  const auto made = gpu::Pipelines::compile({{"p", {with({rule_for_sets({{{too_many}}})})}}});
  ASSERT_FALSE(made);
  EXPECT_EQ(
      made.error(),
      "pipeline \"p\", stage 1 (signatures): with the 26000000 strings of the set \"all\" its rules need "
      "528 MiB of a device's memory, 512 are possible: use fewer");
}

// Rules that have all that they are found by in common: "aaaa" is the only window of each.
TEST(SignaturesPlace, HasNoMorePatternsAtOnePlaceThanCanBeCompared) {
  const auto error_of = [](u32 count, bool in_names) {
    std::vector<sig::Signature> rules;
    for (u32 i = 0; i < count; i++) {
      const std::string bytes(4 + i, 'a');
      rules.push_back(in_names ? rule_for_name(bytes) : rule_for(bytes));
    }
    const auto made = gpu::Pipelines::compile({{"p", {with(std::move(rules))}}});
    return made ? std::string() : made.error();
  };
  for (const bool in_names : {false, true}) {
    EXPECT_EQ(error_of(gpu::kMostAlike, in_names), "");
    EXPECT_NE(
        error_of(gpu::kMostAlike + 1, in_names).find("65 of its rules' fast patterns have the same bytes"),
        std::string::npos)
        << error_of(gpu::kMostAlike + 1, in_names);
  }
}

}  // namespace
}  // namespace xdpgpu::tests
