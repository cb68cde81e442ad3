// SPDX-License-Identifier: MIT
//
// userspace/control/seccomp_filter.hpp: the filter as seccomp.cpp makes it, for what puts it in force and for
// what records by it.
#pragma once

#include <seccomp.h>

#include <memory>
#include <vector>

#include "userspace/control/result.hpp"
#include "userspace/control/seccomp.hpp"

namespace xdpgpu::control {

struct ReleaseFilter {
  void operator()(void* filter) const noexcept { seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, ReleaseFilter>;

// A call that may be made only so.
struct LimitedCall {
  int call;
  std::vector<scmp_arg_cmp> arguments;
};
std::vector<LimitedCall> limited_calls(bool drivers);

// `others`: what becomes of a call on no list. recorded: nothing is refused but clone3; requests of ioctl and
// what names a file are among the others, too; what the recorder itself does is admitted.
Result<Filter> make_filter(Drivers drivers, u32 others, bool recorded);

Error cannot_filter(const char* what, int error);

}  // namespace xdpgpu::control
