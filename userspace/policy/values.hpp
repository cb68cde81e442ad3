// SPDX-License-Identifier: MIT
//
// userspace/policy/values.hpp: the small languages inside of a policy's strings. Each reader returns the
// value or the sentence that says what is wrong; each writer's text is read back to the same value.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

template <class T>
using Value = tl::expected<T, std::string>;

// "10.0.0.0/8", "192.0.2.1", "2001:db8::/32". Host bits must be zero; no zone, no port.
Value<Prefix> read_prefix(std::string_view text);
// The same without a word about what is wrong: for a million lines.
std::optional<Prefix> try_prefix(std::string_view text);
std::string write_prefix(const Prefix& prefix);

// The same as stages have it, and back.
gpu::Prefix device_prefix(const Prefix& prefix);
Prefix policy_prefix(const gpu::Prefix& prefix);

// "8000-8099" or "80".
Value<PortRange> read_ports(std::string_view text);

// "100-199", "100", "none" or "priority".
inline constexpr u16 kLeastVlan = 1, kMostVlan = 4094;
inline constexpr const char* kNoVlan =
    "0 is no VLAN; write \"none\" for untagged packets, \"priority\" for a tag with id 0";
Value<VlanRange> read_vlans(std::string_view text);

inline constexpr u64 kNsPerMs = 1'000'000;
// "50us": a whole number and ns, us, ms, s, m or h. In nanoseconds.
Value<u64> read_duration(std::string_view text);
std::string write_duration(u64 ns);

// "64KB": a whole number of bytes, or of KB, MB or GB (or KiB, MiB, GiB), each of which is 1,024 of the one
// before.
Value<u64> read_bytes(std::string_view text);
// In the largest unit that it is a whole number of: "64KB", "1MB", "1000".
std::string write_bytes(u64 bytes);

Value<std::array<u8, 6>> read_mac(std::string_view text);
std::string write_mac(const std::array<u8, 6>& mac);

// "tcp", or a number as a string is not taken: numbers are JSON numbers.
std::optional<u8> find_protocol(std::string_view name);
Value<u8> read_protocol(std::string_view text);
std::string_view protocol_name(u8 number);  // empty: it has none

// "syn,!ack": what must be set and what must not.
struct TcpFlags {
  u8 mask = 0, value = 0;
};
Value<TcpFlags> read_tcp_flags(std::string_view text);
std::string write_tcp_flags(TcpFlags flags);

// What the kernel takes as an interface's name (dev_valid_name).
bool is_interface_name(std::string_view name);

}  // namespace xdpgpu::policy
