// SPDX-License-Identifier: MIT
//
// bench/path/bed.hpp: the whole data path on interfaces of a laboratory namespace, in this process: XDP
// program, reinjection pair, engine and device, with one pipeline and rules that meet every IP packet. What
// the benches of the path and of mirroring and the walking test stand on; the daemon is not in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/netns/lab/link.hpp"
#include "userspace/dataplane/engine.hpp"

namespace xdpgpu::bed {

// What becomes of IP packets. The last two: the pipeline is shown them on the way, or is not.
enum class Rules { inspect, mirror_and_drop, drop };

struct Options {
  kernel::XdpMode mode = kernel::XdpMode::native;
  u32 queues = 1;
  u32 packet_buffers = 1;  // that a frame takes at most: more than one where an MTU is above 1,738
  std::vector<std::string> devices{"cpu"};  // queues are spread over them in turn
  dataplane::EngineOptions engine;
  bool repair_checksums = true;
  bool overload_drops = false;  // on_overload: drop, as a full ring of a bare loop does; else pass
  Rules rules = Rules::inspect;
  std::vector<gpu::StageSettings> stages;
  u32 flow_entries_per_queue = 16384;
};

// Sets what a bench calls a device: "cuda", or with the way it is driven behind it, "cuda/inline" or
// "cuda/persistent". Throws lab::Error.
void choose_device(const std::string& name, Options& options);
// Such names, one for each way in which the device can be driven. Throws lab::Error where there is no such
// device. The device may still refuse one when it is asked for it.
std::vector<std::string> ways_of(const std::string& device);

// Throws lab::Error. Everything is undone by the destructor.
class Bed {
 public:
  // All interfaces are of one namespace; port i is interfaces[i].
  Bed(const std::vector<const lab::Interface*>& interfaces, const Options& options);
  ~Bed();

  dataplane::Engine& engine() noexcept { return *engine_; }
  const kernel::PortMaps& maps(u32 port) const noexcept { return maps_[port]; }
  // Swaps in another pipeline under the next generation, while packets flow. Returns the generation.
  u32 swap(std::vector<gpu::StageSettings> stages);
  // Sum over the port's CPUs of one of the XDP program's counters.
  u64 kernel_count(u32 port, xg_kernel_reason reason) const;
  // Sum over the port's queues.
  xg_worker_counters worker_counts(u32 port) const;
  // Takes the path down as `detach` does; returns the frames at the end.
  dataplane::FrameCount down();

 private:
  void attach(const Options& options);
  void install_policy(u32 port, u32 slot, u32 generation);
  void set_state(u32 state);

  const lab::Namespace& ns_;
  std::vector<const lab::Interface*> interfaces_;
  std::vector<std::unique_ptr<kernel::PortProgram>> programs_;
  std::vector<std::unique_ptr<kernel::Reinjection>> reinjections_;
  std::vector<kernel::PortMaps> maps_;
  std::unique_ptr<dataplane::Engine> engine_;
  u32 generation_ = 1;
  bool overload_drops_;
  Rules rules_;
};

// The mode names of reports.
const char* name_of(dataplane::PortMode mode);

}  // namespace xdpgpu::bed
