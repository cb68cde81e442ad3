// SPDX-License-Identifier: MIT
//
// What each request of the control socket does with what is attached, and answers.
#include "userspace/control/request_registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "userspace/control/request/bypass.hpp"
#include "userspace/control/request/flows_count.hpp"
#include "userspace/control/request/flows_list.hpp"
#include "userspace/control/request/policy_apply.hpp"
#include "userspace/control/request/policy_show.hpp"
#include "userspace/control/request/status.hpp"

namespace xdpgpu::control {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::shared_ptr<const compiler::CompiledPolicy> compiled(const std::string& text) {
  auto made = compiler::compile_policy({"p.json", text, {}}, {"eth0"});
  if (!made) throw std::runtime_error(made.error().sentence);
  return std::make_shared<const compiler::CompiledPolicy>(std::move(*made));
}

// What is attached, without packets.
class Pretended final : public Attached {
 public:
  Pretended() {
    plan_.policy = policy_ = compiled(R"({"version": 1, "default": "drop"})");
    plan_.ports.emplace_back().facts.name = "eth0";
  }
  const Plan& plan() const override { return plan_; }
  Result<StatusReport> make_report() const override {
    if (!problem_.empty()) return Error(problem_);
    StatusReport report;
    report.pid = 77;
    return report;
  }
  const compiler::CompiledPolicy& policy() const override { return *policy_; }
  u32 generation() const override { return generation_; }
  std::optional<Trial> on_trial() const override { return trial_; }
  void apply(Order order, Done done) override {
    auto compiled = compiler::compile_policy(std::move(order.source), {"eth0"});
    if (!compiled) return done(tl::unexpected(std::move(compiled.error())));
    if (order.left && order.left()) return done(tl::unexpected(Refusal{"whoever asked for it has gone"}));
    if (!problem_.empty()) return done(tl::unexpected(Refusal{problem_}));
    compiled->set_audit(order.audit.value_or(policy_ && policy_->audits()));
    policy_ = std::make_shared<const compiler::CompiledPolicy>(std::move(*compiled));
    generation_++;
    if (order.confirm_within.count() > 0) trial_ = Trial{order.confirm_within.count(), {"before.json", "00"}};
    done({});
  }
  void confirm(Done done) override {
    if (std::exchange(trial_, std::nullopt)) return done({});
    done(tl::unexpected(Refusal{.sentence = "there is no policy to confirm"}));
  }
  void renew(Done done) override {
    if (!problem_.empty()) return done(tl::unexpected(Refusal{problem_}));
    generation_++;
    done({});
  }
  void change_list(ListOrder order, Changed done) override {
    if (!problem_.empty()) return done(tl::unexpected(Refusal{problem_}));
    ListChanged changed;
    for (const std::string& name : order.names) {
      changed.names[order.list][name] = order.add;
      changed.changed.push_back(name);
    }
    done(std::move(changed));
  }
  std::shared_ptr<const gpu::NameChanges> changed_names() const override {
    return std::make_shared<const gpu::NameChanges>();
  }
  const std::vector<std::string>& lost_names() const override { return lost_; }
  FlowsReport flows(const FlowQuery& query) const override {
    asked_ = query;
    return {};
  }
  FlowCountsReport flow_counts(const FlowCountQuery& query) const override {
    asked_counts_ = query;
    return {.at_ns = 5,
            .table = 64,
            .index = {3},
            .packets = {9},
            .bytes = {900},
            .source = {0},
            .sources = {"::1"}};
  }
  FileRulesReport rules(const RuleQuery& query) const override {
    asked_rules_ = query;
    return {.rules = 5, .holding = 1, .left_out = 0, .top = {{"ids", 1, 7, 2, "a worm", 3, 0.5}}};
  }
  Result<void> set_bypass(bool on, std::chrono::seconds ends_after) override {
    if (!problem_.empty()) return Error(problem_);
    bypassed_ = on;
    bypass_ends_after_ = ends_after;
    return {};
  }
  ReopenedLogs reopen_logs() override {
    if (!problem_.empty()) return {2, {problem_}};
    return {2, {}};
  }
  void detach(bool keep, const Reply& reply) override {
    kept_ = keep;
    later_ = reply;
  }

  std::string problem_;
  std::vector<std::string> lost_;
  std::optional<bool> bypassed_, kept_;
  std::chrono::seconds bypass_ends_after_{0};
  mutable std::optional<FlowQuery> asked_;
  mutable std::optional<FlowCountQuery> asked_counts_;
  mutable std::optional<RuleQuery> asked_rules_;
  Reply later_;

 private:
  Plan plan_;
  std::shared_ptr<const compiler::CompiledPolicy> policy_;
  u32 generation_ = 5;
  std::optional<Trial> trial_;
};

class ControlSocketRequests : public ::testing::Test {
 protected:
  // What it is answered at once; nothing where it is not.
  std::optional<Response> ask(const std::string& name, Json arguments = Json::object(),
                              std::function<bool()> left = {}) {
    std::optional<Response> said;
    AnyRequest::find(name)->serve(
        attached_, Request{.name = name, .arguments = std::move(arguments), .left = std::move(left)},
        [&said](Response response) { said = std::move(response); });
    return said;
  }
  Json answer(const std::string& name, Json arguments = Json::object()) {
    const auto said = ask(name, std::move(arguments));
    EXPECT_TRUE(said && said->ok()) << (said ? said->error : "no answer");
    return said ? said->result : Json();
  }
  std::string refusal(const std::string& name, Json arguments = Json::object()) {
    const auto said = ask(name, std::move(arguments));
    return said ? said->error : "no answer";
  }
  Pretended attached_;
};

TEST_F(ControlSocketRequests, AreAllThatThereAreFilesOf) {
  std::vector<std::string> registered, files;
  AnyRequest::each([&](const AnyRequest& request) {
    registered.emplace_back(request.name());
    EXPECT_EQ(AnyRequest::find(request.name()), &request);
  });
  for (const auto& file :
       std::filesystem::directory_iterator(XDPGPU_SOURCE_DIR "/userspace/control/request")) {
    std::string name = file.path().stem();
    std::replace(name.begin(), name.end(), '_', '.');
    files.push_back(std::move(name));
  }
  std::sort(files.begin(), files.end());
  EXPECT_THAT(registered, ElementsAreArray(files));
  EXPECT_GE(registered.size(), 8u);
  EXPECT_EQ(AnyRequest::find("policy"), nullptr);
  EXPECT_EQ(AnyRequest::find(""), nullptr);
}

TEST_F(ControlSocketRequests, SayHowLongTheyAreWaitedFor) {
  const auto kind = [](const char* name) { return AnyRequest::find(name)->kind(); };
  for (const char* name : {"status", "policy.show", "flows.list", "flows.count"})
    EXPECT_EQ(kind(name), RequestKind::reads) << name;
  for (const char* name : {"detach", "policy.apply", "policy.confirm", "flows.flush", "log.reopen"})
    EXPECT_EQ(kind(name), RequestKind::changes) << name;
  EXPECT_EQ(kind("bypass"), RequestKind::urgent) << "there are the pins";
}

TEST_F(ControlSocketRequests, StatusIsTheReportOrWhyThereIsNone) {
  EXPECT_EQ(answer("status").at("pid"), 77);
  attached_.problem_ = "no map can be read";
  EXPECT_EQ(refusal("status"), "no map can be read");
}

TEST_F(ControlSocketRequests, BypassSaysWhatIsSo) {
  EXPECT_EQ(answer("bypass", {{"on", true}}), Json({{"bypass", true}}));
  EXPECT_EQ(attached_.bypassed_, true);
  EXPECT_EQ(answer("bypass", {{"on", true}, {"for_s", 300u}}), Json({{"bypass", true}, {"ends_in_s", 300u}}));
  EXPECT_EQ(attached_.bypass_ends_after_, std::chrono::seconds(300));
  EXPECT_EQ(answer("bypass", {{"on", false}}), Json({{"bypass", false}}));
  EXPECT_EQ(attached_.bypass_ends_after_, std::chrono::seconds(0));
  EXPECT_THAT(refusal("bypass", {{"on", false}, {"for_s", 300u}}), HasSubstr("has no time"));
  EXPECT_THAT(refusal("bypass", {{"on", true}, {"for_s", 0u}}), HasSubstr("number of seconds"));
  EXPECT_THAT(refusal("bypass", {{"on", true}, {"for_s", 604801u}}), HasSubstr("number of seconds"));
  EXPECT_EQ(attached_.bypassed_, false);
  attached_.problem_ = "the broker is gone";
  EXPECT_EQ(refusal("bypass", {{"on", true}}), "the broker is gone");
  EXPECT_EQ(refusal("bypass"), "bypass needs \"on\": true or false");
  EXPECT_EQ(attached_.bypassed_, false);
}

TEST_F(ControlSocketRequests, DetachIsAnsweredWhenItIsDone) {
  EXPECT_FALSE(ask("detach"));
  EXPECT_EQ(attached_.kept_, false);
  EXPECT_FALSE(ask("detach", {{"keep", true}}));
  EXPECT_EQ(attached_.kept_, true);
}

TEST_F(ControlSocketRequests, FlowsAreListedAsFarAsIsAsked) {
  const FlowQuery all;
  (void)answer("flows.list");
  EXPECT_EQ(attached_.asked_->interface, "");
  EXPECT_EQ(attached_.asked_->limit, all.limit);
  EXPECT_EQ(attached_.asked_->from, 0u);
  (void)answer("flows.list", {{"interface", "eth0"}, {"limit", 10u}, {"from", 7u}});
  EXPECT_EQ(attached_.asked_->interface, "eth0");
  EXPECT_EQ(attached_.asked_->limit, 10u);
  EXPECT_EQ(attached_.asked_->from, 7u);
  EXPECT_FALSE(attached_.asked_->indices);
  EXPECT_THAT(refusal("flows.list", {{"from", 7u}}), HasSubstr("name its \"interface\""));
  (void)answer("flows.list", {{"interface", "eth0"}, {"indices", {4u, 9u}}});
  EXPECT_THAT(*attached_.asked_->indices, ElementsAre(4u, 9u));
  EXPECT_THAT(refusal("flows.list", {{"indices", {7u}}}), HasSubstr("name its \"interface\""));
}

TEST_F(ControlSocketRequests, FlowsAreCountedAsFarAsIsAsked) {
  const FlowCountQuery all;
  const Json counts = answer("flows.count", {{"interface", "eth0"}});
  EXPECT_EQ(counts.at("index"), Json({3}));
  EXPECT_EQ(counts.at("sources"), Json({"::1"}));
  EXPECT_FALSE(counts.contains("next"));
  EXPECT_EQ(attached_.asked_counts_->from, all.from);
  EXPECT_EQ(attached_.asked_counts_->entries, all.entries);
  EXPECT_EQ(attached_.asked_counts_->since_ns, all.since_ns);
  (void)answer("flows.count", {{"interface", "eth0"}, {"from", 8u}, {"entries", 4u}, {"since_ns", 77u}});
  EXPECT_EQ(attached_.asked_counts_->interface, "eth0");
  EXPECT_EQ(attached_.asked_counts_->from, 8u);
  EXPECT_EQ(attached_.asked_counts_->entries, 4u);
  EXPECT_EQ(attached_.asked_counts_->since_ns, 77u);
  EXPECT_EQ(refusal("flows.count"), "flows.count needs \"interface\": a text");
}

TEST_F(ControlSocketRequests, RulesAreListedAsIsAsked) {
  const Json rules = answer("rules.top");
  EXPECT_EQ(rules.at("holding"), 1);
  EXPECT_EQ(rules.at("top").at(0).at("signature_id"), 7);
  EXPECT_EQ(rules.at("top").at(0).at("matched"), 3);
  EXPECT_EQ(attached_.asked_rules_->by, RuleQuery::By::matches);
  EXPECT_EQ(attached_.asked_rules_->limit, RuleQuery().limit);
  (void)answer("rules.top", {{"by", "cost"}, {"limit", 3u}});
  EXPECT_EQ(attached_.asked_rules_->by, RuleQuery::By::cost);
  EXPECT_EQ(attached_.asked_rules_->limit, 3u);
  EXPECT_THAT(refusal("rules.top", {{"by", "age"}}), HasSubstr("\"matches\" or \"cost\""));
}

TEST_F(ControlSocketRequests, LogsAreReopenedOrWhyNot) {
  EXPECT_EQ(answer("log.reopen"), Json({{"files", 2}, {"problems", Json::array()}}));
  attached_.problem_ = "there is no folder";
  EXPECT_EQ(answer("log.reopen"), Json({{"files", 2}, {"problems", {"there is no folder"}}}));
}

TEST_F(ControlSocketRequests, FlushingIsAnotherGeneration) {
  EXPECT_EQ(answer("flows.flush"), Json({{"generation", 6}}));
  attached_.problem_ = "there are no more generations";
  EXPECT_EQ(refusal("flows.flush"), attached_.problem_);
}

TEST_F(ControlSocketRequests, APolicyIsAppliedWithWhatIsToBeSaidOfIt) {
  const Json json = answer(
      "policy.apply",
      {{"text", R"({"version": 1, "io": {"ring_size": 4096}})"}, {"file", "next.json"}, {"audit", true}});
  EXPECT_EQ(json.size(), 5u) << json;
  EXPECT_EQ(json.at("generation"), 6);
  EXPECT_EQ(json.at("rules"), 0);
  EXPECT_EQ(json.at("audit"), true);
  EXPECT_EQ(json.at("hash").get<std::string>().size(), 16u);
  EXPECT_THAT(json.at("notes").dump(), HasSubstr("io.ring_size stays what it was"));
  EXPECT_EQ(attached_.policy().source.file, "next.json");
  EXPECT_TRUE(attached_.policy().audits());
}

TEST_F(ControlSocketRequests, AuditIsAsSaidOrAsItWas) {
  const auto audits = [&](Json more) {
    more.update({{"text", R"({"version": 1})"}, {"file", "f"}});
    return answer("policy.apply", more).at("audit").get<bool>();
  };
  EXPECT_TRUE(audits({{"audit", true}}));
  EXPECT_TRUE(audits({{"keep_audit", true}}));
  EXPECT_FALSE(audits({{"audit", false}}));
  EXPECT_FALSE(audits({{"keep_audit", true}}));
  EXPECT_TRUE(audits({{"audit", true}, {"keep_audit", false}}));
  EXPECT_FALSE(audits(Json::object()));
}

TEST_F(ControlSocketRequests, APolicyOnTrialIsConfirmedOnce) {
  EXPECT_THAT(refusal("policy.confirm"), HasSubstr("there is no policy to confirm"));
  const Json json =
      answer("policy.apply", {{"text", R"({"version": 1})"}, {"file", "f"}, {"confirm_s", 60u}});
  EXPECT_EQ(json.at("confirm_within_s"), 60);
  EXPECT_EQ(answer("policy.show").at("goes_back_to").at("file"), "before.json");
  EXPECT_EQ(answer("policy.confirm"), Json({{"generation", 6}}));
  EXPECT_FALSE(answer("policy.show").contains("confirm_within_s"));
  EXPECT_THAT(refusal("policy.confirm"), HasSubstr("there is no policy to confirm"));
}

TEST_F(ControlSocketRequests, APolicyThatIsRefusedSaysWhereAndChangesNothing) {
  const auto said =
      ask("policy.apply", {{"text", R"({"version": 1, "defualt": "drop"})"}, {"file", "f.json"}});
  ASSERT_TRUE(said);
  ASSERT_EQ(said->problems.size(), 1u);
  EXPECT_EQ(said->problems.front().pointer, "/defualt");
  EXPECT_EQ(said->problems.front().line, 1u);
  EXPECT_EQ(said->diagnostics.size(), 1u);
  attached_.problem_ = "no memory";
  EXPECT_EQ(refusal("policy.apply", {{"text", R"({"version": 1})"}, {"file", "f"}}),
            "the policy was not applied, nothing has changed: no memory");
  const auto late = ask("policy.apply", {{"text", R"({"version": 1})"}, {"file", "f"}}, [] { return true; });
  EXPECT_THAT(late->error, HasSubstr("has gone"));
  EXPECT_EQ(attached_.generation(), 5u);
  EXPECT_EQ(attached_.policy().source.file, "p.json");
}

TEST_F(ControlSocketRequests, APolicyIsShownAsItWasWrittenAndUnderstood) {
  const Json json = answer("policy.show");
  EXPECT_EQ(json.size(), 8u) << json;
  EXPECT_EQ(json.at("text"), R"({"version": 1, "default": "drop"})");
  EXPECT_EQ(json.at("file"), "p.json");
  EXPECT_EQ(json.at("settings").at("default"), "drop");
  EXPECT_EQ(json.at("files"), Json::object());
  EXPECT_EQ(json.at("at_attach").at("io"), json.at("settings").at("io"));
  EXPECT_EQ(json.at("at_attach").size(), 2u);
  EXPECT_EQ(json.at("generation"), 5);
  EXPECT_EQ(json.at("audit"), false);
  // What a client reads is what was said.
  const auto read = read_answer<PolicyShow::Answer>(json);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(as_json(*read), json);
}

TEST_F(ControlSocketRequests, ALongPolicyIsShownWithoutItsSettings) {
  const std::string long_text = R"({"version": 1})" + std::string(1 << 20, ' ');
  (void)answer("policy.apply", {{"text", long_text}, {"file", "f"}});
  const Json json = answer("policy.show");
  EXPECT_TRUE(json.at("settings").is_null());
  const auto read = read_answer<PolicyShow::Answer>(json);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(as_json(*read), json);
}

}  // namespace
}  // namespace xdpgpu::control
