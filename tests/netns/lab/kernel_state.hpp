// SPDX-License-Identifier: MIT
//
// tests/netns/lab/kernel_state.hpp: what stands in the kernel: XDP programs, tc programs, qdiscs,
// links, pins. For "nothing left behind" and for counting program runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/netns/lab/link.hpp"

namespace xdpgpu::lab {

enum class XdpAttach { none, native, generic, hardware };
struct XdpState {
  XdpAttach mode = XdpAttach::none;
  std::uint32_t program_id = 0;
  std::string program_name;
};
XdpState xdp_state(const Interface& interface);
// The BPF link that has the interface's XDP program; 0: there is none.
std::uint32_t xdp_link_id(const Interface& interface);

// Programs on the interface's tc egress by links (tcx), where the kernel has those.
std::uint32_t tcx_egress_programs(const Interface& interface);

// A program that returns `action` (XDP_PASS 2, XDP_DROP 1) for every packet, named `name`, attached
// for this object's life.
class XdpProgram {
 public:
  XdpProgram(const Interface& interface, int action, bool generic = false,
             const std::string& name = "lab_xdp");
  ~XdpProgram();
  XdpProgram(const XdpProgram&) = delete;
  XdpProgram& operator=(const XdpProgram&) = delete;
  std::uint32_t id() const noexcept { return id_; }

 private:
  Interface interface_;
  Fd program_;
  unsigned flags_;
  std::uint32_t id_ = 0;
};

// While this lives the kernel counts the runs of BPF programs.
class BpfStatistics {
 public:
  BpfStatistics();

 private:
  Fd fd_;
};
// Runs of a program since it was loaded, as counted under BpfStatistics. Throws Error.
std::uint64_t program_runs(std::uint32_t program_id);

// Interfaces of the namespace other than loopback.
std::vector<std::string> link_names(const Namespace& ns);
// Qdiscs of the namespace other than the kernel's own defaults, as "ifname kind".
std::vector<std::string> qdiscs(const Namespace& ns);

// One pinned map.
struct PinInfo {
  std::string name;  // of the file
  std::uint32_t id = 0, type = 0, key_size = 0, value_size = 0, max_entries = 0;
  std::uint32_t btf_id = 0, btf_key_type_id = 0, btf_value_type_id = 0;
};
// The maps pinned in a bpffs directory; empty if it is not there.
std::vector<PinInfo> pinned_maps(const std::string& directory);

// Everything the kernel shows, as one text: links with XDP programs and qdiscs of `namespaces`, and what
// is pinned under `pin_root`, in the namespace's folder or in it itself, in directories that bear the links'
// names. Two equal snapshots: nothing
// changed.
std::string snapshot(const std::vector<const Namespace*>& namespaces, const std::string& pin_root);

}  // namespace xdpgpu::lab
