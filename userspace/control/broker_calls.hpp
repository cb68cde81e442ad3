// SPDX-License-Identifier: MIT
//
// userspace/control/broker_calls.hpp: what two threads of the data plane ask of the broker: the control
// thread, and the one that puts policies in force.
#pragma once

#include <chrono>
#include <mutex>

#include "userspace/control/channel.hpp"

namespace xdpgpu::control {

// The broker's answers, for both threads of a swap: one asks at a time.
class BrokerCalls {
 public:
  explicit BrokerCalls(Channel& broker) : broker_(broker) {}
  Result<Received> call(const Message& message, std::chrono::milliseconds timeout = kTimeout) {
    const std::lock_guard lock(mutex_);
    return broker_.call(message, timeout);
  }
  // Unless somebody waits for an answer: for who takes what the broker says by itself.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_, std::try_to_lock); }

 private:
  static constexpr std::chrono::seconds kTimeout{20};

  Channel& broker_;
  std::mutex mutex_;
};

}  // namespace xdpgpu::control
