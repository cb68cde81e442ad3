// SPDX-License-Identifier: MIT
//
// What the broker does of orders of programs that the kernel is to run: whatever stands in them, no more is
// loaded than such programs and their maps, for the interfaces that are attached; and it is let go of.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "tests/kernel/programs/assembler.hpp"
#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/control/kernel_programs.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/pins.hpp"

namespace xdpgpu::control {
namespace {

using namespace test;  // NOLINT: instructions are written by their names
using gpu::programs::Map;
using testing::HasSubstr;
using Port = KernelPrograms::Port;
using Bytes = std::vector<u8>;

Map map_of(const std::string& name, u32 type, u32 key_bytes, u32 value_bytes, u32 entries) {
  Map map;
  map.name = name;
  map.type = type;
  map.key_bytes = key_bytes;
  map.value_bytes = value_bytes;
  map.entries = entries;
  return map;
}

programs::ObjectProgram object_of(Code code, std::vector<Map> maps = {}) {
  programs::ObjectProgram object;
  object.program.name = "own";
  object.program.license = "GPL";
  object.program.instructions = std::move(code);
  object.program.maps = std::move(maps);
  object.section = "xdp";
  return object;
}
const Code kPasses{move_k(r0, XDP_PASS), leave()};
// Names the map, and does no more with it.
Code with_map(u32 number = 0) {
  Assembly a;
  a(test::map(r1, number), move_k(r0, XDP_PASS), leave());
  return a.code();
}
Code calls(int helper) {
  Assembly a;
  a(move_k(r1, 1), move_k(r2, 0), move_k(r3, 0), call(helper), move_k(r0, XDP_PASS), leave());
  return a.code();
}

Bytes word(u32 number, std::size_t bytes = 4) {
  Bytes all(bytes);
  std::memcpy(all.data(), &number, sizeof(number));
  return all;
}

std::string order_of(const programs::ObjectProgram& object,
                     std::vector<gpu::ProgramMapContents> contents = {},
                     std::vector<ProgramOrder::Number> interfaces = {}) {
  const auto bytes = programs::to_bytes(object);
  EXPECT_TRUE(bytes) << bytes.error();
  const auto order = to_bytes(ProgramOrder{
      .program = bytes.value_or(""), .contents = std::move(contents), .interfaces = std::move(interfaces)});
  EXPECT_TRUE(order) << order.error();
  return order.value_or("");
}

kernel::Fd memory_of(const std::string& bytes) {
  kernel::Fd memory(memfd_create("order", MFD_CLOEXEC));
  EXPECT_EQ(write(memory.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return memory;
}

TEST(KernelProgramOrders, AreReadAsTheyWereWritten) {
  const std::vector<gpu::ProgramMapContents> contents{
      {.map = 3, .entries = {{{1, 2}, {3, 4, 5}}, {{6, 7}, {8, 9, 10}}}},
      {.map = 1, .entries = {{{0}, {1}}}}};
  const auto bytes = to_bytes({.program = "its bytes", .contents = contents, .interfaces = {{0, 7}, {1, 9}}});
  ASSERT_TRUE(bytes) << bytes.error();
  const auto order = order_from(*bytes);
  ASSERT_TRUE(order) << order.error();
  EXPECT_EQ(order->program, "its bytes");
  EXPECT_EQ(order->contents, contents);
  ASSERT_EQ(order->interfaces.size(), 2u);
  EXPECT_EQ(order->interfaces[1].port, 1u);
  EXPECT_EQ(order->interfaces[1].ifindex, 9u);
  for (std::size_t length = 0; length < bytes->size(); length++)
    EXPECT_FALSE(order_from(std::string_view(*bytes).substr(0, length))) << length;
  EXPECT_FALSE(order_from(*bytes + "x"));
  for (std::size_t at = 0; at < bytes->size(); at++) {
    std::string damaged = *bytes;
    damaged[at] = static_cast<char>(~damaged[at]);
    (void)order_from(damaged);
  }
}

// One port, whose array is at hand.
class KernelProgramsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "the kernel is asked as root: run it with sudo";
    std::error_code error;
    std::filesystem::create_directories(kernel::names::pin_folder(kName), error);
    if (error) GTEST_SKIP() << "nothing can be pinned here: " << error.message();
    array_ = kernel::Fd(
        bpf_map_create(BPF_MAP_TYPE_PROG_ARRAY, "user_programs", 4, 4, 2 * XG_MAX_PROGRAMS, nullptr));
    ASSERT_TRUE(array_);
    port_ = {.ifname = kName, .ifindex = 7, .programs = array_.get()};
  }
  void TearDown() override { kernel::remove_pins(kName); }

  std::string why_not(const std::string& order, u32 slot = 0, u32 number = 0,
                      const std::string& pipeline = "web") {
    const auto loaded = programs_.load(slot, number, pipeline, memory_of(order), {port_});
    return loaded ? "" : loaded.error();
  }
  // The program's number in the kernel; 0: there is none.
  u32 in_array(u32 slot, u32 number = 0) const {
    const u32 index = slot * XG_MAX_PROGRAMS + number;
    u32 id = 0;
    return bpf_map_lookup_elem(array_.get(), &index, &id) == 0 ? id : 0;
  }
  static std::string pin(const std::string& below) { return kernel::names::pin_folder(kName) + "/" + below; }
  static kernel::Fd pinned(const std::string& below) { return kernel::Fd(bpf_obj_get(pin(below).c_str())); }

  static constexpr const char* kName = "xgkp0";
  kernel::Fd array_;
  Port port_;
  KernelPrograms programs_;
};

TEST_F(KernelProgramsTest, AreLoadedPinnedAndLetGo) {
  const auto object = object_of(with_map(), {map_of("numbers.x", BPF_MAP_TYPE_HASH, 4, 8, 100)});
  const gpu::ProgramMapContents contents{.map = 0, .entries = {{word(5), word(6, 8)}}};
  EXPECT_EQ(why_not(order_of(object, {contents}, {{0, 7}}), 1, 3), "");
  EXPECT_NE(in_array(1, 3), 0u);
  EXPECT_EQ(in_array(0, 3), 0u);
  EXPECT_FALSE(pinned("programs/web/1/numbers:x")) << "it is not in force";
  programs_.put_in_force(1, {port_});
  const auto map = pinned("programs/web/1/numbers:x");
  ASSERT_TRUE(map);
  const u32 key = 5;
  u64 value = 0;
  ASSERT_EQ(bpf_map_lookup_elem(map.get(), &key, &value), 0);
  EXPECT_EQ(value, 6u);
  EXPECT_EQ(*kernel::map_entries(map.get()), 100u) << "as large as the object says";
  programs_.put_in_force(0, {port_});
  EXPECT_FALSE(std::filesystem::exists(pin("programs")));
  programs_.retire(1, {port_});
  EXPECT_EQ(in_array(1, 3), 0u);
}

// Of a program that devices run: its maps alone, at its stage.
TEST_F(KernelProgramsTest, MapsAloneAreMadePinnedAndKept) {
  Map flows = map_of("flows", BPF_MAP_TYPE_LRU_HASH, 4, 8, 2);
  flows.flags = BPF_F_NO_COMMON_LRU;
  const auto object = object_of(with_map(), {map_of("numbers", BPF_MAP_TYPE_HASH, 4, 8, 100),
                                             map_of("ports", BPF_MAP_TYPE_DEVMAP, 4, 4, 2),
                                             map_of("more", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 2), flows});
  const std::string order = order_of(object, {{.map = 0, .entries = {{word(5), word(6, 8)}}},
                                              {.map = 2, .entries = {{word(1), word(9, 8)}}}});
  const auto made = programs_.make_maps(0, 7, "2 web", memory_of(order), {port_});
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->count, 3u) << "a devmap is the device's alone";
  EXPECT_FALSE(made->kept);
  ASSERT_NE(programs_.map(0, 7, 1), nullptr);
  EXPECT_EQ(programs_.map(0, 7, 1)->number, 2u);
  EXPECT_EQ(programs_.map(0, 7, 3), nullptr);
  EXPECT_EQ(programs_.map(1, 7, 0), nullptr);
  programs_.put_in_force(0, {port_});
  const u32 key = 5;
  u64 value = 0;
  ASSERT_EQ(bpf_map_lookup_elem(pinned("programs/web/2/numbers").get(), &key, &value), 0);
  EXPECT_EQ(value, 6u);
  EXPECT_TRUE(pinned("programs/web/2/more"));
  bpf_map_info info{};
  u32 bytes = sizeof(info);
  ASSERT_EQ(bpf_obj_get_info_by_fd(pinned("programs/web/2/flows").get(), &info, &bytes), 0);
  EXPECT_EQ(info.type, u32{BPF_MAP_TYPE_HASH}) << "what an LRU hash loses, the device's does";
  EXPECT_FALSE(std::filesystem::exists(pin("programs/web/2/ports")));
  EXPECT_EQ(in_array(0, 7), 0u) << "no packet comes to a program";
  value = 77;
  ASSERT_EQ(bpf_map_update_elem(programs_.map(0, 7, 0)->map.get(), &key, &value, BPF_ANY), 0);
  // The next policy's are the same where program and first contents are.
  const auto kept = programs_.make_maps(1, 3, "2 web", memory_of(order), {port_});
  ASSERT_TRUE(kept) << kept.error();
  EXPECT_TRUE(kept->kept);
  value = 0;
  ASSERT_EQ(bpf_map_lookup_elem(programs_.map(1, 3, 0)->map.get(), &key, &value), 0);
  EXPECT_EQ(value, 77u);
  EXPECT_FALSE(programs_.make_maps(1, 4, "1 web", memory_of(order), {port_}).value().kept)
      << "another stage's";
  EXPECT_FALSE(programs_.make_maps(1, 5, "2 webs", memory_of(order_of(object)), {port_}).value().kept);
  for (const char* place : {"web", " web", "0 web", "-1 web", "63 web", "2 ", "2 ../web", "2  web", "2x web"})
    EXPECT_FALSE(programs_.make_maps(1, 6, place, memory_of(order), {port_})) << place;
  EXPECT_FALSE(programs_.make_maps(1, kMaxMapOrders, "3 web", memory_of(order), {port_}));
  EXPECT_FALSE(programs_.make_maps(1, 6, "3 web", memory_of(order.substr(1)), {port_}));
  EXPECT_FALSE(programs_.make_maps(1, 3, "3 web", memory_of(order), {port_}))
      << "its memory would be nobody's";
  programs_.put_in_force(1, {port_});
  programs_.retire(0, {port_});
  EXPECT_TRUE(pinned("programs/web/1/numbers"));
  EXPECT_EQ(programs_.map(0, 7, 0), nullptr);
}

TEST_F(KernelProgramsTest, TheSameGoesOnWithItsMaps) {
  const auto object = object_of(with_map(), {map_of("numbers", BPF_MAP_TYPE_ARRAY, 4, 8, 4)});
  ASSERT_EQ(why_not(order_of(object), 0), "");
  programs_.put_in_force(0, {port_});
  const u32 key = 1;
  const u64 value = 99;
  ASSERT_EQ(bpf_map_update_elem(pinned("programs/web/1/numbers").get(), &key, &value, BPF_ANY), 0);
  const u32 first = in_array(0);
  const auto now = [&] {
    u64 is = 0;
    EXPECT_EQ(bpf_map_lookup_elem(pinned("programs/web/1/numbers").get(), &key, &is), 0);
    return is;
  };
  ASSERT_EQ(why_not(order_of(object), 1), "");
  EXPECT_EQ(in_array(1), first);
  programs_.put_in_force(1, {port_});
  programs_.retire(0, {port_});
  EXPECT_EQ(now(), 99u);
  // With other first contents it is another one.
  const gpu::ProgramMapContents contents{.map = 0, .entries = {{word(1), word(3, 8)}}};
  ASSERT_EQ(why_not(order_of(object, {contents}), 0), "");
  EXPECT_NE(in_array(0), first);
  EXPECT_EQ(now(), 99u) << "until it is in force";
  programs_.put_in_force(0, {port_});
  EXPECT_EQ(now(), 3u);
  EXPECT_THAT(why_not(order_of(object), 1), HasSubstr("of that number already")) << "it is not retired yet";
  programs_.retire(1, {port_});
  // One that was to follow and does not leaves nothing.
  ASSERT_EQ(why_not(order_of(object), 1), "");
  programs_.retire(1, {port_});
  EXPECT_FALSE(std::filesystem::exists(pin("programs_next")));
  EXPECT_EQ(in_array(1), 0u);
  EXPECT_EQ(now(), 3u);
}

TEST_F(KernelProgramsTest, GoOnWithOthersOfTheirObject) {
  auto object = object_of(
      [] {
        Assembly a;
        a(test::map(r2, 0), move_k(r3, 1), call(BPF_FUNC_tail_call), move_k(r0, XDP_DROP), leave());
        return a.code();
      }(),
      {map_of("parts", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 4)});
  object.program.tails.push_back({.name = "second", .instructions = {move_k(r0, XDP_TX), leave()}});
  const gpu::ProgramMapContents contents{.map = 0, .entries = {{word(1), word(1)}}};
  ASSERT_EQ(why_not(order_of(object, {contents})), "");
  const kernel::Fd program(bpf_prog_get_fd_by_id(in_array(0)));
  Bytes packet(64);
  LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = packet.data(),
              .data_size_in = static_cast<u32>(packet.size()));
  ASSERT_EQ(bpf_prog_test_run_opts(program.get(), &run), 0);
  EXPECT_EQ(run.retval, static_cast<u32>(XDP_TX));
  const gpu::ProgramMapContents beyond{.map = 0, .entries = {{word(1), word(2)}}};
  EXPECT_THAT(why_not(order_of(object, {beyond}), 1), HasSubstr("a program that it has not"));
}

TEST_F(KernelProgramsTest, NothingElseIsLoaded) {
  EXPECT_THAT(why_not(""), HasSubstr("is not whole"));
  EXPECT_THAT(why_not(std::string(4096, '\0')), HasSubstr("is not whole"));
  const std::string whole = order_of(object_of(kPasses));
  EXPECT_THAT(why_not(whole.substr(0, whole.size() - 1)), HasSubstr("is not whole"));
  EXPECT_THAT(why_not(order_of(object_of({move_k(r0, 0)}))), HasSubstr("has no end"));
  // What reads the kernel's memory, and what sends anywhere.
  // Or means something else there than on devices.
  for (const auto& [helper, name] : {std::pair{BPF_FUNC_probe_read_kernel, "probe_read_kernel"},
                                     {BPF_FUNC_redirect, "redirect"},
                                     {BPF_FUNC_trace_printk, "trace_printk"},
                                     {BPF_FUNC_fib_lookup, "fib_lookup"},
                                     {BPF_FUNC_perf_event_output, "perf_event_output"},
                                     {BPF_FUNC_ringbuf_output, "ringbuf_output"}})
    EXPECT_THAT(why_not(order_of(object_of(calls(helper)))),
                HasSubstr(fmt::format("may not call {}, at instruction 3, in the kernel: ", name)));
  EXPECT_THAT(why_not(order_of(object_of({load(BPF_DW, r0, r1, 0), leave()}))),
              HasSubstr("the kernel's verifier refuses it: "));
  const auto of_type = [](u32 type) { return object_of(with_map(), {map_of("m", type, 0, 0, 4096)}); };
  for (const u32 type : {BPF_MAP_TYPE_RINGBUF, BPF_MAP_TYPE_PERF_EVENT_ARRAY})
    EXPECT_THAT(why_not(order_of(of_type(type))), HasSubstr("takes what it puts out for the log"));
  EXPECT_THAT(why_not(order_of(of_type(BPF_MAP_TYPE_QUEUE))),
              HasSubstr("is made for no program here (queue)"));
  EXPECT_THAT(why_not(order_of(object_of(with_map(), {map_of("m", BPF_MAP_TYPE_HASH, 4, 4, 16'000'000)}))),
              HasSubstr("MiB are left"));
  EXPECT_THAT(
      why_not(order_of(object_of(with_map(), {map_of("m", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 1u << 23)}))),
      HasSubstr("its maps of each processor"));
  const auto good = order_of(object_of(kPasses));
  EXPECT_NE(why_not(good, 2), "");
  EXPECT_NE(why_not(good, 0, XG_MAX_PROGRAMS), "");
  for (const char* name : {"", "../up", "a/b", "a b"}) EXPECT_NE(why_not(good, 0, 0, name), "") << name;
  EXPECT_EQ(why_not(good, 0, 0, ".."), "") << "a name that its pins do not have like that";
  EXPECT_THAT(why_not(good, 0, 1, ".."), HasSubstr("has a program already"));
  EXPECT_TRUE(std::filesystem::exists(pin("programs_next/::/1")));
}

TEST_F(KernelProgramsTest, SendToAttachedInterfacesAlone) {
  for (const u32 bytes : {4u, 8u}) {
    const auto object = object_of(with_map(), {map_of("ways", BPF_MAP_TYPE_DEVMAP, 4, bytes, 4)});
    const auto to = [&](u32 ifindex, u32 program = 0) {
      Bytes value = word(ifindex, bytes);
      if (bytes == 8) std::memcpy(value.data() + 4, &program, sizeof(program));
      return order_of(object, {{.map = 0, .entries = {{word(0), value}}}});
    };
    EXPECT_THAT(why_not(to(1)), HasSubstr("sends to interface 1"));
    if (bytes == 8) {
      EXPECT_THAT(why_not(to(7, 3)), HasSubstr("names a program beside an interface"));
    }
  }
  EXPECT_THAT(why_not(order_of(object_of(kPasses), {}, {{0, 70}})), HasSubstr("write 7"));
  EXPECT_THAT(why_not(order_of(object_of(kPasses), {}, {{1, 7}})), HasSubstr("not attached"));
  EXPECT_EQ(why_not(order_of(object_of(kPasses), {}, {{0, 7}})), "");
}

TEST_F(KernelProgramsTest, AreForPortsThatCanGoOnWithThem) {
  auto object = object_of(kPasses);
  Port jumbo = port_, dispatched = port_;
  jumbo.several_buffers = true;
  dispatched.in_dispatcher = true;
  const auto why = [&](const std::vector<Port>& ports) {
    const auto loaded = programs_.load(0, 0, "web", memory_of(order_of(object)), ports);
    return loaded ? "" : loaded.error();
  };
  EXPECT_THAT(why({port_, dispatched}), HasSubstr("dispatcher"));
  EXPECT_THAT(why({port_, jumbo}), HasSubstr("give them alike MTUs"));
  EXPECT_THAT(why({jumbo}), HasSubstr("xdp.frags"));
  object.fragments = true;
  EXPECT_EQ(why({jumbo}), "");
  programs_.retire(0, {jumbo});
  EXPECT_THAT(why({port_}), HasSubstr("cannot go on with it")) << "the first one said what all are like";
}

}  // namespace
}  // namespace xdpgpu::control
