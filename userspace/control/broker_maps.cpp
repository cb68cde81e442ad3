// SPDX-License-Identifier: MIT
//
// What the broker changes in the ports' maps, as userspace/kernel/access.hpp has it. Whoever asks may have
// been taken over: it may have any policy put in force, as making policies is its work, but of this attach's
// interfaces alone, whole, and none under a generation that packets have met before.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "userspace/control/broker_port.hpp"

namespace xdpgpu::control {
namespace {

// A data plane that goes on from a dead attach leaves some out; one that went through them all would have the
// next attach start anew.
constexpr u32 kMostGenerationsAhead = 64;

}  // namespace

Result<void> Broker::open_controls() {
  if (!controls_.empty()) return {};
  std::vector<u32> targets;
  for (const auto& planned : plan_.ports) targets.push_back(planned.facts.ifindex);
  for (u32 i = 0; i < ports_.size(); i++) {
    if (auto entered = kernel::enter_targets(ports_[i]->maps, targets); !entered) return entered;
    auto maps = ports_[i]->maps.duplicate();
    if (!maps) return Error(maps.error());
    const auto& planned = plan_.ports[i];
    auto control = PortControl::open(planned.facts.name, planned.queues, options_.flow_entries_per_queue,
                                     std::move(*maps));
    if (!control) {
      controls_.clear();
      return Error(control.error());
    }
    controls_.push_back(std::move(*control));
    tables_.add(ports_[i]->maps);
  }
  return {};
}

Result<void> Broker::install(u32 slot, const kernel::PolicyMaps& maps, const xg_policy& header) {
  std::vector<const kernel::PortMaps*> all;
  for (std::size_t i = 0; i < ports_.size(); i++) {
    const u32 active = controls_[i].active_generation();
    if (active != 0 && controls_[i].active_slot() == slot)
      return Error(fmt::format("packets go by the policy in slot {}", slot));
    if (header.generation == 0 || header.generation < active ||
        header.generation - active > kMostGenerationsAhead)
      return Error(fmt::format("policy generation {} does not follow {}", header.generation, active));
    all.push_back(&ports_[i]->maps);
  }
  if (header.rule_count > XG_MAX_RULES || header.management_count > header.rule_count)
    return Error(fmt::format("no policy has {} rules, {} of them for management", header.rule_count,
                             header.management_count));
  if (auto installed = kernel::install_policy_maps(all, slot, maps); !installed) return installed;
  for (auto& control : controls_) {
    control.write_header(slot, header);
    if (auto cleared = control.clear_rule_counters(slot, header.rule_count); !cleared) return cleared;
  }
  return {};
}

bool Broker::goes_by(u32 slot) const {
  return std::any_of(controls_.begin(), controls_.end(), [&](const PortControl& port) {
    return port.active_generation() != 0 && port.active_slot() == slot;
  });
}

std::vector<KernelPrograms::Port> Broker::program_ports() const {
  std::vector<KernelPrograms::Port> ports;
  for (std::size_t i = 0; i < ports_.size(); i++) {
    const auto& facts = plan_.ports[i].facts;
    ports.push_back({.ifname = facts.name,
                     .ifindex = facts.ifindex,
                     .several_buffers = ports_[i]->program->options().multi_buffer,
                     .in_dispatcher = ports_[i]->program->link_fd() < 0,
                     .programs = ports_[i]->maps.user_programs.get()});
  }
  return ports;
}

Result<void> Broker::load_program(u32 slot, u32 number, const std::string& pipeline,
                                  const kernel::Fd& memory) {
  if (goes_by(slot)) return Error(fmt::format("packets go by the programs in slot {}", slot));
  return programs_.load(slot, number, pipeline, memory, program_ports());
}

Result<KernelPrograms::Made> Broker::make_program_maps(u32 slot, u32 number, const std::string& place,
                                                       const kernel::Fd& memory) {
  if (goes_by(slot)) return Error(fmt::format("packets go by the programs in slot {}", slot));
  return programs_.make_maps(slot, number, place, memory, program_ports());
}

Result<Requests::Duties::ProgramMap> Broker::program_map(u32 slot, u32 number, u32 which) {
  const kernel::UserMap* const one = programs_.map(slot, number, which);
  if (one == nullptr) return Error(std::string("there is no such map"));
  kernel::Fd copy(fcntl(one->map.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return Error(fmt::format("the map cannot be handed over: {}", std::strerror(errno)));
  return Requests::Duties::ProgramMap{std::move(copy), one->number};
}

Result<void> Broker::retire_programs(u32 slot) {
  if (goes_by(slot)) return Error(fmt::format("packets go by the programs in slot {}", slot));
  programs_.retire(slot, program_ports());
  return {};
}

Result<void> Broker::activate(u32 slot, u32 generation, u64 policy_hash) {
  for (const auto& control : controls_)
    if (control.header(slot).generation != generation)
      return Error(fmt::format("the policy in slot {} is not of generation {}", slot, generation));
  for (auto& control : controls_) control.activate(generation, slot, policy_hash);
  programs_.put_in_force(slot, program_ports());
  return {};
}

Result<void> Broker::set_state(u32 state, bool bypassed_too) {
  for (auto& control : controls_)
    if (bypassed_too || control.state() != XG_STATE_BYPASS) control.set_state(state);
  return {};
}

}  // namespace xdpgpu::control
