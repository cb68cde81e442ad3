// SPDX-License-Identifier: MIT
//
// bench/pages.hpp: memory of a known page size, so that what a device makes of small and of huge pages can
// be told apart.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>

#include "maps/types.h"

namespace xdpgpu::bench {

// Anonymous, zeroed, all there, not inherited by fork. Throws std::runtime_error, a sentence.
class Pages {
 public:
  static constexpr u64 kHuge = 2u << 20;

  // huge: of 2 MiB from the kernel's pool; else of 4 KiB for sure.
  Pages(u64 bytes, bool huge) : bytes_((bytes + kHuge - 1) / kHuge * kHuge) {
    base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | (huge ? MAP_HUGETLB | MAP_POPULATE : 0), -1, 0);
    if (base_ == MAP_FAILED)
      throw std::runtime_error(
          huge ? fmt::format("{} huge pages of 2 MiB cannot be had: write their number to "
                             "/proc/sys/vm/nr_hugepages",
                             bytes_ / kHuge)
               : fmt::format("{} MiB of memory cannot be had: {}", bytes_ >> 20, std::strerror(errno)));
    if (!huge) madvise(base_, bytes_, MADV_NOHUGEPAGE);
    madvise(base_, bytes_, MADV_DONTFORK);
    std::memset(base_, 0, bytes_);
  }
  ~Pages() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }
  Pages(Pages&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  Pages& operator=(Pages&&) = delete;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  u8* base() const { return static_cast<u8*>(base_); }
  u64 bytes() const { return bytes_; }
  template <class T>
  std::span<T> as(u64 count) const {
    return {reinterpret_cast<T*>(base()), count};
  }

 private:
  void* base_;
  u64 bytes_;
};

}  // namespace xdpgpu::bench
