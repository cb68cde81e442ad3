// SPDX-License-Identifier: MIT
//
// userspace/kernel/kernel.hpp: the kernel side of one attached interface ("port"), as handles: the XDP
// program and its maps, the policy's inner maps, the reinjection pair.
//
// The broker (privileged) makes PortProgram and Reinjection; the data plane (unprivileged) gets the map
// descriptors and works on MapViews. Everything made here is undone by the destructor unless it was
// pinned and released on purpose.
#pragma once

#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "maps/control.h"
#include "maps/egress.h"
#include "maps/flow.h"
#include "maps/metrics.h"
#include "maps/mirror.h"
#include "maps/packet.h"
#include "maps/tables.h"

namespace xdpgpu::kernel {

template <class T>
using Result = tl::expected<T, std::string>;

// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd();
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept;

 private:
  int fd_ = -1;
};

enum class XdpMode { native, generic };

struct PortOptions {
  std::string ifname;
  u32 ifindex = 0;
  u32 port_index = 0;
  u32 queues = 1;
  u32 flow_entries_per_queue = 16384;  // power of two
  u32 max_prefix_limits = 65536;       // entries of the `limits` map
  u64 beat_timeout_ns = 90'000'000;
  u32 mirror_slots = 1024;  // records of each possible CPU's ring; power of two, at most 32768
  u32 mirror_bytes = 128;   // of a packet that are mirrored; at most XG_MIRROR_BYTES
  // Whether a frame may be of several buffers: what drivers want to know before they take the program on an
  // interface whose MTU needs that.
  bool multi_buffer = false;
  // Cached TX verdicts leave by a redirect to the port itself instead of XDP_TX. For veth: its XDP_TX
  // wakes the peer only if that has an XDP program (veth_xdp_flush), else the frames lie there until
  // something else does; its ndo_xdp_xmit wakes any peer with NAPI.
  bool tx_by_redirect = false;
  // The map of management's flows (maps/exempt.h) that this port shares with another one of its attach; that
  // one's descriptor, borrowed while the program is loaded. -1: a map of its own.
  int management_flows = -1;
  // Somebody else's program on the interface gives way, and comes back only if this one does not stay.
  bool replace = false;
};

// Descriptors of a port's maps, in the order of XG_PORT_MAPS below: what the broker passes to the data
// plane (SCM_RIGHTS keeps the order).
#define XG_PORT_MAPS(X) \
  X(config)             \
  X(policy)             \
  X(policy_lines)       \
  X(policy_rows)        \
  X(queue_state)        \
  X(order_slots)        \
  X(flow_verdicts)      \
  X(flow_stats)         \
  X(mirror_rings)       \
  X(mirror_state)       \
  X(egress_records)     \
  X(egress_heads)       \
  X(rewrites)           \
  X(limits)             \
  X(counters)           \
  X(rule_counters)      \
  X(rule_shed)          \
  X(management_flows)   \
  X(management_senders) \
  X(gateways)           \
  X(exempt_states)      \
  X(exempt_counters)    \
  X(worker_counters) X(xsks) X(tx_ports) X(queue_metrics) X(user_programs)
struct PortMaps {
#define XG_X(name) Fd name;
  XG_PORT_MAPS(XG_X)
#undef XG_X
  // The descriptors in XG_PORT_MAPS' order, -1 where there is none; they stay owned by this object.
  std::vector<int> descriptors() const;
  // Takes over descriptors in the same order. Exactly kPortMapCount of them; closes them all on error.
  static Result<PortMaps> adopt(std::span<const int> descriptors);
  // A second set of descriptors of the same maps, all of which are there.
  Result<PortMaps> duplicate() const;
};
// The maps' names, in the same order: also the names of their pins.
#define XG_X(name) #name,
inline constexpr const char* kPortMapNames[] = {XG_PORT_MAPS(XG_X)};
#undef XG_X
inline constexpr std::size_t kPortMapCount = std::size(kPortMapNames);

struct Remains;  // userspace/kernel/remains.hpp

// The XDP program of one interface, loaded with its own maps. Attached by a link of its own or, where
// libxdp's dispatcher runs others already, through that.
class PortProgram {
 public:
  // Loads and verifies; touches no interface. The map `config` says XG_STATE_STARTING.
  static Result<std::unique_ptr<PortProgram>> load(const PortOptions& options);
  // Likewise, over the maps that a dead attach left, as they are, to take its program's place. Until it is
  // attached they stay when this object goes.
  static Result<std::unique_ptr<PortProgram>> load_over(const PortOptions& options, Remains remains);
  ~PortProgram();  // detaches and unpins

  const PortOptions& options() const noexcept;
  // Duplicates of the maps' descriptors.
  Result<PortMaps> maps() const;
  int program_fd() const noexcept;

  // Pins all maps, and later the link, in the interface's folder (names.hpp; mode 0700). A stale directory of
  // a dead attach is removed first.
  Result<void> pin();
  void unpin() noexcept;
  // The interface has another name: the pins stand under that from now on.
  Result<void> rename(const std::string& ifname);

  // Attaches; `native_required` / `generic_required` are strict, else native is tried first. A foreign
  // program on the interface is refused by name. Over a dead attach's maps: takes its program's place, in one
  // step and in its mode.
  Result<XdpMode> attach(std::optional<XdpMode> required);
  void detach() noexcept;
  // The link's that has it on the interface, borrowed; -1: it is on through a dispatcher, or not on.
  int link_fd() const noexcept;
  // The program that gave way, in words; empty: none. stay() lets it go for good; else it is put back when
  // this object goes.
  const std::string& replaced() const noexcept;
  void stay() noexcept;
  // Leaves program, link and pins where they are, for a later attach to go on with. Not where it is attached
  // through a dispatcher: then it goes with this object. Nor before it is attached: then nothing is there
  // that this object put there. can_stay() makes pins that somebody has removed again.
  bool can_stay() const noexcept;
  void leave() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit PortProgram(std::unique_ptr<Impl> impl);
};

// The two inner maps of one policy slot. Made by the broker with these sizes, filled through mmap by
// the data plane, installed by the broker into policy_lines[slot] and policy_rows[slot].
struct PolicyMaps {
  Fd lines, rows;
};
Result<PolicyMaps> create_policy_maps(u32 lines, u32 rows);
// Entries that the map of so many lines has.
constexpr u32 chunks_of(u32 lines) { return (lines + XG_CHUNK_LINES - 1) / XG_CHUNK_LINES; }
// Copies compiled tables into fresh maps through mmap (no system call a line, no privilege). The maps
// hold at least that many entries; what is behind stays zero.
Result<void> fill_policy_maps(const PolicyMaps& maps, std::span<const xg_line> lines,
                              std::span<const xg_class_row> rows);
// In all ports' slots, which no packet goes by yet. Takes one RCU grace period (some 15 ms), however many
// ports there are. On failure some may have them.
Result<void> install_policy_maps(const std::vector<const PortMaps*>& ports, u32 slot, const PolicyMaps& maps);
// Makes the interfaces known to a port's program as the targets of its REDIRECTs, by port index.
Result<void> enter_targets(const PortMaps& maps, const std::vector<u32>& ifindexes);

// An mmap of a mmapable array map, as a span of its values (value size rounded up to 8 as in the
// kernel). Unmapped by the destructor.
// read_only: for good, mprotect cannot change it, whatever the descriptor allows.
enum class Mapping { writable, read_only };
// Checks type, sizes and flags.
Result<void*> map_array(int fd, u32 entries, u32 value_size, Mapping mapping = Mapping::writable);
void unmap_array(void* data, u64 bytes) noexcept;
Result<u32> map_entries(int fd);  // how many the map has room for

template <class T>
class MapView {
  static_assert(sizeof(T) % 8 == 0, "values of a mmapable array are padded to 8 bytes");

 public:
  MapView() = default;
  // The first `entries` values of the map; the error says which map does not fit. A store into one that was
  // mapped read-only ends the process.
  static Result<MapView> open(int fd, u32 entries, Mapping mapping = Mapping::writable) {
    auto data = map_array(fd, entries, sizeof(T), mapping);
    if (!data) return tl::unexpected(data.error());
    MapView view;
    view.data_ = static_cast<T*>(*data);
    view.entries_ = entries;
    view.bytes_ = u64{entries} * sizeof(T);
    return view;
  }
  MapView(MapView&& other) noexcept { swap(other); }
  MapView& operator=(MapView&& other) noexcept {
    swap(other);
    return *this;
  }
  MapView(const MapView&) = delete;
  MapView& operator=(const MapView&) = delete;
  ~MapView() { unmap_array(data_, bytes_); }
  T* data() const noexcept { return data_; }
  u32 size() const noexcept { return entries_; }
  T& operator[](u32 i) const noexcept { return data_[i]; }
  u64 bytes() const noexcept { return bytes_; }

 private:
  void swap(MapView& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(entries_, other.entries_);
    std::swap(bytes_, other.bytes_);
  }
  T* data_ = nullptr;
  u32 entries_ = 0;
  u64 bytes_ = 0;
};

// PASS by reinjection: a veth pair in the interface's namespace; the worker sends on worker_ifname(),
// the far end's tc program hands marked frames to the interface's ingress.
class Reinjection {
 public:
  static Result<std::unique_ptr<Reinjection>> create(const std::string& ifname, u32 ifindex, u32 queues,
                                                     XdpMode mode);
  ~Reinjection();
  const std::string& worker_ifname() const noexcept;
  u32 worker_ifindex() const noexcept;
  // Somebody deleted the pair, or moved it away: this object is good for nothing any more.
  bool gone() const noexcept;
  // Puts back what others have undone of it (set down, tc program taken off); what that was, in words, empty:
  // nothing. An error where it cannot.
  Result<std::string> mend();
  // The interface has this MAC address now; in generic mode the stack would take what comes by the pair for
  // somebody else's without knowing.
  Result<void> follow_mac(const std::array<u8, 6>& mac) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit Reinjection(std::unique_ptr<Impl> impl);
};

}  // namespace xdpgpu::kernel
