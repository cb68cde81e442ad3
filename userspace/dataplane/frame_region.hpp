// SPDX-License-Identifier: MIT
//
// userspace/dataplane/frame_region.hpp: the one memory that NIC, workers and device share, cut into
// chunks of XG_CHUNK_SIZE bytes, and each worker's list of free chunks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "maps/packet.h"
#include "userspace/dataplane/result.hpp"

namespace xdpgpu::dataplane {

// A frame is a chunk of the region, named by its number; its packet's address in rings and descriptors
// is an offset from the region's start.
using FrameId = u32;
inline FrameId frame_of(u64 offset) { return static_cast<FrameId>(offset / XG_CHUNK_SIZE); }
inline u64 chunk_of(FrameId frame) { return u64{frame} * XG_CHUNK_SIZE; }

// Frames that follow each other, the NUMA node that they are to be on (-1: on any), and how many chunks it is
// from one to the next, a power of two: a packet fits one, but a driver may want room behind it.
struct FrameShare {
  FrameId first = 0;
  u32 count = 0;
  int node = -1;
  u32 step = 1;

  u32 chunks() const noexcept { return count * step; }
};

// Where the region is to stand, so that who made these still reads it when this process has died: files in
// memory (memfd_create), borrowed. -1: nowhere but in this process.
struct FrameMemory {
  int ordinary = -1;
  int huge = -1;  // of huge pages
};

// Page-aligned, zeroed memory that is not inherited by fork. Unmapped by the destructor, so sockets,
// UMEMs and devices that use it must be gone by then.
class FrameRegion {
 public:
  // huge_pages asks for 2 MiB pages from the kernel's pool; where the pool is too small, ordinary
  // pages are taken. Frames that are to be on a node are there as far as it has memory; a page that two
  // shares have a part of is where the later one wants it. notes() says what was not to be had, and what
  // to do.
  static Result<std::unique_ptr<FrameRegion>> create(u32 chunks, bool huge_pages,
                                                     std::span<const FrameShare> shares = {},
                                                     FrameMemory memory = {});
  ~FrameRegion();
  FrameRegion(const FrameRegion&) = delete;
  FrameRegion& operator=(const FrameRegion&) = delete;

  u8* base() const noexcept { return base_; }
  u64 bytes() const noexcept { return bytes_; }
  bool huge() const noexcept { return huge_; }
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  FrameRegion() = default;
  void prefer(const FrameShare& share);
  u8* base_ = nullptr;
  u64 bytes_ = 0;
  bool huge_ = false;
  std::vector<std::string> notes_;
};

// The free frames of one worker: a stack, so that the frames used are the ones still in the caches.
// Never grows: a worker's frames stay with it.
class FreeList {
 public:
  explicit FreeList(const FrameShare& share) : share_(share), frames_(share.count), size_(share.count) {
    for (u32 i = 0; i < size_; ++i) frames_[i] = share.first + (size_ - 1 - i) * share.step;
  }
  // Room for the same frames, none of which is in it.
  static FreeList empty_like(const FreeList& other) {
    FreeList list(other.share_);
    list.size_ = 0;
    return list;
  }
  // Where it stands among the chunks of this worker's frames: below span(), if it is one of them.
  u32 place(FrameId frame) const noexcept { return frame - share_.first; }
  u32 span() const noexcept { return share_.chunks(); }
  bool owns(FrameId frame) const noexcept {
    return place(frame) < span() && (place(frame) & (share_.step - 1)) == 0;
  }
  u32 size() const noexcept { return size_; }
  u32 capacity() const noexcept { return static_cast<u32>(frames_.size()); }
  FrameId pop() noexcept { return frames_[--size_]; }
  void push(FrameId frame) noexcept { frames_[size_++] = frame; }
  // Places for `count` more, to be written at once; and the `count` that are popped, to be read at once.
  FrameId* grow(u32 count) noexcept { return frames_.data() + std::exchange(size_, size_ + count); }
  const FrameId* shrink(u32 count) noexcept { return frames_.data() + (size_ -= count); }
  const FrameShare& share() const noexcept { return share_; }
  // For the conservation check at the end.
  const std::vector<FrameId>& storage() const noexcept { return frames_; }

 private:
  FrameShare share_;
  std::vector<FrameId> frames_;
  u32 size_;
};

}  // namespace xdpgpu::dataplane
