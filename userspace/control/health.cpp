// SPDX-License-Identifier: MIT
#include "userspace/control/health.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "userspace/policy/values.hpp"

namespace xdpgpu::control {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using Millis = std::chrono::milliseconds;

Tcp::endpoint endpoint_of(const compiler::HealthTarget& target) {
  const gpu::Prefix& from = target.address;
  if (from.family == 4) {
    asio::ip::address_v4::bytes_type bytes{};
    std::copy_n(from.address.begin(), bytes.size(), bytes.begin());
    return {asio::ip::address_v4(bytes), target.health.port};
  }
  asio::ip::address_v6::bytes_type bytes{};
  std::copy_n(from.address.begin(), bytes.size(), bytes.begin());
  return {asio::ip::address_v6(bytes), target.health.port};
}

// use(pipeline's name, position of the stage, stage, backend) for each that is checked.
template <class Use>
void each_backend(const policy::Policy& policy, Use use) {
  for (const auto& pipeline : policy.pipelines)
    for (std::size_t i = 0; i < pipeline.stages.size(); i++)
      for (const auto& check : gpu::health_checks(pipeline.stages[i]))
        use(pipeline.name, i, compiler::HealthTarget{check.address, check.health}, check);
}

}  // namespace

// One target's connects, one after the other. Handlers hold it while they are under way.
class HealthChecks::Check : public std::enable_shared_from_this<Check> {
 public:
  Check(asio::io_context& context, const compiler::HealthTarget& target, std::string name,
        const Changed& changed)
      : target_(target),
        name_(std::move(name)),
        changed_(changed),
        socket_(context),
        next_(context),
        deadline_(context) {}

  bool up() const { return up_; }
  const std::string& problem() const { return problem_; }

  void stop() {
    stopped_ = true;
    error_code ignored;
    socket_.close(ignored);
    next_.cancel();
    deadline_.cancel();
  }

  void connect() {
    next_.expires_after(Millis(target_.health.interval_ms));
    deadline_.expires_after(Millis(target_.health.timeout_ms));
    deadline_.async_wait([self = shared_from_this()](const error_code& error) {
      if (error || self->stopped_) return;
      self->late_ = true;
      error_code ignored;
      self->socket_.close(ignored);
    });
    late_ = false;
    socket_.async_connect(endpoint_of(target_), [self = shared_from_this()](const error_code& error) {
      if (!self->stopped_) self->connected(error);
    });
  }

 private:
  void connected(const error_code& error) {
    deadline_.cancel();
    error_code ignored;
    socket_.close(ignored);
    next_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled && !self->stopped_) self->connect();
    });
    const bool good = !error && !late_;
    if (!good)
      problem_ = late_ ? fmt::format("no answer within {}",
                                     policy::write_duration(u64{target_.health.timeout_ms} * 1'000'000))
                       : error.message();
    row_ = good == up_ ? 0 : row_ + 1;
    if (row_ < (up_ ? target_.health.fall : target_.health.rise)) return;
    row_ = 0;
    up_ = good;
    const std::string where =
        fmt::format("backend \"{}\" ({} port {})", name_,
                    policy::write_prefix(policy::policy_prefix(target_.address)), target_.health.port);
    changed_(good ? fmt::format("{} is up again", where)
                  : fmt::format("{} is down: {} connects in a row failed, the last one: {}; its flows go to "
                                "the other backends",
                                where, target_.health.fall, problem_));
  }

  compiler::HealthTarget target_;
  std::string name_;
  const Changed& changed_;
  Tcp::socket socket_;
  asio::steady_timer next_, deadline_;
  bool up_ = true;
  bool late_ = false;
  bool stopped_ = false;
  u32 row_ = 0;  // connects that said the contrary of up_, one after the other
  std::string problem_;
};

HealthChecks::HealthChecks(asio::io_context& context, Changed changed)
    : context_(context), changed_(std::move(changed)) {}

HealthChecks::~HealthChecks() {
  for (auto& [target, check] : checks_) check->stop();
}

void HealthChecks::watch(const policy::Policy& policy) {
  std::map<compiler::HealthTarget, std::shared_ptr<Check>> before;
  before.swap(checks_);
  each_backend(policy, [&](const std::string&, std::size_t, const compiler::HealthTarget& target,
                           const auto& backend) {
    if (checks_.contains(target)) return;
    if (auto known = before.extract(target)) {
      checks_.insert(std::move(known));
      return;
    }
    auto check = std::make_shared<Check>(context_, target, backend.name, changed_);
    check->connect();
    checks_.emplace(target, std::move(check));
  });
  for (auto& [target, check] : before) check->stop();
}

compiler::DownBackends HealthChecks::down() const {
  compiler::DownBackends down;
  for (const auto& [target, check] : checks_)
    if (!check->up()) down.insert(target);
  return down;
}

std::vector<BackendReport> HealthChecks::report(const policy::Policy& policy) const {
  std::vector<BackendReport> all;
  each_backend(policy, [&](const std::string& pipeline, std::size_t stage,
                           const compiler::HealthTarget& target, const auto& backend) {
    const auto check = checks_.find(target);
    if (check == checks_.end()) return;
    all.push_back({pipeline, stage + 1, backend.name,
                   policy::write_prefix(policy::policy_prefix(target.address)), target.health.port,
                   check->second->up(), std::nullopt});
    if (!check->second->up()) all.back().problem = check->second->problem();
  });
  return all;
}

}  // namespace xdpgpu::control
