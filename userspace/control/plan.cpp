// SPDX-License-Identifier: MIT
#include "userspace/control/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "gpu/gpu.hpp"
#include "maps/packet.h"
#include "userspace/compiler/clashes.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/compiler_process.hpp"
#include "userspace/control/device_codes.hpp"
#include "userspace/control/notes.hpp"
#include "userspace/control/policy_compiler.hpp"
#include "userspace/control/privileges.hpp"
#include "userspace/control/region_size.hpp"
#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::control {
namespace {

using Refusing = tl::unexpected<Refused>;

Refusing wrong_usage(std::string sentence, Problems problems = {}) {
  return Refusing(Refused{2, std::move(sentence), std::move(problems)});
}
Refusing refuse(std::string sentence) { return Refusing(Refused{1, std::move(sentence)}); }

// Flow entries of one port; the table's index is 32 bits and its size is bounded by memory.
constexpr u32 kMaxFlowEntries = 1u << 24;

tl::expected<void, Refused> check_options(const AttachOptions& options) {
  const auto& names = options.interfaces;
  if (names.empty()) return wrong_usage("attach needs an interface: xdpgpu attach eth0");
  if (names.size() > XG_MAX_PORTS)
    return wrong_usage(
        fmt::format("{} interfaces are more than the {} that one process takes", names.size(), XG_MAX_PORTS));
  for (std::size_t i = 0; i < names.size(); i++)
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      return wrong_usage(fmt::format("interface {} is named twice", names[i]));
  const u32 entries = options.flow_entries_per_queue;
  if (!std::has_single_bit(entries) || entries < 64 || entries > kMaxFlowEntries)
    return wrong_usage(
        fmt::format("--flow-entries {} is not a power of two from 64 to {}", entries, kMaxFlowEntries));
  return {};
}

gpu::Frames frames_of(const std::string& name) {
  if (name == "in_place") return gpu::Frames::in_place;
  if (name == "staged") return gpu::Frames::staged;
  return gpu::Frames::automatic;
}

std::vector<std::string> device_names(const AttachOptions& options, const policy::Policy& policy) {
  if (options.device.empty() && !policy.compute.devices.empty()) return policy.compute.devices;
  std::string name = options.device.empty() ? policy.compute.device : options.device;
  if (name != "auto") return {name};
  const char* forced = std::getenv("XDPGPU_DEVICE");
  return {forced && *forced ? forced : name};
}

// A queue is served by one device, so more devices than queues is more than there is use for.
std::optional<std::string> idle_devices(const Plan& plan) {
  u32 queues = 0;
  for (const auto& port : plan.ports) queues = std::max(queues, port.queues);
  if (plan.devices.size() <= queues) return std::nullopt;
  return fmt::format(
      "compute.devices names {} devices, but each queue is served by one of them and there {} only {}: {} "
      "will have nothing to do; set up more receive queues or name fewer devices",
      plan.devices.size(), queues == 1 ? "is" : "are", queues,
      fmt::join(plan.devices.begin() + queues, plan.devices.end(), ", "));
}

tl::expected<PlannedPort, Refused> plan_port(const std::string& name, const host::HostFacts& host,
                                             const host::DoctorOptions& doctor,
                                             std::vector<std::string>& warnings) {
  auto facts = host::read_interface(name);
  if (!facts) return refuse(facts.error());
  const auto findings = host::examine_interface(host, *facts, doctor);
  if (const auto blocker = host::first_blocker(findings)) return refuse(*blocker);
  for (const auto& finding : findings)
    if (finding.severity == host::Severity::warning) warnings.push_back(finding.sentence());
  PlannedPort port;
  port.queues = doctor.queues > 0 ? doctor.queues : facts->rx_queues;
  port.facts = std::move(*facts);
  return port;
}

// What io.frames_per_queue says, or io.burst at this link's speed, which is then kept.
tl::expected<u32, Refused> frames_for(PlannedPort& port, const policy::Policy& policy) {
  const policy::Io& io = policy.io;
  if (io.burst_ns == 0) return io.frames_per_queue;
  const u64 mbps = io.link_gbps != 0 ? u64{io.link_gbps} * 1000 : port.facts.speed_mbps.value_or(0);
  if (mbps == 0)
    return refuse(
        fmt::format("{} does not tell its link's speed, so io.burst means no number of frames; say the speed "
                    "in io.link_gbps, or set io.frames_per_queue instead of io.burst",
                    port.facts.name));
  auto frames = burst_frames({.ns = io.burst_ns,
                              .link_mbps = mbps,
                              .queues = port.queues,
                              .least = io.ring_size + policy.compute.batch});
  if (!frames) return refuse(fmt::format("{}: {}", port.facts.name, frames.error()));
  port.burst_mbps = mbps;
  return *frames;
}

// By a compiler of its own, as this process has every privilege and lists may be somebody else's. One that
// has none will be told that it cannot attach.
tl::expected<PolicyPtr, Refusal> compile(const AttachOptions& options, bool filter) {
  if (geteuid() != 0) {
    auto here =
        compiler::compile_policy(options.policy.value_or(compiler::pass_everything()), options.interfaces);
    if (!here) return tl::unexpected(std::move(here.error()));
    here->set_audit(options.audit);
    return std::make_shared<const compiler::CompiledPolicy>(std::move(*here));
  }
  std::string said;
  CompilerProcess process(
      filter, [] {}, [&](const std::string& sentence) { said = sentence; });
  auto compiled = PolicyCompiler([&] { return process.start(); })
                      .compile(options.policy.value_or(compiler::pass_everything()), options.interfaces, {},
                               options.audit, -1);
  if (compiled || !compiled.error().problems.empty()) return compiled;
  // How it ended is known a moment after its socket has closed.
  for (int i = 0; i < 20 && said.empty(); i++) {
    process.reap();
    if (said.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!said.empty()) compiled.error().sentence += " (" + said + ")";
  return compiled;
}

}  // namespace

std::vector<std::string> Plan::interfaces() const {
  std::vector<std::string> names;
  for (const auto& port : ports) names.push_back(port.facts.name);
  return names;
}

tl::expected<Plan, Refused> make_plan(const AttachOptions& options) {
  if (auto checked = check_options(options); !checked) return Refusing(checked.error());

  Plan plan;
  const auto seccomp = seccomp_mode(std::getenv("XDPGPU_SECCOMP"));
  if (!seccomp) return wrong_usage(seccomp.error());
  plan.seccomp = *seccomp;
  auto group = find_control_group(options.control_group);
  if (!group) return refuse(group.error());
  plan.control_group = std::move(*group);
  auto compiled = compile(options, plan.seccomp == SeccompMode::filter);
  if (!compiled && compiled.error().problems.empty()) return refuse(compiled.error().sentence);
  if (!compiled) return wrong_usage(compiled.error().sentence, compiled.error().problems);
  const policy::Policy& policy = (*compiled)->policy;
  plan.mode = options.mode.value_or(compiler::choice_of(policy).mode);
  plan.devices = device_names(options, policy);
  if (const auto found = compiler::clashes(policy, {plan.devices, plan.mode}); !found.empty())
    return wrong_usage(found.front().message);
  plan.frames = frames_of(policy.compute.frames);
  plan.standby = policy.compute.standby == "cpu";
  plan.engine.compute_mode = dataplane::compute_mode_of(policy.compute.mode).value();
  plan.engine.ring_size = policy.io.ring_size;
  plan.engine.huge_pages = policy.io.huge_pages;
  plan.engine.batch = policy.compute.batch;
  plan.engine.max_wait_ns = policy.compute.max_wait_ns;
  plan.engine.spin_ns = policy.io.spin_ns;

  const auto host = host::read_host(false);
  host::DoctorOptions doctor;
  doctor.mode = plan.mode;
  doctor.queues = options.queues;
  doctor.netns = kernel::names::remembered_netns();
  if (const auto blocker = host::first_blocker(host::examine_host(host, doctor))) return refuse(*blocker);
  for (const auto& name : options.interfaces) {
    auto port = plan_port(name, host, doctor, plan.warnings);
    if (!port) return Refusing(port.error());
    auto frames = frames_for(*port, policy);
    if (!frames) return Refusing(frames.error());
    port->frames_per_queue = *frames;
    plan.ports.push_back(std::move(*port));
  }
  plan.engine.first_cpu = plan.ports.front().facts.ifindex;
  for (const auto& name : options.interfaces)
    if (find_process(name) == Presence::running)
      return refuse(
          fmt::format("{} is attached already; detach it first (xdpgpu detach {}) or change its "
                      "policy (xdpgpu policy apply {} FILE)",
                      name, kernel::names::operand(name), kernel::names::operand(name)));
  auto codes = device_codes(plan.devices, plan.seccomp == SeccompMode::filter);
  if (codes)
    plan.codes = std::move(*codes);
  else
    plan.warnings.push_back(codes.error());
  for (const auto& device : plan.devices)
    if (device != "auto" && device != "cpu")
      if (auto tried = try_device(device, plan.codes); !tried) return refuse(tried.error());
  if (const auto warning = idle_devices(plan)) plan.warnings.push_back(*warning);
  if (options.policy) plan.notes = notes_here(policy, options.interfaces);
  plan.policy = std::move(*compiled);
  return plan;
}

}  // namespace xdpgpu::control
