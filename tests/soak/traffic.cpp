// SPDX-License-Identifier: MIT
#include "tests/soak/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <span>

namespace xdpgpu::soak {

std::vector<lab::Frame> frames_of_all_kinds(const lab::Interface& from, const lab::Interface& to,
                                            std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t end) { return static_cast<unsigned>(random() % end); };
  std::vector<lab::Frame> frames;
  frames.reserve(count);
  while (frames.size() < count) {
    const bool v6 = below(4) == 0;
    lab::PacketSpec spec{
        .src = from.mac(),
        .dst = to.mac(),
        .src_ip = v6 ? fmt::format("fd0a::{:x}", 2 + below(64)) : fmt::format("10.20.0.{}", 100 + below(64)),
        .dst_ip = v6 ? "fd0a::1" : "10.20.0.1",
        .src_port = static_cast<std::uint16_t>(20000 + below(200)),
        .dst_port = static_cast<std::uint16_t>(7000 + below(6)),
        .payload = std::string(below(8) == 0 ? below(1400) : below(200), 'x')};
    if (const unsigned tags = below(8); tags == 0)
      spec.vlans = {{10}};
    else if (tags == 1)
      spec.vlans = {{20, 0x88a8}, {30}};
    spec.ip_id = static_cast<std::uint16_t>(random());
    spec.wrong_l4_checksum = below(16) == 0;
    switch (below(8)) {
      case 0:
      case 1:
        spec.protocol = lab::kTcp;
        spec.tcp_flags = static_cast<std::uint8_t>(below(64));
        spec.tcp_seq = static_cast<std::uint32_t>(random());
        break;
      case 2:
        spec.protocol = lab::kIcmp;
        break;
      case 3:
        spec.protocol = static_cast<std::uint8_t>(below(256));
        break;
      default:
        break;
    }
    if (below(10) == 0) {
      spec.payload.resize(200 + below(800));
      for (auto& fragment : lab::build_fragments(spec, 64 + below(400)))
        frames.push_back(std::move(fragment));
      continue;
    }
    lab::Frame frame = lab::build(spec);
    if (const unsigned damage = below(12); damage == 0) {
      frame.resize(14 + below(frame.size() - 14));
    } else if (damage == 1) {
      for (std::size_t at = 12; at < frame.size(); ++at) frame[at] = static_cast<std::uint8_t>(random());
    } else if (damage == 2) {
      frame[14 + below(frame.size() - 14)] = static_cast<std::uint8_t>(random());
    }
    frames.push_back(std::move(frame));
  }
  frames.resize(count);
  return frames;
}

Traffic::Traffic(const std::vector<Wire>& wires, std::string tcp_address, unsigned queues, unsigned pps,
                 std::uint64_t seed) {
  for (const Wire& wire : wires) {
    threads_.emplace_back([this, wire, queues, pps, seed] { send_all_kinds(wire, queues, pps, seed); });
    ++seed;
  }
  threads_.emplace_back([this, &client = wires.front().from.ns(), &server = wires.front().to.ns(),
                         address = std::move(tcp_address), pps] { transfer(client, server, address, pps); });
}

Traffic::~Traffic() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    stop_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Traffic::go() {
  const std::lock_guard lock(mutex_);
  going_ = true;
  stop_ = false;
  changed_.notify_all();
}

void Traffic::pause() {
  std::unique_lock lock(mutex_);
  going_ = false;
  stop_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return busy_ == 0; });
}

std::string Traffic::broken_transfer() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

template <class Step>
void Traffic::loop(Step step) {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return going_ || ended_; });
      if (ended_) return;
      ++busy_;
    }
    while (!stop_) step();
    const std::lock_guard lock(mutex_);
    --busy_;
    changed_.notify_all();
  }
}

void Traffic::send_all_kinds(const Wire& wire, unsigned queues, unsigned pps, std::uint64_t seed) {
  const auto frames = frames_of_all_kinds(wire.from, wire.to, seed, 4096);
  // Straight to the driver all would go into one queue.
  lab::Sender sender(wire.from, pps == 0 && queues == 1);
  std::size_t at = 0;
  loop([&] {
    try {
      if (pps == 0) {
        sender.blast(frames, ~std::uint64_t{0}, lab::Millis(20));
        return;
      }
      const std::size_t count = std::min<std::size_t>(pps / 100 + 1, frames.size() - at);
      sender.send_paced(std::span(frames).subspan(at, count), pps);
      at = (at + count) % frames.size();
    } catch (const lab::Error&) {
      std::this_thread::sleep_for(lab::Millis(5));  // the link is down
    }
  });
}

void Traffic::transfer(const lab::Namespace& client, const lab::Namespace& server, const std::string& address,
                       unsigned pps) {
  constexpr std::size_t kBytes = 512 << 10;
  // A segment of 1,448 bytes each, and an acknowledgement for two of them.
  constexpr std::size_t kPackets = kBytes / 1448 * 3 / 2;
  unsigned cannot_listen = 0;  // in a row
  auto due = std::chrono::steady_clock::now();
  loop([&] {
    if (pps != 0) {
      std::unique_lock lock(mutex_);
      if (changed_.wait_until(lock, due, [&] { return stop_.load(); })) return;
      due = std::max(due, std::chrono::steady_clock::now()) +
            std::chrono::nanoseconds(std::chrono::seconds(kPackets)) / pps;
    }
    const std::uint64_t flaps = flaps_;
    std::string problem;
    try {
      problem = lab::tcp_transfer(client, server, address, {.bytes = kBytes}).problem;
      cannot_listen = 0;
    } catch (const lab::Error& error) {
      // A process that is being started holds the last listener until it has become another program.
      std::this_thread::sleep_for(lab::Millis(5));
      if (++cannot_listen < 100) return;
      problem = error.what();
    }
    if (problem.starts_with("cannot connect") && (flaps % 2 == 1 || flaps != flaps_)) return;
    ++transfers_;
    if (problem.empty()) return;
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) broken_ = fmt::format("TCP transfer {}: {}", transfers_.load(), problem);
  });
}

}  // namespace xdpgpu::soak
