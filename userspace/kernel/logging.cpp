// SPDX-License-Identifier: MIT
#include "userspace/kernel/logging.hpp"

#include <bpf/libbpf.h>
#include <xdp/libxdp.h>

#include <cstdarg>
#include <cstdio>
#include <utility>

namespace xdpgpu::kernel {
namespace {

// The libraries' callbacks carry no context.
thread_local std::string first_message, last_message;

void remember(const char* format, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof(text), format, arguments);
  std::string line(text);
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  if (line.empty() || line.find('\n') != std::string::npos) return;
  if (first_message.empty()) first_message = line;
  last_message = std::move(line);
}

int from_libbpf(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_WARN) remember(format, arguments);
  return 0;
}

int from_libxdp(libxdp_print_level level, const char* format, va_list arguments) {
  if (level == LIBXDP_WARN) remember(format, arguments);
  return 0;
}

}  // namespace

void quiet_libraries() {
  libbpf_set_print(from_libbpf);
  libxdp_set_print(from_libxdp);
}

std::string last_library_message() {
  first_message.clear();
  return std::exchange(last_message, {});
}

std::string first_library_message() {
  last_message.clear();
  return std::exchange(first_message, {});
}

}  // namespace xdpgpu::kernel
