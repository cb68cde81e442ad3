// SPDX-License-Identifier: MIT
#include "userspace/control/program_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace xdpgpu::control {

Result<void> hand_over(BrokerCalls& broker, std::string_view bytes) {
  auto given = broker.call(Message::make(MessageType::program_memory, static_cast<u32>(bytes.size())));
  if (!given) return Error(given.error());
  if (given->message.type != MessageType::memory) return Error(std::string(given->message.text));
  void* const to =
      mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED, given->descriptors[0].get(), 0);
  if (to == MAP_FAILED) return Error(fmt::format("its memory cannot be mapped: {}", std::strerror(errno)));
  std::memcpy(to, bytes.data(), bytes.size());
  munmap(to, bytes.size());
  return {};
}

Result<std::string> copy_of(const kernel::Fd& memory, u64 most) {
  struct stat info {};
  if (fstat(memory.get(), &info) != 0 || static_cast<u64>(info.st_size) > most)
    return Error(std::string("what was handed over is no program"));
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = pread(memory.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Error(std::string("what was handed over cannot be read"));
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::string for_message(const std::string& why) {
  constexpr std::size_t kMost = sizeof(Message::text) - 1;
  return why.size() <= kMost ? why : "..." + why.substr(why.size() - (kMost - 3));
}

}  // namespace xdpgpu::control
