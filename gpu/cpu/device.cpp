// SPDX-License-Identifier: MIT
#include "gpu/cpu/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "gpu/cpu/mirror.hpp"
#include "gpu/cpu/queue.hpp"
#include "gpu/slots.hpp"
#include "gpu/states.hpp"

namespace xdpgpu::gpu::cpu {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "the host's processor";
}

class CpuDevice final : public Device {
 public:
  const DeviceInfo& info() const noexcept override { return info_; }

  Result<void> register_frames(void* base, u64 bytes, Frames frames) override {
    if (auto checked = check_region(base, bytes, shared_.base != nullptr); !checked) return checked;
    shared_.base = static_cast<u8*>(base);
    shared_.bytes = bytes;
    shared_.frames = frames == Frames::staged ? Frames::staged : Frames::in_place;
    return {};
  }
  Frames frames() const noexcept override { return shared_.frames; }

  Result<void> load(u32 generation, std::shared_ptr<const Pipelines> pipelines) override {
    try {
      auto tables = tables_.take(*pipelines, [&](const StateSpec& spec) -> Result<Table> {
        Table table(spec.words);
        std::copy_n(pipelines->image().begin() + spec.first, spec.first_words,
                    table.end() - static_cast<std::ptrdiff_t>(spec.first_words));
        return table;
      });
      if (!tables) return tl::unexpected(tables.error());
      Loaded loaded{std::move(pipelines), *std::move(tables), {}, nullptr};
      if (const u64 words = loaded.pipelines->changes_words(); words != 0)
        loaded.changes = std::make_shared<LargeVector<u32>>(words);
      for (const auto& table : loaded.tables) {
        const u64 address = reinterpret_cast<std::uintptr_t>(table->data());
        loaded.addresses.insert(loaded.addresses.end(),
                                {static_cast<u32>(address), static_cast<u32>(address >> 32), 0, 0});
      }
      return shared_.generations.add(generation, std::move(loaded));
    } catch (const std::bad_alloc&) {
      return tl::unexpected(
          std::string("there is not enough memory for the stages' tables: make them smaller"));
    }
  }
  Result<void> read_state(u32 generation, u32 table, u64 first, std::span<u32> words) override {
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_state_range(*loaded->pipelines, table, first, words.size()); !checked)
      return checked;
    Table& from = *loaded->tables[table];
    for (u64 i = 0; i < words.size(); i++)
      words[i] = std::atomic_ref(from[first + i]).load(std::memory_order_relaxed);
    return {};
  }
  Result<void> edit_state(u32 generation, u32 table, const Edit& edit) override {
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_state_range(*loaded->pipelines, table, 0, 0); !checked) return checked;
    Table& words = *loaded->tables[table];
    // The packets of a program may be of any set, whatever its table has.
    const StateSpec& spec = loaded->pipelines->states()[table];
    const u64 sets = spec.first_words != 0 ? SetLocks::kAll : spec.entries / XG_WAYS;
    shared_.sets.keep_off(words.data(), sets, [&] { edit(words); });
    return {};
  }
  Result<void> change_words(u32 generation, std::span<const ChangedWords> changes) override {
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_changes(*loaded->pipelines, changes); !checked) return checked;
    shared_.gate.close_for([&] {
      for (const ChangedWords& one : changes)
        std::copy(one.words.begin(), one.words.end(),
                  loaded->changes->begin() + static_cast<std::ptrdiff_t>(one.first));
    });
    return {};
  }
  void unload(u32 generation) noexcept override { shared_.generations.remove(generation); }

  // The thread that retires a batch is the one that decided it: it may as well publish.
  Result<bool> publish_flows(const std::vector<FlowTables>&) override { return false; }

  Result<std::unique_ptr<Queue>> open_queue(const QueueOptions& options) override {
    if (auto checked = check_queue_options(options, info_); !checked) return tl::unexpected(checked.error());
    if (shared_.base == nullptr) return tl::unexpected(std::string("the device has no frame region yet"));
    try {
      return cpu::open_queue(shared_, options);
    } catch (const std::exception& error) {
      return tl::unexpected(fmt::format(
          "the CPU cannot take a queue's batches: {}; free some memory or threads", error.what()));
    }
  }

  Result<std::unique_ptr<Mirror>> open_mirror(const MirrorOptions& options) override {
    if (auto checked = check_mirror_options(options); !checked) return tl::unexpected(checked.error());
    try {
      return cpu::open_mirror(shared_, options);
    } catch (const std::exception& error) {
      return tl::unexpected(fmt::format(
          "the CPU cannot watch mirrored packets: {}; free some memory or threads", error.what()));
    }
  }

 private:
  using Table = LargeVector<u32>;

  DeviceInfo info_ = describe().front();
  Shared shared_;
  States<Table> tables_;
};

}  // namespace

std::vector<DeviceInfo> describe() {
  DeviceInfo info;
  info.name = "cpu";
  info.kind = Kind::cpu;
  info.description = processor_name();
  info.software = true;
  info.usable = true;
  info.in_place = true;
  info.persistent = true;
  info.persistent_takes_core = true;
  info.mirrors_tables = true;
  return {info};
}

Result<std::unique_ptr<Device>> open(const DeviceInfo&) { return std::make_unique<CpuDevice>(); }

}  // namespace xdpgpu::gpu::cpu
