// SPDX-License-Identifier: MIT
//
// What goes from the compiler to whoever ordered: the policy that comes out is the one that went in, whatever
// its stages; what has not changed is neither made nor sent again; and whatever stands in the memory between
// the two, it is read or refused.
#include "userspace/compiler/compiler.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <tuple>

#include "gpu/stage_code.hpp"
#include "tests/stages/program_object.hpp"
#include "tests/stages/stage_tests.hpp"
#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/kernel/descriptors.hpp"

namespace xdpgpu::compiler {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kPorts{"eth0", "eth1"};
constexpr std::array<u64, 2> kKey{0x0123456789abcdefull, 0xfedcba9876543210ull};

Target target(DownBackends down = {}) { return {kPorts, std::move(down), kKey}; }

kernel::Fd value_of(Result<kernel::Fd> memory) {
  if (!memory) throw std::runtime_error(memory.error());
  return std::move(*memory);
}

tl::expected<Answer, Refusal> ask(Compiler& compiler, const PolicySource& source, const Target& for_whom,
                                  const Artifacts& has = {}) {
  const auto answered = value_of(compiler.answer(value_of(write_order(source, for_whom, has))));
  auto read = read_answer(SealedMemory::map(answered, kMostAnswer).value());
  if (!read) throw std::runtime_error(read.error());
  return std::move(*read);
}

// As whoever orders puts it together.
CompiledPolicy assembled(const PolicySource& source, const Target& for_whom, const Answer& answer) {
  auto whole = assemble(source, outline(source).value(), for_whom, answer.recipe, answer.artifacts);
  if (!whole) throw std::runtime_error(whole.error());
  return std::move(*whole);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Rule files are for the compiler to read.
std::vector<policy::Pipeline> without_rules(std::vector<policy::Pipeline> pipelines) {
  for (auto& pipeline : pipelines)
    for (auto& stage : pipeline.stages)
      if (auto* rules = gpu::file_rules(stage)) {
        rules->signatures.reset();
        for (auto& file : rules->source.files) file.text.reset();
        for (auto* file : {&rules->source.classification, &rules->source.disable, &rules->source.enable,
                           &rules->source.modify, &rules->source.drop, &rules->source.threshold})
          file->text.reset();
      }
  return pipelines;
}

void expect_same(const CompiledPolicy& a, const CompiledPolicy& b) {
  EXPECT_EQ(a.policy.hash, b.policy.hash);
  EXPECT_EQ(policy::to_json(a.policy), policy::to_json(b.policy));
  EXPECT_EQ(a.policy.lists, b.policy.lists);
  EXPECT_EQ(without_rules(a.policy.pipelines), without_rules(b.policy.pipelines));
  EXPECT_EQ(std::memcmp(&a.tables.header, &b.tables.header, sizeof(xg_policy)), 0);
  EXPECT_EQ(bytes_of(a.tables.lines), bytes_of(b.tables.lines));
  EXPECT_EQ(bytes_of(a.tables.rows), bytes_of(b.tables.rows));
  EXPECT_EQ(a.tables.rule_names, b.tables.rule_names);
  EXPECT_EQ(a.pipelines->image(), b.pipelines->image());
  EXPECT_EQ(bytes_of(a.pipelines->rewrites()), bytes_of(b.pipelines->rewrites()));
  ASSERT_EQ(a.pipelines->states().size(), b.pipelines->states().size());
  for (std::size_t i = 0; i < a.pipelines->states().size(); i++) {
    EXPECT_EQ(a.pipelines->states()[i].identity, b.pipelines->states()[i].identity);
    EXPECT_EQ(a.pipelines->states()[i].words, b.pipelines->states()[i].words);
  }
  for (u32 p = 0; p < a.policy.pipelines.size(); p++)
    EXPECT_EQ(a.pipelines->payload_bytes(p), b.pipelines->payload_bytes(p));
  EXPECT_EQ(a.ports, b.ports);
  EXPECT_EQ(a.down, b.down);
}

// In this process alone.
CompiledPolicy direct(const PolicySource& source, const Target& for_whom) {
  auto policy = policy::parse(source.text, source.file, policy::read_files_in(source.files)).value();
  auto made = make_artifacts(source, policy, for_whom, {});
  if (!made) throw std::runtime_error(made.error().sentence);
  auto whole = assemble(source, std::move(policy), for_whom, made->recipe, made->artifacts);
  if (!whole) throw std::runtime_error(whole.error());
  return std::move(*whole);
}

// Each key, word and form of the stages' settings.
struct Policies {
  std::string name;
  PolicySource source;
  std::vector<std::string> values;  // the same with other values, each
};

std::string with_ports(std::string text) {
  for (const auto& [word, name] : {std::pair{"IF0", kPorts[0]}, std::pair{"IF1", kPorts[1]}})
    for (auto at = text.find(word); at != text.npos; at = text.find(word, at)) text.replace(at, 3, name);
  return text;
}

// As it is read where objects are (control::object_reader()), but in this process.
tl::expected<std::string, std::string> read_object(std::string_view object, const programs::Choice& which) {
  const auto program = programs::read_program(std::as_bytes(std::span(object)), which);
  if (!program) return tl::unexpected(program.error());
  return programs::to_bytes(*program);
}

// As the stages' cases name them.
const std::vector<programs::Choice> kChoices{
    {},
    {.name = "xdp"},
    {.name = "drop_udp_ports"},
    {.name = "first", .slots = {{"next", 2, "table"}}},
    {.name = "first", .slots = {{"next", 3, "last"}, {"next", 0, "first"}}}};
// Files as whoever reads a policy has them: of objects the programs alone.
policy::FileContents as_read(const std::map<std::string, std::string>& files) {
  policy::FileContents read;
  for (const auto& [name, content] : files) {
    if (!name.ends_with(".o")) {
      read.emplace(name, content);
      continue;
    }
    for (const programs::Choice& which : kChoices)
      if (const auto program = read_object(content, which))
        read.emplace(policy::program_key(name, which), *program);
  }
  return read;
}

std::vector<Policies> all_settings() {
  std::vector<Policies> all;
  for (const auto& stage : tests::stage_tests())
    for (const auto& one : stage.settings) {
      Policies made{one.name, {"p.json", with_ports(one.policy), as_read(stage.files)}, {}};
      made.source.files.emplace("list.txt", "203.0.113.0/24\n2001:db8:bad::/48\n");
      for (const auto& value : one.values) {
        Json other = Json::parse(one.policy);
        other[Json::json_pointer(value.pointer)] = Json::parse(value.given);
        made.values.push_back(with_ports(other.dump()));
      }
      all.push_back(std::move(made));
    }
  return all;
}

TEST(CompilerArtifacts, OfEachStageAndKeyAreWhatThePolicyIs) {
  Compiler compiler;
  std::size_t compared = 0;
  for (const Policies& one : all_settings()) {
    std::vector<std::string> texts{one.source.text};
    texts.insert(texts.end(), one.values.begin(), one.values.end());
    for (const auto& text : texts) {
      SCOPED_TRACE(one.name + ": " + text);
      const PolicySource source{"p.json", text, one.source.files};
      const auto answer = ask(compiler, source, target());
      ASSERT_TRUE(answer) << answer.error().sentence;
      expect_same(assembled(source, target(), *answer), direct(source, target()));
      compared++;
    }
  }
  EXPECT_GT(compared, 150u);
}

TEST(CompilerArtifacts, OfTheExamplesAreWhatThePolicyIs) {
  Compiler compiler;
  std::size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(XDPGPU_SOURCE_DIR "/config/examples")) {
    if (entry.path().extension() != ".json") continue;
    SCOPED_TRACE(entry.path());
    const auto source = read_policy(entry.path());
    ASSERT_TRUE(source) << source.error().sentence;
    Target for_whom = target();
    for_whom.ports = {"eth0"};
    const auto outlined = outline(*source);
    ASSERT_TRUE(outlined) << outlined.error().sentence;
    for (const auto& name : mentioned_ports(*outlined))
      if (name != "eth0") for_whom.ports.push_back(name);
    const auto answer = ask(compiler, *source, for_whom);
    ASSERT_TRUE(answer) << answer.error().sentence;
    expect_same(assembled(*source, for_whom, *answer), direct(*source, for_whom));
    compared++;
  }
  EXPECT_GT(compared, 8u);
}

// Their objects are what a user compiles.
void expect_program_example(const std::string& folder, const std::string& object, const std::string& bytes) {
  namespace fs = std::filesystem;
  const fs::path from = fs::path(XDPGPU_SOURCE_DIR "/config/examples") / folder;
  const fs::path to = fs::path(testing::TempDir()) / fmt::format("compiler_artifacts.{}", getpid());
  fs::create_directory(to);
  for (const auto& entry : fs::directory_iterator(from))
    if (entry.path().extension() == ".json") fs::copy_file(entry.path(), to / entry.path().filename());
  std::ofstream(to / object, std::ios::binary) << bytes;
  const auto source = read_policy(to / "policy.json", read_object);
  fs::remove_all(to);
  ASSERT_TRUE(source) << source.error().sentence;
  Compiler compiler;
  const auto answer = ask(compiler, *source, target());
  ASSERT_TRUE(answer) << answer.error().sentence;
  const auto whole = assembled(*source, target(), *answer);
  expect_same(whole, direct(*source, target()));
  EXPECT_FALSE(whole.policy.description.empty());
  EXPECT_FALSE(whole.policy.management.empty()) << "an example shows how not to lock oneself out";
  ASSERT_EQ(whole.policy.pipelines.size(), 1u);
  EXPECT_TRUE(gpu::program_of(whole.policy.pipelines[0].stages.at(0)));
}
TEST(CompilerArtifacts, OfTheExamplesWithAProgramAreWhatThePolicyIs) {
  expect_program_example("program", "udp_ports.bpf.o", tests::udp_ports_object());
  expect_program_example("balancer", "balancer.bpf.o", tests::balancer_object());
}

// The ids are all that tells one stage's code from another's: settings that are compiled into something else
// have another one.
TEST(CompilerArtifacts, AreFoundByAllThatTheyAreMadeOf) {
  std::map<ArtifactId, std::string> code_of;
  const auto add = [&](const PolicySource& source, const Target& for_whom) {
    const auto policy = policy::parse(source.text, source.file, policy::read_files_in(source.files)).value();
    const auto made = make_artifacts(source, policy, for_whom, {});
    ASSERT_TRUE(made) << made.error().sentence;
    for (const auto& pipeline : made->recipe.codes)
      for (const ArtifactId& id : pipeline) {
        const auto artifact = made->artifacts.find(id);
        if (artifact == made->artifacts.end()) continue;  // a program's: OfProgramsAreNobodysWord
        const auto& code = *std::get<gpu::CodePtr>(artifact->second);
        const std::string is = bytes_of(code.words) + bytes_of(code.rewrites) + bytes_of(code.pointers);
        const auto [known, fresh] = code_of.emplace(id, is);
        EXPECT_TRUE(fresh || known->second == is) << source.text;
      }
  };
  for (const Policies& one : all_settings()) {
    add(one.source, target());
    add(one.source, {{"eth1", "eth0"}, {}, kKey});
    add(one.source, {kPorts, {}, {kKey[1], kKey[0]}});
    for (const auto& text : one.values) add({"p.json", text, one.source.files}, target());
  }
  EXPECT_GT(code_of.size(), 100u);
}

// Ten lists, of which the first five are looked up in the kernel, the others by the device.
PolicySource ten_lists(u32 changed = 10) {
  PolicySource source{"p.json", {}, {}};
  Json policy{{"version", 1}, {"default", "drop"}, {"rules", Json::array()}};
  Json looked_up = Json::array();
  for (u32 i = 0; i < 10; i++) {
    const std::string name = fmt::format("list{}", i), file = name + ".txt";
    policy["lists"][name] = {{"file", file}};
    std::string content(5000, '#');
    content += fmt::format("\n10.{}.0.0/16\n", i);
    if (i == changed) content += "192.0.2.1\n";
    source.files[file] = content;
    if (i < 5)
      policy["rules"].push_back({{"name", name}, {"match", {{"src", "@" + name}}}, {"action", "pass"}});
    else
      looked_up.push_back({{"list", "@" + name}, {"action", "drop"}});
  }
  policy["rules"].push_back({{"name", "look"}, {"match", Json::object()}, {"action", {{"inspect", "p"}}}});
  policy["pipelines"]["p"] =
      Json::array({{{"stage", "reputation"}, {"lists", looked_up}},
                   {{"stage", "load_balance"},
                    {"health", {{"port", 80}}},
                    {"backends",
                     {{{"name", "a"}, {"mac", "02:00:00:00:00:01"}, {"address", "192.0.2.1"}},
                      {{"name", "b"}, {"mac", "02:00:00:00:00:02"}, {"address", "192.0.2.2"}}}}}});
  source.text = policy.dump();
  return source;
}

// By kind.
std::map<std::string, u32> kinds(const Artifacts& artifacts) {
  constexpr std::array kNames{"prefixes", "routes", "tables", "code"};
  std::map<std::string, u32> count;
  for (const auto& [id, artifact] : artifacts) count[kNames.at(artifact.index())]++;
  return count;
}
using Kinds = std::map<std::string, u32>;

TEST(CompilerArtifacts, ThatHaveNotChangedAreNotSentAgain) {
  Compiler compiler;
  const auto first = ask(compiler, ten_lists(), target());
  ASSERT_TRUE(first) << first.error().sentence;
  EXPECT_EQ(kinds(first->artifacts), (Kinds{{"prefixes", 10}, {"tables", 1}, {"code", 2}}));
  const auto again = ask(compiler, ten_lists(), target(), first->artifacts);
  EXPECT_EQ(again->recipe, first->recipe);
  EXPECT_TRUE(again->artifacts.empty());
  const auto for_rules = ask(compiler, ten_lists(2), target(), first->artifacts);
  EXPECT_EQ(kinds(for_rules->artifacts), (Kinds{{"prefixes", 1}, {"tables", 1}}));
  const auto for_stage = ask(compiler, ten_lists(7), target(), first->artifacts);
  EXPECT_EQ(kinds(for_stage->artifacts), (Kinds{{"prefixes", 1}, {"code", 1}}));
}

// Two lists of domains, too long for an outline, each looked up in a pipeline of its own.
PolicySource two_lists_of_names(const std::string& more = "") {
  PolicySource source{"p.json", {}, {}};
  Json policy{{"version", 1}};
  for (const char* name : {"one", "other"}) {
    const std::string file = fmt::format("{}.txt", name);
    policy["lists"][name] = {{"type", "domain"}, {"file", file}, {"subdomains", true}};
    policy["pipelines"][name] =
        Json::array({{{"stage", "domains"},
                      {"lists", Json::array({{{"list", fmt::format("@{}", name)}, {"action", "drop"}}})}}});
    for (u32 i = 0; i < 1000; i++) source.files[file] += fmt::format("{}{}.example\n", name, i);
  }
  source.files["one.txt"] += more;
  source.text = policy.dump();
  return source;
}

// Whoever orders gets no names: they are in the code.
TEST(CompilerArtifacts, OfListsOfDomainsAreTheirStagesCode) {
  Compiler compiler;
  const PolicySource source = two_lists_of_names();
  const auto first = ask(compiler, source, target());
  ASSERT_TRUE(first) << first.error().sentence;
  EXPECT_EQ(kinds(first->artifacts), (Kinds{{"tables", 1}, {"code", 2}}));
  const CompiledPolicy whole = assembled(source, target(), *first);
  EXPECT_EQ(whole.pipelines->image(), direct(source, target()).pipelines->image());
  for (const auto& [name, list] : whole.policy.lists) {
    EXPECT_TRUE(list.left_out) << name;
    EXPECT_EQ(list.names.count, 0u) << name;
  }
  const auto changed = ask(compiler, two_lists_of_names("a.test\n"), target(), first->artifacts);
  ASSERT_TRUE(changed) << changed.error().sentence;
  EXPECT_EQ(kinds(changed->artifacts), (Kinds{{"code", 1}}));
  EXPECT_EQ(changed->recipe.codes[1], first->recipe.codes[1]);
}

PolicySource two_of_rules(
    const std::string& second = "drop udp any any -> any any (content:\"b\"; sid:2;)\n") {
  return {"p.json",
          R"({"version": 1, "pipelines": {
              "one": [{"stage": "signatures", "rules": ["one/*.rules"], "classification": "classes",
                       "threshold": "limits"}],
              "two": [{"stage": "signatures", "rules": ["two/*.rules"], "classification": "classes"}]}})",
          {{"one/a.rules",
            "alert udp any any -> any any (msg:\"a\"; content:\"a\"; classtype:bad; sid:1; rev:5;)\n"
            "alert smb any any -> any any (smb.share; content:\"x\"; sid:3;)\n"},
           {"two/b.rules", second},
           {"classes", "config classification: bad,A bad thing,2\n"},
           {"limits",
            "threshold gen_id 1, sig_id 1, type both, track by_dst, count 7, seconds 60\n"
            "suppress gen_id 1, sig_id 1, track by_src, ip [192.0.2.0/24,2001:db8::1]\n"}}};
}

TEST(CompilerArtifacts, OfRuleFilesAreTheirStagesCodeWithWhatIsSaidOfEachRule) {
  Compiler compiler;
  const PolicySource source = two_of_rules();
  const auto first = ask(compiler, source, target());
  ASSERT_TRUE(first) << first.error().sentence;
  EXPECT_EQ(kinds(first->artifacts), (Kinds{{"tables", 1}, {"code", 2}}));
  const CompiledPolicy whole = assembled(source, target(), *first);
  EXPECT_EQ(whole.pipelines->image(), direct(source, target()).pipelines->image());
  const auto& rules = *gpu::file_rules(whole.pipelines->settings()[0].stages[0]);
  EXPECT_EQ(rules.signatures, nullptr);
  ASSERT_EQ(rules.heads->size(), 1u);
  using Type = gpu::AlertLimit::Type;
  using Track = gpu::AlertLimit::Track;
  const gpu::RuleHead& head = rules.heads->front();
  EXPECT_GT(head.cost, 0);
  EXPECT_EQ(head,
            (gpu::RuleHead{1, 1, 5, 2, "a", "A bad thing", {Type::both, Track::by_dst, 7, 60}, head.cost}));
  ASSERT_EQ(rules.suppressed->size(), 1u);
  const gpu::Suppression& suppressed = rules.suppressed->front();
  EXPECT_EQ(std::tuple(suppressed.gid, suppressed.sid, suppressed.whose),
            std::tuple(1u, 1u, gpu::Suppression::Whose::source));
  EXPECT_EQ(suppressed.addresses.v4.size(), 1u);
  EXPECT_EQ(suppressed.addresses.v6.size(), 1u);
  ASSERT_EQ(rules.notes.size(), 1u);
  EXPECT_EQ(gpu::rule_text(whole.policy.pipelines[0].stages[0], 1, nullptr), " rule 1:1");
  const PolicySource other = two_of_rules("drop udp any any -> any any (content:\"c\"; sid:2;)\n");
  const auto changed = ask(compiler, other, target(), first->artifacts);
  ASSERT_TRUE(changed) << changed.error().sentence;
  EXPECT_EQ(kinds(changed->artifacts), (Kinds{{"code", 1}}));
  EXPECT_EQ(changed->recipe.codes[0], first->recipe.codes[0]);
  const auto wrong =
      ask(compiler, two_of_rules("drop udp any any -> any any (content:c; sid:2;)\n"), target());
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().diagnostics, testing::Contains(testing::HasSubstr("two/b.rules:1:")));
}

// Sets of strings are in the code; whoever orders need not read them.
TEST(CompilerArtifacts, OfFilesThatRulesNameAreTheirStagesCode) {
  Compiler compiler;
  const auto source = [](const std::string& list) {
    PolicySource made = two_of_rules(
        "drop udp any any -> any any (dns.query; dataset:isset,bad,type string,load bad.lst; sid:2;)\n");
    made.files["two/bad.lst"] = list;
    return made;
  };
  const auto first = ask(compiler, source("YWI=\n"), target());
  ASSERT_TRUE(first) << first.error().sentence;
  const CompiledPolicy whole = assembled(source("YWI=\n"), target(), *first);
  EXPECT_EQ(whole.pipelines->image(), direct(source("YWI=\n"), target()).pipelines->image());
  const auto changed = ask(compiler, source("YWI=\nYWM=\n"), target(), first->artifacts);
  ASSERT_TRUE(changed) << changed.error().sentence;
  EXPECT_EQ(changed->recipe.codes[0], first->recipe.codes[0]);
  EXPECT_NE(changed->recipe.codes[1], first->recipe.codes[1]);
  const auto wrong = ask(compiler, source("YWI\nno\n"), target());
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().diagnostics, testing::Contains(testing::HasSubstr("two/bad.lst:2:")));
}

TEST(CompilerArtifacts, OfABackendThatGoesDownAreItsStagesCode) {
  Compiler compiler;
  const PolicySource source = ten_lists();
  const auto up = ask(compiler, source, target());
  ASSERT_TRUE(up) << up.error().sentence;
  const auto whole = assembled(source, target(), *up);
  const auto checks = gpu::health_checks(whole.policy.pipelines.front().stages.back());
  ASSERT_EQ(checks.size(), 2u);
  const Target one_down = target({{checks[0].address, checks[0].health}});
  auto down = ask(compiler, source, one_down, up->artifacts);
  ASSERT_TRUE(down) << down.error().sentence;
  EXPECT_EQ(kinds(down->artifacts), (Kinds{{"code", 1}}));
  Artifacts all = up->artifacts;
  all.merge(down->artifacts);
  const auto with = assemble(source, whole.policy, one_down, down->recipe, all);
  ASSERT_TRUE(with) << with.error();
  expect_same(*with, direct(source, one_down));
  EXPECT_NE(with->pipelines->image(), whole.pipelines->image());
  // It is back: what was made at first is there still.
  EXPECT_EQ(ask(compiler, source, target(), up->artifacts)->recipe, up->recipe);
}

TEST(CompilerArtifacts, OfAPolicyThatIsWrongAreNone) {
  Compiler compiler;
  const PolicySource source{"web.json", "{\n \"version\": 1,\n \"defualt\": \"drop\" }", {}};
  const auto refused = ask(compiler, source, target());
  ASSERT_FALSE(refused);
  const auto there = compile_policy(source, kPorts);
  ASSERT_FALSE(there);
  EXPECT_EQ(refused.error().sentence, there.error().sentence);
  EXPECT_EQ(refused.error().diagnostics, there.error().diagnostics);
  ASSERT_EQ(refused.error().problems.size(), 1u);
  EXPECT_EQ(refused.error().problems[0].pointer, "/defualt");
  EXPECT_EQ(refused.error().problems[0].line, 3u);
  // And the next one is compiled.
  EXPECT_TRUE(ask(compiler, ten_lists(), target()));
}

TEST(CompilerArtifacts, ThatAreMissingAreNoPolicy) {
  Compiler compiler;
  const PolicySource source = ten_lists();
  const auto answer = ask(compiler, source, target());
  ASSERT_TRUE(answer);
  for (const auto& [id, artifact] : answer->artifacts) {
    Artifacts without = answer->artifacts;
    without.erase(id);
    const auto whole = assemble(source, outline(source).value(), target(), answer->recipe, without);
    EXPECT_FALSE(whole) << artifact.index();
  }
}

// ---- programs ------------------------------------------------------------------------------------------

// A program that changes a map, and so has a table.
std::string counting_program() {
  programs::ObjectProgram object;
  object.section = "xdp";
  object.program.name = "counts";
  object.program.license = "GPL";
  object.program.maps = {{.name = "seen",
                          .type = BPF_MAP_TYPE_LRU_HASH,
                          .key_bytes = 4,
                          .value_bytes = 8,
                          .entries = 8,
                          .contents = {}}};
  constexpr u8 kMove = BPF_ALU64 | BPF_MOV, kAdd = BPF_ALU64 | BPF_ADD, kCall = BPF_JMP | BPF_CALL;
  object.program.instructions = {
      {.opcode = BPF_ST | BPF_MEM | BPF_DW, .destination = 10, .offset = -8, .immediate = 7},
      {.opcode = BPF_LD | BPF_IMM | BPF_DW, .destination = 1, .source = BPF_PSEUDO_MAP_IDX},
      {},
      {.opcode = kMove | BPF_X, .destination = 2, .source = 10},
      {.opcode = kAdd | BPF_K, .destination = 2, .immediate = -8},
      {.opcode = kMove | BPF_X, .destination = 3, .source = 2},
      {.opcode = kMove | BPF_K, .destination = 4},
      {.opcode = kCall, .immediate = BPF_FUNC_map_update_elem},
      {.opcode = kMove | BPF_K, .destination = 0, .immediate = 2},
      {.opcode = BPF_JMP | BPF_EXIT}};
  return programs::to_bytes(object).value();
}

// One with a table, and one with none, whose map begins with more than an outline reads of lists.
PolicySource with_programs() {
  std::string many = "[";
  for (u32 i = 0; i < 400; i++) many += fmt::format(R"({}{{"key": {}, "value": 1}})", i == 0 ? "" : ", ", i);
  PolicySource source{"p.json",
                      R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
                            {"stage": "program", "object": "counts.o"},
                            {"stage": "program", "object": "udp_ports.o", "section": "xdp",
                             "maps": {"ports": {"file": "many.json"}}}]}})",
                      as_read({{"udp_ports.o", tests::udp_ports_object()}, {"many.json", many + "]"}})};
  source.files.emplace(policy::program_key("counts.o", {}), counting_program());
  return source;
}

// The words of code, and what is said of where they stand.
std::vector<u32*> numbers_of(gpu::StageCode& code) {
  std::vector<u32*> all{&code.placed.body,   &code.placed.own,      &code.placed.record,
                        &code.placed.behind, &code.placed.inspects, &code.payload};
  for (u32& word : code.words) all.push_back(&word);
  for (gpu::CodeRange& range : code.pointers) all.insert(all.end(), {&range.first, &range.count});
  return all;
}

// A device follows a program's words wherever they lead, and writes there: what a compiler says of them,
// right or wrong, is not looked at.
TEST(CompilerArtifacts, OfProgramsAreNobodysWord) {
  const PolicySource source = with_programs();
  Compiler compiler;
  const auto answer = ask(compiler, source, target());
  ASSERT_TRUE(answer) << answer.error().sentence;
  for (const auto& [id, artifact] : answer->artifacts)
    EXPECT_FALSE(std::holds_alternative<gpu::CodePtr>(artifact)) << "code of a program is handed over";
  const auto right = assembled(source, target(), *answer);
  expect_same(right, direct(source, target()));
  ASSERT_EQ(right.pipelines->states().size(), 1u);

  const auto outlined = outline(source).value();
  const gpu::PipelineSettings& pipeline = right.pipelines->settings().at(0);
  std::mt19937 random(22);
  for (u32 i = 0; i < 1000; i++) {
    const std::size_t stage = i % 2;
    auto code = std::make_shared<gpu::StageCode>(gpu::compile_stage(pipeline, stage, {kKey}).value());
    EXPECT_FALSE(gpu::is_linkable(pipeline.stages[stage], *code));
    const auto numbers = numbers_of(*code);
    constexpr std::array<u32, 8> kExtremes{0, 1, 2, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x10000};
    for (u32 n = random() % 8 + 1; n > 0; n--)
      *numbers[random() % numbers.size()] =
          random() % 2 == 0 ? kExtremes[random() % kExtremes.size()] : static_cast<u32>(random());
    if (i % 16 == 0) code->words.resize(random() % code->words.size());
    if (i % 7 == 0) code->placed.entries = random();
    EXPECT_FALSE(gpu::is_linkable(pipeline.stages[stage], *code));
    Made hostile{answer->recipe, answer->artifacts};
    hostile.artifacts.emplace(hostile.recipe.codes.at(0).at(stage), gpu::CodePtr(std::move(code)));
    const auto memory = value_of(write_answer(hostile, {}));
    const auto read = read_answer(SealedMemory::map(memory, kMostAnswer).value());
    ASSERT_TRUE(read && *read);
    const auto whole = assemble(source, outlined, target(), (*read)->recipe, (*read)->artifacts);
    ASSERT_TRUE(whole) << whole.error();
    ASSERT_EQ(whole->pipelines->image(), right.pipelines->image()) << i;
    ASSERT_EQ(whole->pipelines->states().size(), right.pipelines->states().size());
  }
}

// ---- the memory between the two ------------------------------------------------------------------------

std::string content(const kernel::Fd& memory) {
  const auto sealed = SealedMemory::map(memory, kMostAnswer).value();
  return {reinterpret_cast<const char*>(sealed.bytes().data()), sealed.bytes().size()};
}
kernel::Fd memory_of(const std::string& bytes) {
  MemoryWriter to("test");
  to.write(bytes);
  return value_of(to.seal());
}

TEST(CompilerExchange, MemoryThatCanStillBeChangedIsRefused) {
  for (const int seals : {0, F_SEAL_WRITE, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL}) {
    const kernel::Fd memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(memory.get(), 4096), 0);
    if (seals != 0) {
      ASSERT_EQ(fcntl(memory.get(), F_ADD_SEALS, seals), 0);
    }
    EXPECT_FALSE(SealedMemory::map(memory, kMostAnswer)) << seals;
  }
  const kernel::Fd pipe(eventfd(0, EFD_CLOEXEC));
  EXPECT_FALSE(SealedMemory::map(pipe, kMostAnswer));
  EXPECT_FALSE(SealedMemory::map(kernel::Fd(), kMostAnswer));
  const auto memory = memory_of("whole");
  EXPECT_EQ(content(memory), "whole");
  EXPECT_TRUE(SealedMemory::map(memory, 5));
  EXPECT_FALSE(SealedMemory::map(memory, 4)) << "somebody's memory that takes all of this process's";
  EXPECT_EQ(write(memory.get(), "x", 1), -1);
  EXPECT_EQ(ftruncate(memory.get(), 1), -1);
}

TEST(CompilerExchange, WhateverStandsInAnAnswerIsReadOrRefused) {
  Compiler compiler;
  const PolicySource source = ten_lists();
  const auto outlined = outline(source).value();
  const std::string good = content(value_of(compiler.answer(value_of(write_order(source, target(), {})))));
  std::mt19937 random(20);
  u32 refused = 0, used = 0;
  for (u32 i = 0; i < 3000; i++) {
    std::string bytes = good;
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    // The beginning is the recipe; what is large is behind it.
    for (u32 n = random() % 4 + 1; n > 0 && !bytes.empty(); n--)
      bytes[random() % std::min<std::size_t>(bytes.size(), i % 2 == 0 ? 2000 : bytes.size())] ^=
          static_cast<char>(1u << random() % 8);
    auto read = read_answer(SealedMemory::map(memory_of(bytes), kMostAnswer).value());
    if (!read || !*read) {
      refused++;
      continue;
    }
    const auto whole = assemble(source, outlined, target(), (*read)->recipe, (*read)->artifacts);
    whole ? used++ : refused++;
  }
  EXPECT_GT(refused, 500u);
  EXPECT_GT(used, 100u);
}

TEST(CompilerExchange, WhateverStandsInAnOrderIsAnswered) {
  const std::string good = content(value_of(write_order(ten_lists(), target(), {})));
  std::mt19937 random(21);
  Compiler compiler;
  u32 answered = 0, refused = 0;
  for (u32 i = 0; i < 500; i++) {
    std::string bytes = good;
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    for (u32 n = random() % 4; n > 0 && !bytes.empty(); n--)
      bytes[random() % std::min<std::size_t>(bytes.size(), 3000)] ^= static_cast<char>(1u << random() % 8);
    compiler.answer(memory_of(bytes)) ? answered++ : refused++;
  }
  EXPECT_GT(answered, 50u);
  EXPECT_GT(refused, 50u);
}

using namespace std::chrono_literals;

auto in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

// ---- the process ---------------------------------------------------------------------------------------

struct Pair {
  kernel::Fd orders, served;
};
Pair make_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) throw std::runtime_error("no pair");
  return {kernel::Fd(fds[0]), kernel::Fd(fds[1])};
}

TEST(CompilerOrders, AreAnsweredOneAfterTheOther) {
  Pair pair = make_pair();
  int status = -1;
  std::thread server([&, socket = pair.served.get()] { status = serve(socket, Takes::everything); });
  {
    Orders orders(std::move(pair.orders));
    for (u32 i = 0; i < 3; i++) {
      const auto answered = orders.order(value_of(write_order(ten_lists(i), target(), {})), -1, in(60s));
      ASSERT_TRUE(answered);
      EXPECT_TRUE(read_answer(SealedMemory::map(*answered, kMostAnswer).value()).value());
    }
  }
  server.join();
  EXPECT_EQ(status, 0) << "the other side is gone";
}

TEST(CompilerOrders, SayThatTheCompilerHasEnded) {
  Pair pair = make_pair();
  Orders orders(std::move(pair.orders));
  pair.served = kernel::Fd();
  const auto answered = orders.order(memory_of("order"), -1, in(60s));
  ASSERT_FALSE(answered);
  EXPECT_EQ(answered.error(), NoAnswer::ended);
  EXPECT_FALSE(orders) << "another one is wanted";
}

TEST(CompilerOrders, AreNotWaitedForAnyMoreWhenCancelled) {
  Pair pair = make_pair();
  Orders orders(std::move(pair.orders));
  const kernel::Fd cancelled(eventfd(1, EFD_CLOEXEC));
  const auto answered = orders.order(memory_of("order"), cancelled.get(), in(60s));
  ASSERT_FALSE(answered);
  EXPECT_EQ(answered.error(), NoAnswer::cancelled);
  EXPECT_FALSE(orders);
}

TEST(CompilerOrders, AreNotWaitedForForEver) {
  Pair pair = make_pair();
  Orders orders(std::move(pair.orders));
  const auto before = std::chrono::steady_clock::now();
  const auto answered = orders.order(memory_of("order"), -1, in(100ms));
  ASSERT_FALSE(answered);
  EXPECT_EQ(answered.error(), NoAnswer::too_long);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 100ms);
  EXPECT_FALSE(orders);
}

// One that dies in the middle, and one whose answer has more descriptors than one: none is left open here.
TEST(CompilerOrders, ThatAreAnsweredWronglyLeaveNothingBehind) {
  const auto open_ones = [] {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) count++;
    return count;
  };
  const std::size_t before = open_ones();
  for (const bool answers : {false, true}) {
    Pair pair = make_pair();
    Orders orders(std::move(pair.orders));
    std::thread server([&] {
      u32 magic = 0;
      ASSERT_EQ(recv(pair.served.get(), &magic, sizeof(magic), 0), static_cast<ssize_t>(sizeof(magic)));
      const int fds[2] = {pair.served.get(), pair.served.get()};
      if (answers) {
        ASSERT_TRUE(kernel::send_with(pair.served.get(), std::as_bytes(std::span(&magic, 1)), fds, 0));
      }
      pair.served = kernel::Fd();
    });
    const auto answered = orders.order(memory_of("order"), -1, in(60s));
    server.join();
    ASSERT_FALSE(answered);
    EXPECT_EQ(answered.error(), NoAnswer::died);
  }
  EXPECT_EQ(open_ones(), before);
}

TEST(CompilerOrders, AMessageThatIsNoneEndsTheCompiler) {
  Pair pair = make_pair();
  ASSERT_EQ(send(pair.orders.get(), "xdp", 3, 0), 3);
  EXPECT_EQ(serve(pair.served.get(), Takes::everything), 0);
}

}  // namespace
}  // namespace xdpgpu::compiler
