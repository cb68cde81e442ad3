// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <utility>

#include "gpu/stages/references.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu::reference {
namespace {

struct End {
  std::array<u8, 16> address{};
  std::array<u8, 2> port{};
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const End&) const = default;
};

class Sample final : public StageWith<SampleSettings> {
 public:
  Sample(const SampleSettings& settings, const std::array<u64, 2>& secret)
      : StageWith(settings), secret_(settings.key.value_or(secret)), table_(settings.table, secret) {}
  bool decide(const Packet& packet, const Place&, xg_result&) override {
    if (packet.src.empty()) {
      table_.count(3);
      return false;
    }
    End from, to;
    std::copy(packet.src.begin(), packet.src.end(), from.address.begin());
    std::copy(packet.dst.begin(), packet.dst.end(), to.address.begin());
    if (!packet.ports.empty() && !packet.is(XG_PKT_FRAGMENT)) {
      from.port = {packet.ports[0], packet.ports[1]};
      to.port = {packet.ports[2], packet.ports[3]};
    }
    const bool turned = from > to;
    if (turned) std::swap(from, to);
    Key key{};
    std::copy(from.address.begin(), from.address.end(), key.begin());
    std::copy(to.address.begin(), to.address.end(), key.begin() + 16);
    std::copy(from.port.begin(), from.port.end(), key.begin() + 32);
    std::copy(to.port.begin(), to.port.end(), key.begin() + 34);
    key[36] = packet.src.size() == 4 ? 4 : 6;
    key[37] = packet.metadata.protocol;

    const bool flows = settings().per == SampleSettings::Per::flow;
    std::vector<u8> chosen_by(key.begin(), key.end());
    for (u32 i = 0; i < 8 && !flows; i++)
      chosen_by.push_back(static_cast<u8>(packet.metadata.rx_time_ns >> 8 * i));
    if (siphash13(chosen_by, secret_) > std::numeric_limits<u64>::max() / settings().one_in) {
      table_.count(1);
      return false;
    }

    table_.come(key, packet.metadata.rx_time_ns * XG_TICKS_PER_NS);
    const u64 deadline = table_.now() + u64{settings().idle_ms} * 1'000'000 * XG_TICKS_PER_NS;
    Entry* entry = table_.find(true);
    const bool known = entry != nullptr;
    if (!known) entry = table_.insert(deadline);
    table_.count(entry == nullptr ? 2 : 0);
    if (entry == nullptr) return false;
    entry->deadline = deadline;
    // When the packet that is told of came, and in which direction; and how many were chosen.
    u32 packets = entry->value[2] / 2;
    u32 direction = entry->value[2] % 2;
    if (!known || !flows) {
      const u64 ticks = packet.metadata.rx_time_ns * XG_TICKS_PER_NS;
      entry->value[0] = static_cast<u32>(ticks);
      entry->value[1] = static_cast<u32>(ticks >> 32);
      direction = turned ? 1 : 0;
    }
    if (packets < (u32{1} << 31) - 1) packets++;
    entry->value[2] = packets * 2 + direction;
    return false;
  }
  bool remembers() const override { return true; }
  std::vector<u32> table() const override { return table_.words(); }

 private:
  std::array<u64, 2> secret_;
  Table table_;
};

}  // namespace

std::unique_ptr<Stage> reference_of(const SampleSettings& settings, const std::array<u64, 2>& secret) {
  return std::make_unique<Sample>(settings, secret);
}

}  // namespace xdpgpu::gpu::reference
