// SPDX-License-Identifier: MIT
//
// bench/throughput/site.hpp: three namespaces in a row, sender, device under test, receiver, and trials over
// them as RFC 2544 has them (sections 26.1 and 26.2): a rate, a number of frames, how many of them came.
//
// Who forwards is a router: it writes its own and the next hop's MAC address and takes one off the TTL, so
// that the same frames arrive whoever it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/throughput/sender.hpp"
#include "tests/netns/lab.hpp"

namespace xdpgpu::throughput {

struct Settings {
  std::vector<std::string> devices{"cpu"};
  std::vector<unsigned> sizes{64, 512, 1500};  // of frames with their FCS, as RFC 2544 counts
  std::vector<std::string> only;               // ways; empty: all
  double seconds = 2;                          // of a trial
  double resolution = 0.05;                    // the search ends when its bounds are as near as that
  int attempts = 2;                            // trials in which a rate may show that it loses nothing
  int repeats = 1;                             // searches
  double most_seconds = 1800;                  // of the whole run
  int receive_core = -1;  // that the device under test receives on; -1: the sender's, as veth has it
  // The host's own, wired to each other by twos: the sender's and where the device under test receives; where
  // it sends, and the receiver's. None: veth pairs.
  std::vector<std::string> interfaces;
  std::string sender = "tcpreplay";  // or pktgen
  std::string heartbeat;             // of the policy; empty: the default
  std::string json;
};

// A device under test. Forwards from construction to destruction.
class Dut {
 public:
  virtual ~Dut() = default;
  // Whether `frames` that arrived can have come the way that this is about; empty: they can.
  virtual std::string account(u64 /*frames*/) { return {}; }
};

struct Trial {
  Sent sent;
  u64 came = 0;
  std::string problem;  // what cannot be
  bool clean() const { return sent.frames != 0 && sent.refused == 0 && came == sent.frames; }
};

struct Throughput {
  double rate = 0;            // frames a second, as sent; 0: each rate lost some
  bool senders_most = false;  // nothing was lost at the most that the sender can
  double most = 0;            // that the sender can, beside this device under test
  int trials = 0;
  std::string problem;
};

struct Latency {
  double asked = 0;  // frames a second
  std::size_t frames = 0;
  double p50_us = 0, p99_us = 0;
  std::string problem{};  // why there are none
  std::string wrong{};    // what cannot be
};

// Two ends in two namespaces.
class Wire {
 public:
  // A veth pair.
  Wire(const lab::Namespace& a_ns, const std::string& a, const lab::Namespace& b_ns, const std::string& b);
  // Interfaces of the present namespace, which are wired; they come back when the namespaces are gone. They
  // take frames for every address, as veth does.
  Wire(const lab::Namespace& a_ns, const lab::Namespace& b_ns, const std::string& a, const std::string& b);
  const lab::Interface& a() const noexcept { return a_; }
  const lab::Interface& b() const noexcept { return b_; }
  void up() const;

 private:
  std::unique_ptr<lab::Veth> veth_;
  lab::Interface a_, b_;
  lab::Fd a_promiscuous_, b_promiscuous_;
};

class Site {
 public:
  // `check` is called while a trial runs, and may throw. Throws lab::Error.
  Site(const Settings& settings, Check check);

  const lab::Namespace& ns() const noexcept { return dut_; }
  const lab::Interface& in() const noexcept { return in_.b(); }
  const lab::Interface& out() const noexcept { return out_.a(); }
  lab::Mac next_hop() const noexcept { return next_hop_; }
  bool on_nics() const noexcept { return !settings_.interfaces.empty(); }
  const std::string& heartbeat() const noexcept { return settings_.heartbeat; }
  int cpu() const noexcept { return cpu_; }  // that the device under test has; the sender has core 0

  // Whether frames are for the host's own address, so that its stack takes them, and whether it forwards.
  void let_stack_take(bool take, bool forward) const;

  // To be called before the others: frames of that size are sent from here on.
  void use_size(unsigned size);
  // Waits until all wires are: some NICs lose their link for seconds with each XDP program.
  void wait_for_links();
  // Each frame once at a low rate: what is wrong with what arrives, or nothing.
  std::string check_contents();
  Throughput search();
  Latency latency(double rate);
  u64 came() const;  // to the receiver, since this object stands

 private:
  Trial trial(double rate, bool seen, const Check& check);
  const Sender& sender() const;
  const Settings& settings_;
  Check check_;
  lab::Namespace sender_, dut_, receiver_;
  Wire in_, out_;
  lab::Mac host_mac_, next_hop_;
  int cpu_;
  std::vector<lab::Frame> expected_;
  std::optional<Replay> replay_;  // for the contents; and for all else, if there is no other
  std::unique_ptr<Sender> generator_;
};

}  // namespace xdpgpu::throughput
