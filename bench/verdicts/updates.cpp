// SPDX-License-Identifier: MIT
#include "bench/verdicts/updates.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A flow verdict without its key.
struct HashValue {
  u8 bytes[sizeof(xg_flow_verdict) - sizeof(xg_flow_key)];
};

class Map {
 public:
  Map(bpf_map_type type, u32 key, u32 value, u32 entries)
      : fd_(bpf_map_create(type, "bench_verdicts", key, value, entries, nullptr)) {}
  ~Map() {
    if (fd_ >= 0) close(fd_);
  }
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

template <class Key, class Value>
double rate(bpf_map_type type, const std::vector<Key>& keys, const std::vector<Value>& values, u32 batch,
            std::string& problem) {
  const u32 count = static_cast<u32>(keys.size());
  const Map map(type, sizeof(Key), sizeof(Value), count);
  if (map.fd() < 0) {
    problem = fmt::format("the kernel makes no map of {} entries: {}", count, std::strerror(errno));
    return 0;
  }
  const auto start = Clock::now();
  for (u32 i = 0; i < count;) {
    u32 written = std::min(batch, count - i);
    const int error = batch == 1 ? bpf_map_update_elem(map.fd(), &keys[i], &values[i], BPF_ANY)
                                 : bpf_map_update_batch(map.fd(), &keys[i], &values[i], &written, nullptr);
    if (error != 0 || written == 0) {
      problem = fmt::format("the kernel refused entry {} of {}: {}", i, count, std::strerror(errno));
      return 0;
    }
    i += written;
  }
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  for (u32 i = 0; i < count && problem.empty(); ++i) {
    Value value;
    if (bpf_map_lookup_elem(map.fd(), &keys[i], &value) != 0 ||
        std::memcmp(&value, &values[i], sizeof(value)) != 0)
      problem = fmt::format("entry {} reads other than it was written", i);
  }
  return count / elapsed;
}

}  // namespace

double update_rate(MapKind kind, std::span<const xg_flow_verdict> entries, u32 batch, std::string& problem) {
  if (kind == MapKind::array) {
    std::vector<u32> indexes(entries.size());
    for (u32 i = 0; i < indexes.size(); ++i) indexes[i] = i;
    return rate(BPF_MAP_TYPE_ARRAY, indexes, std::vector<xg_flow_verdict>(entries.begin(), entries.end()),
                batch, problem);
  }
  std::vector<xg_flow_key> keys;
  std::vector<HashValue> values;
  for (const xg_flow_verdict& entry : entries) {
    keys.push_back(entry.key);
    HashValue value;
    std::memcpy(value.bytes, &entry, offsetof(xg_flow_verdict, key));
    std::memcpy(value.bytes + offsetof(xg_flow_verdict, key), &entry.verdict,
                sizeof(entry) - offsetof(xg_flow_verdict, verdict));
    values.push_back(value);
  }
  return rate(BPF_MAP_TYPE_HASH, keys, values, batch, problem);
}

}  // namespace xdpgpu::bench
