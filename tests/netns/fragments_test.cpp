// SPDX-License-Identifier: MIT
//
// tests/netns/fragments_test.cpp: "fragments": "track" on the wire: the fragments of a datagram go where its
// first one goes, on one queue and across queues.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

// By the ports of a datagram: 7000 passes, 7001 is dropped, 7002 comes back.
constexpr const char* kByPort =
    R"({"stage": "acl", "rules": [{"match": {"dst_port": 7000}, "action": "pass"},
        {"match": {"dst_port": 7001}, "action": "drop"}]}, {"stage": "l2fwd"})";
std::string tracked() {
  return policy(fmt::format(R"("default": "drop", "fragments": "track", "pipelines": {{"p": [{}]}},
      "rules": [{{"match": {{"proto": "udp"}}, "action": {{"inspect": "p"}}}}])",
                            kByPort));
}

// Sends first fragments of IPv4 out of an interface's queue 0, and later ones out of its queue 1.
struct TwoQueues {
  TwoQueues(const Namespace& ns, const Interface& port) {
    const auto queue_mapping = static_cast<std::int16_t>(offsetof(__sk_buff, queue_mapping));
    const std::array<bpf_insn, 9> program{{
        {BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0},
        {BPF_LD | BPF_ABS | BPF_H, 0, 0, 0, 14 + 6},
        {BPF_ALU | BPF_AND | BPF_K, 0, 0, 0, 0x1fff},
        {BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 1},  // one more than the queue
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1, 0},
        {BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 2},
        {BPF_STX | BPF_MEM | BPF_W, 6, 1, queue_mapping, 0},
        {BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, -1},
        {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
    }};
    const int fd =
        bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "two_queues", "GPL", program.data(), program.size(), nullptr);
    if (fd < 0) throw Error(fmt::format("loading the tc program: {}", std::strerror(errno)));
    ns.run([&] {
      LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = static_cast<int>(port.ifindex()),
                  .attach_point = BPF_TC_EGRESS);
      LIBBPF_OPTS(bpf_tc_opts, options, .prog_fd = fd);
      bpf_tc_hook_create(&hook);
      if (const int error = bpf_tc_attach(&hook, &options); error != 0)
        throw Error(fmt::format("attaching the tc program: {}", std::strerror(-error)));
    });
    close(fd);
  }
};

class Fragments : public OnTheWire {
 protected:
  std::vector<Frame> datagram(std::uint16_t port, std::uint16_t id, bool v6 = false) const {
    PacketSpec spec = from_left(1000, port, std::string(3000, static_cast<char>('a' + id % 26)));
    spec.ip_id = id;
    if (v6) spec.src_ip = "fd09::2", spec.dst_ip = "fd09::1";
    return build_fragments(spec, 1000);
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, Fragments, kConfigs, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Fragments, kModes, config_name);

TEST_P(Fragments, GoWhereTheirFirstOneGoes) {
  attach(tracked());
  UdpSocket passed(*host_, "10.9.0.1", 7000), dropped(*host_, "10.9.0.1", 7001);
  UdpSocket passed6(*host_, "fd09::1", 7000);
  Sniffer left(left_port());
  Sender sender(left_port());
  for (std::uint16_t id = 1; id <= 5; ++id) {
    sender.send(datagram(7000, id));
    const auto got = passed.receive(2000ms);
    ASSERT_TRUE(got) << attached_->pins().summary();
    EXPECT_EQ(*got, std::string(3000, static_cast<char>('a' + id % 26)));
  }
  sender.send(datagram(7000, 9, true));
  EXPECT_TRUE(passed6.receive(2000ms)) << attached_->pins().summary();
  const auto condemned = datagram(7001, 20);
  sender.send(condemned);
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == condemned.size(); }))
      << attached_->pins().summary();
  EXPECT_EQ(dropped.receive(100ms), std::nullopt);
  left.drain(50ms);
  const auto bounced = datagram(7002, 21);
  sender.send(bounced);
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("transmitted") == bounced.size(); }))
      << attached_->pins().summary();
  const auto counts = attached_->pins().worker_counts();
  EXPECT_EQ(counts.at("flows_cached"), 0U);
  EXPECT_EQ(counts.at("fragments_unknown"), 0U);
  expect_conserved(attached_->pins());
}

TEST_P(Fragments, LaterOnesAloneGoByTheDefault) {
  attach(tracked());
  auto frames = datagram(7000, 1);
  std::rotate(frames.begin(), frames.begin() + 1, frames.end());  // the first one comes last
  UdpSocket passed(*host_, "10.9.0.1", 7000);
  Sender(left_port()).send(frames);
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("passed") == 1; }))
      << attached_->pins().summary();
  EXPECT_EQ(attached_->pins().kernel("drop_default"), frames.size() - 1);
  EXPECT_EQ(passed.receive(100ms), std::nullopt);
  expect_conserved(attached_->pins());
}

TEST_P(Fragments, TwoDatagramsInterleaved) {
  attach(tracked());
  const auto in = datagram(7000, 1), out = datagram(7001, 2);
  UdpSocket passed(*host_, "10.9.0.1", 7000);
  Sender sender(left_port());
  for (std::size_t i = 0; i < in.size(); ++i) {
    sender.send(out[i]);
    sender.send(in[i]);
    if (i == 1) sender.send(in[i]);  // a duplicate
  }
  EXPECT_TRUE(passed.receive(2000ms)) << attached_->pins().summary();
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == out.size(); }))
      << attached_->pins().summary();
  EXPECT_EQ(attached_->pins().worker("passed"), in.size() + 1);
  expect_conserved(attached_->pins());
}

TEST_P(Fragments, OnAnotherQueueTheyWaitForTheirFirstOne) {
  if (generic() || queues() < 2) GTEST_SKIP() << "one queue";
  attach(tracked());
  const TwoQueues split(*left_, left_port());
  UdpSocket passed(*host_, "10.9.0.1", 7000);
  Sender sender(left_port());
  // Where a worker had to wait for its core for longer than a batch waits, the default has dropped a few, and
  // where it had to all the time, most: a pressed machine has some more turns to be in time for once.
  constexpr std::uint16_t kRounds = 40, kTurns = 10;
  bool in_time = false;
  std::uint64_t sent = 0;
  for (std::uint16_t turn = 0; turn < kTurns && !in_time; ++turn) {
    const auto before = attached_->pins().worker_counts();
    std::size_t in = 0, out = 0;
    for (std::uint16_t i = 1; i <= kRounds; ++i) {
      const auto id = static_cast<std::uint16_t>(turn * kRounds + i);
      const auto condemned = datagram(7001, static_cast<std::uint16_t>(1000 + id)), good = datagram(7000, id);
      sender.send(condemned);
      sender.send(good);
      in += good.size(), out += condemned.size();
      std::this_thread::sleep_for(2ms);
    }
    sent += in + out;
    ASSERT_TRUE(eventually([&] {
      const auto counts = attached_->pins().worker_counts();
      return counts.at("passed") + counts.at("dropped") == sent;
    })) << attached_->pins().summary();
    const auto counts = attached_->pins().worker_counts();
    const std::uint64_t firsts = 2U * kRounds * (turn + 1U);
    EXPECT_EQ(attached_->pins().worker_counts(0).at("received"), firsts) << "the first ones";
    EXPECT_EQ(attached_->pins().worker_counts(1).at("received"), sent - firsts) << "the others";
    const auto unknown = counts.at("fragments_unknown") - before.at("fragments_unknown");
    EXPECT_LE(in, counts.at("passed") - before.at("passed") + unknown) << attached_->pins().summary();
    in_time = passed.drain(100ms).size() >= kRounds / 2U && unknown <= (in + out) / 4;
  }
  EXPECT_TRUE(in_time) << attached_->pins().summary();
  expect_conserved(attached_->pins());
}

}  // namespace
}  // namespace xdpgpu::lab
