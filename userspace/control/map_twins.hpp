// SPDX-License-Identifier: MIT
//
// userspace/control/map_twins.hpp: the maps of programs that devices run, as the kernel has them, too: pinned
// (userspace/kernel/user_program.hpp), for bpftool and whoever else looks at maps, and kept in step with the
// device's. By what the program does with a map:
//
//   it only reads it      the kernel's is the one: what an operator writes there goes to the device
//   it only counts in it  both: counts of the device are added to the kernel's, and what an operator changes
//                         of the kernel's is changed on the device
//   it changes it         the device's is the one: the kernel's is overwritten. Where the policy says that
//   the
//                         kernel wins, entries that an operator has written or deleted go to the device first
//
// A step of that is made every kMapStep, or later where steps would take more than a twentieth of the time.
// Maps of the first kind that stand in the pipelines' image, as no packet changes any map of that program,
// have the policy put in force anew. Of a map of each CPU's the device has one value, that of CPU 0; what
// others have is the operator's.
//
// What policies begin with is what the kernel's maps have: those of a program that is in the policy before,
// with the same first contents in the same place, are the same maps.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu/program_source.hpp"
#include "gpu/program_tables.hpp"
#include "gpu/programs.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/broker_calls.hpp"
#include "userspace/control/rule_stats.hpp"
#include "userspace/dataplane/engine.hpp"
#include "userspace/kernel/map_twins.hpp"

namespace xdpgpu::control {

inline constexpr std::chrono::milliseconds kMapStep{100};

// Which of the two says what a map has.
enum class MapHome { device_alone, kernel, both, device };
struct MapPlan {
  MapHome home = MapHome::device_alone;
  std::vector<kernel::CountedWord> words{};  // of both's
  bool kernel_wins = false;                  // over the device, whose home it is
};
// Of each map of a program that a device runs, by its number. said: what the policy says of them.
std::vector<MapPlan> map_plans(const gpu::programs::Program& program,
                               const std::vector<gpu::ProgramMapFile>& said = {});
// "kernel", for reports; and which way entries go, "to the device".
const char* word_of(MapHome home);
const char* direction_of(MapHome home);

// Of a stage, from 1.
struct StageMapsReport {
  std::string pipeline;
  u32 stage = 1;
  std::vector<MapTwinReport> maps;
};

class MapTwins {
 public:
  // A policy's, from prepare() on.
  struct Policy;

  // changed: a map has other contents that only a policy put in force anew brings to the device; on the
  // thread that keeps maps in step. All outlive this object.
  MapTwins(BrokerCalls& broker, dataplane::Engine& engine, std::function<void()> changed);
  ~MapTwins();
  MapTwins(const MapTwins&) = delete;
  MapTwins& operator=(const MapTwins&) = delete;

  // Orders the maps of a policy that is to be put in force into the slot, and has pipelines begin with what
  // they have. Of programs whose maps cannot be had in the kernel reports say why. One thread at a time.
  std::shared_ptr<Policy> prepare(const compiler::CompiledPolicy& policy, u32 slot,
                                  std::shared_ptr<const gpu::Pipelines>& pipelines);
  // Whether it has some.
  static bool any(const std::shared_ptr<Policy>& policy);
  // They are those in force, as `generation` is: before packets of it come. nullptr: none are.
  void put_in_force(std::shared_ptr<Policy> policy, u32 generation);

  // Starts the thread; ends it, and with it what `changed` may be called for. Also while no policy is in
  // force.
  void start();
  void end() noexcept;

  std::vector<StageMapsReport> report() const;

 private:
  void run();

  BrokerCalls& broker_;
  dataplane::Engine& engine_;
  std::function<void()> changed_;
  std::thread thread_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  bool ending_ = false;
  std::shared_ptr<Policy> next_;  // the one in force, as the thread is to have it
  std::vector<StageMapsReport> report_;
};

}  // namespace xdpgpu::control
