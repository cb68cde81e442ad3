// SPDX-License-Identifier: MIT
#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

class PayloadSum final : public StageWith<PayloadSumSettings> {
 public:
  using StageWith::StageWith;
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    const std::vector<u8> bytes = first_bytes(packet, settings().bytes);
    std::size_t begin = settings().from_payload ? packet.metadata.payload_offset : 0;
    if (begin >= bytes.size()) begin = 0;
    const auto there = [&](std::size_t at, std::size_t count) { return at + count <= bytes.size(); };
    const auto word = [&](std::size_t at) {
      u32 value = 0;
      for (std::size_t i = 0; i < 4 && there(at, 4); i++) value |= u32{bytes[at + i]} << 8 * i;
      return value;
    };
    u32 sum = 0;
    for (std::size_t at = begin; at < bytes.size(); at += 7) {
      const u32 pair = there(at + 1, 2) ? bytes[at + 1] * 256u + bytes[at + 2] : 0;
      sum = sum * 31 + bytes[at] + pair + word(at + 3);
    }
    sum = sum * 31 + word(begin);
    // Neither of the last two words is there.
    sum *= 31 * 31;
    const bool drops = (sum & settings().mask) == settings().value;
    if (!drops && settings().goes_on) return false;
    result.verdict =
        drops ? XG_VERDICT(XG_DROP, 0u, place.position, 1u) : XG_VERDICT(XG_PASS, 0u, place.position, 2u);
    result.detail = sum;
    return true;
  }
};

}  // namespace

std::unique_ptr<Stage> reference_of(const PayloadSumSettings& settings, const std::array<u64, 2>&) {
  return std::make_unique<PayloadSum>(settings);
}

}  // namespace xdpgpu::gpu::reference
