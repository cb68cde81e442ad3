// SPDX-License-Identifier: MIT
//
// The host changes what programs have in their maps, on every device, between batches and while they run:
// what it put there is what packets find, and nothing that they counted is lost.
#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "gpu/changed_words.hpp"
#include "gpu/faults.hpp"
#include "gpu/program_counts.hpp"
#include "gpu/program_state.hpp"
#include "gpu/program_tables.hpp"
#include "gpu/stages/table.h"
#include "gpu/standby.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"
#include "tests/backends/translating.hpp"
#include "tests/kernel/programs/counting.hpp"
#include "tests/kernel/programs/random.hpp"

namespace xdpgpu::tests {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the assembler's words
using gpu::ProgramMapsPlace;
using gpu::programs::DeviceState;

constexpr u32 kPackets = 48;
constexpr u32 kActions = 0, kCounts = 1, kAnswers = 2;  // the maps
using gpu::programs::Taking;
constexpr std::array kWays{Taking::counting, Taking::by_key, Taking::in_order};
constexpr const char* name_of(Taking how) {
  return how == Taking::in_order ? "in order" : how == Taking::by_key ? "by key" : "counting";
}

Bytes bytes_of(u64 number, u32 count) {
  Bytes bytes(count);
  std::memcpy(bytes.data(), &number, count);
  return bytes;
}
u64 number_of(const Bytes& bytes) {
  u64 number = 0;
  std::memcpy(&number, bytes.data(), std::min(sizeof(number), bytes.size()));
  return number;
}

// Answers with what the hash `actions` has for the packet's first byte, XDP_PASS where it has nothing; and
// counts the packets, by that byte's last bit. by_key: it keeps in an LRU hash how often it answered so, by a
// load and a store. in_order: it looks at its counts, which nobody sees beforehand
// that it makes nothing of.
gpu::ProgramSettings by_actions(Taking how) {
  const bool in_order = how == Taking::in_order;
  Assembly a;
  a(load(BPF_W, r7, r1, 0), load(BPF_B, r6, r7, 0), move(r2, r6), alu_k(BPF_AND, r2, 1),
    store(BPF_W, r10, -4, r2), map(r1, kCounts), move(r2, r10), alu_k(BPF_ADD, r2, -4),
    call(BPF_FUNC_map_lookup_elem));
  a.to("counted", jump_k(BPF_JEQ, r0, 0));
  a(move_k(r1, 1), atomically(BPF_DW, in_order ? BPF_ADD | BPF_FETCH : BPF_ADD, r0, 0, r1));
  if (in_order) a.to("counted", jump_k(BPF_JEQ, r1, 0));
  a.label("counted")(store(BPF_W, r10, -4, r6), map(r1, kActions), move(r2, r10), alu_k(BPF_ADD, r2, -4),
                     call(BPF_FUNC_map_lookup_elem), move(r1, r0), move_k(r0, XDP_PASS));
  a.to("end", jump_k(BPF_JEQ, r1, 0));
  a(load(BPF_DW, r0, r1, 0));
  a.label("end");
  std::vector<Map> maps{map_of("actions", BPF_MAP_TYPE_HASH, 4, 8, 2'000),
                        map_of("counts", BPF_MAP_TYPE_ARRAY, 4, 8, 2)};
  if (how == Taking::by_key) {
    a(move(r8, r0), store(BPF_DW, r10, -16, r8), store_k(BPF_DW, r10, -24, 1), map(r1, kAnswers),
      move(r2, r10), alu_k(BPF_ADD, r2, -16), call(BPF_FUNC_map_lookup_elem));
    a.to("known", jump_k(BPF_JNE, r0, 0));
    a(map(r1, kAnswers), move(r2, r10), alu_k(BPF_ADD, r2, -16), move(r3, r10), alu_k(BPF_ADD, r3, -24),
      move_k(r4, 0), call(BPF_FUNC_map_update_elem));
    a.to("over", always());
    a.label("known")(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1));
    a.label("over")(move(r0, r8));
    maps.push_back(map_of("answers", BPF_MAP_TYPE_LRU_HASH, 8, 8, 1'024));
  }
  a(leave());
  gpu::ProgramSettings settings;
  settings.object = "here";
  settings.steps = 256;
  settings.program = std::make_shared<const gpu::programs::Program>(
      gpu::programs::Program{.name = "by actions", .instructions = a.code(), .maps = maps, .license = "GPL"});
  EXPECT_EQ(gpu::programs::how_taken(*settings.program).how, how);
  return settings;
}

// A pipeline of that program on a device, and the packets 0 to kPackets - 1, whose first byte is their
// number.
class Edited {
 public:
  Edited(gpu::Device& device, FrameRegion& region, Taking how)
      : device_(device),
        pipelines_(gpu::Pipelines::compile({{"p", {by_actions(how)}}}).value()),
        place_(gpu::program_maps_places(*pipelines_).at(0)) {
    const auto loaded = device.load(kGeneration, pipelines_);
    EXPECT_TRUE(loaded) << loaded.error();
    for (u32 i = 0; i < kPackets; i++) {
      const u64 at = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
      xg_metadata metadata{};
      metadata.generation = kGeneration;
      std::memset(region.base() + at, static_cast<int>(i), 60);
      std::memcpy(region.base() + at - sizeof(metadata), &metadata, sizeof(metadata));
      packets.push_back({at, 60, 0});
    }
  }
  ~Edited() { device_.unload(kGeneration); }

  // what(DeviceState&)
  template <class What>
  void edit(What what) {
    u32 times = 0;
    const auto edited = device_.edit_state(kGeneration, *place_.table, [&](std::span<u32> words) {
      times++;
      EXPECT_EQ(words.size(), pipelines_->states()[*place_.table].words);
      DeviceState state(place_.tables, words.subspan(place_.first, place_.words));
      what(state);
    });
    ASSERT_TRUE(edited) << edited.error();
    EXPECT_EQ(times, 1u);
  }
  static u64 counted(const DeviceState& state, u32 map = kCounts) {
    u64 sum = 0;
    for (const auto& entry : state.entries(map)) sum += number_of(entry.values[0]);
    return sum;
  }
  u64 counted(u32 map = kCounts) const {
    std::vector<u32> words(place_.words);
    const auto read = device_.read_state(kGeneration, *place_.table, place_.first, words);
    EXPECT_TRUE(read) << read.error();
    return counted(DeviceState(place_.tables, words), map);
  }

  std::vector<xg_descriptor> packets;

 private:
  gpu::Device& device_;
  std::shared_ptr<const gpu::Pipelines> pipelines_;
  ProgramMapsPlace place_;
};

u32 action_of(const Answer& answer) { return XG_VERDICT_ACTION(answer.verdict); }
int put(DeviceState& state, u32 key, u64 action) {
  return state.update(kActions, bytes_of(key, 4), bytes_of(action, 8));
}

class ProgramsEdited : public testing::TestWithParam<Target> {
 protected:
  FrameRegion region_{u64{kPackets} * XG_CHUNK_SIZE};
};

TEST_P(ProgramsEdited, WhatIsPutInChangedAndTakenAwayIsWhatPacketsFind) {
  XDPGPU_OPEN_OR_SKIP(GetParam(), region_.base(), region_.size());
  const auto queue = device->open_queue(GetParam().queue(kPackets, 2)).value();
  for (const Taking how : kWays) {
    SCOPED_TRACE(fmt::format("{}, {}", device->info().description, name_of(how)));
    Edited edited(*device, region_, how);
    std::vector<u64> actions(kPackets, XDP_PASS);
    u64 sum = 0;
    const auto come = [&] {
      const Answers answers = judge(*queue, edited.packets, 20, kGeneration);
      ASSERT_EQ(answers.size(), kPackets);
      for (u32 i = 0; i < kPackets; i++) EXPECT_EQ(action_of(answers[i]), actions[i]) << i;
      sum += kPackets;
      EXPECT_EQ(edited.counted(), sum);
      if (how == Taking::by_key) {
        EXPECT_EQ(edited.counted(kAnswers), sum % 1'000'000'000'000);
      }
    };
    come();
    // Put in: many, so that tables have to be reached from end to end.
    edited.edit([&](DeviceState& state) {
      EXPECT_EQ(Edited::counted(state), sum);
      for (u32 key = 0; key < 2'000; key += 2) ASSERT_EQ(put(state, key, XDP_DROP), 0) << key;
    });
    for (u32 i = 0; i < kPackets; i += 2) actions[i] = XDP_DROP;
    come();
    // Changed, taken away and put in at once; and a count that somebody adds to.
    edited.edit([&](DeviceState& state) {
      EXPECT_EQ(Edited::counted(state), sum);
      EXPECT_EQ(put(state, 0, XDP_TX), 0);
      EXPECT_EQ(state.erase(kActions, bytes_of(2, 4)), 0);
      EXPECT_EQ(state.erase(kActions, bytes_of(3, 4)), -ENOENT);
      EXPECT_EQ(put(state, 5, XDP_DROP), 0);
      const u64 first = number_of(state.entries(kCounts).at(0).values[0]);
      EXPECT_EQ(state.update(kCounts, bytes_of(0, 4), bytes_of(first + 1'000'000'000'000, 8)), 0);
    });
    actions[0] = XDP_TX;
    actions[2] = XDP_PASS;
    actions[5] = XDP_DROP;
    sum += 1'000'000'000'000;
    come();
    // Nothing.
    edited.edit([](DeviceState&) {});
    come();
    edited.edit([&](DeviceState& state) {
      EXPECT_EQ(state.entries(kActions).size(), 1'000u);
      for (const auto& entry : state.entries(kActions)) EXPECT_EQ(state.erase(kActions, entry.key), 0);
    });
    std::fill(actions.begin(), actions.end(), XDP_PASS);
    come();
    if (HasFailure()) return;
  }
}

// Two queues bring packets all along, while the host turns all of their actions round and round, and adds to
// their counts.
TEST_P(ProgramsEdited, WhilePacketsComeEachFindsWhatWasThereBeforeOrAfter) {
  XDPGPU_OPEN_OR_SKIP(GetParam(), region_.base(), region_.size());
  const u32 edits = device->info().software && GetParam().kind != "cpu" ? 6 : 30;
  for (const Taking how : kWays) {
    SCOPED_TRACE(fmt::format("{}, {}", device->info().description, name_of(how)));
    Edited edited(*device, region_, how);
    const auto action_after = [](u32 edits_made) { return u64{XDP_DROP} + edits_made % 3; };
    // Edits that are begun, and that are made.
    std::atomic<u32> begun{0}, made{0};
    std::atomic<bool> over{false};
    std::atomic<u64> sent{0}, wrong{0};
    std::array<std::atomic<u64>, 2> batches{};
    const auto change = [&](u32 number) {
      begun = number;
      edited.edit([&](DeviceState& state) {
        for (u32 key = 0; key < kPackets; key++) EXPECT_EQ(put(state, key, action_after(number)), 0);
        const u64 first = number_of(state.entries(kCounts).at(1).values[0]);
        EXPECT_EQ(state.update(kCounts, bytes_of(1, 4), bytes_of(first + 1'000'000, 8)), 0);
      });
      made = number;
    };
    change(1);
    std::array<std::unique_ptr<gpu::Queue>, 2> queues;
    for (auto& queue : queues) queue = device->open_queue(GetParam().queue(kPackets, 2)).value();
    const auto bring = [&](u32 number) {
      gpu::Queue& queue = *queues[number];
      std::array<u32, 2> made_before{};
      const auto take = [&](gpu::Slot* slot) {
        if (slot == nullptr || slot->failed) return wrong += 1'000'000, false;
        const u32 last = begun;
        for (u32 i = 0; i < slot->count; i++) {
          bool is_one = false;
          for (u32 edit = made_before[slot->index]; edit <= last; edit++)
            is_one |= XG_VERDICT_ACTION(slot->results[i].verdict) == action_after(edit);
          wrong += is_one ? 0 : 1;
        }
        batches[number]++;
        queue.release(slot);
        return true;
      };
      while (!over && wrong == 0) {
        gpu::Slot* slot = queue.acquire();
        if (slot == nullptr) {
          if (!take(wait(queue))) return;
          continue;
        }
        std::copy(edited.packets.begin(), edited.packets.end(), slot->descriptors);
        made_before[slot->index] = made;
        if (queue.submit(slot, kPackets, kGeneration) != gpu::Submit::ok) {
          wrong += 1'000'000;
          return;
        }
        sent += kPackets;
      }
      while (queue.in_flight() > 0)
        if (!take(wait(queue))) return;
    };
    std::thread first([&] { bring(0); }), second([&] { bring(1); });
    for (u32 number = 2; number < edits + 2 && wrong == 0; number++) {
      change(number);
      // Whole batches come between two edits: they have to find the one that is made.
      const u64 seen[] = {batches[0] + 3, batches[1] + 3};
      while ((batches[0] < seen[0] || batches[1] < seen[1]) && wrong == 0) std::this_thread::yield();
    }
    over = true;
    first.join();
    second.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(edited.counted(), sent + made * u64{1'000'000});
    // Each by what it has answered, whatever was edited between its key and its turn.
    if (how == Taking::by_key) {
      EXPECT_EQ(edited.counted(kAnswers), sent);
    }
    if (HasFailure()) return;
  }
}

TEST_P(ProgramsEdited, WhereThereIsNoSuchTableNothingIsDone) {
  XDPGPU_OPEN_OR_SKIP(GetParam(), region_.base(), region_.size());
  Edited edited(*device, region_, Taking::counting);
  const auto why = [&](u32 generation, u32 table) {
    const auto done = device->edit_state(generation, table, [](std::span<u32>) { ADD_FAILURE(); });
    return done ? std::string("done") : done.error();
  };
  EXPECT_EQ(why(kGeneration, 1), "the pipelines have 1 tables, there is no number 1");
  EXPECT_EQ(why(kGeneration, ~0u), "the pipelines have 1 tables, there is no number 4294967295");
  EXPECT_EQ(why(kGeneration + 1, 0), fmt::format("generation {} is not loaded", kGeneration + 1));
}

// A table of many sets, of another kind of stage.
TEST_P(ProgramsEdited, AnyTableIsChanged) {
  Random random(7);
  const Traffic traffic = random_traffic(random, 40, 1);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  gpu::RateLimitSettings limit;
  limit.packets_per_second = 1;
  limit.burst_packets = 2;
  limit.table.entries = 20'000;
  ASSERT_TRUE(device->load(kGeneration, gpu::Pipelines::compile({{"p", {limit}}}).value()));
  const auto queue = device->open_queue(GetParam().queue(64, 2)).value();
  const auto come = [&] { return judge(*queue, traffic.descriptors, 64, kGeneration); };
  const Answers fresh = come();
  EXPECT_FALSE(std::ranges::equal(come(), fresh, equal));
  u64 used = 0;
  ASSERT_TRUE(device->edit_state(kGeneration, 0, [&](std::span<u32> words) {
    used = static_cast<u64>(std::count_if(words.begin(), words.end(), [](u32 word) { return word != 0; }));
    std::ranges::fill(words.subspan(XG_TABLE_HEAD), 0);
  }));
  EXPECT_GT(used, 10u);
  EXPECT_TRUE(std::ranges::equal(come(), fresh, equal));
}

INSTANTIATE_TEST_SUITE_P(Backends, ProgramsEdited, testing::ValuesIn(all_targets()), target_name);

// Of whoever decides. What was put in at the device is not there where it has failed.
TEST(ProgramsEditedAtAStandby, ItIsWhoDecides) {
  FrameRegion region{u64{kPackets} * XG_CHUNK_SIZE};
  auto faulty = gpu::with_fault(gpu::open_device("cpu").value(), "refuse:3").value();
  const auto device = gpu::with_standby(std::move(faulty), gpu::open_device("cpu").value(), {});
  ASSERT_TRUE(device->register_frames(region.base(), region.size(), gpu::Frames::in_place));
  Edited edited(*device, region, Taking::in_order);
  const auto queue = device->open_queue({kPackets, 2, gpu::Drive::launched}).value();
  const auto first_action = [&] {
    return action_of(judge(*queue, edited.packets, kPackets, kGeneration).at(0));
  };
  const auto drop_first = [&] {
    edited.edit([](DeviceState& state) { EXPECT_EQ(put(state, 0, XDP_DROP), 0); });
  };
  EXPECT_EQ(first_action(), u32{XDP_PASS});
  drop_first();
  EXPECT_EQ(first_action(), u32{XDP_DROP});
  EXPECT_EQ(device->degraded(), "");
  EXPECT_EQ(first_action(), u32{XDP_PASS});
  EXPECT_NE(device->degraded(), "");
  drop_first();
  EXPECT_EQ(first_action(), u32{XDP_DROP});
}

// Where a program changes no map they are in the image.
TEST(ProgramMapsPlaces, AreInTablesAndInTheImage) {
  gpu::ProgramSettings reads = by_actions(Taking::counting);
  Assembly a;
  a(store_k(BPF_W, r10, -4, 0), map(r1, 1), move(r2, r10), alu_k(BPF_ADD, r2, -4),
    call(BPF_FUNC_map_lookup_elem), move_k(r0, XDP_PASS), leave());
  auto program = std::make_shared<gpu::programs::Program>(*reads.program);
  program->instructions = a.code();
  reads.program = program;
  reads.contents = std::make_shared<const std::vector<gpu::ProgramMapContents>>(
      1, gpu::ProgramMapContents{.map = kActions, .entries = {{bytes_of(77, 4), bytes_of(XDP_TX, 8)}}});
  gpu::RateLimitSettings limit;
  limit.packets_per_second = 1;
  limit.burst_packets = 2;
  const auto compiled =
      gpu::Pipelines::compile({{"none", {limit}}, {"p", {reads, limit, by_actions(Taking::in_order)}}});
  ASSERT_TRUE(compiled) << compiled.error();
  const auto& pipelines = *compiled;
  const auto places = gpu::program_maps_places(*pipelines);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].pipeline, 1u);
  EXPECT_EQ(places[0].stage, 0u);
  EXPECT_FALSE(places[0].table);
  std::vector<u32> image(pipelines->image());
  DeviceState in_image(places[0].tables, std::span(image).subspan(places[0].first, places[0].words));
  const auto there = in_image.entries(kActions);
  ASSERT_EQ(there.size(), 1u);
  EXPECT_EQ(number_of(there[0].key), 77u);
  EXPECT_EQ(number_of(there[0].values[0]), u64{XDP_TX});
  EXPECT_EQ(places[1].pipeline, 1u);
  EXPECT_EQ(places[1].stage, 2u);
  ASSERT_TRUE(places[1].table);
  const gpu::StateSpec& spec = pipelines->states().at(*places[1].table);
  EXPECT_EQ(spec.pipeline, "p");
  EXPECT_EQ(spec.stage, 2u);
  EXPECT_EQ(places[1].first + places[1].words, spec.words);
}

TEST(ChangedWords, AreInFewPieces) {
  std::vector<u32> before(5 * gpu::kWordsAPiece), after = before;
  const auto pieces = [&] {
    std::vector<std::pair<u64, u64>> all;
    gpu::each_change(before, after, [&](u64 first, u64 count) { all.emplace_back(first, count); });
    return all;
  };
  using Pieces = std::vector<std::pair<u64, u64>>;
  EXPECT_EQ(pieces(), Pieces{});
  after[0] = after[7] = 1;
  EXPECT_EQ(pieces(), (Pieces{{0, 8}}));
  after[8 + gpu::kWordsAPiece] = 1;
  EXPECT_EQ(pieces(), (Pieces{{0, 8}, {8 + gpu::kWordsAPiece, 1}}));
  after[7 + gpu::kWordsAPiece] = 1;
  EXPECT_EQ(pieces(), (Pieces{{0, 9 + gpu::kWordsAPiece}}));
  after = before;
  after.back() = 1;
  EXPECT_EQ(pieces(), (Pieces{{before.size() - 1, 1}}));
  before.clear();
  after.clear();
  EXPECT_EQ(pieces(), Pieces{});
}

}  // namespace
}  // namespace xdpgpu::tests
