// SPDX-License-Identifier: MIT
//
// userspace/control/deaths.hpp: when a data plane that has died is started again. What kills it may come with
// a packet, and come again: so each pause is longer than the one before, and one that dies over and over
// stays dead.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "maps/types.h"

namespace xdpgpu::control {

class Deaths {
 public:
  using Clock = std::chrono::steady_clock;
  // So many within that time are the last.
  static constexpr std::size_t kMost = 5;
  static constexpr std::chrono::seconds kWithin{60};

  // How long to wait before it is started again: the first time within kWithin not at all, then 0.1, 0.2 and
  // 0.5 s. Nothing: it stays dead.
  std::optional<std::chrono::milliseconds> add(Clock::time_point now) {
    constexpr std::chrono::milliseconds kPauses[] = {
        std::chrono::milliseconds(0), std::chrono::milliseconds(100), std::chrono::milliseconds(200),
        std::chrono::milliseconds(500)};
    static_assert(std::size(kPauses) == kMost - 1);
    ++count_;
    while (!recent_.empty() && now - recent_.front() >= kWithin) recent_.pop_front();
    recent_.push_back(now);
    if (recent_.size() >= kMost) return std::nullopt;
    return kPauses[recent_.size() - 1];
  }
  u64 count() const noexcept { return count_; }  // since the attach

 private:
  std::deque<Clock::time_point> recent_;
  u64 count_ = 0;
};

}  // namespace xdpgpu::control
