// SPDX-License-Identifier: MIT
//
// tests/netns/oracle.hpp: two policies, A and B, and what becomes of each packet under either.
//
// A packet's number says which class it is of (protocol, headers, what decides on it) and which flow. The
// pipelines of A and B bear the same names, and those that send name themselves and their policy in the frame
// that leaves (02:00:00:00:<a or b>:<pipeline>, a load balancer's backend): a packet that was classified by
// one policy and judged by the other's pipeline has a third fate.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/netns/lab.hpp"

namespace xdpgpu::lab {

using Fate = std::uint8_t;
inline constexpr Fate kGone = 0, kHost = 1, kUnknown = 255;  // others: sent, by policy and pipeline
std::string fate_name(Fate fate);

// Large: what the policies hold beside what the packets meet.
struct OracleSize {
  std::size_t acl_rules = 0;  // in front of pipeline `staged`, none of which matches
  std::size_t prefixes = 0;   // of list `half`, in the file `half_file`
};

class Oracle {
 public:
  using Size = OracleSize;
  static constexpr const char* kHalfFile = "half.txt";

  // Packets go from `left` to `host`, those that are sent on to `right_ifname`'s wire or back.
  Oracle(const Interface& left, const Interface& host, std::string right_ifname, const Size& size = {});

  std::string policy(bool b) const;     // JSON
  std::string half_file(bool b) const;  // the list's content; empty where the list is inline

  static constexpr std::size_t kClasses = 11;
  static const char* class_name(std::uint64_t number);
  Frame packet(std::uint64_t number) const;
  static Fate fate(std::uint64_t number, bool b);

 private:
  Mac left_, host_;
  std::string right_;
  Size size_;
};

// The packets 0, 1, 2, ... without pause, until it is ended.
class NumberedLoad {
 public:
  NumberedLoad(const Oracle& oracle, const Interface& from, unsigned pps, std::uint64_t most);
  ~NumberedLoad() { end(); }
  NumberedLoad(const NumberedLoad&) = delete;
  NumberedLoad& operator=(const NumberedLoad&) = delete;

  std::uint64_t issued() const { return issued_; }  // none from this one on has been sent
  std::uint64_t sent() const { return sent_; }      // all below this one have been
  std::uint64_t end();

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> issued_{0}, sent_{0};
  std::thread thread_;
};

// What became of them, as seen at both wires' far ends and by the host's stack.
class Observer {
 public:
  Observer(const Interface& left, const Interface& right, const Interface& host, std::uint64_t most);
  ~Observer() { end(); }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  Fate fate(std::uint64_t number) const { return fates_[number]; }
  std::uint64_t arrived() const { return arrived_; }
  std::uint64_t twice() const { return twice_; }      // packets that arrived more than once
  std::uint64_t overrun() const { return overrun_; }  // frames that this observer was too slow for
  void end();

 private:
  enum class Place { left, right, host };
  void watch(Place place, Sniffer sniffer);
  std::uint64_t most_;
  std::unique_ptr<std::atomic<Fate>[]> fates_;
  std::atomic<std::uint64_t> arrived_{0}, twice_{0}, overrun_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace xdpgpu::lab
