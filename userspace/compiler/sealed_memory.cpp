// SPDX-License-Identifier: MIT
#include "userspace/compiler/sealed_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace xdpgpu::compiler {
namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string system_error(const char* what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

}  // namespace

MemoryWriter::MemoryWriter(const char* name) : memory_(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!memory_) error_ = system_error("there is no memory to write to");
}

void MemoryWriter::write(std::span<const std::byte> bytes) {
  while (error_.empty() && !bytes.empty()) {
    const ssize_t written = ::write(memory_.get(), bytes.data(), bytes.size());
    if (written > 0)
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      error_ = system_error("there is no memory to write to");
  }
}

Result<kernel::Fd> MemoryWriter::seal() {
  if (error_.empty() && fcntl(memory_.get(), F_ADD_SEALS, kSeals) != 0)
    error_ = system_error("memory cannot be sealed");
  if (!error_.empty()) return tl::unexpected(error_);
  return std::move(memory_);
}

Result<SealedMemory> SealedMemory::map(const kernel::Fd& memory, u64 most) {
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  const off_t end = lseek(memory.get(), 0, SEEK_END);
  if (seals < 0 || (seals & kSeals) != kSeals || end < 0)
    return tl::unexpected(std::string("the memory is not sealed"));
  const auto bytes = static_cast<std::size_t>(end);
  if (bytes > most) return tl::unexpected(fmt::format("there is more in the memory than {} MiB", most >> 20));
  if (bytes == 0) return SealedMemory({});
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED) return tl::unexpected(system_error("memory cannot be mapped"));
  return SealedMemory({static_cast<const std::byte*>(at), bytes});
}

SealedMemory::~SealedMemory() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}
SealedMemory::SealedMemory(SealedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
SealedMemory& SealedMemory::operator=(SealedMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::span<const std::byte> MemoryReader::take(u64 bytes) {
  if (bytes > left_.size()) {
    fail();
    return {};
  }
  const auto taken = left_.first(bytes);
  left_ = left_.subspan(bytes);
  return taken;
}

std::string_view MemoryReader::text() {
  const auto bytes = take(value<u64>());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace xdpgpu::compiler
