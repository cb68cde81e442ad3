// SPDX-License-Identifier: MIT
//
// gpu/vulkan/memory.hpp: buffers that shaders reach by address.
#pragma once

#include <span>

#include "gpu/gpu.hpp"
#include "gpu/vulkan/context.hpp"

namespace xdpgpu::gpu::vulkan {

struct Buffer {
  Unique<vk::DeviceMemory> memory;
  Unique<vk::Buffer> buffer;  // goes before its memory
  vk::DeviceAddress address = 0;
  void* mapped = nullptr;  // host memory only

  // Lets go of the handles without freeing anything.
  void abandon() noexcept;
};

// Memory that host and device share without flushes; cached by the host where possible.
Result<Buffer> host_buffer(const Context& context, u64 bytes);
// The device's own memory, with `words` in it and `behind` right after them, once this returns.
Result<Buffer> device_buffer(Context& context, std::span<const u32> words, std::span<const u64> behind);
// The device's own memory, zeroed once this returns, but for its end, which has these words.
Result<Buffer> zeroed_buffer(Context& context, u64 bytes, std::span<const u32> end = {});
// The device's own memory, for a dispatch whose size shaders say: three words, and one more.
inline constexpr u32 kDispatchWords = 4;
Result<Buffer> dispatch_buffer(const Context& context);
// Copies words.size() words of the device's own memory, from word `first` on.
Result<void> read_buffer(Context& context, const Buffer& from, u64 first, std::span<u32> words);
// Has `edit` change all `words` words of the device's own memory, while `queue`, on which all is done that
// uses them, is at nothing: what is submitted meanwhile waits.
Result<void> edit_buffer(Context& context, const Buffer& at, u64 words, HardwareQueue& queue,
                         const Device::Edit& edit);
// Writes these words of the device's own memory, counted from word `begin` on, while no hardware queue has
// anything.
Result<void> change_buffer(Context& context, const Buffer& at, u64 begin,
                           std::span<const ChangedWords> changes);
// The host's memory [base, base + bytes), imported. The error says what of it the device does not take.
Result<Buffer> import_buffer(const Context& context, void* base, u64 bytes);

}  // namespace xdpgpu::gpu::vulkan
