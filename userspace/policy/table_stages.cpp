// SPDX-License-Identifier: MIT
#include "userspace/policy/table_stages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u64 kMaxEntries = u64{1} << 26;
constexpr u64 kGiga = 1'000'000'000;
constexpr u64 kTera = 1'000'000'000'000;
constexpr u64 kDay = 86'400;  // seconds
constexpr u64 kNanosecondsPerMs = 1'000'000;
constexpr u64 kMaxTimeoutMs = 7ull * 24 * 3600 * 1000;

// A rate, and how much of it may come at once, a second's unless the policy says.
struct RateKeys {
  const char* rate;
  const char* burst;
  const char* unit;
  u64 least, most;
};
void read_rate(Report& report, const Fields& fields, const RateKeys& keys, u64& rate, u64& burst) {
  const auto rate_at = fields.get(keys.rate);
  const auto burst_at = fields.get(keys.burst);
  if (rate_at)
    if (auto value = read_integer(report, *rate_at, keys.least, keys.most)) rate = burst = *value;
  if (!burst_at) return;
  if (!rate_at)
    return report.at(*burst_at, fmt::format("a burst of {} needs a rate: add \"{}\"", keys.unit, keys.rate));
  if (auto value = read_integer(report, *burst_at, 1, keys.most)) {
    burst = *value;
    if (rate != 0 && burst > rate * kDay)
      report.at(*burst_at,
                fmt::format("this burst is more than a day's {} at its rate: make it smaller", keys.unit));
  }
}

}  // namespace

void read_table(Report& report, const Fields& fields, TableSpec& table) {
  if (auto entries = fields.get("entries"))
    if (auto value = read_integer(report, *entries, 1, kMaxEntries)) table.entries = static_cast<u32>(*value);
  if (auto evict = fields.get("evict"))
    if (auto word = read_word(report, *evict, words::kEvict)) table.evict = words::kEvict[*word];
}

void read_timeout(Report& report, const Fields& fields, const char* key, u32& ms) {
  const auto place = fields.get(key);
  if (!place) return;
  const auto ns = read_time(report, *place, "30s");
  if (!ns) return;
  if (*ns < kNanosecondsPerMs || *ns % kNanosecondsPerMs != 0 || *ns / kNanosecondsPerMs > kMaxTimeoutMs)
    report.at(*place, "what is remembered is forgotten after whole milliseconds, from 1ms to 168h");
  else
    ms = static_cast<u32>(*ns / kNanosecondsPerMs);
}

RateLimitStage read_rate_limit(Report& report, const Place& place) {
  RateLimitStage stage;
  Fields fields(report, place, keys::kRateLimit, "the stage rate_limit");
  if (!fields.is_object()) return stage;
  if (auto per = fields.require("per"))
    if (auto word = read_word(report, *per, words::kRatePer)) stage.per = words::kRatePer[*word];
  for (const auto& [key, most, to] :
       {std::tuple("prefix4", u64{32}, &stage.prefix4), std::tuple("prefix6", u64{128}, &stage.prefix6)}) {
    const auto prefix = fields.get(key);
    if (!prefix) continue;
    if (stage.per == "flow")
      report.at(*prefix, "a flow has whole addresses: take this out, or limit per \"src\" or \"dst\"");
    if (auto value = read_integer(report, *prefix, 1, most)) *to = static_cast<u8>(*value);
  }
  read_rate(report, fields, {"pps", "burst", "packets", 1, kGiga}, stage.pps, stage.burst);
  read_rate(report, fields, {"bytes_per_second", "burst_bytes", "bytes", 1000, kTera}, stage.bytes_per_second,
            stage.burst_bytes);
  if (!fields.get("pps") && !fields.get("bytes_per_second"))
    report.at(place, "the stage rate_limit needs a rate: \"pps\", \"bytes_per_second\" or both");
  if (auto excess = fields.get("excess"))
    if (auto word = read_word(report, *excess, words::kDo)) stage.excess = words::kDo[*word];
  read_table(report, fields, stage.table);
  return stage;
}

ConntrackStage read_conntrack(Report& report, const Place& place) {
  ConntrackStage stage;
  Fields fields(report, place, keys::kConntrack, "the stage conntrack");
  for (const auto& [key, to] :
       {std::pair("on_new", &stage.on_new), std::pair("on_invalid", &stage.on_invalid)})
    if (auto action = fields.get(key))
      if (auto word = read_word(report, *action, words::kAclDefault)) *to = words::kAclDefault[*word];
  // Who lets nobody begin anything lets in nothing that belongs to nothing either.
  if (stage.on_new == "drop") stage.on_untracked = "drop";
  if (auto action = fields.get("on_untracked"))
    if (auto word = read_word(report, *action, words::kAclDefault))
      stage.on_untracked = words::kAclDefault[*word];
  if (auto egress = fields.get("egress"))
    if (auto value = read_bool(report, *egress)) stage.egress = *value;
  // Who sees one direction alone has to take the other one's word.
  stage.loose = !stage.egress;
  if (auto loose = fields.get("loose"))
    if (auto value = read_bool(report, *loose)) stage.loose = *value;
  if (auto timeouts = fields.get("timeouts")) {
    Fields times(report, *timeouts, keys::kTimeouts, "\"timeouts\"");
    for (std::size_t i = 0; i < keys::kTimeouts.size(); i++)
      read_timeout(report, times, keys::kTimeouts[i].data(), stage.timeouts_ms[i]);
  }
  read_table(report, fields, stage.table);
  return stage;
}

bool has_table(const Stage& stage) {
  const auto* balance = std::get_if<LoadBalanceStage>(&stage);
  if (balance != nullptr && balance->affinity) return true;
  return std::holds_alternative<RateLimitStage>(stage) || std::holds_alternative<ConntrackStage>(stage) ||
         std::holds_alternative<DdosStage>(stage);
}

std::optional<std::string> table_in(const Pipeline& pipeline) {
  for (u64 i = 0; i < pipeline.stages.size(); ++i)
    if (has_table(pipeline.stages[i]))
      return fmt::format("stage {} ({})", i + 1, words::kStage[pipeline.stages[i].index()]);
  return std::nullopt;
}

bool wants_egress(const Policy& policy) {
  for (const auto& pipeline : policy.pipelines)
    for (const auto& stage : pipeline.stages)
      if (const auto* conntrack = std::get_if<ConntrackStage>(&stage); conntrack && conntrack->egress)
        return true;
  return false;
}

namespace {

// Whether the stage sends packets on by itself, past the host's stack.
bool sends(const Stage& stage) {
  const auto leaves = [](const std::string& action) { return action == "tx" || action == "redirect"; };
  if (const auto* acl = std::get_if<AclStage>(&stage))
    return std::any_of(acl->rules.begin(), acl->rules.end(),
                       [&](const AclStageRule& rule) { return leaves(rule.action); });
  if (const auto* reputation = std::get_if<ReputationStage>(&stage))
    return std::any_of(reputation->lists.begin(), reputation->lists.end(),
                       [&](const ReputationEntry& entry) { return leaves(entry.action); });
  return std::holds_alternative<LoadBalanceStage>(stage) || std::holds_alternative<L2fwdStage>(stage) ||
         std::holds_alternative<ForwardStage>(stage);
}

// Whether the stage drops by what a table of its own says.
bool drops_by_table(const Stage& stage) {
  if (const auto* limit = std::get_if<RateLimitStage>(&stage)) return limit->excess == "drop";
  const auto* ddos = std::get_if<DdosStage>(&stage);
  return ddos != nullptr && ddos->on_detect != "pass";
}

// Connections that stage `at` makes of packets which a table behind it may drop, and that no packet of the
// host's confirms.
void note_unsure(const Pipeline& pipeline, u64 at, std::vector<std::string>& notes) {
  const auto& conntrack = std::get<ConntrackStage>(pipeline.stages[at]);
  const auto behind = pipeline.stages.begin() + static_cast<std::ptrdiff_t>(at) + 1;
  const auto drops = std::find_if(behind, pipeline.stages.end(), drops_by_table);
  const bool sent_on = std::any_of(behind, pipeline.stages.end(), sends);
  if (drops == pipeline.stages.end() || conntrack.on_new != "next" || (conntrack.egress && !sent_on)) return;
  const auto* name = words::kStage[drops->index()].data();
  notes.push_back(fmt::format(
      "pipeline \"{}\", stage {} (conntrack), takes up connections whose first packets stage {} ({}) behind "
      "it drops, and lets their answers in: put the {} in front of conntrack{}",
      pipeline.name, at + 1, drops - pipeline.stages.begin() + 1, name, name,
      sent_on ? "" : ", or leave \"egress\" on"));
}

}  // namespace

std::vector<std::string> conntrack_notes(const Policy& policy) {
  std::vector<std::string> notes;
  for (const auto& pipeline : policy.pipelines)
    for (u64 i = 0; i < pipeline.stages.size(); ++i) {
      const auto* conntrack = std::get_if<ConntrackStage>(&pipeline.stages[i]);
      if (!conntrack) continue;
      note_unsure(pipeline, i, notes);
      if (conntrack->egress) continue;
      notes.push_back(fmt::format(
          "pipeline \"{}\", stage {} (conntrack), is not shown what the host sends (\"egress\": false), so "
          "{}",
          pipeline.name, i + 1,
          conntrack->loose
              ? "it is loose: connections are also taken up in the middle, and strays may pass for one"
              : "where a connection's other direction does not come in by an attached interface it is "
                "invalid"));
    }
  return notes;
}

}  // namespace xdpgpu::policy
