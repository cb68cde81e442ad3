// SPDX-License-Identifier: MIT
#include "userspace/host/doctor.hpp"

#include <fmt/format.h>

#include <limits>

#include "maps/control.h"
#include "maps/packet.h"

namespace xdpgpu::host {
namespace {

class Findings {
 public:
  void ok(std::string check, std::string cause) { add(Severity::ok, std::move(check), std::move(cause), ""); }
  void add(Severity severity, std::string check, std::string cause, std::string cure) {
    all_.push_back({severity, std::move(check), std::move(cause), std::move(cure)});
  }
  std::vector<Finding> take() { return std::move(all_); }

 private:
  std::vector<Finding> all_;
};

std::string there(const DoctorOptions& options, const std::string& command) {
  return command_in(options.netns, command);
}
// What one of xdpgpu's own commands is told.
std::string operand(const DoctorOptions& options, const std::string& ifname) {
  return options.netns.empty() ? ifname : fmt::format("{} --netns {}", ifname, options.netns);
}

void examine_privileges(const HostFacts& host, Findings& out) {
  if (!host.root)
    return out.add(Severity::blocker, "privileges", "this process is not root", "run it with sudo");
  if (!host.cap_bpf || !host.cap_net_admin || !host.cap_net_raw)
    return out.add(
        Severity::blocker, "privileges",
        fmt::format("root lacks {}{}{}in this container", host.cap_bpf ? "" : "CAP_BPF (or CAP_SYS_ADMIN) ",
                    host.cap_net_admin ? "" : "CAP_NET_ADMIN ", host.cap_net_raw ? "" : "CAP_NET_RAW "),
        "grant these capabilities to the container");
  out.ok("privileges", "root with CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW");
}

void examine_kernel(const HostFacts& host, Findings& out) {
  if (!host.kernel.at_least(6, 1))
    return out.add(Severity::blocker, "kernel",
                   fmt::format("kernel {} is older than 6.1", host.kernel.release),
                   "boot Linux 6.1 or later");
  out.ok("kernel", fmt::format("Linux {}", host.kernel.release));
}

void examine_bpffs(const HostFacts& host, Findings& out) {
  if (!host.bpffs)
    return out.add(Severity::blocker, "bpffs", "no BPF file system is mounted at /sys/fs/bpf",
                   "mount -t bpf bpf /sys/fs/bpf");
  out.ok("bpffs", "mounted at /sys/fs/bpf");
}

void examine_memlock(const HostFacts& host, const DoctorOptions& options, Findings& out) {
  if (host.cap_ipc_lock) return out.ok("locked memory", "CAP_IPC_LOCK: no limit");
  if (host.memlock_limit < options.region_bytes)
    return out.add(Severity::blocker, "locked memory",
                   fmt::format("only {} KiB may be locked and the frame region needs {} KiB",
                               host.memlock_limit >> 10, options.region_bytes >> 10),
                   "grant CAP_IPC_LOCK or raise the limit (ulimit -l unlimited)");
  out.ok("locked memory", "the limit is large enough");
}

void examine_features(const HostFacts& host, Findings& out) {
  for (const auto& feature : host.features)
    if (feature.required && feature.have == Have::no)
      out.add(Severity::blocker, feature.name,
              fmt::format("this kernel has no {} ({})", feature.name, feature.detail),
              "boot a kernel that has it");
}

void examine_kind(const InterfaceFacts& facts, const DoctorOptions& options, Findings& out) {
  auto block = [&](std::string cause, std::string cure) {
    out.add(Severity::blocker, "kind", std::move(cause), std::move(cure));
  };
  if (facts.loopback)
    return block(
        fmt::format("{} is the loopback interface, whose packets never come from outside", facts.name),
        "attach to a network interface");
  if (!facts.ethernet)
    return block(fmt::format("{} carries no Ethernet frames", facts.name), "attach to an Ethernet interface");
  for (const char* kind : {"bond", "bridge", "team"})
    if (facts.kind == kind)
      return block(fmt::format("{} is a {}, whose frames arrive on its ports", facts.name, kind),
                   fmt::format("attach to a plain interface; {} interfaces are not supported", kind));
  if (!facts.master.empty() && (facts.master_kind == "bond" || facts.master_kind == "bridge" ||
                                facts.master_kind == "team" || facts.master_kind == "openvswitch"))
    return block(fmt::format("{} is a port of the {} {}, which takes its frames before reinjection can "
                             "deliver them",
                             facts.name, facts.master_kind, facts.master),
                 fmt::format("take it out ({}) or attach to another interface",
                             there(options, fmt::format("ip link set {} nomaster", facts.name))));
  out.ok("kind", fmt::format("{}{}", facts.kind.empty() ? "hardware or virtual NIC" : facts.kind,
                             facts.driver.empty() ? "" : ", driver " + facts.driver));
}

void examine_state(const InterfaceFacts& facts, const DoctorOptions& options, Findings& out) {
  if (!facts.up)
    return out.add(Severity::warning, "state", fmt::format("{} is down", facts.name),
                   there(options, fmt::format("ip link set {} up", facts.name)));
  out.ok("state", facts.carrier ? "up, with carrier" : "up, no carrier");
}

// Frames that fit no single chunk.
void examine_jumbo(const HostFacts& host, const InterfaceFacts& facts, const DoctorOptions& options,
                   Findings& out) {
  const auto add = [&](Severity severity, const std::string& why, const std::string& cure) {
    out.add(
        severity, "mtu",
        fmt::format("{} has MTU {}, whose frames of more than {} bytes do not fit a {}-byte chunk, and {}",
                    facts.name, facts.mtu, XG_FRAME_MAX, XG_CHUNK_SIZE, why),
        cure);
  };
  const std::string lower = there(options, fmt::format("ip link set {} mtu 1500", facts.name));
  if (!receives_buffers(host.kernel))
    return add(
        Severity::blocker,
        fmt::format("several chunks a frame are for Linux 6.7 and later (this is {}): the MTU can be {} "
                    "at most",
                    host.kernel.release, kMostMtu),
        lower);
  if (facts.mtu > kMostJumboMtu)
    return add(Severity::blocker,
               fmt::format("a frame takes {} chunks at most: the MTU can be {} at most", XG_PACKET_BUFFERS,
                           kMostJumboMtu),
               there(options, fmt::format("ip link set {} mtu 9000", facts.name)));
  if (options.mode == IoMode::zero_copy)
    return add(Severity::blocker,
               fmt::format("several chunks a frame are for copy mode alone: with zero-copy the MTU can be {} "
                           "at most",
                           kMostMtu),
               fmt::format("use --mode copy or {}", lower));
  const bool driver_hands_them = !facts.xdp_features || (*facts.xdp_features & kXdpReceiveBuffers) != 0;
  if (!driver_hands_them && options.mode == IoMode::copy)
    return add(
        Severity::blocker,
        fmt::format("its driver ({}) hands native XDP no frames of several buffers: the MTU can be {} at "
                    "most",
                    facts.driver.empty() ? "unknown" : facts.driver, kMostMtu),
        fmt::format("use --mode generic or {}", lower));
  if (!driver_hands_them && options.mode == IoMode::automatic)
    return add(
        Severity::warning,
        fmt::format("its driver ({}) hands native XDP no frames of several buffers: auto falls back to "
                    "generic XDP, which is slower, unless the MTU is {} at most",
                    facts.driver.empty() ? "unknown" : facts.driver, kMostMtu),
        lower);
  out.ok("mtu",
         fmt::format("{}: frames of up to {} buffers, in copy mode", facts.mtu, packet_buffers(facts.mtu)));
}

void examine_mtu(const HostFacts& host, const InterfaceFacts& facts, const DoctorOptions& options,
                 Findings& out) {
  if (packet_buffers(facts.mtu) > 1) return examine_jumbo(host, facts, options, out);
  out.ok("mtu", fmt::format("{}, at most {} in one buffer", facts.mtu, kMostMtu));
}

void examine_queues(const HostFacts& host, const InterfaceFacts& facts, const DoctorOptions& options,
                    Findings& out) {
  if (options.queues > facts.rx_queues)
    return out.add(Severity::blocker, "queues",
                   fmt::format("{} has {} receive queue{}, not {}", facts.name, facts.rx_queues,
                               facts.rx_queues == 1 ? "" : "s", options.queues),
                   fmt::format("ask for at most {} (--queues)", facts.rx_queues));
  if (options.queues > 0 && options.queues < facts.rx_queues)
    return out.add(
        Severity::warning, "queues",
        fmt::format("{} has {} receive queues and {} get a worker; to packets of the others happens what "
                    "on_failure says",
                    facts.name, facts.rx_queues, options.queues),
        there(options, fmt::format("ethtool -L {} combined {}", facts.name, options.queues)));
  const u32 queues = options.queues > 0 ? options.queues : facts.rx_queues;
  if (queues > host.cpus.size())
    return out.add(Severity::note, "queues",
                   fmt::format("{} queues on {} cores: workers share cores", queues, host.cpus.size()),
                   there(options, fmt::format("ethtool -L {} combined {}", facts.name, host.cpus.size())));
  out.ok("queues", fmt::format("{} on {} cores", queues, host.cpus.size()));
}

void examine_xdp(const InterfaceFacts& facts, const DoctorOptions& options, Findings& out) {
  if (options.mode == IoMode::generic) return out.ok("xdp", "generic XDP, on any driver");
  const bool strict = options.mode != IoMode::automatic;
  if (!facts.xdp_features)
    return out.ok("xdp", "this kernel does not tell the driver's XDP modes (6.3 and later do); attach tries");
  if ((*facts.xdp_features & (kXdpBasic | kXdpRedirect)) != (kXdpBasic | kXdpRedirect))
    return out.add(strict ? Severity::blocker : Severity::warning, "xdp",
                   facts.kind == "veth" || facts.driver == "veth"
                       ? fmt::format("{} (veth) has no native XDP: its peer has more transmit queues than it "
                                     "has receive queues, or no peer",
                                     facts.name)
                       : fmt::format("the driver of {} ({}) has no native XDP with redirect", facts.name,
                                     facts.driver.empty() ? "unknown" : facts.driver),
                   strict ? "use --mode generic" : "auto falls back to generic XDP, which is slower");
  if (options.mode == IoMode::zero_copy && (*facts.xdp_features & kXdpZeroCopy) == 0)
    return out.add(Severity::blocker, "xdp",
                   fmt::format("the driver of {} ({}) has no AF_XDP zero-copy", facts.name, facts.driver),
                   "use --mode copy or --mode auto");
  out.ok("xdp", (*facts.xdp_features & kXdpZeroCopy) != 0 ? "native XDP and AF_XDP zero-copy"
                                                          : "native XDP, AF_XDP in copy mode");
}

// Where XDP is generic, or comes to be.
void examine_segments(const InterfaceFacts& facts, const DoctorOptions& options, Findings& out) {
  const bool native =
      !facts.xdp_features || (*facts.xdp_features & (kXdpBasic | kXdpRedirect)) == (kXdpBasic | kXdpRedirect);
  if (options.mode != IoMode::generic && (options.mode != IoMode::automatic || native)) return;
  if (!partial_checksums(facts)) return;  // of other drivers the kernel itself stops joining segments
  out.add(
      Severity::note, "segments",
      fmt::format("senders behind {} ({}) may leave their segments uncut, up to 64 KiB, which generic XDP is "
                  "shown whole; those that are to be inspected, limited, mirrored or sent out are cut here, "
                  "which takes time",
                  facts.name, facts.driver.empty() ? facts.kind : facts.driver),
      "let the sender cut them (ethtool -K PEER tso off gso off), or use native XDP, where it has to");
}

void examine_transmit(const InterfaceFacts& facts, const DoctorOptions& options, Findings& out) {
  if (can_transmit_xdp(facts, options.mode == IoMode::generic)) return;
  const bool veth = facts.driver == "veth";
  out.add(Severity::note, "transmit",
          veth ? fmt::format("the peer of {} has no NAPI, so the kernel cannot transmit by cached TX and "
                             "REDIRECT verdicts; the workers transmit",
                             facts.name)
               : fmt::format("the driver of {} cannot transmit XDP frames, so TX and REDIRECT verdicts are "
                             "not cached; the workers transmit",
                             facts.name),
          veth ? "switch GRO on at the peer (ethtool -K PEER gro on)" : "none needed");
}

void examine_offloads(const InterfaceFacts& facts, const DoctorOptions& options, Findings& out) {
  auto check = [&](const char* name, const char* option, const char* why) {
    const auto it = facts.offloads.find(name);
    if (it == facts.offloads.end() || !it->second.active) return;
    const auto cure = there(options, fmt::format("ethtool -K {} {} off", facts.name, option));
    if (!it->second.changeable)
      return out.add(Severity::warning, name,
                     fmt::format("offload {} of {} is fixed on, and {} unless the driver stops it", option,
                                 facts.name, why),
                     "use another interface if that matters here");
    out.add(Severity::note, name, fmt::format("offload {} of {} is on, and {}", option, facts.name, why),
            "attach switches it off and detach on again (" + cure + ")");
  };
  // A veth passes the tag beside the frame only to packets that XDP does not see first.
  if (facts.driver != "veth") check(kRxVlan, "rxvlan", "it hides VLAN tags from the XDP program");
  check(kLro, "lro", "it merges packets before the XDP program sees them");
  check(kHwGro, "rx-gro-hw", "it merges packets before the XDP program sees them");
}

// It goes with the process that holds its link; without a link anybody takes it off.
std::string how_to_take_off(const InterfaceFacts& facts, const DoctorOptions& options) {
  if (facts.xdp_link_holder != 0)
    return fmt::format("stop process {} ({}), which holds it", facts.xdp_link_holder,
                       facts.xdp_link_holder_name);
  return fmt::format("take it off ({})",
                     there(options, fmt::format("ip link set dev {} xdp off", facts.name)));
}

void examine_foreign(const InterfaceFacts& facts, const DoctorOptions& options, Findings& out) {
  if (facts.xdp_program_id == 0) return out.ok("xdp program", "none attached");
  if (facts.xdp_program_name.starts_with("xdpgpu"))
    return out.add(Severity::note, "xdp program",
                   fmt::format("{} is attached to {}", facts.xdp_program_name, facts.name),
                   fmt::format("xdpgpu status {}, or xdpgpu detach {}", operand(options, facts.name),
                               operand(options, facts.name)));
  const auto cause =
      fmt::format("another XDP program is attached to {}: {}", facts.name, facts.xdp_program_name);
  if (facts.xdp_program_name == "xdp_dispatcher")
    return out.add(Severity::note, "xdp program", cause + ", libxdp's",
                   "attach joins what it runs, where the kernel allows that");
  out.add(options.foreign_blocks ? Severity::blocker : Severity::note, "xdp program",
          cause + ", beside which attach puts no other",
          how_to_take_off(facts, options) + ", or attach with --replace, which takes it off for good");
}

}  // namespace

std::string command_in(const std::string& netns, const std::string& command) {
  if (netns.empty()) return command;
  if (netns.find_first_not_of("0123456789") == std::string::npos)
    return fmt::format("nsenter -t {} -n {}", netns, command);
  if (netns.find('/') != std::string::npos) return fmt::format("nsenter --net={} {}", netns, command);
  return fmt::format("ip netns exec {} {}", netns, command);
}

std::string Finding::sentence() const { return cure.empty() ? cause : cause + "; " + cure; }

std::vector<Finding> examine_host(const HostFacts& host, const DoctorOptions& options) {
  Findings out;
  examine_privileges(host, out);
  examine_kernel(host, out);
  examine_bpffs(host, out);
  examine_memlock(host, options, out);
  examine_features(host, out);
  return out.take();
}

std::vector<Finding> examine_interface(const HostFacts& host, const InterfaceFacts& facts,
                                       const DoctorOptions& options) {
  Findings out;
  examine_kind(facts, options, out);
  examine_state(facts, options, out);
  examine_mtu(host, facts, options, out);
  examine_queues(host, facts, options, out);
  examine_xdp(facts, options, out);
  examine_segments(facts, options, out);
  examine_transmit(facts, options, out);
  examine_offloads(facts, options, out);
  examine_foreign(facts, options, out);
  return out.take();
}

std::optional<std::string> first_blocker(const std::vector<Finding>& findings) {
  for (const auto& finding : findings)
    if (finding.severity == Severity::blocker) return finding.sentence();
  return std::nullopt;
}

bool partial_checksums(const InterfaceFacts& facts) {
  return facts.driver == "veth" || facts.kind == "veth" || facts.driver == "tun" || facts.kind == "tun" ||
         facts.driver == "virtio_net" || facts.kind == "macvlan" || facts.kind == "ipvlan";
}

bool wants_two_chunks(const InterfaceFacts& facts) {
  constexpr u32 kChecksum = 4;  // some NICs count it in
  if (facts.driver == "igb" || facts.driver == "igc" || facts.driver == "ixgbe") return true;
  if (facts.xdp_features && !(*facts.xdp_features & kXdpZeroCopy)) return false;
  return packet_buffers(facts.mtu) == 1 && facts.mtu + kFrameOverhead + kChecksum > kMostZeroCopyFrame;
}

bool can_transmit_xdp(const InterfaceFacts& facts, bool generic, u32 buffers) {
  if (generic) return true;
  const u64 needed = kXdpNdoXmit | (buffers > 1 ? kXdpTransmitBuffers : 0);
  if (facts.xdp_features) return (*facts.xdp_features & needed) == needed;
  // Before 6.3 nobody tells. A driver with native XDP transmits, but a veth only into a peer with NAPI.
  return facts.driver != "veth";
}

}  // namespace xdpgpu::host
