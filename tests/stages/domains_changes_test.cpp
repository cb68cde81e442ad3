// SPDX-License-Identifier: MIT
//
// Names that are added to lists and removed from them while packets flow: on every device the answers are the
// reference's by the lists as they are then.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "gpu/domain_names.hpp"
#include "gpu/faults.hpp"
#include "gpu/name_changes.hpp"
#include "gpu/standby.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"
#include "tests/stages/dns_queries.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::Action;
using gpu::DomainsSettings;
using gpu::NameChanges;
using gpu::PipelineSettings;

DomainsSettings* domains_of(gpu::StageSettings& stage) { return std::get_if<DomainsSettings>(&stage); }

std::vector<PipelineSettings> with(std::vector<PipelineSettings> settings, const NameChanges& changes) {
  for (PipelineSettings& pipeline : settings)
    for (gpu::StageSettings& stage : pipeline.stages)
      if (DomainsSettings* const domains = domains_of(stage))
        for (gpu::DomainList& list : domains->lists)
          if (const auto of = changes.find(list.name); of != changes.end())
            list.names = gpu::with_changes(list.names, of->second);
  return settings;
}

std::vector<std::string> lines_of(const gpu::DomainNames& names) {
  std::vector<std::string> lines;
  gpu::each_name(names, [&](const gpu::DomainEntry& entry) {
    lines.push_back((entry.itself && entry.beneath ? "."
                     : entry.beneath               ? "*."
                                                   : "") +
                    std::string(entry.name));
  });
  return lines;
}

// Of a stage's lists: entries of theirs are removed, those of others are added, and some that nobody has.
void change_some(Random& random, std::vector<PipelineSettings>& settings, NameChanges& changes) {
  std::vector<std::string> lists, lines{"com",
                                        ".org",
                                        "*.example.com",
                                        ".ads.example",
                                        "www.b.mail.com",
                                        "*.com",
                                        "a.a.a.a.a.a.a.a.a.a.a.a.a.a.com",
                                        ".a"};
  for (PipelineSettings& pipeline : settings)
    for (gpu::StageSettings& stage : pipeline.stages)
      if (const DomainsSettings* const domains = domains_of(stage))
        for (const gpu::DomainList& list : domains->lists) {
          lists.push_back(list.name);
          for (std::string& line : lines_of(list.names)) lines.push_back(std::move(line));
        }
  for (u32 i = 0; i < 150; i++) {
    std::string line = random.pick(lines);
    if (random.one_in(4))
      line = random.pick(std::array{"", ".", "*."}) + std::string(gpu::domain_entry(line).name);
    changes[random.pick(lists)][line] = random.one_in(2);
  }
}

std::vector<xg_descriptor> part(const Traffic& traffic, std::size_t which, std::size_t parts) {
  const auto at = [&](std::size_t i) {
    auto place =
        traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(traffic.descriptors.size() * i / parts);
    while (place != traffic.descriptors.begin() && place != traffic.descriptors.end() &&
           (place[-1].flags & XG_DESC_MORE) != 0)
      ++place;
    return place;
  };
  return {at(which), at(which + 1)};
}

class DomainsChanged : public testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(Backends, DomainsChanged, testing::ValuesIn(all_targets()), target_name);

TEST_P(DomainsChanged, EachPacketMeetsTheListsAsTheyAreThen) {
  Random random(test_seed());
  auto cases = conformance_cases();
  const auto which =
      std::find_if(cases.begin(), cases.end(), [](const auto& one) { return one.name == "domains"; });
  ASSERT_NE(which, cases.end());
  auto settings = which->pipelines(random);
  const Traffic traffic = which->traffic(random, 6'000, static_cast<u32>(settings.size()));
  const auto pipelines = gpu::Pipelines::compile(settings).value();
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  const auto queue = device->open_queue(GetParam().queue(1'088, 4)).value();
  gpu::reference::Judge judge_of(settings);
  NameChanges changes;
  constexpr u32 kParts = 8;
  u32 others = 0;
  for (u32 i = 0; i < kParts; i++) {
    SCOPED_TRACE(fmt::format("{}, part {}, XDPGPU_TEST_SEED={}", device->info().description, i, test_seed()));
    // At the end nothing is changed any more.
    if (i == kParts - 1)
      changes.clear();
    else if (i > 0)
      change_some(random, settings, changes);
    if (i > 0) {
      const auto changed = device->change_words(kGeneration, gpu::changed_words(*pipelines, changes));
      ASSERT_TRUE(changed) << changed.error();
      judge_of.change(with(settings, changes));
    }
    const auto stream = part(traffic, i, kParts);
    const auto should = answers_of(judge_of, traffic.region.bytes(), stream, kGeneration);
    expect_equal(judge(*queue, stream, random.pick(std::array<u32, 3>{7, 64, 1024}), kGeneration), should,
                 stream);
    if (HasFailure()) return;
    gpu::reference::Judge as_compiled(settings);
    const auto before = answers_of(as_compiled, traffic.region.bytes(), stream, kGeneration);
    for (std::size_t p = 0; p < before.size(); p++) others += equal(before[p], should[p]) ? 0 : 1;
  }
  EXPECT_GT(others, 100u) << "packets that changes make no difference to prove nothing";
}

// Descriptors of queries for the name.
std::vector<xg_descriptor> queries(const FrameRegion& region, const std::string& name, u32 count) {
  std::vector<xg_descriptor> stream;
  for (u32 i = 0; i < count; i++)
    stream.push_back(place(region, i * u64{XG_CHUNK_SIZE} + XG_FRAME_DATA, query(name), 0, i));
  return stream;
}

std::vector<PipelineSettings> two_lists() {
  DomainsSettings settings;
  settings.lists = {list_of("a", ".example.com\nwww.example.com\n"),
                    list_of("b", "www.example.com\n*.example.com\n", Action::pass)};
  settings.otherwise = Action::pass;
  return {{"dns", {settings}}};
}

TEST_P(DomainsChanged, ARemovedEntryLeavesThoseThatStandForTheSameNames) {
  const FrameRegion region(8 * XG_CHUNK_SIZE);
  XDPGPU_OPEN_OR_SKIP(GetParam(), region.base(), region.size());
  const auto pipelines = gpu::Pipelines::compile(two_lists()).value();
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  const auto queue = device->open_queue(GetParam().queue(64, 2)).value();
  const auto rule = [&](const std::string& name, const NameChanges& changes) -> u32 {
    const auto changed = device->change_words(kGeneration, gpu::changed_words(*pipelines, changes));
    EXPECT_TRUE(changed) << changed.error();
    const Answers answers = judge(*queue, queries(region, name, 1), 1, kGeneration);
    return XG_VERDICT_RULE(answers.at(0).verdict);
  };
  EXPECT_EQ(rule("www.example.com", {}), 1u);
  EXPECT_EQ(rule("www.example.com", {{"a", {{"www.example.com", false}}}}), 2u) << "b has it, too";
  EXPECT_EQ(
      rule("www.example.com", {{"a", {{"www.example.com", false}}}, {"b", {{"www.example.com", false}}}}), 1u)
      << "what is above it stands";
  EXPECT_EQ(rule("www.example.com", {{"a", {{"www.example.com", false}, {".example.com", false}}},
                                     {"b", {{"www.example.com", false}}}}),
            2u)
      << "and b's";
  EXPECT_EQ(rule("example.com", {{"a", {{".example.com", false}}}}), 0u);
  EXPECT_EQ(rule("example.com", {{"a", {{"example.com", false}}}}), 1u) << "another entry than the list has";
  EXPECT_EQ(rule("a.b.c.d.e.f.net", {{"b", {{"a.b.c.d.e.f.net", true}}}}), 2u) << "deeper than all";
  EXPECT_EQ(rule("a.b.c.d.e.f.net", {{"c", {{".net", true}}}}), 0u) << "a list that it does not ask";
  EXPECT_EQ(rule("a.b.c.d.e.f.net", {}), 0u);

  const auto beyond = device->change_words(
      kGeneration, std::vector<gpu::ChangedWords>{{pipelines->changes_words() - 1, {1, 2}}});
  EXPECT_FALSE(beyond);
  EXPECT_FALSE(device->change_words(kGeneration + 1, gpu::changed_words(*pipelines, {})));
}

// As many as there can be, of names that all differ.
TEST_P(DomainsChanged, ThereIsRoomForAllThatMayBeChanged) {
  const FrameRegion region(8 * XG_CHUNK_SIZE);
  XDPGPU_OPEN_OR_SKIP(GetParam(), region.base(), region.size());
  const auto pipelines = gpu::Pipelines::compile(two_lists()).value();
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  const auto queue = device->open_queue(GetParam().queue(64, 2)).value();
  NameChanges changes;
  for (std::size_t i = 0; i < gpu::kMostNameChanges; i++)
    changes[i % 2 != 0 ? "a" : "b"].emplace(fmt::format("n{}.net", i), true);
  ASSERT_TRUE(device->change_words(kGeneration, gpu::changed_words(*pipelines, changes)));
  for (const u32 i : {0u, 1u, 65'535u}) {
    const Answers answers = judge(*queue, queries(region, fmt::format("n{}.net", i), 1), 1, kGeneration);
    EXPECT_EQ(XG_VERDICT_RULE(answers.at(0).verdict), i % 2 != 0 ? 1u : 2u);
  }
  const Answers other = judge(*queue, queries(region, "n65536.net", 1), 1, kGeneration);
  EXPECT_EQ(XG_VERDICT_RULE(other.at(0).verdict), 0u);
}

// Batches go on all the while: each is decided by one state of the lists.
TEST_P(DomainsChanged, NoBatchMeetsHalfOfAChange) {
  constexpr u32 kBatch = 48, kChanges = 20;
  const FrameRegion region(kBatch * u64{XG_CHUNK_SIZE});
  XDPGPU_OPEN_OR_SKIP(GetParam(), region.base(), region.size());
  const auto pipelines = gpu::Pipelines::compile(two_lists()).value();
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  const auto queue = device->open_queue(GetParam().queue(kBatch, 2)).value();
  const auto stream = queries(region, "new.net", kBatch);
  std::atomic<u32> changed{0};
  std::jthread changing([&] {
    for (u32 i = 1; i <= kChanges; i++) {
      const NameChanges changes{{i % 2 != 0 ? "a" : "b", {{"new.net", true}}}};
      EXPECT_TRUE(device->change_words(kGeneration, gpu::changed_words(*pipelines, changes)));
      changed = i;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  u32 since = 0;
  std::set<u32> rules;
  do {
    since = changed;
    const Answers answers = judge(*queue, stream, kBatch, kGeneration);
    ASSERT_EQ(answers.size(), kBatch);
    for (const Answer& answer : answers) ASSERT_EQ(answer.verdict, answers[0].verdict);
    rules.insert(XG_VERDICT_RULE(answers[0].verdict));
  } while (since < kChanges);
  EXPECT_THAT(rules, testing::Contains(2u)) << "the last change holds";
}

// Whoever takes over knows them, and so does the device when it is back.
TEST_P(DomainsChanged, AStandbyKnowsThem) {
  const FrameRegion region(8 * XG_CHUNK_SIZE);
  const auto open = [&](const char* fault) -> gpu::Result<std::unique_ptr<gpu::Device>> {
    auto device = gpu::open_device(GetParam().kind);
    if (device && fault != nullptr) device = gpu::with_fault(std::move(*device), fault);
    return device;
  };
  auto first = open("fail:3");
  if (!first) GTEST_SKIP() << GetParam().name() << " is not there: " << first.error();
  const auto device = gpu::with_standby(std::move(*first), gpu::open_device("cpu").value(),
                                        {.hung_ns = 1'000'000'000ull * kPatience.count(),
                                         .reopen = [&] { return open(nullptr); },
                                         .retry = std::chrono::milliseconds(5)});
  if (!device->register_frames(region.base(), region.size(), GetParam().frames))
    GTEST_SKIP() << GetParam().name() << " cannot read frames so";
  const auto pipelines = gpu::Pipelines::compile(two_lists()).value();
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  auto queue = device->open_queue(GetParam().queue(64, 2));
  if (!queue) GTEST_SKIP() << queue.error();
  const auto change = [&](const NameChanges& changes) {
    const auto changed = device->change_words(kGeneration, gpu::changed_words(*pipelines, changes));
    EXPECT_TRUE(changed) << changed.error();
  };
  const auto rule = [&](const std::string& name) {
    const Answers answers = judge(**queue, queries(region, name, 1), 1, kGeneration);
    return XG_VERDICT_RULE(answers.at(0).verdict);
  };
  change({{"a", {{"new.net", true}, {"x.net", true}, {"y.net", true}}}});
  EXPECT_EQ(rule("new.net"), 1u);
  EXPECT_EQ(rule("other.net"), 0u);
  EXPECT_EQ(rule("new.net"), 1u) << "the batch that the device failed under";
  EXPECT_NE(device->degraded(), "");
  change({{"a", {{"other.net", true}}}});
  EXPECT_EQ(rule("new.net"), 0u);
  EXPECT_EQ(rule("other.net"), 1u);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!device->degraded().empty() && std::chrono::steady_clock::now() < deadline) {
    (void)device->try_again();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(device->degraded(), "");
  EXPECT_EQ(rule("other.net"), 1u);
  EXPECT_EQ(rule("new.net"), 0u);
}

// What a list has is found in what devices go by: no other text is needed.
TEST(NameChanges, ListsAreKnownByTheirEntries) {
  Random random(test_seed());
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  for (u32 round = 0; round < 200; round++) {
    DomainsSettings settings;
    std::vector<std::set<std::string>> lists(random.between(1, 5));
    const auto any = [&] {
      return fmt::format("{}{}.{}", random.pick(std::array{"", ".", "*."}), random.below(4),
                         random.pick(std::array{"com", "org"}));
    };
    for (std::size_t i = 0; i < lists.size(); i++) {
      std::string text;
      for (u32 entries = random.below(20); entries != 0; entries--) {
        const std::string line = any();
        lists[i].insert(line);
        text += line + "\n";
      }
      settings.lists.push_back(list_of(std::to_string(i), text));
    }
    const auto pipelines = gpu::Pipelines::compile({{"dns", {settings}}}).value();
    for (u32 i = 0; i < 50; i++) {
      const std::string line = any();
      for (std::size_t list = 0; list < lists.size(); list++)
        EXPECT_EQ(gpu::has_name(*pipelines, std::to_string(list), line), lists[list].contains(line))
            << line << " in " << list;
    }
    EXPECT_EQ(gpu::has_name(*pipelines, "none", any()), std::nullopt);
  }
}

}  // namespace
}  // namespace xdpgpu::tests
