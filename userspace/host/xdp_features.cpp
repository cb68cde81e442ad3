// SPDX-License-Identifier: MIT
#include "userspace/host/xdp_features.hpp"

#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include <memory>

namespace xdpgpu::host {
namespace {

// From linux/netdev.h, which is newer than the oldest kernel headers we build with.
constexpr int kCommandDevGet = 1;
constexpr int kAttributeIfindex = 1;
constexpr int kAttributeXdpFeatures = 3;

int take_features(nl_msg* message, void* argument) {
  auto* features = static_cast<std::optional<u64>*>(argument);
  nlattr* attributes[kAttributeXdpFeatures + 1] = {};
  if (genlmsg_parse(nlmsg_hdr(message), 0, attributes, kAttributeXdpFeatures, nullptr) == 0 &&
      attributes[kAttributeXdpFeatures])
    *features = nla_get_u64(attributes[kAttributeXdpFeatures]);
  return NL_OK;
}

}  // namespace

std::optional<u64> query_xdp_features(u32 ifindex) {
  const std::unique_ptr<nl_sock, decltype(&nl_socket_free)> socket(nl_socket_alloc(), nl_socket_free);
  if (!socket || genl_connect(socket.get()) < 0) return std::nullopt;
  const int family = genl_ctrl_resolve(socket.get(), "netdev");
  if (family < 0) return std::nullopt;
  const std::unique_ptr<nl_msg, decltype(&nlmsg_free)> message(nlmsg_alloc(), nlmsg_free);
  if (!message || !genlmsg_put(message.get(), NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, 0, kCommandDevGet, 1))
    return std::nullopt;
  if (nla_put_u32(message.get(), kAttributeIfindex, ifindex) < 0) return std::nullopt;
  std::optional<u64> features;
  nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, take_features, &features);
  if (nl_send_auto(socket.get(), message.get()) < 0 || nl_recvmsgs_default(socket.get()) < 0)
    return std::nullopt;
  return features;
}

}  // namespace xdpgpu::host
