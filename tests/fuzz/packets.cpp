// SPDX-License-Identifier: MIT
//
// Any bytes as a packet. The parser as user space compiles it against the XDP program's metadata; the rules
// as the XDP program walks them against userspace/control/decide.hpp; and pipelines with tables on each
// device of this host against the sequential reference, packet after packet of one long stream. And what is
// sent where a rule rejects it.
//
// An input is a byte of choices (kPipeline, kTime, kLies), and the frame.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "gpu/gpu.hpp"
#include "gpu/reference/reference.hpp"
#include "maps/exempt.h"
#include "maps/hash.h"
#include "maps/router.h"
#include "tests/backends/policies.hpp"
#include "tests/backends/traffic.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/kernel/captures.hpp"
#include "tests/kernel/program.hpp"
#include "tests/kernel/samples.hpp"
#include "userspace/control/decide.hpp"
#include "userspace/control/test_run.hpp"
#include "userspace/dataplane/reject_answer.hpp"

namespace xdpgpu::fuzz {
namespace {

using test::Frame;
using tests::kGeneration;

constexpr u8 kPipeline = 0x0f;
constexpr u8 kTime = 0x70;  // how long after the packet before
constexpr u8 kLies = 0x80;  // the frame's first eight bytes spoil the metadata's flags and offsets

constexpr u32 kBatch = 256;
constexpr std::chrono::seconds kPatience{150};
constexpr std::size_t kShortest = 14;  // BPF_PROG_TEST_RUN takes no less than an Ethernet header

// Rules that tell frames near the seeds apart, by every field.
constexpr const char* kRules =
    R"({"version": 1, "default": "pass", "fragments": "inspect", "malformed": "inspect",
  "management": [{"src": "128.0.0.0/3", "proto": "tcp", "dst_port": 22}],
  "pipelines": {"a": [{"stage": "l2fwd"}], "b": [{"stage": "l2fwd"}]},
  "rules": [
    {"match": {"control": ["arp", "lldp", "nd"]}, "action": "drop"},
    {"match": {"vlan": [10, "priority"], "proto": "udp"}, "action": {"inspect": "b"}},
    {"match": {"src": "192.0.0.0/9", "proto": "udp", "dst_port": "0-1023"}, "action": {"inspect": "a"}},
    {"match": {"tcp_flags": "syn, !ack"}, "action": "drop"},
    {"match": {"dst": ["198.51.100.0/31", "2001:db8::/33"]}, "action": {"inspect": "b"}},
    {"match": {"proto": [1, 58, 132]}, "action": "drop"},
    {"match": {"src_port": "1-999"}, "action": "pass"},
    {"match": {"family": "ipv6", "vlan": "none"}, "action": {"inspect": "a"}},
    {"match": {"src": "0.0.0.0/1"}, "action": "drop"}]})";

// ---- The kernel ------------------------------------------------------------------------------------

class Kernel {
 public:
  Kernel() {
    program_.install(test::kInspectAll);
    program_.connect(0, 1);
    // As if there were a router.
    program_.policy(program_.generation() & 1).routes = 1;
    program_.config().mac = XG_MAC_ANY;
    const auto policy = policy::parse(kRules, "rules", policy::read_files_of({}));
    if (!policy) throw std::runtime_error(policy.error().at(0).sentence());
    tables_ = policy::compile(*policy).value();
    auto opened = control::TestRun::open(tables_, kGeneration);
    if (!opened) throw std::runtime_error(opened.error());
    rules_ = std::move(*opened);
  }

  void judge(Input input, Input frame, const xg_packet& packet) {
    same_metadata(input, frame, packet);
    same_rules(input, frame, packet);
  }

 private:
  void same_metadata(Input input, Input frame, const xg_packet& packet) {
    const auto& config = program_.config();
    xg_packet looked_at = packet;
    xg_router_look(frame.data(), frame.data() + frame.size(), XG_MAC_ANY, &looked_at);
    xg_metadata should{};
    xg_metadata_from(&should, &looked_at, xg_flow_hash(&packet.key, &config.flow_keys));
    program_.renew(0, 1);
    const auto outcome = program_.run_uncounted(Frame(frame.begin(), frame.end()));
    if (outcome.action != XDP_REDIRECT || !outcome.metadata)
      fail(input, fmt::format("the XDP program is to inspect all, and answers {}", outcome.action));
    xg_metadata is = *outcome.metadata;
    is.rx_time_ns = 0;
    is.generation = 0;
    is.sequence = 0;
    if (std::memcmp(&is, &should, sizeof(is)) != 0)
      fail(input,
           fmt::format("the XDP program and user space parse it differently: flags {:#x} {:#x}, l3 {} {}, "
                       "l4 {} {}, payload {} {}, protocol {} {}, router {} {}, flow hash {:#x} {:#x}",
                       is.flags, should.flags, is.l3_offset, should.l3_offset, is.l4_offset, should.l4_offset,
                       is.payload_offset, should.payload_offset, is.protocol, should.protocol, is.router,
                       should.router, is.flow_hash, should.flow_hash));
  }

  void same_rules(Input input, Input frame, const xg_packet& packet) {
    // Within all limits and rates; the one management entry is of TCP.
    const auto conforms = [](const xg_rule& rule, u32, const xg_packet& p) {
      return rule.action != XG_RULE_ANSWER ||
             (xg_management_kind(&p, 1) && xg_management_tcp_answer(p.tcp_flags));
    };
    const auto should = control::decide(tables_, packet, conforms, [](const auto&) { return true; });
    const auto is = rules_->run(frame, true);
    if (!is) fail(input, is.error());
    const u32 pipeline = is->metadata ? is->metadata->pipeline : 0;
    if (is->reason != should.reason || pipeline != should.pipeline)
      fail(input, fmt::format("the XDP program's rules say {} (pipeline {}), user space's {} (pipeline {})",
                              control::reason_name(is->reason), pipeline, control::reason_name(should.reason),
                              should.pipeline));
  }

  test::Program program_;
  policy::Tables tables_;
  std::unique_ptr<control::TestRun> rules_;
};

// ---- The devices -----------------------------------------------------------------------------------

std::vector<gpu::PipelineSettings> pipelines() {
  tests::Random random(1);
  std::vector<gpu::PipelineSettings> settings;
  gpu::RateLimitSettings limit;
  limit.packets_per_second = 3;
  limit.burst_packets = 5;
  limit.table = {64, gpu::TableSettings::Evict::lru};
  gpu::ConntrackSettings connections;
  connections.egress = false;
  connections.table = {256, gpu::TableSettings::Evict::lfu};
  settings.push_back({"connections", {connections, limit}});
  gpu::DdosSettings floods;
  floods.thresholds.fill(40);
  floods.hold_ms = 2000;
  floods.table = {64, gpu::TableSettings::Evict::lru};
  settings.push_back({"floods", {floods}});
  gpu::AclSettings inside = tests::random_acl(random, 20);
  inside.cache = false;
  settings.push_back({"inside of tunnels", {connections, inside, limit}, true});
  gpu::DomainsSettings names;
  names.ports = {{0, 65535}};
  names.lists.push_back(
      {"names", {std::make_shared<const std::string>(".com\n*.a\nb.a\n"), 3}, gpu::Action::drop});
  names.otherwise = gpu::Action::pass;
  settings.push_back({"names", {names}});
  settings.push_back({"names inside of tunnels", {names}, true});
  // Of these as many as kPipeline has room for.
  for (auto& one : tests::policy_case("composed", random)) settings.push_back(std::move(one));
  return settings;
}

struct Tested {
  std::string name;
  std::unique_ptr<gpu::Device> device;
  std::unique_ptr<gpu::Queue> queue;  // goes first
};

class Devices {
 public:
  Devices() : settings_(pipelines()), region_(u64{kBatch} * XG_CHUNK_SIZE), reference_(settings_) {
    const auto compiled = gpu::Pipelines::compile(settings_).value();
    for (const auto& info : gpu::list_devices()) {
      if (!info.usable) continue;
      auto device = gpu::open_device(info.name);
      if (!device) throw std::runtime_error(device.error());
      const auto registered =
          (*device)->register_frames(region_.base(), region_.size(), gpu::Frames::automatic);
      if (!registered) throw std::runtime_error(registered.error());
      if (auto loaded = (*device)->load(kGeneration, compiled); !loaded)
        throw std::runtime_error(loaded.error());
      auto queue = (*device)->open_queue({kBatch, 1, gpu::Drive::launched});
      if (!queue) throw std::runtime_error(queue.error());
      tested_.push_back({info.name, std::move(*device), std::move(*queue)});
    }
  }

  void take(Input input, Input frame) {
    static constexpr std::array<u64, 8> kSteps{0,           1'000,         1'000'000,      40'000'000,
                                               300'000'000, 1'000'000'000, 20'000'000'000, 3'600'000'000'000};
    const u8 choices = input[0];
    const u64 chunk = u64{descriptors_.size()} * XG_CHUNK_SIZE;
    const auto pipeline = static_cast<u16>((choices & kPipeline) % settings_.size());
    auto descriptor = tests::place(region_, chunk + XG_FRAME_DATA, frame, pipeline, sequence_++);
    u8* at = region_.base() + descriptor.offset - XG_METADATA_SIZE;
    now_ns_ += kSteps[(choices & kTime) >> 4];
    std::memcpy(at + offsetof(xg_metadata, rx_time_ns), &now_ns_, sizeof(now_ns_));
    if ((choices & kLies) != 0)
      for (u32 i = 0; i < 8; ++i) at[offsetof(xg_metadata, flags) + i] ^= frame[i];
    descriptors_.push_back(descriptor);
    inputs_.emplace_back(input.begin(), input.end());
    if (descriptors_.size() == kBatch) judge();
  }

  // What has been taken since the last time.
  void judge() {
    if (descriptors_.empty()) return;
    std::vector<xg_result> should(descriptors_.size());
    std::vector<xg_edit> edits(descriptors_.size());
    std::vector<xg_adjust> adjusts(descriptors_.size());
    std::vector<xg_alerts> alerts(descriptors_.size());
    std::vector<xg_patch> patches(descriptors_.size());
    std::vector<xg_event> events(descriptors_.size());
    const gpu::reference::Edits records{edits, adjusts, alerts, patches, events};
    reference_.decide(region_.bytes(), descriptors_, kGeneration, should, records);
    for (Tested& one : tested_) compare(one, should, records);
    descriptors_.clear();
    inputs_.clear();
  }

 private:
  void compare(Tested& one, const std::vector<xg_result>& should, const gpu::reference::Edits& records) {
    gpu::Slot* slot = one.queue->acquire();
    std::copy(descriptors_.begin(), descriptors_.end(), slot->descriptors);
    if (one.queue->submit(slot, static_cast<u32>(descriptors_.size()), kGeneration) != gpu::Submit::ok)
      fail(inputs_.back(), one.name + " takes no batch");
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    gpu::Slot* done = nullptr;
    while ((done = one.queue->poll()) == nullptr) {
      if (std::chrono::steady_clock::now() > deadline) fail(inputs_.back(), one.name + " does not answer");
      std::this_thread::yield();
    }
    if (done->failed) fail(inputs_.back(), one.name + " failed");
    for (std::size_t i = 0; i < should.size(); ++i) {
      const xg_result &is = done->results[i], &is_right = should[i];
      if (std::memcmp(&is, &is_right, sizeof(is)) != 0)
        fail(inputs_[i], fmt::format("{} differs from the reference: verdict {:#x} {:#x}, flags {:#x} {:#x}, "
                                     "detail {} {}; packets before it may matter",
                                     one.name, is.verdict, is_right.verdict, is.flags, is_right.flags,
                                     is.detail, is_right.detail));
      const bool edited = (is.flags & XG_RES_EDIT) == 0 ||
                          std::memcmp(&done->edits[i], &records.edits[i], sizeof(xg_edit)) == 0;
      const bool adjusted = (is.flags & (XG_RES_ADJUST | XG_RES_TOO_LONG)) == 0 ||
                            std::memcmp(&done->adjusts[i], &records.adjusts[i], sizeof(xg_adjust)) == 0;
      const bool told = (is.flags & XG_RES_ALERTS) == 0 ||
                        std::memcmp(&done->alerts[i], &records.alerts[i], sizeof(xg_alerts)) == 0;
      const u64 patch_bytes = offsetof(xg_patch, bytes) + records.patches[i].count * XG_PATCH_LINE_BYTES;
      const bool patched = (is.flags & XG_RES_PATCH) == 0 ||
                           std::memcmp(&done->patches[i], &records.patches[i], patch_bytes) == 0;
      const u64 event_bytes = offsetof(xg_event, bytes) + records.events[i].length;
      const bool put_out = (is.flags & XG_RES_EVENT) == 0 ||
                           std::memcmp(&done->events[i], &records.events[i], event_bytes) == 0;
      if (!edited || !adjusted || !told || !patched || !put_out)
        fail(inputs_[i], one.name + " has other records than the reference; packets before it may matter");
    }
    one.queue->release(done);
  }

  std::vector<gpu::PipelineSettings> settings_;
  tests::FrameRegion region_;
  gpu::reference::Judge reference_;
  std::vector<Tested> tested_;
  std::vector<xg_descriptor> descriptors_;
  std::vector<Bytes> inputs_;
  u64 now_ns_ = 3'600'000'000'000;
  u32 sequence_ = 0;
};

// Where a frame has no more room than it takes, and where it stands alone in its chunk.
void judge_answers(Input input, Input frame) {
  const auto length = static_cast<u32>(frame.size());
  for (const u32 room : {length, XG_FRAME_MAX})
    for (const auto whom : {dataplane::Told::sender, dataplane::Told::receiver}) {
      const auto answer = std::make_unique<u8[]>(room);
      std::copy(frame.begin(), frame.end(), answer.get());
      const auto answered = dataplane::answer_rejected(answer.get(), length, length, room, whom);
      if (!answered) {
        if (!std::equal(frame.begin(), frame.end(), answer.get()))
          fail(input, "a frame that is not answered was written to");
        continue;
      }
      if (*answered > room) fail(input, "an answer is longer than there is room");
      xg_packet packet;
      xg_parse(answer.get(), answer.get() + *answered, 3, &packet);
      constexpr u32 kWrong = XG_PKT_MALFORMED | XG_PKT_FRAGMENT;
      if (packet.flags & kWrong || !(packet.flags & (XG_PKT_TCP | XG_PKT_ICMP)))
        fail(input, fmt::format("an answer is no packet: flags {:#x}", packet.flags));
    }
}

struct State {
  std::unique_ptr<Kernel> kernel = test::why_unavailable().empty() ? std::make_unique<Kernel>() : nullptr;
  Devices devices;
};
State& state() {
  static State made;
  return made;
}

}  // namespace

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add = [&](const Frame& frame) {
    // Pipelines and steps in time go round.
    Bytes input{static_cast<u8>((all.size() * 0x21) & (kPipeline | kTime))};
    input.insert(input.end(), frame.begin(), frame.end());
    all.push_back(std::move(input));
  };
  for (const auto& sample : test::samples()) add(sample.frame);
  for (u32 kind = 0; kind <= static_cast<u32>(tests::Tunnel::gue_1); ++kind)
    if (const Bytes made = tests::in_tunnel(static_cast<tests::Tunnel>(kind), kind % 2 == 0,
                                            test::samples().front().frame, 7);
        !made.empty())
      add(Frame(made.begin(), made.end()));
  for (const char* name :
       {"geneve", "gre", "ipv6-fragments", "quic", "sctp", "teredo", "vlan", "vlan-fragment"}) {
    const auto frames = test::read_capture(test::capture_directory() / fmt::format("{}.pcap", name));
    for (std::size_t i = 0; i < frames.size() && i < 4; ++i)
      if (frames[i].size() <= XG_FRAME_MAX) add(frames[i]);
  }
  return all;
}

std::vector<Bytes> cases() {
  using namespace test;
  std::vector<Bytes> all;
  const auto add = [&](const Frame& frame) {
    Bytes input{static_cast<u8>((all.size() * 0x21) & (kPipeline | kTime))};
    input.insert(input.end(), frame.begin(), frame.end());
    input.resize(std::min<std::size_t>(input.size(), 1 + XG_FRAME_MAX));
    all.push_back(std::move(input));
  };
  const auto cut = [](const Frame& frame, std::size_t length) {
    return Frame(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(length));
  };
  // Each sample cut at every length, from none on; and with a bit of its headers wrong, checksums included.
  for (const auto& sample : samples()) {
    for (std::size_t length = 0; length < sample.frame.size(); ++length) add(cut(sample.frame, length));
    for (std::size_t bit = 12 * 8; bit < std::min<std::size_t>(sample.frame.size(), 62) * 8; bit += 7) {
      Frame wrong = sample.frame;
      wrong[bit / 8] = static_cast<u8>(wrong[bit / 8] ^ 0x80u >> bit % 8);
      add(wrong);
    }
  }
  // Every length that a header can say of what is behind it, near the truth and at the ends.
  for (int length = 0; length < 80; ++length) {
    add(ethernet() + ipv4({.total = length}, udp(1, 2, 20)));
    add(ethernet() + ipv6({.length = length}, udp(1, 2, 20)));
    add(ethernet() + ipv4({}, udp(1, 2, 20, length)));
  }
  for (const int length : {0x7fff, 0x8000, 0xfffe, 0xffff}) {
    add(ethernet() + ipv4({.total = length}, udp(1, 2, 20)));
    add(ethernet() + ipv6({.length = length}, udp(1, 2, 20)));
    add(ethernet() + ipv4({}, udp(1, 2, 20, length)));
  }
  for (int first = 0; first < 256; ++first)
    add(ethernet() + ipv4({.options = bytes(40, static_cast<u8>(first)), .first_byte = first},
                          tcp(1, 2, 0x10, static_cast<u8>(first & 15)) + bytes(40)));
  // Tags, and extension headers of each kind and size, up to more than fit.
  for (std::size_t tags = 0; tags < 12; ++tags)
    for (const u16 type : {u16{0x8100}, u16{0x88a8}, u16{0x9100}}) {
      add(ethernet(std::vector<u16>(tags, 10), std::vector<u16>(tags, type)) + ipv4({}, udp(1000, 53, 4)));
      add(ethernet(std::vector<u16>(tags, 0xefff), std::vector<u16>(tags, type)) +
          ipv6({}, udp(1000, 53, 4)));
    }
  for (const u8 kind : {u8{0}, u8{43}, u8{44}, u8{50}, u8{51}, u8{60}, u8{135}, u8{139}, u8{140}})
    for (std::size_t headers = 1; headers <= 220; headers += headers < 20 ? 1 : 40)
      for (const u8 units : {u8{0}, u8{1}, u8{7}, u8{255}}) {
        Frame chain;
        for (std::size_t i = 0; i < headers && chain.size() < XG_FRAME_MAX; ++i)
          chain = chain + extension(i + 1 == headers ? 17 : kind, units);
        add(ethernet() + ipv6({.next = kind}, chain + udp(1, 2, 8)));
      }
  // Fragments of one packet that overlap, and are tiny.
  for (const u32 more : {0u, 1u})
    for (u32 offset = 0; offset < 6; ++offset)
      for (std::size_t size = 0; size <= 24; size += size < 9 ? 1 : 5) {
        add(ethernet() +
            ipv4({.fragment = static_cast<u16>(more << 13 | offset)}, cut(udp(1000, 53, 24), size)));
        add(ethernet() + ipv4({.protocol = 6, .fragment = static_cast<u16>(more << 13 | offset)},
                              cut(tcp(1, 2) + bytes(12), size)));
        add(ethernet() + ipv6({.next = 44}, fragment_header(17, static_cast<u16>(offset << 3 | more), 7) +
                                                cut(udp(1000, 53, 24), size)));
      }
  // The longest that a frame of memory holds.
  for (std::size_t less = 0; less < 4; ++less) {
    add(ethernet() + ipv4({}, udp(1, 2, XG_FRAME_MAX - 42 - less)));
    add(ethernet() + ipv6({}, udp(1, 2, XG_FRAME_MAX - 62 - less)));
  }
  return all;
}

void finish() { state().devices.judge(); }

std::vector<std::string> left_out() {
  std::vector<std::string> all;
  if (const auto why = test::why_unavailable(); !why.empty()) all.push_back("the XDP program: " + why);
  for (const auto& info : gpu::list_devices())
    if (!info.usable) all.push_back(fmt::format("{}: {}", info.name, info.reason));
  return all;
}

}  // namespace xdpgpu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
  using namespace xdpgpu;
  using namespace xdpgpu::fuzz;
  State& s = state();
  if (size == 0) return 0;
  const Input input(data, std::min<std::size_t>(size, 1 + XG_FRAME_MAX));
  // Of just that size: AddressSanitizer sees a read beyond it.
  const std::size_t length = input.size() - 1;
  const auto frame = std::make_unique<u8[]>(length);
  std::copy(input.begin() + 1, input.end(), frame.get());
  xg_packet packet;
  xg_parse(frame.get(), frame.get() + length, 3, &packet);
  if (packet.ip_end > length || packet.payload_offset > length || packet.l3_offset > length)
    fail(input, "the parser points behind the frame");
  if (length < kShortest) return 0;
  const Input bytes(frame.get(), length);
  judge_answers(input, bytes);
  if (s.kernel) s.kernel->judge(input, bytes, packet);
  s.devices.take(input, bytes);
  return 0;
}
