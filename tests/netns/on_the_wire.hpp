// SPDX-License-Identifier: MIT
//
// tests/netns/on_the_wire.hpp: the fixture of the tests that attach xdpgpu: three hosts in a row,
//
//      left ───────── host ───────── right
//   10.9.0.2     .0.1   10.9.1.1   10.9.1.2      (IPv6: fd09:0::, fd09:1::)
//
// xdpgpu runs on the host. A test looks from left and right, as somebody else's machine would. After
// each test nothing of xdpgpu may be left on the host.
#pragma once

#include <gtest/gtest.h>

#include "tests/netns/product.hpp"

namespace xdpgpu::lab {

struct Config {
  bool generic = false;
  unsigned queues = 1;
  std::string mode{};  // compute.mode of every policy; empty: as the policy says
};
void PrintTo(const Config& config, std::ostream* out);
std::string config_name(const testing::TestParamInfo<Config>& info);  // "native_1queue"
inline const auto kConfigs =
    testing::Values(Config{false, 1}, Config{false, 2}, Config{true, 1}, Config{true, 2});
// For what hangs on neither: the path is tested with all of them.
inline const auto kNativeAndGeneric = testing::Values(Config{false, 2}, Config{true, 1});
// The other ways to drive the device; those that it does not have are skipped.
inline const auto kModes =
    testing::Values(Config{false, 1, "inline"}, Config{false, 2, "split"}, Config{true, 1, "split"},
                    Config{false, 1, "persistent"}, Config{false, 2, "graph"});
// Of them the one with the most threads.
inline const auto kSplit = testing::Values(Config{false, 2, "split"});

class OnOneWire : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  bool generic() const { return config_.generic; }
  unsigned queues() const { return config_.queues; }

  // Attaches on the port towards left, or on both.
  void attach(const std::string& policy, std::vector<std::string> more = {});
  void attach_both(const std::string& policy, std::vector<std::string> more = {});

  const Interface& host_port() const { return left_wire_->a(); }     // towards left
  const Interface& host_second() const { return right_wire_->a(); }  // towards right
  const Interface& left_port() const { return left_wire_->b(); }
  const Interface& right_port() const { return right_wire_->b(); }

  // UDP over IPv4 from left to the host.
  PacketSpec from_left(std::uint16_t src_port, std::uint16_t dst_port, std::string payload) const;
  // `count` frames of one flow whose payloads are "seq 0", "seq 1", ...
  std::vector<Frame> numbered(std::uint16_t src_port, std::uint16_t dst_port, std::size_t count) const;
  // Frames of `flows` flows (so that both queues have work), `each` of each, numbered within the flow.
  std::vector<Frame> many_flows(std::uint16_t dst_port, std::size_t flows, std::size_t each) const;

  // in = the sum of the outcomes, in the kernel and in user space, once nothing is under way.
  void expect_conserved(const Pins& pins) const;

  Config config_;
  std::optional<Namespace> host_, left_, right_;
  std::optional<Veth> left_wire_, right_wire_;
  std::unique_ptr<Attached> attached_;
};

// The same in every way that xdpgpu drives a port.
class OnTheWire : public OnOneWire, public testing::WithParamInterface<Config> {
 protected:
  OnTheWire() { config_ = GetParam(); }
};

// {"version": 1, ...members}
std::string policy(const std::string& members);
// A policy that sends UDP to `port` through the given stages and passes the rest.
std::string inspect_udp(std::uint16_t port, const std::string& stages, const std::string& members = "");
// A policy that sends everything through the given stages.
std::string inspect_all(const std::string& stages, const std::string& members = "");

// The number behind "seq ".
std::optional<std::uint64_t> sequence_of(std::string_view payload);
// To compare with what was sent, whatever the order it came in.
std::vector<Frame> sorted_frames(const std::vector<Captured>& captured);
// The sequence numbers of a flow's frames, in the order of their arrival.
std::vector<std::uint64_t> sequences(const std::vector<Captured>& frames, std::uint16_t src_port);

}  // namespace xdpgpu::lab
