// SPDX-License-Identifier: MIT
//
// gpu/reference/program.hpp: what an XDP program answers, by definition: one packet after the other, one
// instruction after the other (RFC 9669), plain enough to be read. The kernel's BPF_PROG_TEST_RUN is the
// judge of it (tests/kernel/programs). It shares no code with what devices run.
//
//   ProgramMaps maps(program.maps);
//   ProgramSet set(maps);
//   const u32 number = set.add(program);
//   ProgramAnswer answer = set.run(number, {.bytes = ..., .queue = 1});
//
// What differs from the kernel, for a program that shows or uses it:
//
//   * Pointers are numbers of 64 bits: what they point into in the upper 32, an offset there in the lower 32
//     (program_memory.hpp). A program that stores a pointer where somebody reads it shows another number.
//   * A load of the context's `data`, `data_meta` and `data_end` has 64 bits, as in the kernel's own
//   rewriting.
//   * Each load and store is checked. One that goes astray ends the program: XDP_ABORTED, and the reason.
//   * A stack's bytes are 0 before they are written; R1 to R5 are 0 after a call. No verified program that is
//     loaded without privileges can tell.
//   * Time, random numbers and the processor are the packet's: see ProgramPacket.
//   * A packet's instructions are bounded: kMostProgramSteps.
//   * perf_event_output and ringbuf_output put out to nobody's ring. The first that is right is the packet's
//   event, with XG_EVENT_BYTES at most: R0 is 0. What is longer, or comes behind it, is answered as the
//   kernel answers where a ring has no room: -E2BIG and -ENOSPC, of a ringbuf -EAGAIN. Each processor has its
//   event: an index of another one than the packet's is -EOPNOTSUPP.
//   * ringbuf_reserve likewise: a record is the packet's event from then on, unless it is discarded, and
//   another one finds no room; one that is longer is none. Its bytes are 0 at first, where the kernel's are
//   what stood there. One that is neither submitted nor discarded, of a program that is ended, is no event.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "gpu/programs.hpp"
#include "gpu/reference/program_maps.hpp"
#include "maps/packet.h"

namespace xdpgpu::gpu::reference {

// Why a program was ended. Its packet is answered XDP_ABORTED; what it did to maps stays.
enum class ProgramFault : u32 {
  none,
  out_of_bounds,          // a load, a store or a helper's buffer is not inside of what it points into
  read_only,              // a store into the context, or into a map that programs only read
  unknown_instruction,    // an opcode, an immediate or a register that RFC 9669 does not have
  unknown_helper,         // a call of a helper that we do not have
  wrong_map,              // a helper was given no map, or one of a type that it does not take
  outside_program,        // a jump or a call to where there is no instruction
  too_many_instructions,  // ProgramPacket::most_steps
  too_many_calls,         // kMostProgramFrames functions deep
  writes_packet,          // a store into the packet, of which ProgramPacket::most_lines allows none
  too_much_written,       // a store into one line of it more than that allows
};
std::string_view name_of(ProgramFault fault);

// Of one packet. The kernel's verifier looks at a million instructions; bounded loops and bpf_loop execute
// more than it looks at. An instruction is a step. Eight bytes that a helper reads or writes are one more.
inline constexpr u64 kMostProgramSteps = 1'048'576;
// As in the kernel (MAX_CALL_FRAMES, MAX_TAIL_CALL_CNT, BPF_MAX_LOOPS, MAX_BPF_STACK).
inline constexpr u32 kMostProgramFrames = 8;
inline constexpr u32 kMostProgramTailCalls = 33;
inline constexpr u64 kMostProgramLoops = 8 * 1024 * 1024;
inline constexpr u32 kProgramStackBytes = 512;
// In front of a packet, for its metadata and for heads that are pushed (XDP_PACKET_HEADROOM). Of these the
// kernel keeps 40 to itself (struct xdp_frame).
inline constexpr u32 kProgramHeadroomBytes = 256;
inline constexpr u32 kProgramFrameBytes = 40;
// From a packet's first byte to where its tail may grow: a page less the headroom and 320 bytes behind
// (struct skb_shared_info).
inline constexpr u32 kProgramPacketBytes = 4096 - kProgramHeadroomBytes - 320;
// Metadata is a multiple of four bytes, and this at most.
inline constexpr u32 kMostProgramMetadata = 252;
inline constexpr u32 kLeastProgramPacket = 14;  // ETH_HLEN
// A packet's lines, with its headroom's.
inline constexpr u32 kProgramLines =
    (kProgramHeadroomBytes + kProgramPacketBytes + XG_PATCH_LINE_BYTES - 1) / XG_PATCH_LINE_BYTES;

// What fib_lookup goes by: as if these were the kernel's routes, and their next hops its neighbours.
struct ProgramRoutes {
  struct NextHop {
    std::array<u8, 6> mac{};
    std::optional<std::array<u8, 6>> source{};  // of the interface; nothing: it is not known
    bool by_asked = false;                      // out of the interface that is asked for
    u32 ifindex = 0;                            // else of this one; 0: it has no number
    u32 mtu = 65535;
  };
  enum class Leads { to_next_hop, to_host, nowhere };
  struct Route {
    u8 family = 4;
    std::array<u8, 16> address{};
    u32 length = 0;
    Leads leads = Leads::to_next_hop;
    NextHop hop{};
  };
  std::vector<Route> routes;    // of equal prefixes the first one counts
  std::vector<u32> interfaces;  // the numbers that there are
};

struct ProgramPacket {
  std::vector<u8> bytes = {};     // kLeastProgramPacket to kProgramPacketBytes
  std::vector<u8> metadata = {};  // kMostProgramMetadata at most, right in front of them
  u32 ingress_ifindex = 0;
  u32 queue =
      0;  // the receive queue: rx_queue_index, get_smp_processor_id, and whose value a per-CPU map gives
  u32 egress_ifindex = 0;
  // ktime_get_ns: when the packet came, the same for all calls of its run.
  u64 time_ns = 0;
  // get_prandom_u32: a hash of the packet and a seed, the same for all calls of its run.
  u32 random = 0;
  u64 most_steps = kMostProgramSteps;
  const ProgramRoutes* routes = nullptr;  // nullptr: there is no fib_lookup
  // Into so many of the lines of XG_PATCH_LINE_BYTES that are counted from the headroom's first byte on its
  // program may write, metadata that moves along among it. 0: a store into it ends the program.
  u32 most_lines = kProgramLines;
};

// Where XDP_REDIRECT goes: what the last call of redirect or redirect_map that found something said. A call
// of redirect_map that finds nothing leaves of it the number, of the interface or of the entry, as an
// interface's: so does the kernel. What other packets' programs said before is nobody's: it goes nowhere.
struct ProgramRedirect {
  std::optional<u32> map;  // of redirect_map: the program's number of the map
  u32 key = 0;             // in that map
  u32 ifindex = 0;         // the interface; of a broadcast 0
  u32 flags = 0;           // BPF_F_BROADCAST, BPF_F_EXCLUDE_INGRESS
  bool operator==(const ProgramRedirect&) const = default;
};

struct ProgramAnswer {
  u32 action = 0;  // R0's lower half as the program left it, also where that is no XDP action
  ProgramFault fault = ProgramFault::none;
  u32 at = 0;                        // of a fault: the instruction
  std::vector<u8> packet, metadata;  // as the program left them
  // Whether it wrote to them or moved their ends; and what it did to the packet, of one that wrote to
  // XG_PATCH_LINES lines at most: in the order in which it first wrote to them, and of their bytes those that
  // are the packet's, all others 0.
  bool is_changed = false;
  xg_patch change{};
  std::optional<ProgramRedirect> redirect;  // where the action is XDP_REDIRECT
  // What the first call put out that was answered 0, also of one that was ended behind it.
  std::optional<xg_event> event;
  u64 steps = 0;
};

// Programs that share maps, and may call each other's tails. Not for several threads.
class ProgramSet {
 public:
  // The maps outlive it. They change as programs say.
  explicit ProgramSet(ProgramMaps& maps) : maps_(&maps) {}

  // Its number: what a prog_array has as its value (four bytes). The maps that it names are the set's.
  u32 add(std::vector<programs::Instruction> instructions);
  u32 add(const programs::Program& program) { return add(program.instructions); }

  // `program`: a number that add() gave. The packet is of sizes that ProgramPacket allows.
  ProgramAnswer run(u32 program, const ProgramPacket& packet);

 private:
  ProgramMaps* maps_;
  std::vector<std::vector<programs::Instruction>> programs_;
};

}  // namespace xdpgpu::gpu::reference
