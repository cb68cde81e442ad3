// SPDX-License-Identifier: MIT
//
// gpu/reference/program_memory.hpp: what a program's pointers point into, for one packet's run. A pointer's
// upper 32 bits name it:
//
//   0                      nothing: a number below 2^32
//   1                      the context, struct xdp_md
//   2                      the packet, with what is in front of it and behind it
//   3                      a function: the lower half is its first instruction
//   4                      the record that it has reserved of a ringbuf
//   16 + n                 the stack of the n-th function from the entry; its top is the offset 512
//   2^28 + n               a map
//   2^29 + n               a map's value
#pragma once

#include <array>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "gpu/reference/program.hpp"

namespace xdpgpu::gpu::reference {

class ProgramMemory {
 public:
  static constexpr u32 kContext = 1, kPacket = 2, kFunction = 3, kRecord = 4, kStack = 16, kMap = 1u << 28,
                       kValue = 1u << 29;

  static constexpr u64 pointer(u32 object, u32 offset) { return u64{object} << 32 | offset; }
  static constexpr u32 object_of(u64 pointer) { return static_cast<u32>(pointer >> 32); }
  static constexpr u32 offset_of(u64 pointer) { return static_cast<u32>(pointer); }

  // Both outlive it.
  ProgramMemory(const ProgramMaps& maps, const ProgramPacket& packet);

  // bytes: 1, 2, 4 or 8; a value's first byte is its lowest. What is not none is why it was not done.
  ProgramFault load(u64 address, u32 bytes, u64& value);
  ProgramFault store(u64 address, u32 bytes, u64 value);
  // The bytes themselves, for helpers and atomics; nothing of the context.
  ProgramFault bytes_at(u64 address, u64 bytes, bool writes, std::span<u8>& found);

  // A function begins, `functions` deep with the entry's: its stack's bytes are 0.
  void begin_stack(std::size_t functions) {
    stacks_[functions - 1].fill(0);
    keep_stacks(functions);
  }
  // So many have a stack: one that has been left has none.
  void keep_stacks(std::size_t functions) { functions_ = static_cast<u32>(functions); }

  // Null: this is no pointer to a map.
  ProgramMap* map_at(u64 pointer) const;
  u64 pointer_to(std::shared_ptr<ProgramValue> value);
  u64 pointer_to(std::shared_ptr<ProgramMap> map);
  // The program's number of the map, nothing for one that was found in another.
  static u32 number_of_map(u64 pointer) { return object_of(pointer) - kMap; }

  // A record of so many bytes, all 0, until it is left again. There is one at a time.
  void reserve(std::size_t bytes) { record_.emplace(bytes); }
  bool has_record() const { return record_.has_value(); }
  std::vector<u8> leave_record() { return *std::exchange(record_, std::nullopt); }

  // As the kernel's net/core/filter.c has it: 0 or -errno, which changes nothing.
  int adjust_head(std::int32_t by);
  int adjust_meta(std::int32_t by);
  int adjust_tail(std::int32_t by);
  // What adjust_head() could not do, as it writes.
  ProgramFault fault() const { return fault_; }

  std::vector<u8> packet() const { return part(data_, end_); }
  std::vector<u8> metadata() const { return part(meta_, data_); }
  bool is_changed() const;
  xg_patch change() const;

 private:
  u32 came() const { return kProgramHeadroomBytes + static_cast<u32>(input_->bytes.size()); }
  ProgramFault written(u32 from, u64 bytes);
  std::vector<u8> part(u32 from, u32 to) const { return {frame_.begin() + from, frame_.begin() + to}; }
  ProgramFault load_context(u32 offset, u32 bytes, u64& value) const;

  const ProgramPacket* input_;
  // A page's bytes without those that the kernel keeps behind a packet. Places in it.
  std::array<u8, kProgramHeadroomBytes + kProgramPacketBytes> frame_{};
  u32 meta_ = kProgramHeadroomBytes, data_ = kProgramHeadroomBytes, end_ = kProgramHeadroomBytes;
  std::vector<u8> lines_;  // that the program wrote to, in this order
  u32 kept_ = 0;           // what came behind this is gone
  ProgramFault fault_ = ProgramFault::none;
  std::array<std::array<u8, kProgramStackBytes>, kMostProgramFrames> stacks_{};
  u32 functions_ = 1;
  std::optional<std::vector<u8>> record_;
  const ProgramMaps* maps_;
  // What the program has found: one number each, however often it is found.
  std::vector<std::shared_ptr<ProgramValue>> values_;
  std::vector<std::shared_ptr<ProgramMap>> inner_maps_;
  std::unordered_map<const void*, u32> known_;
};

}  // namespace xdpgpu::gpu::reference
