// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <xdp/xsk.h>

#include <cstring>

#include "bench/path/bare.hpp"
#include "bench/throughput/forwarders.hpp"

namespace xdpgpu::throughput {
namespace {

constexpr u32 kFrames = 4096, kFrameSize = 2048, kRing = 2048, kBatch = 64;
constexpr std::size_t kBytes = std::size_t{kFrames} * kFrameSize;

void check(int error, const char* what) {
  if (error != 0) throw lab::Error(fmt::format("cannot {}: {}", what, std::strerror(-error)));
}

class TwoSockets : public Dut {
 public:
  explicit TwoSockets(const Site& site)
      : from_(site.out().mac()), to_(site.next_hop()), ns_(site.ns()), area_(map_area()) {
    site.let_stack_take(true, false);
    ns_.run([&] { open(site); });
    give_all();
    loop_.emplace(site.cpu(), [this] { turn(); });
  }
  ~TwoSockets() override {
    loop_.reset();
    ns_.run([this] { program_.reset(); });
  }
  TwoSockets(const TwoSockets&) = delete;
  TwoSockets& operator=(const TwoSockets&) = delete;

 private:
  struct Unmap {
    void operator()(u8* area) const { munmap(area, kBytes); }
  };
  struct DeleteUmem {
    void operator()(xsk_umem* umem) const { xsk_umem__delete(umem); }
  };
  struct DeleteSocket {
    void operator()(xsk_socket* socket) const { xsk_socket__delete(socket); }
  };

  static u8* map_area() {
    void* at =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) throw lab::Error("cannot map frames");
    return static_cast<u8*>(at);
  }

  void open(const Site& site) {
    xsk_umem_config umem_config{};
    umem_config.fill_size = kFrames;
    umem_config.comp_size = kRing;
    umem_config.frame_size = kFrameSize;
    xsk_umem* umem = nullptr;
    check(xsk_umem__create(&umem, area_.get(), kBytes, &fill_, &unused_completion_, &umem_config),
          "register frames with AF_XDP");
    umem_.reset(umem);
    xsk_socket_config config{};
    config.rx_size = config.tx_size = kRing;
    config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
    config.bind_flags = XDP_COPY | XDP_USE_NEED_WAKEUP;
    xsk_socket* socket = nullptr;
    check(xsk_socket__create_shared(&socket, site.in().ifname().c_str(), 0, umem, &rx_, nullptr, &fill_,
                                    &unused_completion_, &config),
          "open an AF_XDP socket that receives");
    receiving_.reset(socket);
    check(xsk_socket__create_shared(&socket, site.out().ifname().c_str(), 0, umem, nullptr, &tx_,
                                    &unused_fill_, &completion_, &config),
          "open an AF_XDP socket that sends");
    sending_.reset(socket);
    program_.emplace(site.in(), bed::TinyProgram::What::redirect_to_sockets);
    program_->enter_socket(xsk_socket__fd(receiving_.get()));
  }

  void give_all() {
    u32 at = 0;
    xsk_ring_prod__reserve(&fill_, kFrames, &at);
    for (u32 i = 0; i < kFrames; ++i) *xsk_ring_prod__fill_addr(&fill_, at + i) = u64{i} * kFrameSize;
    xsk_ring_prod__submit(&fill_, kFrames);
  }

  // Frames that were sent, to be received into. The ring has room for all there are; the kernel only shows it
  // late.
  void give_back() {
    u32 sent = 0, at = 0;
    const u32 count = xsk_ring_cons__peek(&completion_, kRing, &sent);
    if (count == 0) return;
    while (xsk_ring_prod__reserve(&fill_, count, &at) != count) {
    }
    for (u32 i = 0; i < count; ++i)
      *xsk_ring_prod__fill_addr(&fill_, at + i) =
          *xsk_ring_cons__comp_addr(&completion_, sent + i) & ~u64{kFrameSize - 1};
    xsk_ring_prod__submit(&fill_, count);
    xsk_ring_cons__release(&completion_, count);
    in_flight_ -= count;
  }

  void turn() {
    give_back();
    u32 came = 0, at = 0;
    const u32 count = xsk_ring_cons__peek(&rx_, std::min(kBatch, kRing - in_flight_), &came);
    if (count != 0 && xsk_ring_prod__reserve(&tx_, count, &at) == count) {
      for (u32 i = 0; i < count; ++i) {
        const xdp_desc descriptor = *xsk_ring_cons__rx_desc(&rx_, came + i);
        route(area_.get() + descriptor.addr, from_, to_);
        *xsk_ring_prod__tx_desc(&tx_, at + i) = descriptor;
      }
      xsk_ring_prod__submit(&tx_, count);
      xsk_ring_cons__release(&rx_, count);
      in_flight_ += count;
    } else if (count != 0) {
      xsk_ring_cons__cancel(&rx_, count);
    }
    if (in_flight_ != 0) {
      sendto(xsk_socket__fd(sending_.get()), nullptr, 0, MSG_DONTWAIT, nullptr, 0);
    } else if (count == 0) {
      pollfd waiting{xsk_socket__fd(receiving_.get()), POLLIN, 0};
      poll(&waiting, 1, kTurnMs);
    }
  }

  lab::Mac from_, to_;
  const lab::Namespace& ns_;
  std::unique_ptr<u8, Unmap> area_;
  xsk_ring_prod fill_{}, unused_fill_{}, tx_{};
  xsk_ring_cons completion_{}, unused_completion_{}, rx_{};
  u32 in_flight_ = 0;
  std::unique_ptr<xsk_umem, DeleteUmem> umem_;
  std::unique_ptr<xsk_socket, DeleteSocket> receiving_, sending_;
  std::optional<bed::TinyProgram> program_;
  std::optional<Loop> loop_;
};

}  // namespace

std::unique_ptr<Dut> af_xdp(const Site& site) { return std::make_unique<TwoSockets>(site); }

}  // namespace xdpgpu::throughput
