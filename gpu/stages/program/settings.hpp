// SPDX-License-Identifier: MIT
//
// gpu/stages/program/settings.hpp: what `program` can be told, and what it does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/program_source.hpp"
#include "gpu/programs.hpp"
#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `program`: an XDP program, run on each packet. What it answers is what gpu/reference/program.hpp defines.
//
//   XDP_PASS      the packet goes on to the next stage
//   XDP_DROP      it is dropped
//   XDP_TX        it is sent out of the interface that it came in by
//   XDP_REDIRECT  it is sent out of the interface that bpf_redirect or bpf_redirect_map said
//   all others    it is dropped, each for its reason (below)
//
// A program that is the last stage of its pipeline may change its packet: write to it, move its head and its
// tail as far as the kernel would let it. The packet is then passed on or sent as the program left it
// (xg_patch), without the metadata that the program may have put in front. It writes to XG_PATCH_LINES at
// most of the lines of XG_PATCH_LINE_BYTES that are counted from XG_PATCH_BEFORE bytes in front of the
// packet's first byte as it came: one that writes to another line ends there. So does one that grows a packet
// at its tail beyond what a frame has room for, XG_FRAME_MAX bytes from that first byte on. A program that
// other stages follow ends where it writes to its packet, and may not call what moves head or tail: those
// stages would decide by what is not there any more.
//
// Interfaces have the numbers that `interfaces` gives them, for whatever the program calls an ifindex: what
// it gives to bpf_redirect, a devmap's values, and ingress_ifindex, which is the first number of the
// interface that the packet came in by, 0: it has none. A redirect to a number that is nobody's, or to
// several interfaces at once, ends the program.
//
// What a program puts out (perf_event_output, ringbuf_output, ringbuf_submit) is its packet's xg_event,
// whatever becomes of the packet. One program of a pipeline may put something out, and no stage behind it has
// a table.
//
// bpf_fib_lookup goes by the routes of the first stage `forward` of the same pipeline, or else of the first
// pipeline of the policy that has one, wherever that stands. It answers as the kernel's helper would if those
// were its routes and their next hops its neighbours:
//
//   ifindex       is a number of `interfaces`, as it is asked with and as it is answered: any other is
//   -ENODEV.
//                 A next hop without `to` is behind the interface that is asked for
//   NOT_FWDED     no route, one to the host (`pass`), or one to an interface that has no number; of IPv6 also
//                 from or to an address that is link-local, multicast or loopback
//   BLACKHOLE     a route to nowhere (`drop`)
//   FRAG_NEEDED   tot_len is more than the next hop's `mtu`, which then is mtu_result, as it is of a success
//   NO_NEIGH      the next hop has no `src_mac`: what is to be the frame's source is not known
//   addresses     stay, as next hops here have none; rt_metric is 0
//   flags         BPF_FIB_LOOKUP_DIRECT makes no difference; BPF_FIB_LOOKUP_SKIP_NEIGH leaves the MAC
//                 addresses; any other is -EINVAL, as in a kernel that does not have it
//
// All else that `forward` looks at (TTL, options, checksums, to whom the frame is addressed) is the program's
// to look at. The parameters stand on the stack, at a multiple of four bytes: elsewhere they end the program.
//
// The packet that the program sees is the frame as it was received, its outermost headers first, without
// metadata. rx_queue_index, egress_ifindex and get_smp_processor_id are 0: packets of all
// queues and interfaces are one sequence, and a per-CPU map has one value. ktime_get_ns is the packet's
// receive time. get_prandom_u32 is the lower half of SipHash-1-3, by CompileOptions::hash_key, of 16 bytes of
// its metadata: receive time, eight, sequence and flow hash, four each, little endian.
//
// A program that writes to none of its maps has packets side by side, and no table. Any other has a table,
// its maps. One that only counts there (gpu/program_counts.hpp) has its packets side by side, too; whatever
// the order, its answers and its maps' end are the same. All others take one packet after the other, in the
// order of their batches. Policies that have the same maps with the same first contents in the same place go
// on with what is in them.
//
// Told to run in the kernel, it is the only stage of its pipeline, and the host has XDP itself run it: what
// it answers is then the kernel's to do, as there is none of the above. Devices run it as they do any other,
// for whoever decides without the kernel.
//
// Verdict's rule, of what drops: 1, the program says so; 2 + a ProgramEnd for all others. Else 0: of XDP_TX
// and XDP_REDIRECT, and of XDP_PASS where the packet is changed.
enum class ProgramEnd : u32 {
  aborted,              // XDP_ABORTED
  unknown_action,       // R0 is no XDP action
  redirect,             // XDP_REDIRECT to nowhere, to a number that no interface has, or to several
  out_of_bounds,        // ProgramFault's
  read_only,            //
  unknown_instruction,  //
  wrong_map,            //
  outside,              //
  too_many_steps,       // more than `steps`
  too_many_calls,       //
  writes_packet,        // a store into the packet, where other stages follow
  too_much_written,     // to more lines than a patch has
  too_large,            // longer than a frame has room for
  too_long,             // never begun: the packet is of several buffers
};

// An interface, as the program calls it.
struct ProgramInterface {
  u32 ifindex = 0;
  std::string interface {};  // its name
  bool is_port = true;       // it is attached, with the index:
  u32 port = 0;
  bool operator==(const ProgramInterface&) const = default;
};
inline constexpr u32 kMostIfindex = 0x7fffffff;
inline constexpr u32 kMostProgramTails = 1024, kMostTailIndex = 65'535;

struct ProgramSettings {
  enum class Where : u8 { device, kernel };

  std::string object;   // the object's file, relative to the policy
  std::string section;  // which of its programs; empty: the only one
  std::vector<ProgramMapFile> maps;
  std::vector<ProgramInterface> interfaces{};  // XG_MAX_PORTS at most, no number twice
  Where where = Where::device;
  u32 steps = 16'384;  // instructions a packet, at most, and 8 bytes that a helper reads as one more

  // Of these files, read by whoever reads the policy. nullptr: not read; such a stage cannot be compiled.
  std::shared_ptr<const programs::Program> program{};
  std::shared_ptr<const std::vector<ProgramMapContents>> contents{};  // nullptr: none

  bool operator==(const ProgramSettings& other) const {
    const auto same = [](const auto& one, const auto& two) {
      return one == two || (one && two && *one == *two);
    };
    return object == other.object && section == other.section && maps == other.maps &&
           interfaces == other.interfaces && where == other.where && steps == other.steps &&
           same(program, other.program) && same(contents, other.contents);
  }
};
inline constexpr Named<ProgramSettings::Where> kWhereNames[] = {{ProgramSettings::Where::device, "device"},
                                                                {ProgramSettings::Where::kernel, "kernel"}};
inline constexpr u32 kLeastPacketSteps = 64, kMostPacketSteps = 65'536;

inline constexpr Named<ProgramMapFile::Wins> kWinsNames[] = {{ProgramMapFile::Wins::device, "device"},
                                                             {ProgramMapFile::Wins::kernel, "kernel"}};
template <class Table>
void fields_of(Table& table, SettingsLike<ProgramMapFile> auto& map) {
  table.file("file", map.file, "File of what the map has at first, relative to the policy.",
             Say{.shown = !map.file.empty()});
  table.array("programs", map.programs, 0, kMostProgramTails, "a program",
              "What an array of programs has, which the program goes on with by bpf_tail_call: programs of "
              "the same object, in the place of those that the object says.",
              Say{.shown = !map.programs.empty()});
  table.word("wins", map.wins, kWinsNames,
             "Of a map that the program changes: whose entries stand where packets and, by the map's pin, "
             "somebody else have written to them. 'kernel': who writes by the pin.",
             Say{.shown = map.wins != ProgramMapFile::Wins::device});
  table.any_of({"file", "programs", "wins"},
               "says nothing of the map: give \"file\", \"wins\" or, of an array of programs, \"programs\"");
}

template <class Table>
void fields_of(Table& table, SettingsLike<ProgramTail> auto& one) {
  table.integer("index", one.index, 0, kMostTailIndex, "Its place in the array.", Say{.required = true});
  table.text("program", one.program, "The name of its function in the object.", Say{.required = true});
}

template <class Table>
void fields_of(Table& table, SettingsLike<ProgramInterface> auto& one) {
  table.port("interface", one.interface, one.is_port, one.port, "An attached interface.",
             Say{.required = true});
  table.integer("ifindex", one.ifindex, 1, kMostIfindex, "Its number in the program.", Say{.required = true});
}

template <class Table>
void fields_of(Table& table, SettingsLike<ProgramSettings> auto& s) {
  table.about(
      "An XDP program of the user's own, run on each packet that comes here: XDP_PASS lets it go on to the "
      "next stage, XDP_DROP drops it, XDP_TX sends it out of the interface that it came in by, XDP_REDIRECT "
      "out of the one that bpf_redirect or bpf_redirect_map says. A packet "
      "whose program is ended, or answers anything else, is dropped and counted by its reason. A pipeline's "
      "last program may change its packets, up to four lines of 64 bytes of each. bpf_fib_lookup looks up "
      "the routes of a stage forward: of the same pipeline, or else of the first one that has it. What one "
      "puts out for a packet (bpf_perf_event_output, bpf_ringbuf_output, bpf_ringbuf_submit) is in the log. "
      "One that changes its "
      "maps by more than counts takes one packet after the other.");
  table.file("object", s.object, "File of the compiled object (clang -target bpf), relative to the policy.",
             Say{.required = true});
  table.text("section", s.section,
             "Section of the program in the object, such as \"xdp\"; without it the object has one program.",
             Say{.shown = !s.section.empty()});
  table.by_name("maps", s.maps, 0, 64, "the first contents of a map",
                "What maps of the program have at first, by their names in the object: a file each, as "
                "`bpftool map dump -j` prints a map, or with numbers and addresses in the place of bytes; in "
                "an array of maps, with their names or entries; and programs, in an array of programs.",
                Say{.shown = !s.maps.empty()});
  table.array(
      "interfaces", s.interfaces, 0, XG_MAX_PORTS, "an interface",
      "What interfaces are called in the program: the numbers that it redirects to, that its devmaps "
      "have, and that it finds in ingress_ifindex. They need not be the host's own numbers, but in the "
      "kernel they have to be.",
      Say{.shown = !s.interfaces.empty()});
  table.word("where", s.where, kWhereNames,
             "'kernel': XDP itself runs it, in place of a device: for the only stage of a pipeline. What it "
             "answers is what the kernel does with the packet, and its maps are the kernel's.",
             Say{});
  table.integer("steps", s.steps, kLeastPacketSteps, kMostPacketSteps,
                "How many instructions a packet may take; one that takes more is dropped.", Say{});
}

}  // namespace xdpgpu::gpu
