// SPDX-License-Identifier: MIT
//
// gpu/stages/traits.hpp: what is to be known of a stage by those who do not know the stage: each trait is
// said in gpu/stages/stages.def.
#pragma once

#include <string_view>

#include "maps/types.h"

namespace xdpgpu::gpu {

struct StageTraits {
  bool decides = false;
  bool remembers = false;
  bool checks = false;
  bool drops = false;
  bool caches = false;
  bool edits = false;
  bool sends = false;
  bool by_flow = false;
  bool egress = false;
  bool loosens = false;
  bool asks_behind = false;
  bool brings_more = false;
  bool crowds = false;
  bool apply_many = false;
  bool settles = false;
  bool rules = false;
  bool notes = false;
  bool estimates = false;
  bool asks_router = false;
  bool encapsulates = false;
  bool checks_health = false;
  bool alarms = false;
  bool together = false;
  bool record_ahead = false;
  bool reads_payload = false;
  bool flow_events = false;
  bool outermost = false;
  bool inspects = false;
  bool rule_files = false;
  bool connections = false;
  bool programs = false;
  bool routes = false;
  bool names = false;
};

// Of the stage whose settings these are: kName, kNumber, kTraits (gpu/stages/list.hpp).
template <class Settings>
struct StageInfo;

}  // namespace xdpgpu::gpu
