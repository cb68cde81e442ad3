// SPDX-License-Identifier: MIT
#include "gpu/stages/compilers.hpp"
#include "gpu/stages/rate_limit/device.h"

namespace xdpgpu::gpu {
namespace {

__extension__ typedef unsigned __int128 Wide;

}  // namespace

Check check(const RateLimitSettings& stage) {
  if (stage.packets_per_second == 0 && stage.bytes_per_second == 0)
    return refuse("it limits neither packets nor bytes: give it a rate");
  if (stage.packets_per_second != 0 && stage.burst_packets > stage.packets_per_second * kDay)
    return refuse("its burst of packets is more than a day's at its rate");
  if (stage.bytes_per_second != 0 && stage.burst_bytes > stage.bytes_per_second * kDay)
    return refuse("its burst of bytes is more than a day's at its rate");
  return {};
}

Result<Placed> emit(const RateLimitSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 at = append_stateful(stage.table, to.hash_key, image);
  constexpr u64 ticks_per_second = XG_TICKS_PER_NS * kGiga;
  const bool address = stage.per != RateLimitSettings::Per::flow;
  u32 per = XG_KEY_SRC | XG_KEY_DST | XG_KEY_PORTS;
  if (stage.per == RateLimitSettings::Per::src) per = XG_KEY_SRC;
  if (stage.per == RateLimitSettings::Per::dst) per = XG_KEY_DST;
  image.insert(image.end(), {per, address ? stage.bits4 : 32u, address ? stage.bits6 : 128u});
  const u64 packet = stage.packets_per_second == 0 ? 0 : ticks_per_second / stage.packets_per_second;
  append64(image, packet);
  append64(image, packet * stage.burst_packets);
  const Wide byte = stage.bytes_per_second == 0
                        ? 0
                        : (Wide{ticks_per_second} << XG_RATE_BYTE_SHIFT) / stage.bytes_per_second;
  append64(image, static_cast<u64>(byte));
  append64(image, static_cast<u64>((byte * stage.burst_bytes) >> XG_RATE_BYTE_SHIFT));
  image.push_back(action_word(stage.excess, 0, 0));
  return Placed{at, stage.table.entries};
}

std::span<const Outcome> outcomes(const RateLimitSettings&) {
  static constexpr Outcome kOutcomes[] = {{"within", XG_RATE_WITHIN},
                                          {"excess", XG_RATE_EXCESS},
                                          {"no_place", XG_RATE_NO_PLACE},
                                          {"no_key", XG_RATE_NO_KEY}};
  return kOutcomes;
}

std::string describe(const RateLimitSettings&, u32, const xg_result*) { return " over the limit"; }

bool drops(const RateLimitSettings& stage) { return stage.excess == Action::drop; }

void settle(RateLimitSettings& stage, const Written& written) {
  const auto burst = [&](const char* key, const char* unit, u64 rate, u64& most) {
    if (!written.has(key)) most = rate;
    if (rate != 0 && most > rate * kDay)
      written.refuse(key,
                     fmt::format("this burst is more than a day's {} at its rate: make it smaller", unit));
  };
  burst("burst", "packets", stage.packets_per_second, stage.burst_packets);
  burst("burst_bytes", "bytes", stage.bytes_per_second, stage.burst_bytes);
}

}  // namespace xdpgpu::gpu
