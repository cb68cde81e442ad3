// SPDX-License-Identifier: MIT
//
// tests/kernel/programs/twins.hpp: programs and maps twice: in the kernel, run by BPF_PROG_TEST_RUN, and in
// the sequential reference. What is done is done to both, and compared: verdict, bytes, every map.
//
//   Twins twins({map_of("counts", BPF_MAP_TYPE_ARRAY, 4, 8, 16)});
//   const auto program = twins.add(code);
//   EXPECT_EQ(twins.run(*program, {.bytes = packet}), "");
//
// In the kernel's copy of a program its calls of ktime_get_ns, get_prandom_u32 and get_smp_processor_id are
// replaced by functions that read what the packet says from a map. A packet's queue is the processor that
// runs it, so that queues are CPUs to per-CPU maps. The kernel's context says rx_queue_index 0 all the same,
// so only packets of queue 0 are for programs that read that.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/reference/program.hpp"
#include "tests/kernel/programs/assembler.hpp"
#include "tests/netns/lab/namespace.hpp"

namespace xdpgpu::test {

using Bytes = std::vector<u8>;
using gpu::programs::Map;
using gpu::reference::ProgramAnswer;
using gpu::reference::ProgramFault;
using gpu::reference::ProgramPacket;

inline Map map_of(std::string name, u32 type, u32 key_bytes, u32 value_bytes, u32 entries, u32 flags = 0) {
  Map map;
  map.name = std::move(name);
  map.type = type;
  map.key_bytes = key_bytes;
  map.value_bytes = value_bytes;
  map.entries = entries;
  map.flags = flags;
  return map;
}

template <class T>
Bytes bytes_of(const T& value) {
  const auto* first = reinterpret_cast<const u8*>(&value);
  return {first, first + sizeof(value)};
}

// What a number is in a packet, at `at`.
inline u64 word(const Bytes& bytes, std::size_t at) {
  u64 value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | bytes.at(at + i);
  return value;
}

class Twins {
 public:
  // How many there may be.
  static u32 processors();
  // Throws where the kernel refuses the maps. A perf_event_array has an event for each of its entries, which
  // are the processors.
  explicit Twins(std::vector<Map> maps);
  ~Twins();
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;

  // Its number; nothing where the kernel refuses it: refusal() says why.
  std::optional<u32> add(const Code& code);
  const std::string& refusal() const { return refusal_; }

  // As user space does it; true if both answer the same. A per-CPU map gets the value for CPU `queue`, and 0
  // for the others; with kEveryQueue for all.
  static constexpr u32 kEveryQueue = ~0u;
  bool update(u32 map, const Bytes& key, const Bytes& value, u64 flags = 0, u32 queue = 0);
  bool erase(u32 map, const Bytes& key);
  void put_program(u32 map, u32 index, u32 program);
  // A new map of the settings of `like`, into a map of maps. Its entries are compared, too.
  void put_map(u32 outer, u32 index, const Map& like);

  // Empty, or what is different. maps: whether these are looked at, too, which is long for those that are
  // large.
  std::string run(u32 program, const ProgramPacket& packet, bool maps = true);
  // Runs it in both without a comparison. In the kernel the packet is a live one: it goes where it is sent
  // (BPF_F_TEST_XDP_LIVE_FRAMES).
  void send(u32 program, const ProgramPacket& packet);
  // What has been put into the kernel's copy of a ringbuf since it was asked last, and is not discarded.
  std::vector<Bytes> put_out(u32 map);
  // What the reference answered to the last one.
  const ProgramAnswer& answer() const { return answer_; }

 private:
  struct Kernel;
  std::string difference_of_maps() const;

  std::unique_ptr<Kernel> kernel_;
  gpu::reference::ProgramMaps maps_;
  gpu::reference::ProgramSet set_;
  std::vector<std::shared_ptr<gpu::reference::ProgramMap>> inner_;
  ProgramAnswer answer_;
  std::string refusal_;
};

// How many CPUs packets may come to here: two at most, from 0 on.
u32 queues();

// Skips, with the reason, where programs cannot be loaded.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override;
};

}  // namespace xdpgpu::test
