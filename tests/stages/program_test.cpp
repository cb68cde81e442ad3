// SPDX-License-Identifier: MIT
//
// `program` on every device: what each packet's program answers is what the sequential definition says, its
// maps are the same at the end, and go on from policy to policy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "gpu/program_code.hpp"
#include "gpu/program_counts.hpp"
#include "gpu/program_state.hpp"
#include "gpu/reference/program.hpp"
#include "gpu/reference/table.hpp"
#include "gpu/stages/table.h"
#include "gpu/table_report.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"
#include "tests/backends/translating.hpp"
#include "tests/kernel/programs/counting.hpp"
#include "tests/kernel/programs/keyed.hpp"
#include "tests/kernel/programs/random.hpp"

namespace xdpgpu::tests {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the assembler's words
using gpu::ProgramSettings;
using gpu::programs::DeviceState;
using gpu::programs::Program;
using gpu::reference::ProgramMaps;
using gpu::reference::ProgramSet;

constexpr std::array<u64, 2> kKey{0x0123456789abcdef, 0xfedcba9876543210};
constexpr gpu::CompileOptions kOptions{kKey};
constexpr u32 kPackets = 48;
constexpr u32 kSteps = 512;

ProgramSettings settings_of(Code code, std::vector<Map> maps = {}, u32 steps = kSteps) {
  ProgramSettings settings;
  settings.object = "here";
  settings.steps = steps;
  settings.program = std::make_shared<const Program>(
      Program{.name = "test", .instructions = std::move(code), .maps = std::move(maps), .license = "GPL"});
  return settings;
}

bool is_by_key(const ProgramSettings& settings) {
  return gpu::programs::how_taken(*settings.program).how == gpu::programs::Taking::by_key;
}

struct Received {
  std::vector<u8> bytes;
  xg_metadata metadata{};
};

// What a map has: by key, its value; arrays' zeros left out.
using Contents = std::map<std::vector<u8>, std::vector<u8>>;
void put(Contents& to, const Map& map, const std::vector<u8>& key, const std::vector<u8>& value) {
  const bool is_array = map.type == BPF_MAP_TYPE_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_ARRAY;
  if (is_array && std::ranges::all_of(value, [](u8 byte) { return byte == 0; })) return;
  to[key] = value;
}

// A pipeline of one program, on a device and by definition.
class Twins {
 public:
  explicit Twins(gpu::Device& device, FrameRegion& region, const gpu::QueueOptions& options)
      : device_(device),
        region_(region),
        queue_(device.open_queue(options).value()),
        other_(device.open_queue(options).value()) {}

  // Where the maps are those of the policy before they go on.
  void load(const ProgramSettings& settings) {
    const bool goes_on = pipelines_ && gpu::remembers(settings_) && gpu::remembers(settings) &&
                         settings.program->maps == settings_.program->maps &&
                         is_by_key(settings) == is_by_key(settings_) && !settings.contents &&
                         !settings_.contents;
    settings_ = settings;
    auto pipelines = gpu::Pipelines::compile({{"p", {settings}}}, kOptions);
    ASSERT_TRUE(pipelines) << pipelines.error();
    pipelines_ = *pipelines;
    const auto loaded = device_.load(++generation_, pipelines_);
    ASSERT_TRUE(loaded) << loaded.error();
    if (generation_ > 1) device_.unload(generation_ - 1);
    if (!goes_on) {
      maps_ = std::make_unique<ProgramMaps>(settings.program->maps, is_by_key(settings) ? &kKey : nullptr);
      if (settings.contents)
        for (const auto& one : *settings.contents)
          for (const auto& [key, value] : one.entries) {
            if (settings.program->maps[one.map].type == BPF_MAP_TYPE_ARRAY_OF_MAPS)
              maps_->put(one.map, key[0], value[0]);
            else
              (*maps_)[one.map].update(key, value, 0, 0);
          }
    }
    set_.emplace(*maps_);
    for (const Program& part : gpu::programs::parts_of(*settings.program)) set_->add(part);
  }

  // In batches of so many. by_both: one half by one queue, while the other half comes by another.
  void come(const std::vector<Received>& packets, u32 batch, bool by_both = false) {
    std::vector<xg_descriptor> descriptors;
    std::vector<Expected> expected;
    for (std::size_t i = 0; i < packets.size(); i++) {
      const u64 at = i * XG_CHUNK_SIZE + XG_FRAME_DATA + i % 4;
      Received packet = packets[i];
      packet.metadata.generation = generation_;
      std::memcpy(region_.base() + at, packet.bytes.data(), packet.bytes.size());
      std::memcpy(region_.base() + at - sizeof(xg_metadata), &packet.metadata, sizeof(xg_metadata));
      descriptors.push_back({at, static_cast<u32>(packet.bytes.size()), 0});
      expected.push_back(answer_to(packet));
    }
    const auto middle =
        descriptors.begin() + (by_both ? static_cast<std::ptrdiff_t>(descriptors.size() / 2) : 0);
    const std::vector<xg_descriptor> first(descriptors.begin(), middle), second(middle, descriptors.end());
    Answers answers, others;
    std::thread beside([&] {
      if (!first.empty()) answers = judge(*other_, first, batch, generation_);
    });
    others = judge(*queue_, second, batch, generation_);
    beside.join();
    answers.insert(answers.end(), others.begin(), others.end());
    ASSERT_EQ(answers.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); i++) {
      const std::string which = fmt::format("packet {} of {}, batches of {}\n", i, expected.size(), batch);
      ASSERT_EQ(answers[i].verdict, expected[i].verdict)
          << which << test::text_of(settings_.program->instructions);
      ASSERT_EQ((answers[i].flags & XG_RES_PATCH) != 0, expected[i].patch.has_value()) << which;
      const xg_patch patch = expected[i].patch.value_or(xg_patch{});
      ASSERT_EQ(std::memcmp(&answers[i].patch, &patch, sizeof(patch)), 0)
          << which << test::text_of(settings_.program->instructions);
    }
  }

  void compare_maps() {
    if (pipelines_->states().empty()) return;
    const gpu::StateSpec& spec = pipelines_->states()[0];
    std::vector<u32> words(spec.first_words);
    const auto read = device_.read_state(generation_, 0, spec.words - spec.first_words, words);
    ASSERT_TRUE(read) << read.error();
    const auto image = gpu::programs::image_of(gpu::programs::parts_of(*settings_.program),
                                               {.queues = 1, .key = kKey, .by_key = is_by_key(settings_)})
                           .value();
    const DeviceState state(image.tables, words);
    const auto& maps = settings_.program->maps;
    for (u32 number = 0; number < maps.size(); number++) {
      // Nobody changes these.
      if (maps[number].type == BPF_MAP_TYPE_ARRAY_OF_MAPS || maps[number].type == BPF_MAP_TYPE_PROG_ARRAY)
        continue;
      Contents ours, theirs;
      for (const auto& entry : state.entries(number)) put(ours, maps[number], entry.key, entry.values[0]);
      for (const auto& entry : (*maps_)[number].entries()) {
        const auto value = entry.values.find(0);
        put(theirs, maps[number], entry.key,
            value != entry.values.end() ? value->second : std::vector<u8>(maps[number].value_bytes));
      }
      EXPECT_EQ(ours, theirs) << maps[number].name << "\n" << test::text_of(settings_.program->instructions);
    }
  }

  std::map<std::string_view, u64> outcomes() {
    std::map<std::string_view, u64> some;
    const auto reports = gpu::report_tables(device_, generation_, *pipelines_, 0).value();
    for (const auto& [name, count] : reports[0].outcomes)
      if (count != 0) some[name] = count;
    return some;
  }

  // How many packets got each verdict's rule, of those that were dropped; how many are sent to another
  // interface, and how many go on changed.
  std::map<u32, u32> dropped;
  u32 redirected = 0, changed = 0;

 private:
  struct Expected {
    u32 verdict = 0;
    std::optional<xg_patch> patch{};
  };
  // Action and port of what goes on; XG_DROP: it does not.
  u32 way_of(const gpu::reference::ProgramAnswer& answer) const {
    if (answer.action == XDP_PASS || answer.action == XDP_TX) return answer.action;
    if (answer.action != XDP_REDIRECT || !answer.redirect || answer.redirect->flags != 0) return XG_DROP;
    // Another processor's is here.
    if (answer.redirect->map && settings_.program->maps[*answer.redirect->map].type == BPF_MAP_TYPE_CPUMAP)
      return XG_PASS;
    const auto to =
        std::ranges::find(settings_.interfaces, answer.redirect->ifindex, &gpu::ProgramInterface::ifindex);
    return to == settings_.interfaces.end() ? XG_DROP : XG_VERDICT(XG_REDIRECT, to->port, 0, 0);
  }
  Expected answer_to(const Received& packet) {
    std::vector<u8> chosen_by(16);
    std::memcpy(chosen_by.data(), &packet.metadata.rx_time_ns, 8);
    std::memcpy(&chosen_by[8], &packet.metadata.sequence, 4);
    std::memcpy(&chosen_by[12], &packet.metadata.flow_hash, 4);
    const auto& interfaces = settings_.interfaces;
    const auto by = std::ranges::find(interfaces, u32{packet.metadata.port}, &gpu::ProgramInterface::port);
    const auto answer = set_->run(0, {.bytes = packet.bytes,
                                      .ingress_ifindex = by == interfaces.end() ? 0 : by->ifindex,
                                      .time_ns = packet.metadata.rx_time_ns,
                                      .random = static_cast<u32>(gpu::reference::siphash13(chosen_by, kKey)),
                                      .most_steps = settings_.steps,
                                      .most_lines = XG_PATCH_LINES});
    using gpu::ProgramEnd;
    static const std::map<ProgramFault, ProgramEnd> kEnds{
        {ProgramFault::out_of_bounds, ProgramEnd::out_of_bounds},
        {ProgramFault::read_only, ProgramEnd::read_only},
        {ProgramFault::wrong_map, ProgramEnd::wrong_map},
        {ProgramFault::outside_program, ProgramEnd::outside},
        {ProgramFault::too_many_instructions, ProgramEnd::too_many_steps},
        {ProgramFault::too_many_calls, ProgramEnd::too_many_calls},
        {ProgramFault::too_much_written, ProgramEnd::too_much_written}};
    u32 rule = 1;
    if (answer.fault != ProgramFault::none) rule = 2 + static_cast<u32>(kEnds.at(answer.fault));
    const u32 goes_on = answer.fault != ProgramFault::none ? XG_DROP : way_of(answer);
    // Of those that grow the longest packet that a frame has room for.
    const bool fits = !answer.is_changed || answer.packet.size() <= packet.bytes.size() ||
                      answer.change.end <= 256 + XG_FRAME_MAX;
    if (goes_on != XG_DROP && fits) {
      if (XG_VERDICT_ACTION(goes_on) == XG_REDIRECT) redirected++;
      if (!answer.is_changed) return {goes_on == XG_PASS ? XG_PASS : goes_on | 1u << 8};
      changed++;
      return {goes_on | 1u << 8, answer.change};
    }
    if (goes_on != XG_DROP)
      rule = 2 + static_cast<u32>(ProgramEnd::too_large);
    else if (answer.fault == ProgramFault::none && answer.action != XDP_DROP)
      rule = 2 + static_cast<u32>(answer.action == XDP_ABORTED    ? ProgramEnd::aborted
                                  : answer.action == XDP_REDIRECT ? ProgramEnd::redirect
                                                                  : ProgramEnd::unknown_action);
    dropped[rule]++;
    return {XG_VERDICT(XG_DROP, 0, 1, rule)};
  }

  gpu::Device& device_;
  FrameRegion& region_;
  std::unique_ptr<gpu::Queue> queue_, other_;
  ProgramSettings settings_;
  std::shared_ptr<const gpu::Pipelines> pipelines_;
  u32 generation_ = 0;
  std::unique_ptr<ProgramMaps> maps_;
  std::optional<ProgramSet> set_;
};

std::vector<Received> some_packets(dataplane::Random& random, u32 count = kPackets) {
  std::vector<Received> packets(count);
  for (Received& packet : packets) {
    packet.bytes = random_packet(random, 1).bytes;
    packet.metadata.rx_time_ns = u64{random()} << 32 | random();
    packet.metadata.sequence = random();
    packet.metadata.flow_hash = random();
  }
  return packets;
}

// R7 is the packet, R8 its end, R6 the context; a packet of less than `bytes` goes to "short".
void begin(Assembly& a, int bytes) {
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_W, r8, r1, 4), move(r2, r7), alu_k(BPF_ADD, r2, bytes));
  a.to("short", jump(BPF_JGT, r2, r8));
}

// What a program decides by the packet's bytes alone: all answers there are, and faults. Nobody sees
// beforehand that it writes to packets, so that other stages may follow it.
ProgramSettings by_bytes() {
  Assembly a;
  begin(a, 34);
  a(load(BPF_B, r2, r7, 33), move(r0, r2), alu_k(BPF_AND, r0, 7));
  a.to("beyond", jump_k(BPF_JEQ, r2, 9))
      .to("writes", jump_k(BPF_JEQ, r2, 10))
      .to("endless", jump_k(BPF_JEQ, r2, 11));
  a(leave());
  a.label("beyond")(load(BPF_DW, r0, r8, -4), leave());
  a.label("writes")(alu_k(BPF_AND, r7, -1), store_k(BPF_B, r7, 0, 1), move_k(r0, XDP_PASS), leave());
  a.label("endless").to("endless", always());
  a.label("short")(move_k(r0, XDP_DROP), leave());
  return settings_of(a.code());
}

// Random numbers and times, by which it passes or drops.
ProgramSettings by_chance() {
  Assembly a;
  begin(a, 14);
  a(call(BPF_FUNC_get_prandom_u32), move(r9, r0), call(BPF_FUNC_ktime_get_ns), alu(BPF_ADD, r0, r9),
    call(BPF_FUNC_get_smp_processor_id), alu(BPF_ADD, r9, r0), move(r0, r9), alu_k(BPF_AND, r0, 1),
    alu_k(BPF_ADD, r0, 1), leave());
  a.label("short")(move_k(r0, XDP_ABORTED), leave());
  return settings_of(a.code());
}

// Which last bytes of a source address are known: read alone, so packets go side by side.
ProgramSettings known_sources(Random& random, u32 entries) {
  Assembly a;
  begin(a, 34);
  a(load(BPF_B, r2, r7, 29), store(BPF_W, r10, -4, r2), map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4),
    call(BPF_FUNC_map_lookup_elem));
  a.to("short", jump_k(BPF_JEQ, r0, 0));
  a(load(BPF_W, r0, r0, 0), leave());
  a.label("short")(move_k(r0, XDP_PASS), leave());
  Map known;
  known.name = "known";
  known.type = BPF_MAP_TYPE_HASH;
  known.key_bytes = known.value_bytes = 4;
  known.entries = 256;
  ProgramSettings settings = settings_of(a.code(), {known});
  auto contents = std::make_shared<std::vector<gpu::ProgramMapContents>>(1);
  for (u32 i = 0; i < entries; i++)
    (*contents)[0].entries.push_back(
        {{static_cast<u8>(random.below(256)), 0, 0, 0}, {static_cast<u8>(random.below(4)), 0, 0, 0}});
  settings.contents = contents;
  return settings;
}

// Counts packets by their source address's last byte, and drops every fourth of each.
ProgramSettings every_fourth() {
  Assembly a;
  begin(a, 34);
  a(load(BPF_B, r2, r7, 29), store(BPF_W, r10, -4, r2), map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4),
    call(BPF_FUNC_map_lookup_elem));
  a.to("short", jump_k(BPF_JEQ, r0, 0));
  a(move_k(r1, 1), atomically(BPF_DW, BPF_ADD | BPF_FETCH, r0, 0, r1), move_k(r0, XDP_PASS),
    alu_k(BPF_AND, r1, 3));
  a.to("end", jump_k(BPF_JNE, r1, 3));
  a(move_k(r0, XDP_DROP));
  a.label("end")(leave());
  a.label("short")(move_k(r0, XDP_TX), leave());
  return settings_of(a.code(), {map_of("counts", BPF_MAP_TYPE_ARRAY, 4, 8, 200)});
}

// The ports that were seen last: a packet whose ports are not among them is dropped.
ProgramSettings seen_before(u32 entries) {
  Assembly a;
  begin(a, 38);
  a(load(BPF_W, r2, r7, 34), store(BPF_W, r10, -8, r2), map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -8),
    call(BPF_FUNC_map_lookup_elem));
  a.to("known", jump_k(BPF_JNE, r0, 0));
  a(store_k(BPF_DW, r10, -16, 0), map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -8), move(r3, r10),
    alu_k(BPF_ADD, r3, -16), move_k(r4, 0), call(BPF_FUNC_map_update_elem), move_k(r0, XDP_DROP), leave());
  a.label("known")(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1));
  a.to("short", jump_k(BPF_JNE, r1, 5));
  a(map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -8), call(BPF_FUNC_map_delete_elem), move_k(r0, XDP_TX),
    leave());
  a.label("short")(move_k(r0, XDP_PASS), leave());
  return settings_of(a.code(), {map_of("seen", BPF_MAP_TYPE_LRU_HASH, 4, 8, entries)});
}

std::vector<gpu::PipelineSettings> alone(Random& random) {
  return {{"by bytes", {by_bytes()}},
          {"by chance", {by_chance()}},
          {"known sources", {known_sources(random, 60)}},
          {"behind an acl", {mostly_next(random), by_bytes(), by_chance()}},
          // Of what the acl drops nobody asks what the program would have made.
          {"writes behind an acl", {mostly_next(random), by_bytes()}}};
}

class Programs : public testing::TestWithParam<Target> {
 protected:
  FrameRegion region_{u64{kPackets} * XG_CHUNK_SIZE};
};

#define XDPGPU_TWINS_OR_SKIP()                                     \
  XDPGPU_OPEN_OR_SKIP(GetParam(), region_.base(), region_.size()); \
  Twins twins(*device, region_, GetParam().queue(kPackets, 2));    \
  SCOPED_TRACE(fmt::format("{}, XDPGPU_TEST_SEED={}", device->info().description, test_seed()))

// By chance: instructions, helpers, maps of each kind, faults.
TEST_P(Programs, AnswerAsTheDefinitionDoes) {
  XDPGPU_TWINS_OR_SKIP();
  dataplane::Random random(static_cast<u32>(test_seed()));
  // Translating takes its time.
  const u32 programs = GetParam().made == nullptr ? 150 : 12;
  for (u32 i = 0; i < programs && !HasFailure(); i++) {
    const RandomKind kind{.version4 = true, .arrays_only = i % 3 == 0, .keeps_packet = i % 4 == 0};
    const Code code = random_program(random, kind);
    ASSERT_NO_FATAL_FAILURE(twins.load(settings_of(code, random_maps(kind))));
    for (const u32 batch : {kPackets, 1u, 7u}) {
      ASSERT_NO_FATAL_FAILURE(twins.come(some_packets(random, batch == 1 ? 6 : kPackets), batch));
      twins.compare_maps();
    }
  }
  EXPECT_GT(twins.dropped[1], 0u);
}

// What becomes of a packet's bytes and ends is in its first two bytes; how its maps are used beside.
enum class Maps { none, counted, in_order };
ProgramSettings changing(Maps maps) {
  Assembly a;
  a(move(r6, r1));
  std::vector<Map> all;
  if (maps != Maps::none) {
    a(store_k(BPF_W, r10, -4, 0), map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4),
      call(BPF_FUNC_map_lookup_elem), move_k(r1, 1));
    a.to("drop", jump_k(BPF_JEQ, r0, 0));
    a(atomically(BPF_DW, maps == Maps::counted ? BPF_ADD : BPF_ADD | BPF_FETCH, r0, 0, r1));
    // Each its own: its table would go on.
    all.push_back(map_of(maps == Maps::counted ? "counted" : "ordered", BPF_MAP_TYPE_ARRAY, 4, 8, 1));
  }
  a(load(BPF_W, r7, r6, 0), load(BPF_B, r9, r7, 1), load(BPF_B, r2, r7, 0), alu_k(BPF_AND, r2, 7));
  a.to("head", jump_k(BPF_JEQ, r2, 0)).to("tail", jump_k(BPF_JEQ, r2, 1)).to("write", jump_k(BPF_JEQ, r2, 2));
  a.to("lines", jump_k(BPF_JEQ, r2, 3)).to("meta", jump_k(BPF_JEQ, r2, 4)).to("both", jump_k(BPF_JEQ, r2, 5));
  a(move_k(r0, XDP_PASS), leave());
  a.label("head")(alu_k(BPF_SUB, r9, 128));
  a.label("move")(move(r1, r6), move(r2, r9), call(BPF_FUNC_xdp_adjust_head));
  a.to("drop", jump_k(BPF_JNE, r0, 0));
  a.label("stamp")(load(BPF_W, r7, r6, 0), move_k(r1, 0x12345678), store(BPF_DW, r7, 3, r1),
                   move_k(r0, XDP_PASS), leave());
  a.label("tail")(alu_k(BPF_SUB, r9, 128), alu_k(BPF_MUL, r9, 4));
  a.label("cut")(move(r1, r6), move(r2, r9), call(BPF_FUNC_xdp_adjust_tail));
  a.to("drop", jump_k(BPF_JNE, r0, 0));
  a(load(BPF_W, r8, r6, 4), load(BPF_B, r1, r8, -1), alu_k(BPF_ADD, r1, 1), store(BPF_B, r8, -1, r1),
    move_k(r0, XDP_TX), leave());
  a.label("write")(alu(BPF_ADD, r7, r9), load(BPF_DW, r1, r7, 0), alu_k(BPF_XOR, r1, -1),
                   store(BPF_DW, r7, 0, r1), load(BPF_W, r2, r7, -2), store(BPF_W, r7, 5, r2),
                   move_k(r0, XDP_TX), leave());
  a.label("lines");
  for (const int at : {0, 64, 128, 192, 256}) a(store_k(BPF_B, r7, at, at + 1));
  a(move_k(r0, XDP_PASS), leave());
  // Metadata moves along with the head.
  a.label("meta")(move(r1, r6), move_k(r2, -12), call(BPF_FUNC_xdp_adjust_meta), load(BPF_W, r7, r6, 8),
                  move_k(r1, 0x0a0b0c0d), store(BPF_DW, r7, 1, r1), alu_k(BPF_SUB, r9, 200))
      .to("move", always());
  // As long as it was, of its end the last bytes 0.
  a.label("both")(alu_k(BPF_AND, r9, 15), alu_k(BPF_NEG, r9, 0), move(r1, r6), move(r2, r9),
                  call(BPF_FUNC_xdp_adjust_tail), alu_k(BPF_NEG, r9, 0))
      .to("cut", always());
  a.label("drop")(move_k(r0, XDP_DROP), leave());
  return settings_of(a.code(), all);
}

TEST_P(Programs, ChangedPacketsAreThoseOfTheDefinition) {
  XDPGPU_TWINS_OR_SKIP();
  dataplane::Random random(static_cast<u32>(test_seed()));
  using gpu::programs::Taking;
  for (const auto& [maps, how] : {std::pair(Maps::none, Taking::side_by_side),
                                  {Maps::counted, Taking::counting},
                                  {Maps::in_order, Taking::in_order}}) {
    const ProgramSettings settings = changing(maps);
    // A store may be to a map where there is one.
    const auto taken = gpu::programs::how_taken(*settings.program);
    ASSERT_EQ(taken.how, how) << taken.why;
    ASSERT_NO_FATAL_FAILURE(twins.load(settings));
    twins.dropped.clear();
    twins.changed = 0;
    for (const u32 batch : {kPackets, 5u, 1u}) {
      auto packets = some_packets(random, batch == 1 ? 20 : kPackets);
      for (std::size_t i = 0; i < packets.size(); i++) {
        auto& bytes = packets[i].bytes;
        const u32 size = i % 3 == 0 ? 1'300 + random() % 400 : 48 + random() % 300;
        bytes.resize(size, static_cast<u8>(i));
        bytes[0] = static_cast<u8>(i);
        bytes[1] = static_cast<u8>(random());
      }
      // Too large, too much written, out of bounds.
      const u8 ends[][2] = {{1, 255}, {3, 0}, {2, 250}};
      for (std::size_t i = 0; i < std::size(ends); i++) {
        packets[i].bytes.resize(i == 2 ? 60 : 1'700, 7);
        std::copy_n(ends[i], 2, packets[i].bytes.begin());
      }
      ASSERT_NO_FATAL_FAILURE(twins.come(packets, batch));
      twins.compare_maps();
    }
    const auto dropped = [&](gpu::ProgramEnd end) { return twins.dropped[2 + static_cast<u32>(end)]; };
    EXPECT_GT(twins.changed, kPackets / 2);
    EXPECT_GT(dropped(gpu::ProgramEnd::too_much_written), 0u);
    EXPECT_GT(dropped(gpu::ProgramEnd::too_large), 0u);
    EXPECT_GT(dropped(gpu::ProgramEnd::out_of_bounds), 0u);
    if (maps == Maps::none) continue;
    auto outcomes = twins.outcomes();
    EXPECT_EQ(outcomes["changed_passed"] + outcomes["changed_sent"], twins.changed);
    EXPECT_EQ(outcomes["too_large"], dropped(gpu::ProgramEnd::too_large));
  }
}

// To the interface that the packet's first byte says, by its number or by a devmap; every other one changed.
// Its second byte has to be what the interface is called that it came in by.
ProgramSettings redirecting(bool by_map) {
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_B, r9, r7, 0), load(BPF_B, r2, r7, 1),
    load(BPF_W, r3, r6, 12));
  a.to("drop", jump(BPF_JNE, r2, r3));
  a(move(r1, r9), alu_k(BPF_AND, r1, 1));
  a.to("keep", jump_k(BPF_JEQ, r1, 0));
  a(store(BPF_B, r7, 13, r9));
  a.label("keep");
  if (by_map)
    a(map(r1, 0), move(r2, r9), move_k(r3, XDP_TX), call(BPF_FUNC_redirect_map), leave());
  else
    a(move(r1, r9), move_k(r2, 0), call(BPF_FUNC_redirect), leave());
  a.label("drop")(move_k(r0, XDP_DROP), leave());
  ProgramSettings settings = settings_of(
      a.code(), by_map ? std::vector{map_of("ports", BPF_MAP_TYPE_DEVMAP, 4, 4, 8)} : std::vector<Map>{});
  settings.interfaces = {{.ifindex = 3, .port = 2}, {.ifindex = 5, .port = 0}, {.ifindex = 6, .port = 31}};
  if (by_map) {
    auto contents = std::make_shared<std::vector<gpu::ProgramMapContents>>(1);
    for (const auto& [key, to] : {std::pair<u8, u8>(1, 6), {2, 3}, {3, 5}, {4, 9}, {7, 5}})
      (*contents)[0].entries.push_back({{key, 0, 0, 0}, {to, 0, 0, 0}});
    settings.contents = contents;
  }
  return settings;
}

TEST_P(Programs, RedirectToTheInterfacesThatHaveNumbers) {
  XDPGPU_TWINS_OR_SKIP();
  dataplane::Random random(static_cast<u32>(test_seed()));
  for (const bool by_map : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(twins.load(redirecting(by_map)));
    twins.dropped.clear();
    twins.redirected = twins.changed = 0;
    for (const u32 batch : {kPackets, 3u}) {
      auto packets = some_packets(random);
      for (std::size_t i = 0; i < packets.size(); i++) {
        packets[i].metadata.port = static_cast<u8>(i % 4);  // the last one is called nothing
        packets[i].bytes[0] = static_cast<u8>(i / 4 % 10);
        const u8 called[] = {5, 0, 3, static_cast<u8>(i / 4 % 2 * 9)};
        packets[i].bytes[1] = called[i % 4];
      }
      ASSERT_NO_FATAL_FAILURE(twins.come(packets, batch));
    }
    EXPECT_GT(twins.redirected, 8u);
    EXPECT_GT(twins.changed, 4u);
    EXPECT_GT(twins.dropped[1], 0u);
    EXPECT_GT(twins.dropped[2 + static_cast<u32>(gpu::ProgramEnd::redirect)], 0u);
  }
}

// By maps of processors, of sockets and of interfaces, as the packet's bytes say; some behind another one.
ProgramSettings redirecting_by_any_map() {
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_B, r8, r7, 0), load(BPF_B, r9, r7, 1),
    load(BPF_B, r2, r7, 2), alu_k(BPF_AND, r2, 1));
  a.to("kept", jump_k(BPF_JEQ, r2, 0));
  a(store(BPF_B, r7, 13, r9));
  a.label("kept");
  for (const int call_of : {0, 1}) {
    const std::string name = std::to_string(call_of);
    a(move(r2, r9), alu_k(BPF_AND, r2, 3), alu_k(BPF_RSH, r9, 2), move_k(r3, XDP_TX), move(r4, r8),
      alu_k(BPF_AND, r4, 3), alu_k(BPF_RSH, r8, 2), map(r1, 0));
    a.to(name + "call", jump_k(BPF_JEQ, r4, 0));
    a(map(r1, 1));
    a.to(name + "call", jump_k(BPF_JEQ, r4, 1));
    a(map(r1, 2));
    a.label(name + "call")(call(BPF_FUNC_redirect_map));
  }
  a(leave());
  ProgramSettings settings = settings_of(a.code(), {map_of("processors", BPF_MAP_TYPE_CPUMAP, 4, 8, 3),
                                                    map_of("sockets", BPF_MAP_TYPE_XSKMAP, 4, 4, 3),
                                                    map_of("ports", BPF_MAP_TYPE_DEVMAP, 4, 4, 3)});
  settings.interfaces = {{.ifindex = 3, .port = 2}, {.ifindex = 5, .port = 0}};
  auto contents = std::make_shared<std::vector<gpu::ProgramMapContents>>(2);
  (*contents)[0].entries.push_back({{1, 0, 0, 0}, {192, 0, 0, 0, 0, 0, 0, 0}});
  (*contents)[0].entries.push_back({{2, 0, 0, 0}, {1, 0, 0, 0, 0, 0, 0, 0}});
  (*contents)[1].map = 2;
  (*contents)[1].entries.push_back({{1, 0, 0, 0}, {5, 0, 0, 0}});
  settings.contents = contents;
  return settings;
}

TEST_P(Programs, PacketsForOtherProcessorsGoOnHere) {
  XDPGPU_TWINS_OR_SKIP();
  dataplane::Random random(static_cast<u32>(test_seed()));
  ASSERT_NO_FATAL_FAILURE(twins.load(redirecting_by_any_map()));
  // So many that each outcome is among them.
  for (u32 round = 0; round < 8; round++) {
    auto packets = some_packets(random);
    for (auto& packet : packets) {
      packet.metadata.port = 2;
      packet.bytes[0] = static_cast<u8>(random() % 16);
      packet.bytes[1] = static_cast<u8>(random() % 16);
    }
    ASSERT_NO_FATAL_FAILURE(twins.come(packets, kPackets));
  }
  const auto outcomes = twins.outcomes();
  EXPECT_GT(outcomes.at("passed"), 0u);
  EXPECT_GT(outcomes.at("changed_passed"), 0u);
  EXPECT_GT(outcomes.at("redirected"), 0u);
  EXPECT_GT(outcomes.at("sent"), 0u);
}

// A map that is found in another one by the packet's first byte, and what it has for the second one, which
// may be counted in, and is the action.
ProgramSettings by_maps_of_maps(bool counts) {
  Assembly a;
  a(load(BPF_W, r7, r1, 0), load(BPF_B, r2, r7, 0), store(BPF_W, r10, -4, r2), load(BPF_B, r2, r7, 1),
    store(BPF_W, r10, -8, r2), map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4),
    call(BPF_FUNC_map_lookup_elem));
  a.to("none", jump_k(BPF_JEQ, r0, 0));
  a(move(r1, r0), move(r2, r10), alu_k(BPF_ADD, r2, -8), call(BPF_FUNC_map_lookup_elem));
  a.to("none", jump_k(BPF_JEQ, r0, 0));
  if (counts) a(move_k(r1, 1), atomically(BPF_DW, BPF_ADD, r0, 0, r1));
  a(load(BPF_DW, r0, r0, 0), alu_k(BPF_AND, r0, 3), leave());
  a.label("none")(move_k(r0, XDP_DROP), leave());
  Map outer = map_of("tables", BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, 4);
  outer.inner = 1;
  const Map like = map_of("table", BPF_MAP_TYPE_HASH, 4, 8, 16);
  Map first = like, second = like;
  first.name = "first";
  second.name = "second";
  second.entries = 64;
  ProgramSettings settings = settings_of(a.code(), {outer, like, first, second});
  const auto entry = [](u8 key, u8 value, u32 bytes) {
    std::vector<u8> of(bytes);
    of[0] = value;
    return std::pair(std::vector<u8>{key, 0, 0, 0}, of);
  };
  auto contents = std::make_shared<std::vector<gpu::ProgramMapContents>>(3);
  (*contents)[0] = {.map = 0, .entries = {entry(0, 2, 4), entry(2, 3, 4), entry(3, 2, 4)}};
  (*contents)[1] = {.map = 2, .entries = {entry(0, 1, 8), entry(1, 2, 8), entry(2, 3, 8)}};
  (*contents)[2] = {.map = 3, .entries = {entry(0, 2, 8), entry(2, 1, 8), entry(3, 0, 8)}};
  settings.contents = contents;
  return settings;
}

TEST_P(Programs, FindMapsInMaps) {
  XDPGPU_TWINS_OR_SKIP();
  dataplane::Random random(static_cast<u32>(test_seed()));
  for (const bool counts : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(twins.load(by_maps_of_maps(counts)));
    twins.dropped.clear();
    for (const u32 batch : {kPackets, 3u}) {
      auto packets = some_packets(random);
      for (std::size_t i = 0; i < packets.size(); i++) {
        packets[i].bytes[0] = static_cast<u8>(i % 5);
        packets[i].bytes[1] = static_cast<u8>(i / 5 % 5);
      }
      ASSERT_NO_FATAL_FAILURE(twins.come(packets, batch));
      twins.compare_maps();
    }
    EXPECT_GT(twins.dropped[1], 0u);
    EXPECT_LT(twins.dropped[1], 2 * kPackets);
  }
}

// Goes on, by the packet's first byte, with one that counts or changes the packet, or with itself, again and
// again, or with none.
ProgramSettings with_tails(bool changes) {
  Assembly a, b, c;
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_B, r3, r7, 0), map(r2, 0), call(BPF_FUNC_tail_call),
    move_k(r0, XDP_DROP), leave());
  b(move(r6, r1), load(BPF_W, r7, r1, 0), store_k(BPF_W, r10, -4, 0), map(r1, 1), move(r2, r10),
    alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_lookup_elem));
  b.to("none", jump_k(BPF_JEQ, r0, 0));
  if (changes) b(move_k(r1, 1), atomically(BPF_DW, BPF_ADD, r0, 0, r1));
  b(load(BPF_DW, r0, r0, 0), alu_k(BPF_AND, r0, 1), alu_k(BPF_ADD, r0, XDP_PASS), leave());
  b.label("none")(move_k(r0, XDP_ABORTED), leave());
  // Its stack is its own: nothing is left there.
  c(load(BPF_W, r7, r1, 0), load(BPF_DW, r2, r10, -512), alu_k(BPF_ADD, r2, 7));
  if (changes) c(store(BPF_B, r7, 3, r2));
  c(store(BPF_DW, r10, -512, r2), move_k(r0, XDP_TX), leave());
  ProgramSettings settings = settings_of(a.code(), {map_of("next", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 6),
                                                    map_of("count", BPF_MAP_TYPE_ARRAY, 4, 8, 1)});
  auto program = std::make_shared<Program>(*settings.program);
  program->maps[1].contents = {4, 1};  // one of those that it goes on with looks there first
  program->tails = {{.name = "counts", .instructions = b.code()},
                    {.name = "writes", .instructions = c.code()}};
  settings.program = program;
  auto contents = std::make_shared<std::vector<gpu::ProgramMapContents>>(1);
  for (const auto& [key, number] : {std::pair<u8, u8>(0, 1), {1, 2}, {2, 0}, {4, 1}})
    (*contents)[0].entries.push_back({{key, 0, 0, 0}, {number, 0, 0, 0}});
  settings.contents = contents;
  return settings;
}

TEST_P(Programs, GoOnWithOthers) {
  XDPGPU_TWINS_OR_SKIP();
  dataplane::Random random(static_cast<u32>(test_seed()));
  for (const bool changes : {false, true}) {
    const ProgramSettings settings = with_tails(changes);
    EXPECT_EQ(gpu::remembers(settings), changes);
    ASSERT_NO_FATAL_FAILURE(twins.load(settings));
    twins.dropped.clear();
    twins.changed = 0;
    for (const u32 batch : {kPackets, 3u}) {
      auto packets = some_packets(random);
      for (std::size_t i = 0; i < packets.size(); i++) packets[i].bytes[0] = static_cast<u8>(i % 7);
      ASSERT_NO_FATAL_FAILURE(twins.come(packets, batch));
      twins.compare_maps();
    }
    EXPECT_EQ(twins.changed > 4, changes);
    EXPECT_GT(twins.dropped[1], 4u);
  }
}

// Counts packets by the frame's first byte.
Code counting(int by) {
  Assembly a;
  a(load(BPF_W, r7, r1, 0), load(BPF_B, r2, r7, 0), alu_k(BPF_AND, r2, 3), store(BPF_W, r10, -4, r2),
    map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_lookup_elem));
  a.to("none", jump_k(BPF_JEQ, r0, 0));
  a(move_k(r1, by), atomically(BPF_DW, BPF_ADD, r0, 0, r1));
  a.label("none")(move_k(r0, XDP_PASS), leave());
  return a.code();
}
std::vector<Map> counts(u32 entries = 4) { return {map_of("counts", BPF_MAP_TYPE_ARRAY, 4, 8, entries)}; }

TEST_P(Programs, MapsGoOnWithThePolicyThatHasThem) {
  XDPGPU_TWINS_OR_SKIP();
  dataplane::Random random(static_cast<u32>(test_seed()));
  ASSERT_NO_FATAL_FAILURE(twins.load(settings_of(counting(1), counts())));
  ASSERT_NO_FATAL_FAILURE(twins.come(some_packets(random), 7));
  twins.compare_maps();
  // Another program of the same maps.
  ASSERT_NO_FATAL_FAILURE(twins.load(settings_of(counting(1000), counts())));
  twins.compare_maps();
  ASSERT_NO_FATAL_FAILURE(twins.come(some_packets(random), kPackets));
  twins.compare_maps();
  // Another layout begins anew, and so do other first contents.
  ASSERT_NO_FATAL_FAILURE(twins.load(settings_of(counting(1), counts(5))));
  twins.compare_maps();
  ASSERT_NO_FATAL_FAILURE(twins.come(some_packets(random), kPackets));
  twins.compare_maps();
  ProgramSettings filled = settings_of(counting(1), counts(5));
  filled.contents = std::make_shared<const std::vector<gpu::ProgramMapContents>>(
      1, gpu::ProgramMapContents{.map = 0, .entries = {{{1, 0, 0, 0}, {1, 2, 3, 4, 5, 6, 7, 8}}}});
  ASSERT_NO_FATAL_FAILURE(twins.load(filled));
  twins.compare_maps();
  ASSERT_NO_FATAL_FAILURE(twins.come(some_packets(random), kPackets));
  twins.compare_maps();
}

// A loop of as many turns as the packet's first byte says, of four instructions each.
TEST_P(Programs, StepsAreBounded) {
  XDPGPU_TWINS_OR_SKIP();
  Assembly a;
  a(load(BPF_W, r7, r1, 0), load(BPF_B, r2, r7, 0), map(r1, 0), store(BPF_W, r10, -4, r1));
  a.label("again").to("out", jump_k(BPF_JEQ, r2, 0));
  a(load(BPF_DW, r3, r7, 1), alu_k(BPF_SUB, r2, 1)).to("again", always());
  a.label("out")(move_k(r0, XDP_PASS), leave());
  // The store through R9 is never come to: it makes a table of it.
  a(store(BPF_W, r9, 0, r1), leave());
  ASSERT_NO_FATAL_FAILURE(twins.load(settings_of(a.code(), counts())));
  std::vector<Received> packets(16);
  for (u32 i = 0; i < packets.size(); i++) {
    packets[i].bytes.assign(14, 0);
    packets[i].bytes[0] = static_cast<u8>(kSteps / 4 - 8 + i);
  }
  ASSERT_NO_FATAL_FAILURE(twins.come(packets, 16));
  const u32 rule = 2 + static_cast<u32>(gpu::ProgramEnd::too_many_steps);
  EXPECT_GT(twins.dropped[rule], 0u);
  EXPECT_LT(twins.dropped[rule], 16u);
  EXPECT_EQ(twins.outcomes()["too_many_steps"], twins.dropped[rule]);
}

// With first contents, by chance, too.
ProgramSettings counts_by_chance(Random& random) {
  const auto below = [&](u32 n) { return random.below(n); };
  ProgramSettings settings = settings_of(test::counting_program(below), test::counted_maps());
  auto contents = std::make_shared<std::vector<gpu::ProgramMapContents>>();
  for (u32 number = 0; number < settings.program->maps.size(); number++) {
    gpu::ProgramMapContents one{.map = number, .entries = {}};
    for (u8 key = 0; key < 3; key++)
      one.entries.emplace_back(std::vector<u8>{key, 0, 0, 0},
                               test::counted_value(below, settings.program->maps[number]));
    contents->push_back(one);
  }
  settings.contents = contents;
  return settings;
}

TEST_P(Programs, CountsAreThoseOfTheDefinitionInAnyOrder) {
  constexpr u32 kMany = 1024;
  FrameRegion region{u64{kMany} * XG_CHUNK_SIZE};
  XDPGPU_OPEN_OR_SKIP(GetParam(), region.base(), region.size());
  Twins twins(*device, region, GetParam().queue(kMany, 2));
  SCOPED_TRACE(fmt::format("{}, XDPGPU_TEST_SEED={}", device->info().description, test_seed()));
  Random random(test_seed());
  dataplane::Random packets(static_cast<u32>(test_seed()));
  // Vulkan takes them one after the other, and software takes its time.
  const bool software = device->info().software;
  const u32 many = software ? 128 : kMany;
  for (u32 i = 0; i < (software || GetParam().made != nullptr ? 6u : 40u) && !HasFailure(); i++) {
    const ProgramSettings settings = counts_by_chance(random);
    const auto taken = gpu::programs::how_taken(*settings.program);
    ASSERT_EQ(taken.how, gpu::programs::Taking::counting) << taken.why << "\n"
                                                          << test::text_of(settings.program->instructions);
    ASSERT_NO_FATAL_FAILURE(twins.load(settings));
    for (const u32 batch : {many, 64u, 7u}) {
      ASSERT_NO_FATAL_FAILURE(
          twins.come(some_packets(packets, batch == 7 ? std::min(many, 100u) : many), batch, true));
      twins.compare_maps();
    }
  }
}

// Packets of a few hundred keys, by two queues in turn: what comes of each hangs on those of its key before.
TEST_P(Programs, PacketsOfAKeyAreTakenInTheirOrder) {
  constexpr u32 kMany = 2048;
  FrameRegion region{u64{kMany} * XG_CHUNK_SIZE};
  XDPGPU_OPEN_OR_SKIP(GetParam(), region.base(), region.size());
  Twins twins(*device, region, GetParam().queue(kMany, 2));
  SCOPED_TRACE(fmt::format("{}, XDPGPU_TEST_SEED={}", device->info().description, test_seed()));
  Random random(test_seed());
  // Vulkan takes them one after the other, and software takes its time.
  const bool software = device->info().software;
  const u32 many = software ? 128 : kMany;
  // Translating takes its time.
  const u32 programs = GetParam().made != nullptr ? 2 : software ? 6 : 30;
  for (u32 i = 0; i < programs && !HasFailure(); i++) {
    const auto settings =
        settings_of(test::keyed_program([&](u32 n) { return random.below(n); }), test::keyed_maps());
    const auto taken = gpu::programs::how_taken(*settings.program);
    ASSERT_EQ(taken.how, gpu::programs::Taking::by_key) << taken.why;
    ASSERT_NO_FATAL_FAILURE(twins.load(settings));
    for (const u32 batch : {many, 64u, 7u}) {
      std::vector<Received> packets(batch == 7 ? std::min(many, 100u) : many);
      for (Received& packet : packets) {
        packet.bytes.resize(random.below(50) == 0 ? 20 : 60);
        for (u8& byte : packet.bytes) byte = static_cast<u8>(random.below(256));
        if (packet.bytes.size() < 34) continue;
        // At times most are of one key.
        packet.bytes[26] = static_cast<u8>(i % 5 == 4 ? random.below(2) : random.below(100));
        packet.bytes[27] = packet.bytes[28] = packet.bytes[29] = 0;
        packet.bytes[18] = static_cast<u8>(i % 5 == 4 ? 0 : random.below(7));
      }
      ASSERT_NO_FATAL_FAILURE(twins.come(packets, batch));
      twins.compare_maps();
    }
  }
}

// Adds as counting(1) does, but by a store, and looks at the sum: it takes its packets in order.
Code adding() {
  Assembly a;
  a(load(BPF_W, r7, r1, 0), load(BPF_B, r2, r7, 0), alu_k(BPF_AND, r2, 3), store(BPF_W, r10, -4, r2),
    map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_lookup_elem));
  a.to("none", jump_k(BPF_JEQ, r0, 0));
  a(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1));
  a.to("none", jump_k(BPF_JEQ, r1, 1));
  a.label("none")(move_k(r0, XDP_PASS), leave());
  return a.code();
}

// A policy takes over from another one: batches of both are under way, one of them counts, the other reads
// what is counted. No packet is lost to the sums, whichever comes first.
TEST_P(Programs, ThoseThatCountAndThoseThatReadCountsKeepApart) {
  constexpr u32 kMany = 512;
  FrameRegion region{u64{2 * kMany} * XG_CHUNK_SIZE};
  XDPGPU_OPEN_OR_SKIP(GetParam(), region.base(), region.size());
  const auto queue = device->open_queue(GetParam().queue(64, 2)).value();
  const auto other = device->open_queue(GetParam().queue(64, 2)).value();
  const u32 many = device->info().software ? 64 : kMany, rounds = device->info().software ? 2 : 10;
  const auto packets = [&](u32 first, u32 generation) {
    std::vector<xg_descriptor> made;
    for (u32 i = 0; i < many; i++) {
      const u64 at = u64{first + i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
      xg_metadata metadata{};
      metadata.generation = generation;
      std::memset(region.base() + at, static_cast<int>(i), 60);
      std::memcpy(region.base() + at - sizeof(metadata), &metadata, sizeof(metadata));
      made.push_back({at, 60, 0});
    }
    return made;
  };
  for (const bool counting_first : {true, false}) {
    const u32 generation = counting_first ? 1 : 3;
    const auto load = [&](u32 number, bool is_counting) {
      const auto settings = settings_of(is_counting ? counting(1) : adding(), counts(counting_first ? 4 : 5));
      EXPECT_EQ(gpu::programs::how_taken(*settings.program).how,
                is_counting ? gpu::programs::Taking::counting : gpu::programs::Taking::in_order);
      auto pipelines = gpu::Pipelines::compile({{"p", {settings}}}, kOptions).value();
      EXPECT_TRUE(device->load(number, pipelines));
      return pipelines;
    };
    (void)load(generation, counting_first);
    const auto before = packets(0, generation), after = packets(many, generation + 1);
    std::thread beside([&] {
      for (u32 i = 0; i < 2 * rounds; i++) judge(*queue, before, 64, generation);
    });
    const auto pipelines = load(generation + 1, !counting_first);
    for (u32 i = 0; i < rounds; i++) judge(*other, after, 64, generation + 1);
    beside.join();
    const gpu::StateSpec& spec = pipelines->states()[0];
    std::vector<u32> words(spec.first_words);
    ASSERT_TRUE(device->read_state(generation + 1, 0, spec.words - spec.first_words, words));
    const Program& program = *std::get<ProgramSettings>(pipelines->settings()[0].stages[0]).program;
    const auto image = gpu::programs::image_of(std::span(&program, 1), {.queues = 1, .key = kKey}).value();
    u64 sum = 0;
    for (const auto& entry : DeviceState(image.tables, words).entries(0)) {
      u64 value = 0;
      std::memcpy(&value, entry.values[0].data(), sizeof(value));
      sum += value;
    }
    EXPECT_EQ(sum, u64{3} * rounds * many) << (counting_first ? "counting first" : "in order first");
    device->unload(generation);
    device->unload(generation + 1);
  }
}

// Those that change no map, in every cut.
TEST_P(Programs, PacketsGoSideBySide) {
  Random random(test_seed());
  const auto settings = alone(random);
  const Traffic traffic = random_traffic(random, 10'000, static_cast<u32>(settings.size()));
  const auto should = expected(traffic, settings);
  std::set<u32> verdicts;
  for (const Answer& answer : should) verdicts.insert(answer.verdict);
  EXPECT_GT(verdicts.size(), 8u);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, gpu::Pipelines::compile(settings).value()));
  auto queue = device->open_queue(GetParam().queue(8192, 4));
  ASSERT_TRUE(queue) << queue.error();
  for (const u32 batch : {1u, 7u, 64u, 1024u, 8192u}) {
    SCOPED_TRACE(fmt::format("{}, batches of {}, XDPGPU_TEST_SEED={}", device->info().description, batch,
                             test_seed()));
    expect_equal(judge(**queue, traffic.descriptors, batch, kGeneration), should, traffic.descriptors);
    if (HasFailure()) return;
  }
}

// Pipelines of several stages, each with maps of its own, as the reference judges them.
void expect_judged_in_order(const Target& target, const std::vector<gpu::PipelineSettings>& settings,
                            std::initializer_list<u32> batches) {
  Random random(test_seed());
  for (const u32 batch : batches) {
    const Traffic traffic = random_traffic(random, 600, static_cast<u32>(settings.size()));
    const auto should = expected(traffic, settings);
    XDPGPU_OPEN_OR_SKIP(target, traffic.region.base(), traffic.region.size());
    SCOPED_TRACE(fmt::format("{}, batches of {}, XDPGPU_TEST_SEED={}", device->info().description, batch,
                             test_seed()));
    const auto loaded = device->load(kGeneration, gpu::Pipelines::compile(settings).value());
    ASSERT_TRUE(loaded) << loaded.error();
    auto queue = device->open_queue(target.queue(1024, 4));
    ASSERT_TRUE(queue) << queue.error();
    expect_equal(judge(**queue, traffic.descriptors, batch, kGeneration), should, traffic.descriptors);
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(Programs, PacketsAreTakenInTheirOrder) {
  Random random(test_seed());
  expect_judged_in_order(GetParam(),
                         {{"counts", {every_fourth()}},
                          {"seen before", {seen_before(64)}},
                          {"both", {mostly_next(random), seen_before(1000), every_fourth()}},
                          {"none", {mostly_next(random)}}},
                         {1u, 64u, 1000u});
}

// Behind another table, in front of it, and where a program changes no map beside it.
TEST_P(Programs, StandAmongOtherTables) {
  Random random(test_seed());
  gpu::RateLimitSettings limit;
  limit.packets_per_second = 5;
  limit.burst_packets = 3;
  limit.table.entries = 64;
  expect_judged_in_order(GetParam(),
                         {{"in front", {every_fourth(), limit}},
                          {"behind", {limit, seen_before(64), by_bytes(), every_fourth()}},
                          {"between", {known_sources(random, 60), limit, by_chance()}},
                          {"none", {limit}}},
                         {64u, 1000u});
}

// Six programs that change no map in a pipeline; and, of software, values of more than 4 KiB.
TEST_P(Programs, VulkanRefusesSome) {
  if (GetParam().kind != "vulkan") GTEST_SKIP() << "it runs all of them";
  XDPGPU_OPEN_OR_SKIP(GetParam(), region_.base(), region_.size());
  const auto six = gpu::Pipelines::compile({{"p", std::vector<gpu::StageSettings>(6, by_chance())}}).value();
  EXPECT_EQ(device->load(1, six).error(),
            "Vulkan runs 5 programs of a pipeline at most that change no map, and pipeline \"p\" has 6: take "
            "some out, or use another device, such as cpu");
  if (!device->info().software) return;
  const std::vector<Map> maps{map_of("pages", BPF_MAP_TYPE_ARRAY, 4, 4'104, 2)};
  const auto long_values = gpu::Pipelines::compile({{"p", {settings_of(counting(1), maps)}}}).value();
  EXPECT_EQ(
      device->load(1, long_values).error(),
      "software Vulkan takes keys of 64 bytes, of prefixes 20, and values of 4096, and the map pages of the "
      "program of pipeline \"p\", stage 1, has 4 and 4104: make them shorter, or use another device, such "
      "as cpu");
}

INSTANTIATE_TEST_SUITE_P(Backends, Programs, testing::ValuesIn(all_targets()), target_name);

INSTANTIATE_TEST_SUITE_P(Translated, Programs, testing::ValuesIn(translated_targets()), target_name);

// What a stage does not do is refused before any packet.
TEST(ProgramStage, RefusesWhatItDoesNotDo) {
  const auto why = [](const Code& code, std::vector<Map> maps = {}) {
    const auto compiled = gpu::Pipelines::compile({{"p", {settings_of(code, std::move(maps))}}}, kOptions);
    return compiled ? std::string() : compiled.error();
  };
  EXPECT_EQ(
      why({move_k(r1, 1), move_k(r2, 0), call(BPF_FUNC_redirect), leave()}),
      "pipeline \"p\", stage 1 (program): its program \"test\" redirects packets, at instruction 2, and no "
      "interface has a number that it could redirect to: give \"interfaces\"");
  const std::vector<Map> ports{map_of("ports", BPF_MAP_TYPE_DEVMAP, 4, 4, 8)};
  EXPECT_NE(
      why({map(r1, 0)[0], map(r1, 0)[1], move_k(r2, 0), move_k(r3, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS),
           call(BPF_FUNC_redirect_map), leave()},
          ports)
          .find("its program \"test\" calls bpf_redirect_map with BPF_F_BROADCAST, at instruction 4, and a "
                "device sends a packet out of one interface"),
      std::string::npos);
  // Of processors and sockets none is an interface.
  EXPECT_EQ(
      why({map(r1, 0)[0], map(r1, 0)[1], move_k(r2, 0), move_k(r3, 0), call(BPF_FUNC_redirect_map), leave()},
          {map_of("processors", BPF_MAP_TYPE_CPUMAP, 4, 4, 8)}),
      "");
  EXPECT_NE(why({call(9999), leave()}), "");
  EXPECT_EQ(why({move_k(r0, XDP_PASS), leave()}), "");
  ProgramSettings unread;
  unread.object = "none.o";
  const auto compiled = gpu::Pipelines::compile({{"p", {unread}}}, kOptions);
  EXPECT_EQ(compiled.error(),
            "pipeline \"p\", stage 1 (program): its object \"none.o\" has not been read: name a file "
            "that is there");
}

TEST(ProgramStage, OnlyMapsLikeTheirsAreInMapsOfMaps) {
  const auto why = [](const auto& change) {
    ProgramSettings settings = by_maps_of_maps(false);
    auto program = std::make_shared<gpu::programs::Program>(*settings.program);
    auto contents = std::make_shared<std::vector<gpu::ProgramMapContents>>(*settings.contents);
    change(*program, *contents);
    settings.program = program;
    settings.contents = contents;
    const auto compiled = gpu::Pipelines::compile({{"p", {settings}}}, kOptions);
    return compiled ? std::string() : compiled.error();
  };
  const std::string where = "pipeline \"p\", stage 1 (program): ";
  EXPECT_EQ(why([](auto&, auto&) {}), "");
  EXPECT_EQ(why([](auto& program, auto&) { program.maps[3].key_bytes = 8; }),
            where + "entry 2 of the map tables is to be the map second, which is not like those that it has");
  EXPECT_EQ(why([](auto& program, auto&) { program.maps[2].flags = BPF_F_RDONLY_PROG; }),
            where + "entry 0 of the map tables is to be the map first, which is not like those that it has");
  EXPECT_EQ(why([](auto&, auto& contents) { contents[0].entries[0].second[0] = 9; }),
            where + "entry 0 of the map tables is to be a map that it does not have");
  EXPECT_EQ(why([](auto&, auto& contents) { contents[0].entries[0].first[0] = 4; }),
            where + "the map tables has the indexes 0 to 3, and not 4");
}

TEST(ProgramStage, NoNumberIsTwoInterfaces) {
  ProgramSettings settings = settings_of({move_k(r0, XDP_PASS), leave()});
  settings.interfaces = {{.ifindex = 7, .port = 0}, {.ifindex = 8, .port = 0}, {.ifindex = 7, .port = 1}};
  const auto compiled = gpu::Pipelines::compile({{"p", {settings}}}, kOptions);
  EXPECT_EQ(compiled ? std::string() : compiled.error(),
            "pipeline \"p\", stage 1 (program): two of its interfaces have the number 7: give each its own");
}

TEST(ProgramStage, OnlyAPipelinesLastProgramChangesItsPackets) {
  const ProgramSettings moves =
      settings_of({move_k(r2, -4), call(BPF_FUNC_xdp_adjust_head), move_k(r0, XDP_PASS), leave()});
  const ProgramSettings writes =
      settings_of({load(BPF_W, r7, r1, 0), store_k(BPF_B, r7, 0, 1), move_k(r0, XDP_PASS), leave()});
  const ProgramSettings reads = settings_of({move_k(r0, XDP_PASS), leave()});
  const auto why = [](std::vector<gpu::StageSettings> stages) {
    const auto compiled = gpu::Pipelines::compile({{"p", std::move(stages)}}, kOptions);
    return compiled ? std::string() : compiled.error();
  };
  EXPECT_EQ(why({moves}), "");
  EXPECT_EQ(why({reads, writes}), "");
  EXPECT_EQ(why({moves, reads}),
            "pipeline \"p\", stage 1 (program): its program calls bpf_xdp_adjust_head, at instruction 1, and "
            "stage 2 (program) behind it would decide by the packet as it came: put the program last");
  EXPECT_EQ(why({reads, writes, reads}),
            "pipeline \"p\", stage 2 (program): its program writes to its packet, at instruction 1, and "
            "stage 3 (program) behind it would decide by the packet as it came: put the program last");
}

TEST(ProgramStage, OnlyOneThatChangesMapsHasATable) {
  EXPECT_TRUE(gpu::remembers(settings_of(counting(1), counts())));
  EXPECT_FALSE(gpu::remembers(settings_of({move_k(r0, XDP_PASS), leave()}, counts())));
  EXPECT_FALSE(gpu::remembers(settings_of({store_k(BPF_W, r7, 0, 1), leave()})));
}

TEST(ProgramStage, OneThatReadsWhatItCountsIsSaidToBeInOrder) {
  const auto notes = [](const ProgramSettings& settings) {
    const std::vector<gpu::StageSettings> stages{settings};
    return gpu::notes_of({.pipeline = "p", .stages = stages});
  };
  EXPECT_EQ(gpu::programs::how_taken(*every_fourth().program).how, gpu::programs::Taking::in_order);
  EXPECT_TRUE(notes(settings_of(counting(1), counts())).empty());
  const auto said = notes(every_fourth());
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("changes the map counts atomically, but not by an addition alone"),
            std::string::npos)
      << said[0];
}

}  // namespace
}  // namespace xdpgpu::tests
