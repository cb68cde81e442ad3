// SPDX-License-Identifier: MIT
#include "bench/throughput/forwarders.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace xdpgpu::throughput {
namespace {

constexpr unsigned kBatch = 64, kFrameSize = 2048;
constexpr int kBuffer = 16 << 20;

[[noreturn]] void fail(const char* what, const lab::Interface& interface) {
  throw lab::Error(fmt::format("cannot {} {}: {}", what, interface.ifname(), std::strerror(errno)));
}

// Not bound yet: what comes before it stands in its ring is not lost in its buffer.
lab::Fd packet_socket(const lab::Interface& interface) {
  return interface.ns().run([&] {
    lab::Fd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (!fd) fail("open a packet socket for", interface);
    return fd;
  });
}

void bind_to(const lab::Fd& fd, const lab::Interface& interface, u16 protocol) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = static_cast<int>(interface.ifindex());
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    fail("bind a packet socket to", interface);
}

// Sends batches; what finds no place on the wire is dropped, as a router does.
class Sending {
 public:
  explicit Sending(const lab::Interface& interface) : fd_(packet_socket(interface)) {
    const int on = 1;
    if (setsockopt(fd_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) != 0)
      fail("go past the queueing discipline of", interface);
    bind_to(fd_, interface, 0);
  }
  void send(mmsghdr* messages, unsigned count) const {
    for (unsigned done = 0; done < count;) {
      const int sent = sendmmsg(fd_.get(), messages + done, count - done, 0);
      if (sent < 0 && errno == EINTR) continue;
      done += sent > 0 ? static_cast<unsigned>(sent) : 1;
    }
  }

 private:
  lab::Fd fd_;
};

// Messages over buffers that are their own, or others'.
struct Batch {
  std::array<mmsghdr, kBatch> messages{};
  std::array<iovec, kBatch> parts{};
  Batch() {
    for (unsigned i = 0; i < kBatch; ++i) {
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
  }
};

class PacketRing : public Dut {
 public:
  explicit PacketRing(const Site& site)
      : from_(site.out().mac()),
        to_(site.next_hop()),
        receiving_(packet_socket(site.in())),
        sending_(site.out()) {
    site.let_stack_take(false, false);
    const int version = TPACKET_V2, on = 1;
    tpacket_req request{};
    request.tp_frame_size = kFrameSize;
    request.tp_frame_nr = kSlots;
    request.tp_block_size = kBlock;
    request.tp_block_nr = kSlots * kFrameSize / kBlock;
    if (setsockopt(receiving_.get(), SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) != 0 ||
        setsockopt(receiving_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) != 0 ||
        setsockopt(receiving_.get(), SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) != 0)
      fail("make a receive ring for", site.in());
    void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, receiving_.get(), 0);
    if (at == MAP_FAILED) fail("map the receive ring of", site.in());
    ring_ = static_cast<u8*>(at);
    bind_to(receiving_, site.in(), ETH_P_ALL);
    loop_.emplace(site.cpu(), [this] { turn(); });
  }
  ~PacketRing() override {
    loop_.reset();
    if (ring_ != nullptr) munmap(ring_, kBytes);
  }
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;

 private:
  static constexpr unsigned kSlots = 8192, kBlock = 1 << 16;
  static constexpr std::size_t kBytes = std::size_t{kSlots} * kFrameSize;

  tpacket2_hdr* slot(unsigned i) const {
    return reinterpret_cast<tpacket2_hdr*>(ring_ + std::size_t{i % kSlots} * kFrameSize);
  }
  void turn() {
    unsigned count = 0;
    for (; count < kBatch; ++count) {
      tpacket2_hdr* const header = slot(next_ + count);
      if ((__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0) break;
      u8* const frame = reinterpret_cast<u8*>(header) + header->tp_mac;
      route(frame, from_, to_);
      batch_.parts[count] = {frame, header->tp_snaplen};
    }
    if (count == 0) {
      pollfd waiting{receiving_.get(), POLLIN, 0};
      poll(&waiting, 1, kTurnMs);
      return;
    }
    sending_.send(batch_.messages.data(), count);
    for (unsigned i = 0; i < count; ++i)
      __atomic_store_n(&slot(next_ + i)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    next_ += count;
  }

  lab::Mac from_, to_;
  lab::Fd receiving_;
  Sending sending_;
  u8* ring_ = nullptr;
  unsigned next_ = 0;
  Batch batch_;
  std::optional<Loop> loop_;
};

class ReceiveMany : public Dut {
 public:
  explicit ReceiveMany(const Site& site)
      : from_(site.out().mac()),
        to_(site.next_hop()),
        receiving_(packet_socket(site.in())),
        sending_(site.out()) {
    site.let_stack_take(false, false);
    const int on = 1;
    const timeval limit{0, kTurnMs * 1000};
    setsockopt(receiving_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kBuffer, sizeof(kBuffer));
    if (setsockopt(receiving_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) != 0 ||
        setsockopt(receiving_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0)
      fail("set up the packet socket of", site.in());
    bind_to(receiving_, site.in(), ETH_P_ALL);
    loop_.emplace(site.cpu(), [this] { turn(); });
  }

 private:
  void turn() {
    for (unsigned i = 0; i < kBatch; ++i) batch_.parts[i] = {frames_[i].data(), kFrameSize};
    const int count = recvmmsg(receiving_.get(), batch_.messages.data(), kBatch, MSG_WAITFORONE, nullptr);
    if (count <= 0) return;
    for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
      route(frames_[i].data(), from_, to_);
      batch_.parts[i].iov_len = batch_.messages[i].msg_len;
    }
    sending_.send(batch_.messages.data(), static_cast<unsigned>(count));
  }

  lab::Mac from_, to_;
  lab::Fd receiving_;
  Sending sending_;
  Batch batch_;
  std::array<std::array<u8, kFrameSize>, kBatch> frames_{};
  std::optional<Loop> loop_;
};

class LinuxForwarding : public Dut {
 public:
  explicit LinuxForwarding(const Site& site) { site.let_stack_take(true, true); }
};

}  // namespace

Loop::Loop(int cpu, std::function<void()> turn)
    : thread_([this, cpu, turn = std::move(turn)] {
        run_on(cpu, -10);  // as xdpgpu has it
        while (!stopping_.load(std::memory_order_relaxed)) turn();
      }) {}

Loop::~Loop() {
  stopping_ = true;
  thread_.join();
}

std::unique_ptr<Dut> af_packet(const Site& site) { return std::make_unique<PacketRing>(site); }
std::unique_ptr<Dut> recvmmsg_loop(const Site& site) { return std::make_unique<ReceiveMany>(site); }
std::unique_ptr<Dut> linux_forwarding(const Site& site) { return std::make_unique<LinuxForwarding>(site); }

}  // namespace xdpgpu::throughput
