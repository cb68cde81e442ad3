// SPDX-License-Identifier: MIT
//
// gpu/large_vector.hpp: vectors of many megabytes that live for one step of compiling. On pages of 2 MiB
// where the kernel has them to give: at two million prefixes the faults of small pages cost as much as the
// work.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace xdpgpu::gpu {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Asks for huge pages for what lies within so much memory that was not used yet. It is advice: where it is
// not taken the pages are small.
inline void advise_huge_pages(void* memory, std::size_t bytes) noexcept {
  const std::size_t skipped = (kHugePage - reinterpret_cast<std::uintptr_t>(memory) % kHugePage) % kHugePage;
  if (bytes < skipped + kHugePage) return;
  madvise(static_cast<char*>(memory) + skipped, (bytes - skipped) / kHugePage * kHugePage, MADV_HUGEPAGE);
}

template <class T>
struct LargeAllocator {
  using value_type = T;

  LargeAllocator() = default;
  template <class U>
  LargeAllocator(const LargeAllocator<U>&) noexcept {
  }  // NOLINT(google-explicit-constructor): allocators convert

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    const bool large = bytes >= 2 * kHugePage;
    const std::size_t rounded = large ? (bytes + kHugePage - 1) / kHugePage * kHugePage : bytes;
    void* const memory = large ? std::aligned_alloc(kHugePage, rounded) : std::malloc(rounded);
    if (memory == nullptr) throw std::bad_alloc();
    if (large) advise_huge_pages(memory, rounded);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }
  bool operator==(const LargeAllocator&) const = default;
};

template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace xdpgpu::gpu
