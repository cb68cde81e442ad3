// SPDX-License-Identifier: MIT
//
// Debian's own programs (xdp-tools), unmodified: what libbpf makes of the objects, in the kernel and in the
// reference.
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "tests/kernel/frame.hpp"
#include "tests/kernel/programs/twins.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::test {
namespace {

const std::filesystem::path kObjects = "/usr/lib/x86_64-linux-gnu/bpf";

struct Object {
  Code code;
  std::vector<Map> maps;
  u32 map(const std::string& name) const {
    const auto at = std::ranges::find(maps, name, &Map::name);
    return at == maps.end() ? ~0u : static_cast<u32>(at - maps.begin());
  }
};

// The first XDP program of it as it is loaded, its maps by number instead of by descriptor.
Object read(const std::filesystem::path& path) {
  const std::unique_ptr<bpf_object, void (*)(bpf_object*)> object(bpf_object__open(path.c_str()),
                                                                  bpf_object__close);
  if (object == nullptr) throw std::runtime_error(path.string() + " cannot be read");
  Object made;
  std::vector<int> descriptors;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object.get()) bpf_map__set_pin_path(map, nullptr);
  if (bpf_object__load(object.get()) != 0) throw std::runtime_error(path.string() + " cannot be loaded");
  bpf_object__for_each_map(map, object.get()) {
    if (bpf_map__fd(map) < 0) continue;
    descriptors.push_back(bpf_map__fd(map));
    made.maps.push_back(map_of(bpf_map__name(map), bpf_map__type(map), bpf_map__key_size(map),
                               bpf_map__value_size(map), bpf_map__max_entries(map), bpf_map__map_flags(map)));
    std::size_t bytes = 0;
    const auto* contents = static_cast<const u8*>(bpf_map__initial_value(map, &bytes));
    if (contents != nullptr) {
      made.maps.back().contents.assign(contents, contents + bytes);
      made.maps.back().flags &= ~u32{BPF_F_MMAPABLE};
    }
  }
  const bpf_program* program = bpf_object__next_program(object.get(), nullptr);
  const bpf_insn* instructions = bpf_program__insns(program);
  for (std::size_t at = 0; at < bpf_program__insn_cnt(program); ++at) {
    const bpf_insn& one = instructions[at];
    Instruction i = test::made(one.code, one.dst_reg, one.src_reg, one.off, one.imm);
    if (i.opcode == (BPF_LD | BPF_IMM | BPF_DW) &&
        (i.source == BPF_PSEUDO_MAP_FD || i.source == BPF_PSEUDO_MAP_VALUE)) {
      const auto found = std::ranges::find(descriptors, i.immediate);
      if (found == descriptors.end())
        throw std::runtime_error(path.string() + " names a map that it has not");
      i.source = i.source == BPF_PSEUDO_MAP_FD ? BPF_PSEUDO_MAP_IDX : BPF_PSEUDO_MAP_IDX_VALUE;
      i.immediate = static_cast<std::int32_t>(found - descriptors.begin());
    }
    made.code.push_back(i);
  }
  return made;
}

class XdpFilterTest : public ProgramTest, public testing::WithParamInterface<std::string> {};

// Addresses and ports that are filtered by source, by destination or both, and packets of which some have
// them.
TEST_P(XdpFilterTest, Filters) {
  const auto path = kObjects / (GetParam() + ".o");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here: install xdp-tools";
  const Object object = read(path);
  Twins twins(object.maps);
  const auto program = twins.add(object.code);
  ASSERT_TRUE(program) << twins.refusal();
  dataplane::Random random(1);
  const auto mark = [&](const char* name, const Bytes& key) {
    const u32 map = object.map(name);
    if (map == ~0u) return;
    // Source, destination, TCP, UDP: xdp-filter's four flags, and its count above them.
    Bytes value = bytes_of(u64{random() % 16 | 0x100u});
    value.resize(object.maps[map].value_bytes);
    ASSERT_TRUE(twins.update(map, key, value, BPF_ANY, Twins::kEveryQueue));
  };
  for (u32 i = 0; i < 4; ++i) {
    mark("filter_ipv4", address(fmt::format("192.0.2.{}", i)));
    mark("filter_ipv6", address(fmt::format("2001:db8::{}", i)));
    mark("filter_ethernet", Frame{2, 0, 0, 0, 0, static_cast<u8>(i)});
    const Bytes port = be16(80 + i);
    mark("filter_ports", {port[0], port[1], 0, 0});
  }
  std::array<u32, 5> actions{};
  for (int run = 0; run < 3000; ++run) {
    const auto port = [&] { return static_cast<u16>(80 + random() % 8); };
    const Frame transport = random() % 2 == 0 ? udp(port(), port(), random() % 20) : tcp(port(), port());
    const u8 protocol = transport.size() == 20 && transport[12] == 0x50 ? 6 : 17;
    Frame frame = ethernet(std::vector<u16>(random() % 3, 5));
    frame[0] = frame[6] = 2;
    std::fill_n(frame.begin() + 1, 5, u8{0});
    std::fill_n(frame.begin() + 7, 5, u8{0});
    frame[5] = static_cast<u8>(random() % 8);
    frame[11] = static_cast<u8>(random() % 8);
    const u32 a = random() % 8, b = random() % 8;
    switch (random() % 8) {
      case 0:
        frame = frame + arp_packet();
        break;
      case 1:
        frame = frame + be16(0x0800) + bytes(random() % 24);
        break;
      case 2:
      case 3:
      case 4:
        frame = frame + ipv4({.src = fmt::format("192.0.2.{}", a),
                              .dst = fmt::format("192.0.2.{}", b),
                              .protocol = protocol,
                              .options = bytes(random() % 4 == 0 ? 8 : 0, 1)},
                             transport);
        break;
      default:
        frame = frame + ipv6({.src = fmt::format("2001:db8::{}", a),
                              .dst = fmt::format("2001:db8::{}", b),
                              .next = protocol},
                             transport);
    }
    if (random() % 16 == 0) frame.resize(std::max<std::size_t>(14, random() % frame.size()));
    ASSERT_EQ(twins.run(*program, {.bytes = frame, .queue = random() % queues()}, run % 1000 == 999), "")
        << run;
    ASSERT_LT(twins.answer().action, actions.size());
    actions[twins.answer().action]++;
  }
  EXPECT_GT(actions[XDP_DROP], 100u);
  EXPECT_GT(actions[XDP_PASS], 100u);
}

std::vector<std::string> filters() {
  std::vector<std::string> names;
  for (const char* policy : {"alw", "dny"})
    for (const char* what : {"all", "eth", "ip", "tcp", "udp"})
      names.push_back(fmt::format("xdpfilt_{}_{}", policy, what));
  return names;
}
INSTANTIATE_TEST_SUITE_P(Objects, XdpFilterTest, testing::ValuesIn(filters()),
                         [](const testing::TestParamInfo<std::string>& one) { return one.param; });

}  // namespace
}  // namespace xdpgpu::test
