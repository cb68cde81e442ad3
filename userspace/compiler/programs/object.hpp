// SPDX-License-Identifier: MIT
//
// userspace/compiler/programs/object.hpp: the program of an ELF object as a value, read and relocated by
// libbpf without asking the kernel for anything: functions that it calls stand behind it, and maps are named
// by numbers.
//
// libbpf 1.1 does not survive every damaged object: one of a stranger's is read in a process of its own
// (userspace/control/program_reader.hpp).
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "userspace/compiler/programs/check.hpp"
#include "userspace/kernel/program_maps.hpp"

namespace xdpgpu::programs {

inline constexpr u64 kMostObjectBytes = u64{16} << 20;
inline constexpr u64 kMostTypeBytes = u64{1} << 20;
// Of a program's slots, of its notes, and of a note's bytes and an error's.
inline constexpr u64 kMostSlots = 1024, kMostNotes = kMostMaps, kMostSentenceBytes = 4096;

// What a map of programs or of maps has at first, as the object says.
struct Slot {
  u32 map = 0;  // its number in the program
  u32 slot = 0;
  std::string name;  // of the program or the map
  bool operator==(const Slot&) const = default;
};

// As Slot, by names.
struct NamedSlot {
  std::string map;
  u64 slot = 0;
  std::string to;
  bool operator==(const NamedSlot&) const = default;
};

// Which of an object's programs.
struct Choice {
  std::string name{};  // its function's, or its section's where that has one program; empty: the only one
  // What prog_arrays have: of the maps that are named here, in the place of what the object says of them.
  std::vector<NamedSlot> slots{};
};

struct ObjectProgram {
  Program program;                 // within its bounds; of the object's maps it has those that it names
  std::string section;             // where it stood in the object
  bool fragments = false;          // it takes packets of several buffers (a section xdp.frags)
  std::vector<Slot> slots;         // of its maps
  kernel::MapTypes types{};        // of its maps; none where the object's are of more than kMostTypeBytes
  std::vector<std::string> notes;  // what the object asks for and does not get, a printable sentence each
  bool operator==(const ObjectProgram&) const = default;
};

// The kernel's types (BTF), as /sys/kernel/btf/vmlinux has them; empty: they cannot be had.
using KernelTypes = std::function<std::vector<std::byte>()>;

// Whether all that is said of a program is within its bounds, and the program itself.
Result<void> check(const ObjectProgram& object);

// Reads an XDP program of the object. Whole objects are of at most kMostObjectBytes. kernel_types is asked
// where the program wants to be fitted to the kernel's structures. The error is a sentence; it may quote
// names of the object, and those that were asked for, as they are.
//
// Nothing is asked of the kernel. libbpf's log is taken over (userspace/kernel/logging.hpp).
Result<ObjectProgram> read_program(std::span<const std::byte> object, const Choice& which,
                                   const KernelTypes& kernel_types = {});

}  // namespace xdpgpu::programs
