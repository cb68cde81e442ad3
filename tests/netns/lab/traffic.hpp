// SPDX-License-Identifier: MIT
//
// tests/netns/lab/traffic.hpp: what two kernels' own stacks say to each other: echo, TCP, UDP.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/netns/lab/wire.hpp"

namespace xdpgpu::lab {

struct PingOptions {
  unsigned count = 3;
  std::size_t size = 56;
  Millis interval{20};
  Millis timeout{1000};  // for each echo
};
struct PingResult {
  unsigned sent = 0, received = 0;
  unsigned duplicates = 0;
  double median_rtt_us = 0;
};
// ICMP or ICMPv6 echo from `from` to `address`; a reply counts once, if its payload is right.
PingResult ping(const Namespace& from, const std::string& address, const PingOptions& options = {});

struct TransferOptions {
  std::uint64_t bytes = 8 << 20;
  std::uint16_t port = 5001;
  Millis timeout{20000};
  bool reply = true;                 // the server sends a checksum back, which the client compares
  std::function<void()> half_way{};  // called when half is sent; the rest waits for it
};
struct TransferResult {
  std::uint64_t bytes = 0;  // that arrived
  bool intact = false;      // all of them, with the right content
  double seconds = 0;
  double gbit_per_s() const { return seconds > 0 ? static_cast<double>(bytes) * 8e-9 / seconds : 0; }
  std::string problem;  // empty if intact
};
// One TCP connection from `client` to `server_address` in `server`, pseudo-random content.
TransferResult tcp_transfer(const Namespace& client, const Namespace& server,
                            const std::string& server_address, const TransferOptions& options = {});
// Whether a TCP connection comes to stand within `timeout` (an ephemeral listener is set up for it). It is
// ended in order.
bool tcp_connects(const Namespace& client, const Namespace& server, const std::string& server_address,
                  std::uint16_t port, Millis timeout = 1000ms);

// A TCP connection of two namespaces' own stacks. What its ends have not said by this object's end is not
// said any more: the client resets it.
class TcpConnection {
 public:
  // From `client` to the address, which `server` has. Throws Error.
  TcpConnection(const Namespace& client, const Namespace& server, const std::string& server_address,
                std::uint16_t port);
  ~TcpConnection();
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  void say(std::string_view what) const;  // the client, at once
  // What the server hears next; empty: nothing within `timeout`.
  std::string heard(Millis timeout) const;
  std::uint16_t client_port() const;

 private:
  Fd client_, server_;
};

// A datagram socket of the namespace's own stack.
class UdpSocket {
 public:
  UdpSocket(const Namespace& ns, const std::string& address, std::uint16_t port);
  void send_to(const std::string& address, std::uint16_t port, std::string_view payload) const;
  // The next datagram's payload, or nothing within `timeout`.
  std::optional<std::string> receive(Millis timeout) const;
  // Whatever has come and comes until `quiet` passes without a datagram.
  std::vector<std::string> drain(Millis quiet) const;
  std::uint16_t port() const;

 private:
  Fd fd_;
};

}  // namespace xdpgpu::lab
