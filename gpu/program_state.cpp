// SPDX-License-Identifier: MIT
#include "gpu/program_state.hpp"

#include <cstring>

#include "gpu/stages/program_code.h"

namespace xdpgpu::gpu::programs {
namespace {

// Where give() puts a key and a value.
constexpr u32 kValueAt = 512;

}  // namespace

DeviceState::DeviceState(std::span<const u32> tables, std::span<u32> state)
    : tables_(tables), state_(state), machine_(std::make_unique<xg_program_machine>()) {
  // Handles are for reading and writing; nobody writes to tables.
  machine_->tables = {const_cast<u32*>(tables.data())};
  machine_->state = {state.data()};
}
DeviceState::~DeviceState() = default;

u32 DeviceState::word(u32 map, u32 which) const { return xg_program_map_word(*machine_, map, which); }

void DeviceState::give(std::span<const u8> key, std::span<const u8> value) {
  arguments_.assign((kValueAt + value.size()) / 4 + 2, 0);
  auto* to = reinterpret_cast<u8*>(arguments_.data());
  std::memcpy(to, key.data(), key.size());
  if (!value.empty()) std::memcpy(to + kValueAt, value.data(), value.size());
}

int DeviceState::update(u32 map, std::span<const u8> key, std::span<const u8> value, u64 flags, u32 queue) {
  give(key, value);
  xg_program_machine& m = *machine_;
  m.arguments = {arguments_.data()};
  m.queue = queue;
  const xg_program_key at = xg_program_key_of(m, map, {XG_PROGRAM_IN_ARGUMENTS, 0});
  const u64 answer = xg_program_put(m, map, at, {XG_PROGRAM_IN_ARGUMENTS, kValueAt}, flags);
  xg_program_give_back(m);
  return static_cast<int>(static_cast<std::int64_t>(answer));
}

int DeviceState::erase(u32 map, std::span<const u8> key) {
  give(key, {});
  xg_program_machine& m = *machine_;
  m.arguments = {arguments_.data()};
  const u64 answer = xg_program_drop(m, map, xg_program_key_of(m, map, {XG_PROGRAM_IN_ARGUMENTS, 0}));
  xg_program_give_back(m);
  return static_cast<int>(static_cast<std::int64_t>(answer));
}

bool DeviceState::put_map(u32 outer, u32 index, u32 map) {
  if (word(outer, XG_PROGRAM_MAP_TYPE) != XG_PROGRAM_ARRAY_OF_MAPS ||
      index >= word(outer, XG_PROGRAM_MAP_ENTRIES) || map >= tables_[XG_PROGRAM_TABLE_MAPS])
    return false;
  state_[xg_program_value_at(*machine_, outer, index)] = map + 1;
  return true;
}

std::vector<u8> DeviceState::bytes(u64 first_word, u32 count) const {
  std::vector<u8> bytes(count);
  std::memcpy(bytes.data(), &state_[first_word], count);
  return bytes;
}

std::vector<std::vector<u8>> DeviceState::values(u32 map, u32 slot) const {
  std::vector<std::vector<u8>> all;
  for (u32 queue = 0; queue < word(map, XG_PROGRAM_MAP_QUEUES); ++queue)
    all.push_back(bytes(xg_program_value_at(*machine_, map, queue * word(map, XG_PROGRAM_MAP_SLOTS) + slot),
                        word(map, XG_PROGRAM_MAP_VALUE)));
  return all;
}

std::optional<DeviceState::Entry> DeviceState::find(u32 map, std::span<const u8> key) {
  if (key.size() != word(map, XG_PROGRAM_MAP_KEY)) return std::nullopt;
  give(key, {});
  machine_->arguments = {arguments_.data()};
  const xg_program_key at = xg_program_key_of(*machine_, map, {XG_PROGRAM_IN_ARGUMENTS, 0});
  u32 slot = at.first;
  if (xg_program_is_table(word(map, XG_PROGRAM_MAP_TYPE))) {
    slot = xg_program_seek(*machine_, map, at).slot;
    if (slot-- == 0) return std::nullopt;
  } else if (slot >= word(map, XG_PROGRAM_MAP_ENTRIES)) {
    return std::nullopt;
  }
  return Entry{{key.begin(), key.end()}, values(map, slot)};
}

std::vector<DeviceState::Entry> DeviceState::entries(u32 map) const {
  const u32 type = word(map, XG_PROGRAM_MAP_TYPE), slots = word(map, XG_PROGRAM_MAP_SLOTS);
  const bool is_table = xg_program_is_table(type);
  const bool has_numbers = type == XG_PROGRAM_PROGRAMS || type == XG_PROGRAM_ARRAY_OF_MAPS;
  std::vector<Entry> all;
  for (u32 slot = 0; slot < slots; ++slot) {
    const u64 first = xg_program_value_at(*machine_, map, slot);
    Entry entry;
    if (is_table) {
      const u64 element = xg_program_element(*machine_, map, slot);
      if (xg_program_standing(*machine_, map, slot) != XG_PROGRAM_IS_USED) continue;
      entry.key = bytes(element + XG_PROGRAM_ELEMENT_KEY, word(map, XG_PROGRAM_MAP_KEY));
    } else {
      if ((has_numbers || xg_program_redirects_by(type)) && state_[first] == 0) continue;
      entry.key.resize(4);
      std::memcpy(entry.key.data(), &slot, 4);
    }
    entry.values = values(map, slot);
    if (has_numbers) {
      const u32 number = state_[first] - 1;
      std::memcpy(entry.values[0].data(), &number, 4);
    }
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace xdpgpu::gpu::programs
