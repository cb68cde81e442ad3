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
// Whatever its size, which differs between versions of a driver.
constexpr RequestRule of_number(char type, u32 number) {
  return {0xffffu, (u32{static_cast<unsigned char>(type)} << 8) | number};
}

// Asio's sockets, and what interfaces are asked through (and told nothing: that takes a capability).
constexpr std::array kOwn{exactly(FIONBIO), exactly(SIOCETHTOOL), exactly(SIOCGIFMTU), exactly(SIOCGIFNAME),
                          exactly(SIOCGIFINDEX)};

// NVIDIA's control and device nodes: what was recorded of CUDA and Vulkan (driver 580), and its neighbours in
// nv_escape.h and nv-ioctl-numbers.h. Not among them: settings of the driver and its registry (0x32, 0x33,
// 0x37, 0x38, 0x4d), I2C (0x39), the state of memory nodes (0xd8), and the one that carries any other (0xd3).
constexpr std::array<u32, 31> kNvidia{
    0x27, 0x28, 0x29, 0x2a, 0x2b, 0x34, 0x35,               // objects and what they are asked
    0x41, 0x52, 0xce, 0xcf,                                 // channels and events
    0x4a, 0x4e, 0x4f, 0x54, 0x57, 0x58, 0x59, 0x5e,         // memory and its mappings
    0x5c, 0x5d, 0xd9,                                       // memory as descriptors
    0xc8, 0xc9, 0xd1, 0xd2, 0xd4, 0xd5, 0xd6, 0xd7, 0xda};  // cards, and opening them
// NVIDIA's unified memory (uvm_ioctl.h, uvm_linux_ioctl.h), whose requests are plain numbers, and those with
// which it begins and ends. Not among them: what tools watch and write other processes with (36, 56 to 63,
// 67, 76, 77), and its own tests (from 200 on).
constexpr std::array<u32, 39> kUvm{23, 24, 25, 26, 27, 28, 29, 30, 31, 33, 34, 35,         37,
                                   38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 51, 53,         54,
                                   55, 64, 65, 66, 68, 70, 71, 72, 73, 74, 75, 0x30000001, 0x30000002};
// DRM nodes of all other drivers, and what shows memory and fences to another one: dma-buf (linux/dma-buf.h)
// and sync files (linux/sync_file.h).
constexpr std::array kDrm{of_type('d'), of_type('b'), of_type('>')};

}  // namespace

std::vector<RequestRule> admitted_requests(Drivers drivers) {
  std::vector<RequestRule> rules(kOwn.begin(), kOwn.end());
  if (drivers.cuda || drivers.vulkan)
    for (const u32 number : kNvidia) rules.push_back(of_number('F', number));
  if (drivers.cuda || drivers.vulkan)
    for (const u32 number : kUvm) rules.push_back(exactly(number));
  if (drivers.vulkan) rules.insert(rules.end(), kDrm.begin(), kDrm.end());
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
