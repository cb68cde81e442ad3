// SPDX-License-Identifier: MIT
#include "userspace/control/eve_stats.hpp"

#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::control {

Json eve_stats_of(const StatusReport& report) {
  Json stats{{"uptime", static_cast<u64>(report.uptime_s)}, {"packets", as_json(report.packets)}};
  Json& interfaces = stats["interfaces"] = Json::object();
  for (const PortReport& port : report.ports) {
    xg_worker_counters workers{};
    for (const QueueReport& queue : port.queues) dataplane::add(workers, queue.counters);
    interfaces[port.interface] = {{"state", port.state},
                                  {"kernel", as_json(port.kernel)},
                                  {"malformed", as_json(port.malformed)},
                                  {"rates", as_json(port.rates)},
                                  {"workers", as_json(workers)}};
  }
  if (report.service) stats["rules"] = as_json(report.service->rules);
  if (report.log) stats["log"] = as_json(*report.log);
  return stats;
}

}  // namespace xdpgpu::control
