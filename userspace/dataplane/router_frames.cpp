// SPDX-License-Identifier: MIT
//
// Of the router: the frames that it was to send, which come back, those of other workers among them, or are
// lost.
#include <algorithm>
#include <utility>

#include "userspace/dataplane/router.hpp"

namespace xdpgpu::dataplane {

void Router::over(FrameId frame) noexcept {
  order_.completed(free_.place(frame));
  free_.push(frame);
}

u32 Router::collect(Transmitter& from) noexcept {
  if (givers_.empty()) [[likely]]
    return from.collect_together([this](u32 count, auto&& frame_at) {
      FrameId* const free = free_.grow(count);
      for (u32 i = 0; i < count; ++i) free[i] = frame_at(i);
      const u32 first = free_.share().first;
      order_.completed(count, [=](u32 i) { return free[i] - first; });
    });
  return from.collect([&](FrameId frame) { free_.owns(frame) ? over(frame) : give_back(frame, from); });
}

u32 Router::collect() noexcept {
  u32 frames = 0;
  for (Transmitter* transmitter : transmitters_) frames += collect(*transmitter);
  for (HandOver* other : others_)
    if (other)
      frames += other->collect([this](FrameId frame, bool was_lost) {
        if (was_lost) lost(frame);
        over(frame);
      });
  return frames;
}

// ---- for other workers --------------------------------------------------------------------------------

bool Router::serve_others() noexcept {
  bool any = false;
  for (HandOver* giver : givers_) {
    Transmitter& to = queues_[giver->port()]->socket->transmitter;
    const u32 frames = giver->take([&](const Buffers& packet) { return to.push(packet); });
    if (!frames) continue;
    any = true;
    of_others_ += frames;
    of_others_by_port_[giver->port()] += frames;
    to.flush();
  }
  return any;
}

bool Router::others_wait() const noexcept {
  return std::any_of(givers_.begin(), givers_.end(), [](const HandOver* giver) { return giver->waits(); });
}

// A worker has one for each port: it knows its frames by that.
HandOver* Router::giver_of(FrameId frame, const Transmitter& sent_by) noexcept {
  for (HandOver* giver : givers_)
    if (giver->owns(frame) && &queues_[giver->port()]->socket->transmitter == &sent_by) return giver;
  return nullptr;
}

void Router::give_back(FrameId frame, const Transmitter& sent_by) noexcept {
  HandOver* const giver = giver_of(frame, sent_by);
  if (!giver) return;
  const auto found = std::find(lost_of_others_.begin(), lost_of_others_.end(), frame);
  const bool was_lost = found != lost_of_others_.end();
  if (was_lost) lost_of_others_.erase(found);
  giver->give_back(frame, was_lost);
  --of_others_;
  --of_others_by_port_[giver->port()];
}

// ---- what is not sent ---------------------------------------------------------------------------------

void Router::lost(FrameId frame) noexcept {
  const u8 as = std::exchange(counted_as_[free_.place(frame)], 0);
  if (!as) return;
  xg_worker_counters& counters = *queues_[as & ((1u << kPortBits) - 1)]->counters;
  --count_of(counters, as >> kPortBits);
  ++counters.error_refused;
}

void Router::lost_by(FrameId frame) noexcept {
  if (free_.owns(frame))
    lost(frame);
  else
    lost_of_others_.push_back(frame);
}

void Router::kick() noexcept {
  for (Transmitter* transmitter : transmitters_)
    if (transmitter->held()) transmitter->kick([this](FrameId frame) { lost_by(frame); });
}

void Router::abandon() noexcept {
  for (Transmitter* transmitter : transmitters_)
    transmitter->abandon([&](FrameId frame) {
      if (free_.owns(frame)) return lost(frame);
      if (HandOver* const giver = giver_of(frame, *transmitter)) giver->give_back(frame, true);
    });
}

void Router::take_back() noexcept {
  for (HandOver* other : others_) {
    if (!other) continue;
    other->take([this](const Buffers& packet) {
      lost(frame_of(packet.back().offset));
      return true;
    });
    other->collect([this](FrameId frame, bool was_lost) {
      if (was_lost) lost(frame);
      over(frame);
    });
  }
}

u64 Router::handed() const noexcept {
  u64 frames = 0;
  for (const HandOver* other : others_)
    if (other) frames += other->held();
  return frames;
}

u64 Router::frames_out() const noexcept {
  u64 frames = handed();
  for (const Transmitter* transmitter : transmitters_) frames += transmitter->held();
  return frames - of_others_;
}

}  // namespace xdpgpu::dataplane
