// SPDX-License-Identifier: MIT
//
// gpu/table_reader.hpp: reads one stage's table (gpu/stages/table.h) on its device.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/pipelines.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu {

// Control thread, while queues may be running: what is read of one entry may be a moment apart. Where the
// device fails, what is read is 0, and error() says why.
class TableReader {
 public:
  // Table `number` of a loaded generation. All outlive the reader.
  TableReader(Device& device, u32 generation, const Pipelines& pipelines, u32 number);

  const StateSpec& spec() const noexcept { return spec_; }
  const StageSettings& stage() const noexcept { return *stage_; }
  u64 sets() const noexcept { return spec_.entries / XG_WAYS; }
  // Of the table's head (XG_TABLE_*).
  u64 counter(u32 number);
  std::vector<u32> words(u64 first, u64 count);
  // XG_ENTRY_WORDS words.
  std::vector<u32> entry(u64 place);
  // What a stage keeps of each entry behind the sets.
  std::vector<u32> record(u64 place, u32 words_each);
  // Calls each(place, tag, entry) for all places that were ever taken.
  template <class Each>
  void each_entry(Each each) {
    for (u64 first = 0; first < sets() && !failed(); first += kSetsAtATime) {
      const u64 count = std::min(kSetsAtATime, sets() - first);
      const auto read = words(XG_TABLE_HEAD + first * XG_SET_WORDS, count * XG_SET_WORDS);
      for (u64 set = 0; set < count; set++)
        for (u32 way = 0; way < XG_WAYS; way++) {
          const std::span all(read);
          const u64 at = set * XG_SET_WORDS;
          if (const u32 tag = all[at + XG_SET_TAGS + way]; tag != 0)
            each((first + set) * XG_WAYS + way, tag,
                 all.subspan(at + XG_SET_HEAD + u64{way} * XG_ENTRY_WORDS, XG_ENTRY_WORDS));
        }
    }
  }

  bool failed() const noexcept { return !error_.empty(); }
  const std::string& error() const noexcept { return error_; }

 private:
  static constexpr u64 kSetsAtATime = 256;  // some 150 KiB

  Device& device_;
  u32 generation_, number_;
  const StateSpec& spec_;
  const StageSettings* stage_;
  std::string error_;
};

// The stage that a table is of.
const StageSettings& stage_of(const Pipelines& pipelines, const StateSpec& spec);

}  // namespace xdpgpu::gpu
