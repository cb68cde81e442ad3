// SPDX-License-Identifier: MIT
#include "userspace/dataplane/in_hand.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <tuple>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::dataplane {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLongest{2};
constexpr u32 kLookAtClock = 1024;  // frames

u16 big_endian(const u8* at) { return static_cast<u16>(at[0] << 8 | at[1]); }

// By its IP header, if that is in `bytes`.
u32 length_of(const PacketInHand& packet, const xg_metadata& metadata) {
  const u32 l3 = metadata.l3_offset;
  if ((metadata.flags & XG_PKT_IPV4) && l3 + 4 <= PacketInHand::kMostBytes)
    return l3 + big_endian(&packet.bytes[l3 + 2]);
  if ((metadata.flags & XG_PKT_IPV6) && l3 + 6 <= PacketInHand::kMostBytes)
    return l3 + 40 + big_endian(&packet.bytes[l3 + 4]);
  return PacketInHand::kMostBytes;
}

// Of the worker whose frame it is: its queue of each port.
const QueueAtDeath* queue_of(std::span<const QueueAtDeath> queues, const xg_metadata& metadata, u32 worker) {
  for (const QueueAtDeath& queue : queues)
    if (queue.queue == worker && queue.port == metadata.port)
      return metadata.generation != 0 && metadata.sequence - queue.retired < queue.admitted - queue.retired
                 ? &queue
                 : nullptr;
  return nullptr;
}

struct Line {
  xg_metadata metadata;
  std::array<u8, PacketInHand::kMostBytes> bytes;
};
static_assert(sizeof(Line) == XG_METADATA_SIZE + PacketInHand::kMostBytes);

}  // namespace

std::vector<PacketInHand> packets_in_hand(int memory, std::span<const FrameShare> shares,
                                          std::span<const QueueAtDeath> queues, std::size_t most) {
  std::vector<PacketInHand> packets;
  const auto until = Clock::now() + kLongest;
  for (u32 worker = 0; worker < shares.size(); ++worker) {
    const FrameShare& share = shares[worker];
    for (u32 i = 0; i < share.count; ++i) {
      if (i % kLookAtClock == 0 && Clock::now() >= until) break;
      const u64 at = chunk_of(share.first + i * share.step) + XG_FRAME_DATA - XG_METADATA_SIZE;
      Line line;
      if (pread(memory, &line, sizeof(line), static_cast<off_t>(at)) != sizeof(line)) continue;
      const QueueAtDeath* queue = queue_of(queues, line.metadata, worker);
      if (!queue) continue;
      PacketInHand packet{.rx_time_ns = line.metadata.rx_time_ns,
                          .sequence = line.metadata.sequence,
                          .queue = static_cast<u16>(worker),
                          .port = line.metadata.port,
                          .bytes = line.bytes};
      packet.length = length_of(packet, line.metadata);
      packet.captured = static_cast<u8>(std::min(packet.length, PacketInHand::kMostBytes));
      packets.push_back(packet);
    }
  }
  std::sort(packets.begin(), packets.end(), [](const PacketInHand& a, const PacketInHand& b) {
    return std::tie(a.rx_time_ns, a.port, a.queue, a.sequence) <
           std::tie(b.rx_time_ns, b.port, b.queue, b.sequence);
  });
  if (packets.size() > most)
    packets.erase(packets.begin(), packets.end() - static_cast<std::ptrdiff_t>(most));
  return packets;
}

Result<void> write_capture(const std::string& path, std::span<const PacketInHand> packets) {
  struct FileHeader {
    u32 magic = 0xa1b23c4d;
    u16 major = 2, minor = 4;
    u32 zone = 0, accuracy = 0, most = PacketInHand::kMostBytes, link = 1;
  };
  struct PacketHeader {
    u32 seconds, nanoseconds, captured, length;
  };
  // Receive times count from the host's start.
  timespec wall{}, monotonic{};
  clock_gettime(CLOCK_REALTIME, &wall);
  clock_gettime(CLOCK_MONOTONIC, &monotonic);
  const auto ns_of = [](const timespec& time) {
    return static_cast<u64>(time.tv_sec) * 1'000'000'000 + static_cast<u64>(time.tv_nsec);
  };
  const u64 start_ns = ns_of(wall) - ns_of(monotonic);
  std::string content;
  content.reserve(sizeof(FileHeader) + packets.size() * (sizeof(PacketHeader) + PacketInHand::kMostBytes));
  const auto append = [&](const void* data, std::size_t bytes) {
    content.append(static_cast<const char*>(data), bytes);
  };
  const FileHeader file;
  append(&file, sizeof(file));
  for (const PacketInHand& packet : packets) {
    const u64 ns = start_ns + packet.rx_time_ns;
    const PacketHeader header{static_cast<u32>(ns / 1'000'000'000), static_cast<u32>(ns % 1'000'000'000),
                              packet.captured, packet.length};
    append(&header, sizeof(header));
    append(packet.bytes.data(), packet.captured);
  }
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());
  const kernel::Fd out(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out || write(out.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()) ||
      rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(fresh.c_str());
    return tl::unexpected(fmt::format("cannot write {}: {}", path, std::strerror(error)));
  }
  return {};
}

}  // namespace xdpgpu::dataplane
