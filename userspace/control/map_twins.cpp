// SPDX-License-Identifier: MIT
#include "userspace/control/map_twins.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "gpu/program_counts.hpp"
#include "gpu/program_state.hpp"
#include "gpu/stages/stages.hpp"
#include "userspace/compiler/programs/needs.hpp"
#include "userspace/control/kernel_programs.hpp"
#include "userspace/kernel/map_entries.hpp"
#include "userspace/kernel/program_maps.hpp"
#include "userspace/policy/kernel_programs.hpp"

namespace xdpgpu::control {
namespace {

using Clock = std::chrono::steady_clock;
using gpu::programs::DeviceState;
using kernel::MapBytes;
using kernel::MapChanges;
using kernel::MapEntries;
using kernel::MapSides;
using Keys = std::set<MapBytes>;

struct Twin {
  u32 number = 0;  // of the program's maps
  std::string name;
  MapPlan plan;
  kernel::Fd map;
  u32 id = 0;  // of the kernel's
  bool of_each_cpu = false;
  u32 value_bytes = 0;
  MapSides last{};  // when the last step was made; of CPU 0
  u64 entries = 0;
  std::optional<Clock::time_point> looked{};
  double lag_ms = 0;
  std::string problem{};
};

struct Stage {
  std::string pipeline;
  u32 stage = 0;         // from 0
  std::string identity;  // of its table; empty: it has none
  gpu::ProgramMapsPlace place{};
  std::vector<Twin> twins{};
};

bool is_empty(const MapChanges& changes) { return changes.put.empty() && changes.erased.empty(); }

u32 id_of(int map) {
  bpf_map_info info{};
  u32 bytes = sizeof(info);
  return bpf_obj_get_info_by_fd(map, &info, &bytes) == 0 ? info.id : 0;
}

// What a map of the kernel has: all of it, and what the device knows.
struct Look {
  MapEntries all, own;
};
Result<Look> look_at(Twin& twin) {
  auto all = kernel::read_entries(twin.map.get(), kernel::kMostKeptBytes);
  if (!all) return Error(all.error());
  Look look{std::move(*all), {}};
  look.own = look.all;
  if (twin.of_each_cpu)
    for (auto& [key, value] : look.own) value.resize(twin.value_bytes);
  twin.entries = look.own.size();
  return look;
}

// As the kernel takes them, others' values as they were seen.
MapChanges for_all_cpus(const Twin& twin, MapChanges changes, const MapEntries& all) {
  if (!twin.of_each_cpu) return changes;
  const std::size_t each = (twin.value_bytes + 7u) / 8 * 8;
  for (auto& [key, value] : changes.put) {
    const auto seen = all.find(key);
    MapBytes whole = seen != all.end()
                         ? seen->second
                         : MapBytes(each * static_cast<std::size_t>(std::max(libbpf_num_possible_cpus(), 1)));
    std::copy(value.begin(), value.end(), whole.begin());
    value = std::move(whole);
  }
  return changes;
}

MapEntries entries_of(const DeviceState& state, u32 map) {
  MapEntries entries;
  for (auto& one : state.entries(map)) entries.emplace(std::move(one.key), std::move(one.values.front()));
  return entries;
}

// False: the device took not all of it.
bool put(DeviceState& state, u32 map, const MapChanges& changes) {
  bool all = true;
  for (const MapBytes& key : changes.erased) (void)state.erase(map, key);  // it may be gone
  for (const auto& [key, value] : changes.put) all = state.update(map, key, value) == 0 && all;
  return all;
}

MapEntries only(const MapEntries& entries, const Keys& keys) {
  MapEntries some;
  for (const MapBytes& key : keys)
    if (const auto found = entries.find(key); found != entries.end()) some.insert(*found);
  return some;
}

// Device entries of keys as they are now.
void look_again(DeviceState& state, u32 map, const Keys& keys, MapEntries& entries) {
  for (const MapBytes& key : keys) {
    entries.erase(key);
    if (auto found = state.find(map, key)) entries.emplace(key, std::move(found->values.front()));
  }
}

Keys keys_of(const MapChanges& changes) {
  Keys keys(changes.erased.begin(), changes.erased.end());
  for (const auto& [key, value] : changes.put) keys.insert(key);
  return keys;
}

std::optional<std::size_t> place_of(const policy::Policy& policy, const std::string& pipeline) {
  const auto found = std::find_if(policy.pipelines.begin(), policy.pipelines.end(),
                                  [&](const auto& one) { return one.name == pipeline; });
  if (found == policy.pipelines.end()) return std::nullopt;
  return found - policy.pipelines.begin();
}

}  // namespace

std::vector<MapPlan> map_plans(const gpu::programs::Program& program,
                               const std::vector<gpu::ProgramMapFile>& said) {
  using gpu::programs::Taking;
  using Wins = gpu::ProgramMapFile::Wins;
  std::vector<MapPlan> plans(program.maps.size());
  const auto taken = gpu::programs::how_taken(program);
  const auto uses = programs::uses_of(program);
  for (u32 i = 0; i < plans.size(); i++) {
    if (!kernel::is_kept_in_step(program.maps[i])) continue;
    const bool only_read = uses[i] == programs::MapUse::names || uses[i] == programs::MapUse::reads;
    for (const auto& [map, at, bytes] : taken.counted)
      if (map == i) plans[i].words.push_back({at, bytes});
    plans[i].home = taken.how == Taking::in_order && !only_read ? MapHome::device
                    : plans[i].words.empty()                    ? MapHome::kernel
                                                                : MapHome::both;
    if (plans[i].home != MapHome::device) continue;
    const bool kernel_wins = std::any_of(said.begin(), said.end(), [&](const auto& one) {
      return one.name == program.maps[i].name && one.wins == Wins::kernel;
    });
    if (kernel_wins)
      plans[i].wins = program.maps[i].type == BPF_MAP_TYPE_LRU_HASH ? kernel::KernelWins::what_is_written
                                                                    : kernel::KernelWins::all;
  }
  return plans;
}

const char* word_of(MapHome home) {
  switch (home) {
    case MapHome::kernel:
      return "kernel";
    case MapHome::both:
      return "both";
    case MapHome::device:
      return "device";
    case MapHome::device_alone:
      break;
  }
  return "device alone";
}
const char* direction_of(MapHome home) {
  switch (home) {
    case MapHome::kernel:
      return "to the device";
    case MapHome::both:
      return "both ways";
    case MapHome::device:
      return "to the kernel";
    case MapHome::device_alone:
      break;
  }
  return "none";
}

struct MapTwins::Policy {
  std::shared_ptr<const gpu::Pipelines> pipelines{};
  u32 generation = 0;
  std::vector<Stage> stages{};
  std::vector<StageMapsReport> without{};  // stages whose maps the kernel has not
  bool asked = false;                      // that it be put in force anew

  // What the thread does.
  void inherit(const Policy& before);
  // Whether the policy has to be put in force anew. What cannot be done is tried again the next time.
  bool step(dataplane::Engine& engine);
  // The device's tables are others now.
  void forget_device(dataplane::Engine& engine);
  std::vector<StageMapsReport> report() const;

 private:
  struct Edit {
    Twin* twin;
    Look look;
    MapEntries device;
    Keys keys;
  };
  Result<std::vector<u32>> words_of(dataplane::Engine& engine, const Stage& stage) const;
  void step(dataplane::Engine& engine, Stage& stage);
  static void finish(Twin& twin, const Look& look, const MapEntries& device);
};

MapTwins::MapTwins(BrokerCalls& broker, dataplane::Engine& engine, std::function<void()> changed)
    : broker_(broker), engine_(engine), changed_(std::move(changed)) {}

MapTwins::~MapTwins() { end(); }

bool MapTwins::any(const std::shared_ptr<Policy>& policy) { return policy && !policy->stages.empty(); }

std::shared_ptr<MapTwins::Policy> MapTwins::prepare(const compiler::CompiledPolicy& policy, u32 slot,
                                                    std::shared_ptr<const gpu::Pipelines>& pipelines) {
  auto made = std::make_shared<Policy>();
  const auto as_compiled = pipelines;  // what places are of
  u32 number = 0;
  for (const auto& place : gpu::program_maps_places(*as_compiled)) {
    const auto& in = as_compiled->settings()[place.pipeline];
    const auto program = gpu::program_of(in.stages[place.stage]);
    const auto at = place_of(policy.policy, in.name);
    if (!program || !program->program || !at || (program->in_kernel && !policy.audits())) continue;
    const auto plans = map_plans(*program->program, program->maps);
    if (std::all_of(plans.begin(), plans.end(),
                    [](const MapPlan& plan) { return plan.home == MapHome::device_alone; }))
      continue;
    const auto without = [&](const std::string& why) {
      StageMapsReport report{.pipeline = in.name, .stage = place.stage + 1, .maps = {}};
      for (std::size_t i = 0; i < plans.size(); i++)
        if (plans[i].home != MapHome::device_alone)
          report.maps.push_back({.map = program->program->maps[i].name,
                                 .home = word_of(MapHome::device_alone),
                                 .direction = direction_of(MapHome::device_alone),
                                 .problem = why});
      made->without.push_back(std::move(report));
    };
    if (number == kMaxMapOrders) {
      without(fmt::format("the policy has more than {} programs", kMaxMapOrders));
      continue;
    }
    auto ordered = order_maps(broker_, policy, static_cast<u32>(*at), place.stage, slot, number++);
    if (!ordered) {
      without(ordered.error());
      continue;
    }
    Stage stage{.pipeline = in.name, .stage = place.stage, .identity = {}};
    u64 first = place.first;
    if (place.table) {
      const gpu::StateSpec& spec = as_compiled->states()[*place.table];
      stage.identity = spec.identity;
      first = spec.first;
    }
    std::vector<u32> words(place.words);
    std::copy_n(pipelines->image().begin() + static_cast<std::ptrdiff_t>(first), place.words, words.begin());
    DeviceState state(place.tables, words);
    bool others = false;
    for (auto& [map_number, map] : ordered->maps) {
      if (map_number >= plans.size()) continue;
      const auto& is = program->program->maps[map_number];
      Twin twin{.number = map_number,
                .name = is.name,
                .plan = plans[map_number],
                .map = std::move(map),
                .of_each_cpu = kernel::is_of_each_cpu(is),
                .value_bytes = is.value_bytes};
      twin.id = id_of(twin.map.get());
      twin.last.devices = {entries_of(state, map_number)};
      twin.last.kernel = twin.last.devices.front();
      // What it has had is what the device is to begin with.
      if (ordered->kept) {
        if (auto look = look_at(twin); !look) {
          twin.problem = look.error();
        } else if (const auto changes = kernel::changes(twin.last.kernel, look->own); !is_empty(changes)) {
          if (!put(state, map_number, changes)) twin.problem = "the device takes not all that it has";
          twin.last.kernel = std::move(look->own);
          twin.last.devices = {entries_of(state, map_number)};
          others = true;
        }
      }
      stage.twins.push_back(std::move(twin));
    }
    if (others) pipelines = gpu::Pipelines::with_words(pipelines, first, words);
    made->stages.push_back(std::move(stage));
  }
  made->pipelines = pipelines;
  for (const auto& place : gpu::program_maps_places(*pipelines))
    for (Stage& stage : made->stages)
      if (stage.pipeline == pipelines->settings()[place.pipeline].name && stage.stage == place.stage)
        stage.place = place;
  return made;
}

void MapTwins::put_in_force(std::shared_ptr<Policy> policy, u32 generation) {
  if (policy) policy->generation = generation;
  const std::lock_guard lock(mutex_);
  next_ = std::move(policy);
  wake_.notify_all();
}

void MapTwins::start() {
  thread_ = std::thread([this] { run(); });
}

void MapTwins::end() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<StageMapsReport> MapTwins::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void MapTwins::run() {
  prctl(PR_SET_NAME, "xdpgpu-maps");
  std::shared_ptr<Policy> policy;
  u64 life = engine_.tables_life();
  std::chrono::nanoseconds pause{0};
  // Whether the policy has to be put in force anew.
  const auto step = [&] {
    try {
      if (const u64 now = engine_.tables_life(); now != life) {
        policy->forget_device(engine_);
        life = now;
      }
      return policy->step(engine_);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "xdpgpu: maps of programs are not kept in step just now: %s\n", error.what());
      return false;
    }
  };
  std::unique_lock lock(mutex_);
  while (true) {
    const auto is_news = [&] { return ending_ || next_ != policy; };
    if (MapTwins::any(policy))
      wake_.wait_for(lock, pause, is_news);
    else
      wake_.wait(lock, is_news);
    if (ending_) return;
    if (next_ != policy) {
      // What packets have come to by the old one.
      lock.unlock();
      if (MapTwins::any(policy)) (void)step();
      lock.lock();
      if (next_ && policy) next_->inherit(*policy);
      policy = next_;
      pause = kMapStep;
      report_ = policy ? policy->report() : std::vector<StageMapsReport>{};
      continue;
    }
    lock.unlock();
    const auto begun = Clock::now();
    const bool anew = step();
    pause = kernel::wait_after(Clock::now() - begun, kMapStep);
    if (anew) changed_();
    lock.lock();
    if (next_ == policy) report_ = policy->report();
  }
}

void MapTwins::Policy::inherit(const Policy& before) {
  for (Stage& stage : stages) {
    if (stage.identity.empty()) continue;
    const auto was = std::find_if(before.stages.begin(), before.stages.end(),
                                  [&](const Stage& one) { return one.identity == stage.identity; });
    if (was == before.stages.end()) continue;
    for (Twin& twin : stage.twins) {
      const auto same = std::find_if(was->twins.begin(), was->twins.end(), [&](const Twin& one) {
        return one.number == twin.number && one.id == twin.id && one.id != 0;
      });
      if (same != was->twins.end())
        twin.last = same->last;
      else  // the device has more than the kernel's new map
        twin.last.devices.clear();
    }
  }
}

Result<std::vector<u32>> MapTwins::Policy::words_of(dataplane::Engine& engine, const Stage& stage) const {
  std::vector<u32> words(stage.place.words);
  if (auto read = engine.read_state(generation, *stage.place.table, stage.place.first, words); !read)
    return Error(read.error());
  return words;
}

void MapTwins::Policy::forget_device(dataplane::Engine& engine) {
  for (Stage& stage : stages) {
    if (!stage.place.table) continue;
    auto words = words_of(engine, stage);
    if (!words) continue;
    const DeviceState state(stage.place.tables, *words);
    for (Twin& twin : stage.twins) {
      if (twin.plan.home == MapHome::both) twin.last.devices.clear();
      if (twin.plan.home == MapHome::kernel) twin.last.kernel = entries_of(state, twin.number);
    }
  }
}

// Writes to the kernel's what the device has come to. device: as it is now.
void MapTwins::Policy::finish(Twin& twin, const Look& look, const MapEntries& device) {
  const MapSides now{look.own, {device}};
  kernel::MapStep step = twin.plan.home == MapHome::both
                             ? kernel::step_counts(twin.last, now, twin.plan.words)
                             : kernel::step_changed(nullptr, now, kernel::KernelWins::nothing);
  const auto left =
      kernel::write_changes(twin.map.get(), for_all_cpus(twin, step.kernel, look.all), look.all);
  if (!left) {
    twin.problem = left.error();
    return;
  }
  twin.problem.clear();
  if (!left->full.empty())
    twin.problem = fmt::format("{} entries of the device's have no room in the kernel's", left->full.size());
  for (const MapBytes& key : left->changed)
    if (twin.plan.home == MapHome::both) {
      kernel::leave_kernel(step, twin.last, now, key, twin.plan.words);
    } else {
      step.after.kernel.erase(key);
      if (const auto seen = look.own.find(key); seen != look.own.end()) step.after.kernel.insert(*seen);
    }
  for (const MapBytes& key : left->full) step.after.kernel.erase(key);
  twin.last = std::move(step.after);
}

void MapTwins::Policy::step(dataplane::Engine& engine, Stage& stage) {
  const bool looks = std::any_of(stage.twins.begin(), stage.twins.end(),
                                 [](const Twin& twin) { return twin.plan.home != MapHome::kernel; });
  std::vector<u32> words;
  if (looks) {
    auto read = words_of(engine, stage);
    if (!read) {
      for (Twin& twin : stage.twins) twin.problem = read.error();
      return;
    }
    words = std::move(*read);
  }
  std::vector<Edit> edits;
  for (Twin& twin : stage.twins) {
    auto look = look_at(twin);
    if (!look) {
      twin.problem = look.error();
      continue;
    }
    if (twin.plan.home == MapHome::kernel) {
      auto changes = kernel::changes(twin.last.kernel, look->own);
      if (!is_empty(changes)) edits.push_back({&twin, std::move(*look), {}, keys_of(changes)});
      continue;
    }
    const DeviceState state(stage.place.tables, words);
    MapEntries device = entries_of(state, twin.number);
    Keys keys;
    if (twin.plan.home == MapHome::both) {
      const auto wanted = kernel::step_counts(twin.last, {look->own, {device}}, twin.plan.words);
      keys = keys_of(wanted.devices.front());
    } else if (twin.plan.wins != kernel::KernelWins::nothing) {
      keys = keys_of(kernel::step_changed(&twin.last, {look->own, {device}}, twin.plan.wins).devices.front());
    }
    if (keys.empty())
      finish(twin, *look, device);
    else
      edits.push_back({&twin, std::move(*look), std::move(device), std::move(keys)});
  }
  if (edits.empty()) return;
  // Packets may have counted on since: what they have counted by then is what is gone by.
  std::set<const Twin*> not_all;
  const auto edited = engine.edit_state(generation, *stage.place.table, [&](std::span<u32> all) {
    DeviceState state(stage.place.tables, all.subspan(stage.place.first, stage.place.words));
    for (Edit& edit : edits) {
      const Twin& twin = *edit.twin;
      MapChanges changes;
      if (twin.plan.home != MapHome::both) {
        changes = kernel::changes(only(twin.last.kernel, edit.keys), only(edit.look.own, edit.keys));
        if (twin.plan.wins == kernel::KernelWins::what_is_written) changes.erased.clear();
      } else {
        look_again(state, twin.number, edit.keys, edit.device);
        const MapSides last{
            only(twin.last.kernel, edit.keys),
            {twin.last.devices.empty() ? MapEntries() : only(twin.last.devices.front(), edit.keys)}};
        changes = kernel::step_counts(last, {only(edit.look.own, edit.keys), {only(edit.device, edit.keys)}},
                                      twin.plan.words)
                      .devices.front();
      }
      if (!put(state, twin.number, changes)) not_all.insert(&twin);
      if (twin.plan.home == MapHome::device) look_again(state, twin.number, edit.keys, edit.device);
    }
  });
  for (Edit& edit : edits) {
    Twin& twin = *edit.twin;
    if (!edited) {
      twin.problem = edited.error();
      continue;
    }
    if (twin.plan.home == MapHome::kernel) {
      twin.last.kernel = std::move(edit.look.own);
      twin.problem.clear();
    } else {
      finish(twin, edit.look, edit.device);
    }
    if (not_all.contains(&twin)) twin.problem = "the device takes not all that the kernel's has";
  }
}

bool MapTwins::Policy::step(dataplane::Engine& engine) {
  bool anew = false;
  for (Stage& stage : stages) {
    if (stage.place.table) {
      step(engine, stage);
    } else if (!asked) {
      for (Twin& twin : stage.twins) {
        const auto look = look_at(twin);
        twin.problem = look ? "" : look.error();
        anew = anew || (look && look->own != twin.last.kernel);
      }
    }
    const auto now = Clock::now();
    for (Twin& twin : stage.twins) {
      if (twin.looked) twin.lag_ms = std::chrono::duration<double, std::milli>(now - *twin.looked).count();
      twin.looked = now;
    }
  }
  asked = asked || anew;
  return anew;
}

std::vector<StageMapsReport> MapTwins::Policy::report() const {
  std::vector<StageMapsReport> reports = without;
  for (const Stage& stage : stages) {
    StageMapsReport& of = reports.emplace_back(
        StageMapsReport{.pipeline = stage.pipeline, .stage = stage.stage + 1, .maps = {}});
    for (const Twin& twin : stage.twins)
      of.maps.push_back({.map = twin.name,
                         .home = word_of(twin.plan.home),
                         .direction = direction_of(twin.plan.home),
                         .entries = twin.entries,
                         .lag_ms = twin.lag_ms,
                         .problem = twin.problem});
  }
  return reports;
}

}  // namespace xdpgpu::control
