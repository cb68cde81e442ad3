// SPDX-License-Identifier: MIT
//
// userspace/host/capture.hpp: packet captures (pcap and pcapng, by libpcap) as Ethernet frames.
//
//   auto capture = host::Capture::open("trace.pcap");
//   while (auto packet = (*capture)->next()) use(packet->frame, packet->time_ns);
//   if (!(*capture)->problem().empty()) ...  // truncated or damaged behind the last packet
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "maps/types.h"

namespace xdpgpu::host {

struct CapturedPacket {
  std::span<const u8> frame;  // Ethernet; valid until the next call
  u64 time_ns = 0;            // the capture's time, never before an earlier packet's
  u32 original_length = 0;    // on the wire, as Ethernet; more than frame.size() when the capture cut it
  bool cut = false;
};

class Capture {
 public:
  // Ethernet is taken as it is. Raw IP, Linux cooked (SLL, SLL2), BSD null/loop captures are given an
  // Ethernet header with zero addresses. Other link types are refused with a sentence.
  static tl::expected<std::unique_ptr<Capture>, std::string> open(const std::string& path);
  ~Capture();

  // The next packet, or nothing at the end or at a damaged record (see problem()).
  std::optional<CapturedPacket> next();
  // Why reading ended early: the file is damaged, or goes on with packets of another link type. Empty at a
  // regular end.
  const std::string& problem() const noexcept;
  // "Ethernet", "raw IP: Ethernet headers are made up", ...
  const std::string& link_type() const noexcept;
  // Packets whose time stood before their predecessor's and was moved up to it.
  u64 clamped() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit Capture(std::unique_ptr<Impl> impl);
};

}  // namespace xdpgpu::host
