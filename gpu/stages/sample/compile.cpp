// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/stages/compilers.hpp"
#include "gpu/stages/sample/device.h"

namespace xdpgpu::gpu {

Result<Placed> emit(const SampleSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 at = append_stateful(stage.table, to.hash_key, image);
  image.push_back(stage.per == SampleSettings::Per::flow ? 1 : 0);
  append64(image, ~u64{0} / stage.one_in);
  for (const u64 key : stage.key.value_or(to.hash_key)) append64(image, key);
  append64(image, u64{stage.idle_ms} * 1'000'000 * XG_TICKS_PER_NS);
  return Placed{at, stage.table.entries};
}

std::span<const Outcome> outcomes(const SampleSettings&) {
  static constexpr Outcome kOutcomes[] = {{"sampled", XG_SAMPLE_SAMPLED},
                                          {"others", XG_SAMPLE_OTHERS},
                                          {"no_place", XG_SAMPLE_NO_PLACE},
                                          {"no_key", XG_SAMPLE_NO_KEY}};
  return kOutcomes;
}

std::string describe(const SampleSettings&, u32, const xg_result*) { return {}; }

namespace {

class SampleEvents : public EventReader {
 public:
  explicit SampleEvents(bool flows) : flows_(flows) {}

  // A flow is told of once, a packet each time.
  u32 counter() const override { return flows_ ? XG_TABLE_INSERTED : XG_TABLE_OWN + XG_SAMPLE_SAMPLED; }
  u64 mark(std::span<const u32> value) const override {
    const u64 time = word_pair_at(value, XG_SAMPLE_TIME);
    // Packets of one flow may have the same time.
    return flows_ ? time : time + (u64{value[XG_SAMPLE_COUNT]} << 40);
  }
  FlowEvent event(std::span<const u32> entry) const override {
    FlowEvent event;
    event.what = "sampled";
    const std::span<const u32> key = entry.subspan(XG_ENTRY_KEY, XG_KEY_WORDS);
    const std::span<const u32> value = entry.subspan(XG_ENTRY_VALUE);
    const bool turned = (value[XG_SAMPLE_COUNT] & 1) != 0;
    std::copy_n(key.begin() + (turned ? 4 : 0), 4, event.flow.src);
    std::copy_n(key.begin() + (turned ? 0 : 4), 4, event.flow.dst);
    const u16 first = static_cast<u16>(key[8]), second = static_cast<u16>(key[8] >> 16);
    event.flow.src_port = turned ? second : first;
    event.flow.dst_port = turned ? first : second;
    event.flow.family = static_cast<u8>(key[9]);
    event.flow.protocol = static_cast<u8>(key[9] >> 8);
    event.packets = value[XG_SAMPLE_COUNT] >> 1;
    event.at_ns = word_pair_at(value, XG_SAMPLE_TIME) / XG_TICKS_PER_NS;
    return event;
  }

 private:
  const bool flows_;
};

}  // namespace

std::unique_ptr<EventReader> event_reader(const SampleSettings& stage) {
  return std::make_unique<SampleEvents>(stage.per == SampleSettings::Per::flow);
}

}  // namespace xdpgpu::gpu
