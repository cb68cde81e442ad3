// SPDX-License-Identifier: MIT
#include "gpu/reference/reference.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "gpu/reference/inner.hpp"
#include "gpu/reference/read.hpp"
#include "gpu/reference/stage.hpp"
#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

// By pipeline and position.
using Stages = std::vector<std::vector<std::unique_ptr<Stage>>>;

// Of the stages behind one of a pipeline, for one packet.
class StagesBehind final : public Behind {
 public:
  // place: of the stage that asks.
  StagesBehind(const std::vector<std::unique_ptr<Stage>>& pipeline, const Packet& packet, const Place& place)
      : stages_(std::span(pipeline).subspan(place.position)), packet_(packet), place_(place) {}

  Fate fate() const override {
    Place place = place_;
    xg_edit edit;
    xg_adjust adjust;
    xg_alerts alerts;
    xg_patch patch;
    xg_event event;
    place.edit = &edit;
    place.adjust = &adjust;
    place.alerts = &alerts;
    place.patch = &patch;
    place.event = &event;
    for (const auto& stage : stages_) {
      place.position++;
      place.is_last = &stage == &stages_.back();
      if (stage->remembers() || stage->inspects()) return Fate::undecided;
      xg_result result{};
      edit = {};
      adjust = {};
      alerts = {};
      patch = {};
      if (!stage->decide(packet_, place, result)) continue;
      const u32 action = XG_VERDICT_ACTION(result.verdict);
      if (action == XG_PASS) return Fate::to_host;
      return action == XG_TX || action == XG_REDIRECT ? Fate::sent_on : Fate::dropped;
    }
    return Fate::to_host;
  }

  bool sends() const override {
    return std::any_of(stages_.begin(), stages_.end(), [](const auto& stage) { return stage->may_send(); });
  }

  bool inspects() const override {
    return std::any_of(stages_.begin(), stages_.end(), [](const auto& stage) { return stage->inspects(); });
  }

 private:
  std::span<const std::unique_ptr<Stage>> stages_;
  const Packet& packet_;
  const Place& place_;
};

// Of a packet that every stage let go on.
void cache_undecided(const std::vector<std::unique_ptr<Stage>>& pipeline, const Packet& packet,
                     xg_result& result) {
  std::vector<u32> times;
  for (const auto& stage : pipeline)
    if (const auto ttl_ms = stage->cached_undecided()) times.push_back(*ttl_ms);
  if (times.empty() || times.size() != pipeline.size()) return;
  // 0 is no end.
  const u32 shortest =
      *std::min_element(times.begin(), times.end(), [](u32 a, u32 b) { return a - 1 < b - 1; });
  set_cache(true, shortest, packet, XG_REWRITE_NONE, result);
}

// The low 25 bits of the sequence are told.
bool expected(const xg_metadata& metadata, u32 descriptor_flags) {
  if ((descriptor_flags & XG_DESC_EXPECT) == 0) return true;
  const u32 port = descriptor_flags >> 2 & 31, sequence = descriptor_flags >> 7;
  return (descriptor_flags & XG_DESC_MORE) == 0 && metadata.port % 32 == port &&
         (metadata.sequence & 0x1ffffff) == sequence && (metadata.flags & XG_PKT_EGRESS) == 0;
}

// buffers: the packet's.
xg_result decide_packet(std::span<const u8> region, std::span<const xg_descriptor> buffers, u32 generation,
                        const std::vector<PipelineSettings>& settings, const Stages& stages, xg_edit& edit,
                        xg_adjust& adjust, xg_alerts& alerts, xg_patch& patch, xg_event& event) {
  const xg_descriptor& descriptor = buffers.front();
  xg_result result{};
  auto packet = read_packet(region, descriptor);
  if (!packet || packet->metadata.generation != generation || packet->metadata.pipeline >= stages.size() ||
      !expected(packet->metadata, descriptor.flags))
    return result;  // XG_ABORTED
  packet->region = region;
  packet->later = buffers.subspan(1);
  packet->bytes = descriptor.length;
  for (const xg_descriptor& buffer : packet->later) packet->bytes += buffer.length;
  if (settings[packet->metadata.pipeline].inner) look_inside(*packet);
  const auto& pipeline = stages[packet->metadata.pipeline];
  Place place{1, XG_REWRITE_FIRST, nullptr, &edit, &adjust, &alerts, &patch, &event};
  for (u32 p = 0; p < packet->metadata.pipeline; p++)
    for (const auto& stage : stages[p]) place.first_rewrite += stage->rewrites();
  bool seen_by_table = false;
  for (const auto& stage : pipeline) {
    const StagesBehind behind(pipeline, *packet, place);
    place.behind = &behind;
    place.is_last = &stage == &pipeline.back();
    if (packet->is(XG_PKT_EGRESS)) {
      stage->note_sent(*packet, place);
      place.position++;
      continue;
    }
    if (stage->decide(*packet, place, result)) {
      // A table that let the packet go on has to see the flow's later ones, unless they are dropped.
      if (seen_by_table && XG_VERDICT_ACTION(result.verdict) != XG_DROP) {
        result.flags &= ~(XG_RES_CACHE | 0xffff0000u);
        result.cache_ttl_ms = 0;
      }
      return result;
    }
    seen_by_table = seen_by_table || stage->remembers();
    place.position++;
    place.first_rewrite += stage->rewrites();
  }
  result.verdict = XG_PASS;
  if (!packet->is(XG_PKT_EGRESS)) cache_undecided(pipeline, *packet, result);
  return result;
}

// Those of the pipeline itself, or else of the first one that has any.
const StageSettings* routes_for(const std::vector<PipelineSettings>& settings, std::size_t pipeline) {
  const auto in = [](const PipelineSettings& one) -> const StageSettings* {
    for (const StageSettings& stage : one.stages)
      if (traits_of(stage).routes) return &stage;
    return nullptr;
  };
  const StageSettings* found = in(settings[pipeline]);
  for (std::size_t p = 0; p < settings.size() && found == nullptr; p++) found = in(settings[p]);
  return found;
}
void tell_of_routes(const std::vector<PipelineSettings>& settings, const Stages& stages) {
  for (std::size_t p = 0; p < stages.size(); p++)
    for (const auto& stage : stages[p]) stage->look_up_in(routes_for(settings, p));
}

}  // namespace

struct Judge::State {
  std::vector<PipelineSettings> settings;  // what the stages go by
  Stages stages;
};

Judge::Judge(std::vector<PipelineSettings> settings, const CompileOptions& options)
    : state_(std::make_unique<State>()) {
  state_->settings = std::move(settings);
  for (const PipelineSettings& pipeline : state_->settings) {
    auto& stages = state_->stages.emplace_back();
    for (const StageSettings& stage : pipeline.stages)
      stages.push_back(
          std::visit([&](const auto& what) { return reference_of(what, options.hash_key); }, stage));
  }
  tell_of_routes(state_->settings, state_->stages);
}
Judge::~Judge() = default;
Judge::Judge(Judge&&) noexcept = default;

void Judge::change(std::vector<PipelineSettings> settings) {
  const auto before = std::exchange(state_->settings, std::move(settings));
  for (std::size_t p = 0; p < state_->stages.size(); p++)
    for (std::size_t s = 0; s < state_->stages[p].size(); s++)
      state_->stages[p][s]->change(state_->settings[p].stages[s]);
  tell_of_routes(state_->settings, state_->stages);
}

void Judge::decide(std::span<const u8> region, std::span<const xg_descriptor> descriptors, u32 generation,
                   std::span<xg_result> results, Edits edits) {
  bool later_buffer = false;
  for (std::size_t i = 0; i < descriptors.size(); i++) {
    std::size_t end = i + 1;
    while (end < descriptors.size() && (descriptors[end - 1].flags & XG_DESC_MORE) != 0) end++;
    results[i] = {};
    xg_edit edit{};
    xg_adjust adjust{};
    xg_alerts alerts{};
    xg_patch patch{};
    xg_event event{};
    if (!later_buffer)
      results[i] = decide_packet(region, descriptors.subspan(i, end - i), generation, state_->settings,
                                 state_->stages, edit, adjust, alerts, patch, event);
    if (!edits.edits.empty()) edits.edits[i] = edit;
    if (!edits.adjusts.empty()) edits.adjusts[i] = adjust;
    if (!edits.alerts.empty()) edits.alerts[i] = alerts;
    if (!edits.patches.empty()) edits.patches[i] = patch;
    if (!edits.events.empty()) edits.events[i] = event;
    later_buffer = (descriptors[i].flags & XG_DESC_MORE) != 0;
  }
}

std::vector<std::vector<u32>> Judge::tables() const {
  std::vector<std::vector<u32>> all;
  for (const auto& pipeline : state_->stages)
    for (const auto& stage : pipeline)
      if (stage->remembers()) all.push_back(stage->table());
  return all;
}

void decide(std::span<const u8> region, std::span<const xg_descriptor> descriptors, u32 generation,
            const std::vector<PipelineSettings>& settings, std::span<xg_result> results, Edits edits) {
  Judge(settings, {}).decide(region, descriptors, generation, results, edits);
}

}  // namespace xdpgpu::gpu::reference
