// SPDX-License-Identifier: MIT
#include "gpu/reference/program_memory.hpp"

#include <linux/bpf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace xdpgpu::gpu::reference {
namespace {

// Whether `bytes` from `offset` on are in [from, to).
bool inside(u32 offset, u64 bytes, u64 from, u64 to) { return offset >= from && offset + bytes <= to; }

}  // namespace

ProgramMemory::ProgramMemory(const ProgramMaps& maps, const ProgramPacket& packet)
    : input_(&packet), maps_(&maps) {
  meta_ = data_ - static_cast<u32>(packet.metadata.size());
  end_ = kept_ = came();
  std::ranges::copy(packet.metadata, frame_.begin() + meta_);
  std::ranges::copy(packet.bytes, frame_.begin() + data_);
}

ProgramFault ProgramMemory::load_context(u32 offset, u32 bytes, u64& value) const {
  if (bytes != 4) return ProgramFault::out_of_bounds;
  switch (offset) {
    case offsetof(xdp_md, data):
      value = pointer(kPacket, data_);
      break;
    case offsetof(xdp_md, data_end):
      value = pointer(kPacket, end_);
      break;
    case offsetof(xdp_md, data_meta):
      value = pointer(kPacket, meta_);
      break;
    case offsetof(xdp_md, ingress_ifindex):
      value = input_->ingress_ifindex;
      break;
    case offsetof(xdp_md, rx_queue_index):
      value = input_->queue;
      break;
    case offsetof(xdp_md, egress_ifindex):
      value = input_->egress_ifindex;
      break;
    default:
      return ProgramFault::out_of_bounds;
  }
  return ProgramFault::none;
}

ProgramFault ProgramMemory::written(u32 from, u64 bytes) {
  if (input_->most_lines == 0) return ProgramFault::writes_packet;
  for (u64 at = from; at < from + bytes; ++at) {
    const u8 line = static_cast<u8>(at / XG_PATCH_LINE_BYTES);
    if (std::ranges::find(lines_, line) != lines_.end()) continue;
    if (lines_.size() == input_->most_lines) return ProgramFault::too_much_written;
    lines_.push_back(line);
  }
  return ProgramFault::none;
}

ProgramFault ProgramMemory::bytes_at(u64 address, u64 bytes, bool writes, std::span<u8>& found) {
  const u32 object = object_of(address), offset = offset_of(address);
  if (object == kPacket) {
    if (!inside(offset, bytes, meta_, end_)) return ProgramFault::out_of_bounds;
    if (writes)
      if (const ProgramFault fault = written(offset, bytes); fault != ProgramFault::none) return fault;
    found = std::span(frame_).subspan(offset, bytes);
  } else if (object >= kStack && object < kStack + functions_) {
    if (!inside(offset, bytes, 0, kProgramStackBytes)) return ProgramFault::out_of_bounds;
    found = std::span(stacks_[object - kStack]).subspan(offset, bytes);
  } else if (object == kRecord && record_) {
    if (!inside(offset, bytes, 0, record_->size())) return ProgramFault::out_of_bounds;
    found = std::span(*record_).subspan(offset, bytes);
  } else if (object >= kValue && object - kValue < values_.size()) {
    ProgramValue& value = *values_[object - kValue];
    if (!inside(offset, bytes, 0, value.bytes.size())) return ProgramFault::out_of_bounds;
    if (writes && value.read_only) return ProgramFault::read_only;
    found = std::span(value.bytes).subspan(offset, bytes);
  } else {
    return writes && object == kContext ? ProgramFault::read_only : ProgramFault::out_of_bounds;
  }
  return ProgramFault::none;
}

ProgramFault ProgramMemory::load(u64 address, u32 bytes, u64& value) {
  if (object_of(address) == kContext) return load_context(offset_of(address), bytes, value);
  std::span<u8> found;
  if (auto fault = bytes_at(address, bytes, false, found); fault != ProgramFault::none) return fault;
  value = 0;
  std::memcpy(&value, found.data(), bytes);
  return ProgramFault::none;
}

ProgramFault ProgramMemory::store(u64 address, u32 bytes, u64 value) {
  std::span<u8> found;
  if (auto fault = bytes_at(address, bytes, true, found); fault != ProgramFault::none) return fault;
  std::memcpy(found.data(), &value, bytes);
  return ProgramFault::none;
}

ProgramMap* ProgramMemory::map_at(u64 pointer) const {
  const u32 object = object_of(pointer);
  if (object < kMap || object >= kValue || offset_of(pointer) != 0) return nullptr;
  const u32 number = object - kMap;
  if (number < maps_->size()) return maps_->find(number);
  const u32 inner = number - maps_->size();
  return inner < inner_maps_.size() ? inner_maps_[inner].get() : nullptr;
}

u64 ProgramMemory::pointer_to(std::shared_ptr<ProgramValue> value) {
  const auto [at, is_new] = known_.try_emplace(value.get(), kValue + static_cast<u32>(values_.size()));
  if (is_new) values_.push_back(std::move(value));
  return pointer(at->second, 0);
}

u64 ProgramMemory::pointer_to(std::shared_ptr<ProgramMap> map) {
  // One of the program's own has its number there.
  for (u32 number = 0; number < maps_->size(); ++number)
    if (maps_->find(number) == map.get()) return pointer(kMap + number, 0);
  const u32 next = kMap + maps_->size() + static_cast<u32>(inner_maps_.size());
  const auto [at, is_new] = known_.try_emplace(map.get(), next);
  if (is_new) inner_maps_.push_back(std::move(map));
  return pointer(at->second, 0);
}

int ProgramMemory::adjust_head(std::int32_t by) {
  const u32 metadata = data_ - meta_;
  const std::int64_t data = std::int64_t{data_} + by;
  if (data < kProgramFrameBytes + metadata || data > std::int64_t{end_} - kLeastProgramPacket) return -EINVAL;
  // Metadata moves along, four bytes after four, the last ones first where others stand there yet. What it
  // leaves behind stays as it is.
  for (u32 done = 0; done < metadata && fault_ == ProgramFault::none; done += 4)
    fault_ = written(static_cast<u32>(data) - metadata + (by < 0 ? done : metadata - 4 - done), 4);
  std::memmove(&frame_[static_cast<u32>(data) - metadata], &frame_[meta_], metadata);
  data_ = static_cast<u32>(data);
  meta_ = data_ - metadata;
  return 0;
}

int ProgramMemory::adjust_meta(std::int32_t by) {
  const std::int64_t meta = std::int64_t{meta_} + by;
  if (meta < kProgramFrameBytes || meta > data_) return -EINVAL;
  const u32 metadata = data_ - static_cast<u32>(meta);
  if (metadata % 4 != 0 || metadata > kMostProgramMetadata) return -EACCES;
  meta_ = static_cast<u32>(meta);
  return 0;
}

int ProgramMemory::adjust_tail(std::int32_t by) {
  const std::int64_t end = std::int64_t{end_} + by;
  if (end > static_cast<std::int64_t>(frame_.size()) || end < std::int64_t{data_} + kLeastProgramPacket)
    return -EINVAL;
  if (by > 0) std::fill_n(frame_.begin() + end_, by, u8{0});
  end_ = static_cast<u32>(end);
  kept_ = std::min(kept_, end_);
  return 0;
}

bool ProgramMemory::is_changed() const {
  return !lines_.empty() || data_ != kProgramHeadroomBytes || end_ != came() || kept_ != came();
}

xg_patch ProgramMemory::change() const {
  xg_patch patch{};
  patch.begin = static_cast<u16>(data_);
  patch.end = static_cast<u16>(end_);
  patch.kept = static_cast<u16>(kept_);
  patch.count = static_cast<u8>(std::min<std::size_t>(lines_.size(), XG_PATCH_LINES));
  for (u32 i = 0; i < patch.count; ++i) {
    patch.lines[i] = lines_[i];
    for (u32 byte = 0; byte < XG_PATCH_LINE_BYTES; ++byte) {
      const u32 at = lines_[i] * XG_PATCH_LINE_BYTES + byte;
      if (at >= data_ && at < end_) patch.bytes[i][byte] = frame_[at];
    }
  }
  return patch;
}

}  // namespace xdpgpu::gpu::reference
