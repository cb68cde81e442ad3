// SPDX-License-Identifier: MIT
//
// userspace/dataplane/engine.hpp: the data plane of one process: the frame region, the ports' AF_XDP
// sockets, the workers, and the hand-over between policy generations.
//
// Life: create (sockets open: needs CAP_NET_RAW, CAP_IPC_LOCK) → [drop privileges] → use_devices →
// load_policy → start → ... → drain → stop → conservation report. Calls come from one control thread; while
// it runs, load_policy and forget_policy may come from another one, which is gone before drain. Workers run
// on threads of their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/alarms.hpp"
#include "gpu/flow_events.hpp"
#include "gpu/gpu.hpp"
#include "gpu/pipelines.hpp"
#include "gpu/table_report.hpp"
#include "userspace/dataplane/busy_poll.hpp"
#include "userspace/dataplane/compute_mode.hpp"
#include "userspace/dataplane/frame_region.hpp"
#include "userspace/dataplane/mirroring.hpp"
#include "userspace/dataplane/result.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::dataplane {

enum class Overlapping : u8;
class EventLog;
class EventSelection;

enum class PortMode { zero_copy, copy, generic };  // generic: copy mode under generic XDP

struct PortSpec {
  std::string ifname;
  u32 ifindex = 0;
  u32 queues = 1;
  kernel::XdpMode xdp_mode = kernel::XdpMode::native;
  bool require_zero_copy = false;  // strict
  bool forbid_zero_copy = false;   // --mode copy
  bool two_chunks = false;         // a frame that the driver fills (zero-copy) has the room of two
  bool repair_checksums = false;   // veth and container peers: partial checksums are completed
  bool cache_transmit = true;      // TX and REDIRECT verdicts may be cached (the port can xmit XDP frames)
  // Buffers that a frame takes at most, 1 to XG_PACKET_BUFFERS. More than 1: the XDP program was loaded for
  // it (PortOptions.multi_buffer), and the port runs in copy mode.
  u32 packet_buffers = 1;
  u32 frames_per_queue = 0;     // frames of each queue; 0: as EngineOptions say
  int numa_node = -1;           // of the NIC; -1: on none
  BusyPoll busy_poll;           // of the port's own sockets
  std::string reinject_ifname;  // worker's end of the reinjection pair
  u32 reinject_ifindex = 0;
  kernel::PortMaps maps;
};

struct EngineOptions {
  u32 ring_size = 2048;         // each of RX and fill, and at least TX and completion; power of two
  u32 frames_per_queue = 8192;  // frames of each port's each queue; at least ring_size + batch
  bool huge_pages = false;
  u32 batch = 1024;          // most buffers, and so packets, a batch
  u64 max_wait_ns = 50'000;  // longest wait for a batch to fill
  // How long a worker looks on after the last packet. Falling asleep and being woken costs the sender's core
  // some microseconds a time, and the packet some tens; above this gap between packets that hardly matters.
  u64 spin_ns = 20'000;
  u32 batches_in_flight = 4;
  ComputeMode compute_mode = ComputeMode::inlined;
  bool pin_threads = true;
  FrameMemory memory{};  // where the frames stand
  u32 first_cpu = 0;     // worker 0's place in the list of usable cores, so that processes can differ
};

// Who owns the frames now; the sum is total, always (DESIGN 4.1).
struct FrameCount {
  u64 total = 0, free = 0, fill = 0, batch = 0, tx = 0;
  u64 waiting = 0;  // for the rest of their datagram
  bool conserved() const { return free + fill + batch + tx + waiting == total; }
};

struct QueueStatus {
  u32 port = 0, queue = 0;
  u32 device = 0;  // of EngineStatus::devices, once there are any
  PortMode mode = PortMode::copy;
  u32 chunks_per_frame = 1;                         // that the driver may fill (zero-copy)
  bool metadata = false;                            // the port delivers metadata (learnt from its packets)
  ComputeMode compute_mode = ComputeMode::inlined;  // never automatic
  std::string because;                              // where it is the choice of `auto`: why
  int cpu = -1;            // core the worker is pinned to; split: its thread that feeds
  int retire_cpu = -1;     // split: core of the worker's other thread
  int numa_node = -1;      // that the worker is kept on; -1: on none, or there is but one
  int frames_node = -1;    // where its first frame stands; -1: the kernel does not tell
  u32 frames = 0;          // that this queue brought to its worker
  bool busy_poll = false;  // the worker runs the driver itself
  xg_queue_state state{};
  xg_worker_counters counters{};
  xg_queue_metrics metrics{};
};

struct DeviceStatus {
  std::string name;
  gpu::Frames frames_mode = gpu::Frames::staged;
  // Of its queues, never automatic; where they choose for themselves, of the first one that has chosen
  // otherwise than at first, if there is one.
  ComputeMode compute_mode = ComputeMode::inlined;
  std::string because;     // QueueStatus's, of that queue
  bool publishes = false;  // it writes flow verdicts itself, else they are written at retirement
  std::string degraded;    // it has failed, and a standby decides: what happened; else empty
};

struct EngineStatus {
  std::vector<QueueStatus> queues;
  FrameCount frames;
  u32 generation = 0;
  std::vector<DeviceStatus> devices;
  bool automatic = false;              // the devices' modes were chosen, and batches close by load
  u64 batches = 0, batch_packets = 0;  // batches retired, packets in them
  std::optional<MirrorStatus> mirror;  // once a policy mirrors
};

// Descriptors of a TX and of a completion ring, a power of two: as many as a worker's batches in flight, in
// ComputeMode::automatic the largest ones, may want to send at once, where a queue's frames are that many;
// one port's sending never has them all.
u32 send_ring_size(const EngineOptions& options, u32 frames_per_queue);

// Descriptors of the largest batch in ComputeMode::automatic, on a device that gains by it and reads frames
// in place: 16 times options.batch, at most 16,384, as far as a worker's batches in flight, when all are so
// large, still fit into a send ring, and leave the frames of a fill ring. At least options.batch.
u32 largest_batch(const EngineOptions& options, u32 frames_per_queue);

// Whether a queue has enough of them; the error names the settings.
Result<void> check_frames(u32 frames_per_queue, u32 ring_size, u32 batch);

// By worker: the frames of the queues that it has, one worker's after another's, on no node yet. Of the specs
// maps and reinjection pair are not looked at.
std::vector<FrameShare> frame_shares(const std::vector<PortSpec>& ports, const EngineOptions& options);

class Engine {
 public:
  // A port's index is its place in `ports`, and what its XDP program was told (PortOptions.port_index).
  // Opens the sockets in the network namespace of the calling thread and puts them into the ports' maps
  // (xsks, and tx_ports for REDIRECT). Nothing stays if it fails.
  static Result<std::unique_ptr<Engine>> create(std::vector<PortSpec> ports, const EngineOptions& options);
  ~Engine();

  // Registers the frame region and the flow verdict tables with each device and opens the workers' queues:
  // worker i's on device i modulo their number. The first one looks at what is mirrored. Once; on failure
  // nothing of the devices stays.
  Result<void> use_devices(std::vector<std::unique_ptr<gpu::Device>> devices, gpu::Frames frames);

  // Which pipeline a frame goes to, and whether its verdict may be cached (XG_PKT_UNCACHED), for ports that
  // deliver no metadata: the XDP program knew, but cannot tell. Called on worker threads, concurrently;
  // the metadata has everything else. readable: bytes of the frame's first buffer; length: of all.
  using PipelineChooser =
      std::function<void(const u8* frame, u32 readable, u32 length, xg_metadata* metadata)>;

  // Makes a generation's pipelines known to each device, or to none; packets of it may arrive from now on.
  // Without a chooser, ports without metadata send everything to pipeline 0. mirrors: some rule of it
  // mirrors; then the first device looks at mirrored packets from now on, until stop(). mirrors_to_tables:
  // and to pipelines whose stages remember packets. default_passes: the policy's default, for a fragment of
  // which no first one is known. reassembles: CurrentPolicy's. Fails where it cannot.
  Result<void> load_policy(u32 generation, const std::shared_ptr<const gpu::Pipelines>& pipelines,
                           PipelineChooser chooser = {}, bool mirrors = false, bool mirrors_to_tables = false,
                           bool default_passes = false, std::optional<Overlapping> reassembles = {});
  // From now on packets without metadata count as of this generation, which is loaded.
  void make_current(u32 generation);
  // Takes back a load_policy that was not made current, and of which no packet came.
  void forget_policy(u32 generation);
  // Tells the engine that XDP sends only `generation` since now (after the swap's RCU grace period).
  // Older generations are unloaded, by poll(), once their packets have left.
  void retire_generations_before(u32 generation);
  // Of the generations that devices know, of which packets may be under way, the oldest; 0: there is none.
  u32 oldest_generation() const;
  // What workers are to tell of their packets, and where they do, by worker: from create() on, for one
  // reader.
  EventSelection& event_selection() noexcept;
  std::vector<EventLog*> event_logs();
  // The control thread's housekeeping, to be called every 100 ms or so: unloads retired generations and
  // returns what happened since the last call, a sentence each (device failed, a worker stopped). While a
  // policy is being loaded, what concerns devices waits for the next call.
  std::vector<std::string> poll();
  // Whether a device has failed since the last call, and a standby taken over (gpu::Device::degraded): then
  // the policy in force is to be put in force again, under a new generation.
  bool wants_policy_again() noexcept;

  Result<void> start();
  // Has the XDP program send no more packets here, where nobody can tell it so: no worker lives, it finds
  // within a heartbeat. For good.
  void fall_silent() noexcept;
  // No new packets come (XDP no longer redirects): waits for batches and TX completions, at most
  // `timeout_ms`.
  Result<void> drain(u32 timeout_ms);
  // Ends the workers and takes back every frame from the kernel (sockets are closed). Returns the
  // final frame count, all of it free.
  FrameCount stop();

  EngineStatus status() const;
  // How the tables of the current generation's stages stand; none before make_current(). Reads some of the
  // device's memory: for whoever asks, not for every second.
  Result<std::vector<gpu::TableReport>> tables() const;
  // Of a generation's tables what gpu::Device has of the same name, on the device that has them: from any
  // thread that is gone before drain. Fails where the generation is not loaded, too.
  // And where the tables are not those of that life any more.
  struct TablesLife {
    u64 number = 0;
    std::string failed{};  // DeviceStatus::degraded
    bool operator==(const TablesLife&) const = default;
  };
  Result<void> read_state(const TablesLife& life, u32 generation, u32 table, u64 first, std::span<u32> words);
  Result<void> edit_state(const TablesLife& life, u32 generation, u32 table, const gpu::Device::Edit& edit);
  // gpu::Device::change_words on each device, from such a thread, too. Where one of them fails, others may
  // have been changed.
  Result<void> change_words(u32 generation, std::span<const gpu::ChangedWords> changes);
  // Which device has the tables, so to speak: another one where a standby has taken over since, or the device
  // is back, and what tables had is lost. Any thread.
  TablesLife tables_life() const;
  // What stages of the policy in force have detected since `watch` looked last, and what they tell of flows.
  Result<std::vector<gpu::AlarmEvent>> alarms(gpu::AlarmWatch& watch) const;
  Result<std::vector<gpu::FlowEvent>> flow_events(gpu::FlowEventWatch& watch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit Engine(std::unique_ptr<Impl> impl);
};

}  // namespace xdpgpu::dataplane
