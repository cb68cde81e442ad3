// SPDX-License-Identifier: MIT
//
// Payload on every device, byte for byte what the sequential reference reads: packets of one buffer and of
// many, wherever they are cut, frames in place and staged. The stage that reads it is not one of the
// program's.
#include <fmt/format.h>

#include <array>
#include <set>

#include "gpu/staging.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

constexpr u32 kCapacity = 1024 + 64;
constexpr std::array<u32, 3> kCuts{1, 37, 1024};
constexpr u32 kMostBytes = 9000;

// Frames of 14 to 9000 bytes: IPv4 and UDP or TCP in front, or nothing that is one.
std::vector<u8> random_bytes(Random& random) {
  const std::array<u32, 5> most{64, 200, 1514, 4000, kMostBytes};
  std::vector<u8> frame(random.between(14, random.pick(most)));
  for (u8& byte : frame) byte = static_cast<u8>(random.bits());
  if (frame.size() < 60 || random.one_in(8)) return frame;
  const bool udp = random.one_in(2);
  const u32 ip_bytes = static_cast<u32>(frame.size()) - 14;
  const std::array<u8, 12> ip{
      0x08, 0x00, 0x45, 0,  static_cast<u8>(ip_bytes >> 8), static_cast<u8>(ip_bytes), 0,
      0,    0,    0,    64, static_cast<u8>(udp ? 17 : 6)};
  std::copy(ip.begin(), ip.end(), frame.begin() + 12);
  if (udp) {
    frame[38] = static_cast<u8>((ip_bytes - 20) >> 8);
    frame[39] = static_cast<u8>(ip_bytes - 20);
  } else {
    frame[46] = 0x50;
  }
  return frame;
}

// What metadata say of the payload: where it is, mostly; or beside the packet's end, or anywhere.
void spoil_payload_offset(Random& random, u8* at, u32 bytes) {
  xg_metadata metadata;
  std::memcpy(&metadata, at, sizeof(metadata));
  const std::array<u32, 5> offsets{0, bytes - 1, bytes, bytes + random.below(9), random.below(65536)};
  metadata.payload_offset = static_cast<u16>(random.pick(offsets));
  if (random.one_in(4)) metadata.flags |= XG_PKT_MALFORMED;
  std::memcpy(at, &metadata, sizeof(metadata));
}

// A later buffer that is none, or ends or begins where the region does, or is all that a chunk has.
void spoil_buffer(Random& random, xg_descriptor& buffer, u64 region) {
  switch (random.below(9)) {
    case 0:
      buffer.length = 0;
      break;
    case 1:
      buffer.length = XG_CHUNK_SIZE + random.below(3) - 1;
      break;
    case 2:
      buffer.length = static_cast<u32>(random.bits());
      break;
    case 3:
      buffer.offset = random.below(XG_METADATA_SIZE + 4);
      break;
    case 4:
      buffer.offset = region - buffer.length + random.below(2);
      break;
    case 5:
      buffer.offset = region - random.below(4);
      break;
    case 6:
      buffer.offset = region + random.below(64);
      break;
    case 7:
      buffer.offset = random.bits();
      break;
    default:
      buffer.offset = ~u64{0} - random.below(64);
      break;
  }
}

// The packet's buffers, cut anywhere, at any alignment, in no order.
std::vector<xg_descriptor> place_packet(Random& random, const FrameRegion& region, u64& used,
                                        std::span<const u8> frame, u16 pipeline, u32 sequence) {
  std::vector<xg_descriptor> buffers;
  const u32 most = random.pick(std::array<u32, 5>{XG_CHUNK_SIZE, XG_CHUNK_SIZE, 600, 64, 15});
  for (std::size_t at = 0; at < frame.size();) {
    const u32 least = buffers.empty() ? 14 : 1;
    // No more than forty.
    const u32 longest = std::max<u32>(most, static_cast<u32>(frame.size()) / 20);
    const u32 bytes = std::min(random.one_in(3) ? longest : random.between(least, longest),
                               static_cast<u32>(frame.size() - at));
    used += XG_METADATA_SIZE + random.below(40);
    const auto part = frame.subspan(at, bytes);
    if (buffers.empty()) {
      buffers.push_back(place(region, used, part, pipeline, sequence));
    } else {
      std::copy(part.begin(), part.end(), region.base() + used);
      buffers.push_back({used, bytes, 0});
    }
    used += bytes;
    at += bytes;
  }
  for (std::size_t i = 0; i + 1 < buffers.size(); i++) buffers[i].flags |= XG_DESC_MORE;
  return buffers;
}

Traffic payload_traffic(Random& random, u32 packets, u32 pipelines) {
  std::vector<std::vector<u8>> frames;
  u64 bytes = 0;
  for (u32 i = 0; i < packets; i++) bytes += frames.emplace_back(random_bytes(random)).size();
  // 72 bytes in front of each buffer, at most.
  bytes = (bytes + packets * u64{45} * 72 + 8191) & ~u64{4095};
  Traffic traffic{FrameRegion(bytes), {}};
  u64 used = 0;
  for (u32 i = 0; i < packets; i++) {
    const u16 pipeline = static_cast<u16>(random.below(pipelines));
    auto buffers = place_packet(random, traffic.region, used, frames[i], pipeline, i);
    u8* const metadata = traffic.region.base() + buffers[0].offset - XG_METADATA_SIZE;
    if (random.one_in(3)) spoil_payload_offset(random, metadata, static_cast<u32>(frames[i].size()));
    if (random.one_in(40))
      for (u32 k = 0; k < XG_METADATA_SIZE; k++) metadata[k] = static_cast<u8>(random.bits());
    if (random.one_in(40)) spoil_buffer(random, buffers[0], traffic.region.size());
    if (buffers.size() > 1 && random.one_in(4))
      spoil_buffer(random, buffers[random.between(1, static_cast<u32>(buffers.size()) - 1)],
                   traffic.region.size());
    // A packet that is cut off.
    if (buffers.size() > 1 && random.one_in(16))
      buffers.back().length = random.below(buffers.back().length + 1);
    traffic.descriptors.insert(traffic.descriptors.end(), buffers.begin(), buffers.end());
  }
  // The last packet goes on behind its batch's end.
  traffic.descriptors.back().flags |= XG_DESC_MORE;
  return traffic;
}

gpu::PayloadSumSettings sum(u32 bytes, bool from_payload) { return {from_payload, bytes, 3, 1, false}; }
gpu::PayloadSumSettings seldom(u32 bytes, bool from_payload) { return {from_payload, bytes, 7, 2, true}; }

gpu::RateLimitSettings limit() {
  gpu::RateLimitSettings settings;
  settings.packets_per_second = 1000;
  settings.burst_packets = 5;
  settings.table.entries = 64;
  return settings;
}

struct Case {
  const char* name;
  std::vector<gpu::PipelineSettings> settings;
};

std::vector<Case> cases() {
  return {{"alone", {{"all", {sum(XG_PACKET_MAX, false)}}}},
          {"several",
           {{"headers", {gpu::L2fwdSettings{}}},
            {"all", {sum(XG_PACKET_MAX, true)}},
            {"first_ones", {seldom(100, false), seldom(1500, true), seldom(0, true), sum(33, true)}},
            {"none", {}}}},
          {"behind_tables",
           {{"limited", {limit(), sum(3000, true)}},
            {"in_front", {seldom(700, false), limit()}},
            {"both", {seldom(90, true), limit(), seldom(2500, false), limit(), sum(XG_PACKET_MAX, true)}}}}};
}

std::vector<gpu::PipelineSettings> settings_of(const std::string& name) {
  for (const Case& one : cases())
    if (name == one.name) return one.settings;
  return {};
}

class Payload : public testing::TestWithParam<std::tuple<Target, std::string>> {
 protected:
  void check(const Traffic& traffic, const std::vector<gpu::PipelineSettings>& settings) {
    const auto pipelines = gpu::Pipelines::compile(settings);
    ASSERT_TRUE(pipelines) << pipelines.error();
    const Target& target = std::get<0>(GetParam());
    XDPGPU_OPEN_OR_SKIP(target, traffic.region.base(), traffic.region.size());
    auto queue = device->open_queue(target.queue(kCapacity, 3));
    ASSERT_TRUE(queue) << queue.error();
    u32 generation = kGeneration;
    for (const u32 batch : kCuts) {
      SCOPED_TRACE(fmt::format("{}, batches of {}, XDPGPU_TEST_SEED={}", device->info().description, batch,
                               test_seed()));
      ASSERT_TRUE(device->load(generation, *pipelines));
      expect_equal(judge(**queue, traffic.descriptors, batch, generation), expected(traffic, settings),
                   traffic.descriptors);
      // Its tables go with it.
      device->unload(generation);
      if (HasFailure()) return;
    }
  }
};

TEST_P(Payload, PacketsOfOneBufferAndOfMany) {
  Random random(test_seed());
  const auto settings = settings_of(std::get<1>(GetParam()));
  check(payload_traffic(random, 800, static_cast<u32>(settings.size())), settings);
}

// With headers and metadata of all kinds.
TEST_P(Payload, RandomPackets) {
  Random random(test_seed());
  const auto settings = settings_of(std::get<1>(GetParam()));
  check(random_traffic(random, 1500, static_cast<u32>(settings.size())), settings);
}

INSTANTIATE_TEST_SUITE_P(Outside, Payload,
                         testing::Combine(testing::ValuesIn(all_targets()),
                                          testing::Values("alone", "several", "behind_tables")),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param);
                         });

// The first and the last bytes of the region, which lies between inaccessible pages.
class PayloadBounds : public testing::TestWithParam<Target> {};

TEST_P(PayloadBounds, BuffersAtTheEndsOfTheRegion) {
  const std::vector<gpu::PipelineSettings> settings{{"all", {sum(XG_PACKET_MAX, false)}}};
  Traffic traffic{FrameRegion(8192), {}};
  Random random(test_seed());
  for (u64 i = 0; i < traffic.region.size(); i++) traffic.region.base()[i] = static_cast<u8>(random.bits());
  const u64 size = traffic.region.size();
  xg_metadata metadata{};
  metadata.generation = kGeneration;
  std::memcpy(traffic.region.base() + 4096 - XG_METADATA_SIZE, &metadata, sizeof(metadata));
  for (u32 bytes = 1; bytes < 9; bytes++)
    for (const xg_descriptor later :
         {xg_descriptor{size - bytes, bytes, 0}, xg_descriptor{size - bytes, bytes + 1, 0},
          xg_descriptor{XG_METADATA_SIZE, bytes, 0}, xg_descriptor{31, bytes, 0}, xg_descriptor{0, bytes, 0},
          xg_descriptor{size, 0, 0}}) {
      traffic.descriptors.push_back({4096, 13 + bytes, XG_DESC_MORE});
      traffic.descriptors.push_back({4096 + bytes, bytes, XG_DESC_MORE});
      traffic.descriptors.push_back({later.offset, later.length, XG_DESC_MORE});
      traffic.descriptors.push_back({5000 + bytes, 0, XG_DESC_MORE});
      traffic.descriptors.push_back({6000 + bytes, 5, 0});
    }
  const auto pipelines = gpu::Pipelines::compile(settings);
  ASSERT_TRUE(pipelines) << pipelines.error();
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, *pipelines));
  auto queue = device->open_queue(GetParam().queue(kCapacity, 1));
  ASSERT_TRUE(queue) << queue.error();
  expect_equal(judge(**queue, traffic.descriptors, 1024, kGeneration), expected(traffic, settings),
               traffic.descriptors);
}

INSTANTIATE_TEST_SUITE_P(Outside, PayloadBounds, testing::ValuesIn(all_targets()), target_name);

// Not only as the reference has it: bytes 1, 2, 3 and so on have these sums, worked out by hand from what
// settings.hpp says, in one buffer and cut in two.
TEST_P(PayloadBounds, ASumIsWhatItShouldBe) {
  std::vector<u8> frame(21);
  for (u8 i = 0; i < 21; i++) frame[i] = static_cast<u8>(i + 1);
  const std::vector<gpu::PipelineSettings> settings{{"all", {sum(21, false)}}, {"some", {sum(17, false)}}};
  for (const auto& [pipeline, should] : {std::pair(u16{0}, 3608582628u), std::pair(u16{1}, 3959381558u)})
    for (const u32 cut : {21u, 14u, 16u}) {
      SCOPED_TRACE(fmt::format("pipeline {}, cut at {}", pipeline, cut));
      Traffic traffic = single_frame(frame, pipeline);
      if (cut < 21) {
        traffic.descriptors[0].length = cut;
        traffic.descriptors[0].flags = XG_DESC_MORE;
        traffic.descriptors.push_back({traffic.descriptors[0].offset + cut, 21 - cut, 0});
      }
      const auto pipelines = gpu::Pipelines::compile(settings);
      ASSERT_TRUE(pipelines) << pipelines.error();
      XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
      ASSERT_TRUE(device->load(kGeneration, *pipelines));
      auto queue = device->open_queue(GetParam().queue(kCapacity, 1));
      ASSERT_TRUE(queue) << queue.error();
      const Answers answers = judge(**queue, traffic.descriptors, 1024, kGeneration);
      EXPECT_EQ(answers.at(0).detail, should);
      EXPECT_EQ(XG_VERDICT_ACTION(answers.at(0).verdict), should % 4 == 1 ? XG_DROP : XG_PASS);
    }
}

// The comparison is worth something only if it reaches what it is meant to.
TEST(PayloadTraffic, HasPacketsOfManyBuffersThatDiffer) {
  Random random(test_seed());
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  const auto settings = settings_of("alone");
  const Traffic traffic = payload_traffic(random, 1500, 1);
  const auto results = expected(traffic, settings);
  u32 dropped = 0, passed = 0, aborted = 0, long_ones = 0;
  std::set<u32> sums;
  for (std::size_t i = 0; i < results.size(); i++) {
    if (i > 0 && (traffic.descriptors[i - 1].flags & XG_DESC_MORE) != 0) continue;
    sums.insert(results[i].detail);
    dropped += XG_VERDICT_ACTION(results[i].verdict) == XG_DROP;
    passed += XG_VERDICT_ACTION(results[i].verdict) == XG_PASS;
    aborted += XG_VERDICT_ACTION(results[i].verdict) == XG_ABORTED;
    long_ones += (traffic.descriptors[i].flags & XG_DESC_MORE) != 0;
  }
  EXPECT_GT(dropped, 200u);
  EXPECT_GT(passed, 600u);
  EXPECT_GT(aborted, 20u);
  EXPECT_GT(long_ones, 400u);
  EXPECT_GT(sums.size(), 1300u);
}

TEST(PayloadBytes, ArePipelinesMost) {
  const auto pipelines = gpu::Pipelines::compile(settings_of("several"));
  ASSERT_TRUE(pipelines) << pipelines.error();
  EXPECT_EQ((*pipelines)->payload_bytes(0), 0u);
  EXPECT_EQ((*pipelines)->payload_bytes(1), XG_PACKET_MAX);
  EXPECT_EQ((*pipelines)->payload_bytes(2), 1500u);
  EXPECT_EQ((*pipelines)->payload_bytes(3), 0u);
  EXPECT_EQ((*pipelines)->payload_bytes(4), 0u) << "there is none";
  EXPECT_EQ((*pipelines)->payload_bytes(), XG_PACKET_MAX);
  const auto too_many = gpu::Pipelines::compile({{"all", {sum(XG_PACKET_MAX + 1, false)}}});
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error(),
            "pipeline \"all\", stage 1 (payload_sum): \"bytes\" is 28161, which is not in 0 to 28160");
}

// What is staged of a packet by itself, in one buffer or two.
u64 staged_of(const Traffic& traffic, const std::vector<gpu::PipelineSettings>& settings) {
  const u32 count = static_cast<u32>(traffic.descriptors.size());
  std::vector<u8> staging(gpu::staging_bytes(count));
  std::vector<xg_descriptor> staged(count);
  const auto pipelines = gpu::Pipelines::compile(settings);
  EXPECT_TRUE(pipelines);
  return gpu::stage_frames(traffic.region.base(), traffic.region.size(), traffic.descriptors.data(), count,
                           **pipelines, staging.data(), staged.data());
}

TEST(PayloadStaging, TakesWhatThePipelineReadsAndNoMore) {
  const std::vector<u8> frame(1200, 0);
  Traffic traffic = single_frame(std::vector<u8>(1200, 0), 0);
  const auto read = [&](u32 bytes) {
    return staged_of(traffic, {{"this", {sum(bytes, false)}}, {"other", {sum(9000, false)}}});
  };
  const u64 headers = staged_of(traffic, {{"this", {gpu::L2fwdSettings{}}}});
  EXPECT_LE(headers, 128u);
  EXPECT_EQ(read(0), headers) << "another pipeline's bytes are not this one's";
  EXPECT_EQ(read(20), headers);
  EXPECT_EQ(read(600), 32u + 608);
  EXPECT_EQ(read(1200), 32u + 1200);
  EXPECT_EQ(read(1201), 32u + 1200);
  // The second half once more as a buffer of its own.
  traffic.descriptors[0].length = 600;
  traffic.descriptors[0].flags = XG_DESC_MORE;
  traffic.descriptors.push_back({traffic.descriptors[0].offset + 600, 600, 0});
  EXPECT_EQ(read(0), headers);
  EXPECT_EQ(read(600), 32u + 608);
  EXPECT_EQ(read(601), 32u + 608 + 16);
  EXPECT_EQ(read(1100), 32u + 608 + 512);
  EXPECT_EQ(read(9000), 32u + 608 + 608);
}

}  // namespace
}  // namespace xdpgpu::tests
