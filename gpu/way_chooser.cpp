// SPDX-License-Identifier: MIT
#include "gpu/way_chooser.hpp"

#include <algorithm>

namespace xdpgpu::gpu {
namespace {

constexpr u32 kQuietPart = 4;          // of the packets that one block takes: the load has gone
constexpr double kSooner = 0.95;       // of the other way's time: less is worth a change
constexpr double kSizeStep = 1. / 64;  // what the newest batch adds to the size of late

constexpr Drive other(Drive drive) noexcept {
  return drive == Drive::persistent ? Drive::launched : Drive::persistent;
}

constexpr Choice quick_by(Drive drive) noexcept {
  return drive == Drive::persistent ? Choice{drive, Reason::keeps_up} : Choice{drive, Reason::answers_sooner};
}

}  // namespace

// From the quick way to anything else it pays the way back with patience.
void WayChooser::go(Choice choice, u64 now_ns) noexcept {
  if (quick() && choice != quick_)
    hold_ns_ = back_ns_ != 0 && now_ns - back_ns_ < kCalmNs ? std::min(2 * hold_ns_, kMostHoldNs) : kHoldNs;
  if (choice == quick_ && !quick()) back_ns_ = now_ns;
  choice_ = choice;
}

void WayChooser::begin(Trial::Step step, u32 skip) noexcept {
  trial_.step = step;
  trial_.skip = skip;
  trial_.batches = trial_.behind = 0;
  trial_.packets = 0;
}

// A batch that is submitted while all other slots are in flight stands for one that is through.
void WayChooser::try_on(const Batch& batch, bool behind) noexcept {
  if (trial_.skip != 0) {
    if (--trial_.skip == 0) trial_.since_ns = batch.now_ns;
    return;
  }
  trial_.batches++;
  trial_.behind += behind;
  trial_.packets += batch.packets;
  const u64 elapsed = std::max<u64>(batch.now_ns - trial_.since_ns, 1);
  const double rate = static_cast<double>(trial_.packets) / static_cast<double>(elapsed);
  const bool second = trial_.step == Trial::Step::second;
  const bool hopeless = second && trial_.batches >= 2 && elapsed >= kWindowNs / 4 && 2 * rate < trial_.rate;
  if ((elapsed < kWindowNs || trial_.batches < kWindowBatches) && !hopeless) return;
  const bool keeps_up = 4 * trial_.behind < 3 * trial_.batches && !hopeless;
  if (!second) {
    if (keeps_up) {  // it was behind for a moment
      trial_.step = Trial::Step::none;
      run_ = 0;
      return;
    }
    trial_.rate = rate;
    choice_ = {other(choice_.drive), Reason::decides_more};
    begin(Trial::Step::second, depth_);
    return;
  }
  trial_.step = Trial::Step::none;
  tried_ns_ = batch.now_ns;
  better_ = keeps_up || rate > trial_.rate ? choice_.drive : other(choice_.drive);
  choice_ = trial_.before;
  go({better_, Reason::decides_more}, batch.now_ns);
}

void WayChooser::end_probe() noexcept {
  if (probe_.step == Probe::Step::second) choice_ = quick_;
  probe_.step = Probe::Step::none;
  since_probe_ = 0;
}

// The batches of a step count once those are back that were given before it.
void WayChooser::probe(const Batch& batch) noexcept {
  size_ += (batch.packets - size_) * kSizeStep;
  const auto answers = [&](Drive drive) -> const Answers& {
    return drive == Drive::persistent ? batch.persistent : batch.launched;
  };
  const Answers& now = answers(choice_.drive);
  if (probe_.step == Probe::Step::none) {
    const bool changed = size_ > 2 * probed_size_ || 2 * size_ < probed_size_;
    if (++since_probe_ < (changed ? kFirstGap : gap_)) return;
    if (changed) gap_ = kFirstGap;
    probed_size_ = size_;
    probe_ = {Probe::Step::first, 0, now, 0};
    return;
  }
  if (++probe_.given == kProbeSkip && probe_.step == Probe::Step::second) probe_.from = now;
  const u64 back = now.batches - probe_.from.batches;
  if (probe_.given < kProbe + kProbeSkip || back < kProbe) return;
  const double ns = static_cast<double>(now.ns - probe_.from.ns) / static_cast<double>(back);
  if (probe_.step == Probe::Step::first) {
    choice_ = quick_by(other(choice_.drive));
    probe_ = {Probe::Step::second, 0, {}, ns};
    return;
  }
  const bool sooner = ns < kSooner * probe_.ns;
  const Choice tried = choice_;
  end_probe();
  gap_ = sooner ? kFirstGap : std::min(2 * gap_, kMostGap);
  if (sooner) choice_ = quick_ = tried;
}

Choice WayChooser::next(const Batch& batch) noexcept {
  const bool behind = depth_ > 1 && batch.in_flight + 1 >= depth_;
  if (batch.tables && batch.packets > most_alone_) {
    if (trial_.step == Trial::Step::second) choice_ = trial_.before;
    trial_.step = Trial::Step::none;
    end_probe();
    run_ = 0;
    busy_ns_ = batch.now_ns;
    go({Drive::launched, Reason::table}, batch.now_ns);
    return choice_;
  }
  if (behind || (choice_.reason == Reason::table && batch.tables && batch.packets > most_alone_ / kQuietPart))
    busy_ns_ = batch.now_ns;
  run_ = behind ? run_ + 1 : 0;
  if (run_ >= kRun) {
    if (probe_.step == Probe::Step::second)
      gap_ = std::min(2 * gap_, kMostGap);  // that way it does not keep up
    end_probe();
  }
  if (trial_.step != Trial::Step::none) {
    try_on(batch, behind);
  } else if (run_ >= kRun && (tried_ns_ == 0 || batch.now_ns - tried_ns_ >= kAgainNs)) {
    trial_.before = choice_;
    begin(Trial::Step::first, 1);
    try_on(batch, behind);
  } else if (run_ >= kRun) {
    go({better_, Reason::decides_more}, batch.now_ns);
  } else if (probe_.step == Probe::Step::none && !quick() && batch.now_ns - busy_ns_ >= hold_ns_) {
    go(quick_, batch.now_ns);
  } else if (probe_.step != Probe::Step::none || quick()) {
    probe(batch);
  }
  return choice_;
}

}  // namespace xdpgpu::gpu
