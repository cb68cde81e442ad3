// SPDX-License-Identifier: MIT
#include "tests/backends/traffic.hpp"

#include <fmt/format.h>
#include <pcap/pcap.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <utility>

#include "maps/hash.h"
#include "maps/router.h"

namespace xdpgpu::tests {
namespace {

constexpr u64 kGuard = 4096;

// ---- Building frames -------------------------------------------------------------------------------

using Bytes = std::vector<u8>;

void put8(Bytes& frame, u32 value) { frame.push_back(static_cast<u8>(value)); }
void put16(Bytes& frame, u32 value) {
  put8(frame, value >> 8);
  put8(frame, value);
}
void put32(Bytes& frame, u32 value) {
  put16(frame, value >> 16);
  put16(frame, value);
}
void put_random(Random& random, Bytes& frame, u32 count) {
  for (u32 i = 0; i < count; i++) put8(frame, static_cast<u32>(random.bits()));
}
void set16(Bytes& frame, std::size_t at, std::size_t value) {
  frame[at] = static_cast<u8>(value >> 8);
  frame[at + 1] = static_cast<u8>(value);
}

void put_l4(Random& random, Bytes& frame, u8 protocol) {
  const std::size_t start = frame.size();
  switch (protocol) {
    case XG_IPPROTO_TCP:
      put16(frame, pool_port(random));
      put16(frame, pool_port(random));
      put_random(random, frame, 8);
      put8(frame, random.one_in(10) ? static_cast<u32>(random.bits()) : 0x50);
      put_random(random, frame, 7);
      break;
    case XG_IPPROTO_UDP:
      put16(frame, pool_port(random));
      put16(frame, pool_port(random));
      put32(frame, 0);
      break;
    case XG_IPPROTO_SCTP:
      put16(frame, pool_port(random));
      put16(frame, pool_port(random));
      put_random(random, frame, 8);
      break;
    case XG_IPPROTO_ICMP:
    case XG_IPPROTO_ICMPV6:
      put8(frame, random.pick(std::array<u8, 5>{0, 3, 8, 128, 135}));
      put_random(random, frame, 7);
      break;
    default:
      break;
  }
  put_random(random, frame, random.one_in(4) ? random.below(1200) : random.below(60));
  if (protocol == XG_IPPROTO_UDP) set16(frame, start + 4, frame.size() - start);
}

// The length that an IP header says for `bytes`, `least` of them its own: at times less than there is.
std::size_t said_length(Random& random, std::size_t bytes, std::size_t least) {
  if (!random.one_in(12)) return bytes;
  return std::max(least, bytes - std::min<std::size_t>(bytes, random.below(48)));
}

u8 random_ttl(Random& random) { return random.pick(std::array<u8, 9>{0, 1, 2, 3, 64, 64, 128, 254, 255}); }

// Those that stay on their link, and their neighbours.
constexpr std::array<u32, 15> kOddAddresses4{0,          0x00ffffff, 0x01000000, 0x7effffff, 0x7f000001,
                                             0x80000000, 0xa9fdffff, 0xa9fe0000, 0xa9feffff, 0xa9ff0000,
                                             0xdfffffff, 0xe0000001, 0xf0000000, 0xfffffffe, 0xffffffff};
// By their first two bytes and the last one.
constexpr std::array<std::array<u8, 3>, 11> kOddAddresses6{{{0, 0, 0},
                                                            {0, 0, 1},
                                                            {0, 0, 2},
                                                            {0, 1, 1},
                                                            {0xfe, 0x7f, 1},
                                                            {0xfe, 0x80, 1},
                                                            {0xfe, 0xbf, 1},
                                                            {0xfe, 0xc0, 1},
                                                            {0xff, 0x02, 1},
                                                            {0xff, 0xff, 0xff},
                                                            {0xfd, 0, 1}}};

void put_ipv4(Random& random, Bytes& frame) {
  const std::size_t start = frame.size();
  const u32 options = random.one_in(4) ? random.below(11) : 0;
  const u8 protocol = pool_protocol(random);
  const u32 fragment = random.one_in(6) ? random.pick(std::array<u32, 4>{0x2000, 0x2001, 0x0010, 0x1fff}) : 0;
  put8(frame, 0x45 + options);
  put8(frame, 0);
  put16(frame, 0);
  put16(frame, static_cast<u32>(random.bits()));
  put16(frame, fragment);
  put8(frame, random_ttl(random));
  put8(frame, protocol);
  // Among them where ones' complement has two zeros.
  put16(frame, random.one_in(2) ? static_cast<u32>(random.bits())
                                : random.pick(std::array<u32, 6>{0, 1, 0xfeff, 0xff00, 0xfffe, 0xffff}));
  for (int i = 0; i < 2; i++)
    put32(frame, random.one_in(24) ? random.pick(kOddAddresses4) : pool_address4(random));
  put_random(random, frame, options * 4);
  put_l4(random, frame, protocol);
  set16(frame, start + 2, said_length(random, frame.size() - start, 20 + options * 4));
  // The identification is such that the checksum is right, most times.
  set16(frame, start + 4, 0);
  if (random.one_in(8)) return;
  const u32 sum = xg_ipv4_header_sum(&frame[start]);  // its bytes swapped
  frame[start + 4] = static_cast<u8>(~sum);
  frame[start + 5] = static_cast<u8>(~sum >> 8);
}

void put_ipv6(Random& random, Bytes& frame) {
  const std::size_t start = frame.size();
  const u8 protocol = pool_protocol(random);
  put32(frame, 0x60000000);
  put16(frame, 0);
  put8(frame, protocol);
  put8(frame, random.one_in(3) ? 255 : random_ttl(random));
  std::array<u8, 16> address{};
  for (int i = 0; i < 2; i++) {
    pool_address6(random, address);
    if (random.one_in(24)) {
      const auto odd = random.pick(kOddAddresses6);
      address = {odd[0], odd[1]};
      address[15] = odd[2];
    }
    frame.insert(frame.end(), address.begin(), address.end());
  }
  std::size_t next = start + 6;
  for (u32 left = random.one_in(3) ? random.between(1, 3) : 0; left > 0; left--) {
    const u8 kind = random.pick(std::array<u8, 5>{XG_IPPROTO_HOPOPTS, XG_IPPROTO_ROUTING, XG_IPPROTO_DSTOPTS,
                                                  XG_IPPROTO_AH, XG_IPPROTO_FRAGMENT});
    const u32 units = kind == XG_IPPROTO_FRAGMENT ? 0 : random.below(4);
    frame[next] = kind;
    next = frame.size();
    put8(frame, protocol);
    put8(frame, units);
    put16(frame, kind == XG_IPPROTO_FRAGMENT ? random.pick(std::array<u32, 3>{0x0001, 0x0009, 0x0100}) : 0);
    put_random(random, frame, (kind == XG_IPPROTO_AH ? (units + 2) * 4 : (units + 1) * 8) - 4);
  }
  put_l4(random, frame, protocol);
  set16(frame, start + 4, said_length(random, frame.size() - start - 40, 0));
}

// MAC addresses and tags.
Bytes random_ethernet(Random& random) {
  Bytes frame;
  // Few MAC addresses, but never the same one twice in a frame.
  put32(frame, (random.one_in(30) ? 0x03000000 : 0x02000000) + random.below(8));
  put16(frame, random.below(3));
  put32(frame, 0x02010000 + random.below(8));
  put16(frame, random.below(3));
  for (u32 tags = random.one_in(3) ? random.between(1, 3) : 0; tags > 0; tags--) {
    put16(frame, random.pick(std::array<u32, 3>{0x8100, 0x88a8, 0x9100}));
    put16(frame, random.pick(std::array<u32, 3>{0, 10, 0x6064}));
  }
  return frame;
}

// Headers that are often cut off or garbled.
Bytes damaged(Random& random, Bytes frame) {
  if (random.one_in(20)) {
    u8& byte = frame[random.between(12, static_cast<u32>(frame.size()) - 1)];
    byte = static_cast<u8>(byte ^ (1u << random.below(8)));
  }
  if (random.one_in(10)) frame.resize(random.between(14, static_cast<u32>(frame.size())));
  frame.resize(std::min<std::size_t>(frame.size(), 1500));
  return frame;
}

Bytes random_frame(Random& random) {
  Bytes frame = random_ethernet(random);
  const u32 kind = random.below(16);
  if (kind < 8) {
    put16(frame, 0x0800);
    put_ipv4(random, frame);
  } else if (kind < 14) {
    put16(frame, 0x86dd);
    put_ipv6(random, frame);
  } else {
    put16(frame, random.pick(std::array<u32, 3>{0x0806, 0x88cc, 0x0004}));
    put_random(random, frame, 46);
  }
  return damaged(random, std::move(frame));
}

// An IP packet, and with it the protocol number that it has inside of another one.
Bytes inner_packet(Random& random, u8& protocol) {
  Bytes inner;
  const bool v4 = random.one_in(2);
  protocol = v4 ? XG_IPPROTO_IPIP : XG_IPPROTO_IPV6;
  if (v4)
    put_ipv4(random, inner);
  else
    put_ipv6(random, inner);
  inner[1] = static_cast<u8>(random.below(4) << (v4 ? 0 : 4));
  if (random.one_in(16)) inner[0] = static_cast<u8>(random.bits());
  if (random.one_in(16)) protocol ^= XG_IPPROTO_IPIP ^ XG_IPPROTO_IPV6;
  if (random.one_in(10)) inner.resize(random.below(static_cast<u32>(inner.size()) + 1));
  return inner;
}

void put_outer4(Random& random, Bytes& frame, u8 protocol) {
  const u32 options = random.one_in(6) ? random.below(4) : 0;
  put8(frame, 0x45 + options);
  put8(frame, random.pick(std::array<u32, 6>{0, 1, 2, 3, 3, 0x13}));
  put32(frame, static_cast<u32>(random.bits()) & 0xffff);
  put16(frame, random.one_in(16) ? random.pick(std::array<u32, 2>{0x2000, 0x0010}) : 0x4000);
  put8(frame, 64);
  put8(frame, protocol);
  put16(frame, 0);
  put32(frame, pool_address4(random));
  put32(frame, 0x0a000000 | random.below(8));
  put_random(random, frame, options * 4);
}

void put_outer6(Random& random, Bytes& frame, u8 protocol) {
  const bool extended = random.one_in(6);
  put32(frame,
        0x60000000 | random.pick(std::array<u32, 6>{0, 1, 2, 3, 3, 0x13}) << 20 | random.below(1 << 20));
  put16(frame, 0);
  put8(frame, extended ? XG_IPPROTO_DSTOPTS : protocol);
  put8(frame, 64);
  std::array<u8, 16> address{};
  pool_address6(random, address);
  frame.insert(frame.end(), address.begin(), address.end());
  std::fill(address.begin() + 4, address.end(), u8{0});
  address[15] = static_cast<u8>(random.below(3));
  frame.insert(frame.end(), address.begin(), address.end());
  if (!extended) return;
  put8(frame, protocol);
  put8(frame, 0);
  put_random(random, frame, 6);
}

Bytes tunnel_frame(Random& random) {
  if (random.one_in(4)) return random_frame(random);
  Bytes frame = random_ethernet(random);
  u8 protocol = 0;
  const Bytes inner = inner_packet(random, protocol);
  const bool v4 = random.one_in(2), gue = random.one_in(2);
  if (gue) protocol = XG_IPPROTO_UDP;
  put16(frame, v4 ? 0x0800 : 0x86dd);
  const std::size_t start = frame.size();
  if (v4)
    put_outer4(random, frame, protocol);
  else
    put_outer6(random, frame, protocol);
  if (gue) {
    put16(frame, 0xc000 + random.below(8));
    put16(frame, random.pick(std::array<u32, 6>{6080, 6080, 6080, 6080, 6081, 53}));
    put16(frame, static_cast<u32>(said_length(random, inner.size() + 8, 0)));
    put16(frame, 0);
  }
  frame.insert(frame.end(), inner.begin(), inner.end());
  const std::size_t bytes = frame.size() - start;
  set16(frame, start + (v4 ? 2 : 4), said_length(random, v4 ? bytes : bytes - 40, 0));
  if (random.one_in(4)) put_random(random, frame, random.below(20));
  return damaged(random, std::move(frame));
}

// ---- Placing them in the region --------------------------------------------------------------------

// One in four was received by somebody whose MAC address is hardly any frame's.
xg_metadata parse_metadata(std::span<const u8> frame, u16 pipeline, u32 sequence) {
  constexpr std::array<u8, 6> kOther{0x02, 0, 0, 0, 0, 1};
  static const xg_hash_keys kFlowKeys = xg_hash_keys_from(1, 2);
  xg_packet packet;
  xg_parse(frame.data(), frame.data() + frame.size(), static_cast<u8>(sequence % 3), &packet);
  xg_router_look(frame.data(), frame.data() + frame.size(),
                 xg_mac_number(sequence % 4 == 3 ? kOther.data() : frame.data()) | XG_MAC_KNOWN, &packet);
  xg_metadata metadata{};
  xg_metadata_from(&metadata, &packet, xg_flow_hash(&packet.key, &kFlowKeys));
  metadata.rx_time_ns = 1'000'000'000 + sequence;
  metadata.generation = kGeneration;
  metadata.sequence = sequence;
  metadata.pipeline = pipeline;
  return metadata;
}

// A number that is often just inside or outside of something.
u16 odd_number(Random& random, u32 length) {
  const std::array<u32, 9> numbers{0,           1,           13,     length - 4,         length - 20,
                                   length - 40, length - 1u, 0xffff, random.below(65536)};
  return static_cast<u16>(random.pick(numbers) + (random.one_in(4) ? random.below(3) : 0));
}

void spoil_metadata(Random& random, u8* at, u32 length) {
  xg_metadata metadata;
  std::memcpy(&metadata, at, sizeof(metadata));
  switch (random.below(7)) {
    case 0:
      metadata.l3_offset = static_cast<u8>(odd_number(random, length));
      break;
    case 1:
      metadata.l4_offset = odd_number(random, length);
      break;
    case 2:
      metadata.flags = static_cast<u16>(metadata.flags ^ (1u << random.below(12)));
      break;
    case 3:
      metadata.flags = static_cast<u16>(random.bits());
      break;
    case 4:
      metadata.generation = static_cast<u32>(random.bits());
      break;
    case 5:
      metadata.pipeline = static_cast<u16>(random.bits());
      break;
    default:
      for (u32 i = 0; i < XG_METADATA_SIZE; i++) at[i] = static_cast<u8>(random.bits());
      return;
  }
  std::memcpy(at, &metadata, sizeof(metadata));
}

void spoil_descriptor(Random& random, xg_descriptor& descriptor, u64 region) {
  switch (random.below(8)) {
    case 0:
      descriptor.length = random.below(14);
      break;
    case 1:
      descriptor.length = random.between(XG_CHUNK_SIZE - 2, XG_CHUNK_SIZE + 2);
      break;
    case 2:
      descriptor.length = static_cast<u32>(random.bits());
      break;
    case 3:
      descriptor.offset = random.below(XG_METADATA_SIZE + 2);
      break;
    case 4:
      descriptor.offset = region - descriptor.length + random.below(3);
      break;
    case 5:
      descriptor.offset = region + random.below(64);
      break;
    case 6:
      descriptor.offset = random.bits();
      break;
    default:
      descriptor.offset = ~u64{0} - random.below(64);
      break;
  }
}

struct CloseCapture {
  void operator()(pcap_t* capture) const { pcap_close(capture); }
};

void read_capture(const std::string& path, std::vector<Bytes>& frames) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  const std::unique_ptr<pcap_t, CloseCapture> capture(pcap_open_offline(path.c_str(), error.data()));
  if (capture == nullptr) throw std::runtime_error(fmt::format("{}: {}", path, error.data()));
  if (pcap_datalink(capture.get()) != DLT_EN10MB) return;
  pcap_pkthdr* header = nullptr;
  const u8* bytes = nullptr;
  while (pcap_next_ex(capture.get(), &header, &bytes) == 1)
    if (header->caplen >= 14) frames.emplace_back(bytes, bytes + std::min(header->caplen, XG_FRAME_MAX));
}

// Nobody has read the metadata, which are those that they should be, or, seldom, are not.
u32 expectation(Random& random, const u8* at) {
  xg_metadata metadata;
  std::memcpy(&metadata, at, sizeof(metadata));
  const u32 flags = XG_DESC_EXPECTED(u32{metadata.port}, metadata.sequence);
  return random.one_in(16) ? flags ^ 4u << random.below(30) : flags;
}

}  // namespace

xg_descriptor place(const FrameRegion& region, u64 offset, std::span<const u8> frame, u16 pipeline,
                    u32 sequence) {
  const xg_metadata metadata = parse_metadata(frame, pipeline, sequence);
  std::memcpy(region.base() + offset, frame.data(), frame.size());
  std::memcpy(region.base() + offset - XG_METADATA_SIZE, &metadata, sizeof(metadata));
  return {offset, static_cast<u32>(frame.size()), 0};
}

u64 test_seed() {
  static const u64 seed = [] {
    const char* given = std::getenv("XDPGPU_TEST_SEED");
    const u64 value = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    fmt::print("XDPGPU_TEST_SEED={}\n", value);
    return value;
  }();
  return seed;
}

FrameRegion::FrameRegion(u64 bytes) : bytes_(bytes) {
  void* memory = mmap(nullptr, bytes + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<u8*>(memory) + kGuard;
  if (mprotect(base_, bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
}

FrameRegion::~FrameRegion() {
  if (base_ != nullptr) munmap(base_ - kGuard, bytes_ + 2 * kGuard);
}

FrameRegion::FrameRegion(FrameRegion&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

u32 pool_address4(Random& random) {
  return 0x0a000000 | random.below(3) << 16 | random.below(3) << 8 | random.below(8);
}

void pool_address6(Random& random, std::span<u8> bytes) {
  constexpr std::array<u8, 4> net{0x20, 0x01, 0x0d, 0xb8};
  std::fill(bytes.begin(), bytes.end(), u8{0});
  std::copy(net.begin(), net.end(), bytes.begin());
  for (u32 at : {5, 7, 11, 15}) bytes[at] = static_cast<u8>(random.below(3));
}

u16 pool_port(Random& random) {
  constexpr std::array<u16, 10> ports{0, 1, 22, 53, 80, 443, 8000, 8050, 8099, 65535};
  return random.pick(ports);
}

u8 pool_protocol(Random& random) {
  constexpr std::array<u8, 9> protocols{6, 6, 6, 17, 17, 1, 58, 132, 47};
  return random.pick(protocols);
}

namespace {

Traffic traffic_of(Random& random, u32 packets, u32 pipelines, Bytes (*make)(Random&)) {
  Traffic traffic{FrameRegion(u64{packets} * XG_CHUNK_SIZE), {}};
  for (u32 i = 0; i < packets; i++) {
    const u64 offset = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA + (random.one_in(4) ? random.below(8) : 0);
    const auto pipeline = static_cast<u16>(random.below(pipelines));
    xg_descriptor descriptor = place(traffic.region, offset, make(random), pipeline, i);
    if (random.one_in(16))
      spoil_metadata(random, traffic.region.base() + offset - XG_METADATA_SIZE, descriptor.length);
    if (random.one_in(16)) spoil_descriptor(random, descriptor, traffic.region.size());
    // A packet of two or three buffers: whatever the later ones hold is not looked at.
    if (random.one_in(32))
      descriptor.flags |= XG_DESC_MORE;
    else if (random.one_in(2))
      descriptor.flags = expectation(random, traffic.region.base() + offset - XG_METADATA_SIZE);
    traffic.descriptors.push_back(descriptor);
  }
  traffic.descriptors.back().flags = 0;
  return traffic;
}

}  // namespace

Traffic random_traffic(Random& random, u32 packets, u32 pipelines) {
  return traffic_of(random, packets, pipelines, random_frame);
}
Traffic tunnels(Random& random, u32 packets, u32 pipelines) {
  return traffic_of(random, packets, pipelines, tunnel_frame);
}

Traffic captured_traffic(const std::string& directory, u32 pipelines) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().extension() == ".pcap") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> frames;
  for (const std::string& path : paths) read_capture(path, frames);

  Traffic traffic{FrameRegion(std::max<u64>(2, (frames.size() + 1) & ~u64{1}) * XG_CHUNK_SIZE), {}};
  for (u32 i = 0; i < frames.size(); i++)
    traffic.descriptors.push_back(place(traffic.region, u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA, frames[i],
                                        static_cast<u16>(i % pipelines), i));
  return traffic;
}

Traffic single_frame(std::span<const u8> frame, u16 pipeline, u8 router) {
  Traffic traffic{FrameRegion(4096), {}};
  traffic.descriptors.push_back(place(traffic.region, XG_FRAME_DATA, frame, pipeline, 0));
  traffic.region.base()[XG_FRAME_DATA - XG_METADATA_SIZE + offsetof(xg_metadata, router)] = router;
  return traffic;
}

Traffic with_frames(Random& random, u32 packets, u32 pipelines, std::vector<u8> (*frame_of)(Random&)) {
  Traffic from = random_traffic(random, packets, pipelines);
  Traffic traffic{std::move(from.region), {}};
  for (std::size_t i = 0; i < from.descriptors.size(); i++) {
    xg_descriptor descriptor = from.descriptors[i];
    const u64 chunk = i * u64{XG_CHUNK_SIZE};
    if (random.one_in(8) || descriptor.offset < chunk + XG_FRAME_DATA ||
        descriptor.offset > chunk + XG_CHUNK_SIZE - 1000) {
      traffic.descriptors.push_back(descriptor);
      continue;
    }
    const std::vector<u8> frame = frame_of(random);
    u8* const at = traffic.region.base() + descriptor.offset;
    std::memcpy(at, frame.data(), frame.size());
    const auto length = static_cast<u32>(frame.size());
    const bool cut = random.one_in(4);
    const u32 first = cut ? random.between(14, length - 1) : length;
    xg_packet packet;
    xg_parse_part(at, at + first, length, static_cast<u8>(i % 3), &packet);
    xg_metadata metadata;
    std::memcpy(&metadata, at - XG_METADATA_SIZE, sizeof(metadata));
    xg_metadata_from(&metadata, &packet, metadata.flow_hash);
    std::memcpy(at - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    traffic.descriptors.push_back({descriptor.offset, first, cut ? XG_DESC_MORE : 0});
    if (cut) traffic.descriptors.push_back({descriptor.offset + first, length - first, 0});
  }
  return traffic;
}

}  // namespace xdpgpu::tests
