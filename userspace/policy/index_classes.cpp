// SPDX-License-Identifier: MIT
#include "userspace/policy/index_classes.hpp"

#include <algorithm>

namespace xdpgpu::policy {

void IndexClasses::add(u32 rule, std::vector<IndexRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (u64 i = 0; i < ranges.size();) {
    IndexRange merged = ranges[i++];
    for (; i < ranges.size() && ranges[i].first <= merged.last + 1; ++i)
      merged.last = std::max(merged.last, ranges[i].last);
    events_.push_back({merged.first, rule, true});
    events_.push_back({merged.last + 1, rule, false});
  }
}

void IndexClasses::build() {
  std::sort(events_.begin(), events_.end(), [](auto& a, auto& b) { return a.index < b.index; });
  RuleSet current;
  u32 done = 0;
  u32 id = 0;
  auto fill_to = [&](u32 index) {
    std::fill(table_.begin() + done, table_.begin() + index, static_cast<u16>(id));
    done = index;
  };
  for (u64 i = 0; i < events_.size();) {
    u32 index = events_[i].index;
    fill_to(index);
    for (; i < events_.size() && events_[i].index == index; ++i) {
      if (events_[i].enters)
        current.add(events_[i].rule);
      else
        current.remove(events_[i].rule);
    }
    id = classes_.intern(current);
  }
  fill_to(static_cast<u32>(table_.size()));
  classes_.add_to_all(any_);
}

}  // namespace xdpgpu::policy
