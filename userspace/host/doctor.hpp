// SPDX-License-Identifier: MIT
//
// userspace/host/doctor.hpp: what stands between this host and a working attach. Gathering facts and
// judging them are apart, so that the judgement is a pure function with a table of tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "maps/packet.h"
#include "userspace/host/features.hpp"
#include "userspace/host/interface.hpp"

namespace xdpgpu::host {

struct HostFacts {
  bool root = false;
  bool cap_net_admin = false, cap_net_raw = false, cap_bpf = false;
  bool cap_ipc_lock = false;  // UMEM memory is not counted against RLIMIT_MEMLOCK
  u64 memlock_limit = 0;      // bytes, UINT64_MAX: unlimited
  KernelVersion kernel;
  bool bpffs = false;     // mounted at /sys/fs/bpf
  std::vector<int> cpus;  // cores this process may run on
  std::vector<Feature> features;
};
// features are probed only if asked: that takes some milliseconds and creates BPF objects.
HostFacts read_host(bool with_features);

enum class Severity { ok, note, warning, blocker };

// One check's answer: what was found, and, unless it is ok, the cure as a command or a sentence.
struct Finding {
  Severity severity = Severity::ok;
  std::string check;  // "privileges", "mtu", ...
  std::string cause;
  std::string cure;
  std::string sentence() const;  // "cause; cure"
};

enum class IoMode { automatic, zero_copy, copy, generic };

struct DoctorOptions {
  IoMode mode = IoMode::automatic;
  u32 queues = 0;              // asked for; 0: all
  u64 region_bytes = 1 << 24;  // frame memory to lock
  // Somebody else's XDP program that attach cannot join blocks. Not asked for by attach, which looks later.
  bool foreign_blocks = false;
  std::string netns;  // how the operator has named the interfaces' network namespace; empty: his own
};

// A command of the host's as it has to be typed for a network namespace that was named so (a name that "ip
// netns" lists, a process's number, or a path); empty: the operator's own.
std::string command_in(const std::string& netns, const std::string& command);

// Checks that concern the host alone.
std::vector<Finding> examine_host(const HostFacts& host, const DoctorOptions& options);
// Checks of one interface. attach refuses on the first blocker.
std::vector<Finding> examine_interface(const HostFacts& host, const InterfaceFacts& facts,
                                       const DoctorOptions& options);

// The first blocker's sentence.
std::optional<std::string> first_blocker(const std::vector<Finding>& findings);

// What a frame has beside the MTU: the Ethernet header and two VLAN tags.
inline constexpr u32 kFrameOverhead = 14 + 2 * 4;
// The largest MTU whose frames fit one chunk: 1,738 bytes.
inline constexpr u32 kMostMtu = XG_FRAME_MAX - kFrameOverhead;
// The largest MTU whose frames fit as many chunks as there can be: 28,138 bytes.
inline constexpr u32 kMostJumboMtu = XG_PACKET_MAX - kFrameOverhead;
// Buffers that a frame takes at most.
constexpr u32 packet_buffers(u32 mtu) { return (mtu + kFrameOverhead + XG_FRAME_MAX - 1) / XG_FRAME_MAX; }
// The first kernel where sockets that share a UMEM all receive frames of several buffers.
inline bool receives_buffers(const KernelVersion& kernel) { return kernel.at_least(6, 7); }

// Whether packets sent by this interface's local peers may carry checksums that nobody filled in.
bool partial_checksums(const InterfaceFacts& facts);
// The longest frame that a driver may fill in one chunk (zero-copy): 1,664 bytes. Kernels since 7.1, and
// stable ones of 2026, round the room of one down to 128 bytes, and refuse an MTU that does not fit.
inline constexpr u32 kMostZeroCopyFrame = XG_FRAME_MAX / 128 * 128;
// Whether a frame that its driver fills needs two chunks: for its MTU, or because the driver rounds the room
// down to whole KiB, which is what its NIC can be told (SRRCTL.BSIZEPKT), and takes what does not fit for
// another packet.
bool wants_two_chunks(const InterfaceFacts& facts);
// Whether the kernel itself can transmit XDP frames here, which may be of so many buffers: what caching TX
// and REDIRECT verdicts needs.
bool can_transmit_xdp(const InterfaceFacts& facts, bool generic, u32 buffers = 1);

}  // namespace xdpgpu::host
