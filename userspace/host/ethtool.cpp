// SPDX-License-Identifier: MIT
#include "userspace/host/ethtool.hpp"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace xdpgpu::host {
namespace {

class Socket {
 public:
  Socket() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  // Some requests are answered with flags above 0.
  bool request(const std::string& ifname, void* data) const {
    ifreq request{};
    if (ifname.size() >= sizeof(request.ifr_name)) {
      errno = ENODEV;
      return false;
    }
    std::memcpy(request.ifr_name, ifname.data(), ifname.size());
    request.ifr_data = static_cast<char*>(data);
    return ioctl(fd_, SIOCETHTOOL, &request) >= 0;
  }

 private:
  int fd_;
};

// An ethtool structure with a flexible array behind it.
template <class T>
class Variable {
 public:
  explicit Variable(std::size_t extra_bytes) : words_((sizeof(T) + extra_bytes + 7) / 8) {}
  T* operator->() { return reinterpret_cast<T*>(words_.data()); }
  T* get() { return reinterpret_cast<T*>(words_.data()); }

 private:
  std::vector<u64> words_;
};

// The kernel's names of the offloads, by bit.
std::vector<std::string> feature_names(const Socket& socket, const std::string& ifname) {
  Variable<ethtool_sset_info> info(sizeof(u32));
  info->cmd = ETHTOOL_GSSET_INFO;
  info->sset_mask = 1ull << ETH_SS_FEATURES;
  if (!socket.request(ifname, info.get()) || info->sset_mask == 0) return {};
  const u32 count = info->data[0];
  Variable<ethtool_gstrings> strings(std::size_t{count} * ETH_GSTRING_LEN);
  strings->cmd = ETHTOOL_GSTRINGS;
  strings->string_set = ETH_SS_FEATURES;
  strings->len = count;
  if (!socket.request(ifname, strings.get())) return {};
  std::vector<std::string> names;
  names.reserve(count);
  for (u32 i = 0; i < strings->len && i < count; i++) {
    const char* name = reinterpret_cast<const char*>(strings->data) + std::size_t{i} * ETH_GSTRING_LEN;
    names.emplace_back(name, strnlen(name, ETH_GSTRING_LEN));
  }
  return names;
}

}  // namespace

namespace ethtool {

std::optional<std::string> driver(const std::string& ifname) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  if (!Socket().request(ifname, &info)) return std::nullopt;
  return std::string(info.driver, strnlen(info.driver, sizeof(info.driver)));
}

std::optional<u32> receive_channels(const std::string& ifname) {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  if (!Socket().request(ifname, &channels)) return std::nullopt;
  const u32 count = channels.combined_count + channels.rx_count;
  if (count == 0) return std::nullopt;
  return count;
}

std::optional<u32> speed_mbps(const std::string& ifname) {
  const Socket socket;
  // The first answer only says, negated, how many words the bit maps behind the structure take.
  Variable<ethtool_link_settings> settings(3 * 127 * sizeof(u32));
  settings->cmd = ETHTOOL_GLINKSETTINGS;
  if (!socket.request(ifname, settings.get()) || settings->link_mode_masks_nwords >= 0) return std::nullopt;
  const auto words = static_cast<__s8>(-settings->link_mode_masks_nwords);
  settings->cmd = ETHTOOL_GLINKSETTINGS;
  settings->link_mode_masks_nwords = words;
  if (!socket.request(ifname, settings.get())) return std::nullopt;
  const u32 speed = settings->speed;
  if (speed == 0 || speed == static_cast<u32>(SPEED_UNKNOWN)) return std::nullopt;
  return speed;
}

std::map<std::string, Offload> offloads(const std::string& ifname) {
  const Socket socket;
  const auto names = feature_names(socket, ifname);
  const auto blocks = static_cast<u32>((names.size() + 31) / 32);
  Variable<ethtool_gfeatures> features(blocks * sizeof(ethtool_get_features_block));
  features->cmd = ETHTOOL_GFEATURES;
  features->size = blocks;
  if (names.empty() || !socket.request(ifname, features.get())) return {};
  std::map<std::string, Offload> result;
  for (std::size_t i = 0; i < names.size(); i++) {
    const auto& block = features->features[i / 32];
    const u32 bit = 1u << (i % 32);
    if (names[i].empty()) continue;
    result[names[i]] = {.active = (block.active & bit) != 0,
                        .changeable = (block.available & bit) != 0 && (block.never_changed & bit) == 0};
  }
  return result;
}

}  // namespace ethtool

Result<void> set_offload(const std::string& ifname, const std::string& offload, bool on) {
  const Socket socket;
  const auto names = feature_names(socket, ifname);
  for (std::size_t i = 0; i < names.size(); i++) {
    if (names[i] != offload) continue;
    const auto blocks = static_cast<u32>((names.size() + 31) / 32);
    Variable<ethtool_sfeatures> features(blocks * sizeof(ethtool_set_features_block));
    features->cmd = ETHTOOL_SFEATURES;
    features->size = blocks;
    const u32 bit = 1u << (i % 32);
    features->features[i / 32].valid = bit;
    features->features[i / 32].requested = on ? bit : 0;
    if (!socket.request(ifname, features.get()))
      return tl::unexpected(fmt::format("cannot switch offload {} of {} {}: {}", offload, ifname,
                                        on ? "on" : "off", std::strerror(errno)));
    const auto after = ethtool::offloads(ifname);
    const auto now = after.find(offload);
    if (now != after.end() && now->second.active != on)
      return tl::unexpected(
          fmt::format("the driver of {} keeps offload {} {}", ifname, offload, on ? "off" : "on"));
    return {};
  }
  return tl::unexpected(fmt::format("{} has no offload named {}", ifname, offload));
}

}  // namespace xdpgpu::host
