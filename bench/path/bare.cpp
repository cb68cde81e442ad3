// SPDX-License-Identifier: MIT
#include "bench/path/bare.hpp"

#include <bpf/bpf.h>
#include <linux/if_link.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <xdp/xsk.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace xdpgpu::bed {
namespace {

constexpr u32 kFrames = 4096, kFrameSize = 2048, kRing = 2048, kBurst = 64;

bpf_insn instruction(u8 code, u8 to, u8 from, std::int16_t offset, std::int32_t value) {
  bpf_insn out{};
  out.code = code;
  out.dst_reg = to & 15;
  out.src_reg = from & 15;
  out.off = offset;
  out.imm = value;
  return out;
}

void swap_macs(u8* frame) {
  std::array<u8, 6> kept;
  std::memcpy(kept.data(), frame, 6);
  std::memmove(frame, frame + 6, 6);
  std::memcpy(frame + 6, kept.data(), 6);
}

}  // namespace

void pin_to(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<std::size_t>(cpu), &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

TinyProgram::TinyProgram(const lab::Interface& interface, What what) : ifindex_(interface.ifindex()) {
  std::vector<bpf_insn> code;
  if (what == What::redirect_to_sockets) {
    sockets_ = kernel::Fd(bpf_map_create(BPF_MAP_TYPE_XSKMAP, "bare_xsks", 4, 4, 1, nullptr));
    if (!sockets_) throw lab::Error(std::string("cannot make a socket map: ") + std::strerror(errno));
    code = {
        instruction(BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1, offsetof(xdp_md, rx_queue_index), 0),
        // NOLINTNEXTLINE(misc-redundant-expression): BPF_LD and BPF_IMM are both 0.
        instruction(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, sockets_.get()),
        instruction(0, 0, 0, 0, 0),
        instruction(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, XDP_PASS),
        instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map),
        instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
  } else {
    code = {instruction(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, XDP_PASS),
            instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)};
  }
  program_ = kernel::Fd(bpf_prog_load(BPF_PROG_TYPE_XDP, "bare", "GPL", code.data(), code.size(), nullptr));
  if (!program_) throw lab::Error(std::string("cannot load the bare program: ") + std::strerror(errno));
  if (const int error = bpf_xdp_attach(static_cast<int>(ifindex_), program_.get(),
                                       XDP_FLAGS_DRV_MODE | XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr))
    throw lab::Error(std::string("cannot attach the bare program: ") + std::strerror(-error));
}

TinyProgram::~TinyProgram() { bpf_xdp_detach(static_cast<int>(ifindex_), XDP_FLAGS_DRV_MODE, nullptr); }

void TinyProgram::enter_socket(int fd) const {
  const u32 queue = 0;
  if (bpf_map_update_elem(sockets_.get(), &queue, &fd, BPF_ANY) != 0)
    throw lab::Error(std::string("cannot enter the bare socket: ") + std::strerror(errno));
}

class BareSocket {
 public:
  BareSocket(const lab::Interface& interface, bool receives, u32 queue = 0) {
    const std::size_t bytes = std::size_t{kFrames} * kFrameSize;
    void* at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) throw lab::Error("cannot map frames");
    area = static_cast<u8*>(at);
    int error = bind(interface, receives, queue);
    // The kernel takes its time to unbind the socket of the row before.
    for (int i = 0; i < 50 && error == -EBUSY; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      error = bind(interface, receives, queue);
    }
    if (error) throw lab::Error(std::string("cannot open the bare socket: ") + std::strerror(-error));
    fd = xsk_socket__fd(socket_);
    const int buffer = 64 << 20;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer));
  }
  ~BareSocket() {
    if (socket_) xsk_socket__delete(socket_);
    if (umem_) xsk_umem__delete(umem_);
    munmap(area, std::size_t{kFrames} * kFrameSize);
  }
  BareSocket(const BareSocket&) = delete;
  BareSocket& operator=(const BareSocket&) = delete;

  bool unsent() const { return *tx.producer != __atomic_load_n(tx.consumer, __ATOMIC_ACQUIRE); }
  void kick() { sendto(fd, nullptr, 0, MSG_DONTWAIT, nullptr, 0); }
  // Gives the kernel `count` frames to receive into; address(i) lies in the i-th one.
  template <class Address>
  void fill_up(u32 count, Address&& address) {
    u32 to = 0;
    // The kernel shows a packet before it shows that the frame's place in the fill ring is free (xsk_flush).
    while (!xsk_ring_prod__reserve(&fill, count, &to)) {
    }
    for (u32 i = 0; i < count; ++i)
      *xsk_ring_prod__fill_addr(&fill, to + i) = address(i) & ~u64{kFrameSize - 1};
    xsk_ring_prod__submit(&fill, count);
  }

  u8* area = nullptr;
  xsk_ring_prod fill{}, tx{};
  xsk_ring_cons rx{}, completion{};
  int fd = -1;

 private:
  int bind(const lab::Interface& interface, bool receives, u32 queue) {
    xsk_umem_config umem_config{};
    umem_config.fill_size = umem_config.comp_size = kRing;
    umem_config.frame_size = kFrameSize;
    if (const int error = xsk_umem__create(&umem_, area, std::size_t{kFrames} * kFrameSize, &fill,
                                           &completion, &umem_config))
      return error;
    xsk_socket_config config{};
    config.rx_size = config.tx_size = kRing;
    config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
    config.bind_flags = XDP_COPY | XDP_USE_NEED_WAKEUP;
    const int error = xsk_socket__create(&socket_, interface.ifname().c_str(), queue, umem_,
                                         receives ? &rx : nullptr, &tx, &config);
    if (error) {
      socket_ = nullptr;
      xsk_umem__delete(std::exchange(umem_, nullptr));
    }
    return error;
  }

  xsk_umem* umem_ = nullptr;
  xsk_socket* socket_ = nullptr;
};

BareLoop::BareLoop(const lab::Interface& interface, Action action, int cpu) : ns_(interface.ns()) {
  ns_.run([&] {
    socket_ = std::make_unique<BareSocket>(interface, true);
    u32 at = 0;
    xsk_ring_prod__reserve(&socket_->fill, kRing, &at);
    for (u32 i = 0; i < kRing; ++i) *xsk_ring_prod__fill_addr(&socket_->fill, at + i) = u64{i} * kFrameSize;
    xsk_ring_prod__submit(&socket_->fill, kRing);
    program_ = std::make_unique<TinyProgram>(interface, TinyProgram::What::redirect_to_sockets);
    program_->enter_socket(socket_->fd);
  });
  thread_ = std::thread([this, action, cpu] {
    pin_to(cpu);
    pthread_setname_np(pthread_self(), "bare-loop");
    if (action == Action::drop)
      drop();
    else
      forward();
  });
}

BareLoop::~BareLoop() {
  stopping_.store(true);
  if (thread_.joinable()) thread_.join();
  ns_.run([&] { program_.reset(); });
  socket_.reset();
}

void BareLoop::drop() {
  BareSocket& s = *socket_;
  while (!stopping_.load(std::memory_order_relaxed)) {
    u32 from = 0;
    const u32 count = xsk_ring_cons__peek(&s.rx, kBurst, &from);
    if (!count) continue;
    s.fill_up(count, [&](u32 i) { return xsk_ring_cons__rx_desc(&s.rx, from + i)->addr; });
    xsk_ring_cons__release(&s.rx, count);
    received_.store(received_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
}

void BareLoop::forward() {
  BareSocket& s = *socket_;
  while (!stopping_.load(std::memory_order_relaxed)) {
    u32 from = 0, to = 0;
    if (const u32 done = xsk_ring_cons__peek(&s.completion, kRing, &from)) {
      s.fill_up(done, [&](u32 i) { return *xsk_ring_cons__comp_addr(&s.completion, from + i); });
      xsk_ring_cons__release(&s.completion, done);
      transmitted_.store(transmitted_.load(std::memory_order_relaxed) + done, std::memory_order_relaxed);
    }
    const u32 count = xsk_ring_cons__peek(&s.rx, kBurst, &from);
    if (count) {
      while (!xsk_ring_prod__reserve(&s.tx, count, &to)) s.kick();
      for (u32 i = 0; i < count; ++i) {
        const xdp_desc& packet = *xsk_ring_cons__rx_desc(&s.rx, from + i);
        swap_macs(s.area + packet.addr);
        *xsk_ring_prod__tx_desc(&s.tx, to + i) = {packet.addr, packet.len, 0};
      }
      xsk_ring_prod__submit(&s.tx, count);
      xsk_ring_cons__release(&s.rx, count);
      received_.store(received_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    }
    if (s.unsent()) s.kick();
  }
}

BareSender::BareSender(const lab::Interface& interface, const std::vector<lab::Frame>& frames, int cpu,
                       u32 queue, Pace pace)
    : ns_(interface.ns()), frames_(frames), pace_(pace) {
  ns_.run([&] { socket_ = std::make_unique<BareSocket>(interface, false, queue); });
  for (u32 i = 0; i < kFrames; ++i) {
    const lab::Frame& frame = frames_[i % frames_.size()];
    std::memcpy(socket_->area + std::size_t{i} * kFrameSize, frame.data(), frame.size());
  }
  thread_ = std::thread([this, cpu] {
    pin_to(cpu);
    send();
  });
}

BareSender::~BareSender() { stop(); }

void BareSender::stop() {
  stopping_.store(true);
  if (thread_.joinable()) thread_.join();
  socket_.reset();
}

// False: it is to stop.
bool BareSender::wait_until(std::chrono::steady_clock::time_point due) const {
  // Longer waits leave the core to whoever shares it; waking up takes some 50 us.
  constexpr auto kWake = std::chrono::microseconds(200);
  for (;;) {
    if (stopping_.load(std::memory_order_relaxed)) return false;
    const auto now = std::chrono::steady_clock::now();
    if (now >= due) return true;
    if (due - now > kWake)
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(due - now - kWake, std::chrono::milliseconds(10)));
  }
}

void BareSender::send() {
  BareSocket& s = *socket_;
  const bool paced = pace_.packets_per_second > 0;
  const auto gap = std::chrono::nanoseconds(
      paced ? static_cast<std::int64_t>(1e9 * pace_.burst / pace_.packets_per_second) : 0);
  auto due = std::chrono::steady_clock::now();
  u32 next = 0, under_way = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    u32 at = 0;
    if (const u32 done = xsk_ring_cons__peek(&s.completion, kRing, &at)) {
      xsk_ring_cons__release(&s.completion, done);
      under_way -= done;
      sent_.store(sent_.load(std::memory_order_relaxed) + done, std::memory_order_relaxed);
    }
    if (under_way + pace_.burst <= kRing && xsk_ring_prod__reserve(&s.tx, pace_.burst, &at)) {
      if (paced) {
        if (!wait_until(due)) return;
        // What a busy host has missed is not made up for: bursts would run into each other.
        due = std::max(due + gap, std::chrono::steady_clock::now());
      }
      for (u32 i = 0; i < pace_.burst; ++i, next = (next + 1) % kFrames)
        *xsk_ring_prod__tx_desc(&s.tx, at + i) = {u64{next} * kFrameSize,
                                                  static_cast<u32>(frames_[next % frames_.size()].size()), 0};
      xsk_ring_prod__submit(&s.tx, pace_.burst);
      under_way += pace_.burst;
    }
    s.kick();
    while (paced && s.unsent() && !stopping_.load(std::memory_order_relaxed)) s.kick();
  }
}

}  // namespace xdpgpu::bed
