// SPDX-License-Identifier: MIT
#include "userspace/dataplane/frame_region.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "userspace/dataplane/placement.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u64 kHugePage = 2u << 20;
constexpr u64 kPage = 4096;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, Linux 6.1

// memory: a file to stand in; -1: none.
void* map_pages(u64 bytes, int extra, int memory) {
  if (memory >= 0 && ftruncate(memory, static_cast<off_t>(bytes)) != 0) return nullptr;
  const int where = memory >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | extra;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, where, memory, 0);
  if (at != MAP_FAILED) return at;
  const int error = errno;
  if (memory >= 0) (void)!ftruncate(memory, 0);
  errno = error;
  return nullptr;
}

// Ordinary pages, aligned so that the kernel can back them with transparent huge pages.
void* map_aligned(u64 bytes, int memory) {
  void* reserved =
      mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* at = static_cast<u8*>(reserved);
  const u64 skip = (kHugePage - reinterpret_cast<std::uintptr_t>(at) % kHugePage) % kHugePage;
  if (skip) munmap(at, skip);
  if (kHugePage - skip) munmap(at + skip + bytes, kHugePage - skip);
  if (memory >= 0 && ftruncate(memory, static_cast<off_t>(bytes)) != 0) return nullptr;
  const int where = memory >= 0 ? MAP_SHARED | MAP_FIXED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  void* mapped = mmap(at + skip, bytes, PROT_READ | PROT_WRITE, where, memory, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

void FrameRegion::prefer(const FrameShare& share) {
  if (share.node < 0 || share.count == 0) return;
  if (auto preferred = prefer_node(base_ + chunk_of(share.first), chunk_of(share.chunks()),
                                   huge_ ? kHugePage : kPage, share.node);
      !preferred)
    notes_.push_back(fmt::format(
        "{} frames are not kept on NUMA node {}, where their NIC is: {}; packets may cross between nodes",
        share.count, share.node, preferred.error()));
}

Result<std::unique_ptr<FrameRegion>> FrameRegion::create(u32 chunks, bool huge_pages,
                                                         std::span<const FrameShare> shares,
                                                         FrameMemory memory) {
  std::unique_ptr<FrameRegion> region(new FrameRegion);
  region->bytes_ = (u64{chunks} * XG_CHUNK_SIZE + kHugePage - 1) / kHugePage * kHugePage;
  if (huge_pages) {
    region->base_ = static_cast<u8*>(map_pages(region->bytes_, MAP_HUGETLB, memory.huge));
    region->huge_ = region->base_ != nullptr;
    if (!region->huge_)
      region->notes_.push_back(fmt::format(
          "the frame region uses ordinary pages: {} huge pages of 2 MiB are needed and could not be had "
          "({}); write their number to /proc/sys/vm/nr_hugepages",
          region->bytes_ / kHugePage, std::strerror(errno)));
  }
  if (!region->base_) region->base_ = static_cast<u8*>(map_aligned(region->bytes_, memory.ordinary));
  if (!region->base_)
    return tl::unexpected(fmt::format("cannot map {} MiB for frames: {}; lower io.frames_per_queue",
                                      region->bytes_ >> 20, std::strerror(errno)));
  if (!region->huge_) madvise(region->base_, region->bytes_, MADV_HUGEPAGE);
  // Pinned pages and copy-on-write do not go together: a forked child has no use for the frames.
  madvise(region->base_, region->bytes_, MADV_DONTFORK);
  // A page stands where it was wanted when it was touched first.
  for (const FrameShare& share : shares) region->prefer(share);
  std::memset(region->base_, 0, region->bytes_);
  // Of a file in memory the kernel makes huge pages only when it is asked to, and before they are pinned.
  if (!region->huge_ && memory.ordinary >= 0) madvise(region->base_, region->bytes_, kCollapse);
  return region;
}

FrameRegion::~FrameRegion() {
  if (base_) munmap(base_, bytes_);
}

}  // namespace xdpgpu::dataplane
