// SPDX-License-Identifier: MIT
#include "userspace/host/features.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "userspace/host/landlock.hpp"
#include "userspace/host/xdp_features.hpp"

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif

namespace xdpgpu::host {
namespace {

struct Outcome {
  Have have = Have::unknown;
  std::string detail;
};

Outcome from_errno(int error) {
  if (error == 0) return {Have::yes, "tried"};
  const std::string text = fmt::format("tried: {}", std::strerror(error));
  return {error == EPERM && geteuid() != 0 ? Have::unknown : Have::no, text};
}

Outcome try_socket() {
  const int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return from_errno(errno);
  close(fd);
  return from_errno(0);
}

// A kernel with need-wakeup tells where the rings' flags are.
Outcome try_need_wakeup() {
  const int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return from_errno(errno);
  xdp_mmap_offsets offsets{};
  socklen_t length = sizeof(offsets);
  const int error = getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) == 0 ? 0 : errno;
  close(fd);
  if (error) return from_errno(error);
  return {length == sizeof(offsets) ? Have::yes : Have::no, "tried"};
}

Outcome try_busy_poll() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int value = 0;
  socklen_t length = sizeof(value);
  const int error = getsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &value, &length) == 0 ? 0 : errno;
  close(fd);
  return from_errno(error);
}

Outcome try_mmapable() {
  LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
  const int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "xdpgpu_probe", 4, 64, 64, &options);
  if (fd < 0) return from_errno(errno);
  close(fd);
  return from_errno(0);
}

Outcome try_map(bpf_map_type type) {
  const int answer = libbpf_probe_bpf_map_type(type, nullptr);
  if (answer < 0) return from_errno(-answer);
  if (answer == 0 && geteuid() != 0) return {Have::unknown, "needs root to try"};
  return {answer > 0 ? Have::yes : Have::no, "tried"};
}

Outcome try_program(bpf_prog_type type) {
  const int answer = libbpf_probe_bpf_prog_type(type, nullptr);
  if (answer < 0) return from_errno(-answer);
  if (answer == 0 && geteuid() != 0) return {Have::unknown, "needs root to try"};
  return {answer > 0 ? Have::yes : Have::no, "tried"};
}

Outcome load_xdp(const bpf_insn* instructions, std::size_t count, u32 flags) {
  LIBBPF_OPTS(bpf_prog_load_opts, options, .prog_flags = flags);
  const int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "xdpgpu_probe", "GPL", instructions, count, &options);
  if (fd < 0) return from_errno(errno);
  close(fd);
  return from_errno(0);
}

bpf_insn instruction(u8 code, u8 dst, u8 src, std::int16_t off, std::int32_t imm) {
  bpf_insn made{};
  made.code = code;
  made.dst_reg = dst & 0xf;
  made.src_reg = src & 0xf;
  made.off = off;
  made.imm = imm;
  return made;
}

Outcome try_multi_buffer() {
  const std::array program{instruction(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 2),
                           instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)};
  return load_xdp(program.data(), program.size(), 1u << 5);  // BPF_F_XDP_HAS_FRAGS
}

Outcome try_cmpxchg() {
  constexpr std::int32_t kCmpxchg = 0xf0 | 0x01;
  const std::array program{
      instruction(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 0),
      instruction(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
      instruction(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 1),
      instruction(BPF_STX | 0xc0 /* BPF_ATOMIC */ | BPF_DW, 10, 1, -8, kCmpxchg),
      instruction(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 2),
      instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
  };
  return load_xdp(program.data(), program.size(), 0);
}

Outcome by_version(u32 major, u32 minor) {
  const auto version = kernel_version();
  return {version.at_least(major, minor) ? Have::yes : Have::no,
          fmt::format("Linux {}.{} and later; this is {}", major, minor, version.release)};
}

Outcome by_file(const char* path) { return {access(path, F_OK) == 0 ? Have::yes : Have::no, path}; }

Outcome try_netdev_family() {
  // Loopback is always there, and always interface 1.
  return {query_xdp_features(1) ? Have::yes : Have::no, "tried"};
}

Outcome find_huge_pages() {
  std::ifstream file("/proc/sys/vm/nr_hugepages");
  u64 pages = 0;
  if (!(file >> pages)) return {Have::no, "this kernel has no /proc/sys/vm/nr_hugepages"};
  return {pages > 0 ? Have::yes : Have::no, fmt::format("{} reserved in /proc/sys/vm/nr_hugepages", pages)};
}

Outcome find_landlock(bool (Landlock::*limits)() const, const char* since) {
  const Landlock found = landlock();
  if (found.version == 0) return {Have::no, found.why};
  return {(found.*limits)() ? Have::yes : Have::no,
          fmt::format("version {} of its interface{}", found.version, since)};
}

// One of the CUDA toolkit's, as the dynamic linker finds it or where the toolkit is by default.
Outcome find_library(const std::string& name, const char* package) {
  for (const char* const version : {".13", ".12", ""})
    for (const char* const folder : {"", "/usr/local/cuda/lib64/"})
      if (void* const library = dlopen((folder + name + version).c_str(), RTLD_LAZY | RTLD_LOCAL)) {
        dlclose(library);
        return {Have::yes, folder + name + version};
      }
  return {Have::no, fmt::format("{} is not installed: the CUDA toolkit's {} has it", name, package)};
}

}  // namespace

std::vector<Feature> probe_features() {
  const auto quiet = libbpf_set_print(nullptr);
  std::vector<Feature> features;
  auto add = [&](const char* name, bool required, const char* why, Outcome outcome) {
    features.push_back({name, outcome.have, required, why, std::move(outcome.detail)});
  };
  add("kernel", true, "6.1 is the oldest kernel that everything here is tested on", by_version(6, 1));
  add("bpf_xdp", true, "the program that decides what it can and hands the rest up",
      try_program(BPF_PROG_TYPE_XDP));
  add("bpf_tc", true, "passed packets enter the stack through a tc program",
      try_program(BPF_PROG_TYPE_SCHED_CLS));
  add("af_xdp", true, "sockets that receive and send frames without copying them through the stack",
      try_socket());
  add("xskmap", true, "the map by which XDP hands frames to AF_XDP sockets", try_map(BPF_MAP_TYPE_XSKMAP));
  add("devmap", true, "cached REDIRECT verdicts send from the kernel", try_map(BPF_MAP_TYPE_DEVMAP));
  add("array_of_maps", true, "a policy's tables are swapped as a whole", try_map(BPF_MAP_TYPE_ARRAY_OF_MAPS));
  add("lru_hash", true, "per-source limits", try_map(BPF_MAP_TYPE_LRU_HASH));
  add("mmapable_arrays", true, "flow verdicts are stored in the kernel's table without a system call",
      try_mmapable());
  add("need_wakeup", false, "the kernel is told of work only when it sleeps: fewer system calls",
      try_need_wakeup());
  add("busy_poll", false,
      "a worker may run the driver itself instead of waiting for its interrupt (io.busy_poll)",
      try_busy_poll());
  add("dispatcher", false,
      "freplace programs, by which libxdp runs several XDP programs on one interface; without them attach "
      "refuses an interface that has one already",
      try_program(BPF_PROG_TYPE_EXT));
  add("xdp_multi_buffer", false, "XDP on frames of more than one buffer (jumbo frames)", try_multi_buffer());
  add("af_xdp_multi_buffer", false,
      "AF_XDP frames of more than one buffer, on sockets that share their memory", by_version(6, 7));
  add("cmpxchg", false, "atomic compare-and-exchange in BPF", try_cmpxchg());
  add("xdp_features", false, "drivers tell what XDP modes they have; without it, attach finds out by trying",
      try_netdev_family());
  add("xdp_hints", false, "hardware receive time and hash are readable from XDP", by_version(6, 3));
  add("vlan_hint", false, "a VLAN tag that the hardware took off is readable from XDP", by_version(6, 8));
  add("btf", false, "the kernel's own type information (the programs here do not need it)",
      by_file("/sys/kernel/btf/vmlinux"));
  add("huge_pages", false,
      "frame memory in huge pages: fewer TLB misses, faster registration (io.huge_pages)", find_huge_pages());
  add("landlock", false,
      "the process that sees the packets can open no file but those it needs; without it, those that its "
      "user "
      "can open",
      find_landlock(&Landlock::limits_files, ""));
  add("landlock_devices", false,
      "with a GPU, no device that process opens but the GPU can be asked anything by ioctl",
      find_landlock(&Landlock::limits_device_requests, "; 5 (Linux 6.10) is the first with it"));
  add("nvjitlink", false,
      "attach makes machine code, once, for an NVIDIA GPU that this build has none for (without it, that "
      "GPU's "
      "driver compiles at each start), and policies' programs are linked to this build's kernels",
      find_library("libnvJitLink.so", "libnvjitlink"));
  add("nvrtc", false,
      "policies' programs are translated for NVIDIA GPUs, together with nvjitlink; without it, those GPUs "
      "interpret them, which takes longer",
      find_library("libnvrtc.so", "cuda-nvrtc"));
  libbpf_set_print(quiet);
  return features;
}

}  // namespace xdpgpu::host
