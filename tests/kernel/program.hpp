// SPDX-License-Identifier: MIT
//
// tests/kernel/program.hpp: the XDP program loaded for a test, its maps within reach, packets run
// through it by BPF_PROG_TEST_RUN.
//
//   Program program;
//   program.install(R"({"version": 1, "default": "drop"})");
//   Outcome o = program.run(ethernet() + ipv4({}, udp(1, 2)));
//   EXPECT_EQ(o.reason, "drop_default");
//
// A queue's socket is a real AF_XDP socket that is bound nowhere: the redirect is decided as in life, and
// BPF_PROG_TEST_RUN does not carry it out. What arrives in sockets is for the namespace tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "maps/control.h"
#include "maps/flow.h"
#include "maps/mirror.h"
#include "maps/packet.h"
#include "maps/tables.h"
#include "tests/kernel/frame.hpp"
#include "userspace/policy/policy.hpp"

struct xdpgpu_bpf;

namespace xdpgpu::test {

// Empty if the kernel program can be loaded and run here; else the one reason.
std::string why_unavailable();

// Fills fresh table maps and puts them into a slot of the two maps of maps, which then keep them. Throws.
void install_tables(int policy_lines, int policy_rows, u32 slot, const policy::Tables& tables);

struct Outcome {
  int action = -1;
  std::string reason;  // the one outcome counted, or what is wrong with the counts
  Frame frame;         // as the program left it
  std::optional<xg_metadata> metadata;
};

struct ProgramOptions {
  u32 queues = 1;
  u32 flow_entries_per_queue = 64;
  u32 limits = 1024;
  u32 mirror_slots = 8;
  u32 mirror_bytes = 128;
  bool multi_buffer = false;  // frames may be of several buffers, as those that are longer than a page are
};

// What a published verdict says beside its action.
struct VerdictDetails {
  u8 target = 0;
  u32 expires_ms = 0;
  u16 rewrite = XG_REWRITE_NONE;
  u8 idle_s = 0;
  u8 flags = 0;
};

class Program {
 public:
  explicit Program(const ProgramOptions& options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Parses, compiles, fills the idle slot and makes it the active one, state RUNNING. Throws where the
  // policy is refused. Returns what was parsed.
  policy::Policy install(std::string_view json);
  void install(const policy::Tables& tables);

  Outcome run(const Frame& frame, u32 queue = 0, u32 ingress_ifindex = 0);
  // The same without a look at the counters, which takes longer than the rest: no reason.
  Outcome run_uncounted(const Frame& frame, u32 queue = 0, u32 ingress_ifindex = 0);
  // ns a packet, the kernel's own measure over `repeat` runs. Nothing is checked.
  u32 nanoseconds(const Frame& frame, u32 repeat);

  // The maps, in place.
  xg_config& config();
  xg_policy& policy(u32 slot);
  xg_queue_state& queue(u32 index);
  xg_flow_verdict& verdict(u32 index);
  xg_flow_stats& stats(u32 index);
  xg_rewrite& rewrite(u32 index);
  u32 mirror_rings() const;
  // Of a CPU's ring: its state, and its n-th packet's record, counted from 0.
  xg_mirror_state& mirror_state(u32 cpu);
  xg_mirror_record& mirrored(u32 cpu, u64 n);

  u64 counter(xg_kernel_reason reason) const;
  xg_counter malformed(u32 kind) const;  // XG_MALFORMED_*
  xg_counter rule_counter(u32 index) const;
  xg_rule_shed rule_shed(u32 index) const;
  u32 order_slot(u32 index) const;
  void set_order_slot(u32 index, u32 value);
  void set_tx_port(u32 port, u32 ifindex);
  // Into the active slot; false where the kernel does not take it.
  bool put_program(u32 number, int fd);

  // Gives the queue a socket, a live worker and `credits`.
  void connect(u32 queue_index, u32 credits);
  // Renews a connected queue's credits and heartbeat.
  void renew(u32 queue_index, u32 credits);
  // A verdict for the packet's flow, written as the publication protocol says, in the shard of its queue's
  // worker or, with `mirror` (1 + the pipeline's number), of the queue's mirrors. Returns its index.
  u32 publish(const Frame& frame, u8 action, const VerdictDetails& details = {}, u32 queue_index = 0,
              u8 mirror = 0);

  u32 generation() const { return generation_; }
  int fd() const;

 private:
  struct Maps;
  std::unique_ptr<Maps> maps_;
  ProgramOptions options_;
  u32 generation_ = 0;
};

inline std::string policy_text(const std::string& body) {
  return R"({"version": 1)" + (body.empty() ? "" : ", " + body) + "}";
}

// Everything is inspected, by pipeline 0: control protocols, fragments, what is malformed and what is not IP
// included.
inline const std::string kInspectAll =
    policy_text(R"("default": "drop", "fragments": "inspect", "malformed": "inspect",
    "pipelines": {"all": [{"stage": "l2fwd"}]},
    "rules": [{"match": {"control": ["arp", "nd", "dhcp", "lacp", "lldp", "stp"]}, "action": {"inspect": "all"}},
              {"action": {"inspect": "all"}}])");

u64 monotonic_ns();

}  // namespace xdpgpu::test
