// SPDX-License-Identifier: MIT
//
// userspace/control/data_plane_life.hpp: the life of the data plane, as its broker sees it: it starts it,
// serves it, and starts it again when it has died. A death is a failure and no detach: program and pins stay,
// and what was to be inspected goes by on_failure meanwhile. Only an order detaches. While there is no data
// plane the broker answers at the control socket (stand_in.hpp).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "userspace/control/deaths.hpp"
#include "userspace/control/output.hpp"
#include "userspace/control/requests.hpp"
#include "userspace/control/stand_in.hpp"

namespace xdpgpu::control {

// What the next data plane is told of those before it, and `status` tells.
struct DeathRecord {
  u64 deaths = 0;         // since the attach
  std::string how{};      // the last: "was killed by signal 9 (Killed)"
  std::string at{};       // of the last, in UTC
  std::string headers{};  // where the first bytes of its last packets are; empty: nowhere
};
Json to_json(const DeathRecord& record);

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
  // It died before traffic flowed for the first time.
  virtual void never_began() = 0;
  virtual Result<Json> report() = 0;
  virtual Result<void> bypass(bool on) = 0;
  // Now and then, at least so often.
  static constexpr std::chrono::milliseconds kTurn{1000};
  virtual void keep_house() = 0;
  // The kernel goes by a policy that is none of those that stay (--confirm).
  virtual bool is_on_trial() const = 0;
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
  void wait();
  void kill_data_plane();
  void end(int status) { status_ = status; }
  void end_by_itself(bool keep, Response* answer);

  StandIn::Answers answers();
  Json report_of_it() const;
  Response status_answer();
  std::string what_now() const;
  bool stands_in() const { return ready_ && !serving_; }
  void say(const std::string& sentence) { output_.problem(sentence); }

  DataPlaneKeeper& keeper_;
  Options options_;
  std::function<void()> on_ready_;
  Output output_{false, false};
  StandIn stand_in_;
  Deaths deaths_;
  DeathRecord record_;

  pid_t child_ = -1;
  Channel channel_;
  bool channel_open_ = false;
  std::optional<Requests> requests_;
  bool ready_ = false;           // traffic has flowed
  bool serving_ = false;         // the data plane answers at the control socket
  std::optional<bool> ordered_;  // to detach; true: what decides is to stay
  std::optional<Clock::time_point> deadline_, next_start_;
  Clock::time_point died_at_{};
  std::optional<int> status_;
};

}  // namespace xdpgpu::control
