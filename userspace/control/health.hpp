// SPDX-License-Identifier: MIT
//
// userspace/control/health.hpp: which backends of a policy's load balancers can be reached: a TCP connect to
// each of them, again and again, beside the packet path and without a thread of its own.
//
//   HealthChecks checks(context, [&](const std::string& news) { ... compile again with checks.down(policy)
//   ... }); checks.watch(policy);
//
// A backend counts as up until `fall` connects in a row have failed, and as down until `rise` in a row have
// succeeded. Backends with the same address and the same settings are checked once.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "userspace/compiler/pipelines.hpp"
#include "userspace/control/status_report.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::control {

class HealthChecks {
 public:
  // news: one sentence about a backend that went down or came up, called from the context's thread after
  // down() has changed. context: outlives this object, and is run by the thread that calls everything here.
  using Changed = std::function<void(const std::string& news)>;
  HealthChecks(boost::asio::io_context& context, Changed changed);
  ~HealthChecks();
  HealthChecks(const HealthChecks&) = delete;
  HealthChecks& operator=(const HealthChecks&) = delete;

  // Checks the backends of this policy from here on, and no others. Those checked before stay as they are.
  void watch(const policy::Policy& policy);
  // Those that are down, of all that are checked.
  compiler::DownBackends down() const;
  // By backend of the policy; those that are checked.
  std::vector<BackendReport> report(const policy::Policy& policy) const;

 private:
  class Check;
  boost::asio::io_context& context_;
  Changed changed_;
  std::map<compiler::HealthTarget, std::shared_ptr<Check>> checks_;
};

}  // namespace xdpgpu::control
