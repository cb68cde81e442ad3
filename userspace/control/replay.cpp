// SPDX-License-Identifier: MIT
#include "userspace/control/replay.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "maps/hash.h"
#include "maps/router.h"
#include "userspace/control/decide.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/fragment_track.hpp"
#include "userspace/control/replay_limits.hpp"
#include "userspace/control/rule_stats.hpp"
#include "userspace/control/test_run.hpp"
#include "userspace/control/waiting_fragments.hpp"
#include "userspace/dataplane/fragments.hpp"
#include "userspace/dataplane/host_rules.hpp"

namespace xdpgpu::control {
namespace {

constexpr u32 kGeneration = 1;
constexpr u32 kBatch = 256;
constexpr u32 kDepth = 4;

// As the kernel and user space read a frame: its first buffer, and its length.
xg_packet parsed(std::span<const u8> frame) {
  const auto first = frame.first(std::min<std::size_t>(frame.size(), XG_FRAME_MAX));
  xg_packet packet;
  xg_parse_part(first.data(), first.data() + first.size(), static_cast<u32>(frame.size()), 0, &packet);
  return packet;
}

// The frame memory of the replay: as many chunks as can be in flight.
class Region {
 public:
  Region()
      : bytes_(std::size_t{kBatch} * kDepth * XG_CHUNK_SIZE),
        base_(static_cast<u8*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0))) {}
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() {
    if (ok()) munmap(base_, bytes_);
  }
  bool ok() const { return base_ != MAP_FAILED; }
  u8* base() const { return base_; }
  u64 bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  u8* base_;
};

// A fragment that the policy follows, as it was before anything was done to it.
using FragmentKey = std::array<u8, sizeof(xg_flow_key)>;
struct Fragment {
  FragmentKey key{};
  bool later = false;
  std::vector<u8> bytes;  // metadata and frame

  Fragment(const xg_packet& packet, const xg_metadata& metadata, std::span<const u8> frame)
      : later(metadata.flags & XG_PKT_LATER_FRAGMENT), bytes(sizeof(metadata) + frame.size()) {
    std::memcpy(key.data(), &packet.key, sizeof(packet.key));
    std::memcpy(bytes.data(), &metadata, sizeof(metadata));
    std::copy(frame.begin(), frame.end(), bytes.begin() + sizeof(metadata));
  }
  const u8* frame() const { return bytes.data() + sizeof(xg_metadata); }
};

}  // namespace

struct Replay::Impl {
  // The region outlives the device, the device its queue.
  Region region;
  std::unique_ptr<gpu::Device> device;
  std::unique_ptr<gpu::Queue> queue;
  gpu::Slot* filling = nullptr;
  u32 filled = 0;

  compiler::CompiledPolicy policy;
  std::unique_ptr<TestRun> kernel;
  std::string kernel_part;
  ReplayLimits limits;
  FragmentTrack fragments;
  std::optional<ReplayExempt> exempt;
  std::vector<xg_counter> limit_counts;  // of all rules, as last seen
  bool has_limits = false;

  const xg_hash_keys flow_keys = xg_hash_keys_from(0, 0);

  std::deque<PacketVerdict> pending;  // all packets whose verdict was not taken, in order
  // Of them, those with the device.
  struct Inspected {
    std::size_t position;  // counted from the first ever
    std::optional<Fragment> fragment;
    std::vector<std::size_t> made_of;  // the fragments' positions, where it was made of some
  };
  std::deque<Inspected> inspected;
  std::set<std::size_t> undecided;  // positions
  std::optional<WaitingFragments> waiting;
  std::map<std::size_t, Fragment> fragments_by_position;  // that wait, or are in what was made of them
  std::map<FragmentKey, dataplane::FirstResult> firsts;   // what first fragments came to
  std::size_t taken = 0;                                  // packets that left `pending`
  u64 packets = 0;
  u64 first_time = 0;
  u32 sequence = 0;
  std::vector<u8> restored;                            // a frame that the capture has cut
  dataplane::AlertRules alert_rules;                   // counts how often they have held
  std::vector<dataplane::AlertRules::Pipeline> rules;  // by pipeline
  dataplane::ExpressionScratch scratch;

  Result<void> open_device(const std::string& name);
  void open_kernel(const ReplayOptions& options);
  std::span<const u8> as_on_the_wire(std::span<const u8> captured, u32 original_length);
  Result<Decision> decide_packet(std::span<const u8> frame, xg_packet packet, u64 time_ns,
                                 xg_metadata* metadata);
  int limit_that_dropped();
  Result<void> submit_packet(std::span<const u8> frame, const xg_metadata& metadata);
  Result<void> flush();
  Result<void> retire(bool wait_for_one);
  void alert(PacketVerdict& verdict, const xg_alerts& alerts, xg_result& result,
             std::span<const xg_descriptor> buffers, bool is_followed);
  std::vector<u8> whole(std::span<const xg_descriptor> buffers);
  xg_result result_of(const Inspected& packet, const dataplane::Decision& decision);
  Result<void> settle_fragments();
  void finish_inspected(const Inspected& packet, const dataplane::Decision& decision);
  void finish_packet(std::size_t position, const xg_result& result);
  static void note_change(PacketVerdict& verdict, const xg_patch& patch);
  PacketVerdict& decided(std::size_t position) {
    undecided.erase(position);
    return pending[position - taken];
  }
};

Replay::Replay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Replay::~Replay() = default;
const std::string& Replay::kernel_part() const noexcept { return impl_->kernel_part; }
const std::string& Replay::device() const noexcept { return impl_->device->info().name; }

Result<std::unique_ptr<Replay>> Replay::open(const compiler::CompiledPolicy& policy,
                                             const ReplayOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->policy = policy;
  impl->exempt.emplace(policy.tables.header);
  for (u32 i = 0; i < policy.tables.header.rule_count; i++)
    impl->has_limits = impl->has_limits || rule_at(policy.tables, i).action == XG_RULE_LIMIT;
  // As a worker does, which lets nothing wait under --audit.
  if (policy.policy.reassembles && !policy.audits())
    impl->waiting.emplace(policy.policy.overlapping_fragments == policy::Overlapping::first
                              ? dataplane::Overlapping::first
                              : dataplane::Overlapping::drop);
  if (!impl->region.ok()) return Error(std::string("cannot get memory for frames"));
  if (auto opened = impl->open_device(options.device); !opened) return Error(opened.error());
  impl->open_kernel(options);
  for (const auto& pipeline : policy.pipelines->settings()) impl->rules.push_back(alert_rules_of(pipeline));
  return std::unique_ptr<Replay>(new Replay(std::move(impl)));
}

Result<void> Replay::Impl::open_device(const std::string& name) {
  auto opened = gpu::open_device(name);
  if (!opened) return Error(opened.error());
  device = std::move(*opened);
  if (auto done = device->register_frames(region.base(), region.bytes(), gpu::Frames::automatic); !done)
    return done;
  if (auto done = device->load(kGeneration, policy.pipelines); !done) return done;
  auto made = device->open_queue({kBatch, kDepth});
  if (!made) return Error(made.error());
  queue = std::move(*made);
  return {};
}

void Replay::Impl::open_kernel(const ReplayOptions& options) {
  if (!options.kernel) {
    kernel_part = "skipped: asked for; the rules were walked in user space instead";
    return;
  }
  if (geteuid() != 0) {
    kernel_part = "skipped: not root; the rules were walked in user space instead";
    return;
  }
  if (options.repeatable && has_limits) {
    kernel_part =
        "skipped: limits would run by the kernel's clock, which differs from run to run; the rules were "
        "walked in user space instead";
    return;
  }
  auto opened = TestRun::open(policy.tables, kGeneration);
  if (!opened) {
    kernel_part = fmt::format("skipped: {}; the rules were walked in user space instead", opened.error());
    return;
  }
  kernel = std::move(*opened);
  limit_counts.resize(policy.tables.header.rule_count);
  kernel_part = has_limits ? "run in the kernel; limits ran by the kernel's clock, not by the capture's"
                           : "run in the kernel";
}

// Limit rules count only what they drop.
int Replay::Impl::limit_that_dropped() {
  const auto now = kernel->rule_counters();
  if (!now) return -1;
  int dropped = -1;
  for (u32 i = 0; i < now->size(); i++)
    if (rule_at(policy.tables, i).action == XG_RULE_LIMIT && (*now)[i].packets != limit_counts[i].packets)
      dropped = static_cast<int>(i);
  limit_counts = *now;
  return dropped;
}

Result<Decision> Replay::Impl::decide_packet(std::span<const u8> frame, xg_packet packet, u64 time_ns,
                                             xg_metadata* metadata) {
  const bool ask_kernel = kernel && frame.size() >= TestRun::kMinFrame;
  const u64 now_ns = time_ns - first_time;
  bool within = true;
  const auto conforms = [&](const xg_rule& rule, u32 index, const xg_packet& p) {
    if (rule.action == XG_RULE_ANSWER) return within = exempt->is_answer(p, now_ns);
    return ask_kernel || limits.conforms(rule, index, p, now_ns);
  };
  const auto within_rate = [&](const xg_packet& p) { return within = exempt->within_rate(p, now_ns); };
  const u32 flow_hash = xg_flow_hash(&packet.key, &flow_keys);
  const auto first = frame.first(std::min<std::size_t>(frame.size(), XG_FRAME_MAX));
  Decision decision = fragments.decide(policy.tables, first, packet, now_ns, conforms, within_rate);
  if (decision.reason == XG_KERNEL_pass_management &&
      rule_at(policy.tables, static_cast<u32>(decision.rule)).action == XG_RULE_MANAGEMENT)
    exempt->note_management(packet, now_ns);
  xg_metadata_from(metadata, &packet, flow_hash);
  if (!ask_kernel) return decision;
  // The kernel's clock has not gone on as the capture's has.
  if (fragments.outlived())
    if (auto done = kernel->forget_fragments(packet); !done) return Error(done.error());
  const auto answer = kernel->run(frame, within);
  if (!answer) return Error(answer.error());
  if (answer->reason == XG_KERNEL_drop_limit) {
    decision.rule = limit_that_dropped();
    std::erase_if(decision.mirrors, [&](u32 rule) { return static_cast<int>(rule) > decision.rule; });
  } else if (answer->reason != decision.reason) {
    decision.rule = -1;  // the kernel's answer counts; which rule gave it is not known
  }
  decision.reason = answer->reason;
  if (answer->metadata) {
    *metadata = *answer->metadata;
    metadata->flow_hash = flow_hash;  // the program's is by a key of its own
    decision.pipeline = answer->metadata->pipeline;
  }
  return decision;
}

// What is read of a frame does not hang on the bytes that the capture has cut off, if it is the same whatever
// they are: nothing, IPv4, IPv6, all kinds of lengths.
std::span<const u8> Replay::Impl::as_on_the_wire(std::span<const u8> captured, u32 original_length) {
  const auto length = std::min<std::size_t>(original_length, TestRun::kMaxFrame);
  if (captured.size() >= length) return captured.first(std::min(captured.size(), TestRun::kMaxFrame));
  restored.assign(captured.begin(), captured.end());
  restored.resize(length);
  std::optional<std::array<u8, sizeof(xg_packet)>> before;
  for (const u32 byte : {0xffu, 0x45u, 0x60u, 0x11u, 0x06u, 0x00u}) {
    std::fill(restored.begin() + static_cast<std::ptrdiff_t>(captured.size()), restored.end(),
              static_cast<u8>(byte));
    const xg_packet packet = parsed(restored);
    if (packet.l3_offset > captured.size()) return captured;
    std::array<u8, sizeof(xg_packet)> read{};
    std::memcpy(read.data(), &packet, sizeof(packet));
    if (before && *before != read) return captured;
    before = read;
  }
  return restored;
}

Result<void> Replay::feed(std::span<const u8> captured, u32 original_length, u64 time_ns) {
  Impl& impl = *impl_;
  const auto frame = impl.as_on_the_wire(captured, original_length);
  if (impl.packets == 0) impl.first_time = time_ns;
  if (impl.waiting) {
    impl.waiting->expire(time_ns);
    if (auto done = impl.settle_fragments(); !done) return done;
  }
  xg_packet packet = parsed(frame);
  const auto first = frame.first(std::min<std::size_t>(frame.size(), XG_FRAME_MAX));
  xg_router_look(first.data(), first.data() + first.size(), XG_MAC_ANY, &packet);
  xg_metadata metadata{};
  const auto decision = impl.decide_packet(frame, packet, time_ns, &metadata);
  if (!decision) return Error(decision.error());

  PacketVerdict verdict;
  verdict.number = ++impl.packets;
  verdict.time_ns = time_ns;
  verdict.length = original_length;
  verdict.headers_cut = frame.size() < std::min<std::size_t>(original_length, TestRun::kMaxFrame);
  verdict.kernel_reason = decision->reason;
  verdict.reason = reason_text(decision->reason);
  verdict.flow = flow_text(packet.key, packet.flags);
  for (const u32 rule : decision->mirrors)
    verdict.mirrors.push_back(impl.policy.policy.pipelines[rule_at(impl.policy.tables, rule).pipeline].name);
  const auto& names = impl.policy.tables.rule_names;
  if (decision->rule >= 0 && static_cast<std::size_t>(decision->rule) < names.size())
    verdict.rule = names[static_cast<std::size_t>(decision->rule)];
  const bool inspect = decision->reason == XG_KERNEL_inspected;
  verdict.action = inspect ? u32{XG_ABORTED} : action_of(decision->reason);
  if (inspect && decision->pipeline < impl.policy.policy.pipelines.size())
    verdict.pipeline = impl.policy.policy.pipelines[decision->pipeline].name;
  impl.pending.push_back(std::move(verdict));
  if (!inspect) return {};

  metadata.rx_time_ns = time_ns;
  metadata.generation = kGeneration;
  metadata.sequence = impl.sequence++;
  metadata.pipeline = decision->pipeline;
  const std::size_t position = impl.taken + impl.pending.size() - 1;
  impl.undecided.insert(position);
  const auto shown = frame.first(std::min<std::size_t>(frame.size(), XG_PACKET_MAX));
  std::optional<Fragment> fragment;
  if (metadata.flags & XG_PKT_TRACKED) fragment.emplace(packet, metadata, first);
  if (fragment && impl.waiting && impl.waiting->take(shown, metadata, position)) {
    impl.fragments_by_position.emplace(position, std::move(*fragment));
    return impl.settle_fragments();
  }
  impl.inspected.push_back({position, std::move(fragment), {}});
  return impl.submit_packet(shown, metadata);
}

// Drops what cannot be put together, and hands on what is.
Result<void> Replay::Impl::settle_fragments() {
  for (const auto& [position, why] : waiting->take_dropped()) {
    fragments_by_position.erase(position);
    PacketVerdict& verdict = decided(position);
    verdict.action = XG_DROP;
    verdict.reason = words_of(why);
  }
  while (auto whole = waiting->take_whole()) {
    const std::size_t last = whole->fragments.back();
    inspected.push_back({last, std::nullopt, std::move(whole->fragments)});
    if (auto done = submit_packet(whole->frame, whole->metadata); !done) return done;
  }
  return {};
}

Result<void> Replay::Impl::submit_packet(std::span<const u8> frame, const xg_metadata& metadata) {
  while (!filling) {
    filling = queue->acquire();
    filled = 0;
    if (!filling)
      if (auto done = retire(true); !done) return done;
  }
  const u64 metadata_at = (u64{filling->index} * kBatch + filled) * XG_CHUNK_SIZE + XG_FRAME_DATA;
  std::memcpy(region.base() + metadata_at - XG_METADATA_SIZE, &metadata, sizeof(metadata));
  do {
    const u64 at = (u64{filling->index} * kBatch + filled) * XG_CHUNK_SIZE + XG_FRAME_DATA;
    const auto part = frame.first(std::min<std::size_t>(frame.size(), XG_FRAME_MAX));
    std::memcpy(region.base() + at, part.data(), part.size());
    frame = frame.subspan(part.size());
    filling->descriptors[filled++] = {at, static_cast<u32>(part.size()), frame.empty() ? 0 : XG_DESC_MORE};
  } while (!frame.empty());
  // There is always room for the longest packet.
  return filled > kBatch - XG_PACKET_BUFFERS ? flush() : Result<void>{};
}

Result<void> Replay::Impl::flush() {
  if (!filling || filled == 0) return {};
  if (queue->submit(filling, filled, kGeneration) != gpu::Submit::ok)
    return Error(fmt::format("device {} failed", device->info().name));
  filling = nullptr;
  return retire(false);
}

Result<void> Replay::Impl::retire(bool wait_for_one) {
  while (queue->in_flight() > 0) {
    gpu::Slot* done = queue->poll();
    if (!done) {
      if (!wait_for_one) return {};
      std::this_thread::yield();
      continue;
    }
    if (done->failed) return Error(fmt::format("device {} failed", device->info().name));
    for (u32 i = 0; i < done->count; i++) {
      const std::span<const xg_descriptor> rest(&done->descriptors[i], done->count - i);
      if (done->alerts != nullptr && (done->results[i].flags & XG_RES_ALERTS))
        alert(pending[inspected.front().position - taken], done->alerts[i], done->results[i], rest,
              inspected.front().fragment.has_value());
      finish_inspected(inspected.front(), dataplane::decision_at(*done, i));
      // Later fragments, and those that others were made of, have no change of their own.
      const Inspected& packet = inspected.front();
      const bool has_own = packet.made_of.empty() && !(packet.fragment && packet.fragment->later);
      if (done->results[i].flags & XG_RES_PATCH && has_own)
        note_change(pending[packet.position - taken], done->patches[i]);
      inspected.pop_front();
      while (done->descriptors[i].flags & XG_DESC_MORE) i++;
    }
    queue->release(done);
    wait_for_one = false;
  }
  return {};
}

// By the capture's clock. buffers: the packet's, and others behind them. is_followed: it is a first fragment,
// which waits for nobody on the wire either.
void Replay::Impl::alert(PacketVerdict& verdict, const xg_alerts& alerts, xg_result& result,
                         std::span<const xg_descriptor> buffers, bool is_followed) {
  const u8* const frame = region.base() + buffers.front().offset;
  const u32 length = buffers.front().length;
  xg_metadata metadata;
  std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
  if (metadata.pipeline >= rules.size() || !rules[metadata.pipeline].rules) return;
  const auto& pipeline = rules[metadata.pipeline];
  const auto ends = dataplane::ends_of(frame, length, metadata, alerts.connection);
  dataplane::AlertRules::Rests rests;
  if (is_followed)
    rests.unasked = dataplane::AlertRules::asking(pipeline, alerts);
  else if (dataplane::AlertRules::asks(pipeline, alerts))
    rests = dataplane::ask_rests(pipeline, alerts, metadata, whole(buffers), scratch);
  const auto decided = alert_rules.decide(pipeline, alerts, ends, metadata.rx_time_ns, 0, rests);
  dataplane::put_late(decided, pipeline.stage, result);
  const u32 count = dataplane::AlertRules::named(decided.told);
  for (const u16 rule : std::span(decided.told.rules, count)) {
    if (rule >= pipeline.rules->size()) continue;
    const gpu::RuleHead& head = (*pipeline.rules)[rule];
    verdict.alerts.push_back({head.gid, head.sid, head.rev, head.priority, head.msg, head.category});
  }
  verdict.more_alerts = (decided.told.count & XG_ALERTS_MORE) != 0;
}

// The bytes of all buffers of the first packet.
std::vector<u8> Replay::Impl::whole(std::span<const xg_descriptor> buffers) {
  std::vector<u8> bytes;
  for (const xg_descriptor& one : buffers) {
    bytes.insert(bytes.end(), region.base() + one.offset, region.base() + one.offset + one.length);
    if (!(one.flags & XG_DESC_MORE)) break;
  }
  return bytes;
}

// A later fragment's is its first one's.
xg_result Replay::Impl::result_of(const Inspected& packet, const dataplane::Decision& decision) {
  if (!packet.fragment) return decision.result;
  const Fragment& fragment = *packet.fragment;
  if (!fragment.later) {
    firsts[fragment.key] = dataplane::first_result(decision, fragment.frame());
    return decision.result;
  }
  if (const auto first = firsts.find(fragment.key); first != firsts.end())
    return dataplane::result_of_later(first->second, fragment.frame()).result;
  xg_result unknown{};
  unknown.verdict = policy.tables.header.default_action == XG_DO_PASS ? XG_PASS : XG_DROP;
  return unknown;
}

void Replay::Impl::finish_inspected(const Inspected& packet, const dataplane::Decision& decision) {
  if (packet.made_of.empty()) return finish_packet(packet.position, result_of(packet, decision));
  for (const std::size_t position : packet.made_of) {
    const auto fragment = fragments_by_position.extract(position);
    finish_packet(
        position,
        dataplane::result_of_later(dataplane::result_of_whole(decision), fragment.mapped().frame()).result);
  }
}

void Replay::Impl::finish_packet(std::size_t position, const xg_result& result) {
  PacketVerdict& verdict = decided(position);
  verdict.action = XG_VERDICT_ACTION(result.verdict);
  const auto& settings = policy.pipelines->settings();
  const auto pipeline = std::find_if(settings.begin(), settings.end(),
                                     [&](const auto& s) { return s.name == verdict.pipeline; });
  verdict.stage = decider_text(result.verdict, pipeline == settings.end() ? nullptr : &*pipeline, &result);
  verdict.stage_number = XG_VERDICT_STAGE(result.verdict);
  if (pipeline != settings.end() && verdict.stage_number - 1 < pipeline->stages.size())
    verdict.stage_kind = gpu::stage_name(pipeline->stages[verdict.stage_number - 1]);
  if (verdict.action == XG_REDIRECT) {
    const u32 port = XG_VERDICT_PORT(result.verdict);
    verdict.target = port < policy.ports.size() ? policy.ports[port] : fmt::format("port {}", port);
  }
  verdict.reason = "inspected";
}

void Replay::Impl::note_change(PacketVerdict& verdict, const xg_patch& patch) {
  if (verdict.action == XG_PASS || verdict.action == XG_TX || verdict.action == XG_REDIRECT)
    verdict.changed_length = u32{patch.end} - patch.begin;
}

Result<void> Replay::finish() {
  if (impl_->waiting) {
    impl_->waiting->abandon();
    if (auto done = impl_->settle_fragments(); !done) return done;
  }
  if (auto done = impl_->flush(); !done) return done;
  while (impl_->queue->in_flight() > 0)
    if (auto done = impl_->retire(true); !done) return done;
  return {};
}

std::vector<PacketVerdict> Replay::take() {
  std::vector<PacketVerdict> verdicts;
  const std::size_t decided =
      impl_->undecided.empty() ? impl_->pending.size() : *impl_->undecided.begin() - impl_->taken;
  for (std::size_t i = 0; i < decided; i++) {
    verdicts.push_back(std::move(impl_->pending.front()));
    impl_->pending.pop_front();
  }
  impl_->taken += decided;
  return verdicts;
}

}  // namespace xdpgpu::control
