// SPDX-License-Identifier: MIT
#include "userspace/control/map_twins.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>

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
#include "gpu/thread.hpp"
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

constexpr int kLooks = 3;  // at a map that others delete from
constexpr std::chrono::seconds kEditAgain{10}, kLeastAnew{1};

struct Twin {
  u32 number = 0;  // of the program's maps
  std::string name;
  MapPlan plan;
  kernel::Fd map;
  u32 id = 0;  // of the kernel's
  bool of_each_cpu = false;
  u32 value_bytes = 0;
  MapSides last{};                 // when the last step was made; of CPU 0
  bool unknown = false;            // what the device has: what `last` says of it is not so
  Clock::time_point edits_from{};  // the device is not edited before: it did not take all the last time
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
Result<Look> look_at(Twin& twin, int looks = 1) {
  auto all = kernel::read_entries(twin.map.get(), kernel::kMostKeptBytes);
  while (!all && --looks > 0) all = kernel::read_entries(twin.map.get(), kernel::kMostKeptBytes);
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

// Returns the keys of what the device did not take.
Keys put(DeviceState& state, u32 map, const MapChanges& changes) {
  Keys refused;
  for (const MapBytes& key : changes.erased) (void)state.erase(map, key);  // it may be gone
  for (const auto& [key, value] : changes.put)
    if (state.update(map, key, value) != 0) refused.insert(key);
  return refused;
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
    const bool is_keyed = std::ranges::count(taken.keyed, i) != 0;
    const bool is_changed = is_keyed || (taken.how == Taking::in_order && !only_read);
    plans[i].home = is_changed ? MapHome::device : plans[i].words.empty() ? MapHome::kernel : MapHome::both;
    if (plans[i].home != MapHome::device) continue;
    plans[i].kernel_wins = std::any_of(said.begin(), said.end(), [&](const auto& one) {
      return one.name == program.maps[i].name && one.wins == Wins::kernel;
    });
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
  std::vector<StageMapsReport> without{};               // stages whose maps the kernel has not
  bool asked = false;                                   // that it be put in force anew
  std::optional<dataplane::Engine::TablesLife> life{};  // of the device that `last` is of

  // What the thread does.
  void inherit(const Policy& before);
  // Whether the policy has to be put in force anew, which may be asked. What cannot be done is tried again
  // the next time.
  bool step(dataplane::Engine& engine, bool may_ask);
  // What devices have is not known any more.
  void forget_device();
  std::vector<StageMapsReport> report() const;

 private:
  struct Edit {
    Twin* twin;
    Look look;
    MapEntries device;
    Keys keys;
    // Of these keys: what it was and is, or, where it hangs on nothing else, what is to be changed.
    MapSides last{};
    MapEntries own{};
    MapChanges changes{};
    Keys refused{};
  };
  void step(dataplane::Engine& engine, Stage& stage);
  void edit(dataplane::Engine& engine, Stage& stage, std::vector<Edit>& edits);
  static void apply(DeviceState& state, Edit& edit);
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
    std::string why;
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
        const auto look = look_at(twin, kLooks);
        if (!look) {
          why = look.error();
          break;
        }
        if (const auto changes = kernel::changes(twin.last.kernel, look->own); !is_empty(changes)) {
          if (!put(state, map_number, changes).empty()) twin.problem = "the device takes not all that it has";
          twin.last.kernel = look->own;
          twin.last.devices = {entries_of(state, map_number)};
          others = true;
        }
      }
      stage.twins.push_back(std::move(twin));
    }
    if (!why.empty()) {
      without(why);
      continue;
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
  thread_ = gpu::start_thread("xdpgpu-maps", [this] { run(); });
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
  std::shared_ptr<Policy> policy;
  Clock::time_point anew_from{};
  std::chrono::nanoseconds pause{0};
  // Whether the policy has to be put in force anew.
  const auto step = [&] {
    const auto begun = Clock::now();
    bool anew = false;
    try {
      anew = policy->step(engine_, begun >= anew_from);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "xdpgpu: maps of programs are not kept in step just now: %s\n", error.what());
      policy->forget_device();
    }
    pause = kernel::wait_after(Clock::now() - begun, kMapStep);
    return anew;
  };
  const auto take = [&](const std::shared_ptr<Policy>& next) {
    try {
      if (next && policy) next->inherit(*policy);
    } catch (const std::exception&) {
      next->forget_device();
    }
    policy = next;
    pause = kMapStep;
  };
  std::unique_lock lock(mutex_);
  while (true) {
    const auto is_news = [&] { return ending_ || next_ != policy; };
    if (MapTwins::any(policy))
      wake_.wait_for(lock, pause, is_news);
    else
      wake_.wait(lock, is_news);
    if (ending_) return;
    const auto next = next_;
    lock.unlock();
    // Also of an old one: what packets have come to by it.
    const bool anew = MapTwins::any(policy) && step();
    const bool is_another = next != policy;
    if (is_another) take(next);
    std::vector<StageMapsReport> report;
    try {
      if (anew && !is_another) {
        anew_from = Clock::now() + kLeastAnew;
        changed_();
      }
      if (policy) report = policy->report();
    } catch (const std::exception&) {  // the next time, then
      if (policy) policy->asked = false;
    }
    lock.lock();
    if (next_ == policy) report_ = std::move(report);
  }
}

void MapTwins::Policy::inherit(const Policy& before) {
  life = before.life;
  for (Stage& stage : stages) {
    if (stage.identity.empty()) continue;
    const auto was = std::find_if(before.stages.begin(), before.stages.end(),
                                  [&](const Stage& one) { return one.identity == stage.identity; });
    for (Twin& twin : stage.twins) {
      const auto is_same = [&](const Twin& one) {
        return one.number == twin.number && one.id == twin.id && one.id != 0;
      };
      const bool known = was != before.stages.end();
      const auto same =
          known ? std::find_if(was->twins.begin(), was->twins.end(), is_same) : was->twins.end();
      if (known && same != was->twins.end()) {
        twin.last = same->last;
        twin.unknown = same->unknown;
      } else {
        // Its table may have gone on from one that had more than this map of the kernel's: of counts that is
        // what the device has beyond the first contents.
        twin.unknown = true;
      }
    }
  }
}

void MapTwins::Policy::forget_device() {
  for (Stage& stage : stages)
    for (Twin& twin : stage.twins) {
      twin.unknown = true;
      if (twin.plan.home == MapHome::both) twin.last.devices.clear();
    }
}

// Writes to the kernel's what the device has come to. device: as it is now.
void MapTwins::Policy::finish(Twin& twin, const Look& look, const MapEntries& device) {
  const MapSides now{look.own, {device}};
  kernel::MapStep step = twin.plan.home == MapHome::both
                             ? kernel::step_counts(twin.last, now, twin.plan.words)
                             : kernel::step_changed(nullptr, now, false);
  const auto left =
      kernel::write_changes(twin.map.get(), for_all_cpus(twin, step.kernel, look.all), look.all);
  if (!left) {
    twin.problem = left.error();
    return;
  }
  twin.problem = left->problem;
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

// While packets wait.
void MapTwins::Policy::apply(DeviceState& state, Edit& edit) {
  const Twin& twin = *edit.twin;
  if (twin.plan.home == MapHome::both) {
    // Packets may have counted on since: what they have counted by now is what is gone by.
    look_again(state, twin.number, edit.keys, edit.device);
    edit.changes = kernel::step_counts(edit.last, {edit.own, {only(edit.device, edit.keys)}}, twin.plan.words)
                       .devices.front();
  }
  edit.refused = put(state, twin.number, edit.changes);
  if (twin.plan.home == MapHome::device) look_again(state, twin.number, edit.keys, edit.device);
}

void MapTwins::Policy::edit(dataplane::Engine& engine, Stage& stage, std::vector<Edit>& edits) {
  for (Edit& one : edits) {
    const MapSides& last = one.twin->last;
    one.own = only(one.look.own, one.keys);
    one.last = {only(last.kernel, one.keys), {}};
    if (!last.devices.empty()) one.last.devices = {only(last.devices.front(), one.keys)};
    if (one.twin->plan.home != MapHome::both) one.changes = kernel::changes(one.last.kernel, one.own);
  }
  bool whole = true;
  const auto edited = engine.edit_state(*life, generation, *stage.place.table, [&](std::span<u32> all) {
    try {
      DeviceState state(stage.place.tables, all.subspan(stage.place.first, stage.place.words));
      for (Edit& one : edits) apply(state, one);
    } catch (const std::exception&) {
      whole = false;
    }
  });
  if (!edited || !whole) {
    if (!whole) forget_device();
    for (Edit& one : edits) one.twin->problem = edited ? "there is not enough memory" : edited.error();
    return;
  }
  for (Edit& one : edits) {
    Twin& twin = *one.twin;
    if (twin.plan.home == MapHome::kernel) {
      twin.last.kernel = std::move(one.look.own);
      twin.problem.clear();
    } else {
      finish(twin, one.look, one.device);
    }
    if (one.refused.empty()) continue;
    for (const MapBytes& key : one.refused) twin.last.kernel.erase(key);
    twin.problem = fmt::format("the device has no room for {} of the kernel's entries", one.refused.size());
    twin.edits_from = Clock::now() + kEditAgain;
  }
}

void MapTwins::Policy::step(dataplane::Engine& engine, Stage& stage) {
  const bool looks = std::any_of(stage.twins.begin(), stage.twins.end(), [](const Twin& twin) {
    return twin.plan.home != MapHome::kernel || twin.unknown;
  });
  std::vector<u32> words;
  if (looks) {
    words.resize(stage.place.words);
    if (auto read = engine.read_state(*life, generation, *stage.place.table, stage.place.first, words);
        !read) {
      for (Twin& twin : stage.twins) twin.problem = read.error();
      return;
    }
  }
  const auto now = Clock::now();
  std::vector<Edit> edits;
  for (Twin& twin : stage.twins) {
    if (now < twin.edits_from) continue;
    auto look = look_at(twin);
    if (!look) {
      twin.problem = look.error();
      continue;
    }
    MapEntries device;
    if (looks) device = entries_of(DeviceState(stage.place.tables, words), twin.number);
    if (twin.unknown && twin.plan.home == MapHome::kernel) twin.last.kernel = device;
    twin.unknown = false;
    MapChanges wanted;
    if (twin.plan.home == MapHome::kernel)
      wanted = kernel::changes(twin.last.kernel, look->own);
    else if (twin.plan.home == MapHome::both)
      wanted = kernel::step_counts(twin.last, {look->own, {device}}, twin.plan.words).devices.front();
    else if (twin.plan.kernel_wins)
      wanted = kernel::step_changed(&twin.last, {look->own, {device}}, true).devices.front();
    if (!is_empty(wanted)) {
      Keys keys = keys_of(wanted);
      edits.push_back(
          {.twin = &twin, .look = std::move(*look), .device = std::move(device), .keys = std::move(keys)});
    } else if (twin.plan.home == MapHome::kernel) {
      twin.problem.clear();
    } else {
      finish(twin, *look, device);
    }
  }
  if (!edits.empty()) edit(engine, stage, edits);
}

bool MapTwins::Policy::step(dataplane::Engine& engine, bool may_ask) {
  auto now_lives = engine.tables_life();
  if (life && *life != now_lives) forget_device();
  life = std::move(now_lives);
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
  anew = anew && may_ask;
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
