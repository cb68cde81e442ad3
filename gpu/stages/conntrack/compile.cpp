// SPDX-License-Identifier: MIT
#include "gpu/stages/compilers.hpp"
#include "gpu/stages/conntrack/device.h"

namespace xdpgpu::gpu {

Check check(const ConntrackSettings& stage) {
  for (const Action action : {stage.on_new, stage.on_invalid, stage.on_untracked})
    if (auto checked = check_otherwise(action); !checked)
      return refuse("its actions for new, invalid and untracked packets must be next, drop or pass");
  const ConntrackSettings::Timeouts& t = stage.timeouts;
  for (const u32 timeout : {t.syn_sent, t.syn_received, t.established, t.fin_wait, t.time_wait, t.closed,
                            t.udp, t.udp_replied, t.icmp, t.other})
    if (timeout == 0) return refuse("a timeout of 0 forgets connections at once: give it a time");
  return check(stage.table);
}

Result<Placed> emit(const ConntrackSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 at = append_stateful(stage.table, to.hash_key, image);
  u32 mode = (stage.loose ? XG_CT_LOOSE : 0) | (stage.egress ? XG_CT_FED : 0);
  if (stage.on_new == Action::drop) mode |= XG_CT_DROPS_NEW;
  if (stage.on_new == Action::pass) mode |= XG_CT_PASSES_NEW;
  image.insert(image.end(), {mode, action_word(stage.on_new, 0, kConntrackNew),
                             action_word(stage.on_invalid, 0, kConntrackInvalid),
                             action_word(stage.on_untracked, 0, kConntrackUntracked)});
  const ConntrackSettings::Timeouts& t = stage.timeouts;
  for (const u32 ms : {t.syn_sent, t.syn_received, t.established, t.fin_wait, t.time_wait, t.closed, t.udp,
                       t.udp_replied, t.icmp, t.icmp, t.other, t.other})
    append64(image, u64{ms} * 1'000'000 * XG_TICKS_PER_NS);
  return Placed{at, stage.table.entries, 0, XG_CT_RECORD, at + XG_CT_MODE};
}

std::span<const Outcome> outcomes(const ConntrackSettings&) {
  static constexpr Outcome kOutcomes[] = {{"new", XG_CT_NEW},           {"established", XG_CT_ESTABLISHED},
                                          {"related", XG_CT_RELATED},   {"invalid", XG_CT_INVALID},
                                          {"no_place", XG_CT_NO_PLACE}, {"untracked", XG_CT_UNTRACKED}};
  return kOutcomes;
}

bool sees_egress(const ConntrackSettings& stage) { return stage.egress; }

bool loosen(ConntrackSettings& stage, u32* body) {
  if (stage.loose) return false;
  stage.loose = true;
  body[XG_CT_MODE] |= XG_CT_LOOSE;
  return true;
}

std::string describe(const ConntrackSettings&, u32 rule, const xg_result*) {
  return rule == kConntrackNew ? " new connection" : rule == kConntrackUntracked ? " untracked" : " invalid";
}

}  // namespace xdpgpu::gpu
