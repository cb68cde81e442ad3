// SPDX-License-Identifier: MIT
//
// Packets of a set taken by a warp together (gpu/stages/apply_many.h) against the same packets one after the
// other: answers and tables are equal to the last word. The warp is 32 contexts of one thread, each of which
// goes on to where lanes meet.
#include "gpu/stages/apply_many.h"

#include <gtest/gtest.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "gpu/pipelines.hpp"
#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {
namespace {

using Evict = gpu::TableSettings::Evict;
using OnDetect = gpu::DdosSettings::OnDetect;
using Direction = gpu::DdosSettings::Direction;
constexpr u32 kPackets = 6000;

class Lanes;

class Lane {
 public:
  Lane(Lanes& all, u32 number) : all_(all), number_(number) {}
  u32 lane() const { return number_; }
  u32 ballot(bool says);
  u32 same(u32 value);
  template <class T>
  T from(T value, u32 lane);
  u32 sum(u32 value);
  void sync() { (void)meet('s', 0); }

 private:
  using Values = std::array<u64, XG_LANES>;
  const Values& meet(char what, u64 value);

  Lanes& all_;
  u32 number_;
  u32 meetings_ = 0;
};

class Lanes {
 public:
  using Work = std::function<void(Lane&)>;

  // So often have they met.
  u64 meetings() const { return meetings_; }

  // All lanes do the work to its end.
  void run(const Work& work) {
    work_ = &work;
    for (u32 i = 0; i < XG_LANES; i++) {
      stacks_[i].resize(kStack);
      over_[i] = false;
      set_out(lanes_[i], stacks_[i]);
    }
    for (u32 left = XG_LANES; left != 0;) {
      for (at_ = 0; at_ < XG_LANES; at_++) {
        if (over_[at_]) continue;
        running_ = this;
        swapcontext(&turns_, &lanes_[at_]);
        if (over_[at_]) left--;
      }
      // Lanes that have met are at the same place.
      if (std::find(over_.begin(), over_.end(), false) == over_.end()) break;
      meetings_++;
      for (u32 i = 0; i < XG_LANES; i++) {
        ASSERT_FALSE(over_[i]) << "lane " << i << " does not come any more";
        ASSERT_EQ(met_at_[i], met_at_[0]) << "lane " << i << " is elsewhere";
      }
    }
  }

 private:
  friend class Lane;
  static constexpr std::size_t kStack = 256 * 1024;
  // Not in run(): getcontext() returns twice as far as a compiler knows.
  [[gnu::noinline]] void set_out(ucontext_t& lane, std::vector<char>& stack) {
    ASSERT_EQ(getcontext(&lane), 0);
    lane.uc_stack.ss_sp = stack.data();
    lane.uc_stack.ss_size = stack.size();
    lane.uc_link = &turns_;
    makecontext(&lane, &Lanes::begin, 0);
  }
  static void begin() {
    Lanes& self = *running_;
    const u32 number = self.at_;
    Lane lane(self, number);
    (*self.work_)(lane);
    self.over_[number] = true;
  }
  void pause(u32 lane) { swapcontext(&lanes_[lane], &turns_); }

  u64 meetings_ = 0;
  static inline Lanes* running_ = nullptr;
  const Work* work_ = nullptr;
  u32 at_ = 0;
  ucontext_t turns_{};
  std::array<ucontext_t, XG_LANES> lanes_{};
  std::array<std::vector<char>, XG_LANES> stacks_;
  std::array<bool, XG_LANES> over_{};
  std::array<char, XG_LANES> met_at_{};
  std::array<std::array<u64, XG_LANES>, 2> values_{};  // of one meeting and the next in turn
};

const Lane::Values& Lane::meet(char what, u64 value) {
  Values& values = all_.values_[meetings_++ % 2];
  values[number_] = value;
  all_.met_at_[number_] = what;
  all_.pause(number_);
  return values;
}

u32 Lane::ballot(bool says) {
  u32 all = 0;
  const Values& values = meet('b', says ? 1 : 0);
  for (u32 i = 0; i < XG_LANES; i++) all |= static_cast<u32>(values[i]) << i;
  return all;
}

u32 Lane::same(u32 value) {
  u32 all = 0;
  const Values& values = meet('m', value);
  for (u32 i = 0; i < XG_LANES; i++) all |= (values[i] == value ? 1u : 0u) << i;
  return all;
}

u32 Lane::sum(u32 value) {
  u32 all = 0;
  for (const u64 each : meet('+', value)) all += static_cast<u32>(each);
  return all;
}

template <class T>
T Lane::from(T value, u32 lane) {
  return static_cast<T>(meet('f', value)[lane]);
}

// What a packet brings to the stage.
struct Brought {
  u32 kind = 0;
  u32 body = 0;
  xg_touch touch = xg_untracked();
};

// One stage in each pipeline, with tables of its own.
class Tables {
 public:
  explicit Tables(const gpu::Pipelines& pipelines) : image_(pipelines.image()) {
    for (const gpu::StateSpec& spec : pipelines.states()) words_.emplace_back(spec.words);
    for (const auto& words : words_) {
      const u64 address = reinterpret_cast<u64>(words.data());
      addresses_.insert(addresses_.end(), {static_cast<u32>(address), static_cast<u32>(address >> 32), 0, 0});
    }
    batch_.image.v = image_.data();
    batch_.states.v = addresses_.data();
  }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  const xg_batch& batch() const { return batch_; }
  const std::vector<std::vector<u32>>& words() const { return words_; }

 private:
  std::vector<u32> image_;
  std::vector<std::vector<u32>> words_;
  std::vector<u32> addresses_;
  xg_batch batch_{};
};

std::vector<Brought> brought(const Tables& tables, const Traffic& traffic) {
  xg_batch batch = tables.batch();
  std::vector<xg_descriptor> descriptors = traffic.descriptors;
  batch.frames.v = reinterpret_cast<xg_word*>(traffic.region.base());
  batch.frames_bytes = traffic.region.size();
  batch.descriptors.v = descriptors.data();
  batch.count = static_cast<u32>(descriptors.size());
  batch.generation = kGeneration;
  std::vector<Brought> all;
  for (u32 i = 0; i < batch.count; i++) {
    xg_view seen{};
    if (!xg_begin(batch, i, seen)) continue;
    xg_way way = xg_way_from(0);
    xg_result result = xg_no_result();
    xg_set_out(batch, seen, way, result);
    if (way.kind == 0) continue;
    const xg_touch touch = xg_stage_touch(batch, way, seen, xg_packet_bytes(batch, i));
    if (touch.tag != XG_UNTRACKED) all.push_back({way.kind, way.body, touch});
  }
  return all;
}

gpu::DdosSettings ddos(u32 window_ms, u32 hold_ms, Evict evict) {
  gpu::DdosSettings settings;
  settings.window_ms = window_ms;
  settings.hold_ms = hold_ms;
  settings.table = {.entries = 16, .evict = evict};
  settings.thresholds = {20, 40, 20'000, 15, 5000, 10, 60, 10'000, 20, 8};
  settings.cache = true;
  return settings;
}

std::vector<gpu::PipelineSettings> pipelines() {
  gpu::DdosSettings sources = ddos(1000, 2000, Evict::fifo);
  sources.on_detect = OnDetect::drop_sources;
  sources.share_percent = 20;
  gpu::DdosSettings leaving = ddos(100, 5000, Evict::refuse);
  leaving.direction = Direction::out;
  leaving.on_detect = OnDetect::pass;
  leaving.release_percent = 100;
  gpu::DdosSettings high = ddos(10'000, 5, Evict::lfu);
  for (u64& threshold : high.thresholds) threshold *= 10;
  high.cache_ttl_ms = 3;
  gpu::RateLimitSettings limit;
  limit.packets_per_second = 5;
  limit.burst_packets = 3;
  limit.table = {.entries = 16, .evict = Evict::lru};
  return {{"sources", {sources}}, {"leaving", {leaving}}, {"high", {high}}, {"limit", {limit}}};
}

// Packets of one stage, all to one target, some times over: by and by all of their sources are known.
void aim(std::vector<Brought>& packets, u32 body) {
  std::erase_if(packets, [&](const Brought& packet) { return packet.body != body; });
  const xg_touch at = packets.front().touch;
  for (auto& [kind, its_body, touch] : packets) {
    touch.set = at.set;
    touch.tag = at.tag;
    std::copy_n(at.key, 4, touch.key);
    touch.key[9] = at.key[9];
  }
  const std::vector<Brought> once = packets;
  for (u32 again = 0; again < 7; again++) packets.insert(packets.end(), once.begin(), once.end());
}

// slow: as `floods`, one to three milliseconds apart; fast: some microseconds, so that whole runs come in one
// window; aimed: fast, and all to one target.
enum class Pace { slow, fast, aimed };
class Runs : public testing::TestWithParam<Pace> {};

TEST_P(Runs, AreThePacketsOneByOne) {
  Random random(test_seed());
  const auto settings = pipelines();
  const auto compiled = gpu::Pipelines::compile(settings, {{1, 2}});
  ASSERT_TRUE(compiled) << compiled.error();
  Tables one_by_one(**compiled), together(**compiled);
  auto packets = brought(one_by_one, floods(random, kPackets, static_cast<u32>(settings.size())));
  if (GetParam() == Pace::aimed) {
    const auto high = std::find_if(packets.begin(), packets.end(), [&](const Brought& packet) {
      return one_by_one.batch().image.v[packet.body + XG_BODY_EVICT] == XG_EVICT_LFU;
    });
    ASSERT_NE(high, packets.end());
    aim(packets, high->body);
  }
  if (GetParam() != Pace::slow) {
    u64 now = packets.front().touch.now;
    for (Brought& packet : packets) {
      now += random.one_in(GetParam() == Pace::aimed ? 3000 : 300)
                 ? random.bits() % (XG_DDOS_TICKS_PER_MS * 3000)
                 : random.below(static_cast<u32>(XG_DDOS_TICKS_PER_MS / 50));
      packet.touch.now = now;
    }
  }
  std::vector<u32> should, is(packets.size());
  for (const Brought& packet : packets)
    should.push_back(xg_stage_apply(one_by_one.batch(), packet.kind, packet.body, packet.touch));

  Lanes lanes;
  std::array<u32, XG_RECORD_CACHE_WORDS> words{};
  std::array<xg_record_cache, XG_LANES> caches;
  caches.fill(xg_empty_record_cache({words.data()}));
  for (std::size_t first = 0; first < packets.size();) {
    // Any number of lanes, any of them idle.
    std::array<std::size_t, XG_LANES> mine{};
    mine.fill(packets.size());
    for (std::size_t& at : mine)
      if (!random.one_in(9) && first < packets.size()) at = first++;
    const bool clears = random.one_in(3) || first == packets.size();
    lanes.run([&](Lane& lane) {
      const std::size_t at = mine[lane.lane()];
      const bool has = at < packets.size();
      const Brought packet = has ? packets[at] : Brought{};
      const u32 outcome = xg_apply_lanes(lane, together.batch(), has, packet.kind, packet.body, packet.touch,
                                         caches[lane.lane()]);
      // What is on the cache may be there for the next ones.
      if (clears) xg_write_back(lane, together.batch(), caches[lane.lane()]);
      if (has) is[at] = outcome;
    });
    if (HasFatalFailure()) return;
  }
  // Who takes them one by one meets some fifty times a packet.
  if (GetParam() == Pace::aimed) {
    EXPECT_LT(lanes.meetings(), 12 * packets.size());
  }
  RecordProperty("meetings", std::to_string(lanes.meetings()));
  RecordProperty("packets", std::to_string(packets.size()));
  u32 dropped = 0;
  for (std::size_t i = 0; i < packets.size(); i++) {
    dropped +=
        packets[i].kind == XG_KIND_STATEFUL + XG_KIND_DDOS && (should[i] & XG_DDOS_OUTCOME) == XG_DDOS_DROPPED
            ? 1
            : 0;
    ASSERT_EQ(is[i], should[i]) << "packet " << i << ", kind " << packets[i].kind;
  }
  EXPECT_GT(dropped, 0u);
  for (std::size_t table = 0; table < together.words().size(); table++)
    for (std::size_t word = 0; word < together.words()[table].size(); word++)
      ASSERT_EQ(together.words()[table][word], one_by_one.words()[table][word])
          << "table " << table << ", word " << word;
}

INSTANTIATE_TEST_SUITE_P(Paces, Runs, testing::Values(Pace::slow, Pace::fast, Pace::aimed),
                         [](const auto& tested) {
                           return tested.param == Pace::slow   ? "slow"
                                  : tested.param == Pace::fast ? "fast"
                                                               : "aimed";
                         });

}  // namespace
}  // namespace xdpgpu::tests
