// SPDX-License-Identifier: MIT
#include "userspace/host/capture.hpp"

#include <fmt/format.h>
#include <pcap/pcap.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace xdpgpu::host {
namespace {

constexpr std::size_t kEthernetHeader = 14;
constexpr u16 kIpv4 = 0x0800;
constexpr u16 kIpv6 = 0x86dd;

// What stands in front of the network layer, and how its protocol is told.
enum class Framing { ethernet, raw_ip, sll, sll2, null_host, null_network };

struct LinkType {
  Framing framing;
  std::size_t header;
  const char* name;
};

std::optional<LinkType> link_type_of(int dlt) {
  switch (dlt) {
    case DLT_EN10MB:
      return LinkType{Framing::ethernet, 0, "Ethernet"};
    case DLT_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
      return LinkType{Framing::raw_ip, 0, "raw IP, Ethernet headers are made up"};
    case DLT_LINUX_SLL:
      return LinkType{Framing::sll, 16, "Linux cooked, Ethernet headers are made up"};
    case DLT_LINUX_SLL2:
      return LinkType{Framing::sll2, 20, "Linux cooked v2, Ethernet headers are made up"};
    case DLT_NULL:
      return LinkType{Framing::null_host, 4, "BSD loopback, Ethernet headers are made up"};
    case DLT_LOOP:
      return LinkType{Framing::null_network, 4, "OpenBSD loopback, Ethernet headers are made up"};
    default:
      return std::nullopt;
  }
}

u16 read_be16(const u8* at) { return static_cast<u16>(at[0] << 8 | at[1]); }

u16 ip_ethertype(std::span<const u8> packet) {
  if (packet.empty()) return 0;
  const unsigned version = packet[0] >> 4;
  return version == 4 ? kIpv4 : version == 6 ? kIpv6 : u16{0};
}

// Nanoseconds since 1970. A classic capture's seconds have 32 bits, which libpcap takes for signed ones: they
// go up to the year 2106, and what is later elsewhere counts as the end of it.
u64 time_of(const timeval& time) {
  constexpr std::int64_t kLatest = std::numeric_limits<u32>::max();
  std::int64_t seconds = time.tv_sec;
  if (seconds < 0 && seconds >= std::numeric_limits<std::int32_t>::min()) seconds += kLatest + 1;
  if (seconds < 0 || seconds > kLatest) return static_cast<u64>(kLatest) * 1'000'000'000 + 999'999'999;
  // With nanosecond precision asked for, tv_usec holds nanoseconds.
  return static_cast<u64>(seconds) * 1'000'000'000 +
         static_cast<u64>(std::clamp<std::int64_t>(time.tv_usec, 0, 999'999'999));
}

}  // namespace

struct Capture::Impl {
  ~Impl() {
    if (pcap) pcap_close(pcap);
  }

  // The EtherType of the network layer that follows the capture's own link header.
  u16 ethertype(std::span<const u8> packet) const {
    switch (link.framing) {
      case Framing::sll:
        return read_be16(packet.data() + 14);
      case Framing::sll2:
        return read_be16(packet.data());
      case Framing::ethernet:
      case Framing::raw_ip:
      case Framing::null_host:
      case Framing::null_network:
        break;
    }
    // The address family of BSD loopback differs from system to system; the IP version does not.
    return ip_ethertype(packet.subspan(link.header));
  }

  std::span<const u8> as_ethernet(std::span<const u8> packet) {
    if (link.framing == Framing::ethernet) return packet;
    frame.assign(kEthernetHeader, 0);
    if (packet.size() >= link.header) {
      const u16 type = ethertype(packet);
      frame[12] = static_cast<u8>(type >> 8);
      frame[13] = static_cast<u8>(type);
      const auto rest = packet.subspan(link.header);
      frame.insert(frame.end(), rest.begin(), rest.end());
    }
    return frame;
  }

  pcap_t* pcap = nullptr;
  std::string path;
  LinkType link{};
  std::string link_name;
  std::string problem;
  std::vector<u8> frame;
  u64 last_time = 0;
  u64 packets = 0;
  u64 clamped = 0;
};

Capture::Capture(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Capture::~Capture() = default;

tl::expected<std::unique_ptr<Capture>, std::string> Capture::open(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    return tl::unexpected(fmt::format("cannot read capture {}: {}", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    return tl::unexpected(fmt::format("cannot read capture {}: it is not a regular file", path));
  if (status.st_size == 0)
    return tl::unexpected(fmt::format("cannot read capture {}: the file is empty", path));
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  char error[PCAP_ERRBUF_SIZE] = {};
  impl->pcap = pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, error);
  if (!impl->pcap)
    return tl::unexpected(
        fmt::format("cannot read capture {}: {}; pcap and pcapng files are read", path, error));
  const int dlt = pcap_datalink(impl->pcap);
  const auto link = link_type_of(dlt);
  if (!link) {
    const char* name = pcap_datalink_val_to_name(dlt);
    return tl::unexpected(
        fmt::format("cannot replay capture {}: its link type is {}, not Ethernet, raw IP, "
                    "Linux cooked or BSD loopback; capture on an Ethernet interface",
                    path, name ? name : fmt::format("{}", dlt)));
  }
  impl->link = *link;
  impl->link_name = link->name;
  return std::unique_ptr<Capture>(new Capture(std::move(impl)));
}

std::optional<CapturedPacket> Capture::next() {
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  const int answer = pcap_next_ex(impl_->pcap, &header, &data);
  if (answer == PCAP_ERROR_BREAK) return std::nullopt;
  if (answer != 1) {
    const std::string_view why = pcap_geterr(impl_->pcap);
    // libpcap's words; there is no code for it.
    if (why.find("different from the type of the first") != std::string_view::npos)
      impl_->problem = fmt::format(
          "capture {} has packets of another interface behind packet {}, whose link type is not the first "
          "one's ({}), and was read up to there; take one interface's packets into a capture of their own "
          "(tshark -r {} -Y frame.interface_id==0 -w one.pcapng)",
          impl_->path, impl_->packets, impl_->link_name, impl_->path);
    else
      impl_->problem = fmt::format("capture {} is damaged or cut off behind packet {}: {}", impl_->path,
                                   impl_->packets, why);
    return std::nullopt;
  }
  impl_->packets++;
  const u64 time = time_of(header->ts);
  if (time < impl_->last_time)
    impl_->clamped++;
  else
    impl_->last_time = time;
  CapturedPacket packet;
  packet.frame = impl_->as_ethernet({data, header->caplen});
  packet.time_ns = impl_->last_time;
  packet.cut = header->caplen < header->len;
  packet.original_length =
      static_cast<u32>(packet.frame.size()) + (packet.cut ? header->len - header->caplen : 0);
  return packet;
}

const std::string& Capture::problem() const noexcept { return impl_->problem; }
const std::string& Capture::link_type() const noexcept { return impl_->link_name; }
u64 Capture::clamped() const noexcept { return impl_->clamped; }

}  // namespace xdpgpu::host
