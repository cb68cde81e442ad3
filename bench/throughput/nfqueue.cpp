// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <fmt/format.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "bench/throughput/forwarders.hpp"

namespace xdpgpu::throughput {
namespace {

constexpr u32 kQueued = 16384, kWholePacket = 0xffff;
constexpr int kBuffer = 64 << 20;

// iptables, since a kernel may be without nftables' own statement for it.
void tell(const Site& site, const char* what) {
  const auto outcome = lab::run_program(
      site.ns(), {find_program("iptables"), "-w", "5", what, "FORWARD", "-j", "NFQUEUE", "--queue-num", "0"});
  if (outcome.status != 0)
    throw lab::Error(
        fmt::format("iptables {} FORWARD -j NFQUEUE failed ({}): {}", what, outcome.status, outcome.err));
}

class Queue : public Dut {
 public:
  explicit Queue(const Site& site) : site_(site) {
    site.let_stack_take(true, true);
    site.ns().run([&] { handle_.reset(nfq_open()); });
    if (!handle_) throw lab::Error(fmt::format("cannot talk to nfnetlink_queue: {}", std::strerror(errno)));
    // Its way to the kernel is its namespace's, whoever calls.
    queue_ = nfq_create_queue(
        handle_.get(), 0,
        [](nfq_q_handle* queue, nfgenmsg*, nfq_data* data, void*) {
          const nfqnl_msg_packet_hdr* header = nfq_get_msg_packet_hdr(data);
          return header == nullptr ? 0
                                   : nfq_set_verdict(queue, ntohl(header->packet_id), NF_ACCEPT, 0, nullptr);
        },
        nullptr);
    if (queue_ == nullptr || nfq_set_mode(queue_, NFQNL_COPY_PACKET, kWholePacket) < 0 ||
        nfq_set_queue_maxlen(queue_, kQueued) < 0)
      throw lab::Error(fmt::format("cannot bind queue 0 of nfnetlink_queue: {}", std::strerror(errno)));
    const int fd = nfq_fd(handle_.get());
    const timeval limit{0, kTurnMs * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kBuffer, sizeof(kBuffer));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    tell(site, "-A");
    loop_.emplace(site.cpu(), [this, fd] {
      const ssize_t length = recv(fd, buffer_.data(), buffer_.size(), 0);
      if (length > 0) nfq_handle_packet(handle_.get(), buffer_.data(), static_cast<int>(length));
    });
  }
  ~Queue() override {
    loop_.reset();
    try {
      tell(site_, "-D");
    } catch (const lab::Error& error) {
      fmt::print(stderr, "bench-throughput: {}\n", error.what());
    }
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

 private:
  struct Close {
    void operator()(nfq_handle* handle) const { nfq_close(handle); }
  };
  const Site& site_;
  std::unique_ptr<nfq_handle, Close> handle_;
  nfq_q_handle* queue_ = nullptr;  // goes with the handle
  std::array<char, 65536 + 4096> buffer_{};
  std::optional<Loop> loop_;
};

}  // namespace

std::unique_ptr<Dut> nfqueue(const Site& site) { return std::make_unique<Queue>(site); }

}  // namespace xdpgpu::throughput
