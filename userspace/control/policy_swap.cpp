// SPDX-License-Identifier: MIT
#include "userspace/control/policy_swap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "gpu/name_changes.hpp"
#include "maps/fragments.h"
#include "userspace/control/decide.hpp"
#include "userspace/control/grace_period.hpp"
#include "userspace/control/kernel_programs.hpp"
#include "userspace/control/program_translator.hpp"
#include "userspace/control/program_verifier.hpp"
#include "userspace/dataplane/reassembler.hpp"
#include "userspace/policy/kept_verdicts.hpp"
#include "userspace/policy/kernel_programs.hpp"
#include "userspace/policy/mirroring.hpp"

namespace xdpgpu::control {
namespace {

std::string text_of(const Received& received) { return received.message.text; }

// Into tables that have been filled and are not in use yet. kept_since: by the policy's rule. in_kernel:
// places of pipelines whose programs the kernel runs.
Result<void> write_rules(const kernel::PolicyMaps& maps, const policy::Tables& tables,
                         const std::vector<u32>& kept_since, const std::vector<u16>& in_kernel) {
  const xg_policy& header = tables.header;
  const u32 first = header.management_count;
  constexpr u32 kRulesPerLine = sizeof(xg_line) / sizeof(xg_rule);
  if (header.rule_count == first) return {};
  const u32 lines = header.rules_line + header.rule_count / kRulesPerLine + 1;
  auto chunks = kernel::MapView<xg_chunk>::open(maps.lines.get(), kernel::chunks_of(lines));
  if (!chunks) return Error(chunks.error());
  if (kept_since.size() > header.rule_count - first)
    return Error(std::string("the policy has more rules than its tables"));
  auto* all_lines = reinterpret_cast<xg_line*>(chunks->data());
  policy::lead_to_programs(header, all_lines, in_kernel);
  auto* rules = reinterpret_cast<xg_rule*>(all_lines + header.rules_line);
  for (u32 i = 0; i < kept_since.size(); i++) rules[first + i].kept_since = kept_since[i];
  return {};
}

// As the devices get them.
}  // namespace

Result<u32> generation_behind(u32 generation, u32 steps) {
  if (steps <= std::numeric_limits<u32>::max() - generation) return generation + steps;
  return Error(
      fmt::format("this attach has come to policy generation {} and has none left to give; detach and attach "
                  "again, which "
                  "starts anew",
                  generation));
}

PolicySwap::PolicySwap(BrokerCalls& broker, std::vector<PortControl>& ports, dataplane::Engine& engine,
                       const std::optional<InForce>& in_force)
    : broker_(broker), ports_(ports), engine_(engine) {
  if (!in_force) return;
  has_programs_ = true;
  generation_ = XG_ACTIVE_GENERATION(in_force->active);
  slot_ = XG_ACTIVE_SLOT(in_force->active);
  left_hash_ = in_force->policy_hash;
}

// By its text and its files, and by the rewrites that flow verdicts name: another version of this program
// might number them otherwise.
bool PolicySwap::goes_on(const compiler::CompiledPolicy& policy) const {
  return left_hash_ == policy.policy.hash &&
         std::all_of(ports_.begin(), ports_.end(), [&](const PortControl& port) {
           return port.has_rewrites(generation_, policy.pipelines->rewrites());
         });
}

Result<void> PolicySwap::watch_egress(bool on) {
  if (watches_egress_ == on) return {};
  auto answer = broker_.call(Message::make(MessageType::watch_egress, on ? 1 : 0));
  if (!answer) return Error(answer.error());
  if (answer->message.type != MessageType::done) return Error(text_of(*answer));
  watches_egress_ = on;
  return {};
}

// A verdict says what its own generation's rule says, and that of each generation since it was made.
std::vector<u32> PolicySwap::kept_since(const compiler::CompiledPolicy& policy, u32 generation) const {
  std::vector<u32> since(policy.policy.rules.size(), generation);
  if (!current_ || current_->down != policy.down) return since;
  const auto kept = policy::kept_verdicts(current_->policy, policy.policy);
  for (std::size_t i = 0; i < since.size(); i++)
    if (kept[i]) since[i] = kept_since_[*kept[i]];
  return since;
}

Result<void> PolicySwap::prepare_slot(const Prepared& prepared) {
  const compiler::CompiledPolicy& policy = *prepared.policy;
  const auto lines = std::max<std::size_t>(policy.tables.lines.size(), 1);
  const auto rows = std::max<std::size_t>(policy.tables.rows.size(), 1);
  if (lines > kMaxLines || rows > kMaxRows)
    return Error(fmt::format(
        "the policy's tables are too large ({} lines, {} rows); use fewer prefixes or rules", lines, rows));
  auto made =
      broker_.call(Message::make(MessageType::create_maps, static_cast<u32>(lines), static_cast<u32>(rows)));
  if (!made) return Error(made.error());
  if (made->message.type != MessageType::maps_created) return Error(text_of(*made));
  // With --audit nothing is dropped: what they would drop, only devices can say.
  std::vector<u16> in_kernel;
  if (!policy.audits()) in_kernel = policy::kernel_pipelines(policy.policy);
  const kernel::PolicyMaps maps{std::move(made->descriptors[0]), std::move(made->descriptors[1])};
  if (auto filled = kernel::fill_policy_maps(maps, policy.tables.lines, policy.tables.rows); !filled)
    return Error(filled.error());
  if (auto written = write_rules(maps, policy.tables, prepared.kept_since, in_kernel); !written)
    return written;
  if (!in_kernel.empty()) {
    has_programs_ = true;
    if (auto ordered = order_programs(broker_, policy, prepared.slot); !ordered) return ordered;
  }
  xg_policy header = policy.tables.header;
  header.generation = prepared.generation;
  auto installed = broker_.call(Message::with(MessageType::install_maps, prepared.slot, 0, header));
  if (!installed) return Error(installed.error());
  if (installed->message.type != MessageType::done) return Error(text_of(*installed));
  return {};
}

// Whether it is done the ports say, also where no answer came.
Result<void> PolicySwap::activate(u32 generation, u32 slot, u64 hash) {
  const auto answer = broker_.call(Message::with(MessageType::activate, slot, generation, hash));
  if (std::all_of(ports_.begin(), ports_.end(),
                  [&](const PortControl& port) { return port.active_generation() == generation; }) &&
      (!answer || answer->message.type == MessageType::done))
    return {};
  return Error(answer ? text_of(*answer) : answer.error());
}

void PolicySwap::make_pipelines(Prepared& prepared) {
  const auto& own = prepared.policy->pipelines;
  prepared.pipelines = prepared.loose ? gpu::Pipelines::loosened(own) : own;
  prepared.loosened = prepared.pipelines != own;
  if (maps_ == nullptr) return;
  // Whatever was ordered is let go by the slot.
  has_programs_ = has_programs_ || own->runs_programs();
  prepared.maps = maps_->prepare(*prepared.policy, prepared.slot, prepared.pipelines);
}

// Into the devices, with what has become of its lists since they were compiled.
Result<void> PolicySwap::load(Prepared& prepared) {
  prepared.names.reset();
  auto loaded = load_pipelines(prepared);
  if (!loaded) return loaded;
  auto told = tell_names(prepared);
  if (!told) engine_.forget_policy(prepared.generation);
  return told;
}

Result<void> PolicySwap::tell_names(Prepared& prepared) {
  const auto before = std::exchange(prepared.names, names());
  if (before == prepared.names || (!before && prepared.names->empty())) return {};
  const auto words = gpu::changed_words(*prepared.pipelines, *prepared.names);
  return words.empty() ? Result<void>() : engine_.change_words(prepared.generation, words);
}

Result<void> PolicySwap::load_pipelines(const Prepared& prepared) {
  const policy::Policy& of = prepared.policy->policy;
  std::optional<dataplane::Overlapping> reassembles;
  if (of.reassembles)
    reassembles = of.overlapping_fragments == policy::Overlapping::first ? dataplane::Overlapping::first
                                                                         : dataplane::Overlapping::drop;
  return engine_.load_policy(prepared.generation, prepared.pipelines, pipeline_chooser(prepared.policy),
                             policy::mirrors(of), policy::mirrors_to_tables(of),
                             prepared.policy->tables.header.default_action == XG_DO_PASS, reassembles);
}

Result<PolicySwap::Prepared> PolicySwap::prepare(std::shared_ptr<const compiler::CompiledPolicy> policy,
                                                 Kind kind) {
  Prepared prepared;
  // Connections that were open are known to nobody.
  prepared.loose = kind == Kind::another ? left_hash_.has_value() : loose_;
  // A dead attach may have decided by the generation after the one that it left in force. The third has the
  // same half of the rewrites. A generation that no packet has met may be given again; its parity says which
  // half of the rewrites is its own, and must not be that of the generation in force.
  const u32 steps = kind == Kind::anew ? 1 : goes_on(*policy) ? 0 : left_hash_ ? 3 : 1;
  const auto generation = generation_behind(generation_, steps);
  if (!generation) return Error(generation.error());
  prepared.generation = *generation;
  prepared.slot = slot_ ^ 1u;
  prepared.kept_since = kind == Kind::anew ? std::vector<u32>(policy->policy.rules.size(), *generation)
                                           : kept_since(*policy, *generation);
  prepared.policy = std::move(policy);
  if (auto verified = verify_programs(broker_, *prepared.policy, current_.get()); !verified)
    return Error(verified.error());
  // One that was prepared and failed may have left something.
  retire_programs(prepared.slot);
  make_pipelines(prepared);
  auto loaded = load(prepared);
  // Their code may be none that the device's driver takes: that costs speed, and no policy.
  if (!loaded && prepared.pipelines->code() != nullptr) {
    prepared.policy = interpreted(*prepared.policy, "the device did not take their code: " + loaded.error());
    retire_programs(prepared.slot);
    make_pipelines(prepared);
    loaded = load(prepared);
  }
  if (!loaded) {
    retire_programs(prepared.slot);
    return Error(loaded.error());
  }
  try {
    // Before the policy is in force: connections that stand are then known by what the host sends of them.
    auto ready = prepare_slot(prepared);
    if (ready && prepared.policy->tables.header.feeds_egress != 0) ready = watch_egress(true);
    if (ready) return prepared;
    give_up(prepared);
    return Error(ready.error());
  } catch (...) {
    give_up(prepared);
    throw;
  }
}

void PolicySwap::give_up(const Prepared& prepared) {
  engine_.forget_policy(prepared.generation);
  stop_watching();
  retire_programs(prepared.slot);
}

// What a dead attach left may have some, too.
void PolicySwap::retire_programs(u32 slot) {
  if (!has_programs_) return;
  const auto retired = broker_.call(Message::make(MessageType::retire_programs, slot));
  if (!retired || retired->message.type != MessageType::done) return;
  // What a dead attach left in force is there until another policy is.
  has_programs_ =
      !current_ || has_maps_ || (!current_->audits() && !policy::kernel_pipelines(current_->policy).empty());
}

// A program that stays on shows nothing while no policy wants it.
void PolicySwap::stop_watching() {
  if (!current_ || current_->tables.header.feeds_egress == 0) (void)watch_egress(false);
}

std::shared_ptr<const gpu::NameChanges> PolicySwap::names() const {
  const std::lock_guard lock(names_mutex_);
  return names_;
}

void PolicySwap::set_names(gpu::NameChanges names) {
  auto made = std::make_shared<const gpu::NameChanges>(std::move(names));
  const std::lock_guard lock(names_mutex_);
  names_ = std::move(made);
}

Result<void> PolicySwap::change_names(gpu::NameChanges names) {
  const gpu::Pipelines& pipelines = *current_->pipelines;
  auto changed = engine_.change_words(generation_, gpu::changed_words(pipelines, names));
  if (changed)
    set_names(std::move(names));
  else  // of several devices some may have it
    (void)engine_.change_words(generation_, gpu::changed_words(pipelines, *this->names()));
  return changed;
}

Result<void> PolicySwap::commit(Prepared prepared) {
  const u32 generation = prepared.generation;
  if (auto told = tell_names(prepared); !told) {
    give_up(prepared);
    return told;
  }
  if (listener_.coming) listener_.coming(prepared.policy, generation);
  engine_.make_current(generation);
  if (auto activated = activate(generation, prepared.slot, prepared.policy->policy.hash); !activated) {
    if (current_) {  // else no worker runs yet
      engine_.make_current(generation_);
      give_up(prepared);
    }
    return activated;
  }
  generation_ = generation;
  loose_ = prepared.loose;
  loosens_ = prepared.loosened;
  has_maps_ = maps_ != nullptr && prepared.pipelines->runs_programs();
  if (maps_ != nullptr) maps_->put_in_force(std::move(prepared.maps), generation);
  left_hash_.reset();
  slot_ = prepared.slot;
  current_ = std::move(prepared.policy);
  kept_since_ = std::move(prepared.kept_since);
  if (listener_.in_force) listener_.in_force(*current_);
  return {};
}

void PolicySwap::settle() {
  retire_programs(slot_ ^ 1u);
  engine_.retire_generations_before(generation_);
  if (listener_.settled) listener_.settled(*current_);
}

Result<void> PolicySwap::apply(std::shared_ptr<const compiler::CompiledPolicy> policy) {
  auto prepared = prepare(std::move(policy), Kind::another);
  if (!prepared) return Error(prepared.error());
  if (auto committed = commit(std::move(*prepared)); !committed) return committed;
  wait_for_grace_period();
  stop_watching();
  settle();
  return {};
}

dataplane::Engine::PipelineChooser pipeline_chooser(std::shared_ptr<const compiler::CompiledPolicy> policy) {
  return [policy = std::move(policy)](const u8* frame, u32 readable, u32 length, xg_metadata* metadata) {
    if (policy->tables.header.audit) metadata->flags |= XG_PKT_AUDIT;
    // The XDP program inspects by rules alone: with one pipeline there is nothing to choose, and only TCP
    // flags make a difference, what might have answered management, and first fragments that are tracked.
    const bool choose = policy->policy.pipelines.size() > 1 || policy->tables.header.management_count > 0;
    const bool tracked =
        (metadata->flags & XG_PKT_FRAGMENT) && policy->tables.header.fragments == XG_DO_TRACK;
    if (!choose && !tracked && !(metadata->flags & XG_PKT_TCP)) return;
    xg_packet packet;
    xg_parse_part(frame, frame + readable, length, metadata->port, &packet);
    const auto& header = policy->tables.header;
    if (tracked && packet.flags & XG_PKT_LATER_FRAGMENT) {
      metadata->flags |= XG_PKT_TRACKED;  // it gets its first one's result, whichever pipeline sees it
      return;
    }
    if (tracked) {
      xg_track_first(&packet);
      metadata->flags = static_cast<u16>((metadata->flags & ~XG_PKT_FRAGMENT) | XG_PKT_TRACKED);
    }
    if ((packet.flags & XG_PKT_TCP) &&
        (header.tcp_special[packet.tcp_flags / 64] >> packet.tcp_flags % 64 & 1))
      metadata->flags |= XG_PKT_UNCACHED;
    if (!choose) return;
    // The kernel has counted the packet against its limits already; it was within them, no answer to
    // management, and over its rate if it is a control packet.
    const auto conforms = [](const xg_rule& rule, u32, const xg_packet&) {
      return rule.action != XG_RULE_ANSWER;
    };
    const auto within_rate = [](const xg_packet&) { return false; };
    // Tables and parser are the kernel's own, so a packet that it inspected is inspected here, too.
    const Decision decision = decide(policy->tables, packet, conforms, within_rate);
    metadata->pipeline = decision.pipeline;
    if (decision.no_answer) metadata->flags |= XG_PKT_UNCACHED;
  };
}

}  // namespace xdpgpu::control
