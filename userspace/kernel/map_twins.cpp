// SPDX-License-Identifier: MIT
#include "userspace/kernel/map_twins.hpp"

#include <algorithm>
#include <cstring>

namespace xdpgpu::kernel {
namespace {

constexpr int kLooksPart = 20;

bool is_in(const CountedWord& word, const MapBytes& value) {
  return (word.bytes == 4 || word.bytes == 8) && u64{word.at} + word.bytes <= value.size();
}
u64 number_in(const MapBytes& value, const CountedWord& word) {
  u32 half = 0;
  u64 whole = 0;
  if (word.bytes == sizeof(whole)) {
    std::memcpy(&whole, value.data() + word.at, sizeof(whole));
    return whole;
  }
  std::memcpy(&half, value.data() + word.at, sizeof(half));
  return half;
}
void put_number(MapBytes& value, const CountedWord& word, u64 number) {
  const u32 half = static_cast<u32>(number);
  if (word.bytes == sizeof(number))
    std::memcpy(value.data() + word.at, &number, sizeof(number));
  else
    std::memcpy(value.data() + word.at, &half, sizeof(half));
}

// Null: there is none, or one of another size.
const MapBytes* find(const MapEntries& entries, const MapBytes& key, std::size_t bytes) {
  const auto found = entries.find(key);
  return found != entries.end() && found->second.size() == bytes ? &found->second : nullptr;
}

// to + (now - before), word by word.
void add(MapBytes& to, const MapBytes& now, const MapBytes& before, std::span<const CountedWord> words) {
  for (const CountedWord& word : words)
    if (is_in(word, to))
      put_number(to, word, number_in(to, word) + number_in(now, word) - number_in(before, word));
}

// What a device has is to be: the operator's bytes, the device's counts, and what the operator added.
MapBytes on_device(const MapBytes& device, const MapBytes& kernel, const MapBytes& before,
                   std::span<const CountedWord> words) {
  MapBytes made = kernel;
  for (const CountedWord& word : words)
    if (is_in(word, made)) put_number(made, word, number_in(device, word));
  add(made, kernel, before, words);
  return made;
}

}  // namespace

MapChanges changes(const MapEntries& from, const MapEntries& to) {
  MapChanges made;
  for (const auto& [key, value] : to)
    if (const auto found = from.find(key); found == from.end() || found->second != value)
      made.put.emplace(key, value);
  for (const auto& [key, value] : from)
    if (!to.contains(key)) made.erased.push_back(key);
  return made;
}

void carry_out(const MapChanges& changes, MapEntries& to) {
  for (const MapBytes& key : changes.erased) to.erase(key);
  for (const auto& [key, value] : changes.put) to[key] = value;
}

MapStep step_counts(const MapSides& last, const MapSides& now, std::span<const CountedWord> words) {
  MapStep step;
  step.after.devices.resize(now.devices.size());
  for (const auto& [key, kernel] : now.kernel) {
    const MapBytes* const before = find(last.kernel, key, kernel.size());
    MapBytes sum = kernel;
    for (std::size_t i = 0; i < now.devices.size(); i++) {
      MapBytes& made = step.after.devices[i][key];
      made = kernel;
      const MapBytes* const device = find(now.devices[i], key, kernel.size());
      if (before == nullptr || device == nullptr) continue;
      made = on_device(*device, kernel, *before, words);
      const MapBytes* const device_before =
          i < last.devices.size() ? find(last.devices[i], key, kernel.size()) : nullptr;
      if (device_before != nullptr) add(sum, *device, *device_before, words);
    }
    step.after.kernel.emplace(key, std::move(sum));
  }
  step.kernel = changes(now.kernel, step.after.kernel);
  for (std::size_t i = 0; i < now.devices.size(); i++)
    step.devices.push_back(changes(now.devices[i], step.after.devices[i]));
  return step;
}

void leave_kernel(MapStep& step, const MapSides& last, const MapSides& now, const MapBytes& key,
                  std::span<const CountedWord> words) {
  const auto seen = now.kernel.find(key), before = last.kernel.find(key);
  if (seen == now.kernel.end()) return;
  step.after.kernel[key] = seen->second;
  for (std::size_t i = 0; i < step.after.devices.size() && i < last.devices.size(); i++) {
    const MapBytes* const device_before = find(last.devices[i], key, seen->second.size());
    if (device_before == nullptr) continue;
    // As it would be had it counted nothing since.
    MapBytes made = *device_before;
    if (before != last.kernel.end() && before->second.size() == made.size())
      add(made, seen->second, before->second, words);
    step.after.devices[i][key] = std::move(made);
  }
}

MapStep step_changed(const MapSides* last, const MapSides& now, bool kernel_wins) {
  MapStep step;
  MapEntries device = now.devices.empty() ? MapEntries() : now.devices.front();
  step.devices.resize(now.devices.size());
  if (kernel_wins && last != nullptr) {
    const MapChanges written = changes(last->kernel, now.kernel);
    MapEntries with = device;
    carry_out(written, with);
    if (!step.devices.empty()) step.devices.front() = changes(device, with);
    device = std::move(with);
  }
  step.kernel = changes(now.kernel, device);
  step.after.kernel = device;
  step.after.devices.assign(now.devices.size(), device);
  return step;
}

std::chrono::nanoseconds wait_after(std::chrono::nanoseconds took, std::chrono::nanoseconds least) {
  return std::max(least, took * (kLooksPart - 1));
}

}  // namespace xdpgpu::kernel
