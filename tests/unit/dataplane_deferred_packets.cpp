// SPDX-License-Identifier: MIT
//
// Packets about which a host thread is asked: they wait, with those behind them in their flow and nobody
// else, and go on in their flow's order; what there is no room for meets the policy's limit; no frame is
// lost.
#include "userspace/dataplane/deferred_packets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>

#include "userspace/dataplane/rule_finisher.hpp"

namespace xdpgpu::dataplane {
namespace {

using testing::ElementsAre;
using Does = gpu::signatures::Action;
using namespace std::chrono_literals;

constexpr u32 kFrames = 512, kSlow = kFrames, kBytes = 100, kAnswerAt = 60;
// That rules stand at in their pipeline, which is the third one of generation 5.
constexpr u8 kStage = 1;
constexpr u32 kPassed = XG_VERDICT(XG_PASS, 0u, 2u, 1u);
enum : u16 { kDrops, kAlerts, kPlain, kRules };  // rules: the first two have a rest

// A packet's byte says what is answered of it.
class Asker : public RuleAsker {
 public:
  explicit Asker(std::atomic<bool>& closed) : closed_(closed) {}
  AlertRules::Rests ask(const AlertRules::Pipeline& pipeline, const xg_alerts& hold, const xg_metadata&,
                        std::span<const u8> packet) noexcept override {
    while (closed_) std::this_thread::sleep_for(1ms);
    asked_bytes = packet.size();
    return {packet[kAnswerAt] == 0 ? AlertRules::asking(pipeline, hold) : 0, 0};
  }
  u64 bounds_reached() const noexcept override { return asked_bytes; }
  std::atomic<std::size_t> asked_bytes{0};

 private:
  std::atomic<bool>& closed_;
};

std::shared_ptr<const std::vector<gpu::RuleHead>> rules_of() {
  std::vector<gpu::RuleHead> rules(kRules);
  for (u16 i = 0; i < kRules; i++) rules[i].sid = i + 1;
  rules[kDrops].action = Does::drop;
  rules[kDrops].late = true;
  rules[kDrops].rest = rules[kAlerts].rest = std::make_shared<const gpu::signatures::HostPart>();
  return std::make_shared<const std::vector<gpu::RuleHead>>(std::move(rules));
}

class Deferred : public testing::Test {
 protected:
  explicit Deferred(u32 most_frames = kFrames, bool limit_drops = true)
      : region_(std::size_t{kFrames} * XG_CHUNK_SIZE) {
    AlertRules::Pipeline pipeline;
    pipeline.rules = rules_of();
    pipeline.stage = kStage;
    pipeline.limit_drops = limit_drops;
    rules_.set({{5, {{}, {}, pipeline}}}, {});
    auto asker = std::make_unique<Asker>(closed_);
    asker_ = asker.get();
    deferred_.emplace(region_.data(), rules_, 0, most_frames, std::move(asker));
    finisher_.defer_to(*deferred_);
    slot_.descriptors = descriptors_.data();
    slot_.results = results_.data();
    slot_.edits = edits_.data();
    slot_.adjusts = adjusts_.data();
    slot_.alerts = alerts_.data();
    slot_.patches = patches_.data();
    batch_.slot = &slot_;
    batch_.ports.resize(kFrames);
    batch_.assembled.resize(4);
    batch_.fragments.resize(64);
    for (u32 i = kFrames; i-- > 0;) free_.push_back(i);
    deferred_->start("asks");
  }
  ~Deferred() override { closed_ = false; }

  void begin() {
    batch_.count = batch_.later = batch_.assembled_count = batch_.fragments_count = 0;
    batch_.deferred = false;
  }
  u8* frame(u32 number) { return region_.data() + std::size_t{number} * XG_CHUNK_SIZE + XG_FRAME_DATA; }
  xg_descriptor of(u32 number, u32 length, u32 flags = 0) {
    return {std::size_t{number} * XG_CHUNK_SIZE + XG_FRAME_DATA, length, flags};
  }
  u32 take_frame() {
    const u32 number = free_.back();
    free_.pop_back();
    return number;
  }
  // A packet of so many buffers; the rules that hold for it, and what is answered.
  u32 add(u32 flow, std::vector<u16> hold, bool answer = true, u32 buffers = 1) {
    const u32 first = batch_.count;
    for (u32 i = 0; i < buffers; i++) {
      const u32 number = take_frame();
      descriptors_[batch_.count] = of(number, kBytes, i + 1 < buffers ? XG_DESC_MORE : 0);
      batch_.ports[batch_.count++] = i == 0 ? u8{0} : Batch::kLaterBuffer;
    }
    u8* const bytes = region_.data() + descriptors_[first].offset;
    std::memset(bytes, 0, kBytes);
    bytes[kAnswerAt] = answer;
    std::memcpy(bytes, &next_, sizeof(next_));
    xg_metadata metadata{};
    metadata.flow_hash = flow;
    metadata.generation = 5;
    metadata.pipeline = 2;
    std::memcpy(bytes - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    results_[first] = {kPassed, hold.empty() ? 0 : XG_RES_ALERTS, 0, 0};
    alerts_[first] = {};
    alerts_[first].count = static_cast<u16>(hold.size());
    std::copy(hold.begin(), hold.end(), alerts_[first].rules);
    flow_of_[next_] = flow;
    next_++;
    return first;
  }
  // The batch, as a worker does it. Returns the packets that are in it still, by their numbers.
  std::vector<u32> retire() {
    finisher_.finish(batch_, region_.data());
    order_.begin();
    if (batch_.deferred) admitted_ += deferred_->admit(order_, [](FrameId id) { return u32{id}; });
    auto left = packets_in(batch_);
    order_.end(1, std::array{++sequence_}, false);
    return left;
  }
  // Packets that go on, which give their frames back.
  std::vector<u32> packets_in(const Batch& batch) {
    std::vector<u32> numbers;
    for (u32 i = 0; i < batch.count; i++) {
      if (!Batch::is_received(batch.ports[i])) continue;
      u32 number = 0;
      std::memcpy(&number, region_.data() + batch.slot->descriptors[i].offset, sizeof(number));
      numbers.push_back(number);
      verdicts_[number] = batch.slot->results[i].verdict;
      if (batch.slot->results[i].flags & XG_RES_PATCH) patched_[number] = batch.slot->patches[i];
      told_[number] = (batch.slot->results[i].flags & XG_RES_ALERTS) != 0 ? batch.slot->alerts[i].count : 0;
      for (u32 at = i;; at++) {
        give(batch.slot->descriptors[at].offset);
        if (!(batch.slot->descriptors[at].flags & XG_DESC_MORE)) break;
      }
      if (const Assembled* const datagram = batch.assembled_at(i)) {
        for (const auto& fragment : datagram->fragments) give(fragment.offset);
      }
    }
    return numbers;
  }
  void give(u64 offset) {
    const auto number = static_cast<u32>(offset / XG_CHUNK_SIZE);
    EXPECT_EQ(std::count(free_.begin(), free_.end(), number), 0) << "twice";
    free_.push_back(number);
  }
  std::vector<u32> released() {
    const auto place = [](FrameId id) { return u32{id}; };
    const Batch& batch = deferred_->release(order_, place);
    auto numbers = packets_in(batch);
    if (numbers.empty()) return numbers;
    // One of them is on its way for a while.
    order_.sent(kSlow);
    order_.end(0, batch.next_sequence, false);
    admitted_ -= deferred_->released(order_, place);
    EXPECT_LT(retired(), sequence_) << "it has not left";
    order_.completed(kSlow);
    return numbers;
  }
  std::vector<u32> released_until(std::size_t packets) {
    std::vector<u32> all;
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (all.size() < packets && std::chrono::steady_clock::now() < end)
      for (const u32 number : released()) all.push_back(number);
    return all;
  }
  // The sequence up to which everything has left.
  u32 retired() {
    order_.advance(1, [&](u32, u32 sequence) { retired_ = sequence; });
    return retired_;
  }

  std::vector<u8> region_;
  std::array<xg_descriptor, kFrames> descriptors_{};
  std::array<xg_result, kFrames> results_{};
  std::array<xg_edit, kFrames> edits_{};
  std::array<xg_adjust, kFrames> adjusts_{};
  std::array<xg_alerts, kFrames> alerts_{};
  std::array<xg_patch, kFrames> patches_{};
  gpu::Slot slot_{};
  Batch batch_;
  OrderLog order_{1, kFrames + 1, 0};
  std::atomic<bool> closed_{false};
  Asker* asker_ = nullptr;
  AlertRules rules_;
  RuleFinisher finisher_{rules_, 0};
  std::optional<DeferredPackets> deferred_;
  std::vector<u32> free_;
  u32 next_ = 0, admitted_ = 0, sequence_ = 0, retired_ = 0;
  std::map<u32, u32> flow_of_, verdicts_, told_;
  std::map<u32, xg_patch> patched_;
};

TEST_F(Deferred, WaitInTheirFlowsOrderAndNobodyElses) {
  closed_ = true;
  begin();
  add(7, {kDrops});          // 0
  add(8, {});                // 1
  add(7, {});                // 2
  add(7, {kAlerts}, false);  // 3
  add(8, {kPlain});          // 4
  EXPECT_THAT(retire(), ElementsAre(1, 4));
  begin();
  add(7, {kPlain});  // 5
  add(9, {});        // 6
  EXPECT_THAT(retire(), ElementsAre(6));
  EXPECT_TRUE(released().empty());
  EXPECT_EQ(deferred_->frames(), 4u);
  EXPECT_EQ(retired(), 0u) << "what waits has not left";
  closed_ = false;
  EXPECT_THAT(released_until(4), ElementsAre(0, 2, 3, 5));
  EXPECT_FALSE(deferred_->any());
  EXPECT_EQ(retired(), 2u);
  EXPECT_EQ(admitted_, 0u);
  EXPECT_EQ(verdicts_[0], XG_VERDICT(XG_DROP, 0u, u32{kStage}, kDrops + 1u));
  for (const u32 number : {1u, 2u, 3u, 4u, 5u, 6u}) EXPECT_EQ(verdicts_[number], kPassed) << number;
  EXPECT_EQ(told_, (std::map<u32, u32>{{0, 1}, {1, 0}, {2, 0}, {3, 0}, {4, 1}, {5, 1}, {6, 0}}));
  begin();
  add(7, {});
  EXPECT_THAT(retire(), ElementsAre(7)) << "nothing of its flow waits any more";
  EXPECT_EQ(free_.size(), kFrames);
}

// A batch that is decided may have to wait itself (FragmentFates) while those in front of its packets go on.
TEST_F(Deferred, GoOnThoughThoseInFrontWentBeforeTheirBatch) {
  begin();
  add(7, {kDrops}, false);
  EXPECT_TRUE(retire().empty());
  begin();
  add(7, {});
  finisher_.finish(batch_, region_.data());
  EXPECT_THAT(released_until(1), ElementsAre(0));
  EXPECT_TRUE(released().empty()) << "its batch is not routed";
  order_.begin();
  admitted_ += deferred_->admit(order_, [](FrameId id) { return u32{id}; });
  order_.end(1, std::array{++sequence_}, false);
  EXPECT_THAT(released_until(1), ElementsAre(1));
  EXPECT_FALSE(deferred_->any());
}

// A first fragment's fate is told before its batch goes on.
TEST_F(Deferred, FollowedFragmentsDoNotWait) {
  begin();
  const u32 at = add(7, {kDrops});
  auto* const metadata =
      reinterpret_cast<xg_metadata*>(region_.data() + descriptors_[at].offset - XG_METADATA_SIZE);
  metadata->flags = XG_PKT_TRACKED;
  EXPECT_THAT(retire(), ElementsAre(0));
  EXPECT_EQ(verdicts_[0], XG_VERDICT(XG_DROP, 0u, u32{kStage}, kRules + 1u)) << "it is not known";
}

// One flow does not take the room of all.
TEST_F(Deferred, OfOneFlowAreFew) {
  closed_ = true;
  begin();
  for (u32 i = 0; i < DeferredPackets::kOfOneFlow + 1; i++) add(7, {kDrops});
  add(8, {kDrops});
  EXPECT_THAT(retire(), ElementsAre(DeferredPackets::kOfOneFlow));
  EXPECT_EQ(finisher_.unasked(), 1u);
  closed_ = false;
  EXPECT_EQ(released_until(DeferredPackets::kOfOneFlow + 1).size(), DeferredPackets::kOfOneFlow + 1);
}

// Two flows whose hashes fall into one bucket.
TEST_F(Deferred, OfOtherFlowsDoNotWaitThoughTheirHashesAreAlike) {
  closed_ = true;
  begin();
  add(7, {kDrops}, false);
  add(7 + 4096, {});
  add(7, {});
  EXPECT_THAT(retire(), ElementsAre(1));
  closed_ = false;
  EXPECT_THAT(released_until(2), ElementsAre(0, 2));
  EXPECT_EQ(verdicts_[0], kPassed);
}

TEST_F(Deferred, OfSeveralBuffersAreAskedAboutAsAWhole) {
  begin();
  add(7, {kDrops}, true, 3);
  EXPECT_TRUE(retire().empty());
  EXPECT_EQ(admitted_, 3u);
  EXPECT_THAT(released_until(1), ElementsAre(0));
  EXPECT_EQ(asker_->asked_bytes, 3u * kBytes);
  EXPECT_EQ(finisher_.bounds_reached(), 3u * kBytes) << "what the thread says";
  EXPECT_EQ(free_.size(), kFrames);
}

TEST_F(Deferred, DatagramsKeepTheFragmentsThatTheyAreMadeOf) {
  begin();
  const u32 at = add(7, {kDrops}, true, 3);
  const u32 headers = static_cast<u32>(descriptors_[at].offset / XG_CHUNK_SIZE);
  // Its second and third buffers are the fragments' own.
  const xg_descriptor made_of[] = {of(headers + 100, 40), of(headers + 101, 40)};
  for (const auto& fragment : made_of) std::erase(free_, static_cast<u32>(fragment.offset / XG_CHUNK_SIZE));
  std::copy(std::begin(made_of), std::end(made_of), batch_.fragments.begin());
  batch_.assembled[batch_.assembled_count++] = {at, {batch_.fragments.data(), 2}};
  EXPECT_TRUE(retire().empty());
  batch_.fragments.assign(64, {});
  EXPECT_EQ(admitted_, 3u) << "the headers' frame, and the fragments'";
  EXPECT_THAT(released_until(1), ElementsAre(0));
  EXPECT_EQ(free_.size(), kFrames);
}

TEST_F(Deferred, ThatNobodyAnswersAnyMoreStayWhereTheyAre) {
  closed_ = true;
  begin();
  add(7, {kDrops}, true, 2);
  add(7, {});
  EXPECT_TRUE(retire().empty());
  closed_ = false;
  deferred_->stop();
  deferred_->abandon();
  EXPECT_FALSE(deferred_->any());
  EXPECT_EQ(admitted_, 3u) << "they are in batches, as whoever counts frames has it";
}

// The slot that a device has written it to is another batch's by then.
TEST_F(Deferred, KeepWhatProgramsHaveLeftOfThem) {
  const auto left = [](u32 number) {
    xg_patch patch;
    std::memset(&patch, 0x40 + static_cast<int>(number), sizeof(patch));
    return patch;
  };
  closed_ = true;
  begin();
  for (const u32 flow : {7u, 8u, 7u, 9u}) {
    const u32 at = add(flow, {kAlerts}, true, flow == 8 ? 3 : 1);
    if (flow == 9) continue;
    results_[at].flags |= XG_RES_PATCH;
    patches_[at] = left(next_ - 1);
  }
  EXPECT_TRUE(retire().empty());
  std::memset(static_cast<void*>(patches_.data()), 0xff, sizeof(patches_));
  closed_ = false;
  EXPECT_THAT(released_until(4), testing::UnorderedElementsAre(0, 1, 2, 3));
  ASSERT_EQ(patched_.size(), 3u) << "all but the last one";
  for (const auto& [number, patch] : patched_) {
    const xg_patch should = left(number);
    EXPECT_EQ(std::memcmp(&patch, &should, sizeof(patch)), 0) << number;
  }
}

class DeferredFew : public Deferred, public testing::WithParamInterface<bool> {
 protected:
  DeferredFew() : Deferred(2, GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Limit, DeferredFew, testing::Bool(),
                         [](const auto& one) { return one.param ? "drops" : "passes"; });

// Who makes many packets about which is asked does not get more of them past than the policy lets.
TEST_P(DeferredFew, WithoutRoomMeetThePolicysLimit) {
  closed_ = true;
  begin();
  add(7, {kDrops});                   // 0
  add(8, {kDrops});                   // 1
  add(9, {kDrops, kAlerts, kPlain});  // 2
  add(9, {kAlerts, kPlain});          // 3: it drops by no rule
  add(7, {});                         // 4: behind 0
  add(9, {});                         // 5
  EXPECT_THAT(retire(), ElementsAre(2, 3, 4, 5));
  const u32 limit = XG_VERDICT(XG_DROP, 0u, u32{kStage}, kRules + 1u);
  EXPECT_EQ(verdicts_[2], GetParam() ? limit : kPassed);
  EXPECT_EQ(told_[2], 1u) << "the rule that needs no asking";
  EXPECT_EQ(verdicts_[3], kPassed);
  EXPECT_EQ(verdicts_[4], GetParam() ? limit : kPassed);
  EXPECT_EQ(verdicts_[5], kPassed);
  EXPECT_EQ(finisher_.unasked(), 3u);
  closed_ = false;
  EXPECT_THAT(released_until(2), testing::UnorderedElementsAre(0, 1));
}

// Random flows, answers and batches, while the thread answers when it likes.
TEST_F(Deferred, KeepEachFlowsOrder) {
  std::mt19937 random(4);
  std::map<u32, u32> last;
  u32 gone = 0;
  const auto went = [&](const std::vector<u32>& numbers) {
    for (const u32 number : numbers) {
      const u32 flow = flow_of_[number];
      const auto before = last.find(flow);
      if (before != last.end()) {
        EXPECT_LT(before->second, number) << flow;
      }
      last[flow] = number;
      gone++;
    }
  };
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (gone < 20'000 && std::chrono::steady_clock::now() < end) {
    closed_ = random() % 256 == 0;
    begin();
    for (auto i = random() % 24; i > 0 && free_.size() > 8; i--) {
      std::vector<u16> hold;
      for (u16 rule = 0; rule < kRules; rule++)
        if (random() % 6 == 0) hold.push_back(rule);
      add(static_cast<u32>(random() % 24), hold, random() % 2 == 0, random() % 16 == 0 ? 3 : 1);
    }
    went(retire());
    if (random() % 2) went(released());
  }
  closed_ = false;
  while (deferred_->any()) went(released());
  EXPECT_EQ(gone, next_);
  EXPECT_EQ(free_.size(), kFrames);
  EXPECT_EQ(finisher_.unasked(), 0u);
  EXPECT_EQ(retired(), sequence_);
  EXPECT_GT(gone, 10'000u);
}

}  // namespace
}  // namespace xdpgpu::dataplane
