// SPDX-License-Identifier: MIT
#include "userspace/control/policy_changes.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "gpu/thread.hpp"
#include "userspace/control/grace_period.hpp"
#include "userspace/control/kept_policy.hpp"

namespace xdpgpu::control {
namespace {

tl::unexpected<Refusal> refused(std::string why) {
  return tl::unexpected(Refusal{.sentence = std::move(why)});
}

constexpr const char* kEnding = "it is being detached";
constexpr std::chrono::milliseconds kLookEvery{500};
// Policies that wait for another one: each has all its files in memory.
constexpr std::size_t kMostWaiting = 4;

bool is_renewal(const PolicyChange& change) {
  return change.kind == PolicySwap::Kind::renewed && !change.source && !change.policy;
}

}  // namespace

PolicyChanges::PolicyChanges(boost::asio::io_context& context, BrokerCalls& broker, PolicySwap& swap,
                             HealthChecks& health, ProgramTranslator translator, Hooks hooks)
    : context_(context),
      broker_(broker),
      swap_(swap),
      health_(health),
      hooks_(std::move(hooks)),
      compiler_(PolicyCompiler::by(broker)),
      translator_(std::move(translator)),
      look_timer_(context) {}

Result<void> PolicyChanges::start() try {
  thread_ = gpu::start_thread("xdpgpu-policy", [this] { run(); });
  return {};
} catch (const std::system_error& error) {
  return Error(std::string("no thread can be started to put policies in force: ") + error.what());
}

void PolicyChanges::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ended_ || !work_.empty(); });
    if (work_.empty()) return;
    auto work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // and what it held: a policy may take a while to go
    lock.lock();
  }
}

void PolicyChanges::on_thread(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  wake_.notify_one();
}

// The process serves packets, whatever becomes of a policy.
void PolicyChanges::on_control(std::function<void()> work) {
  boost::asio::post(context_, [this, work = std::move(work)] {
    try {
      work();
    } catch (const std::exception& error) {
      if (now_) finish(refused(std::string("it could not be brought to its end: ") + error.what()));
    }
  });
}

void PolicyChanges::add(PolicyChange change) {
  const auto refuse = [&](std::string why) {
    if (change.done) change.done(refused(std::move(why)));
  };
  if (ended_) return refuse(kEnding);
  const auto sources =
      std::count_if(waiting_.begin(), waiting_.end(), [](const auto& one) { return one.source.has_value(); });
  if (change.source && static_cast<std::size_t>(sources) >= kMostWaiting)
    return refuse(fmt::format("{} others wait to be applied already; try again in a while", sources));
  // It takes what is known when its turn comes: one does for all.
  if (is_renewal(change) && std::any_of(waiting_.begin(), waiting_.end(), is_renewal)) return;
  waiting_.insert(change.first ? waiting_.begin() : waiting_.end(), std::move(change));
  begin();
}

void PolicyChanges::keep(PolicyPtr policy, Kept kept) {
  on_thread([this, policy = std::move(policy), kept = std::move(kept)] {
    Result<void> result;
    try {
      result = keep_policy(broker_, *policy, *swap_.names());
    } catch (const std::exception& error) {
      result = Error(std::string(error.what()));
    }
    on_control([this, policy, result, kept] {
      if (!result) hooks_.cannot_keep(*policy, result.error());
      if (kept) kept(result);
    });
  });
}

void PolicyChanges::begin() {
  if (now_ || waiting_.empty()) return;
  now_ = std::make_shared<Now>(Now{.change = std::move(waiting_.front()),
                                   .before = swap_.current(),
                                   .given_up = kernel::Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))});
  waiting_.pop_front();
  if (!now_->given_up)
    return finish(
        refused(fmt::format("this process has no descriptor left for it ({}): raise its limit (ulimit -n)",
                            std::strerror(errno))));
  if (now_->change.left && now_->change.left()) return finish(refused("whoever asked for it has gone"));
  if (now_->change.work)
    return on_thread([this, now = now_] {
      tl::expected<void, Refusal> done;
      try {
        if (auto worked = now->change.work(); !worked) done = refused(worked.error());
      } catch (const std::exception& error) {
        done = refused(error.what());
      }
      on_control([this, now, done = std::move(done)]() mutable {
        if (now == now_) finish(std::move(done));
      });
    });
  if (!now_->change.audit) now_->change.audit = now_->before && now_->before->audits();
  look_whether_left();
  on_thread([this, now = now_, ports = hooks_.ports(), down = health_.down()] {
    auto prepared = prepare(*now, ports, down);
    {
      const std::lock_guard lock(mutex_);
      now->prepared = std::move(prepared);
    }
    on_control([this, now] {
      if (now == now_) commit();
    });
  });
}

// The thread has no memory for it: that costs a change, and no packet.
PolicyChanges::Prepared PolicyChanges::prepare(Now& now, std::vector<std::string> ports,
                                               const compiler::DownBackends& down) try {
  auto policy = compile(now, std::move(ports), down);
  if (!policy) return tl::unexpected(std::move(policy.error()));
  return swap_.prepare(std::move(*policy), now.change.kind).map_error([](std::string why) {
    return Refusal{.sentence = std::move(why)};
  });
} catch (const std::exception& error) {
  return refused(std::string("it could not be made ready: ") + error.what());
}

tl::expected<PolicyPtr, Refusal> PolicyChanges::compile(Now& now, std::vector<std::string> ports,
                                                        const compiler::DownBackends& down) {
  PolicyChange& change = now.change;
  const int given_up = now.given_up.get();
  const auto served = [&](tl::expected<PolicyCompiler::Compiled, Refusal> compiled) {
    if (compiled) translator_.serve(**compiled, given_up);
    return compiled;
  };
  if (change.source)
    return served(compiler_.compile(std::move(*change.source), std::move(ports), down,
                                    change.audit.value_or(false), given_up));
  PolicyPtr policy = change.policy ? change.policy : now.before;
  if (change.as_it_is) return policy;
  const auto own = PolicyCompiler::of_policy(down, policy->policy);
  if (own == policy->down) return translator_.served(std::move(policy), given_up);
  return served(compiler_.compile_with_down(*policy, own, given_up));
}

// What is compiled for a client that has gone holds up what comes behind it.
void PolicyChanges::look_whether_left() {
  if (!now_->change.left) return;
  look_timer_.expires_after(kLookEvery);
  look_timer_.async_wait([this, now = now_](const boost::system::error_code& error) {
    if (error || now != now_ || now->in_force) return;
    if (!now->change.left()) return look_whether_left();
    const u64 one = 1;
    (void)!write(now->given_up.get(), &one, sizeof(one));
  });
}

void PolicyChanges::commit() {
  PolicyChange& change = now_->change;
  Prepared& prepared = *now_->prepared;
  if (change.left && change.left()) {
    if (prepared) swap_.give_up(*prepared);
    return finish(refused("whoever asked for it has gone"));
  }
  if (!prepared) return finish(tl::unexpected(std::move(prepared.error())));
  if (auto committed = swap_.commit(std::move(*prepared)); !committed)
    return finish(refused(committed.error()));
  now_->in_force = true;
  health_.watch(swap_.current()->policy);
  if (change.in_force) change.in_force(now_->before);
  on_thread([this, now = now_] {
    wait_for_grace_period();
    swap_.stop_watching();
    on_control([this, now] {
      if (now == now_) settle();
    });
  });
}

void PolicyChanges::settle() {
  swap_.settle();
  if (now_->change.keep) keep(swap_.current(), {});
  finish({});
}

void PolicyChanges::finish(tl::expected<void, Refusal> result) {
  look_timer_.cancel();
  const auto now = std::exchange(now_, nullptr);
  if (now->change.done) std::exchange(now->change.done, nullptr)(std::move(result));
  begin();
}

void PolicyChanges::end() {
  if (!thread_.joinable()) return;
  if (now_) {
    const u64 one = 1;
    (void)!write(now_->given_up.get(), &one, sizeof(one));
  }
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    wake_.notify_one();
  }
  thread_.join();
  const auto waiting = std::exchange(waiting_, {});
  // The thread has done all that there was: what is in force has had its grace period.
  if (now_ && now_->in_force) {
    swap_.settle();
    finish({});
  } else if (now_) {
    if (now_->prepared && *now_->prepared) swap_.give_up(**now_->prepared);
    finish(refused(kEnding));
  }
  for (const auto& change : waiting)
    if (change.done) change.done(refused(kEnding));
}

}  // namespace xdpgpu::control
