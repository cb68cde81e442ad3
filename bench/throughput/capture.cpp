// SPDX-License-Identifier: MIT
#include "bench/throughput/capture.hpp"

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

namespace xdpgpu::throughput {
namespace {

constexpr int kBuffer = 64 << 20, kBlockMs = 20, kQuietBlocks = 5;

}  // namespace

void Capture::Close::operator()(pcap* handle) const { pcap_close(handle); }

Capture::Capture(const lab::Interface& interface, Direction direction, const std::string& filter, int bytes) {
  interface.ns().run([&] {
    std::array<char, PCAP_ERRBUF_SIZE> why{};
    handle_.reset(pcap_create(interface.ifname().c_str(), why.data()));
    if (!handle_) throw lab::Error(fmt::format("cannot capture on {}: {}", interface.ifname(), why.data()));
    pcap_t* const handle = handle_.get();
    const auto check = [&](int status) {
      if (status < 0)
        throw lab::Error(fmt::format("cannot capture {} on {}: {} {}", filter, interface.ifname(),
                                     pcap_statustostr(status), pcap_geterr(handle)));
    };
    check(pcap_set_snaplen(handle, bytes));
    check(pcap_set_timeout(handle, kBlockMs));
    check(pcap_set_buffer_size(handle, kBuffer));
    check(pcap_set_promisc(handle, 1));
    check(pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_NANO));
    check(pcap_activate(handle));
    bpf_program compiled{};
    check(pcap_compile(handle, &compiled, filter.c_str(), 1, PCAP_NETMASK_UNKNOWN));
    const int status = pcap_setfilter(handle, &compiled);
    pcap_freecode(&compiled);
    check(status);
    check(pcap_setdirection(handle, direction == Direction::in ? PCAP_D_IN : PCAP_D_OUT));
    check(pcap_setnonblock(handle, 1, why.data()));
  });
}

void Capture::read() {
  const auto add = [](u_char* to, const pcap_pkthdr* header, const u_char* bytes) {
    reinterpret_cast<std::vector<Seen>*>(to)->push_back(
        {static_cast<u64>(header->ts.tv_sec) * 1'000'000'000 + static_cast<u64>(header->ts.tv_usec),
         lab::Frame(bytes, bytes + header->caplen)});
  };
  while (pcap_dispatch(handle_.get(), -1, add, reinterpret_cast<u_char*>(&seen_)) > 0) {
  }
}

std::vector<Seen> Capture::take() {
  // A block of frames is shown when it is full or its time is over.
  for (int quiet = 0; quiet < kQuietBlocks; ++quiet) {
    const std::size_t before = seen_.size();
    std::this_thread::sleep_for(std::chrono::milliseconds(kBlockMs));
    read();
    if (seen_.size() != before) quiet = 0;
  }
  return std::exchange(seen_, {});
}

unsigned Capture::lost() const {
  pcap_stat stat{};
  return pcap_stats(handle_.get(), &stat) == 0 ? stat.ps_drop : 1;
}

}  // namespace xdpgpu::throughput
