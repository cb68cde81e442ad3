// SPDX-License-Identifier: MIT
#include "userspace/control/ioctl_requests.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace xdpgpu::control {
namespace {

constexpr RequestRule exactly(u32 request) { return {0xffffffffu, request}; }
constexpr RequestRule of_type(char type) { return {0xff00u, u32{static_cast<unsigned char>(type)} << 8}; }

// Asio's sockets, and what interfaces are asked through (and told nothing: that takes a capability).
constexpr std::array kOwn{exactly(FIONBIO), exactly(SIOCETHTOOL), exactly(SIOCGIFMTU), exactly(SIOCGIFNAME),
                          exactly(SIOCGIFINDEX)};

// NVIDIA's control and device nodes (nv-ioctl-numbers.h, nv_escape.h).
constexpr std::array kNvidia{of_type('F')};
// NVIDIA's unified memory (uvm_ioctl.h, uvm_linux_ioctl.h): plain numbers, those for its own tests, from 200
// on, left out; and UVM_INITIALIZE, UVM_DEINITIALIZE.
constexpr std::array kUvm{RequestRule{0xffffff80u, 0}, exactly(0x30000001), exactly(0x30000002)};
// NVIDIA's mode setting (nvkms-ioctl.h: one request), which its Vulkan driver asks for displays.
constexpr std::array kModeset{RequestRule{0xffffu, u32{'m'} << 8}};
// What shows and imports memory and fences between drivers: DRM nodes, dma-buf (linux/dma-buf.h), sync files
// (linux/sync_file.h), and AMD's compute node (linux/kfd_ioctl.h).
constexpr std::array kDrm{of_type('d'), of_type('b'), of_type('>'), of_type('K')};

}  // namespace

std::vector<RequestRule> admitted_requests(Drivers drivers) {
  std::vector<RequestRule> rules(kOwn.begin(), kOwn.end());
  const auto add = [&](const auto& more) { rules.insert(rules.end(), more.begin(), more.end()); };
  if (drivers.cuda || drivers.vulkan) {
    add(kNvidia);
    add(kUvm);
  }
  if (drivers.vulkan) {
    add(kModeset);
    add(kDrm);
  }
  return rules;
}

bool is_admitted(u32 request, Drivers drivers) {
  const auto rules = admitted_requests(drivers);
  return std::any_of(rules.begin(), rules.end(),
                     [&](const RequestRule& rule) { return (request & rule.mask) == rule.value; });
}

std::string describe_request(u32 request) {
  static constexpr std::array kWays{"no data", "written", "read", "both ways"};
  const u32 type = _IOC_TYPE(request);
  return fmt::format("{:#010x} (type {}, nr {:#04x}, {} bytes, {})", request,
                     std::isprint(static_cast<int>(type)) ? fmt::format("'{}'", static_cast<char>(type))
                                                          : fmt::format("{:#04x}", type),
                     _IOC_NR(request), _IOC_SIZE(request), kWays[_IOC_DIR(request) & 3]);
}

}  // namespace xdpgpu::control
