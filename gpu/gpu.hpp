// SPDX-License-Identifier: MIT
//
// gpu/gpu.hpp: the compute interface. Its nouns:
//
//   Device    a processor that decides packets: the CPU, a CUDA GPU, a Vulkan device
//   Region    frame memory the device reads: registered in place, or staged
//   Pipelines one policy generation's compiled pipelines
//   Queue     a worker's own stream of batches to the device; batches finish in submission order
//   Slot      one batch: descriptors in, results and edits out, in memory that host and device share
//   Mirror    the device's look at mirrored packets: rings of the kernel's in, flow verdicts out
//
//   auto device = gpu::open_device("auto");
//   (*device)->register_frames(base, bytes, gpu::Frames::automatic);
//   (*device)->load(generation, pipelines);
//   auto queue = (*device)->open_queue({.batch_capacity = 1024, .depth = 4});
//   if (gpu::Slot* slot = (*queue)->acquire()) {
//     slot->descriptors[0] = {...};
//     (*queue)->submit(slot, 1, generation);
//   }
//   while (gpu::Slot* done = (*queue)->poll()) { use(done->results); (*queue)->release(done); }
//
// list_devices and open_device load the GPUs' drivers, which do not survive fork(): fork before. Queues are
// destroyed before their device, and the device before the frame region is unmapped.
//
// A process may have several devices, with the same frame region and the same flow verdict tables: host
// memory is registered with the CUDA driver once, by the device that came first, and is lent to the others.
// So they are destroyed in the opposite order.
//
// No exception crosses this interface. Nothing here knows AF_XDP or JSON. Control calls return
// Result<T>, whose error is one sentence for the operator; the batch calls return small enums.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "maps/flow.h"
#include "maps/mirror.h"
#include "maps/packet.h"

namespace xdpgpu::gpu {

template <class T>
using Result = tl::expected<T, std::string>;

enum class Kind { cpu, cuda, vulkan };

// How a device gets at the frames.
enum class Frames { automatic, in_place, staged };

struct DeviceInfo {
  std::string name;  // "cpu", "cuda:0", "vulkan:0": what --device takes
  Kind kind = Kind::cpu;
  std::string description;  // "NVIDIA H200", "llvmpipe (LLVM 15.0.6, 256 bits)"
  bool software = false;    // runs on the CPU: `auto` never picks a software Vulkan
  bool usable = false;
  std::string reason;                  // why it is not usable; empty if it is
  bool in_place = false;               // can read registered or imported host memory
  bool persistent = false;             // can be driven by a kernel or thread that stays
  bool persistent_takes_core = false;  // of the host, for each queue, while there is traffic
  bool graph = false;                  // batches can be posted ahead; this GPU may still refuse
  bool mirrors_tables = false;         // its Mirror takes packets through stages with tables, too
  u64 memory_bytes = 0;
  // Of a GPU that this build has PTX for and no machine code: its compute capability (90 for 9.0). Opened
  // without such code (DeviceCodes), its driver compiles the PTX, which takes its time. 0: of all others.
  u32 wants_code = 0;
};

// Every device this build and this host know, usable or not, in the order `auto` prefers them: CUDA,
// hardware Vulkan, CPU, software Vulkan. Kinds that were built without, or whose driver is absent,
// appear once as unusable with the reason.
std::vector<DeviceInfo> list_devices();
// Those of one kind: the other kinds' drivers are not loaded.
std::vector<DeviceInfo> list_devices(Kind kind);

// ---- Pipelines -------------------------------------------------------------------------------------
// Built by the control plane from a policy; the builder in gpu/pipelines.hpp compiles stage settings
// into one position-independent image of 32-bit words that every device reads.
class Pipelines;
struct DeviceCode;  // gpu/device_code.hpp
// Machine code, by the compute capability that it is for.
using DeviceCodes = std::map<u32, std::shared_ptr<const DeviceCode>>;

// ---- Batches ---------------------------------------------------------------------------------------
// Memory of a slot belongs to the queue and stays valid until the queue is destroyed. Between acquire
// and submit the worker writes descriptors; between poll and release it reads results. Each packet's
// metadata (maps/packet.h) stands in front of its first byte in the frame region, and names the
// pipeline; all packets of a batch are of one generation. results[i] answers descriptors[i]; a packet of
// several descriptors is answered at its first one, and the results of the others are all zero. So are its
// edit records, which are written where the result names them, and otherwise hold whatever they held. A
// descriptor is at most XG_CHUNK_SIZE bytes long; a packet ends in front of a later buffer that is longer, or
// that does not lie in the region from XG_METADATA_SIZE on (gpu/stages/payload.h). Whatever descriptors and
// metadata say, a device reads nothing outside the frame region; what it cannot judge is answered XG_ABORTED
// (gpu/pipelines.hpp).
struct Slot {
  xg_descriptor* descriptors = nullptr;
  xg_result* results = nullptr;
  xg_edit* edits = nullptr;      // as many: written where the packet's result has XG_RES_EDIT
  xg_adjust* adjusts = nullptr;  // likewise, XG_RES_ADJUST or XG_RES_TOO_LONG
  xg_alerts* alerts = nullptr;   // likewise, XG_RES_ALERTS
  xg_patch* patches = nullptr;   // likewise, XG_RES_PATCH, up to its last line
  xg_event* events = nullptr;    // likewise, XG_RES_EVENT, up to 16 bytes with its last one
  u32 capacity = 0;
  u32 count = 0;  // descriptors submitted
  u32 generation = 0;
  u32 index = 0;        // 0..depth-1
  bool failed = false;  // set at poll: the device failed under this batch, results are not valid
  // Set at poll: it was decided by a standby (gpu/standby.hpp), which publishes nothing.
  bool standby = false;
};

enum class Submit {
  ok,
  unknown_generation,  // nothing was submitted, the slot is still the caller's
  device_failed,       // the device is lost; the slot is still the caller's
};

// How a queue's batches reach the device.
//   launched    each by a call of the driver; on the CPU device submit() decides
//   persistent  through memory, by a kernel that stays on the device and polls for them: microseconds less.
//               On CUDA it ends when it has had nothing to do for 100 ms, or when the process is gone, and is
//               back at the next batch. On the CPU device it is a thread of the queue's own, which spins for
//               50 us after a batch and then sleeps until the next one. Vulkan has none: it promises no
//               progress within a submission.
//   graph       by letting run what was enqueued before: a wait for a number in memory, then a kernel that
//               finds out which batch it has, some batches ahead. submit() is a store; release() enqueues the
//               next ones. What stands enqueued is withdrawn after 100 ms without a batch. CUDA alone, where
//               the driver has stream memory operations.
//   automatic   as the load asks (gpu/way_chooser.hpp), on CUDA: while the device keeps up the way that is
//               back sooner, mostly persistent; launched where that decides more.
//               It changes while the device has no batch of the queue's in hand, which submit() waits for, at
//               most 20 ms.
//               A device without such a choice takes it for launched.
enum class Drive { launched, persistent, graph, automatic };

// What a queue of Drive::automatic does now, and why.
enum class Reason : u8 {
  no_choice,     // launched: no other way that takes no core of the host
  keeps_up,      // persistent: the device is not behind, and a batch is back sooner, as far as is known
  table,         // launched: batches of a pipeline with tables are so large that one block would be the limit
  decides_more,  // either: the device is behind, and was seen to decide more in this way than in the other
  answers_sooner,  // launched: the device is not behind, and batches were seen to be back sooner
};
struct alignas(8) Choice {  // one access, where it is atomic
  Drive drive = Drive::launched;
  Reason reason = Reason::no_choice;
  bool operator==(const Choice&) const = default;
};

// A worker's stream of batches. Of two threads: one feeds it (acquire, submit), one retires (poll, release);
// they may be one and the same. A slot goes from the one to the other by submit and back by release, with
// what is in it; one that submit refused is released by the thread that retires, once it has it by some
// ordered way of the caller's. in_flight is for either, and may be past when it returns: to the feeding
// thread it is never too low, to the retiring one never too high. No allocation, lock or virtual call a
// packet. Destroying it, when neither thread uses it any more, waits for batches in flight (bounded by the
// device's own time-out); it is destroyed before its device. Once the device has failed, poll hands out the
// batches in flight one after the other, each with `failed` set.
class Queue {
 public:
  virtual ~Queue() = default;
  // Feeding: the next free slot, or nullptr while all are in flight or held.
  virtual Slot* acquire() noexcept = 0;
  // Feeding: starts the slot's first `count` descriptors. count 1..capacity.
  virtual Submit submit(Slot* slot, u32 count, u32 generation) noexcept = 0;
  // Retiring: the oldest submitted batch, once finished; nullptr while it runs or when there is none. Never
  // blocks.
  virtual Slot* poll() noexcept = 0;
  // Retiring, or feeding a slot that was acquired and never submitted.
  virtual void release(Slot* slot) noexcept = 0;
  virtual u32 in_flight() const noexcept = 0;
  // Of a queue that was opened with Drive::automatic. From any thread.
  virtual Choice choice() const noexcept { return {}; }
};

struct QueueOptions {
  u32 batch_capacity = 1024;  // descriptors
  u32 depth = 4;              // batches in flight
  Drive drive = Drive::launched;
  u32 receive_queue = 0;  // whose packets come here: their shard of the ports' flow verdict tables
};

// ---- Flow verdicts ---------------------------------------------------------------------------------
// One port's flow verdict table (maps/flow.h), the kernel's own memory: all shards, page-aligned, valid
// until the device is destroyed. index of a port: its metadata's.
struct FlowTables {
  std::span<xg_flow_verdict> entries;
  std::span<xg_flow_stats> stats;  // as many
  u32 entries_per_queue = 0;
  bool caches_transmit = false;    // the kernel may do TX and REDIRECT out of this port
  bool repairs_checksums = false;  // but for packets of this port whose checksums want completing
};

// ---- Mirrored packets -------------------------------------------------------------------------------
// One port's part: its rings (maps/mirror.h) and its mirrors' shards of the flow verdict table, as the
// kernel's maps are mapped. Page-aligned memory, except for the shards, which begin inside of their maps. It
// outlives the device: a GPU keeps it registered.
struct MirrorPort {
  xg_mirror_record* records = nullptr;  // rings * slots
  xg_mirror_state* states = nullptr;    // rings
  u32 rings = 0;
  u32 slots = 0;                        // of each ring, power of two
  xg_flow_verdict* verdicts = nullptr;  // queues * entries: shard of queue 0 first
  xg_flow_stats* stats = nullptr;       // likewise
  u32 queues = 0;
  u32 entries = 0;  // of each shard, power of two
  bool operator==(const MirrorPort&) const = default;
};

struct MirrorOptions {
  std::vector<MirrorPort> ports;  // of the process
  bool operator==(const MirrorOptions&) const = default;
};

struct MirrorCounters {
  u64 taken = 0;      // records; each is counted once more below, or had a verdict that is not cached
  u64 published = 0;  // verdicts that were not there yet
  u64 evicted = 0;    // of them, those that took another flow's place
  u64 unknown_generation = 0;  // records of a policy that is gone: skipped
  u64 undecided = 0;           // the pipeline could not judge (XG_ABORTED), as when headers are cut off
};

// Takes mirrored packets from the rings of all ports, has the pipelines of their generation decide, and
// publishes what is to be cached: it is the one writer of the shards. Works by itself from open_mirror on,
// starting with the packets that come from then on, until it is destroyed, which takes at most 100 ms.
// Destroyed before its device. A generation may be unloaded once the rings have been consumed up to where
// their heads stood when the kernel had sent its last packet of it.
class Mirror {
 public:
  virtual ~Mirror() = default;
  // From any thread. Each count is right, if not of the same moment.
  virtual MirrorCounters counters() const noexcept = 0;
};

// ---- Changes ---------------------------------------------------------------------------------------
// Words that pipelines have for what the host changes while packets flow (gpu/name_changes.hpp), from `first`
// on, and what they are to be.
struct ChangedWords {
  u64 first = 0;
  std::vector<u32> words;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const noexcept = 0;

  // Makes [base, base + bytes) the frame region: 4096-aligned, bytes a multiple of 4096, and alive
  // until the device is destroyed. Frames::in_place fails where the device cannot; automatic falls
  // back to staged. CUDA takes managed memory, too. Once per device.
  virtual Result<void> register_frames(void* base, u64 bytes, Frames frames) = 0;
  // What register_frames settled on: in_place or staged.
  virtual Frames frames() const noexcept = 0;

  // Adds a generation's pipelines; queues may be running. Tables of stages that another loaded generation has
  // too, with the same settings in the same pipeline, are taken over with what is in them. Fails without
  // effect; also where the generation is loaded already, or 64 others are.
  //
  // A table sees the packets of a queue in their order, and those of several queues batch by batch.
  //
  // Pipelines may bring machine code for the device (Pipelines::code), which then decides their batches.
  // Where kernels stay on the device they have to go for code to be loaded: batches wait meanwhile, and none
  // is lost. Fails where the code is none for this device.
  virtual Result<void> load(u32 generation, std::shared_ptr<const Pipelines> pipelines) = 0;
  // The machine code that decides the batches of pipelines that bring none; nullptr: the device takes none.
  virtual std::shared_ptr<const DeviceCode> code() const { return nullptr; }
  // Copies words.size() words of a stage's table (Pipelines::states()), from word `first` on, as they are at
  // some moment; while batches are in flight not all of the same one. Fails where there is no such table or
  // the words are not in it.
  virtual Result<void> read_state(u32 generation, u32 table, u64 first, std::span<u32> words) = 0;
  // Changes a stage's table as the host wants it: calls `edit` once, with all words of the table, while no
  // packet is at it. Packets wait meanwhile, with the thread that brings them, and none is lost; what was
  // changed holds for every packet that comes to the table once this has returned. `edit` throws nothing,
  // calls nothing of the device's, and is soon back. What stands in the head (gpu/stages/table.h) is not its
  // to change.
  //
  // Beside all other calls, but for those that unload the generation; from no thread that waits for batches.
  // Fails without effect where there is no such table, and where the device does not let go of it.
  using Edit = std::function<void(std::span<u32> words)>;
  virtual Result<void> edit_state(u32 generation, u32 table, const Edit& edit) = 0;
  // Writes words of a generation's that are for the host to change (Pipelines::changes_words()), all of them
  // between two batches of the device's: a batch is decided by all of them or by none, and one that is
  // submitted once this has returned by all. Batches wait meanwhile, with the thread that brings them, and
  // none is lost. To write the same once more changes nothing.
  //
  // Beside all other calls, but for those that unload the generation; from no thread that waits for batches.
  // Fails without effect where the generation is not loaded or has no such words, and where the device does
  // not let go of them.
  virtual Result<void> change_words(u32 generation, std::span<const ChangedWords> changes) = 0;
  // Forgets a generation. The caller has seen to it that no batch of it is in flight or to come.
  virtual void unload(u32 generation) noexcept = 0;

  // Offers the device the ports' flow verdict tables. True: from now on the device alone writes the shards
  // of the receive queues that it opens a queue for; where a result has XG_RES_CACHE, XG_RES_PUBLISHED says
  // whether there was something to write. False: the caller is to publish what it is told to. Of several
  // devices each is offered the whole tables, and a receive queue is one device's. Once per device, before
  // its first queue.
  virtual Result<bool> publish_flows(const std::vector<FlowTables>& ports) = 0;

  // Fails where the device cannot be driven so.
  virtual Result<std::unique_ptr<Queue>> open_queue(const QueueOptions& options) = 0;

  // Starts to look at mirrored packets; queues may be running, and no frame region is needed. One at a
  // time. Fails where the device cannot.
  virtual Result<std::unique_ptr<Mirror>> open_mirror(const MirrorOptions& options) = 0;

  // Whether it cannot be used any more and nothing helps but to open it anew, as after an error that leaves a
  // driver's context broken: every call that it has failed since then may have failed for that alone.
  virtual bool lost() noexcept { return false; }

  // From any thread: what is wrong, where the device has failed and a standby decides; else empty. Then the
  // caller is to put its policy in force again under a new generation: a device that hangs may still publish
  // verdicts of the old one.
  virtual std::string degraded() const { return {}; }
  // Tries a device that has failed again, where that can be done, and if it is time. Called now and then, and
  // does not wait. What came of it, a sentence; empty: nothing new. Then degraded() says whether it is back.
  virtual std::string try_again() { return {}; }
};

// name: a DeviceInfo::name, a kind ("cuda", "vulkan": its first usable device), or "auto" (first
// usable device of list_devices that is not software Vulkan). Environment XDPGPU_DEVICE overrides
// "auto". codes: for what has no machine code in this build. The error names the devices there are.
Result<std::unique_ptr<Device>> open_device(std::string_view name, const DeviceCodes& codes = {});

}  // namespace xdpgpu::gpu
