// SPDX-License-Identifier: MIT
//
// bench/events/records.hpp: the records, what the right verdicts on them are, and their packing.
#pragma once

#include <functional>
#include <string>

#include "bench/events/headers.h"
#include "bench/pages.hpp"

namespace xdpgpu::bench {

class Records {
 public:
  // Random headers, a third of them web or DNS. Packs them too.
  explicit Records(u64 count);

  u64 count() const { return parsed_.size(); }
  std::span<ParsedHeader> parsed() const { return parsed_; }
  std::span<CompactHeader> compact() const { return compact_; }
  std::span<u32> verdicts() const { return verdicts_; }

  // Forgets the verdicts.
  void clear();
  // What is wrong with the verdicts that stand, by a computation that shares nothing with headers.h.
  std::string check(EventStage stage) const;

  // Packs all records by `threads` threads, part after part; tells the calling thread of each part as soon
  // as it and those before it are packed.
  void pack(u32 threads, const std::function<void(u64 first, u64 count)>& packed);

 private:
  Pages parsed_pages_, compact_pages_, verdict_pages_;
  std::span<ParsedHeader> parsed_;
  std::span<CompactHeader> compact_;
  std::span<u32> verdicts_;
};

}  // namespace xdpgpu::bench
