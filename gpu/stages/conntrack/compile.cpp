// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/stages/compilers.hpp"
#include "gpu/stages/conntrack/device.h"

namespace xdpgpu::gpu {

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
  static_assert(ConntrackSettings::kRecordWords == XG_CT_RECORD);
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

bool drops(const ConntrackSettings& stage) {
  return stage.on_new == Action::drop || stage.on_invalid == Action::drop ||
         stage.on_untracked == Action::drop;
}

void settle(ConntrackSettings& stage, const Written& written) {
  // Who lets nobody begin anything lets in nothing that belongs to nothing either.
  if (!written.has("on_untracked") && stage.on_new == Action::drop) stage.on_untracked = Action::drop;
  // Who sees one direction alone has to take the other one's word.
  if (!written.has("loose")) stage.loose = !stage.egress;
}

std::vector<std::string> notes(const ConntrackSettings& stage, const StagePlace& place) {
  std::vector<std::string> found;
  const std::string here =
      fmt::format("pipeline \"{}\", stage {} (conntrack),", place.pipeline, place.at + 1);
  const auto behind = place.behind();
  // Connections that it makes of packets which a table behind may drop, and that no packet of the host's
  // confirms.
  const auto dropper = std::find_if(behind.begin(), behind.end(), [](const StageSettings& one) {
    return remembers(one) && drops(one) && !traits_of(one).egress;
  });
  const bool sent_on = std::any_of(behind.begin(), behind.end(),
                                   [](const StageSettings& one) { return sends(one).has_value(); });
  if (dropper != behind.end() && stage.on_new == Action::next && (!stage.egress || sent_on)) {
    const std::string_view name = stage_name(*dropper);
    found.push_back(
        fmt::format("{} takes up connections whose first packets stage {} ({}) behind it drops, and lets "
                    "their answers in: put "
                    "the {} in front of conntrack{}",
                    here, place.at + 2 + static_cast<std::size_t>(dropper - behind.begin()), name, name,
                    sent_on ? "" : ", or leave \"egress\" on"));
  }
  if (!stage.egress)
    found.push_back(fmt::format(
        "{} is not shown what the host sends (\"egress\": false), so {}", here,
        stage.loose ? "it is loose: connections are also taken up in the middle, and strays may pass for one"
                    : "where a connection's other direction does not come in by an attached interface it is "
                      "invalid"));
  return found;
}

}  // namespace xdpgpu::gpu
