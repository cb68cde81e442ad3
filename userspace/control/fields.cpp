// SPDX-License-Identifier: MIT
#include "userspace/control/fields.hpp"

#include <fmt/format.h>

namespace xdpgpu::control {

std::string unreadable(const Json::exception& error) {
  return fmt::format(
      "the process gave an answer that this command cannot read ({}); use the command that it was started "
      "with",
      error.what());
}

}  // namespace xdpgpu::control
