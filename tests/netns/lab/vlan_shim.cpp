// SPDX-License-Identifier: MIT
#include "tests/netns/lab/vlan_shim.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace xdpgpu::lab {
namespace {

// Two programs of a few instructions, written out: the lab brings no BPF compiler's output along.
constexpr bpf_insn instruction(int code, int dst, int src, std::size_t offset, std::int32_t imm) {
  bpf_insn result{};
  result.code = static_cast<std::uint8_t>(code);
  result.dst_reg = static_cast<std::uint8_t>(dst & 0xf);
  result.src_reg = static_cast<std::uint8_t>(src & 0xf);
  result.off = static_cast<std::int16_t>(offset);
  result.imm = imm;
  return result;
}
constexpr bpf_insn mov64_imm(int dst, std::int32_t imm) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm);
}
constexpr bpf_insn and64_imm(int dst, std::int32_t imm) {
  return instruction(BPF_ALU64 | BPF_AND | BPF_K, dst, 0, 0, imm);
}
constexpr bpf_insn load32(int dst, int src, std::size_t offset) {
  return instruction(BPF_LDX | BPF_MEM | BPF_W, dst, src, offset, 0);
}
constexpr bpf_insn jump_unequal(int dst, std::int32_t imm, std::size_t over) {
  return instruction(BPF_JMP | BPF_JNE | BPF_K, dst, 0, over, imm);
}
constexpr bpf_insn call(std::int32_t helper) { return instruction(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }
constexpr bpf_insn leave() { return instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }

constexpr std::int32_t big_endian(std::uint16_t v) { return static_cast<std::int32_t>(__builtin_bswap16(v)); }

Fd load(const char* name, std::span<const bpf_insn> instructions) {
  std::vector<char> log(4096);
  LIBBPF_OPTS(bpf_prog_load_opts, options, .log_size = static_cast<__u32>(log.size()), .log_buf = log.data());
  const int fd =
      bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, name, "GPL", instructions.data(), instructions.size(), &options);
  if (fd < 0)
    throw Error(fmt::format("cannot load the tc program {}: {}: {}", name, std::strerror(-fd), log.data()));
  return Fd(fd);
}

void attach(const Interface& interface, bpf_tc_attach_point point, int program) {
  LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = static_cast<int>(interface.ifindex()), .attach_point = point);
  LIBBPF_OPTS(bpf_tc_opts, options, .prog_fd = program, .handle = 1, .priority = 1);
  if (const int error = bpf_tc_attach(&hook, &options); error < 0)
    throw Error(
        fmt::format("cannot attach a tc program to {}: {}", interface.ifname(), std::strerror(-error)));
}

}  // namespace

VlanShim::VlanShim(const Interface& interface, std::uint16_t vlan_id) : interface_(interface) {
  const bpf_insn push[] = {
      mov64_imm(BPF_REG_2, big_endian(ETH_P_8021Q)),
      mov64_imm(BPF_REG_3, vlan_id),
      call(BPF_FUNC_skb_vlan_push),
      mov64_imm(BPF_REG_0, TC_ACT_OK),
      leave(),
  };
  // The kernel has taken the tag out of the frame before tc sees it on ingress: vlan_tci holds it.
  const bpf_insn pop[] = {
      load32(BPF_REG_2, BPF_REG_1, offsetof(__sk_buff, vlan_present)),
      jump_unequal(BPF_REG_2, 1, 6),
      load32(BPF_REG_2, BPF_REG_1, offsetof(__sk_buff, vlan_tci)),
      and64_imm(BPF_REG_2, 0xfff),
      jump_unequal(BPF_REG_2, vlan_id, 3),
      call(BPF_FUNC_skb_vlan_pop),
      mov64_imm(BPF_REG_0, TC_ACT_OK),
      leave(),
      mov64_imm(BPF_REG_0, TC_ACT_SHOT),
      leave(),
  };
  interface_.feature("tx-vlan-hw-insert", false);
  push_ = load("lab_vlan_push", push);
  pop_ = load("lab_vlan_pop", pop);
  interface_.ns().run([this] {
    LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = static_cast<int>(interface_.ifindex()),
                .attach_point = static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
    if (const int error = bpf_tc_hook_create(&hook); error < 0 && error != -EEXIST)
      throw Error(fmt::format("cannot add clsact to {}: {}", interface_.ifname(), std::strerror(-error)));
    attach(interface_, BPF_TC_EGRESS, push_.get());
    attach(interface_, BPF_TC_INGRESS, pop_.get());
  });
}

VlanShim::~VlanShim() {
  try {
    interface_.ns().run([this] {
      LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = static_cast<int>(interface_.ifindex()),
                  .attach_point = static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
      bpf_tc_hook_destroy(&hook);
    });
    interface_.feature("tx-vlan-hw-insert", true);
  } catch (const Error&) {
    // The interface went first.
  }
}

}  // namespace xdpgpu::lab
