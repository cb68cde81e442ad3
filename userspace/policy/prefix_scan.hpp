// SPDX-License-Identifier: MIT
//
// userspace/policy/prefix_scan.hpp: prefixes out of the midst of a text, at the pace of the text.
#pragma once

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// Reads the address or prefix that stands at `at`, up to the first character that cannot belong to it, and
// returns where that is. nullptr where none stands there in a usual form, or one with host bits set; `prefix`
// is then undefined. What this refuses read_prefix() may still take (an IPv4 address inside of an IPv6 one);
// what it takes read_prefix() takes, too.
const char* scan_prefix(const char* at, const char* end, Prefix& prefix);

}  // namespace xdpgpu::policy
