// SPDX-License-Identifier: MIT
//
// userspace/control/data_plane_life.hpp: the life of the data plane, as its broker sees it: it starts it,
// serves it, and starts it again when it has died. A death is a failure and no detach: program and pins stay,
// and what was to be inspected goes by on_failure meanwhile. Only an order detaches. While there is no data
// plane, or it is stopped, the broker answers at the control socket (stand_in.hpp).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "userspace/control/deaths.hpp"
#include "userspace/control/output.hpp"
#include "userspace/control/policy_reload.hpp"
#include "userspace/control/requests.hpp"
#include "userspace/control/service_manager.hpp"
#include "userspace/control/stand_in.hpp"
#include "userspace/control/status_report.hpp"

namespace xdpgpu::control {

// What the next data plane is told of those before it, and `status` tells.
struct DeathRecord {
  u64 deaths = 0;         // since the attach
  std::string how{};      // the last: "was killed by signal 9 (Killed)"
  std::string at{};       // of the last, in UTC
  std::string headers{};  // where the first bytes of its last packets are; empty: nowhere
};
LifeReport life_report(const DeathRecord& record, bool lives);

// The exit status of a data plane that ends as its reinjection pair is gone, so that another one gets a new
// one.
inline constexpr int kPairGone = 75;

// What has to be done about it, by whoever holds program and maps.
class DataPlaneKeeper {
 public:
  struct Started {
    pid_t process = -1;
    Channel channel;
  };
  virtual ~DataPlaneKeeper() = default;

  // Forks a data plane. Before one that is not the first: an error where it cannot be any more; `gone` says
  // that this attach is over, as an interface is not there.
  virtual Result<Started> start(const DeathRecord& before, bool& gone) = 0;
  virtual Requests::Duties duties() = 0;
  // It is dead: what it had in hand is counted as lost, and its packets' headers are kept; returns where, or
  // nothing if there are none. death: which one it is, from 1. served: it had come to handle packets.
  virtual std::string bury(u64 death, bool served) = 0;
  // Everything is undone, or what decides is left for a later attach; returns whether that is so.
  virtual bool finish(bool keep) = 0;
  // Some child has ended, maybe one that the keeper has started for the data plane.
  virtual void reap() {}
  // It died before traffic flowed for the first time.
  virtual void never_began() = 0;
  // of_the_dead: there is no data plane any more, and what it had in hand is lost.
  virtual Result<StatusReport> report(bool of_the_dead) = 0;
  // ends_after: by itself, from keep_house(); 0: when somebody says so.
  virtual Result<void> bypass(bool on, std::chrono::seconds ends_after) = 0;
  // Now and then, at least so often. Returns what is to be said of it, a sentence each.
  static constexpr std::chrono::milliseconds kTurn{1000};
  virtual std::vector<std::string> keep_house() = 0;
  // When it has to be looked after next; never more than a turn.
  virtual std::chrono::milliseconds due_in() const { return kTurn; }
  // Readable when there is something to be looked after at once; -1: there is nothing of that kind.
  virtual int news_fd() const { return -1; }
  // The kernel goes by a policy that is none of those that stay (--confirm).
  virtual bool is_on_trial() const = 0;
  // For good, once it has handled packets: why. left: by order, for the next attach.
  virtual void note_end(const std::string& why, bool left) noexcept = 0;
  // The kernel's program is in its place on every interface, so that it decides with and without a data
  // plane.
  virtual bool decides() const { return true; }
  virtual std::string interfaces() const = 0;  // "eth0, eth1"
  virtual std::string on_failure() const = 0;  // what becomes of packets: "is dropped (on_failure)"
};

class DataPlaneLife {
 public:
  struct Options {
    bool json = false;
    bool daemon = false;
    int listener = -1;
    int signals = -1;  // a signalfd
    Server::Admission admission;
    std::string policy_file;            // that SIGHUP applies again; empty: there is none
    ServiceManager* manager = nullptr;  // is told how it goes, and outlives this object; may be none
  };
  // The keeper outlives this object. on_ready is called when traffic flows for the first time.
  DataPlaneLife(DataPlaneKeeper& keeper, Options options, std::function<void()> on_ready);
  ~DataPlaneLife() { kill_data_plane(); }
  DataPlaneLife(const DataPlaneLife&) = delete;
  DataPlaneLife& operator=(const DataPlaneLife&) = delete;

  // Until it is told to end; the exit status.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  void start();
  void reap();
  void ended(int status);
  void died(const std::string& how);
  void serve_data_plane();
  void take_signals();
  void take_order(bool keep);
  void reload_policy();
  void tell_manager();
  void wait();
  void kill_data_plane();
  void end(int status) { status_ = status; }
  // What is to be undone by order stays for nobody who says otherwise.
  bool may_keep(bool keep) const { return keep && ordered_.value_or(true); }
  void end_by_itself(bool keep, Response* answer);
  void end_for(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }
  // It has never come to handle packets.
  void say_failure(const std::string& sentence);

  StandIn::Answers answers();
  LifeReport report_of_it() const;
  Response status_answer();
  std::string what_now() const;
  bool stands_in() const { return ready_ && (!serving_ || is_stopped()); }
  bool is_stopped() const { return stopped_ && child_ >= 0 && !ordered_ && !deadline_; }
  void say(const std::string& sentence) { output_.problem(sentence); }

  DataPlaneKeeper& keeper_;
  Options options_;
  std::function<void()> on_ready_;
  Output output_{false, false};
  StandIn stand_in_;
  PolicyReload reload_;
  Deaths deaths_;
  DeathRecord record_;

  pid_t child_ = -1;
  Channel channel_;
  bool channel_open_ = false;
  std::optional<Requests> requests_;
  bool ready_ = false;           // traffic has flowed
  bool serving_ = false;         // the data plane answers at the control socket
  bool stopped_ = false;         // but for now, as somebody has stopped it (SIGSTOP)
  std::optional<bool> ordered_;  // to detach; true: what decides is to stay
  std::string why_;              // it ends; empty: not known yet
  std::optional<Clock::time_point> deadline_, next_start_;
  Clock::time_point died_at_{};
  std::optional<int> status_;
};

}  // namespace xdpgpu::control
