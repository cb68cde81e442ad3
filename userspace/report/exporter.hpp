// SPDX-License-Identifier: MIT
//
// userspace/report/exporter.hpp: `xdpgpu metrics --listen`: two processes. One may ask the control sockets,
// by which it could do more than that, and talks to nobody else; the other one talks to the network, and can
// do nothing but ask the first one for three texts: it is nobody, opens nothing and connects to nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "userspace/report/http_server.hpp"
#include "userspace/report/listeners.hpp"
#include "userspace/report/metrics.hpp"

namespace xdpgpu::report {

struct ExporterOptions {
  std::vector<Place> places;                   // one at least
  std::optional<control::ControlGroup> group;  // whose members may use Unix sockets
  WebConfig web;
  bool only_here = false;  // this network namespace's attaches alone
  Limits limits;
};

// Serves until SIGTERM or SIGINT; `ready` is called once it does, with the places as they came to be. The
// error is a sentence: it cannot listen, or the process that serves ended. Single-threaded processes only.
control::Result<void> run_exporter(const ExporterOptions& options,
                                   const std::function<void(const std::vector<std::string>&)>& ready);

// The text of one kind. What run_exporter's first half answers with.
std::string text_of(Asked asked, const std::vector<Attach>& attaches, const Limits& limits);

}  // namespace xdpgpu::report
