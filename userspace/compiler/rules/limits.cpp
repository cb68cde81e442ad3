// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/limits.hpp"

#include <algorithm>
#include <limits>

namespace xdpgpu::rules {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<u16>::max();

bool fits(std::int64_t bytes) { return bytes >= 0 && bytes <= kMost; }

class Chain {
 public:
  // False: a number became too large, and nothing more is concluded.
  bool take(ContentLimits& content, bool is_first) {
    if (!content.has_offset && !content.has_depth && !content.has_distance && !content.has_within) {
      break_off(content.size);
      return true;
    }
    if (is_first) from_start(content);
    if (content.negated) {
      break_off(0);
      return true;
    }
    if (content.depth != 0) limited_ = any_depth_ = true;
    if (!content.has_distance) behind_ = first_ = 0;
    if (content.has_distance && !move_by_distance(content)) return false;
    if (limited_ && content.varies) misled_ = true;
    if (limited_ && !move_by_within(content)) return false;
    if (content.offset == 0 && content.has_distance && content.distance >= 0)
      content.offset = static_cast<u16>(behind_);
    // Without offset and depth of its own it begins behind the one in front of it.
    if (!content.has_offset && !content.has_depth && content.has_distance && content.distance >= 0) {
      if (!fits(behind_ + content.distance)) return false;
      first_ = content.offset = static_cast<u16>(behind_ + content.distance);
      behind_ = first_ + content.size;
    }
    if (content.has_offset) {
      first_ = content.offset;
      behind_ = first_ + content.size;
    }
    if (content.depth != 0) {
      end_ = content.depth;
      behind_ = first_ + content.size;
      note_end(content);
    }
    if (!content.has_within && !content.has_depth) {
      limited_ = false;
      end_ = 0;
    }
    wrap();
    return true;
  }
  void break_off(u16 behind) {
    first_ = end_ = 0;
    behind_ = behind;
    limited_ = false;
  }
  void forget_end() {
    end_ = 0;
    limited_ = false;
  }
  bool misled() const { return misled_; }
  // Behind which the payload has no byte, if it ends with a content that has its place; else 0.
  u16 end() const { return any_depth_ ? ends_at_ : u16{0}; }

 private:
  // In front of the first one is the payload's start.
  static void from_start(ContentLimits& content) {
    if (!fits(content.distance) || !fits(content.within)) return;
    if (content.has_distance) {
      content.offset = static_cast<u16>(content.distance);
      content.has_offset = content.has_offset || content.distance > 0;
      content.has_distance = false;
      content.distance = 0;
    }
    if (content.has_within) {
      content.depth = static_cast<u16>(content.within + content.offset);
      content.has_depth = true;
      content.has_within = false;
      content.within = 0;
    }
  }

  bool move_by_distance(ContentLimits& content) {
    if (content.distance >= 0) {
      if (!fits(behind_ + content.distance)) return false;
      first_ = behind_ + content.distance;
    } else {
      first_ = std::max<std::int64_t>(behind_ + content.distance, 0);
      behind_ = first_ + content.size;
    }
    content.offset = static_cast<u16>(first_);
    wrap();
    return true;
  }

  bool move_by_within(ContentLimits& content) {
    if (behind_ != 0 && content.has_within && content.within >= 0) {
      const bool on = end_ != 0 && end_ > behind_;
      const std::int64_t distance = content.has_distance ? std::max(content.distance, 0) : 0;
      if (!fits(end_ + content.within + (on ? distance : 0))) return false;
      content.depth = static_cast<u16>(on ? end_ + content.within + distance : first_ + content.within);
      end_ = content.depth;
      return true;
    }
    if (content.depth != 0 || end_ == 0 || content.within <= 0) return true;
    if (content.has_distance && content.distance >= 0) {
      if (!fits(behind_ + content.distance)) return false;
      content.offset = static_cast<u16>(behind_ + content.distance);
    }
    if (!fits(end_ + content.within)) return false;
    content.depth = static_cast<u16>(end_ + content.within);
    end_ = content.depth;
    note_end(content);
    return true;
  }

  void note_end(const ContentLimits& content) {
    if (!content.ends) return;
    ends_at_ = ends_at_ == 0 ? static_cast<u16>(end_) : std::min(ends_at_, static_cast<u16>(end_));
  }
  // They are 16 bits wide.
  void wrap() {
    first_ &= kMost;
    behind_ &= kMost;
  }

  // Of the content in front: the first byte that it may have, and behind its last one if it stands there; the
  // first byte behind it that it may not have, 0: no limit.
  std::int64_t first_ = 0, behind_ = 0, end_ = 0;
  bool limited_ = false, any_depth_ = false, misled_ = false;
  u16 ends_at_ = 0;
};

}  // namespace

bool work_out_limits(std::span<const LimitedStep> steps) {
  Chain chain;
  for (std::size_t i = 0; i < steps.size(); i++) {
    if (steps[i].content == nullptr)
      steps[i].keeps_start ? chain.forget_end() : chain.break_off(0);
    else if (!chain.take(*steps[i].content, i == 0))
      return !chain.misled();
  }
  if (chain.misled()) return false;
  if (chain.end() == 0) return true;
  for (const auto& [content, keeps_start] : steps) {
    if (content == nullptr) continue;
    content->depth = content->depth == 0 ? chain.end() : std::min(content->depth, chain.end());
    content->has_depth = true;
  }
  return true;
}

}  // namespace xdpgpu::rules
