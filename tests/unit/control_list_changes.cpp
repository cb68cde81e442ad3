// SPDX-License-Identifier: MIT
#include "userspace/control/list_changes.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "userspace/compiler/compiled_policy.hpp"

namespace xdpgpu::control {
namespace {

using gpu::NameChanges;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

compiler::CompiledPolicy compiled(const std::string& names, bool subdomains = false) {
  auto made = compiler::compile_policy({"p.json",
                                        fmt::format(R"({{"version": 1, "default": "pass",
         "lists": {{"ads": {{"type": "domain", "file": "ads.txt", "subdomains": {}}},
                    "unasked": {{"type": "domain", "names": ["x.example"]}}, "office": ["192.0.2.0/24"]}},
         "rules": [{{"match": {{"proto": "udp"}}, "action": {{"inspect": "dns"}}}}],
         "pipelines": {{"dns": [{{"stage": "domains", "lists": [{{"list": "@ads", "action": "drop"}}]}}]}}}})",
                                                    subdomains),
                                        {{"ads.txt", names}}},
                                       {"eth0"});
  if (!made) throw std::runtime_error(made.error().sentence);
  return std::move(*made);
}

class ListChanges : public testing::Test {
 protected:
  Result<ListChanged> plan(bool add, std::vector<std::string> names, const std::string& list = "ads") {
    auto planned = plan_changes(policy_.policy, *policy_.pipelines, now_, {list, add, std::move(names)});
    if (planned) now_ = planned->names;
    return planned;
  }
  std::string refused(bool add, std::vector<std::string> names, const std::string& list = "ads") {
    const auto planned = plan(add, std::move(names), list);
    return planned ? "nothing" : planned.error();
  }
  compiler::CompiledPolicy policy_ = compiled("ads.example\n.tracker.example\n*.cdn.example\n");
  NameChanges now_;
};

TEST_F(ListChanges, SayWhatWasDoneAndWhatWasSoAlready) {
  auto planned = plan(true, {"New.Example.", ".b\u00fccher.example", "ads.example", "new.example"});
  ASSERT_TRUE(planned) << planned.error();
  EXPECT_THAT(planned->changed, ElementsAre("new.example", ".xn--bcher-kva.example"));
  EXPECT_THAT(planned->unchanged, ElementsAre("ads.example"));
  EXPECT_EQ(now_, (NameChanges{{"ads", {{"new.example", true}, {".xn--bcher-kva.example", true}}}}));

  planned = plan(false, {"ads.example", ".cdn.example", "new.example"});
  ASSERT_TRUE(planned) << planned.error();
  EXPECT_THAT(planned->changed, ElementsAre("ads.example", "new.example"));
  EXPECT_THAT(planned->unchanged, ElementsAre(".cdn.example")) << "the list has what is beneath it alone";
  EXPECT_EQ(now_, (NameChanges{{"ads", {{".xn--bcher-kva.example", true}, {"ads.example", false}}}}));

  // Once more changes nothing, and back again leaves nothing.
  planned = plan(false, {"ads.example"});
  ASSERT_TRUE(planned);
  EXPECT_THAT(planned->changed, IsEmpty());
  ASSERT_TRUE(plan(true, {"ads.example"}));
  ASSERT_TRUE(plan(false, {".xn--bcher-kva.example"}));
  EXPECT_THAT(now_, IsEmpty());
}

TEST_F(ListChanges, TakeNamesAsTheFileHasThem) {
  policy_ = compiled("ads.example\n", true);
  const auto planned = plan(true, {"x.example", "*.y.example", "ads.example"});
  ASSERT_TRUE(planned) << planned.error();
  EXPECT_THAT(planned->changed, ElementsAre(".x.example", "*.y.example")) << "with all beneath";
  EXPECT_THAT(planned->unchanged, ElementsAre(".ads.example"));
}

TEST_F(ListChanges, AreAllOrNone) {
  EXPECT_THAT(refused(true, {"a.example", "b..example"}),
              HasSubstr("\"b..example\" has nothing between two dots"));
  EXPECT_THAT(refused(true, {"192.0.2.1"}), HasSubstr("is an address"));
  EXPECT_THAT(refused(true, {}), HasSubstr("no name"));
  EXPECT_EQ(refused(true, {"a.example"}, "adz"),
            "the policy in force has no list \"adz\"; its lists of names are ads, unasked");
  EXPECT_EQ(
      refused(true, {"a.example"}, "office"),
      "list \"office\" is of addresses, and only lists of names are changed one at a time: edit it, and "
      "use \"xdpgpu policy apply\"");
  EXPECT_THAT(refused(true, {"a.example"}, "unasked"), HasSubstr("no stage asks list \"unasked\""));
  EXPECT_THAT(now_, IsEmpty());
}

TEST_F(ListChanges, HaveRoomForSoMany) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < gpu::kMostNameChanges; i++) names.push_back(fmt::format("n{}.example", i));
  ASSERT_TRUE(plan(true, names));
  EXPECT_THAT(refused(true, {"one.more"}),
              HasSubstr("65537 names of lists would be changed, and 65536 can be"));
  EXPECT_TRUE(plan(true, {"n0.example"})) << "it is there";
  EXPECT_TRUE(plan(false, {"n0.example"})) << "which makes room";
  EXPECT_TRUE(plan(true, {"one.more"}));
}

// What the file has come to say need not be remembered; what is of no list any more is gone, and said.
TEST_F(ListChanges, SettleWithTheNextPolicy) {
  ASSERT_TRUE(plan(true, {"new.example", "other.example"}));
  ASSERT_TRUE(plan(false, {"ads.example"}));
  now_["gone"] = {{"a.example", true}, {"b.example", false}};
  now_["office"] = {{"a.example", true}};
  const auto next = compiled("new.example\n.tracker.example\n");
  const auto settled = settle_changes(next.policy, *next.pipelines, now_);
  EXPECT_EQ(settled.names, (NameChanges{{"ads", {{"other.example", true}}}}));
  EXPECT_THAT(
      settled.lost,
      ElementsAre("the policy has no list \"gone\" of names any more: what \"xdpgpu list\" changed of it, "
                  "2 names, is gone",
                  HasSubstr("\"office\"")));
}

TEST_F(ListChanges, AreReported) {
  ASSERT_TRUE(plan(true, {"new.example", "other.example"}));
  ASSERT_TRUE(plan(false, {"ads.example"}));
  auto all = report_lists(policy_.policy, *policy_.pipelines, now_, "", 10);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->lists.size(), 2u);
  EXPECT_FALSE(all->changes);
  EXPECT_EQ(all->lists[0].list, "ads");
  EXPECT_EQ(all->lists[0].file, "ads.txt");
  EXPECT_TRUE(all->lists[0].asked);
  EXPECT_EQ(all->lists[0].added, 2u);
  EXPECT_EQ(all->lists[0].removed, 1u);
  EXPECT_FALSE(all->lists[1].asked);
  const auto one = report_lists(policy_.policy, *policy_.pipelines, now_, "ads", 2);
  ASSERT_TRUE(one);
  ASSERT_TRUE(one->changes);
  ASSERT_EQ(one->changes->size(), 2u);
  EXPECT_EQ((*one->changes)[0].name, "ads.example");
  EXPECT_EQ((*one->changes)[0].change, "removed");
  EXPECT_EQ(one->left_out, 1u);
  EXPECT_THAT(report_lists(policy_.policy, *policy_.pipelines, now_, "no", 2).error(),
              HasSubstr("no list \"no\""));
}

TEST_F(ListChanges, AreReadAsTheyWereWritten) {
  const NameChanges names{{"ads", {{".a.example", true}, {"*.b.example", false}}}, {"b-1", {{"c", true}}}};
  EXPECT_EQ(read_names(text_of(names)), names);
  EXPECT_EQ(read_names(""), NameChanges{});
  for (const std::string& text :
       {std::string("+ads a.example"), std::string("ads a.example\n"), std::string("+ a.example\n"),
        std::string("+ads\n"), std::string("+ads \n"), std::string("+ads A.example\n"),
        "+ads " + std::string(64, 'a') + "\n", std::string("\n")})
    EXPECT_EQ(read_names(text), std::nullopt) << text;
}

}  // namespace
}  // namespace xdpgpu::control
