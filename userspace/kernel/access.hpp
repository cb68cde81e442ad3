// SPDX-License-Identifier: MIT
//
// userspace/kernel/access.hpp: who may write which map of a port. The data plane sees what strangers send, so
// what it holds is what they hold once they have taken it over. The broker keeps descriptors that can change
// every map, and changes what steers the XDP program itself, when it is asked to and if it makes sense
// (userspace/control/requests.hpp). The data plane has:
//
//   none   nothing of the map
//   look   a read-only descriptor (BPF_F_RDONLY): it can be looked up in, never changed, mapped or handed on
//   as
//          more than that
//   see    a mapping that can only be read, and no descriptor
//   write  a mapping that can be written, and no descriptor: every word of it is the data plane's to say
//
// So from the moment on that packets come it has no descriptor by which any of these maps can be changed. Of
// the maps of programs that devices run it has the kernel's copies to write, which no program in the kernel
// knows (userspace/control/map_twins.hpp); the system calls for that are all that change maps and are not
// refused to it (userspace/control/seccomp.cpp).
#pragma once

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

enum class Access { none, look, see, write };

// X(map, access, who writes it, and why the data plane has what it has). In XG_PORT_MAPS' order.
#define XG_MAP_ACCESS(X)                                                                                     \
  X(config, see, "the broker: state and policy in force, on request; workers read the flow hash's key")      \
  X(policy, none, "the broker: a slot's header comes with the request that installs its tables")             \
  X(policy_lines, none, "the broker: it installs tables that it made; the data plane fills them before")     \
  X(policy_rows, none, "as policy_lines")                                                                    \
  X(queue_state, write, "workers: credits and heartbeat, many times a second; it can starve its own queues") \
  X(order_slots, none, "the XDP program alone")                                                              \
  X(flow_verdicts, write, "workers and devices: flow verdicts are what it is there to say")                  \
  X(flow_stats, write, "workers: what a flow had had when its verdict was published")                        \
  X(mirror_rings, write,                                                                                     \
    "the XDP program; devices take a mapping they can write alone, and nobody else reads")                   \
  X(mirror_state, write, "the consumer: how far it has read")                                                \
  X(egress_records, see, "the egress program alone; workers read")                                           \
  X(egress_heads, see, "as egress_records")                                                                  \
  X(rewrites, write, "the data plane: what its verdicts do to a packet, which it could send itself as well") \
  X(limits, none, "the XDP program alone")                                                                   \
  X(counters, look, "the XDP program alone; reports read")                                                   \
  X(rule_counters, look, "the XDP program; the broker clears a slot's as it installs its tables")            \
  X(rule_shed, look, "as rule_counters")                                                                     \
  X(management_flows, none, "the XDP programs alone")                                                        \
  X(management_senders, none, "the XDP program alone")                                                       \
  X(gateways, none, "the broker: the host's neighbours")                                                     \
  X(exempt_states, none, "the XDP program alone")                                                            \
  X(exempt_counters, look, "the XDP program alone; reports read")                                            \
  X(worker_counters, write, "workers: what became of the packets")                                           \
  X(xsks, none, "the data plane before it has seen a packet: its sockets; closing them takes them out")      \
  X(tx_ports, none, "the broker: the interfaces of this attach, once")                                       \
  X(queue_metrics, write, "workers: levels and times, for reports alone")                                    \
  X(user_programs, none, "the broker: programs that it had the kernel verify, on request")

struct MapAccess {
  const char* map;
  Access access;
  const char* why;
};
inline constexpr MapAccess kMapAccess[] = {
#define XG_X(name, access, why) {#name, Access::access, why},
    XG_MAP_ACCESS(XG_X)
#undef XG_X
};
static_assert(std::size(kMapAccess) == kPortMapCount);

// What a data plane starts from: by the table above read-only descriptors, and for what is mapped and for its
// sockets ones that can be written, which it closes with close_writable() before a packet can reach it. Needs
// CAP_SYS_ADMIN.
Result<PortMaps> for_data_plane(const PortMaps& maps);
// All but those that can only be looked up in.
void close_writable(PortMaps& maps) noexcept;

}  // namespace xdpgpu::kernel
