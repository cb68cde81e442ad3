// SPDX-License-Identifier: MIT
#include "userspace/compiler/clashes.hpp"

#include <fmt/format.h>

#include "gpu/abilities.hpp"
#include "userspace/dataplane/engine.hpp"
#include "userspace/policy/mirroring.hpp"
#include "userspace/policy/table_stages.hpp"

namespace xdpgpu::compiler {
namespace {

host::IoMode mode_of(const std::string& name) {
  if (name == "zero-copy") return host::IoMode::zero_copy;
  if (name == "copy") return host::IoMode::copy;
  if (name == "generic") return host::IoMode::generic;
  return host::IoMode::automatic;
}

// The first rule that mirrors, to a pipeline that remembers packets where that is what is in the way.
std::string mirroring_rule(const policy::Policy& policy, bool to_tables) {
  for (std::size_t i = 0; i < policy.rules.size(); i++)
    if (policy::mirrors(policy, policy.rules[i], to_tables)) return fmt::format("/rules/{}/action", i);
  return "/rules";
}

// The first stage with a table that a rule mirrors to.
std::string mirrored_table(const policy::Policy& policy) {
  for (const policy::Rule& rule : policy.rules)
    for (const policy::Pipeline& pipeline : policy.pipelines)
      if (policy::mirrors(policy, rule, true) && pipeline.name == rule.pipeline)
        return fmt::format("pipeline \"{}\", {}", pipeline.name, policy::table_in(pipeline).value_or(""));
  return {};
}

class Clashes {
 public:
  Clashes(const policy::Policy& policy, const Choice& choice) : policy_(policy), choice_(choice) {}

  policy::Diagnostics run() {
    drives();
    mirrors();
    frames();
    polling();
    return std::move(found_);
  }

 private:
  void add(std::string pointer, std::string message) {
    found_.push_back({"", std::move(pointer), 0, 0, std::move(message)});
  }
  void drives() {
    const auto mode = dataplane::compute_mode_of(policy_.compute.mode);
    if (!mode) return;
    for (const auto& device : choice_.devices)
      if (const auto abilities = gpu::abilities_at_best(device))
        if (auto can = gpu::check_drive(device, *abilities, dataplane::drive_of(*mode)); !can)
          return add("/compute/mode", can.error());
  }
  // The first device is the one that watches.
  void mirrors() {
    if (choice_.devices.empty() || !policy::mirrors(policy_)) return;
    const auto abilities = gpu::abilities_at_best(choice_.devices.front());
    if (!abilities) return;
    const bool tables = policy::mirrors_to_tables(policy_);
    if (auto can = gpu::check_mirrored(choice_.devices.front(), *abilities, tables); !can)
      add(mirroring_rule(policy_, abilities->mirrors),
          abilities->mirrors ? fmt::format("{}: {}", mirrored_table(policy_), can.error()) : can.error());
  }
  void frames() {
    const policy::Io& io = policy_.io;
    if (io.burst_ns != 0) return;  // as many as it takes
    const u32 batch = policy_.compute.batch;
    if (auto enough = dataplane::check_frames(io.frames_per_queue, io.ring_size, batch); !enough)
      add(io.frames_per_queue != policy::Io{}.frames_per_queue ? "/io/frames_per_queue"
          : io.ring_size != policy::Io{}.ring_size             ? "/io/ring_size"
                                                               : "/compute/batch",
          enough.error());
  }
  void polling() {
    if (policy_.io.busy_poll == policy::Io::BusyPoll::on && choice_.mode == host::IoMode::generic)
      add("/io/busy_poll",
          "in generic XDP a worker cannot poll the driver; set io.busy_poll to \"auto\" or false, or "
          "io.mode to another one than \"generic\"");
  }

  const policy::Policy& policy_;
  const Choice& choice_;
  policy::Diagnostics found_;
};

}  // namespace

Choice choice_of(const policy::Policy& policy) {
  const auto& compute = policy.compute;
  return {compute.devices.empty() ? std::vector{compute.device} : compute.devices, mode_of(policy.io.mode)};
}

policy::Diagnostics clashes(const policy::Policy& policy, const Choice& choice) {
  return Clashes(policy, choice).run();
}

}  // namespace xdpgpu::compiler
