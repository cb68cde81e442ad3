// SPDX-License-Identifier: MIT
#include <cstring>

#include "gpu/stages/compilers.hpp"
#include "gpu/stages/decapsulate/device.h"

namespace xdpgpu::gpu {

static_assert(decapsulate_rule::kMalformed == XG_DECAP_RULE_MALFORMED &&
              decapsulate_rule::kCongested == XG_DECAP_RULE_CONGESTED);

Check check(const DecapsulateSettings& stage) {
  if (stage.addresses.empty() || stage.addresses.size() > kMaxDecapsulateAddresses)
    return refuse("it has {} addresses, 1 to {} are possible", stage.addresses.size(),
                  kMaxDecapsulateAddresses);
  for (const Prefix& address : stage.addresses)
    if (address.length != (address.family == 4 ? 32 : 128))
      return refuse("one of its addresses is a prefix of {} bits: tunnels end at single addresses",
                    address.length);
  return {};
}

Result<Placed> emit(const DecapsulateSettings& stage, Compiled& to) {
  using Type = DecapsulateSettings::Type;
  std::vector<u32>& image = to.image;
  const u32 at = static_cast<u32>(image.size());
  const u32 types =
      (stage.type != Type::gue ? XG_DECAP_IPIP : 0u) | (stage.type != Type::ipip ? XG_DECAP_GUE : 0u);
  image.insert(image.end(), {0, 0, types, xg_host16(stage.port), action_word(stage.action, stage.target, 0),
                             static_cast<u32>(stage.addresses.size())});
  for (const Prefix& address : stage.addresses) {
    std::array<u32, 4> words{};
    std::memcpy(words.data(), address.address.data(), address.family == 4 ? 4 : 16);
    image.push_back(address.family);
    image.insert(image.end(), words.begin(), words.end());
  }
  return Placed{at};
}

std::optional<std::string> sends(const DecapsulateSettings& stage) {
  return sends(stage.action) ? std::optional<std::string>("") : std::nullopt;
}

bool drops(const DecapsulateSettings&) { return true; }

void settle(DecapsulateSettings& stage, const Written& written) {
  if (written.has("addresses") && stage.addresses.size() > kMaxDecapsulateAddresses)
    written.refuse("addresses", fmt::format("1 to {} can stand here, here are {}", kMaxDecapsulateAddresses,
                                            stage.addresses.size()));
  for (const Prefix& address : stage.addresses)
    if (address.length != (address.family == 4 ? 32 : 128))
      written.refuse("addresses", "a tunnel ends at single addresses: no network can stand here");
}

std::vector<std::string> notes(const DecapsulateSettings&, const StagePlace& place) {
  return {fmt::format(
      "decapsulate{} lets out whatever is inside of outer headers to its addresses, and neither rules "
      "nor stages look at that: let only rules lead to the pipeline that name the tunnel's other ends "
      "in \"src\"",
      place.where())};
}

std::string describe(const DecapsulateSettings&, u32 rule, const xg_result*) {
  switch (rule) {
    case decapsulate_rule::kMalformed:
      return " no whole packet inside";
    case decapsulate_rule::kCongested:
      return " congestion that its sender does not know of";
    default:
      return " taken out of its outer headers";
  }
}

}  // namespace xdpgpu::gpu
