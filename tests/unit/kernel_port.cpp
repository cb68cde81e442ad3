// SPDX-License-Identifier: MIT
//
// The kernel side of a port on a real interface: attaching beside and against others, pins, the
// reinjection pair, and that nothing stays. Needs root.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/path/bare.hpp"
#include "tests/netns/lab.hpp"
#include "userspace/kernel/access.hpp"
#include "userspace/kernel/egress_feed.hpp"
#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/netlink.hpp"
#include "userspace/kernel/pins.hpp"

namespace xdpgpu::kernel {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Port : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = lab::why_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    near_.emplace("near");
    far_.emplace("far");
    wire_.emplace(*near_, "xgn0", *far_, "xgf0", lab::VethOptions{.queues = 2});
    wire_->up();
  }

  PortOptions options() const {
    PortOptions out;
    out.ifname = wire_->a().ifname();
    out.ifindex = wire_->a().ifindex();
    out.queues = 2;
    out.flow_entries_per_queue = 64;
    return out;
  }

  std::unique_ptr<PortProgram> load() const {
    auto program = near_->run([&] { return PortProgram::load(options()); });
    if (!program) throw lab::Error(program.error());
    return std::move(*program);
  }

  u32 attached(bool generic = false) const {
    return near_->run([&] {
      bpf_xdp_query_opts query{};
      query.sz = sizeof(query);
      bpf_xdp_query(static_cast<int>(wire_->a().ifindex()), 0, &query);
      return generic ? query.skb_prog_id : query.drv_prog_id;
    });
  }

  // As its worker would.
  static void beat(const PortProgram& program, u64 age_ns) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    auto maps = program.maps();
    auto state = MapView<xg_queue_state>::open(maps->queue_state.get(), 2);
    ASSERT_TRUE(state) << state.error();
    (*state)[0].beat_ns =
        static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec) - age_ns;
  }

  std::optional<lab::Namespace> near_, far_;
  std::optional<lab::Veth> wire_;
};

TEST_F(Port, LoadsWithoutTouchingTheInterface) {
  const auto program = load();
  EXPECT_EQ(attached(), 0u);
  auto maps = program->maps();
  ASSERT_TRUE(maps) << maps.error();
  for (const int fd : maps->descriptors()) EXPECT_GE(fd, 0);
  const auto config = MapView<xg_config>::open(maps->config.get(), 1);
  ASSERT_TRUE(config) << config.error();
  EXPECT_EQ((*config)[0].state, XG_STATE_STARTING);
  EXPECT_EQ((*config)[0].queues, 2u);
  EXPECT_EQ((*config)[0].flow_entries_per_queue, 64u);
  EXPECT_NE((*config)[0].hash_key[0], 0u);
  // Two queues, two shards each.
  EXPECT_TRUE(MapView<xg_flow_verdict>::open(maps->flow_verdicts.get(), 256));
  const auto too_long = MapView<xg_flow_verdict>::open(maps->flow_verdicts.get(), 257);
  ASSERT_FALSE(too_long);
  EXPECT_THAT(too_long.error(), HasSubstr("flow_verdicts"));
  const auto rings = map_entries(maps->mirror_state.get());
  ASSERT_TRUE(rings) << rings.error();
  EXPECT_EQ(*rings, static_cast<u32>(libbpf_num_possible_cpus()));
  EXPECT_EQ((*config)[0].mirror_slots, 1024u);
  EXPECT_EQ((*config)[0].mirror_bytes, 128u);
  EXPECT_TRUE(MapView<xg_mirror_record>::open(maps->mirror_rings.get(), *rings * 1024));
}

// By the table of userspace/kernel/access.hpp, on a copy of what the data plane gets.
TEST_F(Port, TheDataPlaneHoldsNoDescriptorThatChangesAMap) {
  const auto program = load();
  auto all = program->maps();
  ASSERT_TRUE(all) << all.error();
  auto given = for_data_plane(*all);
  ASSERT_TRUE(given) << given.error();
  const auto at_first = given->descriptors();
  for (std::size_t i = 0; i < kPortMapCount; i++) {
    const bool entered = kMapAccess[i].map == std::string("xsks");  // its sockets, and closed then
    EXPECT_EQ(at_first[i] >= 0, kMapAccess[i].access != Access::none || entered) << kMapAccess[i].map;
    EXPECT_STRNE(kMapAccess[i].why, "");
  }
  close_writable(*given);
  const auto kept = given->descriptors();
  std::size_t looks = 0;
  for (std::size_t i = 0; i < kPortMapCount; i++) {
    SCOPED_TRACE(kMapAccess[i].map);
    const int fd = kept[i];
    ASSERT_EQ(fd >= 0, kMapAccess[i].access == Access::look);
    if (fd < 0) continue;
    looks++;
    bpf_map_info info{};
    u32 size = sizeof(info);
    ASSERT_EQ(bpf_obj_get_info_by_fd(fd, &info, &size), 0);
    std::vector<char> value(std::size_t{info.value_size} * static_cast<u32>(libbpf_num_possible_cpus()));
    const u32 zero = 0;
    EXPECT_EQ(bpf_map_lookup_elem(fd, &zero, value.data()), 0);
    EXPECT_NE(bpf_map_update_elem(fd, &zero, value.data(), BPF_ANY), 0);
    EXPECT_EQ(errno, EPERM);
    u32 one = 1;
    EXPECT_NE(bpf_map_update_batch(fd, &zero, value.data(), &one, nullptr), 0);
    EXPECT_NE(bpf_map_delete_elem(fd, &zero), 0);
    EXPECT_NE(bpf_map_freeze(fd), 0);
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  }
  EXPECT_GT(looks, 0u);
}

TEST_F(Port, WhatIsMappedForReadingStaysSo) {
  const auto program = load();
  auto maps = program->maps();
  ASSERT_TRUE(maps) << maps.error();
  auto see = MapView<xg_config>::open(maps->config.get(), 1, Mapping::read_only);
  auto write = MapView<xg_config>::open(maps->config.get(), 1);
  ASSERT_TRUE(see && write);
  (*write)[0].policy_hash = 77;
  EXPECT_EQ((*see)[0].policy_hash, 77u) << "one memory";
  EXPECT_NE(mprotect(see->data(), 4096, PROT_READ | PROT_WRITE), 0) << "it can be made writable";
  EXPECT_EQ(mprotect(write->data(), 4096, PROT_READ | PROT_WRITE), 0);
}

TEST_F(Port, AttachesInTheModeAskedForAndDetaches) {
  for (const XdpMode mode : {XdpMode::native, XdpMode::generic}) {
    auto program = load();
    near_->run([&] {
      const auto got = program->attach(mode);
      ASSERT_TRUE(got) << got.error();
      EXPECT_EQ(*got, mode);
    });
    EXPECT_NE(attached(mode == XdpMode::generic), 0u);
    EXPECT_EQ(attached(mode == XdpMode::native), 0u);
    near_->run([&] { program.reset(); });
    EXPECT_EQ(attached(mode == XdpMode::generic), 0u);
  }
  auto program = load();
  near_->run([&] {
    const auto got = program->attach(std::nullopt);
    ASSERT_TRUE(got) << got.error();
    EXPECT_EQ(*got, XdpMode::native);
    program.reset();
  });
}

TEST_F(Port, RefusesAForeignProgramByNameAndLeavesIt) {
  std::optional<bed::TinyProgram> foreign;
  near_->run([&] { foreign.emplace(wire_->a(), bed::TinyProgram::What::pass); });
  const u32 id = attached();
  auto program = load();
  for (const auto mode : {std::optional<XdpMode>(), std::optional(XdpMode::generic)}) {
    const auto got = near_->run([&] { return program->attach(mode); });
    ASSERT_FALSE(got);
    EXPECT_THAT(got.error(), AllOf(HasSubstr("xgn0"), HasSubstr("\"bare\""), HasSubstr(std::to_string(id)),
                                   HasSubstr("ip link set dev xgn0 xdp off")));
    EXPECT_EQ(attached(), id);
  }
  near_->run([&] {
    program.reset();
    foreign.reset();
  });
}

TEST_F(Port, RefusesALiveAttachAndReplacesADeadOne) {
  auto first = load(), second = load();
  near_->run([&] {
    ASSERT_TRUE(first->attach(XdpMode::native));
    beat(*first, 0);
    const auto refused = second->attach(XdpMode::native);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error(), HasSubstr("xdpgpu detach xgn0"));
    beat(*first, 60'000'000'000);
    const auto taken = second->attach(XdpMode::native);
    EXPECT_TRUE(taken) << taken.error();
  });
  const u32 id = attached();
  // What the dead one does in the end must not hurt its successor.
  near_->run([&] { first.reset(); });
  EXPECT_EQ(attached(), id);
  near_->run([&] { second.reset(); });
  EXPECT_EQ(attached(), 0u);
}

// What a map of that name holds may be of any size, and whose pins they are is looked at first.
TEST_F(Port, AHeartbeatOfAnotherKindOrOfOthersCountsForNothing) {
  const auto make = [](bpf_map_type type, u32 bytes) {
    bpf_map_create_opts options{};
    options.sz = sizeof(options);
    return Fd(bpf_map_create(type, "queue_state", sizeof(u32), bytes, 1, &options));
  };
  const auto beat_in = [](const Fd& map, std::vector<u8> value) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const u64 ns = static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
    std::memcpy(&value[offsetof(xg_queue_state, beat_ns)], &ns, sizeof(ns));
    const u32 zero = 0;
    EXPECT_EQ(bpf_map_update_elem(map.get(), &zero, value.data(), BPF_ANY), 0);
  };
  constexpr u32 kBytes = sizeof(xg_queue_state);
  const Fd ours = make(BPF_MAP_TYPE_ARRAY, kBytes), longer = make(BPF_MAP_TYPE_ARRAY, 16 * kBytes),
           percpu = make(BPF_MAP_TYPE_PERCPU_ARRAY, kBytes);
  ASSERT_TRUE(ours && longer && percpu);
  beat_in(ours, std::vector<u8>(kBytes, 0xff));
  EXPECT_TRUE(has_live_worker(ours.get()));
  beat_in(longer, std::vector<u8>(16 * kBytes, 0xff));
  EXPECT_FALSE(has_live_worker(longer.get()));
  beat_in(percpu, std::vector<u8>(std::size_t{kBytes} * static_cast<u32>(libbpf_num_possible_cpus()), 0xff));
  EXPECT_FALSE(has_live_worker(percpu.get()));

  struct statfs facts {};
  if (statfs("/sys/fs/bpf", &facts) != 0 || facts.f_type != 0xcafe4a11) return;
  const auto& scope = names::own_scope();
  const fs::path folder = names::pin_folder("xgn9", scope);
  fs::create_directories(folder);
  ASSERT_EQ(bpf_obj_pin(ours.get(), (folder / "queue_state").c_str()), 0);
  for (const uid_t owner : {uid_t{0}, uid_t{65534}}) {
    ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
    ASSERT_EQ(chown(folder.c_str(), owner, 0), 0);
    std::atomic<bool> stop = false;
    std::thread worker([&] {
      for (; !stop; std::this_thread::sleep_for(std::chrono::milliseconds(10)))
        beat_in(ours, std::vector<u8>(kBytes));
    });
    EXPECT_EQ(has_beating_pins("xgn9", scope), owner == 0) << "of user " << owner;
    stop = true;
    worker.join();
  }
  fs::remove_all(folder);
  fs::remove(folder.parent_path());
}

TEST_F(Port, PinsEveryMapPrivatelyAndTakesThePinsAway) {
  struct statfs facts {};
  if (statfs("/sys/fs/bpf", &facts) != 0 || facts.f_type != 0xcafe4a11)
    GTEST_SKIP() << "no bpffs at /sys/fs/bpf";
  const fs::path folder = names::pin_folder("xgn0");
  auto program = load();
  ASSERT_TRUE(program->pin());
  struct stat status {};
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  for (const char* name : kPortMapNames) EXPECT_TRUE(fs::exists(folder / name)) << name;
  // A live one's pins are left alone, a dead one's are replaced.
  beat(*program, 0);
  auto other = load();
  const auto refused = other->pin();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), HasSubstr("xdpgpu detach xgn0"));
  beat(*program, 60'000'000'000);
  EXPECT_TRUE(other->pin());
  program->unpin();
  other->unpin();
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(Port, PolicyTablesOfAnySizeGoIn) {
  const auto program = load();
  auto maps = program->maps();
  for (const u32 lines : {1u, 1000u, 300'000u}) {
    auto tables = create_policy_maps(lines, 3);
    ASSERT_TRUE(tables) << tables.error();
    std::vector<xg_line> content(lines);
    content.back().word[7] = 0x1234;
    ASSERT_TRUE(fill_policy_maps(*tables, content, std::vector<xg_class_row>(3)));
    const auto ok = install_policy_maps({&*maps}, lines & 1, *tables);
    ASSERT_TRUE(ok) << ok.error();
    const u32 last = (lines - 1) / XG_CHUNK_LINES;
    const auto back = std::make_unique<xg_chunk>();
    ASSERT_EQ(bpf_map_lookup_elem(tables->lines.get(), &last, back.get()), 0);
    EXPECT_EQ(back->line[(lines - 1) % XG_CHUNK_LINES].word[7], 0x1234u);
  }
}

// The kernel makes every update wait for a grace period.
TEST_F(Port, PolicyTablesGoIntoManyPortsInTheTimeOfOne) {
  const auto program = load();
  auto maps = program->maps();
  auto tables = create_policy_maps(1, 1);
  ASSERT_TRUE(tables) << tables.error();
  const std::vector<const PortMaps*> ports(12, &*maps);
  // On a busy machine a thread waits for more than the kernel: one try in three is to show it.
  std::string tries;
  bool shown = false;
  for (int i = 0; i < 3 && !shown; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (const PortMaps* port : ports) ASSERT_TRUE(install_policy_maps({port}, 0, *tables));
    const auto one_by_one = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(install_policy_maps(ports, 0, *tables));
    const auto together = std::chrono::steady_clock::now() - start - one_by_one;
    shown = together * 2 < one_by_one;
    tries += std::to_string(together.count()) + " of " + std::to_string(one_by_one.count()) + " ns; ";
  }
  std::string hastened;
  std::ifstream("/sys/kernel/rcu_expedited") >> hastened;
  if (!shown && hastened == "1")
    GTEST_SKIP() << "this kernel hastens its grace periods (rcu_expedited), so that nobody waits: " << tries;
  EXPECT_TRUE(shown) << tries;
}

TEST_F(Port, DescriptorsTravelInOrder) {
  const auto program = load();
  auto maps = program->maps();
  auto copy = maps->duplicate();
  ASSERT_TRUE(copy) << copy.error();
  const std::vector<int> sent = copy->descriptors();
  // Out of this object's hands, as if they had been sent.
#define XG_X(name) copy->name.release();
  XG_PORT_MAPS(XG_X)
#undef XG_X
  auto adopted = PortMaps::adopt(sent);
  ASSERT_TRUE(adopted) << adopted.error();
  EXPECT_EQ(adopted->descriptors(), sent);
  EXPECT_TRUE(MapView<xg_rewrite>::open(adopted->rewrites.get(), XG_REWRITE_ENTRIES));
  EXPECT_FALSE(PortMaps::adopt(std::vector<int>{}));
}

TEST_F(Port, TheReinjectionPairIsSilentMarkedAndGone) {
  for (const XdpMode mode : {XdpMode::native, XdpMode::generic}) {
    near_->run([&] {
      const u32 ifindex = wire_->a().ifindex();
      auto pair = Reinjection::create("xgn0", ifindex, 2, mode);
      ASSERT_TRUE(pair) << pair.error();
      const std::string worker = (*pair)->worker_ifname();
      EXPECT_EQ((*pair)->worker_ifindex(), if_nametoindex(worker.c_str()));
      EXPECT_LT(worker.size(), std::size_t{IFNAMSIZ});
      const lab::Interface end(*near_, worker);
      lab::Sniffer arriving(wire_->a());
      // Frames without the sockets' mark, as any program could send, go nowhere.
      lab::Sender(end).send(lab::build({.src = wire_->b().mac(), .dst = wire_->a().mac(), .dst_port = 4000}));
      EXPECT_TRUE(arriving.drain(lab::Millis(100)).empty());
      // Left alone, the pair says nothing.
      EXPECT_EQ(end.counters().rx_packets, 0u);
      // One that a dead attach left is replaced.
      auto successor = Reinjection::create("xgn0", ifindex, 1, mode);
      ASSERT_TRUE(successor) << successor.error();
      pair->reset();
      successor->reset();
      EXPECT_EQ(if_nametoindex(worker.c_str()), 0u);
    });
  }
}

// On, off, on again, and beside somebody else's filter.
TEST_F(Port, TheEgressFeedIsGoneWithoutATrace) {
  const auto program = load();
  const auto maps = program->maps();
  ASSERT_TRUE(maps) << maps.error();
  const auto attach = [&](EgressFeed::How how) {
    return near_->run([&] { return EgressFeed::attach("xgn0", wire_->a().ifindex(), *maps, how); });
  };
  const auto drop = [&](std::unique_ptr<EgressFeed>& feed) { near_->run([&] { feed.reset(); }); };
  for (const auto how : {EgressFeed::How::link_or_filter, EgressFeed::How::filter}) {
    auto feed = attach(how);
    ASSERT_TRUE(feed) << feed.error();
    if (how == EgressFeed::How::filter) {
      EXPECT_EQ(lab::qdiscs(*near_), std::vector<std::string>{"xgn0 clsact"});
    }
    drop(*feed);
    EXPECT_TRUE(lab::qdiscs(*near_).empty());
  }

  // One whose process died is found, and what is not ours stays.
  auto feed = attach(EgressFeed::How::filter);
  ASSERT_TRUE(feed) << feed.error();
  EXPECT_TRUE(near_->run([&] { return EgressFeed::remove_leftover(wire_->a().ifindex()); }));
  EXPECT_FALSE(near_->run([&] { return EgressFeed::remove_leftover(wire_->a().ifindex()); }));
  EXPECT_TRUE(lab::qdiscs(*near_).empty());
  drop(*feed);

  feed = attach(EgressFeed::How::filter);
  ASSERT_TRUE(feed) << feed.error();
  auto other =
      near_->run([&] { return Reinjection::create("xgn0", wire_->a().ifindex(), 1, XdpMode::native); });
  ASSERT_TRUE(other) << other.error();
  near_->run([&] {
    auto netlink = Netlink::open();
    ASSERT_TRUE(netlink) << netlink.error();
    ASSERT_TRUE(netlink->redirect_ingress(wire_->a().ifindex(), 9, (*other)->worker_ifindex()));
    EXPECT_EQ(netlink->clsact_filters(wire_->a().ifindex()), 2u);
  });
  drop(*feed);
  near_->run([&] {
    EXPECT_EQ(Netlink::open()->clsact_filters(wire_->a().ifindex()), 1u) << "somebody else's filter stays";
    other->reset();
  });
}

TEST_F(Port, ErrorsSayWhatToDo) {
  near_->run([&] {
    PortOptions wrong = options();
    wrong.flow_entries_per_queue = 100;
    const auto loaded = PortProgram::load(wrong);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error(), HasSubstr("power of two"));
    wrong = options();
    wrong.mirror_slots = 100;
    EXPECT_FALSE(PortProgram::load(wrong));
    wrong = options();
    wrong.mirror_bytes = XG_MIRROR_BYTES + 1;
    EXPECT_FALSE(PortProgram::load(wrong));
    EXPECT_FALSE(Reinjection::create("absent0", 4242, 1, XdpMode::generic));
    EXPECT_EQ(if_nametoindex("xg4242w"), 0u);
  });
}

}  // namespace
}  // namespace xdpgpu::kernel
