// SPDX-License-Identifier: MIT
#include "userspace/control/bypass.hpp"

#include <fmt/format.h>

#include <atomic>

#include "maps/control.h"
#include "userspace/control/client.hpp"
#include "userspace/control/request/bypass.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/pins.hpp"

namespace xdpgpu::control {
namespace {

// A process that lives may be about to begin or to end; a dead one may have died in the midst of that.
Result<void> store(const std::string& ifname, u32 state) {
  const bool lives = find_process(ifname) == Presence::running;
  const auto maps = kernel::pinned_maps(ifname);
  if (!maps) return Error(std::string("its pinned maps cannot be opened either"));
  auto config = kernel::MapView<xg_config>::open(maps->config.get(), 1);
  if (!config) return Error(config.error());
  const std::atomic_ref<u32> word((*config)[0].state);
  u32 is = word.load();
  do {
    if (lives && is != XG_STATE_RUNNING && is != XG_STATE_BYPASS)
      return Error(std::string("and it is being attached or detached just now"));
  } while (!word.compare_exchange_weak(is, state));
  return {};
}

}  // namespace

Result<Bypassed> set_bypass(const std::string& ifname, bool on, std::optional<u64> for_s) {
  const auto answer = ask<Bypass>(ifname, {.on = on, .for_s = for_s});
  if (answer) return Bypassed{.bypass = answer->bypass, .ends_in_s = answer->ends_in_s};
  if (answer.error().refused) return Error(answer.error().sentence);
  if (for_s)
    return Error(
        fmt::format("{}; nothing was changed, as nobody would end the bypass: without --for it is put on "
                    "until \"xdpgpu bypass off {}\"",
                    answer.error().sentence, kernel::names::operand(ifname)));
  if (auto stored = store(ifname, on ? XG_STATE_BYPASS : XG_STATE_RUNNING); !stored)
    return Error(fmt::format("{}; {}", answer.error().sentence, stored.error()));
  return Bypassed{.bypass = on, .by_pins = true};
}

}  // namespace xdpgpu::control
