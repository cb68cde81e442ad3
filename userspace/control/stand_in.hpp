// SPDX-License-Identifier: MIT
//
// userspace/control/stand_in.hpp: the broker at the control socket while there is no data plane. It has
// root's rights and so reads as little as it can: of a request its first bytes, in which it looks for the
// words that it knows. Of the broker's one thread; nothing in here waits.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "userspace/control/server.hpp"

namespace xdpgpu::control {

class StandIn {
 public:
  struct Answers {
    std::function<Response()> status;
    std::function<Response(bool keep)> detach;
    std::function<Response(bool on, std::optional<u64> for_s)> bypass;
    std::function<Response()> other;  // to whatever else is asked
    // Whose attach it is: "eth0, eth1". What names another one is not done.
    std::function<std::string()> interfaces;
  };

  // The listener stays its owner's, and outlives this object.
  StandIn(int listener, Server::Admission admission, Answers answers)
      : listener_(listener), admission_(std::move(admission)), answers_(std::move(answers)) {}

  // What to poll for. taking: new clients, too, are this object's.
  void add_to(std::vector<pollfd>& events, bool taking) const;
  // Serves whoever is there.
  void serve(bool taking);
  bool has_clients() const noexcept { return !clients_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Client {
    kernel::Fd fd;
    Clock::time_point until;
    std::string input{};
    std::string output{};  // what is left to be sent
    bool answered = false;
  };
  void take();
  // False: it is done with.
  bool serve(Client& client);
  Response answer(const std::string& line) const;
  bool is_meant(const std::string& line) const;

  int listener_;
  Server::Admission admission_;
  Answers answers_;
  std::list<Client> clients_;  // the longest here first
};

}  // namespace xdpgpu::control
