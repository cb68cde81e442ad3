// SPDX-License-Identifier: MIT
#include "bench/reputation/workload.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <tuple>

#include "maps/parse.h"
#include "userspace/policy/values.hpp"

namespace xdpgpu::bench {
namespace {

constexpr u32 kFrameBytes = 64;
constexpr u32 kExceptionShare = 100;
constexpr const char* kPolicy = R"({
  "version": 1,
  "lists": { "feed": { "file": "feed.txt" }, "exceptions": { "file": "exceptions.txt" } },
  "rules": [{ "match": {}, "action": { "inspect": "main" } }],
  "pipelines": {
    "main": [
      {
        "stage": "reputation",
        "lists": [{ "list": "@feed", "action": "drop" }, { "list": "@exceptions", "action": "pass" }]
      }
    ]
  }
}
)";
constexpr u32 kFeed = 1, kExceptions = 2;

class Random {
 public:
  u64 word() { return random_(); }
  u32 below(u32 count) { return static_cast<u32>(random_() >> 32) % count; }

  // A global unicast address: 1.0.0.0 to 223.255.255.255, 2000::/3.
  void address(u8 family, u8* bytes) {
    const u64 words[] = {random_(), random_()};
    std::memcpy(bytes, words, family == 4 ? 4 : 16);
    bytes[0] = static_cast<u8>(family == 4 ? 1 + bytes[0] % 223 : 0x20 | (bytes[0] & 0x1f));
  }
  // Hosts, their networks and whole providers, as feeds mix them.
  u8 length(u8 family) {
    const u32 which = below(100);
    if (family == 4) return static_cast<u8>(which < 60 ? 32 : which < 85 ? 24 : 14 + below(18));
    return static_cast<u8>(which < 40 ? 128 : which < 80 ? 64 : 29 + below(36));
  }
  // Random bits behind the prefix.
  void fill_behind(u8 family, u32 length, u8* bytes) {
    for (u32 i = length / 8; i < (family == 4 ? 4u : 16u); ++i) {
      const u32 kept = i == length / 8 ? length % 8 : 0;
      const u32 behind = 0xffu >> kept;
      bytes[i] = static_cast<u8>((bytes[i] & ~behind) | (random_() & behind));
    }
  }

 private:
  std::mt19937_64 random_{20261122};
};

void clear_behind(policy::Prefix& prefix) {
  for (u32 i = prefix.length / 8; i < 16; ++i) {
    const u32 kept = i == prefix.length / 8 ? prefix.length % 8u : 0;
    prefix.address[i] = static_cast<u8>(prefix.address[i] & (0xff00u >> kept));
  }
}

std::string text_of(const std::vector<policy::Prefix>& prefixes) {
  std::string text;
  for (const policy::Prefix& prefix : prefixes) text += policy::write_prefix(prefix) + "\n";
  return text;
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file.flush()) throw std::runtime_error(fmt::format("cannot write {}", path));
}

void put16(u8* at, u32 value) {
  at[0] = static_cast<u8>(value >> 8);
  at[1] = static_cast<u8>(value);
}

// Ethernet, IP, the first bytes of UDP.
void write_headers(u8* frame, u8 family, const u8* source) {
  std::memset(frame, 0, kFrameBytes);
  frame[0] = frame[6] = 2;
  put16(frame + 12, family == 4 ? 0x0800 : 0x86dd);
  u8* const ip = frame + 14;
  u8* udp = ip + 40;
  if (family == 4) {
    ip[0] = 0x45;
    put16(ip + 2, kFrameBytes - 14);
    ip[8] = 64;
    ip[9] = 17;
    std::memcpy(ip + 12, source, 4);
    udp = ip + 20;
  } else {
    ip[0] = 0x60;
    put16(ip + 4, kFrameBytes - 54);
    ip[6] = 17;
    ip[7] = 64;
    std::memcpy(ip + 8, source, 16);
  }
  put16(udp, 4000);
  put16(udp + 2, 53);
  put16(udp + 4, kFrameBytes - static_cast<u32>(udp - frame));
}

}  // namespace

Workload::Workload(const WorkloadSettings& settings)
    : settings_(settings),
      tables_(u64{settings.prefixes} * 2 + 1024),
      sources_(settings.frames),
      pages_(u64{settings.frames} * XG_CHUNK_SIZE, false),
      descriptors_(settings.frames) {
  Random random;
  const auto family = [&] { return static_cast<u8>(random.below(100) < settings_.percent6 ? 6 : 4); };
  std::vector<policy::Prefix> feed(settings.prefixes);
  for (policy::Prefix& prefix : feed) {
    prefix.family = family();
    prefix.length = random.length(prefix.family);
    random.address(prefix.family, prefix.address);
    clear_behind(prefix);
  }
  std::vector<policy::Prefix> exceptions;
  for (u32 i = 0; i < settings.prefixes / kExceptionShare; ++i) {
    policy::Prefix prefix = feed[random.below(settings.prefixes)];
    const u32 most = prefix.family == 4 ? 32 : 128;
    if (prefix.length == most) continue;
    random.fill_behind(prefix.family, prefix.length, prefix.address);
    prefix.length = static_cast<u8>(most);
    exceptions.push_back(prefix);
  }
  for (Source& source : sources_) {
    source.family = family();
    random.address(source.family, source.address);
    const u32 from = random.below(4);  // beside the lists mostly, in the feed, in the exceptions
    if (from < 2 || (from == 3 && exceptions.empty())) continue;
    const policy::Prefix& prefix = from == 2 ? feed[random.below(settings.prefixes)]
                                             : exceptions[random.below(static_cast<u32>(exceptions.size()))];
    source.family = prefix.family;
    std::memcpy(source.address, prefix.address, 16);
    random.fill_behind(prefix.family, prefix.length, source.address);
  }
  for (const policy::Prefix& prefix : feed) tables_.add(prefix, kFeed);
  for (const policy::Prefix& prefix : exceptions) tables_.add(prefix, kExceptions);
  write_frames();
  if (settings.sorted)
    std::sort(feed.begin(), feed.end(), [](const policy::Prefix& a, const policy::Prefix& b) {
      const int order = a.family != b.family ? a.family - b.family : std::memcmp(a.address, b.address, 16);
      return order != 0 ? order < 0 : a.length < b.length;
    });
  std::string folder = (std::filesystem::temp_directory_path() / "xdpgpu-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error(fmt::format("cannot make {}", folder));
  folder_ = folder;
  write_lists(feed, exceptions);
}

Workload::~Workload() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string Workload::policy_file() const { return folder_ + "/policy.json"; }

void Workload::write_lists(const std::vector<policy::Prefix>& feed,
                           const std::vector<policy::Prefix>& exceptions) {
  feed_ = "# made by bench-reputation\n" + text_of(feed);
  write_file(folder_ + "/feed.txt", feed_);
  write_file(folder_ + "/exceptions.txt", text_of(exceptions));
  write_file(policy_file(), kPolicy);
}

void Workload::edit() {
  for (const Source& source : sources_) {
    if (tables_.find(source.family, source.address) != 0) continue;
    policy::Prefix prefix{source.family, static_cast<u8>(source.family == 4 ? 32 : 128), {}};
    std::memcpy(prefix.address, source.address, 16);
    tables_.add(prefix, kFeed);
    feed_ += policy::write_prefix(prefix) + "\n";
    return write_file(folder_ + "/feed.txt", feed_);
  }
  throw std::runtime_error("every frame's address is listed: take more frames");
}

void Workload::write_frames() {
  std::vector<u32> chunks(settings_.frames);
  std::iota(chunks.begin(), chunks.end(), 0u);
  std::shuffle(chunks.begin(), chunks.end(), std::mt19937_64(7));
  for (u32 i = 0; i < settings_.frames; ++i) {
    const u64 offset = u64{chunks[i]} * XG_CHUNK_SIZE + XG_FRAME_DATA;
    u8* const frame = pages_.base() + offset;
    write_headers(frame, sources_[i].family, sources_[i].address);
    xg_packet parsed;
    xg_parse(frame, frame + kFrameBytes, 0, &parsed);
    xg_metadata metadata{};
    metadata.rx_time_ns = i + 1;
    metadata.generation = DeviceQueue::kGeneration;
    metadata.sequence = i;
    xg_metadata_from(&metadata, &parsed, i);
    std::memcpy(frame - sizeof(metadata), &metadata, sizeof(metadata));
    descriptors_[i] = {offset, kFrameBytes, 0};
  }
}

std::vector<u32> Workload::verdicts() const {
  std::vector<u32> verdicts;
  verdicts.reserve(sources_.size());
  for (const Source& source : sources_) {
    const u32 list = tables_.find(source.family, source.address);
    verdicts.push_back(list == kFeed         ? XG_VERDICT(XG_DROP, 0u, 1u, kFeed)
                       : list == kExceptions ? XG_VERDICT(XG_PASS, 0u, 1u, kExceptions)
                                             : XG_VERDICT(XG_PASS, 0u, 0u, 0u));
  }
  return verdicts;
}

u64 Workload::look_up_all() const {
  u64 sum = 0;
  for (const Source& source : sources_) sum += tables_.find(source.family, source.address);
  return sum;
}

}  // namespace xdpgpu::bench
